"""What a deletion is made of, as frozen data: no I/O, no clock, no configuration."""

from __future__ import annotations

import dataclasses
import datetime
from enum import StrEnum
from typing import Any

from cleanup_orchestrator.core.holds import Brake, Lien, Waiver


class Mode(StrEnum):
    """What the requester wants done with what the project still owns."""

    REPORT = "report"  #: list it and touch nothing; the project is removed only if it owns nothing
    CASCADE = "cascade"  #: delete it, prove it gone, then remove the project


class Origin(StrEnum):
    """How we came to know that a project is to go, or went."""

    REQUEST = "request"  #: somebody asked for its deletion
    NOTICED = "noticed"  #: Keystone said that it was deleted, and nobody had asked us: looked at, never written to
    ADOPTED = "adopted"  #: an orphan scan found what a dead project left behind, and an admin asked for its deletion


class Status(StrEnum):
    """Where a deletion stands. The legal moves between them are ``transitions.MOVES``."""

    ACCEPTED = "accepted"  #: recorded; the catalog is being surveyed
    DRAINING = "draining"  #: the project is being locked against new resources
    INVENTORY = "inventory"  #: every type of every service in every region is being listed
    RECOVERABLE = "recoverable"  #: nothing is deleted yet: for an approval, or until the recovery window is over
    DELETING = "deleting"  #: resources are being deleted in dependency order
    VERIFYING = "verifying"  #: waiting for cached tokens to run out, then proving the project empty twice
    DELETED = "deleted"  #: the project is gone and was proven empty before
    LEFTOVERS = "leftovers"  #: the attempt ended with a report of what is left; the project is usable
    PLANNED = "planned"  #: the dry run ended; nothing was written anywhere
    CANCELLING = "cancelling"  #: what the drain changed is being undone
    CANCELLED = "cancelled"  #: undone; resources deleted before the cancel stay deleted
    FAILED = "failed"  #: the deletion cannot go on as requested; the journal says why


class RoundPurpose(StrEnum):
    """What a round of sweeps is for."""

    NONE = ""
    INVENTORY = "inventory"  #: list only: an inventory
    DELETE = "delete"  #: list, delete, list again
    #: quota rows and the like, right before the project goes: the point of no return
    PROJECT_SETTINGS = "project_settings"


class ConditionType(StrEnum):
    """The properties of a deletion that are observed."""

    APPROVAL = "approval"  #: it waits for the approval of a second person
    DRAINED = "drained"  #: the project is locked against new resources
    FORCED = "forced"  #: an admin asked for force
    HALTED = "halted"  #: what runs is stopped for the recovery window
    ON_HOLD = "on_hold"  #: a hold withholds locks and deletes
    PROJECT_GONE = "project_gone"  #: another client deleted the project
    SETTLED = "settled"  #: tokens from before the drain have left every cache
    STALLED = "stalled"  #: it has made no progress for too long
    WAITING = "waiting"  #: it waits for the deletions of the projects below
    WAIVED = "waived"  #: it relies on waivers


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """One observed property of a deletion, as in Kubernetes. It never changes the status."""

    type: ConditionType
    status: bool
    reason: str
    message: str
    last_transition_at: datetime.datetime  #: UTC; when ``status`` last changed


@dataclasses.dataclass(frozen=True, slots=True)
class Child:
    """The deletion of a project below, as the deletion of the project above sees it."""

    deletion_id: str
    project_id: str
    status: Status
    status_at: datetime.datetime  #: since when


@dataclasses.dataclass(frozen=True, slots=True)
class Approval:
    """A second person's recorded word that a deletion goes on although it is beyond a limit."""

    needed: str  #: for which limit: ``too_many_resources``, ``too_many_deletions``
    reason: str  #: why, in that person's words
    at: datetime.datetime  #: UTC
    resources: int = 0  #: so many were found when it was given, and so many it covers
    hash: str = ""  #: of what was going to be deleted then; see ``plans``
    user_id: str = ""
    user_name: str = ""
    request_id: str = ""  #: of the API call

    def to_dict(self) -> dict[str, Any]:
        """Return it with its time as text, for JSON."""
        return {**dataclasses.asdict(self), "at": self.at.isoformat()}


@dataclasses.dataclass(frozen=True, slots=True)
class Force:
    """An admin's recorded word, for one attempt at a deletion, to let go of what cannot be deleted."""

    reason: str
    types: tuple[str, ...]  #: ``service.type`` names whose declared force may be used
    at: datetime.datetime
    attempt: int  #: of the deletion; a later one is an ordinary deletion again
    round: int  #: the deletion's round then; it works from the next one on
    user_id: str = ""  #: who said so
    user_name: str = ""
    request_id: str = ""  #: of the API call that recorded it

    def to_dict(self) -> dict[str, Any]:
        """Return it with its time as text, for JSON."""
        return dataclasses.asdict(self) | {"types": list(self.types), "at": self.at.isoformat()}

    def __str__(self) -> str:
        """Say whose it is and why, for people."""
        return f"by force of {self.user_name or self.user_id or 'somebody'} ({self.reason})"


