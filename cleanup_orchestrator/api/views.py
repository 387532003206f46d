"""Converts the model to JSON. Pure functions: no I/O, no request, no clock."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from cleanup_orchestrator.api import microversions
from cleanup_orchestrator.core import force, messages
from cleanup_orchestrator.core import tally as tallies
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Deletion, DeletionView, Tally
from cleanup_orchestrator.core.holds import Brake, Lien, Waiver
from cleanup_orchestrator.core.journal import Change
from cleanup_orchestrator.core.reasons import BEHIND, UNNAMED, WAITS, Reason, Subject, remedy
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.selection import Selection
from cleanup_orchestrator.core.snapshot import settle_until
from cleanup_orchestrator.core.step import Leftover, StepKind, StepState, StepView
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.core.transitions import cancellable, restorable, retryable

#: Fields of a lien or a waiver that a requester who may not read its text can see.
_OPEN = {
    "lien": frozenset({"id", "project_id", "origin", "expires_at"}),
    "waiver": frozenset({"id", "project_id", "service_type", "region", "expires_at", "user_name"}),
}

#: By reason of a condition: its message for requesters who may not read the whole message.
_WITHOUT_TEXT = {
    "lien": "held by one or more liens: 'liens' names them and their origins; ask an origin or an admin",
    "brake": "held by the brake, which stops all deletions: ask an admin",
    "waivers": "skips the services that 'waivers' names: ask the users who recorded the waivers, or an admin",
}

#: By type of a condition: the kinds of ``policies.READ`` whose texts its message may have.
_TEXTS_OF = {"on_hold": ("lien", "brake"), "waived": ("waiver",)}

#: Fields of a waiver in a deletion that relied on it. The other fields may have changed since.
_OF_A_WAIVER = frozenset(
    {
        "id",
        "service_type",
        "region",
        "project_id",
        "reason",
        "created_at",
        "expires_at",
        "user_id",
        "user_name",
    }
)


class LeftoverRow(Protocol):
    """A leftover and its location (``store.LeftoverRow``)."""

    @property
    def region(self) -> str:
        """Return the region."""

    @property
    def service(self) -> str:
        """Return the service type."""

    @property
    def type(self) -> str:
        """Return the resource type."""

    @property
    def leftover(self) -> Leftover:
        """Return the leftover."""


def time(value: datetime.datetime | None) -> str | None:
    """Return a time in the format of the API: UTC, whole seconds."""
    return utc(value) if value else None


def deletion(
    d: DeletionView, steps: Sequence[StepView], rules: Rules, href: str, readable: Collection[str] = ()
) -> dict[str, Any]:
    """Return a deletion with its children, holds, counts and blockers.

    :param steps: all steps of this deletion
    :param href: its URL
    :param readable: the kinds of ``policies.READ`` whose texts the requester may read
    """
    counted = dataclasses.replace(d, tally=tallies.tally(d, steps))
    return listed_deletion(counted, steps, rules, href, readable) | _detail(d, steps, readable)


def listed_deletion(
    d: Deletion, steps: Sequence[StepView], rules: Rules, href: str, readable: Collection[str] = ()
) -> dict[str, Any]:
    """Return a deletion as lists show it.

    :param steps: all steps of this deletion if it has force; otherwise they are not needed
    """
    return {
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
        "message": messages.message(d),
        "attention": d.attention,
        "attempt": d.attempt,
        "cancellable": cancellable(d),
        "retryable": retryable(d),
        "restorable": restorable(d),
        "plan_id": d.plan_id,
        "plan_hash": d.plan_hash,
        "selection": selection(d.selection),
        "point_of_no_return_at": time(d.point_of_no_return_at),
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
                "message": _condition_text(c.type, c.status, c.reason, c.message, readable),
                "last_transition_at": time(c.last_transition_at),
            }
            for c in d.conditions
        ],
        "forced": forced(d, steps),
        "progress": progress(d),
        "links": [{"rel": "self", "href": href}],
    }


def selection(s: Selection) -> dict[str, Any]:
    """Return the criteria of a selection; an absent one is empty or ``null``."""
    return s.to_dict() | {"created_before": time(s.created_before)}


def _detail(d: DeletionView, steps: Sequence[StepView], readable: Collection[str]) -> dict[str, Any]:
    return {
        "children": [
            {
                "deletion_id": c.deletion_id,
                "project_id": c.project_id,
                "project_name": c.project_name,
                "status": str(c.status),
                "attention": c.attention,
            }
            for c in d.children
        ],
        "liens": [lien(one, readable) for one in d.liens],
        "waivers": [
            {
                **{name: value for name, value in waiver(w, readable).items() if name in _OF_A_WAIVER},
                "not_listed": [
                    {"region": region, "service": service}
                    for region, service in sorted({(s.region, s.service) for s in steps if s.waived == w.id})
                ],
            }
            for w in d.waivers
        ],
        "approvals": [
            {
                "needed": a.needed,
                "reason": a.reason,
                "resources": a.resources,
                "hash": a.hash,
                "at": time(a.at),
                "user_id": a.user_id,
                "user_name": a.user_name,
                "request_id": a.request_id,
            }
            for a in d.approvals
        ],
        "counts": counts(d, steps),
        "blockers": blockers_of(d, steps),
    }


def blockers_of(d: DeletionView, steps: Iterable[StepView]) -> list[dict[str, str]]:
    """Return what keeps a deletion from going on."""
    return [
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


def brake(b: Brake) -> dict[str, Any]:
    """Return the brake."""
    return {
        "on": b.on,
        "reason": b.reason,
        "since": time(b.since),
        "user_id": b.user_id,
        "user_name": b.user_name,
        "request_id": b.request_id,
    }


def _condition_text(type_: str, status: bool, reason: str, message: str, readable: Collection[str]) -> str:
    """Return the message of a condition or of its journal entry.

    One message names all holds. A requester who may not read all kinds of holds gets a general text.
    """
    needed = _TEXTS_OF.get(type_, ())
    if not status or all(kind in readable for kind in needed):
        return message
    return _WITHOUT_TEXT.get(reason, message)


def _open(values: dict[str, Any], kind: str, readable: Collection[str]) -> dict[str, Any]:
    return values if kind in readable else {k: v for k, v in values.items() if k in _OPEN[kind]}


def lien(one: Lien, readable: Collection[str]) -> dict[str, Any]:
    """Return a lien; ``expires_at`` is ``null`` if the lien has no end.

    If the requester may not read liens, the reason and the user are left out.
    """
    values = {
        "id": one.id,
        "project_id": one.project_id,
        "origin": one.origin,
        "reason": one.reason,
        "created_at": time(one.created_at),
        "expires_at": time(one.expires_at),
        "user_id": one.user_id,
        "user_name": one.user_name,
        "request_id": one.request_id,
        "deleted_at": time(one.deleted_at),
        "deleted_by": one.deleted_by,
    }
    return _open(values, "lien", readable)


def grant(change: Change) -> dict[str, str]:
    """Return a role assignment on the project that the drain removed."""
    data = change.data
    return {"actor": data["actor"].removesuffix("s"), "actor_id": data["actor_id"], "role_id": data["role_id"]}


def forced(d: Deletion, steps: Sequence[StepView]) -> dict[str, Any] | None:
    """Return the force of a deletion, or ``None``.

    ``unseen`` lists the types that were abandoned although they could not be listed.
    """
    asked = force.asked(d)
    if asked is None:
        return None
    return {
        "reason": asked.reason,
        "types": list(asked.types),
        "at": time(asked.at),
        "user_id": asked.user_id,
        "user_name": asked.user_name,
        "request_id": asked.request_id,
        "abandoned": d.tally.abandoned,
        "unseen": [
            {"region": s.region, "service": s.service, "type": s.type, "reason": s.reason, "message": s.message}
            for s in force.unseen(d, steps)
        ],
    }


def waiver(w: Waiver, readable: Collection[str]) -> dict[str, Any]:
    """Return a waiver; a region or project of ``null`` means all.

    If the requester may not read waivers, the reason is left out.
    """
    values = {
        "id": w.id,
        "service_type": w.service_type,
        "region": w.region or None,
        "project_id": w.project_id or None,
        "reason": w.reason,
        "created_at": time(w.created_at),
        "expires_at": time(w.expires_at),
        "user_id": w.user_id,
        "user_name": w.user_name,
        "request_id": w.request_id,
        "deleted_at": time(w.deleted_at),
        "deleted_by": w.deleted_by,
    }
    return _open(values, "waiver", readable)


#: The fields of a tally. ``dataclasses.asdict`` takes much longer, which matters in lists.
_COUNTS = tuple(field.name for field in dataclasses.fields(Tally))


def progress(d: Deletion) -> dict[str, Any]:
    """Return the counts of a progress line; see ``Tally``."""
    return {name: getattr(d.tally, name) for name in _COUNTS} | {"round": d.round, "purpose": str(d.purpose)}


def counts(d: Deletion, steps: Iterable[StepView]) -> list[dict[str, Any]]:
    """Return the counts of each resource type in each region.

    The state of a type that this attempt has not listed yet is ``idle``.
    """
    shown = []
    steps = list(steps)
    waits = messages.waits(d, steps)
    for s in steps:
        if s.kind not in (StepKind.SWEEP, StepKind.UNSUPPORTED):
            continue
        listed = tallies.listed(d, s)
        shown.append(
            {
                "region": s.region,
                "service": s.service,
                "type": s.type,
                "found": tallies.found(d, s),
                "deleted": s.deleted,
                "remaining": tallies.remaining(d, s),
                "abandoned": s.abandoned if listed else 0,
                "kept": s.kept if listed else 0,
                "unplanned": s.unplanned if listed else 0,
                "unselected": s.unselected if listed else 0,
                "calls": s.calls,
                "outcome": str(s.outcome) if listed else "",
                "state": str(s.state if listed else StepState.IDLE),
                "reason": str(s.reason) if listed else "",
                "message": waits.get((s.region, s.service, s.type), s.message) if listed else "",
            }
        )
    return sorted(shown, key=lambda c: (c["region"], c["service"], c["type"]))


def leftover(
    row: LeftoverRow,
    d: Deletion,
    waits: Mapping[messages.Place, str],
    behind: Mapping[messages.Place, Sequence[str]] | None,
    blocked_by: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return a leftover.

    :param waits: what the types wait for that the deletion has not tried yet
    :param behind: what does not move of that; ``None``: it is not known
    :param blocked_by: what blocks it, as the requester may see it
    """
    one = row.leftover
    waiting = waits.get((row.region, row.service, row.type)) if one.reason is Reason.PRESENT else None
    return {
        "region": row.region,
        "service": row.service,
        "type": row.type,
        "id": one.id,
        "name": one.name,
        "size": one.size,
        "reason": str(one.reason),
        "message": waiting or one.message,
        "remedy": _remedy(row, d, behind, blocked_by),
        "abandoned": one.abandoned,
        "owner": one.owner or None,
        "blocked_by": list(blocked_by),
    }


