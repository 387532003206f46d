"""A worker's process that dies at a chosen effect: right before a write, to the store or to Keystone, becomes real.

Between two effects nothing changes that outlives the process. So dying right before each of them is dying anywhere.
"""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import signal
import types

import sqlalchemy as sa

from cleanup_orchestrator import service, transitions
from cleanup_orchestrator.actions import Dispatch, apply
from cleanup_orchestrator.clouds import SAFE_METHODS, GuardedSession
from cleanup_orchestrator.drain import base
from cleanup_orchestrator.engine import Engine
from cleanup_orchestrator.model import Kind, State, Status
from cleanup_orchestrator.store import Store
from cleanup_orchestrator.worker import Worker

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])


class Fuse:
    """Counts effects, notes each in a file, and ends the process right before one of them."""

    def __init__(self, log: pathlib.Path, length: int) -> None:
        self._log, self._left = log.open("w", buffering=1), length

    def effect(self, what: str) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._log.write(f"{what}\n")

    def watch_store(self, store: Store) -> None:
        """A transaction that wrote is an effect at its commit; one that does not get there is rolled back."""

        @sa.event.listens_for(store._engine, "begin")
        def begin(connection):
            connection.info.pop("wrote", None)

        @sa.event.listens_for(store._engine, "before_cursor_execute")
        def execute(connection, cursor, statement, *_):
            verb, *rest = statement.split(maxsplit=2)
            # The shares of the rate budget are asked for whenever somebody calls: they are nobody's record.
            if verb in ("INSERT", "UPDATE", "DELETE") and "account" not in statement.split("(")[0]:
                connection.info["wrote"] = " ".join([verb, *rest[: 1 if verb == "UPDATE" else 2]]).split("(")[0]

        @sa.event.listens_for(store._engine, "commit")
        def commit(connection):
            if what := connection.info.get("wrote"):
                self.effect(f"store: {what}")

    def watch_keystone(self) -> None:
        """Every write call is one."""
        request = GuardedSession.request

        def watched(session, url, method, **kwargs):
            authenticating = kwargs.get("authenticated") is False
            if method.upper() not in SAFE_METHODS and not authenticating:
                self.effect(f"keystone: {method} {url.split('/')[1]}")
            return request(session, url, method, **kwargs)

        GuardedSession.request = watched


def run(what: str, config: pathlib.Path, deletion_id: str, die_before: int = 0) -> tuple[bool, list[str]]:
    """Do it in a process of its own: ``lock`` its project to the last turn, ``survey``, or ``cancel``.

    :param die_before: number of the effect; 0: none
    :returns: whether it came to its end, and the effects
    """
    log = config.with_name("effects")
    process = _PROCESSES.Process(target=_DOES[what], args=(config, deletion_id, log, die_before))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode == 0, log.read_text().splitlines()


def _parts(config: pathlib.Path, log: pathlib.Path, die_before: int) -> tuple[Store, Engine, Worker]:
    parts = service.Parts(service.load(["--config-file", str(config)]), in_process=True)
    parts.bus = types.SimpleNamespace(step=lambda _: None, deletion=lambda _: None)
    base.time = types.SimpleNamespace(sleep=lambda _: None)  # what is waited for has its own tests
    base.PROBES = 1
    parts.log_in()
    fuse = Fuse(log, die_before)
    fuse.watch_store(parts.store)
    fuse.watch_keystone()
    return parts.store, parts.engine(), parts.worker()


def _do(store: Store, worker: Worker, deletion_id: str, kind: Kind) -> None:
    record, steps, now = store.load(deletion_id)
    step = next(s for s in steps if s.kind is kind)
    applied = apply(record, steps, (Dispatch(step.id),), now)
    store.save(record, applied.deletion, applied.steps)
    worker.handle(step.id)


def _lock(config: pathlib.Path, deletion_id: str, log: pathlib.Path, die_before: int) -> None:
    store, _, worker = _parts(config, log, die_before)
    for kind in (Kind.ACCESS, Kind.DRAIN, Kind.CLOSE):
        _do(store, worker, deletion_id, kind)


def _survey(config: pathlib.Path, deletion_id: str, log: pathlib.Path, die_before: int) -> None:
    store, _, worker = _parts(config, log, die_before)
    _do(store, worker, deletion_id, Kind.SURVEY)


def _cancel(config: pathlib.Path, deletion_id: str, log: pathlib.Path, die_before: int) -> None:
    store, engine, worker = _parts(config, log, die_before)
    record = store.get(deletion_id)
    if record.status is not Status.CANCELLING:
        store.save(record, transitions.move(record, Status.CANCELLING, transitions.By.USER, store.now(), "cancel"))
    while store.get(deletion_id).status is Status.CANCELLING:
        for step in store.steps(deletion_id):
            if step.state is State.RUNNING:
                store.renew(step, -1)  # of a process that died: time goes by
        engine.handle(deletion_id)
        for step in store.steps(deletion_id):
            if step.state is State.DISPATCHED:
                worker.handle(step.id)


_DOES = {"lock": _lock, "survey": _survey, "cancel": _cancel}
