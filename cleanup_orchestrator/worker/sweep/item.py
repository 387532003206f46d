"""A resource in one sweep: its state, why it is left, and what is known of its accepted deletes.

Accepted is not gone, and it is not moving for ever either. A delete that failed twice, and one that takes longer than
its type is given, need a person.
"""

from __future__ import annotations

import dataclasses
import datetime
import threading
from collections.abc import Iterable, Mapping
from enum import StrEnum

from cleanup_orchestrator.core import storable
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import DeleteRecord, Leftover
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.plugins import endings
from cleanup_orchestrator.plugins.base import Resource, Row, Verdict, pick
from cleanup_orchestrator.worker.sweep.context import SweepContext
from cleanup_orchestrator.worker.sweep.selecting import moment

#: Why a resource is left that was not tried.
QUEUED = Verdict(Reason.QUEUED, "it is queued")

#: Failures of accepted deletes after which a resource no longer counts as being deleted.
FAILURES = 2

#: Records of one step at most. Of a long list most resources are gone soon; those that stay get a record then.
MAX_RECORDS = 1000

#: Seconds for which a resource may be in ``deleting``, by default; see ``[worker] deleting_patience``.
PATIENCE = 4 * 3600.0

_NO_ROW: Row = {}


class State(StrEnum):
    """What a sweep has found out about a resource, or has done with it."""

    NEW = "new"  #: nothing forbids its delete, and no delete was tried
    KEPT = "kept"  #: a rule of its type keeps it: it is no leftover
    EXCLUDED = "excluded"  #: it must not be deleted
    LEFT = "left"  #: its delete was refused, or its service deletes it already, or it waits for another resource
    MISSING = "missing"  #: its service did not know it when its delete was made
    ACCEPTED = "accepted"  #: its service accepted the delete


class Missing(Verdict):
    """Verdict on a resource that its service does not know when its delete is made.

    It is a leftover's only if the second listing has the resource: a 404 does not prove that it is gone.
    """


class Unasked(Verdict):
    """Verdict on a resource for which its service showed another one, or no owner: no delete was sent."""


@dataclasses.dataclass(slots=True, eq=False)
class Item:
    """A resource of the project in one sweep.

    Filters set its state and its verdict, in this order: ``Exclusions.listed``; what leftovers of other types need; the
    plan; what its service deletes already; what refers to it and is being deleted; what refers to it and stays; what
    other projects use; and what its service answers to the delete. The second listing asks the first three again.
    """

    resource: Resource  #: as listed last; without its row if no delete of it is to be tried
    size: int | None  #: in bytes; see ``Leftover.size``
    announced: bool = False  #: whether the journal has the intent to delete it
    objects: int | None = None  #: see ``Leftover.objects``
    state: State = State.NEW
    verdict: Verdict = QUEUED  #: why it is still there
    moving: bool = False  #: whether its service deletes it since this sweep asked for that, or it waits for such a one
    tried: threading.Event | None = None  #: set once it was tried; the deletes of what it refers to wait for that

    @property
    def id(self) -> str:
        """The immutable id."""
        return self.resource.id

    @property
    def name(self) -> str:
        """The name, as listed last."""
        return self.resource.name

    def exclude(self, verdict: Verdict) -> None:
        """Note why the resource must not be deleted."""
        self.state, self.verdict = State.KEPT if verdict.reason is Reason.KEPT else State.EXCLUDED, verdict

    def leave(self, verdict: Verdict, state: State = State.LEFT) -> None:
        """Note why the resource is not deleted."""
        self.state, self.verdict = state, verdict

    def leave_early(self, verdict: Verdict) -> None:
        """Note why the resource is not deleted, before its turn: what it refers to does not wait for it."""
        self.leave(verdict)
        if self.tried is not None:
            self.tried.set()

    def forget_row(self) -> None:
        """Free the memory of the resource's row, which has several kilobytes."""
        self.resource = Resource(self.resource.id, self.resource.name, self.resource.owner, _NO_ROW)

    def leftover(self, remedy: str = "") -> Leftover:
        """Return the leftover for the report.

        :param remedy: what a person can do about the leftover; empty: what the verdict says
        """
        said = self.verdict
        return Leftover(
            self.resource.id,
            self.resource.name,
            said.reason,
            said.message,
            said.blocked_by,
            remedy=remedy or said.remedy,
            announced=self.announced,
            size=self.size,
            objects=self.objects,
        )


def remedy_of(context: SweepContext, resource: Resource, verdict: Verdict) -> str:
    """Return what a person can do about a verdict, by the hook or the type; empty: see its reason."""
    known = verdict.remedy
    if verdict.reason is not Reason.PROTECTED or _protected_by_rule(context, resource):
        known = known or context.type.remedy_for(verdict.reason, context.project, resource)
    if known or verdict.reason is not Reason.FOREIGN:
        return known
    return endings.remedy(context.name, context.type, context.project.id, verdict.blocked_by, resource)


def _protected_by_rule(context: SweepContext, resource: Resource) -> bool:
    """Whether a rule of the type protects a resource: the type does not know how to remove a keep mark.

    Without the row, which is forgotten to free memory, it is not known.
    """
    return bool(resource.data) and any(rule(resource, context.project) for rule in context.type.protect)


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """What the sweeps before this one left on record."""

    records: Mapping[str, DeleteRecord] = dataclasses.field(default_factory=dict)  #: by stored id
    #: By stored id, what the latest sweep left because its service deletes it; true: the deletion asked for the delete.
    deleting: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    at: datetime.datetime | None = None  #: of the latest sweep, UTC
    now: datetime.datetime | None = None  #: UTC; ``None``: no delete is too old
    patience: float = PATIENCE  #: seconds, for types that declare none


