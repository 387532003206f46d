"""Parts of a deletion, each run by a worker process that is killed at a chosen effect. Against a real Keystone."""

from __future__ import annotations

import pathlib
import types

from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.actions import Dispatch, apply
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.step import StepKind, StepState
from cleanup_orchestrator.engine.deletions import Engine
from cleanup_orchestrator.store import Store
from cleanup_orchestrator.worker.worker import Worker
from tests.support import mortal
from tests.support.stores import save


def run(what: str, config: pathlib.Path, deletion_id: str, die_before: int = 0) -> tuple[bool, list[str]]:
    """Run a part in a separate process: ``lock`` the project completely, ``survey``, or ``cancel``.

    :param die_before: number of the effect; 0: none
    :returns: whether it reached its end, and the effects
    """
    return mortal.run(_DOES[what], config, deletion_id, die_before=die_before)


def _parts(config: pathlib.Path, fuse: mortal.Fuse) -> tuple[Store, Engine, Worker]:
    silent_bus = types.SimpleNamespace(steps=lambda _: None, decide=lambda _: None)
    parts = mortal.parts(config, fuse, silent_bus)
    parts.bus = silent_bus  # other tests check the messages
    return parts.store, parts.engine(), parts.worker()


def _do(store: Store, worker: Worker, deletion_id: str, kind: StepKind) -> None:
    record, steps, now = store.load(deletion_id)
    step = next(s for s in steps if s.kind is kind)
    applied = apply(record, steps, (Dispatch(step.id),), now)
    save(store, record, applied.deletion, applied.steps)
    worker.handle(step.id)


def lock(config: pathlib.Path, fuse: mortal.Fuse, deletion_id: str) -> None:
    store, _, worker = _parts(config, fuse)
    for kind in (StepKind.ACCESS, StepKind.DRAIN, StepKind.CLOSE):
        _do(store, worker, deletion_id, kind)


def survey(config: pathlib.Path, fuse: mortal.Fuse, deletion_id: str) -> None:
    store, _, worker = _parts(config, fuse)
    _do(store, worker, deletion_id, StepKind.SURVEY)


def cancel(config: pathlib.Path, fuse: mortal.Fuse, deletion_id: str) -> None:
    store, engine, worker = _parts(config, fuse)
    record = store.get(deletion_id)
    if record.status is not Status.CANCELLING:
        save(store, record, transitions.move(record, Status.CANCELLING, transitions.By.USER, store.now(), "cancel"))
    while store.get(deletion_id).status is Status.CANCELLING:
        for step in store.steps(deletion_id):
            if step.state is StepState.RUNNING:
                store.renew(step, -1)  # the lease of a killed process expires
        engine.handle(deletion_id)
        for step in store.steps(deletion_id):
            if step.state is StepState.DISPATCHED:
                worker.handle(step.id)


_DOES = {"lock": lock, "survey": survey, "cancel": cancel}
