"""Deletions: created, listed, loaded for a decision, and saved with it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc as sa_exc
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import approvals, dry_runs, proposals
from cleanup_orchestrator.core.actions import Applied
from cleanup_orchestrator.core.deletion import Child, Deletion, DeletionCase, DeletionView, Status
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.journal_chain import EMPTY
from cleanup_orchestrator.core.proposals import Proposal
from cleanup_orchestrator.core.queue import EMPTY_QUEUE, QueueState
from cleanup_orchestrator.core.request_limits import UNLIMITED, RequestLimits
from cleanup_orchestrator.core.step import Step, StepKind, StepView
from cleanup_orchestrator.core.transitions import LIVE, WORKING, retries_in_place
from cleanup_orchestrator.store import guard, queries, records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import Repository, database_time, new_id
from cleanup_orchestrator.store.errors import AlreadyUnderWay, Conflict, NotFound, TooManyDeletions
from cleanup_orchestrator.store.journal import is_written, write_journal
from cleanup_orchestrator.store.leftovers import abandon_leftovers
from cleanup_orchestrator.store.paging import Page, paged
from cleanup_orchestrator.store.plans import cascades_before, in_order, requests
from cleanup_orchestrator.store.plugin_liens import end_liens_of
from cleanup_orchestrator.store.queue import next_ones, queue_before
from cleanup_orchestrator.store.request_limits import check_requests
from cleanup_orchestrator.store.transient import retry_duplicate, retry_transient

#: What a decision is made on: a deletion, all its steps, and the database's time, as of one transaction.
Loaded = tuple[DeletionCase, tuple[Step, ...], datetime.datetime]

#: A deletion before and after a write, and the liens that ended with it.
Ended = tuple[Deletion, Deletion, list[Lien]]

#: Decides on a deletion; ``None``: there is nothing to do. Without effects: it may be called again.
Decision = Callable[[DeletionCase, tuple[Step, ...], datetime.datetime], Applied | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """Which deletions a listing has, by their times. ``None``: at any time."""

    created_since: datetime.datetime | None = None
    created_until: datetime.datetime | None = None  #: the first time that is not in the span
    changed_since: datetime.datetime | None = None
    live_or_ended_since: datetime.datetime | None = None

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Return the conditions for a deletion of the span."""
        table, conditions = t.deletions.c, list[sa.ColumnElement[bool]]()
        if self.created_since is not None:
            conditions.append(table.created_at >= self.created_since)
        if self.created_until is not None:
            conditions.append(table.created_at < self.created_until)
        if self.changed_since is not None:
            conditions.append(table.updated_at >= self.changed_since)
        if self.live_or_ended_since is not None:
            conditions.append(sa.or_(table.finished_at.is_(None), table.finished_at >= self.live_or_ended_since))
        return conditions


@dataclasses.dataclass(frozen=True, slots=True)
class Decided:
    """A decision that was saved."""

    before: Deletion
    steps: tuple[Step, ...]  #: all of the deletion, as the decision read them
    now: datetime.datetime  #: the database's time of the decision
    applied: Applied
    saved: tuple[Ended, ...] = ()  #: the dry runs that ended for the deletion, and the deletion


#: Decides on a deletion within the transaction that locks it.
_LockedDecision = Callable[[Connection, DeletionCase, tuple[Step, ...], datetime.datetime], Applied | None]

#: How often a proposal is applied anew because a worker or another deletion of the project got in between.
_TRIES = 10


