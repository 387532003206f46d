"""Wiring: configuration in, running processes out. No globals but oslo.config's own conventions."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from keystoneauth1 import exceptions as ka_exceptions
from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator import opts, store
from cleanup_orchestrator.cloud import catalog, protection, session
from cleanup_orchestrator.core.redact import short
from cleanup_orchestrator.engine import deletions, keystone_listener, orphan_scans
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.messaging import notifications, rpc
from cleanup_orchestrator.monitoring import health, reports
from cleanup_orchestrator.monitoring import server as monitoring_server
from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.worker import orphan_scan, worker
from cleanup_orchestrator.worker.context import WorkerContext

LOG = log.getLogger(__name__)
PROJECT = "cleanup-orchestrator"

OPTS = {
    "DEFAULT": [
        cfg.IntOpt(
            "graceful_stop_timeout",
            default=60,
            min=0,
            help="Seconds that a process which is told to stop (SIGTERM) gives to what is under way: steps, decisions, "
            "requests. Then workers give the steps that are still under way back to the queue, where others take them "
            "at once, and the process ends. The unit's TimeoutStopSec has to be longer by some 20 seconds.",
        )
    ]
}

#: Seconds in which write calls that are under way at the very end may still be answered.
_LAST_CALLS = 5.0


def load(argv: Sequence[str] = (), prog: str = PROJECT, description: str | None = None) -> cfg.ConfigOpts:
    """Read configuration and set up logging.

    Files: ``--config-file`` where given, else ``/etc/cleanup-orchestrator/cleanup-orchestrator.conf`` and the other
    places of oslo.config for this project. It is ``cfg.CONF`` that is filled, because libraries register options there.
    """
    conf = cfg.CONF
    conf.reset()
    opts.register(conf)
    our_log.register(conf)
    reports.register(conf)
    conf(list(argv), project=PROJECT, prog=prog, description=description)
    our_log.setup(conf)
    return conf


class Parts:
    """What the processes are made of, each part built once, when it is first needed."""

    def __init__(self, conf: cfg.ConfigOpts, in_process: bool = False) -> None:
        self.conf = conf
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self.store, self.announcer = self._store()
        self.clouds = session.Clouds(conf)
        self.registry = registry.load()
        self.registry.register_options(conf)
        names = {s.service_type: tuple(t.name for t in s.types) for s in self.registry.services.values()}
        self.coverage = catalog.ServiceCatalog(conf, names)
        self.in_process = in_process
        self.transport = rpc.transport(conf, in_process)
        self.bus = rpc.Caster(self.transport)

    def _store(self) -> tuple[store.Store, notifications.Announcer | None]:
        sender = rpc.notifier(self.conf, notifications.publisher_id())
        if sender is None:
            return store.Store.from_conf(self.conf), None
        announcing = notifications.AnnouncingStore.from_conf(self.conf)
        assert isinstance(announcing, notifications.AnnouncingStore)
        announcing.announcer = notifications.Announcer(sender, announcing.steps)
        return announcing, announcing.announcer

    def engine(self) -> deletions.Engine:
        """Return an engine."""
        protection.check_lien_types(self.conf, self.registry)
        return deletions.Engine(self.conf, f"engine@{self.name}", self.store, self.bus)

    def worker(self) -> worker.Worker:
        """Return a worker."""
        protection.check_lien_types(self.conf, self.registry)
        name = f"worker@{self.name}"
        context = WorkerContext(self.conf, name, self.store, self.clouds, self.registry, self.coverage, self.bus)
        return worker.Worker(context)

    def api(self) -> Any:
        """Return the WSGI application."""
        from cleanup_orchestrator.api import app

        return app.build(self.conf, self.store, self.clouds, self.coverage, self.bus, self.broker())

    def broker(self) -> Callable[[], None] | None:
        """Return what raises when the broker does not answer; none: there is no broker."""
        return None if self.in_process else lambda: rpc.check(self.transport)

    def health(self, names: Iterable[str], *workers: worker.Worker) -> health.Health:
        """Return the health check of a process that consists of these: ``api``, ``engine``, ``worker``."""
        parts = [health.Part("store", self.store.ping, needed=True)]
        if {"api", "worker"} & set(names):  # an engine decides, and asks Keystone nothing
            parts.append(health.Part("keystone", lambda: health.keystone(self.clouds), needed=True))
        if broker := self.broker():
            parts.append(health.Part("bus", broker, needed=False, without="what is due is found by the tick, later"))
        parts += [health.Part("steps", part.sound, needed=True) for part in workers]
        return health.Health(parts)

    def log_in(self) -> None:
        """Get the orchestrator's own token.

        :raises CleanupError: when Keystone gives none
        """
        try:
            self.clouds.project_id()
        except ka_exceptions.ClientException as error:
            raise CleanupError(f"[{session.GROUP}]: Keystone gives no token: {error}") from error


class Running:
    """Engines, workers and the API of one process, and their orderly end."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.stop = threading.Event()
        self._names: list[str] = []
        self._servers: list[Any] = []
        self._engines: list[deletions.Engine] = []
        self._workers: list[worker.Worker] = []
        self._scanners: list[orphan_scan.Scanner] = []
        self._threads: list[threading.Thread] = []
        self._http: Any = None
        self._monitoring: monitoring_server.Server | None = None

    def start_engine(self) -> None:
        """Take casts for engines, and tick; hear from Keystone, where the operator wants that.

        :raises cleanup_orchestrator.errors.CleanupError: it is to hear from Keystone, which gives no token
        """
        part = self.parts.engine()
        self._engines.append(part)
        self._names.append("engine")
        scans = orphan_scans.Scans(self.parts.conf, self.parts.store, self.parts.bus)
        self._serve("engine", rpc.EngineEndpoint(part.handle, scans.handle), self.parts.conf.engine.threads)
        self._thread("tick", part.run_ticks, self.stop)
        self._thread("orphan-scans", scans.run_ticks, self.stop)
        options = self.parts.conf[keystone_listener.GROUP]
        if options.listen:
            self.parts.log_in()
            heard = keystone_listener.Listener(self.parts.store, self.parts.clouds, self.parts.bus)
            self._start(rpc.notifications(self.parts.conf, options.exchange, options.topic, heard), 1)

    def start_worker(self) -> None:
        """Take casts for workers.

        :raises cleanup_orchestrator.errors.CleanupError: the drain driver does not load, or Keystone gives no token
        """
        part = self.parts.worker()
        _ = part.context.driver, part.context.windows  # now, and not when the first project waits for it
        self.parts.log_in()
        self._workers.append(part)
        self._names.append("worker")
        scans = orphan_scan.Scanner(part.context)
        self._scanners.append(scans)
        endpoint = rpc.WorkerEndpoint(part.handle, part.force, scans.handle)
        self._serve("worker", endpoint, self.parts.conf.worker.threads)

    def start_api(self) -> None:
        """Listen for HTTP.

        :raises OSError: when the address is in use
        :raises cleanup_orchestrator.errors.CleanupError: when Keystone gives no token
        """
        from cleanup_orchestrator import http_server

        self.parts.log_in()
        conf = self.parts.conf.api
        self._http = http_server.Server(
            conf.host,
            conf.port,
            self.parts.api(),
            conf.threads,
            conf.client_timeout,
            conf.connections,
            self.parts.conf.graceful_stop_timeout,
        )
        self._names.append("api")
        self._thread("http", self._http.serve)
        LOG.info("listening on %s port %d", conf.host, conf.port)

    def start_monitoring(self) -> None:
        """Open the monitoring port, where there is to be one. Without it the work goes on all the same."""
        conf = self.parts.conf.metrics
        if not conf.port:
            return
        port = conf.port + min(monitoring_server.OFFSETS[name] for name in self._names)
        figures = self.parts.store.figures if "engine" in self._names else None
        try:
            self._monitoring = monitoring_server.Server(
                conf.host, port, self.parts.health(self._names, *self._workers), figures
            )
        except OSError as error:
            LOG.error("[metrics]: no monitoring on %s port %d: %s", conf.host, port, error)

    def _serve(self, part: str, endpoint: Any, threads: int) -> None:
        self._start(rpc.server(self.parts.transport, part, self.parts.name, endpoint), threads)

    def _start(self, server: Any, threads: int) -> None:
        server.start(override_pool_size=threads)
        self._servers.append(server)

    def _thread(self, name: str, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def wait(self) -> bool:
        """Run until SIGTERM or SIGINT, then finish what is under way and stop; SIGHUP has the configuration read again.

        A second SIGTERM or SIGINT ends the process at once.

        :returns: whether everything has ended; if not, something hangs that would keep the process from ending
        """
        signals: queue.SimpleQueue[int] = queue.SimpleQueue()  # may be put into by a signal handler, unlike others
        ends = (signal.SIGTERM, signal.SIGINT)

        def heard(number: int, _frame: Any) -> None:
            if number in ends:
                for end in ends:
                    signal.signal(end, signal.SIG_DFL)
            signals.put(number)

        for each in (*ends, signal.SIGHUP):
            signal.signal(each, heard)
        while not self.stop.is_set():
            try:
                number = signals.get(timeout=1)
            except queue.Empty:
                continue
            if number == signal.SIGHUP:
                self.reload()
            else:
                LOG.info("%s: stopping", signal.Signals(number).name)
                break
        return self.close()

    def reload(self) -> None:
        """Read the configuration again, and take over what may change at run time."""
        try:
            changed = self._mutate()
        except Exception as error:  # a file that is being written, or has a mistake: the process goes on as it was
            LOG.error("SIGHUP: the configuration stays as it was: %s", error)
            return
        for part in self._engines:
            part.reread()
        names = ", ".join(sorted(f"[{group or 'DEFAULT'}] {name}" for group, name in changed)) or "nothing"
        LOG.info("SIGHUP: changed: %s", names)

    def _mutate(self) -> dict[Any, Any]:
        try:
            changed: dict[Any, Any] = self.parts.conf.mutate_config_files()
            # oslo.config clears its cache of values before it reads the files, and not after: a thread that reads an
            # option meanwhile puts the old value back, to stay. Once more: now it can only put back the new one. Even
            # if the files cannot be read now: the cache is cleared first, and what was taken over is in force.
            with contextlib.suppress(Exception):
                self.parts.conf.mutate_config_files()
            return changed
        finally:
            our_log.redact_handlers()  # oslo.log may have read its own file again, and made new ones

    def close(self) -> bool:
        """Take no new work, finish what is under way, hand back what does not end in time, let go of everything.

        :returns: whether everything has ended
        """
        self.stop.set()
        for scans in self._scanners:
            scans.stop()
        deadline = time.monotonic() + self.parts.conf.graceful_stop_timeout
        # Each in its own thread: a broker that is away keeps a server from stopping, and one step the others.
        ends = [_thread("stop", self._end, server) for server in self._servers]
        if self._http is not None:
            ends.append(_thread("stop", self._http.stop))
        ended = _join((*ends, *self._threads), deadline)
        if not ended:
            LOG.info("stopping: what is still under way is handed back")
            backs = [_thread("hand-back", part.release_claims, _LAST_CALLS) for part in self._workers]
            _join(backs, time.monotonic() + 2 * _LAST_CALLS)
            ended = _join((*ends, *self._threads), time.monotonic() + 1)
        if self.parts.announcer is not None:
            self.parts.announcer.close(_LAST_CALLS)
        if self._monitoring is not None:
            _join([_thread("stop", self._monitoring.close)], time.monotonic() + 2)
        _join([_thread("stop", part.context.budget.close) for part in self._workers], time.monotonic() + 2)
        ended = ended and not any(part.hung for part in self._workers)
        if ended:
            self.parts.store.close()
        return ended

    def _end(self, server: Any) -> None:
        rpc.leave(server)
        for part in self._workers:  # after it: a cast that is passed on must not come back to us
            part.refuse()
        server.wait()


def _thread(name: str, target: Callable[..., Any], *args: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    thread.start()
    return thread


def _join(threads: Iterable[threading.Thread], deadline: float) -> bool:
    """Wait for threads until a monotonic time; return whether all have ended."""
    threads = tuple(threads)
    for thread in threads:
        thread.join(timeout=max(0.0, deadline - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def main(
    prog: str, description: str, *starters: str, check: Callable[[cfg.ConfigOpts], None], in_process: bool = False
) -> int:
    """Run a process of the given parts until it is told to stop; return its exit code.

    :param check: raises when the database is not what this release works with
    """
    running = None
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is served: by default it would end the process
    try:
        conf = load(sys.argv[1:], prog, description)
        reports.setup(conf, prog)
        check(conf)
        running = Running(Parts(conf, in_process))
        rpc.check(running.parts.transport)
        for starter in starters:
            getattr(running, f"start_{starter}")()
        running.start_monitoring()
    except Exception as error:
        LOG.debug("start-up failed", exc_info=True)
        if running is not None:
            running.close()
        print(f"{prog}: {short(str(error), 500)}", file=sys.stderr)
        return 1
    if not running.wait():
        # Threads that hang in a call would be waited for, for ever. Nothing is lost: their steps are handed back.
        logging.shutdown()
        os._exit(0)
    return 0
