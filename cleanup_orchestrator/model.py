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

from cleanup_orchestrator.redact import redact


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


class Kind(StrEnum):
    """What a step does. All but ``SWEEP``, ``UNCOVERED`` and ``HALT`` exist once in each deletion."""

    SURVEY = "survey"  #: read the catalog: which services, regions and types there are
    ACCESS = "access"  #: make sure that the orchestrator can get a token scoped into the project
    DRAIN = "drain"  #: lock the project
    SWEEP = "sweep"  #: one resource type in one region
    UNCOVERED = "uncovered"  #: a catalog entry that nobody answers for: always unknown
    HALT = "halt"  #: stop what runs of one resource type in one region, while the project can be had back
    CLOSE = "close"  #: the last turn of the lock, after which nobody gets a token: disable the project
    RELEASE = "release"  #: undo the recorded changes, in reverse
    REMOVE = "remove"  #: delete the project in Keystone


#: What every deletion has from its first moment; the survey adds the others.
TASKS = tuple(kind for kind in Kind if kind not in (Kind.SWEEP, Kind.UNCOVERED, Kind.HALT))


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


#: A header of a request whose path is sent as the header says: HTTP clients resolve ``..`` in a path, also if it is
#: encoded. It is not sent itself. Only for reads, and for what cannot do harm where a proxy resolves the path.
LITERAL_PATH = "X-Cleanup-Literal-Path"


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
    NOT_PLANNED = "not_planned"  #: the plan that the deletion is bound to does not have it: it is not deleted
    DELETING = "deleting"  #: its service accepted the delete, and it is not gone yet
    FORBIDDEN = "forbidden"  #: its service answered 401 or 403
    REFUSED = "refused"  #: its service answered another 4xx
    ERROR = "error"  #: its service answered 5xx, or the call broke
    UNREACHABLE = "unreachable"  #: no connection, or a time-out
    TIMED_OUT = "timed_out"  #: the step gave no sign of life for too long, or took too long: it was given up
    HELD = "held"  #: a lien, the brake or the hours withheld its delete; the condition ``held`` names them
    RATE_LIMITED = "rate_limited"  #: its service asked to slow down (429)
    NOT_SUPPORTED = "not_supported"  #: the list call is unknown there (404, 405); unknown, never empty
    BAD_ANSWER = "bad_answer"  #: the service answered in a shape that cannot be trusted
    NO_PLUGIN = "no_plugin"  #: a catalog entry that nobody answers for
    INFORMATIONAL = "informational"  #: a user's, and only names the project: it goes last, and keeps nothing from going
    KEPT = "kept"  #: not the user's, or gone with its parent; only the plan that a dry run leaves says so of each
    WAIVED = "waived"  #: an admin's waiver says to go on without the service: it is not looked at
    NO_PROJECT_TOKEN = "no_project_token"  #: no token scoped into the project can be had
    NO_JANITOR = "no_janitor"  #: its delete acts on what users wrote, and the janitor gets no token for the project
    INHERITED_GRANTS = "inherited_grants"  #: users keep getting tokens through inherited or system-wide roles
    PROJECT_GONE = "project_gone"  #: somebody else deleted the project, and only it could tell
    PROJECT_KNOWN = "project_known"  #: Keystone knows the project, which was to be deleted as one that it does not
    PROJECT_IS_DOMAIN = "project_is_domain"
    PROJECT_HAS_CHILDREN = "project_has_children"
    PROJECT_PROTECTED = "project_protected"  #: the orchestrator's own, or on the never-delete list
    PROJECT_IMMUTABLE = "project_immutable"
    STOPPED = "stopped"  #: the deletion was cancelled or the lease lost while the step ran


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """One observed property of a deletion, Kubernetes style. It never changes the status by itself."""

    #: ``approval``, ``drained``, ``forced``, ``halted``, ``held``, ``project_gone``, ``settled``, ``stalled``,
    #: ``waiting`` or ``waived``
    type: str
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
class Brake:
    """The one switch that stops every deletion of the cloud: no lock, no delete, until it is lifted."""

    on: bool
    reason: str = ""  #: why it was pulled; it stays when it is lifted
    since: datetime.datetime | None = None  #: when it was pulled or lifted; none: it never was
    user_id: str = ""  #: who did
    user_name: str = ""
    request_id: str = ""  #: of the API call that did

    def to_dict(self) -> dict[str, Any]:
        """Return it with its time as text, for JSON."""
        return _plain(dataclasses.asdict(self))

    @property
    def explained(self) -> str:
        """Say who pulled it, when and why: only for those who may read the brake."""
        since = f" at {self.since.isoformat(timespec='seconds')}Z" if self.since else ""
        return f"the brake, pulled by {self.user_name or self.user_id or 'somebody'}{since}: {self.reason}"


