"""The picture of the statuses of a deletion, and what its state allows."""

from __future__ import annotations

from typing import NamedTuple

from cleanup_orchestrator import sdk

_CASCADE = ("accepted", "draining", "inventory", "recoverable", "deleting", "verifying", "deleted")
_PURGE = (*_CASCADE[:-1], "purged")
_REPORT = ("accepted", "inventory", "draining", "verifying", "deleted")
_DRY_RUN = ("accepted", "inventory", "planned")
#: Without a project there is no lock.
_WITHOUT_PROJECT = ("noticed", "adopted")

#: Conditions that the list of deletions shows if they are true. The others are normal.
_NOTABLE = (
    "approval",
    "blocked",
    "forced",
    "halted",
    "on_hold",
    "project_gone",
    "scheduled",
    "stalled",
    "waiting",
    "waived",
)


class Step(NamedTuple):
    """A status in the picture."""

    status: str
    #: ``passed``, ``now`` or ``ahead``.
    place: str


def _usual(deletion: sdk.Deletion) -> tuple[str, ...]:
    if deletion.dry_run:
        return _DRY_RUN
    usual = {"report": _REPORT, "purge": _PURGE}.get(deletion.mode, _CASCADE)
    absent = {"draining"} if deletion.origin in _WITHOUT_PROJECT else set[str]()
    if not _has_window(deletion):
        absent.add("recoverable")
    return tuple(status for status in usual if status not in absent)


def _has_window(deletion: sdk.Deletion) -> bool:
    """Return whether the record says that the deletion has, or had, a recovery window."""
    return deletion.status == "recoverable" or any(each.type == "halted" for each in deletion.conditions or ())


def gives_back(deletion: sdk.Deletion) -> bool:
    """Return whether a cancel is a restore: nothing is deleted, and the project is locked."""
    return bool(deletion.restorable and (deletion.drained_at or deletion.status == "recoverable"))


def _reached(deletion: sdk.Deletion) -> tuple[str, ...]:
    """Return the statuses that a stopped deletion had for sure. The record does not have the others."""
    reached = {
        "accepted",
        "inventory" if deletion.progress.found else "",
        "deleting" if deletion.progress.deleted else "",
    }
    return tuple(status for status in _usual(deletion) if status in reached)


def steps(deletion: sdk.Deletion) -> list[Step]:
    """Return the statuses from the request to the end, in order."""
    status, usual = deletion.status, _usual(deletion)
    if status in usual:
        here = usual.index(status)
    elif status == "leftovers":
        before = ("accepted", "inventory") if deletion.mode == "report" else usual[:-1]
        usual, here = (*before, status), len(before)
    elif status in ("cancelling", "cancelled"):
        before = _reached(deletion)
        usual, here = (*before, "cancelling", "cancelled"), len(before) + (status == "cancelled")
    else:
        before = _reached(deletion)
        usual, here = (*before, status), len(before)
    places = ["passed"] * here + ["now"] + ["ahead"] * (len(usual) - here - 1)
    return [Step(*each) for each in zip(usual, places)]


def condition(deletion: sdk.Deletion, type_: str) -> sdk.Condition | None:
    """Return a condition if it is true."""
    return next((each for each in deletion.conditions or () if each.type == type_ and each.status), None)


def notable(deletion: sdk.Deletion) -> list[str]:
    """Return the types of the true conditions that are not those of every deletion."""
    true = {each.type for each in deletion.conditions or () if each.status}
    return [type_ for type_ in _NOTABLE if type_ in true]


def lists_only(deletion: sdk.Deletion) -> bool:
    """Return whether a deletion deletes no resource."""
    return bool(deletion.dry_run or deletion.mode == "report")


def plan_of(deletion: sdk.Deletion) -> str:
    """Return the ID of the plan that a deletion made or is bound to; empty: none."""
    if deletion.dry_run and deletion.status == "planned" and deletion.mode in ("cascade", "purge"):
        return deletion.id
    return deletion.plan_id or ""
