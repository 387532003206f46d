"""Whether a step may be written now, in the database's terms.

That depends on its claim, its lease, and the holds on its deletion.

Each function works within the caller's transaction.
"""

from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import guard
from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.guard import NO_OPTIONS, Cause, HoldInputs, HoldName, HoldOptions
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.orphan_scan import SCANNING
from cleanup_orchestrator.core.step import SCANS, Step, StepState
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.store import queries
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.brake import current_brake
from cleanup_orchestrator.store.liens import current_liens


def claimed(c: Connection, step: Step) -> queries.Work | None:
    """Return the stored step with its deletion, if this claim is still the latest.

    ``None``: the step is finished, given back or claimed again, or the deletion no longer waits for it. The end
    of the lease alone does not end a claim: the result of a late worker is true until another worker claims the step.

    :param step: as its worker has it, with the fencing token of the claim
    """
    work = queries.find_work(c, step.id)
    if work is None:
        return None
    deletion, current = work.deletion, work.step
    if current.fencing_token != step.fencing_token or current.state != StepState.RUNNING:
        return None
    waiting = deletion.status in LIVE and current.round >= deletion.since_round
    return work if waiting else None


def claimed_scan(c: Connection, step: Step) -> queries.ScanWork | None:
    """Return the stored step of an orphan scan with the scan, if this claim is still the latest.

    ``None``: as in :func:`claimed`, or the scan has ended.
    """
    work = queries.find_scan_work(c, step.id)
    if work is None or work.scan.status not in SCANNING:
        return None
    current = work.step
    return work if current.fencing_token == step.fencing_token and current.state is StepState.RUNNING else None


def held(c: Connection, step: Step) -> datetime.datetime | None:
    """Return the time if this claim of a step is still the latest, whatever the step belongs to, else ``None``."""
    work = claimed_scan(c, step) if step.kind in SCANS else claimed(c, step)
    return None if work is None else work.now


#: The condition that a claim of a step is still the latest. Its parameters are those of :func:`claim`.
CLAIM_HOLDS = sa.and_(
    t.steps.c.id == sa.bindparam("claimed_id"),
    t.steps.c.fencing_token == sa.bindparam("claimed_token"),
    t.steps.c.state == StepState.RUNNING,
)

#: The condition that the deletion of a step is live and waits for it. Its parameters are those of :func:`waiting`.
WAITS_FOR = sa.and_(
    t.deletions.c.id == sa.bindparam("waiting_id"),
    t.deletions.c.status.in_(sorted(map(str, LIVE))),
    t.deletions.c.since_round <= sa.bindparam("waiting_round"),
)


def claim(step: Step) -> dict[str, Any]:
    """Return the parameters of :data:`CLAIM_HOLDS` for a claimed step."""
    return {"claimed_id": step.id, "claimed_token": step.fencing_token}


def waiting(step: Step) -> dict[str, Any]:
    """Return the parameters of :data:`WAITS_FOR` for a step."""
    return {"waiting_id": step.owner_id, "waiting_round": step.round}


def withheld(c: Connection, step: Step, options: HoldOptions, never_delete: str) -> tuple[Cause, ...]:
    """Return what keeps the worker that claimed a step from making a write call now.

    One query answers, unless liens or the brake are on record.

    :param step: as its worker has it, with the fencing token of the claim
    :param options: what holds read of the configuration
    :param never_delete: why the project is on the never-delete list; empty: it is not
    """
    return _causes(c, step, options, never_delete)[0]


def may_write(
    c: Connection, step: Step, options: HoldOptions = NO_OPTIONS, undoing: bool = False
) -> datetime.datetime | None:
    """Return the time if the worker that claimed a step may write now, else ``None``; see :func:`withheld`.

    :param undoing: the write gives back what a drain took: liens, the brake and delete windows do not apply
    """
    causes, now = _causes(c, step, options, undoing=undoing)
    return None if causes else now


def _causes(
    c: Connection, step: Step, options: HoldOptions, never_delete: str = "", undoing: bool = False
) -> tuple[tuple[Cause, ...], datetime.datetime | None]:
    """Return what withholds a write of a step, and the time."""
    work = queries.find_work(c, step.id)
    if work is None:
        return (Cause(HoldName.CLAIM_LOST, "the step is no longer on record"),), None
    liens, brake = ((), None) if undoing else holds(c, work.deletion, work.now)
    options = NO_OPTIONS if undoing else options
    inputs = HoldInputs(work.deletion, work.now, options, step.fencing_token, never_delete, liens, brake)
    return tuple(guard.causes(inputs, work.step)), work.now


def holds(c: Connection, deletion: Deletion, now: datetime.datetime) -> tuple[tuple[Lien, ...], Brake | None]:
    """Return the liens that are in force on a deletion's project, and the brake if it is on.

    If none is on record, no further query is made.
    """
    if not deletion.has_holds:
        return (), None
    brake = current_brake(c)
    return current_liens(c, [deletion.project_id], now), brake if brake.on else None