@dataclasses.dataclass(frozen=True, slots=True)
class Lien:
    """A protection of one project: as long as it is in force, nothing of the project is locked or deleted."""

    id: str
    project_id: str  #: whether Keystone knows it or not
    origin: str  #: on whose behalf, such as ``billing`` or ``legal``
    reason: str
    created_at: datetime.datetime
    expires_at: datetime.datetime | None = None  #: none: until it is removed
    user_id: str = ""  #: who recorded it
    user_name: str = ""
    request_id: str = ""  #: of the API call that recorded it
    deleted_at: datetime.datetime | None = None  #: when it was removed; the record stays
    deleted_by: str = ""  #: user id of who removed it

    def in_force(self, now: datetime.datetime) -> bool:
        """Whether it holds at a time of the database's clock."""
        return self.deleted_at is None and (self.expires_at is None or now < self.expires_at)

    def to_dict(self) -> dict[str, Any]:
        """Return it with its times as text, for JSON."""
        return _plain(dataclasses.asdict(self))

    def __str__(self) -> str:
        """Say on whose behalf what is protected, and until when: for all who see the deletion of the project."""
        until = f"until {self.expires_at.isoformat(timespec='seconds')}Z" if self.expires_at else "until it is removed"
        return f"lien {self.id} of {self.origin} on project {self.project_id} {until}"

    @property
    def explained(self) -> str:
        """Say why, too: only for those who may read liens."""
        return f"{self}: {self.reason}"


@dataclasses.dataclass(frozen=True, slots=True)
class Waiver:
    """An admin's recorded "go on without this service": what it holds is not looked at. Empty strings: not limited."""

    id: str
    service_type: str  #: official
    reason: str
    created_at: datetime.datetime
    expires_at: datetime.datetime
    region: str = ""  #: empty: in every region
    project_id: str = ""  #: empty: for every project
    user_id: str = ""  #: who recorded it
    user_name: str = ""
    request_id: str = ""  #: of the API call that recorded it
    deleted_at: datetime.datetime | None = None  #: when it was withdrawn; the record stays
    deleted_by: str = ""  #: user id of who withdrew it

    def in_force(self, now: datetime.datetime) -> bool:
        """Whether it holds at a time of the database's clock."""
        return self.deleted_at is None and now < self.expires_at

    def covers(self, service_type: str, region: str) -> bool:
        """Whether it is about a catalog entry."""
        return self.service_type == service_type and self.region in ("", region)

    def to_dict(self) -> dict[str, Any]:
        """Return it with its times as text, for JSON."""
        return _plain(dataclasses.asdict(self))

    def __str__(self) -> str:
        """Say who waived what, and until when: for all who see a deletion that relies on it."""
        where = f"in region {self.region}" if self.region else "in every region"
        until = self.expires_at.isoformat(timespec="seconds")
        who = self.user_name or self.user_id or "somebody"
        return f"{self.service_type} {where}: waiver {self.id} of {who} until {until}Z"

    @property
    def explained(self) -> str:
        """Say why, too: only for those who may read waivers."""
        return f"{self}: {self.reason}"


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
    purpose: Purpose = Purpose.NONE  #: what the present round is for; none: no round is open
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


#: Conditions under which a deletion that is under way waits for somebody: type, and reason where that matters.
_ASKING = {
    "stalled": ("stalled", ""),
    "approval": ("approval", ""),
    "lien": ("held", "lien"),
    "brake": ("held", "brake"),
}

