"""A step of a deletion, its result, and the leftovers that it reports."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from cleanup_orchestrator.core.facts import Fact
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.redact import redact


class StepKind(StrEnum):
    """What a step does. All but ``SWEEP``, ``UNSUPPORTED`` and ``HALT`` exist once in each deletion."""

    SURVEY = "survey"  #: read the catalog: which services, regions and types there are
    ACCESS = "access"  #: make sure that the orchestrator can get a token scoped into the project
    DRAIN = "drain"  #: lock the project
    SWEEP = "sweep"  #: one resource type in one region
    UNSUPPORTED = "unsupported"  #: a catalog entry that nobody answers for: always unknown
    HALT = "halt"  #: stop what runs of one resource type in one region, while the project can be had back
    CLOSE = "close"  #: the last turn of the lock, after which nobody gets a token: disable the project
    RELEASE = "release"  #: undo the recorded changes, in reverse
    REMOVE = "remove"  #: delete the project in Keystone


#: What every deletion has from its first moment; the survey adds the others.
TASKS = tuple(kind for kind in StepKind if kind not in (StepKind.SWEEP, StepKind.UNSUPPORTED, StepKind.HALT))


class StepState(StrEnum):
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


#: A header of a request whose path is sent as the header says: HTTP clients resolve ``..`` in a path, also if it is
#: encoded. It is not sent itself. Only for reads, and for what cannot do harm where a proxy resolves the path.
LITERAL_PATH = "X-Cleanup-Literal-Path"


class Token(StrEnum):
    """Which token a resource type needs to be listed and deleted."""

    ADMIN = "admin"  #: the orchestrator's own project, with an owner filter
    PROJECT = "project"  #: one that is scoped into the project under deletion


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One resource type in one region within a deletion, or one of its few deletion-wide tasks (``StepKind``)."""

    id: str
    deletion_id: str
    kind: StepKind
    region: str = ""  #: empty for what is not regional
    service: str = ""  #: official service type, such as ``network``
    type: str = ""  #: resource type, such as ``port``
    after: tuple[str, ...] = ()  #: ``service.type`` names that must be confirmed gone first
    project_setting: bool = False  #: goes with the project; does not count as a leftover
    informational: bool = False  #: project settings that a look names for the report; nothing waits for it
    token: Token = Token.ADMIN
    waived: str = ""  #: id of the waiver that says to go on without it: it is not looked at, and nothing waits for it
    round: int = 0  #: the round it was last dispatched in
    attempt: int = 0  #: sweeps within that round
    state: StepState = StepState.IDLE
    outcome: Outcome = Outcome.NONE
    reason: str = ""
    message: str = ""
    found: int = 0  #: resources of the project in the latest first listing
    remaining: int = 0  #: leftovers in the latest second listing
    kept: int = 0  #: not the user's, or gone with their parent: never counted as leftovers
    forcing: bool = False  #: in the present round, what it could not delete is met with its type's force
    abandoned: int = 0  #: of the leftovers, those that were let go of by force
    unseen: bool = False  #: it was let go of by force without knowing what is there
    unplanned: int = 0  #: of the leftovers, those that are not in the plan that the deletion is bound to
    digest: str = ""  #: of the ids that may be deleted, as of the latest look; empty: it was not looked at
    deleted: int = 0  #: confirmed gone, over all sweeps
    calls: int = 0  #: API calls, over all sweeps
    fencing_token: int = 0  #: one more with each claim; a write with an older one is refused
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
class StepResult:
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
    kept_resources: tuple[
        Leftover, ...
    ] = ()  #: no leftovers, but named: each that is kept, for a plan; what is informational
    in_use: str | None = None  #: for a lien, what others use of it; empty: nothing; none: it was not asked, or not all
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)  #: for the journal
    learned: tuple[Fact, ...] = ()  #: what the step found out about the deletion as a whole