class Deletions(Repository):
    """Reads and writes deletions.

    A deletion is saved only if its ``version`` is the one that was read.
    """

    def create(self, deletion: Deletion, kinds: Iterable[StepKind], event: Event) -> Deletion:
        """Record a new deletion with its deletion-wide steps; see :meth:`create_all`."""
        return self.create_all([(deletion, event)], kinds)[0]

    def create_all(
        self,
        wanted: Sequence[tuple[Deletion, Event]],
        kinds: Iterable[StepKind],
        limits: RequestLimits = UNLIMITED,
        again: Sequence[tuple[Deletion, Event]] = (),
    ) -> tuple[Deletion, ...]:
        """Record new deletions, all or none.

        Each is recorded with its deletion-wide steps and its first journal line. The database's time replaces their
        times. A live dry run of one of the projects ends if the new deletion is no dry run.

        :param limits: those that the requester is under
        :param again: deletions under way that an admin requests again, those above first, each with the journal line.
            It is written unless an admin has requested the deletion, or one above it, before
        :raises AlreadyUnderWay: when one of the projects has another live deletion
        :raises TooManyDeletions: when a limit is reached
        :raises Conflict: when one of ``again`` has ended or is being cancelled
        """
        made, ended = self._create_all(wanted, tuple(kinds), limits, again)
        self._tell(ended)
        for deletion in made:
            self._database.listeners.deletion_saved(None, deletion)
        return made

    @retry_transient
    @retry_duplicate  # the deletion that was in the way may have ended before it is read
    def _create_all(
        self,
        wanted: Sequence[tuple[Deletion, Event]],
        kinds: tuple[StepKind, ...],
        limits: RequestLimits,
        again: Sequence[tuple[Deletion, Event]],
    ) -> tuple[tuple[Deletion, ...], list[Ended]]:
        """Record new deletions; return them, and the dry runs that ended."""
        made = []
        try:
            with self._database.begin() as c:
                if (wanted and limits != UNLIMITED) or any(approvals.counts(deletion) for deletion, _event in wanted):
                    in_order(c)
                ended = _end_dry_runs(c, wanted)
                if wanted and limits != UNLIMITED:
                    check_requests(c, wanted[0][0], limits)
                now = database_time(c)
                for deletion, event in wanted:
                    deletion = dataclasses.replace(
                        deletion, created_at=now, updated_at=now, status_at=now, progress_at=now, wake_at=now
                    )
                    c.execute(t.deletions.insert(), [records.deletion_values(deletion)])
                    rows = [records.step_values(Step(id=new_id(), owner_id=deletion.id, kind=kind)) for kind in kinds]
                    c.execute(t.steps.insert(), rows)
                    head = write_journal(c, deletion.id, now, [event], EMPTY)
                    made.append(dataclasses.replace(deletion, journal=head))
                for deletion, event in again:
                    _request_again(c, deletion.id, event)
        except (sa_exc.IntegrityError, TooManyDeletions) as error:
            if wanted:
                with contextlib.suppress(NotFound):  # an earlier attempt was committed, and its answer was lost
                    return tuple(self.get(deletion.id) for deletion, _event in wanted), []
            if isinstance(error, sa_exc.IntegrityError):
                for deletion, _event in wanted:
                    if existing := self.live(deletion.project_id):
                        raise AlreadyUnderWay(existing) from None
            raise
        return tuple(made), ended

    @retry_transient
    def get(self, deletion_id: str) -> Deletion:
        """Return one deletion.

        :raises NotFound: when it does not exist
        """
        with self._database.read() as c:
            return queries.get_deletion(c, deletion_id)

    @retry_transient
    def live(self, project_id: str) -> Deletion | None:
        """Return the live deletion of a project, if there is one."""
        with self._database.read() as c:
            row = c.execute(records.select_deletions().where(t.deletions.c.live_project_id == project_id)).first()
            return records.deletion(row) if row else None

    @retry_transient
    def page(self, page: Page, attention: bool | None = None, span: Span = Span(), **filters: Any) -> list[Deletion]:
        """Return one page of deletions.

        :param attention: only those that need an operator, or only the others; ``None``: all
        :param span: only those of these times
        :param filters: column=value; a list or tuple means "any of"
        :raises NotFound: when the marker does not exist
        """
        table = t.deletions
        where = [
            table.c[name].in_(value) if isinstance(value, list | tuple) else table.c[name] == value
            for name, value in filters.items()
        ]
        if attention is not None:
            asking = records.needs_attention()
            where.append(asking if attention else sa.not_(asking))
        where += span.conditions()
        with self._database.read() as c:
            rows = paged(c, records.select_deletions(), table, where, page, "deletion")
        return [records.deletion(row) for row in rows]

    @retry_transient
    def due(self, limit: int = 100, without: Collection[str] = ()) -> list[str]:
        """Return the ids of live deletions that are due, the most overdue first.

        :param without: ids of deletions that do not count
        """
        table = t.deletions
        with self._database.read() as c:
            query = (
                sa.select(table.c.id)
                .where(table.c.live_project_id.is_not(None), table.c.wake_at <= database_time(c))
                .where(table.c.id.not_in(sorted(without)) if without else sa.true())
                .order_by(table.c.wake_at)
                .limit(limit)
            )
            return [row.id for row in c.execute(query)]

    @retry_transient
    def next_ones(self, places: int, limit: int) -> list[str]:
        """Return the ids of the deletions that get the next free places; see :func:`queue.next_ones`."""
        with self._database.read() as c:
            return next_ones(c, places, limit, database_time(c))

    @retry_transient
    def load(self, deletion_id: str) -> Loaded:
        """Return a deletion, all its steps, and the time, as of one transaction.

        :raises NotFound: when it does not exist
        """
        with self._database.read() as c:
            deletion, now = queries.get_deletion_now(c, deletion_id)
            return _case(c, deletion, now), queries.steps_of(c, deletion_id), now

    def decide(self, deletion_id: str, decision: Decision, places: int | None = None) -> Decided | None:
        """Load a deletion, decide on it, and save the decision in the same transaction.

        The row of the deletion is locked meanwhile, so that no result and no other engine's decision voids this one.

        :param places: how many deletions may work at once, free or not; see :func:`queue.queue_before`
        :returns: ``None``: the decision was that there is nothing to do
        :raises NotFound: when the deletion does not exist
        :raises Conflict: when the decision is on an older version of the deletion, or a worker has claimed or renewed
            a changed step since it was read
        """
        return self._told(self._decide(deletion_id, lambda _c, *loaded: decision(*loaded), [], places))

    def propose(self, proposal: Proposal) -> Decided | None:
        """Apply a user's proposal to its deletion, under the same lock as a decision.

        It is applied once, also if the reply to the commit is lost. If the deletion becomes live again and is no dry
        run, a live dry run of its project ends.

        :returns: ``None``: there is nothing to change
        :raises NotFound: when the deletion does not exist
        :raises Refused: when the deletion does not allow it
        :raises TooManyDeletions: when the deletion would become live, and a limit is reached
        :raises AlreadyUnderWay: when it would become live, and the project has another live deletion
        :raises Conflict: when workers or other deletions of the project got in between each time
        """
        seen, attempts = proposal.seen, list[Decided]()
        limits = proposal.limits if isinstance(proposal, proposals.Retry) else UNLIMITED
        for _ in range(_TRIES):
            try:
                decision = functools.partial(_reschedule if _moves_cascade(proposal) else _propose, proposal)
                return self._told(self._decide(seen.id, decision, attempts, limits=limits))
            except Conflict:
                continue
            except sa_exc.IntegrityError:
                existing = self.live(seen.project_id)
                if existing is None or dry_runs.gives_way(existing, seen):  # it has just ended, or has just begun
                    continue
                if existing.id == seen.id:
                    raise
                raise AlreadyUnderWay(existing) from None
        raise Conflict(f"deletion {seen.id} changed at each of {_TRIES} attempts")

    @retry_transient
    def consider(self, proposal: Proposal) -> None:
        """Check that :meth:`propose` would accept a proposal now, limits aside.

        :raises NotFound, Refused: as :meth:`propose`
        """
        with self._database.read() as c:
            deletion, now = queries.get_deletion_now(c, proposal.seen.id)
            _propose(proposal, c, _case(c, deletion, now), queries.steps_of(c, deletion.id), now)

    @retry_transient
    def _decide(
        self,
        deletion_id: str,
        decision: _LockedDecision,
        attempts: list[Decided],
        places: int | None = None,
        limits: RequestLimits = UNLIMITED,
    ) -> Decided | None:
        """Decide on a locked deletion, and save the decision.

        :param attempts: receives the decision of each attempt. If the reply to a commit is lost, the next attempt finds
            the decision in the journal, unless it has no line there
        :param limits: those that the requester is under, if the deletion becomes live
        :raises TooManyDeletions: when it would become live, and a limit is reached
        """
        with self._database.begin() as c:
            before, steps, now = queries.load_locked(c, deletion_id)
            for last in attempts[-1:]:
                if any(is_written(c, deletion_id, last.now, event) for event in last.applied.events[:1]):
                    return last
            deletion = _case(c, before, now, places)
            applied = decision(c, deletion, steps, now)
            if applied is None:
                return None
            begins = applied.deletion.status in LIVE and deletion.status not in LIVE
            limited = begins and limits != UNLIMITED
            if limited:  # as in _create_all: of two requests at the same moment, the second one counts the first one
                in_order(c)
            ended = _end_dry_runs(c, [(applied.deletion, event) for event in applied.events[:1]]) if begins else []
            if limited:
                check_requests(c, deletion, limits)
            saved = _write_deletion(c, applied.deletion)
            queries.write_steps(c, {step.id: step for step in steps}, applied.steps)
            told = _write_consequences(c, deletion, saved, applied.events, applied.abandoned, now)
            attempts.append(Decided(deletion, steps, now, applied, (*ended, told)))
            return attempts[-1]

    def _told(self, decided: Decided | None) -> Decided | None:
        """Tell the listeners what a decision changed, and return it."""
        self._tell(decided.saved if decided is not None else ())
        return decided

    @retry_transient
    def shown(self, deletion_id: str) -> tuple[DeletionView, tuple[StepView, ...]]:
        """Return what a person is shown of a deletion and of its steps, as of one transaction.

        :raises NotFound: when it does not exist
        """
        with self._database.read() as c:
            record, now = queries.get_deletion_now(c, deletion_id)
            liens, brake = guard.holds(c, record, now)
            deletion = DeletionView.of(record, liens=liens, brake=brake, children=_children(c, record))
            return deletion, queries.shown_steps_of(c, deletion_id)

    def _tell(self, saved: Iterable[Ended]) -> None:
        """Tell the listeners of deletions that were saved, and of the liens that ended with them."""
        for before, after, liens in saved:
            for lien in liens:
                self._database.listeners.lien_changed(lien)
            self._database.listeners.deletion_saved(before, after)