#: Why a deletion may need somebody.
ATTENTION = (str(Status.FAILED), str(Status.LEFTOVERS), *_ASKING)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with times as text, for JSON."""
    return {k: v.isoformat() if isinstance(v, datetime.datetime) else v for k, v in values.items()}


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
    informational: bool = False  #: residue that a look names for the report; nothing waits for it
    token: Token = Token.ADMIN
    waived: str = ""  #: id of the waiver that says to go on without it: it is not looked at, and nothing waits for it
    round: int = 0  #: the round it was last dispatched in
    attempt: int = 0  #: sweeps within that round
    state: State = State.IDLE
    outcome: Outcome = Outcome.NONE
    reason: str = ""
    message: str = ""
    found: int = 0  #: resources of the project in the latest first listing
    remaining: int = 0  #: leftovers in the latest second listing
    kept: int = 0  #: not the user's, or gone with their parent: never counted as leftovers
    forcing: bool = False  #: in the present round, what it could not delete is met with its type's force
    abandoned: int = 0  #: of the leftovers, those that were let go of by force
    unseen: bool = False  #: it was let go of by force without knowing what is there
    newcomers: int = 0  #: of the leftovers, those that are not in the plan that the deletion is bound to
    digest: str = ""  #: of the ids that may be deleted, as of the latest look; empty: it was not looked at
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


#: Characters of a leftover's message, which may name some dozen resources that stand in the way.
MOST_MESSAGE = 8192


@dataclasses.dataclass(frozen=True, slots=True)
class Leftover:
    """A resource that is still there, and why."""

    id: str  #: immutable id; for Swift, the container's name
    name: str
    reason: Reason
    message: str = ""
    blocked_by: tuple[Mapping[str, str], ...] = ()  #: ``{"type": ..., "id": ..., "owner": ...}`` of each blocker
    abandoned: bool = False  #: it was let go of by force: the project goes without it
    owner: str = ""  #: of what may be abandoned: the project that it says it belongs to
    remedy: str = ""  #: of what may be abandoned: how a person gets rid of it; empty: what its reason says

    def __post_init__(self) -> None:
        """Take secrets out of the message: it repeats what a service said, or what a user wrote."""
        object.__setattr__(self, "message", redact(self.message, MOST_MESSAGE))


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
    digest: str = ""  #: of a look: see ``Step.digest``
    more: bool = False  #: the list was not read to its end: there is more than it has
    spared: tuple[Leftover, ...] = ()  #: no leftovers, but named: each that is kept, for a plan; what is informational
    in_use: str | None = None  #: for a lien, what others use of it; empty: nothing; none: it was not asked, or not all
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
    """Something that we changed and give back on cancel: written down before the call, undone in reverse."""

    id: str
    deletion_id: str
    sequence: int
    type: str  #: ``grant_added``, ``grant_removed``, ``project_disabled``, ``project_fenced``, ``resource_stopped``
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


class ScanStatus(StrEnum):
    """Where an orphan scan stands."""

    ACCEPTED = "accepted"  #: recorded; the catalog is being read
    RUNNING = "running"  #: a read is under way: the first, or after ``waiting`` the second
    WAITING = "waiting"  #: between the two reads
    COMPLETED = "completed"  #: every list that there is was read twice, where the first read gave reason to
    INCOMPLETE = "incomplete"  #: it ended without some of the answers; what it reports holds all the same
    FAILED = "failed"  #: not even the catalog could be read
    CANCELLED = "cancelled"


#: Of an orphan scan that has not ended.
SCANNING = frozenset({ScanStatus.ACCEPTED, ScanStatus.RUNNING, ScanStatus.WAITING})


@dataclasses.dataclass(frozen=True, slots=True)
class OrphanScan:
    """A search through every service for resources whose project Keystone does not know. Times as in a deletion."""

    id: str
    status: ScanStatus
    created_at: datetime.datetime
    status_at: datetime.datetime
    wake_at: datetime.datetime  #: when the engines' tick has to look at it again
    min_age: int  #: seconds; a resource that says it is younger is not looked at
    reread_after: int  #: seconds between the end of the first read and the beginning of the second
    scheduled: bool = False  #: nobody asked for it: its time had come
    read: int = 1  #: which of the two reads it is at
    message: str = ""  #: of the latest status
    user_id: str = ""
    user_name: str = ""
    request_id: str = ""
    reread_at: datetime.datetime | None = None  #: when the second read may begin
    finished_at: datetime.datetime | None = None
    not_covered: tuple[Mapping[str, str], ...] = ()  #: ``{"region", "service", "type", "reason"}``: never looked at
    version: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class ScanPart:
    """One resource type in one region within an orphan scan; without a service: the look at the catalog."""

    id: str
    scan_id: str
    region: str = ""
    service: str = ""
    type: str = ""
    residue: bool = False
    read: int = 0  #: which read it was last dispatched for; 0: for none
    attempt: int = 0  #: at that read
    state: State = State.IDLE
    outcome: Outcome = Outcome.NONE  #: of the latest attempt
    reason: str = ""
    message: str = ""
    listed: int = 0  #: rows of the first read, whosever
    owner_unknown: int = 0  #: of these, without an owner, or with one that cannot be a project's id
    too_young: int = 0  #: of these, of a project that Keystone does not know, and younger than the minimum age
    undecided: int = 0  #: projects of which Keystone did not tell whether it knows them
    candidates: int = 0  #: resources of projects that Keystone did not know at the first read
    orphans: int = 0  #: of these, still there at the second read, when Keystone still did not know their project
    calls: int = 0
    fence: int = 0  #: one more with each claim
    worker: str = ""
    dispatched_at: datetime.datetime | None = None
    lease_until: datetime.datetime | None = None
    finished_at: datetime.datetime | None = None
    version: int = 0

    @property
    def name(self) -> str:
        """``service.type@region``, for people."""
        return f"{self.service}.{self.type}@{self.region or '-'}" if self.service else "catalog"


@dataclasses.dataclass(frozen=True, slots=True)
class Orphan:
    """A resource whose project Keystone does not know."""

    project_id: str
    region: str
    service: str
    type: str
    resource_id: str
    name: str
    residue: bool = False  #: quota rows, default groups and the like: nothing that anybody made
    created_at: datetime.datetime | None = None  #: as its service says; none: it does not say
    first_seen_at: datetime.datetime | None = None
    last_seen_at: datetime.datetime | None = None
