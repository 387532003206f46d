"""What the model looks like in JSON. Pure functions: no I/O, no request, no clock."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from cleanup_orchestrator.decide import Rules, blockers, done, in_scope, settle_until
from cleanup_orchestrator.errors import remedy
from cleanup_orchestrator.model import Deletion, Kind, Leftover, Outcome, Purpose, State, Step
from cleanup_orchestrator.transitions import cancellable, retryable


class LeftoverRow(Protocol):
    """A leftover and where it was found (``store.LeftoverRow``)."""

    region: str
    service: str
    type: str
    leftover: Leftover


def time(value: datetime.datetime | None) -> str | None:
    """Return a time as the API shows it: UTC, whole seconds."""
    return value.isoformat(timespec="seconds") + "Z" if value else None


def deletion(d: Deletion, steps: Sequence[Step], rules: Rules, href: str, detail: bool = True) -> dict[str, Any]:
    """Return a deletion; ``detail`` adds children, counts and blockers.

    :param steps: all steps of this deletion
    :param href: its URL
    """
    shown: dict[str, Any] = {
        "id": d.id,
        "project_id": d.project_id,
        "project_name": d.project_name,
        "domain_id": d.domain_id,
        "mode": str(d.mode),
        "dry_run": d.dry_run,
        "include_subtree": d.include_subtree,
        "parent_deletion_id": d.parent_deletion_id,
        "origin": str(d.origin),
        "status": str(d.status),
        "reason": d.reason,
        "message": d.message,
        "attempt": d.attempt,
        "cancellable": cancellable(d),
        "retryable": retryable(d),
        "user_id": d.user_id,
        "user_name": d.user_name,
        "request_id": d.request_id,
        "created_at": time(d.created_at),
        "updated_at": time(d.updated_at),
        "status_at": time(d.status_at),
        "progress_at": time(d.progress_at),
        "finished_at": time(d.finished_at),
        "drained_at": time(d.drained_at),
        "project_gone_at": time(d.project_gone_at),
        "settle_until": time(settle_until(d, rules)),
        "conditions": [
            {
                "type": c.type,
                "status": c.status,
                "reason": c.reason,
                "message": c.message,
                "last_transition_at": time(c.last_transition_at),
            }
            for c in d.conditions
        ],
        "progress": progress(d, steps),
        "links": [{"rel": "self", "href": href}],
    }
    if detail:
        shown["children"] = [
            {"deletion_id": c.deletion_id, "project_id": c.project_id, "status": str(c.status)} for c in d.children
        ]
        shown["counts"] = counts(d, steps)
        shown["blockers"] = [
            {
                "region": b.region,
                "service": b.service,
                "type": b.type,
                "reason": str(b.reason),
                "message": b.message,
                "remedy": b.remedy,
            }
            for b in blockers(d, steps)
        ]
    return shown


def _looked(d: Deletion, step: Step) -> bool:
    """Whether the step has run in the present attempt: what an earlier attempt saw is history."""
    return step.round >= d.since_round


def _found(d: Deletion, step: Step) -> int:
    """Return how many resources a step ever came to know: a later, emptier look does not make it forget."""
    return max(step.found if _looked(d, step) else 0, step.deleted + _remaining(d, step))


def _remaining(d: Deletion, step: Step) -> int:
    return step.remaining if _looked(d, step) else 0


def progress(d: Deletion, steps: Iterable[Step]) -> dict[str, Any]:
    """Return the numbers of a progress line.

    ``steps`` and ``steps_done`` count the resource types (per region) that the present round has to look at, and those
    that have their result; with no round open, those with a result in this attempt. They fall back to 0 when the next
    round opens. The other numbers are of the whole deletion and do not: ``found`` counts every resource ever seen
    (deleted ones included), ``deleted`` those confirmed gone over all attempts, ``remaining`` the leftovers of the
    latest look of this attempt, ``kept`` what was seen and is not the user's, ``unknown`` the types of which nothing is
    known, ``calls`` the API calls of every step so far.
    """
    every = list(steps)
    sweeps = [s for s in every if s.kind in (Kind.SWEEP, Kind.UNCOVERED)]
    present = [s for s in sweeps if in_scope(d, s)]
    since = d.since_round if d.purpose is Purpose.NONE else d.round
    seen = [s for s in sweeps if _looked(d, s)]
    return {
        "steps": len(present),
        "steps_done": sum(done(s, since) for s in present),
        "found": sum(_found(d, s) for s in sweeps),
        "deleted": sum(s.deleted for s in sweeps),
        "remaining": sum(s.remaining for s in seen),
        "kept": sum(s.kept for s in seen),
        "unknown": sum(s.outcome is Outcome.UNKNOWN for s in seen),
        "calls": sum(s.calls for s in every),
        "round": d.round,
        "purpose": str(d.purpose),
    }


def counts(d: Deletion, steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Return the numbers of each resource type in each region; what this attempt has not looked at yet is ``idle``."""
    shown = []
    for s in steps:
        if s.kind not in (Kind.SWEEP, Kind.UNCOVERED):
            continue
        looked = _looked(d, s)
        shown.append(
            {
                "region": s.region,
                "service": s.service,
                "type": s.type,
                "found": _found(d, s),
                "deleted": s.deleted,
                "remaining": _remaining(d, s),
                "kept": s.kept if looked else 0,
                "calls": s.calls,
                "outcome": str(s.outcome) if looked else "",
                "state": str(s.state if looked else State.IDLE),
                "reason": str(s.reason) if looked else "",
                "message": s.message if looked else "",
            }
        )
    return sorted(shown, key=lambda c: (c["region"], c["service"], c["type"]))


def leftover(row: LeftoverRow) -> dict[str, Any]:
    """Return a leftover."""
    one = row.leftover
    return {
        "region": row.region,
        "service": row.service,
        "type": row.type,
        "id": one.id,
        "name": one.name,
        "reason": str(one.reason),
        "message": one.message,
        "remedy": remedy(one.reason),
        "blocked_by": [{key: b.get(key, "") for key in ("type", "id", "owner")} for b in one.blocked_by],
    }


def event(row: Any) -> dict[str, Any]:
    """Return a line of the journal (``store.EventRow``)."""
    e = row.event
    return {
        "id": row.row,
        "at": time(row.at),
        "type": e.type,
        "message": e.message,
        "actor": e.actor,
        "request_id": e.request_id,
        "data": dict(e.data),
    }


def service(answer: Any) -> dict[str, Any]:
    """Return a catalog entry and who answers for it (``coverage.Answer``)."""
    return {
        "region": answer.region,
        "service_type": answer.service_type,
        "name": answer.name,
        "answered_by": str(answer.answered_by),
        "types": list(answer.types),
        "message": answer.message,
    }


def version(root: str) -> dict[str, Any]:
    """Return the one version there is, in the shape of keystoneauth's discovery."""
    links = [{"rel": "self", "href": f"{root}/v1/"}]
    return {"id": "v1.0", "status": "CURRENT", "links": links, "version": "", "min_version": ""}


def links(following: str | None) -> Mapping[str, Any]:
    """Return the ``links`` of a page: there only when there is more."""
    return {"links": [{"rel": "next", "href": following}]} if following else {}