def _remedy(
    row: LeftoverRow,
    d: Deletion,
    behind: Mapping[messages.Place, Sequence[str]] | None,
    blocked_by: Sequence[Mapping[str, Any]],
) -> str:
    """Return what a person can do about a leftover."""
    one, reason = row.leftover, messages.reason_now(d, row.leftover.reason)
    if one.remedy and (one.abandoned or one.reason is Reason.PROJECT_GONE):
        return one.remedy
    known = "" if force.works(d) else one.remedy  # under force, it says how an abandoned resource is removed
    subject = Subject(d.id, d.project_id, row.service, row.type, one.id, _owners(d, blocked_by))
    if one.reason is Reason.PRESENT and reason == Reason.QUEUED:
        stopped = None if behind is None else behind.get((row.region, row.service, row.type), ())
        if stopped:
            return subject.fill(BEHIND, behind=", ".join(stopped))
        known = known or (WAITS if stopped is None else "")
    elif one.reason is Reason.IN_USE and not one.blocked_by:
        known = known or UNNAMED
    return remedy(reason, subject, known)


def _owners(d: Deletion, blocked_by: Sequence[Mapping[str, Any]]) -> str:
    """Return the other projects whose resources block a delete, as the requester may see them."""
    others = (each for each in blocked_by if each["project_id"] != d.project_id)
    named = dict.fromkeys(
        f"project {each['project_name'] or 'of an unknown name'} ({each['project_id']})" if each["project_id"] else ""
        for each in others
    )
    return ", ".join(list(filter(None, named))[:_MAX_OWNERS])


