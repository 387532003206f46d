"""Builds the processes from the configuration, runs them and stops them."""

from __future__ import annotations

import contextlib
import datetime
import functools
import gc
import importlib
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
from cleanup_orchestrator.cloud import catalog, connections, protection, protocol_options
from cleanup_orchestrator.core.redact import short
from cleanup_orchestrator.engine import deletions, keystone_listener
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.messaging import background, notifications, rpc
from cleanup_orchestrator.monitoring import health, reports
from cleanup_orchestrator.monitoring import server as monitoring_server
from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.contract import SUPPORTED_VERSIONS
from cleanup_orchestrator.protocol import discovery
from cleanup_orchestrator.worker.context import WorkerContext
from cleanup_orchestrator.worker.worker import Worker

LOG = log.getLogger(__name__)
PROJECT = "cleanup-orchestrator"

OPTS = {
    "DEFAULT": [
        cfg.IntOpt(
            "graceful_stop_timeout",
            default=60,
            min=0,
            help="Seconds that a process waits after SIGTERM for the steps, decisions and requests under way. Then a "
            "worker releases its claims on the steps that are still under way, so that other workers can claim them "
            "at once, and the process ends. TimeoutStopSec of the unit must be about 20 seconds longer.",
        )
    ]
}

#: Seconds to wait for the answers of write calls that are under way when the process ends.
_LAST_CALLS = 5.0


def load(argv: Sequence[str] = (), prog: str = PROJECT, description: str | None = None) -> cfg.ConfigOpts:
    """Read the configuration and set up logging.

    The files are those of ``--config-file``, or ``/etc/cleanup-orchestrator/cleanup-orchestrator.conf`` and the other
    default files of oslo.config. The configuration is ``cfg.CONF``, because libraries register their options there.
    """
    conf = cfg.CONF
    conf.reset()
    opts.register(conf)
    our_log.register(conf)
    reports.register(conf)
    conf(list(argv), project=PROJECT, prog=prog, description=description)
    our_log.setup(conf)
    return conf


class Components:
    """The parts that the processes consist of."""

    versions = SUPPORTED_VERSIONS  #: of the plugin contract

    def __init__(self, conf: cfg.ConfigOpts, in_process: bool = False) -> None:
        self.conf = conf
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self.store, self.announcer = self._store()
        self.clouds = connections.Clouds(conf)
        self.in_process = in_process
        self.transport = rpc.transport(conf, in_process)
        self.bus: rpc.Bus = rpc.Caster(self.transport)

    @functools.cached_property
    def registry(self) -> registry.Registry:
        """The installed plugins, with their options registered.

        Loaded at first use, because an engine needs none.

        :raises cleanup_orchestrator.errors.CleanupError: if a plugin must not run
        """
        loaded = registry.load(self.versions)
        for warning in loaded.deprecations:
            LOG.warning("%s", warning)
        loaded.register_options(self.conf)
        return loaded

    @functools.cached_property
    def catalog(self) -> catalog.ServiceCatalog:
        """How the catalog entries are covered."""
        names = {s.service_type: tuple(t.name for t in s.types) for s in self.registry.services.values()}
        facts = {
            s.service_type: tuple(
                catalog.TypeFacts(t.name, t.force is not None, t.if_abandoned, t.variant_of) for t in s.types
            )
            for s in self.registry.services.values()
        }
        return catalog.ServiceCatalog(self.conf, names, facts=facts)

    def _check_protocol(self) -> None:
        """Check the options of ``[protocol]``.

        :raises cleanup_orchestrator.errors.CleanupError: one of them is not valid
        """
        protocol_options.endpoints(self.conf)
        protocol_options.prefer(self.conf)

    def _store(self) -> tuple[store.Store, notifications.Announcer | None]:
        made = store.Store.from_conf(self.conf)
        sender = rpc.notifier(self.conf, notifications.publisher_id())
        if sender is None:
            return made, None
        announcer = notifications.Announcer(
            sender,
            made.steps,
            lambda: datetime.timedelta(days=self.conf.deletion.recovery_window),
        )
        made.on_commit(announcer)
        return made, announcer

    def engine(self) -> deletions.Engine:
        """Return an engine."""
        self._check_protection()
        return deletions.Engine(self.conf, f"engine@{self.name}", self.store, self.bus)

    def worker(self) -> Worker:
        """Return a worker."""
        self._check_protection()
        self._check_protocol()
        importlib.import_module("openstack.connection")  # now, and not in the first step
        name = f"worker@{self.name}"
        context = WorkerContext(self.conf, name, self.store, self.clouds, self.registry, self.catalog, self.bus)
        return Worker(context)

    def _check_protection(self) -> None:
        """Check that plugins have the types that raise liens, and the uses that are ignored.

        :raises cleanup_orchestrator.errors.CleanupError: if they have not
        """
        if names := protection.lien_types(self.conf):
            self.registry.expect_ordinary(names, "[protection] lien_types")
        if names := protection.ignored_uses(self.conf):
            self.registry.expect_uses(names, "[protection] ignored_uses")

    def api(self) -> Any:
        """Return the WSGI application."""
        from cleanup_orchestrator.api import app

        self._check_protocol()
        services = discovery.Discovery(self.conf, self.store, self.clouds, self.registry).showing_records()
        services_of_catalog = self.catalog.with_protocol(services)
        return app.build(self.conf, self.store, self.clouds, services_of_catalog, self.bus, self.broker())

    def broker(self) -> Callable[[], None] | None:
        """Return a function that raises if the broker does not answer.

        Returns ``None`` if there is no broker.
        """
        return None if self.in_process else lambda: rpc.check(self.transport)

    def health(self, names: Iterable[str], *workers: Worker) -> health.Health:
        """Return the health check of a process.

        :param names: its parts: ``api``, ``engine``, ``worker``
        """
        parts = [health.Part("store", self.store.ping, needed=True)]
        if {"api", "worker"} & set(names):  # an engine makes no call to Keystone
            parts.append(health.Part("keystone", self.clouds.check, needed=True))
        if broker := self.broker():
            parts.append(health.Part("bus", broker, needed=False, without="the tick starts the work, later"))
        parts += [health.Part("steps", part.sound, needed=True) for part in workers]
        return health.Health(parts)

    def log_in(self) -> None:
        """Get a token for the orchestrator's user.

        :raises CleanupError: if Keystone gives none
        """
        try:
            self.clouds.project_id()
        except ka_exceptions.ClientException as error:
            raise CleanupError(f"[{connections.GROUP}]: Keystone gives no token: {error}") from error


