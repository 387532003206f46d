"""The words of a deletion as frozen data: no I/O, no clock, no configuration.

Every other module speaks in these types. What may follow what is in ``transitions``; what happens next is in
``decide``; how they are stored is in ``store``.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Mode(StrEnum):
    """What the requester wants done with what the project still owns."""

    REPORT = "report"  #: list it and touch nothing; the project is removed only if it owns nothing
    CASCADE = "cascade"  #: delete it, prove it gone, then remove the project


class Origin(StrEnum):
    """How we came to know that a project is to go, or went."""

    REQUEST = "request"  #: somebody asked for its deletion
    NOTICED = "noticed"  #: Keystone said that it was deleted, and nobody had asked us: looked at, never written to


class Status(StrEnum):
    """Where a deletion stands. The legal moves between them are ``transitions.MOVES``."""

    ACCEPTED = "accepted"  #: recorded; the catalog is being surveyed
    DRAINING = "draining"  #: the project is being locked against new resources
    INVENTORY = "inventory"  #: every type of every service in every region is being listed
    DELETING = "deleting"  #: resources are being deleted in dependency order
    VERIFYING = "verifying"  #: waiting for cached tokens to run out, then proving the project empty twice
    DELETED = "deleted"  #: the project is gone and was proven empty before
    LEFTOVERS = "leftovers"  #: the attempt ended with a report of what is left; the project is usable
    PLANNED = "planned"  #: the dry run ended; nothing was written anywhere
    CANCELLING = "cancelling"  #: what the drain changed is being undone
    CANCELLED = "cancelled"  #: undone; resources deleted before the cancel stay deleted
    FAILED = "failed"  #: the deletion cannot go on as requested; the journal says why


class Kind(StrEnum):
    """What a step does. All but ``SWEEP`` and ``UNCOVERED`` exist once in each deletion."""

    SURVEY = "survey"  #: read the catalog: which services, regions and types there are
    ACCESS = "access"  #: make sure that the orchestrator can get a token scoped into the project
    DRAIN = "drain"  #: lock the project
    SWEEP = "sweep"  #: one resource type in one region
    UNCOVERED = "uncovered"  #: a catalog entry that nobody answers for: always unknown
    CLOSE = "close"  #: the last turn of the lock, after which nobody gets a token: disable the project
    RELEASE = "release"  #: undo the recorded changes, in reverse
    REMOVE = "remove"  #: delete the project in Keystone


#: What every deletion has from its first moment; the survey adds the others.
TASKS = tuple(kind for kind in Kind if kind not in (Kind.SWEEP, Kind.UNCOVERED))


class State(StrEnum):
    """Whether a step is under way. ``IDLE`` also means: not yet run in the present round."""

    IDLE = "idle"
    DISPATCHED = "dispatched"  #: cast to the workers, claimed by none yet
    RUNNING = "running"  #: claimed by a worker under a lease
    DONE = "done"  #: finished with an outcome


class Outcome(StrEnum):
    """What a step found out, as far as it matters for going on."""

    NONE = ""  #: it has not run
    CLEAR = "clear"  #: nothing is left; or: the task is done
    LEFTOVERS = "leftovers"  #: something is still there
    UNKNOWN = "unknown"  #: the answer could not be had; never treated as empty


class Purpose(StrEnum):
    """What a round of sweeps is for."""

    NONE = ""
    LOOK = "look"  #: list only: an inventory
    DELETE = "delete"  #: list, delete, list again
    RESIDUE = "residue"  #: quota rows and the like, right before the project goes: the point of no return


class Token(StrEnum):
    """Which token a resource type needs to be listed and deleted."""

    ADMIN = "admin"  #: the orchestrator's own project, with an owner filter
    PROJECT = "project"  #: one that is scoped into the project under deletion


class Reason(StrEnum):
    """Why a resource is left over, or why a step does not know. Stable, machine-readable codes of the API."""

    PRESENT = "present"  #: it is there (a look deletes nothing)
    QUEUED = "queued"  #: its turn has not come: a sweep ends after a while, so that others get theirs, then goes on
    IN_USE = "in_use"  #: its service refuses (409): something still uses it
    PROTECTED = "protected"  #: public, shared out or otherwise guarded; not deleted without an operator's word
    FOREIGN = "foreign"  #: another project's resource stands in the way; never deleted
    OWNER_UNKNOWN = "owner_unknown"  #: its owner is missing or changed; never deleted
    DELETING = "deleting"  #: its service accepted the delete, and it is not gone yet
    FORBIDDEN = "forbidden"  #: its service answered 401 or 403
    REFUSED = "refused"  #: its service answered another 4xx
    ERROR = "error"  #: its service answered 5xx, or the call broke
    UNREACHABLE = "unreachable"  #: no connection, or a time-out
    RATE_LIMITED = "rate_limited"  #: its service asked to slow down (429)
    NOT_SUPPORTED = "not_supported"  #: the list call is unknown there (404, 405); unknown, never empty
    BAD_ANSWER = "bad_answer"  #: the service answered in a shape that cannot be trusted
    NO_PLUGIN = "no_plugin"  #: a catalog entry that nobody answers for
    NO_PROJECT_TOKEN = "no_project_token"  #: no token scoped into the project can be had
    INHERITED_GRANTS = "inherited_grants"  #: users keep getting tokens through inherited or system-wide roles
    PROJECT_GONE = "project_gone"  #: somebody else deleted the project, and only it could tell
    PROJECT_IS_DOMAIN = "project_is_domain"
    PROJECT_HAS_CHILDREN = "project_has_children"
    PROJECT_PROTECTED = "project_protected"  #: the orchestrator's own, or on the never-delete list
    PROJECT_IMMUTABLE = "project_immutable"
    STOPPED = "stopped"  #: the deletion was cancelled or the lease lost while the step ran


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """One observed property of a deletion, Kubernetes style. It never changes the status by itself."""

    type: str  #: ``drained``, ``settled``, ``stalled``, ``project_gone``, ``waiting``
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
    purpose: Purpose = Purpose.NONE  #: what the present round is for; none: no round is open
    round_opened_at: datetime.datetime | None = None
    empty_inventories: int = 0  #: complete and empty ones in a row in the present verification
    drained_at: datetime.datetime | None = None  #: when the drain took hold; none: it did not (yet)
    closed_at: datetime.datetime | None = None  #: when the project was found or made disabled
    project_gone_at: datetime.datetime | None = None  #: when we saw that somebody else had deleted the project
    member_ids: tuple[str, ...] = ()  #: users with an effective role on the project when first looked
    conditions: tuple[Condition, ...] = ()
    finished_at: datetime.datetime | None = None
    holding: bool = False  #: recorded changes of ours that are not undone (derived from the changes table)
    children: tuple[Child, ...] = ()  #: derived, and there only where a whole deletion is loaded with its steps
    version: int = 0  #: of the row, for compare-and-swap


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


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One resource type in one region within a deletion, or one of its few deletion-wide tasks (``Kind``)."""

    id: str
    deletion_id: str
    kind: Kind
    region: str = ""  #: empty for what is not regional
    service: str = ""  #: official service type, such as ``network``
    type: str = ""  #: resource type, such as ``port``
    after: tuple[str, ...] = ()  #: ``service.type`` names that must be confirmed gone first
    residue: bool = False  #: goes with the project; does not count as a leftover
    token: Token = Token.ADMIN
    round: int = 0  #: the round it was last dispatched in
    attempt: int = 0  #: sweeps within that round
    state: State = State.IDLE
    outcome: Outcome = Outcome.NONE
    reason: str = ""
    message: str = ""
    found: int = 0  #: resources of the project in the latest first listing
    remaining: int = 0  #: leftovers in the latest second listing
    kept: int = 0  #: not the user's, or gone with their parent: never counted as leftovers
    deleted: int = 0  #: confirmed gone, over all sweeps
    calls: int = 0  #: API calls, over all sweeps
    fence: int = 0  #: one more with each claim; a write with an older one is refused
    worker: str = ""
    dispatched_at: datetime.datetime | None = None
    started_at: datetime.datetime | None = None
    finished_at: datetime.datetime | None = None
    lease_until: datetime.datetime | None = None
    version: int = 0

    @property
    def name(self) -> str:
        """``service.type``, the name that ``after`` uses; for a deletion-wide step its kind."""
        return f"{self.service}.{self.type}" if self.service else str(self.kind)