class Accepted:
    """The accepted deletes of one type, as one sweep learns of them. Threads may share it: each has its own ids."""

    def __init__(self, context: SweepContext, history: History) -> None:
        self._type, self._project, self._history = context.type, context.project, history
        patience = history.patience if self._type.patience is None else self._type.patience
        self._patience = datetime.timedelta(seconds=patience)
        self._changed: dict[str, DeleteRecord] = {}

    def record(self, id_: str) -> DeleteRecord | None:
        """Return what is known of the deletes of a resource; its id is the stored one.

        :param id_: as listed, or as stored
        """
        id_ = storable.resource_id(id_)
        if (record := self._changed.get(id_) or self._history.records.get(id_)) is not None:
            return record
        if (asked := self._history.deleting.get(id_)) is None:
            return None
        at = self._history.at
        return DeleteRecord(id_, int(asked), seen_at=at, accepted_at=at if asked else None)

    def count_failure(self, resource: Resource) -> None:
        """Count a failure if a delete was accepted, and the row says now that it failed."""
        rule, record = self._type.failed, self.record(resource.id)
        if rule is None or record is None or not record.pending:
            return
        if fault := rule(resource, self._project):
            self._changed[record.id] = dataclasses.replace(record, failed=record.failed + 1, fault=str(fault))

    def count(self, id_: str) -> None:
        """Count a delete that the service has just accepted."""
        now = self._history.now
        record = self.record(id_) or DeleteRecord(storable.resource_id(id_))
        self._changed[record.id] = dataclasses.replace(
            record, accepted=record.accepted + 1, accepted_at=now, seen_at=record.seen_at or now
        )

    def was_asked_before(self, id_: str) -> bool:
        """Whether the service had accepted a delete before this sweep."""
        id_ = storable.resource_id(id_)
        record = self._history.records.get(id_)
        return bool(record and record.accepted) or self._history.deleting.get(id_, False)

    def failed(self, id_: str) -> bool:
        """Whether so many deletes of a resource failed that it no longer counts as being deleted."""
        record = self.record(id_)
        return record is not None and record.failed >= FAILURES

    def judged(self, resource: Resource, verdict: Verdict) -> Verdict:
        """Return the verdict on a resource whose service deletes it, unless its deletes fail or take too long.

        A verdict that names blockers stays: the resource waits for the delete of others, which have their own verdicts.
        """
        if verdict.reason is not Reason.DELETING or verdict.blocked_by:
            return verdict
        record = self.record(resource.id)
        if record is not None and record.failed >= FAILURES:
            text = f"its delete was accepted {record.failed} times, and failed each time: {record.fault}"
            return dataclasses.replace(verdict, reason=Reason.ERROR, message=text)
        if since := self._too_long(resource, record):
            text = f"its service has been deleting it since {utc(since)} ({self._age(since)})"
            return dataclasses.replace(verdict, reason=Reason.STUCK, message=text)
        if record is not None and record.failed:
            return dataclasses.replace(verdict, message=f"{verdict.message}; the one before failed: {record.fault}")
        return verdict

    def _too_long(self, resource: Resource, record: DeleteRecord | None) -> datetime.datetime | None:
        """Return since when a resource is being deleted, if that is longer than its type is given.

        The time of its last change counts, but not what changed before its delete was accepted. A change, or a delete
        that was accepted again, gives it as much time once more. So a delete that is repeated for ever is found as
        well, and one whose service changes the row for ever.
        """
        now = self._history.now
        if now is None:
            return None
        seen = record.seen_at if record else None
        changed = moment(pick(resource.data, self._type.changed)) if self._type.changed else None
        if changed is None:
            return seen if seen is not None and now - seen >= self._patience else None
        since = max(changed, (record.accepted_at if record else None) or changed)
        if now - since >= self._patience:
            return since
        return seen if seen is not None and now - seen >= 2 * self._patience else None

    def _age(self, since: datetime.datetime) -> str:
        assert self._history.now is not None
        hours = (self._history.now - since).total_seconds() / 3600
        return f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.0f} days"

    def known(self) -> tuple[DeleteRecord, ...] | None:
        """Return all records, for a result that does not say what is left; ``None``: there are none.

        Without them, a list that fails would make the next sweep forget that deletes were accepted.
        """
        ids = dict.fromkeys((*self._history.records, *self._history.deleting, *self._changed))
        return tuple(one for id_ in ids if (one := self.record(id_)) is not None)[:MAX_RECORDS] or None

    def left(self, leftovers: Iterable[Leftover]) -> tuple[DeleteRecord, ...]:
        """Return the records to keep: of resources that are still there after a delete of an earlier sweep.

        Most resources are gone a moment after their delete. So a delete that this sweep requested first is not on
        record: the leftover itself says that its service deletes it.
        """
        kept, new = [], []
        for one in leftovers:
            record = self.record(one.id)
            if record is None or one.blocked_by:
                continue
            if record.id in self._history.records:
                kept.append(record)
            elif record.id in self._history.deleting or one.reason is not Reason.DELETING:
                new.append(record)
        return tuple([*kept, *new][:MAX_RECORDS])
