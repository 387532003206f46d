"""Turns the result of a step into new values of its deletion and the step. Pure."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from cleanup_orchestrator.core import dispatch, force
from cleanup_orchestrator.core.deletion import Deletion, RoundPurpose
from cleanup_orchestrator.core.findings import (
    Finding,
    InventoryOutdated,
    ProjectGone,
    ProjectLocked,
    ProjectReclosed,
    ProjectReopened,
    ProjectReturned,
    ProjectSeen,
    RemovalStopped,
    Surveyed,
)
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult

#: A deletion without a lock, and without all that rests on one.
REOPENED: Mapping[str, Any] = {"closed_at": None, "drained_at": None, "empty_inventories": 0}


def record(deletion: Deletion, step: Step, result: StepResult, now: datetime.datetime) -> tuple[Deletion, Step]:
    """Return deletion and step with the result and the learned facts in them."""
    result = believed(step, result)
    # Polls are no failed attempts. Otherwise one list that fails after some polls is repeated only after a minute.
    failed_poll = step.polled and result.outcome is Outcome.UNKNOWN
    after = dataclasses.replace(
        dispatch.finished(step, result, now),
        attempt=1 if failed_poll else step.attempt,
        found=_found(deletion, step, result),
        kept=result.kept,
        remaining=len(result.leftovers),
        abandoned=_abandoned(deletion, step, result),
        unseen=step.unseen and result.outcome is Outcome.UNKNOWN and force.works(deletion),
        unplanned=sum(leftover.reason is Reason.NOT_PLANNED for leftover in result.leftovers) + result.in_use_unplanned,
        unselected=sum(leftover.reason is Reason.NOT_SELECTED for leftover in result.leftovers),
        digest="" if result.more else result.digest or step.digest,
        deleted=step.deleted + len(result.deleted),
        absent=result.absent,
    )
    if step.waived:  # it was waived while it ran: its result does not count
        why = str(Reason.WAIVED)
        after = dataclasses.replace(after, outcome=Outcome.NONE, reason=why, message=step.message, same=1, remedy="")
    if deletion.purpose is RoundPurpose.DELETE and result.outcome is not Outcome.UNKNOWN:
        # What an earlier listing had and neither listing of this sweep has was deleted with another resource. A service
        # that lists by project does not tell this from a resource that an admin gave to another project meanwhile.
        # What a rule keeps by now is still there.
        now_kept = 0 if step.outcome is Outcome.UNKNOWN else max(0, result.kept - step.kept)
        along = max(0, _last_count(step) - result.found - now_kept)
        after = dataclasses.replace(after, deleted=after.deleted + along)
    progress = (
        bool(result.deleted)
        or (result.outcome is Outcome.CLEAR and step.outcome is not Outcome.CLEAR)
        or (result.outcome is Outcome.LEFTOVERS and len(result.leftovers) < step.remaining)
    )
    values = _learned(result) | {"progress_at": now if progress else deletion.progress_at, "updated_at": now}
    return dataclasses.replace(deletion, **values), after


def believed(step: Step, result: StepResult) -> StepResult:
    """Return a result as far as it is believed after the results before it.

    A list that has worked in this deletion does not become "not supported" by one answer: a service may answer 404 to a
    list because one of the resources vanished meanwhile. Nor is a type that was listed gone with its resources because
    its service says once that it lacks the type. If the service says so again, the type is empty only if nothing of it
    was left before. A believed result is believed again.
    """
    if step.kind is not StepKind.SWEEP or not _was_listed(step):
        return result
    if result.outcome is Outcome.UNKNOWN and result.reason == Reason.NOT_SUPPORTED and not result.absent:
        text = f"it was listed before in this deletion, and now its service answers: {result.message}"
        return dataclasses.replace(result, reason=str(Reason.ERROR), message=text)
    if not result.absent or (step.absent and not _last_count(step)):
        return result
    reason = Reason.NOT_SUPPORTED if step.absent else Reason.ERROR
    text = "its service says that it lacks the type, which was listed before in this deletion: it is asked again"
    unknown = StepResult(Outcome.UNKNOWN, str(reason), text, _last_count(step), calls=result.calls)
    return dataclasses.replace(unknown, absent=True, learned=result.learned)


def _was_listed(step: Step) -> bool:
    """Whether a list of a step has worked in this deletion."""
    doubted = step.absent and step.outcome is Outcome.UNKNOWN  # see believed
    return bool(step.digest or step.found or doubted) or step.outcome in (Outcome.CLEAR, Outcome.LEFTOVERS)


def _found(deletion: Deletion, step: Step, result: StepResult) -> int:
    """Return how many resources there are by a result; after a list that failed, how many there were before."""
    first = step.round <= deletion.since_round + 1  # what is known is of an earlier attempt
    if result.outcome is not Outcome.UNKNOWN or result.found or first:
        return result.found
    return _last_count(step)


def _last_count(step: Step) -> int:
    """Return how many resources were there at the latest list that did not fail."""
    return step.found if step.outcome is Outcome.UNKNOWN else step.remaining


def settled(before: Deletion, after: Deletion, result: StepResult) -> frozenset[str]:
    """Return the names of the deletion's fields that a result sets.

    A field with an equal value has to be written, too: an engine may be writing another one at this moment.

    :param after: what ``record`` made of ``before``
    """
    # An unchanged time of progress is not written: an engine or a user may have set a later one meanwhile.
    progress = {"progress_at"} if after.progress_at != before.progress_at else set()
    return frozenset(_learned(result).keys() | progress)


def _learned(result: StepResult) -> dict[str, Any]:
    """Return the fields that the facts of a result set, with their values."""
    values: dict[str, Any] = {}
    for fact in result.learned:
        values |= _values(fact)
    return values


def _values(fact: Finding) -> dict[str, Any]:
    match fact:
        case Surveyed(waivers):
            return {"waivers": waivers}
        case ProjectSeen(name, domain_id, member_ids):
            return {"project_name": name, "domain_id": domain_id, "member_ids": member_ids}
        case ProjectGone(at, locked):
            return {"project_gone_at": at} | ({} if locked else {"empty_inventories": 0})
        case ProjectReturned():
            return {"project_gone_at": None, **REOPENED}
        case ProjectLocked(evidence):
            return {"lock_evidence": evidence}
        case ProjectReopened():
            return dict(REOPENED)
        case ProjectReclosed(at):
            return {"closed_at": at, "drained_at": at, "empty_inventories": 0}
        case InventoryOutdated():
            return {"empty_inventories": 0}
        case RemovalStopped():
            return {"purpose": RoundPurpose.NONE, "empty_inventories": 0}


def _abandoned(deletion: Deletion, step: Step, result: StepResult) -> int:
    """Return how many leftovers are abandoned; without a listing, as before."""
    if not force.works(deletion):
        return 0
    return step.abandoned if result.outcome is Outcome.UNKNOWN else sum(one.abandoned for one in result.leftovers)