@dataclasses.dataclass(frozen=True, slots=True)
class Deletion:
    """One project's request and its record. All times are UTC and come from the database's clock."""

    id: str
    project_id: str
    project_name: str
    domain_id: str
    mode: Mode
    dry_run: bool
    status: Status
    created_at: datetime.datetime
    updated_at: datetime.datetime
    status_at: datetime.datetime  #: since when the status holds
    progress_at: datetime.datetime  #: when something last moved; what ``stalled`` is measured from
    wake_at: datetime.datetime  #: when the engine's tick has to look at it again, message or no message
    request_id: str = ""  #: of the API call that asked for it
    user_id: str = ""  #: who asked
    user_name: str = ""
    origin: Origin = Origin.REQUEST
    include_subtree: bool = False  #: the projects below have deletions of their own, and this one waits for them
    parent_deletion_id: str = ""  #: the deletion that waits for this one; empty: none does
    reason: str = ""  #: why the status was entered, one code
    message: str = ""  #: the same for a person
    attempt: int = 1  #: one more with each retry
    round: int = 1  #: number of the present round of sweeps; grows over all attempts
    since_round: int = 1  #: the round in which the present attempt began: older results do not count
    purpose: RoundPurpose = RoundPurpose.NONE  #: what the present round is for; none: no round is open
    round_opened_at: datetime.datetime | None = None
    empty_inventories: int = 0  #: complete and empty ones in a row in the present verification
    drained_at: datetime.datetime | None = None  #: when the drain took hold; none: it did not (yet)
    closed_at: datetime.datetime | None = None  #: when the project was found or made disabled
    project_gone_at: datetime.datetime | None = None  #: when we saw that somebody else had deleted the project
    member_ids: tuple[str, ...] = ()  #: users with an effective role on the project when first looked
    conditions: tuple[Condition, ...] = ()
    waivers: tuple[Waiver, ...] = ()  #: those that the latest survey relied upon, as they were then
    plan_id: str = ""  #: of the dry run whose plan it is bound to; empty: to none, it deletes what it finds
    plan_hash: str = ""  #: of that plan
    point_of_no_return_at: datetime.datetime | None = None  #: no delete of this attempt before it; later: since when
    approvals: tuple[Approval, ...] = ()
    forced: Force | None = None  #: see ``force.asked`` for whether it still holds
    finished_at: datetime.datetime | None = None
    holding: bool = False  #: recorded changes of ours that are not undone (derived from the changes table)
    held_back: bool = False  #: a lien on the project, or the brake, is on record; in force or not (derived)
    liens: tuple[Lien, ...] = ()  #: those in force now: derived, and there where it matters, see ``Store.load``
    brake: Brake | None = None  #: if it is on: derived, likewise
    children: tuple[Child, ...] = ()  #: derived, and there only where a whole deletion is loaded with its steps
    cascades_before: int = 0  #: of its domain or user in 24 hours; derived, and loaded only while it is ``accepted``
    version: int = 0  #: of the row, for compare-and-swap

    @property
    def attention(self) -> str:
        """What of it needs somebody, one code of ``ATTENTION``; empty: nothing, or it was only a dry run."""
        if self.dry_run:
            return ""
        if self.status in (Status.FAILED, Status.LEFTOVERS):
            return str(self.status)
        asking = (
            a
            for a, (type_, reason) in _ASKING.items()
            for c in self.conditions
            if c.status and c.type == type_ and reason in ("", c.reason)
        )
        return next(asking, "")


#: Conditions under which a live deletion waits for a person: type, and reason where that matters.
_ASKING = {
    "stalled": (ConditionType.STALLED, ""),
    "approval": (ConditionType.APPROVAL, ""),
    "lien": (ConditionType.ON_HOLD, "lien"),
    "brake": (ConditionType.ON_HOLD, "brake"),
}


#: Why a deletion may need somebody.
ATTENTION = (str(Status.FAILED), str(Status.LEFTOVERS), *_ASKING)


def accepted(**values: Any) -> Deletion:
    """Return a deletion as it is first recorded. Its times are none yet: the store puts the database's in their place.

    :param values: fields of the deletion, but for its status and its times
    """
    never = datetime.datetime(1970, 1, 1)
    return Deletion(
        status=Status.ACCEPTED,
        created_at=never,
        updated_at=never,
        status_at=never,
        progress_at=never,
        wake_at=never,
        **values,
    )