def _propose(
    proposal: Proposal, c: Connection, deletion: DeletionView, steps: tuple[Step, ...], now: datetime.datetime
) -> Applied | None:
    """Apply a proposal.

    :raises Refused: when the deletion does not allow it
    """
    return proposals.apply(proposal, deletion, steps, now, requests(c, deletion))


def _moves_cascade(proposal: Proposal) -> bool:
    """Return whether a proposal changes when a cascade counts against a daily limit."""
    moves = isinstance(proposal, proposals.Change) and "not_before" in proposal.fields
    return moves and approvals.counts(proposal.seen)


def _reschedule(
    proposal: Proposal, c: Connection, deletion: DeletionView, steps: tuple[Step, ...], _now: datetime.datetime
) -> Applied | None:
    """Change the date of a cascade in the order in which cascades are recorded; see :func:`plans.in_order`.

    The time is read after the lock: a date that is now is then later than each cascade that was recorded before.

    :raises Refused: when the deletion does not allow it
    """
    in_order(c)
    return _propose(proposal, c, deletion, steps, database_time(c))


def _case(c: Connection, deletion: Deletion, now: datetime.datetime, places: int | None = None) -> DeletionCase:
    """Return a deletion with all that a decision reads of it besides its steps."""
    liens, brake = guard.holds(c, deletion, now)
    counts = deletion.status is Status.ACCEPTED and approvals.counts(deletion)
    waits = deletion.status in WORKING and deletion.queue_state is not QueueState.WORKING
    return DeletionCase.of(
        deletion,
        liens=liens,
        brake=brake,
        children=_children(c, deletion),
        cascades_before=cascades_before(c, deletion) if counts else 0,
        queue=queue_before(c, deletion, now, places) if waits else EMPTY_QUEUE,
    )


