"""Converts the model to JSON. Pure functions: no I/O, no request, no clock."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from cleanup_orchestrator import shapes
from cleanup_orchestrator.api import microversions
from cleanup_orchestrator.core import force, messages
from cleanup_orchestrator.core import tally as tallies
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.condition_types import Condition
from cleanup_orchestrator.core.deletion import Child, Deletion, DeletionView, Profile
from cleanup_orchestrator.core.holds import Lien, Waiver
from cleanup_orchestrator.core.journal import Change
from cleanup_orchestrator.core.reasons import BEHIND, UNNAMED, WAITS, Reason, Subject, commands, remedy
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.snapshot import settle_until
from cleanup_orchestrator.core.step import Leftover, StepKind, StepState, StepView
from cleanup_orchestrator.core.transitions import cancellable, forcible, restorable, retryable
from cleanup_orchestrator.shapes.base import Shape
from cleanup_orchestrator.shapes.render import render, render_listed

#: By reason of a condition: its message for requesters who may not read the whole message.
_WITHOUT_TEXT = {
    "lien": "held by one or more liens: 'liens' names them and their origins; ask an origin or an admin",
    "brake": "held by the brake, which stops all deletions: ask an admin",
    "waivers": "skips the services that 'waivers' names: ask the users who recorded the waivers, or an admin",
}

#: By type of a condition: the kinds of ``policies.READ`` whose texts its message may have.
_TEXTS_OF = {"on_hold": ("lien", "brake"), "waived": ("waiver",)}

#: Fields of a waiver that may have changed since a deletion relied on it.
_LATER = frozenset({"request_id", "deleted_at", "deleted_by"})


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


def deletion(
    d: DeletionView,
    steps: Sequence[StepView],
    rules: Rules,
    href: str,
    readable: Collection[str] = (),
    grants: Iterable[Change] | None = None,
) -> dict[str, Any]:
    """Return a deletion with its children, holds, counts and blockers.

    :param steps: all steps of this deletion
    :param href: its URL
    :param readable: the kinds of ``policies.READ`` whose texts the requester may read
    :param grants: the role assignments that the lock removed; ``None``: the requester may not see them
    """
    counted = dataclasses.replace(d, tally=tallies.tally(d, steps))
    detail = {
        "summary": "",
        "children": [_child(c, d.profile) for c in d.children],
        "liens": [hold(one, readable) for one in d.liens],
        "waivers": [_used_waiver(w, steps, readable) for w in d.waivers],
        "counts": counts(d, steps),
        "blockers": blockers_of(d, steps),
        "grants_removed": None if grants is None else [_grant(each) for each in grants],
    }
    return render(shapes.Deletion, counted, **_listed(counted, steps, rules, href, readable), **detail)


def listed_deletion(
    d: Deletion, steps: Sequence[StepView], rules: Rules, href: str, readable: Collection[str] = ()
) -> dict[str, Any]:
    """Return a deletion as lists show it.

    :param steps: all steps of this deletion if it has force; otherwise they are not needed
    """
    return render_listed(shapes.Deletion, d, **_listed(d, steps, rules, href, readable))


def _listed(
    d: Deletion, steps: Sequence[StepView], rules: Rules, href: str, readable: Collection[str]
) -> dict[str, Any]:
    """Return the fields of a deletion in a list that are no attributes of its record."""
    return {
        "message": messages.message(d),
        "attention_message": messages.needed_action(d.attention, d.profile),
        "cancellable": cancellable(d),
        "retryable": retryable(d),
        "restorable": restorable(d),
        "forcible": forcible(d),
        "settle_until": settle_until(d, rules),
        "conditions": [_condition(c, readable) for c in d.conditions],
        "forced": forced(d, steps),
        "progress": progress(d),
        "links": self_link(href),
    }


def self_link(href: str) -> list[dict[str, str]]:
    """Return the links of a record with this URL."""
    return [{"rel": "self", "href": href}]


def _condition(c: Condition, readable: Collection[str]) -> dict[str, Any]:
    return render(shapes.Condition, c, message=_condition_text(c.type, c.status, c.reason, c.message, readable))


def _child(c: Child, profile: Profile) -> dict[str, Any]:
    return render(shapes.ChildDeletion, c, attention_message=messages.needed_action(c.attention, profile))


def _used_waiver(w: Waiver, steps: Sequence[StepView], readable: Collection[str]) -> dict[str, Any]:
    """Return a waiver on which a deletion relied, with the catalog entries that were skipped because of it."""
    skipped = sorted({(s.region, s.service) for s in steps if s.waived == w.id})
    shown = {name: value for name, value in hold(w, readable).items() if name not in _LATER}
    return {**shown, "not_listed": [{"region": region, "service": service} for region, service in skipped]}


def blockers_of(d: DeletionView, steps: Iterable[StepView]) -> list[dict[str, Any]]:
    """Return the blockers of a deletion. ``Blocking`` adds the resources that they are about."""
    return [render(shapes.Blocker, b, number=0, resources=(), blocked_by=()) for b in blockers(d, steps)]


def _condition_text(type_: str, status: bool, reason: str, message: str, readable: Collection[str]) -> str:
    """Return the message of a condition or of its journal entry.

    One message names all holds. A requester who may not read all kinds of holds gets a general text.
    """
    needed = _TEXTS_OF.get(type_, ())
    if not status or all(kind in readable for kind in needed):
        return message
    return _WITHOUT_TEXT.get(reason, message)


def _open(shape: type[Shape], values: dict[str, Any], readable: Collection[str]) -> dict[str, Any]:
    """Return a lien or a waiver; only its open fields if the requester may not read its text."""
    return values if shape.one in readable else {name: value for name, value in values.items() if name in shape.open}


def hold(one: Lien | Waiver, readable: Collection[str]) -> dict[str, Any]:
    """Return a lien or a waiver, as the requester may see it."""
    shape: type[Shape] = shapes.Lien if isinstance(one, Lien) else shapes.Waiver
    return _open(shape, render(shape, one), readable)


def _grant(change: Change) -> dict[str, Any]:
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
    return render(shapes.Force, asked, abandoned=d.tally.abandoned, unseen=force.unseen(d, steps))


def progress(d: Deletion) -> dict[str, Any]:
    """Return the counts of a deletion; see ``Tally``."""
    return render(shapes.Progress, d.tally, round=d.round, purpose=d.purpose)


def counts(d: Deletion, steps: Iterable[StepView]) -> list[dict[str, Any]]:
    """Return the counts of each resource type in each region.

    The state of a type that this attempt has not listed yet is ``idle``.
    """
    steps = list(steps)
    waits = messages.waits(d, steps)
    counted = [s for s in steps if s.kind in (StepKind.SWEEP, StepKind.UNSUPPORTED)]
    return [_count(d, s, waits) for s in sorted(counted, key=lambda s: (s.region, s.service, s.type))]


#: What a type shows that this attempt has not listed yet.
_UNLISTED = {
    **dict.fromkeys(("abandoned", "kept", "unplanned", "unselected"), 0),
    **dict.fromkeys(("outcome", "reason", "message"), ""),
    "state": str(StepState.IDLE),
}


def _count(d: Deletion, s: StepView, waits: Mapping[messages.Place, str]) -> dict[str, Any]:
    found, remaining = tallies.found(d, s), tallies.remaining(d, s)
    if not tallies.listed(d, s):
        return render(shapes.Count, s, found=found, remaining=remaining, **_UNLISTED)
    message = waits.get((s.region, s.service, s.type), s.message)
    return render(shapes.Count, s, found=found, remaining=remaining, message=message)


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
    text, copied = _remedy(row, d, behind, blocked_by)
    remedies = {"remedy": text, "commands": copied}
    return render(shapes.Leftover, one, **place(row), message=waiting or one.message, **remedies, blocked_by=blocked_by)


def place(row: LeftoverRow) -> dict[str, str]:
    """Return where a leftover was found."""
    return {"region": row.region, "service": row.service, "type": row.type}


def _remedy(
    row: LeftoverRow,
    d: Deletion,
    behind: Mapping[messages.Place, Sequence[str]] | None,
    blocked_by: Sequence[Mapping[str, Any]],
) -> tuple[str, tuple[str, ...]]:
    """Return what a person can do about a leftover, and the commands of that which can be copied."""
    one, reason = row.leftover, messages.reason_now(d, row.leftover.reason)
    if one.remedy and (one.abandoned or one.reason is Reason.PROJECT_GONE):
        return one.remedy, ()
    known = "" if force.works(d) else one.remedy  # under force, it says how an abandoned resource is removed
    subject = Subject(d.id, d.project_id, row.service, row.type, one.id, _owners(d, blocked_by))
    if one.reason is Reason.PRESENT and reason == Reason.QUEUED:
        stopped = None if behind is None else behind.get((row.region, row.service, row.type), ())
        if stopped:
            return subject.fill(BEHIND, behind=", ".join(stopped)), commands("", subject, BEHIND)
        known = known or (WAITS if stopped is None else "")
    elif one.reason is Reason.IN_USE and not one.blocked_by:
        known = known or UNNAMED
    return remedy(reason, subject, known), commands(reason, subject, known)


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
    elif family in _HOLDS and "id" in data:
        data = _open(_HOLDS[family], data, readable)
    shown = {"message": message, "data": data, "sequence": row.sequence, "digest": row.digest}
    return render(shapes.Event, e, id=row.row, at=row.at, **shown)


#: By family of journal entries about holds: the shape whose fields their data has.
_HOLDS: Mapping[str, type[Shape]] = {"lien": shapes.Lien, "waiver": shapes.Waiver}


def service(entry: Any, readable: Collection[str], everywhere: bool) -> dict[str, Any]:
    """Return a catalog entry with its plugin (``catalog.CatalogEntryStatus``).

    :param readable: the kinds of ``policies.READ`` whose texts the requester may read
    :param everywhere: whether the requester may see where services are asked, and not only those of a domain
    """
    spoken = entry.protocol
    why = f": {entry.waiver.reason}" if entry.waiver and "waiver" in readable else ""
    return render(
        shapes.Service,
        entry,
        type_facts=entry.facts,
        message=entry.message + why,
        waiver_id=entry.waiver.id if entry.waiver else None,
        protocol_url=spoken.url if spoken and everywhere else "",
        protocol_read_at=spoken.read_at if spoken else None,
    )


def version(root: str) -> dict[str, Any]:
    """Return the only version, in the form of keystoneauth's discovery."""
    limits = {"min_version": microversions.MIN, "max_version": microversions.MAX}
    return {"id": "v1.0", "status": "CURRENT", "links": self_link(f"{root}/v1/"), **limits}