@dataclasses.dataclass(frozen=True, slots=True)
class Leftover:
    """A resource that is still there, and why."""

    id: str  #: immutable id; for Swift, the container's name
    name: str
    reason: Reason
    message: str = ""
    blocked_by: tuple[Mapping[str, str], ...] = ()  #: ``{"type": ..., "id": ..., "owner": ...}`` of each blocker


@dataclasses.dataclass(frozen=True, slots=True)
class Sweep:
    """One attempt at a step and its result: what a worker hands to the store."""

    outcome: Outcome
    reason: str = ""
    message: str = ""
    found: int = 0
    kept: int = 0
    calls: int = 0
    leftovers: tuple[Leftover, ...] = ()
    deleted: tuple[tuple[str, str], ...] = ()  #: (id, name) of what the second listing no longer has
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)  #: for the journal


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One line of the append-only journal."""

    type: str  #: such as ``deletion.accepted``, ``resource.deleted``
    message: str
    actor: str = ""  #: user id, or the name of the engine or worker
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    request_id: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """Something that we changed for the drain: written down before the call, undone in reverse."""

    id: str
    deletion_id: str
    sequence: int
    type: str  #: ``grant_added``, ``grant_removed``, ``project_disabled``
    data: Mapping[str, Any]
    undone: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Blocker:
    """What keeps a deletion from going on, and what would clear it."""

    region: str
    service: str
    type: str
    reason: str
    message: str
    remedy: str
