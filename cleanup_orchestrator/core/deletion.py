"""The data of a deletion, frozen. Pure: no I/O, no clock, no configuration."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from typing import Any, Self

from cleanup_orchestrator.core.condition_types import CONDITIONS, Condition
from cleanup_orchestrator.core.holds import Brake, Lien, Waiver
from cleanup_orchestrator.core.journal_chain import EMPTY, Head
from cleanup_orchestrator.core.queue import EMPTY_QUEUE, LineKey, Queue, QueueState
from cleanup_orchestrator.core.selection import EVERYTHING, Selection
from cleanup_orchestrator.core.words import DELETING_MODES as DELETING_MODES
from cleanup_orchestrator.core.words import Mode as Mode
from cleanup_orchestrator.core.words import Origin as Origin
from cleanup_orchestrator.core.words import RoundPurpose as RoundPurpose
from cleanup_orchestrator.core.words import Status as Status


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """What a deletion does and may do, by its mode, its origin, and whether it is a dry run."""

    mode: Mode
    dry_run: bool = False
    origin: Origin = Origin.REQUEST

    @property
    def only_reports(self) -> bool:
        """Whether the deletion deletes no resource, and locks the project only after an inventory found nothing."""
        return self.mode is Mode.REPORT

    @property
    def keeps_project(self) -> bool:
        """Whether the deletion gives the project back: it neither disables nor removes it, nor deletes its settings."""
        return self.mode is Mode.PURGE

    @property
    def writes(self) -> bool:
        """Whether the deletion may change anything in the cloud."""
        return not self.dry_run and self.origin is not Origin.NOTICED

    @property
    def deletes(self) -> bool:
        """Whether the deletion deletes resources."""
        return self.mode in DELETING_MODES and not self.dry_run

    @property
    def plans(self) -> bool:
        """Whether the deletion only shows what a deletion with the same mode would delete."""
        return self.mode in DELETING_MODES and self.dry_run

    @property
    def insists(self) -> bool:
        """Whether the deletion continues until the project is empty. Any other one ends with a report."""
        return self.mode is Mode.CASCADE and not self.dry_run

    @property
    def may_be_forced(self) -> bool:
        """Whether an admin may decide to abandon what the deletion cannot delete."""
        return self.insists and self.requested

    @property
    def requested(self) -> bool:
        """Whether a user requested the deletion of a project that Keystone knew. Such a project can be restored."""
        return self.origin is Origin.REQUEST

    @property
    def noticed(self) -> bool:
        """Whether another client deleted the project, so that resources are only listed."""
        return self.origin is Origin.NOTICED

    @property
    def adopted(self) -> bool:
        """Whether the project was gone before its deletion was requested."""
        return self.origin is Origin.ADOPTED


_profile = functools.cache(Profile)


@dataclasses.dataclass(frozen=True, slots=True)
class Child:
    """The deletion of a project below, as the deletion of the project above sees it."""

    deletion_id: str
    project_id: str
    status: Status
    status_at: datetime.datetime  #: since when the status holds
    project_name: str = ""
    attention: tuple[str, ...] = ()  #: see ``Deletion.attention``


@dataclasses.dataclass(frozen=True, slots=True)
class Approval:
    """A second person's decision that a deletion may exceed a limit."""

    needed: str  #: the limit: ``too_many_resources``, ``too_many_deletions``
    reason: str  #: as that person gave it
    at: datetime.datetime  #: UTC
    resources: int = 0  #: how many were found when it was given: it covers so many
    hash: str = ""  #: of what would have been deleted then; see ``plans``
    user_id: str = ""
    user_name: str = ""
    request_id: str = ""  #: of the API call

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON, with the time as text."""
        return {**dataclasses.asdict(self), "at": self.at.isoformat()}


@dataclasses.dataclass(frozen=True, slots=True)
class UseDecision:
    """An admin's decision, for one attempt, that a resource is deleted although others use it.

    It is about the uses that were on record at that time, and no others.
    """

    of: str  #: the resource of the project: ``service.type:id``
    by: tuple[tuple[str, str], ...]  #: (type, id) of each resource of others that uses it
    who: str  #: the admin, and why

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return {"of": self.of, "by": [list(each) for each in self.by], "who": self.who}


@dataclasses.dataclass(frozen=True, slots=True)
class Force:
    """An admin's decision, for one attempt, to abandon what cannot be deleted, or to overrule uses."""

    reason: str
    types: tuple[str, ...]  #: ``service.type`` names whose declared force may be used
    at: datetime.datetime
    attempt: int  #: of the deletion; force does not work in a later attempt
    round: int  #: the deletion's round at that time; force works from the next round on
    user_id: str = ""  #: the admin who asked for it
    user_name: str = ""
    request_id: str = ""  #: of the API call that recorded it
    uses: tuple[UseDecision, ...] = ()
    abandons: bool = True  #: false: only ``uses`` were decided, and the deletion goes on as without force

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON, with the time as text."""
        uses = [use.to_dict() for use in self.uses]
        return dataclasses.asdict(self) | {"types": list(self.types), "at": self.at.isoformat(), "uses": uses}

    @property
    def who(self) -> str:
        """Return the user who decided and the reason, as text for people."""
        return f"{self.user_name or self.user_id or 'an unknown user'} ({self.reason})"

    def __str__(self) -> str:
        """Return the user who requested force and the reason, as text for people."""
        return f"by force of {self.who}"


@dataclasses.dataclass(frozen=True, slots=True)
class Tally:
    """How far a deletion is.

    ``steps`` and ``steps_done`` restart at 0 with each round. The other counts concern the whole deletion.
    """

    steps: int = 0  #: resource types (per region) of the present round
    steps_done: int = 0  #: of these, those that are finished in it; if no round is open, those with a result
    found: int = 0  #: resources ever found, also deleted ones
    deleted: int = 0  #: resources gone from the lists of the project, over all attempts; see ``results.record``
    remaining: int = 0  #: leftovers of the latest list in this attempt
    abandoned: int = 0  #: leftovers that were abandoned by force
    kept: int = 0  #: resources that do not belong to the user
    unknown: int = 0  #: types that could not be listed
    calls: int = 0  #: API calls of all steps


@dataclasses.dataclass(frozen=True, slots=True)
class Deletion:
    """The deletion of one project. All times are UTC, by the database's clock."""

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
    progress_at: datetime.datetime  #: when it last made progress; ``stalled`` is measured from this time
    wake_at: datetime.datetime  #: when the engine has to decide again, also without a message
    request_id: str = ""  #: of the API call that requested it
    user_id: str = ""  #: the requester
    user_name: str = ""
    request_reason: str = ""  #: why it was requested, as the requester or a later change says
    ticket: str = ""  #: the requester's reference, such as the number of a change: any number of deletions have it
    not_before: datetime.datetime | None = None  #: its date: nothing of it begins earlier; none: at once
    origin: Origin = Origin.REQUEST
    include_subtree: bool = False  #: this deletion waits for the deletions of the projects below
    parent_deletion_id: str = ""  #: the deletion that waits for this one; empty: none
    reason: str = ""  #: why the status was entered: a code of ``Reason`` or ``StatusReason``, or an action of the API
    message: str = ""  #: why the status was entered, for a person
    attempt: int = 1  #: incremented by each retry
    round: int = 1  #: number of the present round of sweeps; it grows over all attempts
    since_round: int = 1  #: the round in which the present attempt began: older results do not count
    purpose: RoundPurpose = RoundPurpose.NONE  #: what the present round is for; none: no round is open
    round_opened_at: datetime.datetime | None = None
    empty_inventories: int = 0  #: complete and empty inventories in a row in the present verification
    drained_at: datetime.datetime | None = None  #: when the drain took hold; none: it did not, or not yet
    lock_evidence: str = ""  #: what the drain driver saw of the lock when it took hold; another text voids the proof
    closed_at: datetime.datetime | None = None  #: when the project was found or made disabled
    project_gone_at: datetime.datetime | None = None  #: when it was seen that another client had deleted the project
    member_ids: tuple[str, ...] = ()  #: users with an effective role on the project at the first survey
    conditions: tuple[Condition, ...] = ()
    waivers: tuple[Waiver, ...] = ()  #: the waivers that the latest survey relied on, as they were then
    plan_id: str = ""  #: of the dry run whose plan it follows; empty: none, it deletes what it finds
    plan_hash: str = ""  #: of that plan
    selection: Selection = EVERYTHING  #: in mode ``purge``: what is deleted
    #: Before the first delete: the earliest time for it. Afterwards: when deletes began.
    point_of_no_return_at: datetime.datetime | None = None
    approvals: tuple[Approval, ...] = ()
    forced: Force | None = None  #: see ``force.asked`` for whether it still holds
    finished_at: datetime.datetime | None = None
    retry_now_at: datetime.datetime | None = None  #: steps that began before this time do not wait for their next try
    has_changes: bool = False  #: whether recorded changes are not undone yet (derived from the changes table)
    has_holds: bool = False  #: whether a lien on the project or the brake is on record, in force or not (derived)
    superseded: bool = False  #: it ended failed or with leftovers, and its project has a later deletion (derived)
    queue_state: QueueState = QueueState.OUT  #: see :mod:`.queue`; the engine decides it
    turn_at: datetime.datetime | None = None  #: when it last got a place
    version: int = 0  #: of the row, for compare-and-swap
    tally: Tally = Tally()  #: as the latest decision counted it
    #: The head of the journal (derived). Only the journal writes it, whatever ``version`` says.
    journal: Head = dataclasses.field(default=EMPTY, compare=False)

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of a type if it is true."""
        return next((c for c in self.conditions if c.type == type_ and c.status), None)

    @property
    def profile(self) -> Profile:
        """What the deletion does and may do."""
        return _profile(self.mode, self.dry_run, self.origin)

    @property
    def begins_at(self) -> datetime.datetime:
        """When the deletion begins, or began: at its request, or at its date."""
        return max(self.created_at, self.not_before or self.created_at)

    @property
    def line(self) -> LineKey:
        """The line of the queue in which the deletion waits for a place."""
        return self.domain_id, self.user_id

    @property
    def attention(self) -> tuple[str, ...]:
        """Return every cause for which the deletion needs a person now, the most urgent one first.

        A cause is a status, or a word that a condition asks with. There is none for a dry run, and for a deletion whose
        project has a later one.
        """
        if self.dry_run or self.superseded:
            return ()
        if self.status in (Status.FAILED, Status.LEFTOVERS):
            return (str(self.status),)
        true = [(rule.asks, each) for type_, rule in CONDITIONS.items() if (each := self.condition(type_))]
        return tuple(word for asks, each in true for word in asks if word in (each.type, each.reason))


@dataclasses.dataclass(frozen=True, slots=True)
class DeletionView(Deletion):
    """A deletion with its holds and the deletions below it, as of one transaction: what a person is shown of it."""

    liens: tuple[Lien, ...] = ()  #: those on the project that are in force
    brake: Brake | None = None  #: if it is on
    children: tuple[Child, ...] = ()  #: the deletions that it waits for

    @classmethod
    def of(cls, deletion: Deletion, **others: Any) -> Self:
        """Return a deletion together with what other records say.

        :param others: the fields that a ``Deletion`` does not have
        """
        return cls(**{name: getattr(deletion, name) for name in _FIELDS}, **others)


@dataclasses.dataclass(frozen=True, slots=True)
class DeletionCase(DeletionView):
    """All that a decision reads of a deletion, as of one transaction."""

    #: Of its domain or requester, begun in the 24 hours before it; 0 once it is not ``accepted``.
    cascades_before: int = 0
    queue: Queue = EMPTY_QUEUE  #: what waits before it; empty if it has a place or needs none


_FIELDS = tuple(field.name for field in dataclasses.fields(Deletion))


def accepted(**values: Any) -> Deletion:
    """Return a deletion as it is first recorded.

    The store replaces its times with the database's time, except ``not_before``.

    :param values: fields of the deletion without its status and its other times
    """
    never = datetime.datetime(1970, 1, 1)
    return Deletion(
        status=Status.ACCEPTED,
        queue_state=QueueState.OUT if values.get("not_before") else QueueState.WAITING,
        created_at=never,
        updated_at=never,
        status_at=never,
        progress_at=never,
        wake_at=never,
        **values,
    )