def _end_dry_runs(c: Connection, wanted: Iterable[tuple[Deletion, Event]]) -> list[Ended]:
    """End the live dry runs that give way to deletions which are about to be live, each with its first journal line.

    See :func:`dry_runs.gives_way`.

    :raises AlreadyUnderWay: when a dry run gives way, and another live deletion does not
    """
    real = {deletion.project_id: (deletion, event) for deletion, event in wanted if not deletion.dry_run}
    ended = list[Ended]()
    if not real:
        return ended
    query = records.select_deletions().where(t.deletions.c.live_project_id.in_(list(real)))
    live = [records.deletion(row) for row in c.execute(query.order_by(t.deletions.c.id))]
    giving = [each for each in live if dry_runs.gives_way(each, real[each.project_id][0])]
    if giving and len(giving) < len(live):
        raise AlreadyUnderWay(next(each for each in live if each not in giving))
    for each in giving:
        before, steps, now = queries.load_locked(c, each.id)
        deletion, asked = real[before.project_id]
        if dry_runs.gives_way(before, deletion):
            for after, event in dry_runs.ended(before, steps, deletion, asked, now):
                saved = _write_deletion(c, dataclasses.replace(after, version=before.version, journal=before.journal))
                ended.append(_write_consequences(c, before, saved, [event], (), now))
                before = ended[-1][1]
    return ended