class Running:
    """Runs the engines, workers and the API of one process, and stops them."""

    def __init__(self, components: Components) -> None:
        self.components = components
        self.stop = threading.Event()
        self._names: list[str] = []
        self._servers: list[Any] = []
        self._engines: list[deletions.Engine] = []
        self._workers: list[Worker] = []
        self._threads: list[threading.Thread] = []
        self._http: Any = None
        self._monitoring: monitoring_server.Server | None = None

    def start_engine(self) -> None:
        """Start an engine: its RPC server, its ticks, and optionally its listener.

        The listener receives Keystone's notifications.

        :raises cleanup_orchestrator.errors.CleanupError: if the listener is on and Keystone gives no token
        """
        part = self.components.engine()
        self._engines.append(part)
        self._names.append("engine")
        self._serve("engine", rpc.EngineEndpoint(part.handle), self.components.conf.engine.threads)
        self._thread("tick", part.run_ticks, self.stop)
        self._thread("alarms", part.alarms.run)
        options = self.components.conf[keystone_listener.GROUP]
        if options.listen:
            self.components.log_in()
            heard = keystone_listener.Listener(self.components.store, self.components.clouds, self.components.bus)
            self._start(rpc.notifications(self.components.conf, options.exchange, options.topic, heard), 1)

    def start_worker(self) -> None:
        """Start a worker: its RPC server.

        :raises cleanup_orchestrator.errors.CleanupError: if the drain driver does not load, or Keystone gives no token
        """
        part = self.components.worker()
        _ = part.context.driver, part.context.hold_options  # fails now, not at the first deletion
        self.components.log_in()
        self._workers.append(part)
        self._names.append("worker")
        self._serve("worker", rpc.WorkerEndpoint(part.handle, part.force), self.components.conf.worker.threads)

    def start_api(self) -> None:
        """Start the API: its HTTP server.

        :raises cleanup_orchestrator.errors.CleanupError: if Keystone gives no token, or the address is in use
        """
        from cleanup_orchestrator import http_server

        self.components.log_in()
        conf = self.components.conf.api
        limits = http_server.Limits(
            conf.threads, conf.client_timeout, conf.connections, self.components.conf.graceful_stop_timeout
        )
        application = self.components.api()
        try:
            self._http = http_server.Server(conf.host, conf.port, application, limits)
        except OSError as error:
            raise CleanupError(
                f"[api]: cannot listen on {conf.host} port {conf.port}: {error.strerror or error}; stop the process "
                "that listens there, or set another [api] port, also in the catalog's endpoint"
            ) from error
        self._names.append("api")
        self._thread("http", self._http.serve)
        LOG.info("listening on %s port %d", conf.host, conf.port)

    def start_monitoring(self) -> None:
        """Open the monitoring port if it is configured. An error is only logged."""
        conf = self.components.conf.metrics
        if not conf.port:
            return
        port = conf.port + min(monitoring_server.OFFSETS[name] for name in self._names)
        figures = self.components.store.figures if "engine" in self._names else None
        try:
            self._monitoring = monitoring_server.Server(
                conf.host, port, self.components.health(self._names, *self._workers), figures
            )
        except OSError as error:
            LOG.error("[metrics]: cannot listen on %s port %d, so there is no monitoring: %s", conf.host, port, error)

    def _serve(self, part: str, endpoint: Any, threads: int) -> None:
        self._start(rpc.server(self.components.transport, part, self.components.name, endpoint), threads)

    def _start(self, server: Any, threads: int) -> None:
        server.start(override_pool_size=threads)
        self._servers.append(server)

    def _thread(self, name: str, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def wait(self, signals: queue.SimpleQueue[int]) -> bool:
        """Run until SIGTERM or SIGINT, then finish the work under way and stop.

        SIGHUP reads the configuration again. A second SIGTERM or SIGINT ends the process at once.

        :param signals: those that came during the start
        :returns: whether everything has ended; if not, a hanging thread would keep the process from ending
        """
        ends = (signal.SIGTERM, signal.SIGINT)

        def heard(number: int, _frame: Any) -> None:
            if number in ends:
                for end in ends:
                    signal.signal(end, signal.SIG_DFL)
            signals.put(number)

        for each in ends:
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
        """Read the configuration again, and apply the options that can change at run time."""
        try:
            changed = self._mutate()
        except Exception as error:  # the file is being written, or has a mistake
            LOG.error("SIGHUP: the configuration is not changed: %s", error)
            return
        for part in self._engines:
            part.reread()
        names = ", ".join(sorted(f"[{group or 'DEFAULT'}] {name}" for group, name in changed)) or "nothing"
        LOG.info("SIGHUP: changed: %s", names)

    def _mutate(self) -> dict[Any, Any]:
        try:
            changed: dict[Any, Any] = self.components.conf.mutate_config_files()
            # oslo.config clears its cache of values before it reads the files, not after: a thread that reads an
            # option meanwhile caches the old value for good. A second call clears the cache again, and threads then
            # cache the new value. This holds even if the second call cannot read the files.
            with contextlib.suppress(Exception):
                self.components.conf.mutate_config_files()
            return changed
        finally:
            our_log.redact_handlers()  # oslo.log may have read its file again and created new handlers

    def close(self) -> bool:
        """Stop: finish the work under way, release the claims on the rest, close.

        :returns: whether everything has ended
        """
        self.stop.set()
        for engine in self._engines:
            engine.alarms.stop()
        deadline = time.monotonic() + self.components.conf.graceful_stop_timeout
        # Each in its own thread: stopping a server hangs without its broker, and must not delay the others.
        ends = [_thread("stop", self._end, server) for server in self._servers]
        if self._http is not None:
            ends.append(_thread("stop", self._http.stop))
        ended = _join((*ends, *self._threads), deadline)
        if not ended:
            LOG.info("stopping: releasing the claims on the steps still under way")
            backs = [_thread("release", part.release_claims, _LAST_CALLS) for part in self._workers]
            _join(backs, time.monotonic() + 2 * _LAST_CALLS)
            ended = _join((*ends, *self._threads), time.monotonic() + 1)
        if self.components.announcer is not None:
            self.components.announcer.close(_LAST_CALLS)  # first: it gives the notices to the queues of their drivers
            background.close_all(_LAST_CALLS)
        if self._monitoring is not None:
            _join([_thread("stop", self._monitoring.close)], time.monotonic() + 2)
        _join([_thread("stop", part.context.budget.close) for part in self._workers], time.monotonic() + 2)
        ended = ended and not any(part.hung for part in self._workers)
        if ended:
            self.components.store.close()
        return ended

    def _end(self, server: Any) -> None:
        rpc.leave(server)
        for part in self._workers:  # after the server has left: a forwarded cast must not come back
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
    """Run a process with the given parts until it is stopped; return its exit code.

    :param check: raises if the database does not fit this release
    """
    running = None
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()  # unlike other queues it is safe in a signal handler
    # From now on: by default SIGHUP ends a process, and one that comes during the start may be of a file read already.
    signal.signal(signal.SIGHUP, lambda number, _frame: signals.put(number))
    try:
        conf = load(sys.argv[1:], prog, description)
        reports.setup(conf, prog)
        check(conf)
        running = Running(Components(conf, in_process))
        rpc.check(running.components.transport)
        for starter in starters:
            getattr(running, f"start_{starter}")()
        running.start_monitoring()
        gc.freeze()  # modules live as long as the process: no collection need look at them again
    except Exception as error:
        LOG.debug("start-up failed", exc_info=True)
        if running is not None:
            running.close()
        print(f"{prog}: {short(str(error), 500)}", file=sys.stderr)
        return 1
    if not running.wait(signals):
        # The interpreter would wait for hanging threads for ever. Nothing is lost: their steps were released.
        logging.shutdown()
        os._exit(0)
    return 0
