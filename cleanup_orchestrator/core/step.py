"""A step of a deletion or of an orphan scan, its result, and the leftovers that it reports. Pure."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from enum import StrEnum

from cleanup_orchestrator.core.findings import Finding
from cleanup_orchestrator.core.reasons import ONE_ANSWER, Reason
from cleanup_orchestrator.core.redact import redact
from cleanup_orchestrator.core.words import Outcome as Outcome
from cleanup_orchestrator.core.words import StepState as StepState


class StepKind(StrEnum):
    """What a step does.

    Each deletion has one step of each of ``TASKS``. Orphan scans have steps of the kinds in ``SCANS`` only.
    """

    SURVEY = "survey"  #: read the catalog: which services, regions and types there are
    ACCESS = "access"  #: make sure that the orchestrator can get a token scoped into the project
    DRAIN = "drain"  #: lock the project
    SWEEP = "sweep"  #: list, and in delete rounds delete, one resource type in one region
    UNSUPPORTED = "unsupported"  #: a catalog entry without a plugin: its result is always unknown
    HALT = "halt"  #: stop what runs of one resource type in one region, while the project can be restored
    CLOSE = "close"  #: disable the project: no user gets a token for it afterwards
    RELEASE = "release"  #: undo the recorded changes, in reverse
    REMOVE = "remove"  #: delete the project in Keystone
    CATALOG = "catalog"  #: of an orphan scan: read the catalog
    SCAN = "scan"  #: of an orphan scan: list one resource type in one region for all projects


#: The steps of orphan scans. They never write to the cloud.
SCANS = frozenset({StepKind.CATALOG, StepKind.SCAN})

#: The steps that every deletion has from the beginning. The survey adds the others.
TASKS = tuple(k for k in StepKind if k not in SCANS | {StepKind.SWEEP, StepKind.UNSUPPORTED, StepKind.HALT})


#: An internal header with the path to send as it is: HTTP clients resolve ``..`` in a path, also if it is encoded. The
#: header is not sent. It is only for reads, and for requests that do no harm if a proxy resolves the path.
LITERAL_PATH = "X-Cleanup-Literal-Path"


class Token(StrEnum):
    """Which token a resource type needs to be listed and deleted."""

    ADMIN = "admin"  #: the orchestrator's own project, with an owner filter
    PROJECT = "project"  #: a token that is scoped into the project under deletion
    #: The janitor's token, which is scoped into the project and is no admin's: to an admin the service does not show
    #: what is the project's. Without a janitor, and in a dry run, it is the token of ``PROJECT``.
    MEMBER = "member"
    SERVICE = "service"  #: a token of the user of ``[protocol]``, which has the role ``service`` and is no admin

    @property
    def scoped(self) -> bool:
        """Whether the token is scoped into the project, so that there is none once the project is disabled or gone."""
        return self in (Token.PROJECT, Token.MEMBER)


@dataclasses.dataclass(frozen=True, slots=True)
class ScanCounts:
    """What the reads of an orphan scan counted in one step."""

    listed: int = 0  #: rows of the first read, of all owners
    owner_unknown: int = 0  #: of these, those without an owner, or with one that cannot be a project's id
    too_young: int = 0  #: of these, those of unknown projects that are younger than the minimum age
    undecided: int = 0  #: projects for which Keystone gave no answer
    candidates: int = 0  #: resources of projects that Keystone did not know at the first read
    orphans: int = 0  #: of these, those that are still there, with an unknown project, at the second read


@dataclasses.dataclass(frozen=True, slots=True)
class StepView:
    """What views show of a step, and the values from which they derive it."""

    id: str
    owner_id: str  #: of the deletion or the orphan scan that it is a step of
    kind: StepKind
    region: str = ""  #: empty: not regional
    service: str = ""  #: official service type, such as ``network``
    type: str = ""  #: resource type, such as ``port``
    after: tuple[str, ...] = ()  #: ``service.type`` names that must be confirmed gone first
    needed_by: tuple[str, ...] = ()  #: names in ``after`` whose leftovers need only some resources of this step
    project_setting: bool = False  #: deleted in the last round; it does not count as a leftover
    informational: bool = False  #: a project setting that inventories list for the report; no round waits for it
    token: Token = Token.ADMIN
    waived: str = ""  #: id of the waiver that covers it: it is not listed, and no round waits for it
    round: int = 0  #: the round, or the read of an orphan scan, that it was last dispatched in; 0: none
    attempt: int = 0  #: tries within that round
    state: StepState = StepState.IDLE
    outcome: Outcome = Outcome.NONE
    reason: str = ""
    message: str = ""
    found: int = 0  #: resources of the project in the latest first listing
    remaining: int = 0  #: leftovers in the latest second listing
    kept: int = 0  #: not the user's, or deleted with their parent: never counted as leftovers
    forcing: bool = False  #: whether the force of its type is used on leftovers in the present round
    abandoned: int = 0  #: of the leftovers, those that were abandoned by force
    unseen: bool = False  #: whether it was abandoned by force without a list
    unplanned: int = 0  #: of the leftovers, those that are not in the plan that the deletion follows
    unselected: int = 0  #: of the leftovers, those that are not in the deletion's selection
    digest: str = ""  #: of the ids that may be deleted, as of the latest list; empty: not listed
    deleted: int = 0  #: gone from the lists of the project, over all sweeps; see ``results.record``
    calls: int = 0  #: API calls, over all sweeps
    same: int = 0  #: how many results in a row had this outcome and this reason
    #: Whether the service said at the latest list that it lacks the type. The project has none of it then, unless an
    #: earlier list worked.
    absent: bool = False
    remedy: str = ""  #: what a person does about ``reason``; empty: see the reason
    started_at: datetime.datetime | None = None

    @property
    def name(self) -> str:
        """``service.type``, as in ``after``; for a deletion-wide step its kind."""
        return f"{self.service}.{self.type}" if self.service else str(self.kind)

    @property
    def place(self) -> str:
        """The name and the region, for people."""
        return f"{self.name}@{self.region or '-'}"

    @property
    def polled(self) -> bool:
        """Whether the step runs again only to see whether the deletes that its service accepted have ended."""
        return self.outcome is Outcome.LEFTOVERS and self.reason == Reason.DELETING

    @property
    def seen_twice(self) -> bool:
        """Whether the reason does not rest on a single answer, which may have been odd."""
        return self.kind is not StepKind.SWEEP or self.reason not in ONE_ANSWER or self.same > 1


@dataclasses.dataclass(frozen=True, slots=True)
class Step(StepView):
    """One resource type in one region, or a task for the whole deletion or scan (``StepKind``)."""

    counts: ScanCounts = ScanCounts()  #: of a step of an orphan scan
    fencing_token: int = 0  #: incremented by each claim; a write with an older token is refused
    worker: str = ""
    dispatched_at: datetime.datetime | None = None
    finished_at: datetime.datetime | None = None
    lease_until: datetime.datetime | None = None
    version: int = 0


#: The longest message of a leftover, in characters. It may name some dozen blocking resources.
MAX_MESSAGE = 8192


MAX_BLOCKERS = 50  #: the most resources that one leftover names as blocking it; the report is for people


@dataclasses.dataclass(frozen=True, slots=True)
class Leftover:
    """A resource that is still there, and why."""

    id: str  #: the immutable id; in Swift the container's name
    name: str
    reason: Reason
    message: str = ""
    blocked_by: tuple[Mapping[str, str], ...] = ()  #: see ``verdicts.blocker``; a sweep adds its project
    abandoned: bool = False  #: whether it was abandoned by force
    owner: str = ""  #: if it may be abandoned: the project that it names as its owner
    #: What a person does about it; if it may be abandoned, how a person removes it. Empty: see its reason.
    remedy: str = ""
    #: Whether the journal has the intent to delete it: it does not get another line with each try.
    announced: bool = False
    size: int | None = None  #: in bytes, as its service lists it; ``None``: it does not say
    objects: int | None = None  #: of a container: how many objects it has; ``None``: it is none, or it is not known

    def __post_init__(self) -> None:
        """Remove secrets from the message: it repeats text from a service or a user."""
        object.__setattr__(self, "message", redact(self.message, MAX_MESSAGE))


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteRecord:
    """What is known of the deletes of a resource that is still there after its service accepted one.

    It survives a list that fails, and the rounds of a deletion. It ends when the resource is gone.
    """

    id: str
    accepted: int = 0  #: deletes that its service accepted
    failed: int = 0  #: of these, the ones that failed by the resource's row
    fault: str = ""  #: what the row said at the latest failure
    seen_at: datetime.datetime | None = None  #: since when the deletion knows that its service deletes it, UTC
    accepted_at: datetime.datetime | None = None  #: of the latest accepted delete, UTC

    @property
    def pending(self) -> bool:
        """Whether a delete was accepted of which it is not known that it failed."""
        return self.accepted > self.failed


@dataclasses.dataclass(frozen=True, slots=True)
class StepResult:
    """One attempt at a step and its result: what a worker hands to the store."""

    outcome: Outcome
    reason: str = ""
    message: str = ""
    found: int = 0
    kept: int = 0
    calls: int = 0
    leftovers: tuple[Leftover, ...] = ()
    in_use_unplanned: int = 0  #: of the leftovers that others use, those that are not in the plan either
    deleted: tuple[tuple[str, str], ...] = ()  #: (id, name) of what the second listing no longer has
    digest: str = ""  #: see ``StepView.digest``
    absent: bool = False  #: see ``StepView.absent``
    remedy: str = ""  #: see ``StepView.remedy``
    #: Of all leftovers, or after a list that failed all that is known; ``None``: those on record still hold.
    deletes: tuple[DeleteRecord, ...] | None = None
    more: bool = False  #: the list was not read to its end: there is more than it has
    #: Resources that are named although they are no leftovers: kept ones, for a plan, and informational ones.
    kept_resources: tuple[Leftover, ...] = ()
    in_use: str | None = None  #: for a lien, what others use of it; empty: nothing; none: it was not asked, or not all
    others_ignored: int = 0  #: resources of other owners that the list had: they count for nothing
    stopped: tuple[tuple[str, str], ...] = ()  #: (id, name) of what a halt has stopped
    counts: ScanCounts = ScanCounts()  #: of a step of an orphan scan
    learned: tuple[Finding, ...] = ()  #: what the step found out about the deletion as a whole