_MAX_OWNERS = 3  #: projects that a remedy names at most; ``blocked_by`` has all


def event(row: Any, readable: Collection[str]) -> dict[str, Any]:
    """Return a journal entry (``store.EventRow``).

    :param readable: the kinds of ``policies.READ`` whose texts the requester may read
    """
    e = row.event
    family, _, about = e.type.partition(".")
    message, data = e.message, dict(e.data)
    if family == "condition":
        message = _condition_text(about, bool(data.get("status")), str(data.get("reason", "")), message, readable)
    elif family in ("lien", "waiver") and "id" in data:
        data = _open(data, family, readable)
    return {
        "id": row.row,
        "at": time(row.at),
        "type": e.type,
        "message": message,
        "actor": e.actor,
        "request_id": e.request_id,
        "data": data,
    }


def service(answer: Any, readable: Collection[str], everywhere: bool) -> dict[str, Any]:
    """Return a catalog entry with its plugin (``catalog.CatalogEntryStatus``).

    :param readable: the kinds of ``policies.READ`` whose texts the requester may read
    :param everywhere: whether the requester may see where services are asked, and not only those of a domain
    """
    spoken = answer.protocol
    why = f": {answer.waiver.reason}" if answer.waiver and "waiver" in readable else ""
    return {
        "region": answer.region,
        "service_type": answer.service_type,
        "name": answer.name,
        "answered_by": str(answer.answered_by),
        "types": list(answer.types),
        "message": answer.message + why,
        "waiver_id": answer.waiver.id if answer.waiver else None,
        "protocol_url": spoken.url if spoken and everywhere else "",
        "protocol_read_at": time(spoken.read_at) if spoken else None,
    }


def version(root: str) -> dict[str, Any]:
    """Return the only version, in the form of keystoneauth's discovery."""
    links = [{"rel": "self", "href": f"{root}/v1/"}]
    limits = {"min_version": microversions.MIN, "max_version": microversions.MAX}
    return {"id": "v1.0", "status": "CURRENT", "links": links, **limits}
