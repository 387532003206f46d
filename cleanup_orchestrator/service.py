"""Wiring: configuration in, running processes out. No globals but oslo.config's own conventions."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from keystoneauth1 import exceptions as ka_exceptions
from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator import clouds, coverage, engine, listener, opts, rpc, store, worker
from cleanup_orchestrator import log as our_log
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.plugins import registry

LOG = log.getLogger(__name__)
PROJECT = "cleanup-orchestrator"


def load(argv: Sequence[str] = (), prog: str = PROJECT, description: str | None = None) -> cfg.ConfigOpts:
    """Read configuration and set up logging.

    Files: ``--config-file`` where given, else ``/etc/cleanup-orchestrator/cleanup-orchestrator.conf`` and the other
    places of oslo.config for this project. It is ``cfg.CONF`` that is filled, because libraries register options there.
    """
    conf = cfg.CONF
    conf.reset()
    opts.register(conf)
    our_log.register(conf)
    conf(list(argv), project=PROJECT, prog=prog, description=description)
    our_log.setup(conf)
    return conf


class Parts:
    """What the processes are made of, each part built once, when it is first needed."""

    def __init__(self, conf: cfg.ConfigOpts, in_process: bool = False) -> None:
        self.conf = conf
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self.store = store.Store.from_conf(conf)
        self.clouds = clouds.Clouds(conf)
        self.registry = registry.load()
        self.registry.register_options(conf)
        names = {s.service_type: tuple(t.name for t in s.types) for s in self.registry.services.values()}
        self.coverage = coverage.Coverage(conf, names)
        self.transport = rpc.transport(conf, in_process)
        self.bus = rpc.Caster(self.transport)

    def engine(self) -> engine.Engine:
        """Return an engine."""
        return engine.Engine(self.conf, f"engine@{self.name}", self.store, self.bus)

    def worker(self) -> worker.Worker:
        """Return a worker."""
        name = f"worker@{self.name}"
        return worker.Worker(self.conf, name, self.store, self.clouds, self.registry, self.coverage, self.bus)

    def api(self) -> Any:
        """Return the WSGI application."""
        from cleanup_orchestrator.api import app

        return app.build(self.conf, self.store, self.clouds, self.coverage, self.bus)

    def log_in(self) -> None:
        """Get the orchestrator's own token.

        :raises CleanupError: when Keystone gives none
        """
        try:
            self.clouds.project_id()
        except ka_exceptions.ClientException as error:
            raise CleanupError(f"[{clouds.GROUP}]: Keystone gives no token: {error}") from error


class Running:
    """Engines, workers and the API of one process, and their orderly end."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.stop = threading.Event()
        self._servers: list[Any] = []
        self._threads: list[threading.Thread] = []
        self._http: Any = None

    def start_engine(self) -> None:
        """Take casts for engines, and tick; hear from Keystone, where the operator wants that.

        :raises cleanup_orchestrator.errors.CleanupError: it is to hear from Keystone, which gives no token
        """
        part = self.parts.engine()
        self._serve("engine", rpc.EngineEndpoint(part.handle), self.parts.conf.engine.threads)
        self._thread("tick", part.run_ticks, self.stop)
        options = self.parts.conf[listener.GROUP]
        if options.listen:
            self.parts.log_in()
            heard = listener.Listener(self.parts.store, self.parts.clouds, self.parts.bus)
            self._start(rpc.notifications(self.parts.conf, options.exchange, options.topic, heard), 1)

    def start_worker(self) -> None:
        """Take casts for workers.

        :raises cleanup_orchestrator.errors.CleanupError: the drain driver does not load, or Keystone gives no token
        """
        part = self.parts.worker()
        _ = part.driver  # now, and not when the first project waits for it
        self.parts.log_in()
        self._serve("worker", rpc.WorkerEndpoint(part.handle), self.parts.conf.worker.threads)

    def start_api(self) -> None:
        """Listen for HTTP.

        :raises OSError: when the address is in use
        :raises cleanup_orchestrator.errors.CleanupError: when Keystone gives no token
        """
        from cheroot import wsgi

        self.parts.log_in()
        conf = self.parts.conf.api
        self._http = wsgi.Server((conf.host, conf.port), self.parts.api(), numthreads=conf.threads)
        self._http.prepare()
        self._thread("http", self._http.serve)
        LOG.info("listening on %s port %d", conf.host, conf.port)

    def _serve(self, part: str, endpoint: Any, threads: int) -> None:
        self._start(rpc.server(self.parts.transport, part, self.parts.name, endpoint), threads)

    def _start(self, server: Any, threads: int) -> None:
        server.start(override_pool_size=threads)
        self._servers.append(server)

    def _thread(self, name: str, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def wait(self) -> None:
        """Run until SIGTERM or SIGINT, then finish what is under way and stop."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop.set())
        while not self.stop.wait(1):
            pass
        self.close()

    def close(self) -> None:
        """Stop taking work, finish what is under way, let go of everything."""
        self.stop.set()
        if self._http is not None:
            self._http.stop()
        for server in self._servers:
            server.stop()
        for server in self._servers:
            server.wait()
        for thread in self._threads:
            thread.join(timeout=10)
        self.parts.store.close()


def main(
    prog: str, description: str, *starters: str, check: Callable[[cfg.ConfigOpts], None], in_process: bool = False
) -> int:
    """Run a process of the given parts until it is told to stop; return its exit code.

    :param check: raises when the database is not what this release works with
    """
    running = None
    try:
        conf = load(sys.argv[1:], prog, description)
        check(conf)
        running = Running(Parts(conf, in_process))
        rpc.check(running.parts.transport)
        for starter in starters:
            getattr(running, f"start_{starter}")()
    except Exception as error:
        LOG.debug("start-up failed", exc_info=True)
        if running is not None:
            running.close()
        print(f"{prog}: {' '.join(str(error).split())[:500]}", file=sys.stderr)
        return 1
    running.wait()
    return 0