def _request_again(c: Connection, deletion_id: str, event: Event) -> None:
    """Write the journal line of an admin who requests a deletion under way, unless an admin has requested it before.

    The deletion gets another version, so that neither a cancel nor an approval that was decided before is saved.

    :raises Conflict: when the deletion has ended or is being cancelled
    """
    deletion, _steps, now = queries.load_locked(c, deletion_id)
    if not retries_in_place(deletion):
        raise Conflict(f"deletion {deletion_id} became {deletion.status} meanwhile")
    if not requests(c, deletion).of_admin:
        _write_deletion(c, dataclasses.replace(deletion, updated_at=now))
        write_journal(c, deletion_id, now, [event], deletion.journal)


def _write_deletion(c: Connection, deletion: Deletion) -> Deletion:
    """Write a deletion in its next version and return it.

    :raises Conflict: when it has changed since it was read
    """
    after = dataclasses.replace(deletion, version=deletion.version + 1)
    key = {"known_id": deletion.id, "known_version": deletion.version}
    if c.execute(queries.UPDATE_DELETION, records.deletion_values(after) | key).rowcount != 1:
        raise Conflict(f"deletion {deletion.id} changed meanwhile")
    return after


def _write_consequences(
    c: Connection,
    before: Deletion,
    after: Deletion,
    events: Sequence[Event],
    abandoned: Iterable[str],
    now: datetime.datetime,
) -> Ended:
    """Write the journal lines of a saved deletion, and end its liens with it.

    :param before: as it was read since its row was locked
    """
    lines = list(events)
    actor = next((event.actor for event in events if event.actor), "")
    for step_id in abandoned:
        lines += [dataclasses.replace(event, actor=actor) for event in abandon_leftovers(c, step_id)]
    # A plugin's lien belongs to one deletion: the next deletion, or a retry, checks the resources again.
    ends = before.has_holds and before.status in LIVE and after.status not in LIVE
    liens, endings = end_liens_of(c, before, queries.steps_of(c, before.id), now, actor) if ends else ([], [])
    head = write_journal(c, before.id, now, [*lines, *endings], before.journal)
    return before, dataclasses.replace(after, journal=head), liens


def _children(c: Connection, deletion: Deletion) -> tuple[Child, ...]:
    """Return the deletions of the projects below, if a deletion waits for them."""
    if not deletion.include_subtree:
        return ()
    table = t.deletions
    names = ("id", "project_id", "status", "status_at", "project_name", "attention")
    query = sa.select(*(table.c[name] for name in names), records.needs_attention().label("asks"))
    rows = c.execute(query.where(table.c.parent_deletion_id == deletion.id).order_by(table.c.project_id))
    return tuple(map(records.child, rows))
