"""The only package with a database session. Everything that is written is written here, under compare-and-swap.

Rules that hold for every write: a deletion is saved only if its ``version`` is the one that was read; a step only if
its ``version`` (engine) or its ``fencing_token`` (worker) is. The loser reads again and decides again. Times are the
database's.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc as sa_exc
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import approvals, force, plugin_liens
from cleanup_orchestrator.core.actions import record
from cleanup_orchestrator.core.deletion import Child, Deletion, Status
from cleanup_orchestrator.core.guard import Facts, allowed, may_write
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.journal import Change, Event
from cleanup_orchestrator.core.maintenance_windows import ALWAYS, Windows
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import TASKS, Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.brake import Brakes, current_brake
from cleanup_orchestrator.store.database import (
    OPTS,
    AlreadyUnderWay,
    Base,
    Conflict,
    NotFound,
    Page,
    database_time,
    first_of_two,
    new_id,
    paged,
    transient,
    unavailable,
    write_journal,
)
from cleanup_orchestrator.store.liens import Liens, count_liens, current_liens, end_lien, raise_lien
from cleanup_orchestrator.store.orphans import OrphanScans, ScanUnderWay
from cleanup_orchestrator.store.plans import Plans, cascades_before, in_order
from cleanup_orchestrator.store.rate_limits import Accounts
from cleanup_orchestrator.store.waivers import Waivers

__all__ = [
    "OPTS",
    "AlreadyUnderWay",
    "Conflict",
    "EventRow",
    "Figures",
    "LeftoverRow",
    "NotFound",
    "Page",
    "ScanUnderWay",
    "Store",
    "unavailable",
]


@dataclasses.dataclass(frozen=True, slots=True)
class LeftoverRow:
    """A stored leftover with where it was found."""

    row: int
    region: str
    service: str
    type: str
    leftover: Leftover


@dataclasses.dataclass(frozen=True, slots=True)
class EventRow:
    """A stored journal line."""

    row: int
    at: datetime.datetime
    event: Event


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """What the record looks like as a whole, for who watches over it."""

    deletions: Mapping[str, int]  #: by status
    stalled: int
    steps: Mapping[str, int]  #: of live deletions, by state: ``dispatched``, ``running``
    unclaimed: float  #: seconds since the oldest step was dispatched that nobody has taken
    overdue: float  #: seconds by which the most overdue deletion should have been looked at
    held: int = 0  #: live deletions that a lien, the brake or the hours hold
    liens: int = 0  #: in force
    brake: bool = False  #: whether it is on


class Store(Brakes, Liens, OrphanScans, Plans, Waivers, Accounts, Base):
    """Deletions, steps, leftovers, changes and the journal; and what its parts keep."""

    def figures(self) -> Figures:
        """Return what the record looks like as a whole. Asked once: who watches asks again by themselves.

        All but the count by status looks at live deletions only, whatever has gathered in the past.
        """
        live = t.deletions.c.live_project_id.is_not(None)
        of_live = t.steps.join(t.deletions, t.deletions.c.id == t.steps.c.deletion_id)
        under_way = live & t.steps.c.state.in_([str(StepState.DISPATCHED), str(StepState.RUNNING)])
        by_state = (
            sa.select(t.steps.c.state, sa.func.count(), sa.func.min(t.steps.c.dispatched_at))
            .select_from(of_live)
            .where(under_way)
            .group_by(t.steps.c.state)
        )
        # The text only narrows it down: a condition that is over is there, too.
        conditions_text = sa.cast(t.deletions.c.conditions, sa.Text)
        maybe_stalled = sa.or_(conditions_text.contains("stalled"), conditions_text.contains("on_hold"))
        with self._begin() as c:
            now = database_time(c)
            counts = c.execute(sa.select(t.deletions.c.status, sa.func.count()).group_by(t.deletions.c.status)).all()
            conditions = c.execute(sa.select(t.deletions.c.conditions).where(live, maybe_stalled)).scalars().all()
            wake_at = c.execute(sa.select(sa.func.min(t.deletions.c.wake_at)).where(live)).scalar()
            liens, brake = count_liens(c, now), current_brake(c)
            states = {state: (count, since) for state, count, since in c.execute(by_state)}
        _, since = states.get(str(StepState.DISPATCHED), (0, None))
        age = lambda at: max(0.0, (now - at).total_seconds()) if at else 0.0  # noqa: E731
        with_condition = lambda type_: sum(  # noqa: E731
            any(x["type"] == type_ and x["status"] for x in found) for found in conditions
        )
        return Figures(
            deletions=dict(row._tuple() for row in counts),
            stalled=with_condition("stalled"),
            steps={state: count for state, (count, _) in states.items()},
            unclaimed=age(since),
            overdue=age(wake_at),
            held=with_condition("on_hold"),
            liens=liens,
            brake=brake.on,
        )

    # -------------------------------------------------------------------------------------------------- deletions
    def create(self, deletion: Deletion, kinds: Iterable[StepKind], event: Event) -> Deletion:
        """Record a new deletion with its deletion-wide steps; see :meth:`create_all`."""
        return self.create_all([(deletion, event)], kinds)[0]

    @transient
    @first_of_two  # whoever was in the way may have ended before we see who it was
    def create_all(self, wanted: Sequence[tuple[Deletion, Event]], kinds: Iterable[StepKind]) -> tuple[Deletion, ...]:
        """Record new deletions, each with its deletion-wide steps and its first journal line: all of them or none.

        The times are replaced by the database's.

        :raises AlreadyUnderWay: when one of the projects has a live one
        """
        kinds, made = tuple(kinds), []
        try:
            with self._begin() as c:
                if any(approvals.counts(deletion) for deletion, _event in wanted):
                    in_order(c)
                now = database_time(c)
                for deletion, event in wanted:
                    deletion = dataclasses.replace(
                        deletion, created_at=now, updated_at=now, status_at=now, progress_at=now, wake_at=now
                    )
                    c.execute(t.deletions.insert(), [records.deletion_values(deletion)])
                    rows = [
                        records.step_values(Step(id=new_id(), deletion_id=deletion.id, kind=kind)) for kind in kinds
                    ]
                    c.execute(t.steps.insert(), rows)
                    write_journal(c, deletion.id, now, [event])
                    made.append(deletion)
        except sa_exc.IntegrityError:
            for deletion, _event in wanted:
                if existing := self.live(deletion.project_id):
                    if existing.id == deletion.id:  # ours: it was saved, and the connection broke before we heard so
                        return tuple(self.get(each.id) for each, _event in wanted)
                    raise AlreadyUnderWay(existing) from None
            raise
        return tuple(made)

    @transient
    def get(self, deletion_id: str) -> Deletion:
        """Return one deletion.

        :raises NotFound: when there is none
        """
        with self._begin() as c:
            return _get(c, deletion_id)

    @transient
    def live(self, project_id: str) -> Deletion | None:
        """Return the project's live deletion, if there is one."""
        with self._begin() as c:
            row = c.execute(records.select_deletions().where(t.deletions.c.live_project_id == project_id)).first()
            return records.deletion(row) if row else None

    @transient
    def list(self, page: Page, attention: bool | None = None, **filters: Any) -> list[Deletion]:
        """Return one page of deletions.

        :param attention: whether somebody has to look at them; ``None``: does not matter
        :param filters: column=value; a list or tuple means "any of"
        :raises NotFound: when the marker does not exist
        """
        table = t.deletions
        query = records.select_deletions()
        for name, value in filters.items():
            column = table.c[name]
            query = query.where(column.in_(value) if isinstance(value, list | tuple) else column == value)
        if attention is not None:
            asking = records.needs_somebody()
            query = query.where(asking if attention else sa.not_(asking))
        with self._begin() as c:
            return [records.deletion(row) for row in c.execute(paged(c, table, query, page, "deletion")).all()]

    @transient
    def due(self, limit: int = 100) -> list[str]:
        """Return ids of live deletions whose time to be looked at has come, the longest overdue first."""
        table = t.deletions
        with self._begin() as c:
            query = (
                sa.select(table.c.id)
                .where(table.c.live_project_id.is_not(None), table.c.wake_at <= database_time(c))
                .order_by(table.c.wake_at)
                .limit(limit)
            )
            return [row.id for row in c.execute(query)]

    @transient
    def load(self, deletion_id: str) -> tuple[Deletion, tuple[Step, ...], datetime.datetime]:
        """Return a deletion, all its steps, and the time, as of one transaction.

        With it come its children, and the liens and the brake that are in force.
        """
        with self._begin() as c:
            deletion = _get(c, deletion_id)
            if deletion.include_subtree:
                deletion = dataclasses.replace(deletion, children=_children(c, deletion_id))
            if deletion.status is Status.ACCEPTED and approvals.counts(deletion):
                deletion = dataclasses.replace(deletion, cascades_before=cascades_before(c, deletion))
            steps, now = _steps(c, deletion_id), database_time(c)
            return _with_holds(c, deletion, now), steps, now

    @transient
    def save(
        self,
        before: Deletion,
        after: Deletion,
        steps: Iterable[Step] = (),
        events: Sequence[Event] = (),
        abandoned: Iterable[str] = (),
    ) -> Deletion:
        """Save a decision: the deletion, the steps that it changed, and its journal lines, all or nothing.

        :param abandoned: ids of the steps whose leftovers are let go of by force: each is marked, and named in the
            journal
        :raises Conflict: when the deletion or a step was written by somebody else since it was read
        :raises AlreadyUnderWay: when it would become live, and the project has another live one
        """
        try:
            saved, liens = self._save(before, after, steps, events, abandoned)
        except sa_exc.IntegrityError:
            existing = self.live(after.project_id)
            if existing is None and after.status in LIVE and before.status not in LIVE:
                raise Conflict(f"another deletion of project {after.project_id} ended at this moment") from None
            if existing is None or existing.id == before.id:
                raise
            raise AlreadyUnderWay(existing) from None
        for lien in liens:
            self._lien_changed(lien)
        return saved

    def _save(
        self,
        before: Deletion,
        after: Deletion,
        steps: Iterable[Step],
        events: Sequence[Event],
        abandoned: Iterable[str],
    ) -> tuple[Deletion, list[Lien]]:
        with self._begin() as c:
            now = database_time(c)
            after = dataclasses.replace(after, version=before.version + 1)
            key = {"known_id": before.id, "known_version": before.version}
            result = c.execute(_UPDATE_DELETION, records.deletion_values(after) | key)
            if result.rowcount != 1:
                raise Conflict(f"deletion {before.id} changed meanwhile")
            for step in steps:
                values = records.step_values(dataclasses.replace(step, version=step.version + 1))
                result = c.execute(_UPDATE_STEP, values | {"known_id": step.id, "known_version": step.version})
                if result.rowcount != 1:
                    raise Conflict(f"step {step.id} changed meanwhile")
            write_journal(c, before.id, now, events)
            for step_id in abandoned:
                write_journal(c, before.id, now, _abandon(c, step_id))
            # A plugin's lien is about one deletion: the next one, or a retry, looks for itself.
            ends = before.held_back and before.status in LIVE and after.status not in LIVE
            return after, _end_liens(c, before, now) if ends else []

    # ------------------------------------------------------------------------------------------------------ steps
    @transient
    def steps(self, deletion_id: str) -> tuple[Step, ...]:
        """Return all steps of a deletion."""
        with self._begin() as c:
            return _steps(c, deletion_id)

    @transient
    def steps_of(self, deletion_ids: Sequence[str]) -> dict[str, tuple[Step, ...]]:
        """Return all steps of several deletions, by deletion, in one query; one without steps is not in it."""
        found: dict[str, list[Step]] = {}
        with self._begin() as c:
            for row in c.execute(sa.select(t.steps).where(t.steps.c.deletion_id.in_(deletion_ids))):
                found.setdefault(row.deletion_id, []).append(records.step(row))
        return {deletion_id: tuple(steps) for deletion_id, steps in found.items()}

    def claim(self, step_id: str, worker: str, lease: float) -> tuple[Deletion, Step] | None:
        """Take a dispatched step under a lease of so many seconds; its fencing token grows.

        :returns: ``None`` when there is nothing to do: taken, finished, or the deletion has moved on
        """
        return self._claim(step_id, worker, lease, [])

    @transient
    def _claim(self, step_id: str, worker: str, lease: float, tried: list[Step]) -> tuple[Deletion, Step] | None:
        """Take a step; ``tried``: what an attempt would have made of it whose end we did not hear of."""
        with self._begin() as c:
            row = c.execute(_STEP, {"step_id": step_id}).first()
            if row is None:
                return None
            step = records.step(row)
            deletion = _get(c, step.deletion_id)
            if step in tried:  # it was saved, and the connection broke before we heard so: nobody else would take it
                return deletion, step
            if step.state is not StepState.DISPATCHED or not allowed(deletion, step):
                return None
            now = database_time(c)
            claimed = dataclasses.replace(
                step,
                state=StepState.RUNNING,
                fencing_token=step.fencing_token + 1,
                worker=worker,
                started_at=now,
                lease_until=now + datetime.timedelta(seconds=lease),
                version=step.version + 1,
            )
            tried.append(claimed)
            key = {"known_id": step.id, "known_version": step.version}
            result = c.execute(_UPDATE_STEP, records.step_values(claimed) | key)
            return (deletion, claimed) if result.rowcount == 1 else None

    @transient
    def renew(self, step: Step, lease: float) -> bool:
        """Extend the lease of a step that we hold. ``False``: it is not ours any more."""
        with self._begin() as c:
            if _held(c, step) is None:
                return False
            until = database_time(c) + datetime.timedelta(seconds=lease)
            result = c.execute(
                t.steps.update().where(_claimed(step)).values(lease_until=until, version=t.steps.c.version + 1)
            )
            return result.rowcount == 1

    @transient
    def may_write(self, step: Step, windows: Windows = ALWAYS) -> bool:
        """Whether the holder of this step may make a write call now.

        That takes its fencing token and its lease, and no cancel; for what locks or deletes also that no lien and no
        brake is in force, and that it is within the hours for that.
        """
        with self._begin() as c:
            return _may_write(c, step, windows)

    def finish(
        self, step: Step, sweep: StepResult, events: Sequence[Event] = (), yielded: Iterable[Change] = (), **values: Any
    ) -> bool:
        """Save a sweep's result, with leftovers, journal, and the lien that it raises or that ends with it.

        ``False``: the step was not ours any more, nothing saved.

        :param yielded: recorded changes that somebody else undid: they are not ours to undo any more
        :param values: fields of the deletion that the result settles (a survey's project name and members)
        """
        liens = self._finish(step, sweep, events, yielded, values)
        for lien in liens or ():
            self._lien_changed(lien)
        return liens is not None

    def _lien_changed(self, lien: Lien) -> None:
        """Hear of a plugin's lien, after the commit in which it was raised or ended."""

    @transient
    def _finish(
        self,
        step: Step,
        sweep: StepResult,
        events: Sequence[Event],
        yielded: Iterable[Change],
        values: Mapping[str, Any],
    ) -> list[Lien] | None:
        """Save a result, and return the liens that changed with it; ``None``: the step was not ours any more."""
        with self._begin() as c:
            if (held := _held(c, step)) is None:
                return None
            now = database_time(c)
            sweep = force.carried(sweep, _abandoned(c, held[1]), records.resource_id)
            deletion, after = record(*held, sweep, now)
            # By fencing token and state, not by version: our own lease may be renewed at this very moment.
            result = c.execute(
                t.steps.update().where(_claimed(step)).values(**{**_swept(after), "version": t.steps.c.version + 1})
            )
            if result.rowcount != 1:
                return None
            _replace_leftovers(c, after, (*sweep.leftovers, *sweep.kept_resources))
            for change in yielded:
                c.execute(t.changes.update().where(t.changes.c.id == change.id).values(undone=True))
            stored: dict[str, Any] = {"member_ids": list(values["member_ids"])} if "member_ids" in values else {}
            if "waivers" in values:
                stored["waivers"] = records.stored_waivers(values["waivers"])
            if deletion.progress_at != held[0].progress_at:  # else somebody may have set it since we read it
                stored["progress_at"] = deletion.progress_at
            c.execute(
                t.deletions.update()
                .where(t.deletions.c.id == deletion.id)
                .values(
                    wake_at=now,
                    version=t.deletions.c.version + 1,  # whoever decides on older steps has to look again
                    **{**values, **stored},
                )
            )
            write_journal(c, deletion.id, now, events)
            return _settle_lien(c, deletion, after, sweep, now)

    def release_claim(self, step: Step) -> bool:
        """Give a step that we hold back to the queue, as if it had just been dispatched. ``False``: it is not ours.

        Only for a holder with no write call under way: the next one takes it at once, and a cancel does not wait for
        it. Tried once: a store that does not answer does not hold up the end of a process; the lease runs out.
        """
        with self._begin() as c:
            if _held(c, step) is None:
                return False
            values = {"state": str(StepState.DISPATCHED), "dispatched_at": database_time(c), "lease_until": None}
            result = c.execute(t.steps.update().where(_claimed(step)).values(**values, version=t.steps.c.version + 1))
            return result.rowcount == 1

    @transient
    def put_steps(self, holder: Step, wanted: Sequence[Step], catalog: Collection[tuple[str, str]] = ()) -> bool:
        """Make the sweep steps of a deletion what a survey found, under the survey step's fencing token.

        Known ones keep their results. Those that nobody wants any more go, but not because their service or region
        vanished from the catalog under way: what the project has there is not gone, only out of sight. They stay, and
        are asked, and cannot answer. ``UNSUPPORTED`` ones are marked unknown for the survey's round.

        What is waived has no result: whatever it had been found to be does not hold any more. What was seen of it
        stays on record, as leftovers: with the project gone it is all that anybody knows. When its waiver has ended it
        begins anew.

        :param catalog: (region, service) of each entry that the survey found, whoever answers for it
        :returns: ``False``: the survey step was not ours any more, nothing saved
        """
        with self._begin() as c:
            if (held := _held(c, holder)) is None:
                return False
            key = lambda s: (s.kind, s.region, s.service, s.type)  # noqa: E731
            known = {key(s): s for s in _steps(c, holder.deletion_id) if s.kind not in TASKS}
            now = database_time(c)
            beginning = held[0].status is Status.ACCEPTED
            for step in wanted:
                old = known.pop(key(step), None)
                uncovered = step.kind is StepKind.UNSUPPORTED
                result: dict[str, Any] = (
                    {"round": holder.round, "state": StepState.DONE, "outcome": Outcome.UNKNOWN, "reason": step.reason}
                    | {"message": step.message, "finished_at": now}
                    if uncovered and not step.waived
                    else {}
                )
                if not result and (step.waived or (old is not None and old.waived)):
                    result = {"waived": step.waived, "reason": step.reason, "message": step.message}
                    result |= {"outcome": str(Outcome.NONE)}
                    if old is None or old.state is not StepState.RUNNING:  # one that runs may end; see actions.record
                        result |= {"state": str(StepState.IDLE), "round": 0}
                elif old is not None and old.waived:
                    result["waived"] = ""
                if old is None:
                    values = records.step_values(dataclasses.replace(step, id=new_id(), deletion_id=holder.deletion_id))
                    c.execute(t.steps.insert(), [values | result])
                else:
                    c.execute(
                        t.steps.update()
                        .where(t.steps.c.id == old.id)
                        .values(
                            after=list(step.after),
                            project_setting=step.project_setting,
                            informational=step.informational,
                            token=step.token,
                            version=t.steps.c.version + 1,
                            **result,
                        )
                    )
            for name, old in tuple(known.items()):
                begun = not beginning or old.outcome in (Outcome.LEFTOVERS, Outcome.UNKNOWN)
                out_of_sight = old.kind is StepKind.SWEEP and (old.region, old.service) not in catalog
                if (begun and out_of_sight) or old.abandoned:  # what was let go of stays on record
                    del known[name]
            for gone in known.values():
                c.execute(t.leftovers.delete().where(t.leftovers.c.step_id == gone.id))
                c.execute(t.steps.delete().where(t.steps.c.id == gone.id))
            if names := ", ".join(
                sorted(f"{s.name}@{s.region}" for s in known.values() if s.kind is not StepKind.HALT)
            ):
                write_journal(
                    c, holder.deletion_id, now, [Event("survey.dropped", f"need not be asked any more: {names}")]
                )
            return True

    # ---------------------------------------------------------------------------------------- leftovers and journal
    @transient
    def leftovers(
        self,
        deletion_id: str,
        limit: int,
        marker: int | None = None,
        reasons: Collection[Reason] = frozenset(Reason) - {Reason.KEPT},
        **filters: str | bool,
    ) -> Sequence[LeftoverRow]:
        """Return one page of leftovers in the order in which they were found.

        :param reasons: with one of these only; what a dry run notes as kept is no leftover
        """
        query = sa.select(t.leftovers).where(t.leftovers.c.deletion_id == deletion_id)
        query = query.where(t.leftovers.c.reason.in_(sorted(map(str, reasons))))
        for name, value in filters.items():
            query = query.where(t.leftovers.c[name] == value)
        if marker is not None:
            query = query.where(t.leftovers.c.id > marker)
        with self._begin() as c:
            rows = c.execute(query.order_by(t.leftovers.c.id).limit(limit)).all()
        return [LeftoverRow(r.id, r.region, r.service, r.type, records.leftover(r)) for r in rows]

    @transient
    def events(self, deletion_id: str, limit: int, marker: int | None = None, **filters: str) -> Sequence[EventRow]:
        """Return one page of the journal, oldest first."""
        query = sa.select(t.events).where(t.events.c.deletion_id == deletion_id)
        for name, value in filters.items():
            query = query.where(t.events.c[name] == value)
        if marker is not None:
            query = query.where(t.events.c.id > marker)
        with self._begin() as c:
            rows = c.execute(query.order_by(t.events.c.id).limit(limit)).all()
        return [EventRow(r.id, r.at, Event(r.type, r.message, r.actor, r.data, r.request_id)) for r in rows]

    @transient
    def append_events(self, step: Step, *events: Event) -> bool:
        """Append to the journal on behalf of a step that may write; see :meth:`may_write`. ``False``: it may not."""
        with self._begin() as c:
            if not _may_write(c, step):
                return False
            write_journal(c, step.deletion_id, database_time(c), events)
            return True

    # ---------------------------------------------------------------------------------------------------- changes
    @transient
    def record_intent(self, step: Step, type_: str, data: Mapping[str, Any]) -> Change | None:
        """Write down a change before it is made. ``None``: it must not be made, the step is not ours any more.

        The same change that is still to be undone is not written twice: a repeated drain records once. The deletion's
        version grows: who decided that nothing is held has to look again.
        """
        with self._begin() as c:
            # First, since it locks the row: nobody moves the deletion on between the question and the record.
            mine = t.deletions.c.id == step.deletion_id
            c.execute(t.deletions.update().where(mine).values(version=t.deletions.c.version + 1))
            if not _may_write(c, step):
                return None
            existing = _changes(c, step.deletion_id, undone=None)
            for change in existing:
                if not change.undone and change.type == type_ and dict(change.data) == dict(data):
                    return change
            change = Change(new_id(), step.deletion_id, len(existing) + 1, type_, dict(data))
            c.execute(
                t.changes.insert(),
                [
                    {
                        "id": change.id,
                        "deletion_id": change.deletion_id,
                        "sequence": change.sequence,
                        "type": change.type,
                        "data": dict(change.data),
                        "undone": False,
                    }
                ],
            )
            return change

    @transient
    def changes(self, deletion_id: str) -> tuple[Change, ...]:
        """Return the changes that are not undone, in the order in which they were made."""
        with self._begin() as c:
            return _changes(c, deletion_id, undone=False)

    @transient
    def undone(self, step: Step, change: Change, event: Event) -> bool:
        """Mark a change as undone, with its journal line, unless it is marked. ``False``: the step may not write.

        It is undone, whatever holds the deletion by now.

        :param step: on whose behalf it was undone: one that may write
        """
        with self._begin() as c:
            if not _may_write(c, step, undoing=True):
                return False
            mine = sa.and_(t.changes.c.id == change.id, t.changes.c.undone.is_(False))
            if c.execute(t.changes.update().where(mine).values(undone=True)).rowcount:
                write_journal(c, change.deletion_id, database_time(c), [event])
            return True


# ------------------------------------------------------------------------------------------------ rows and values
# What engines and workers ask and write all the time is built once: building it takes longer than running it. Values
# are given as parameters, for the same reason.
_DELETION = records.select_deletions().where(t.deletions.c.id == sa.bindparam("deletion_id"))
_STEP = sa.select(t.steps).where(t.steps.c.id == sa.bindparam("step_id"))
_STEPS = (
    sa.select(t.steps)
    .where(t.steps.c.deletion_id == sa.bindparam("deletion_id"))
    .order_by(t.steps.c.region, t.steps.c.service, t.steps.c.type)
)
_UPDATE_DELETION = t.deletions.update().where(
    t.deletions.c.id == sa.bindparam("known_id"), t.deletions.c.version == sa.bindparam("known_version")
)
_UPDATE_STEP = t.steps.update().where(
    t.steps.c.id == sa.bindparam("known_id"), t.steps.c.version == sa.bindparam("known_version")
)


def _children(c: Connection, deletion_id: str) -> tuple[Child, ...]:
    table = t.deletions
    query = sa.select(table.c.id, table.c.project_id, table.c.status, table.c.status_at)
    rows = c.execute(query.where(table.c.parent_deletion_id == deletion_id).order_by(table.c.project_id))
    return tuple(records.child(row) for row in rows)


def _held(c: Connection, step: Step) -> tuple[Deletion, Step] | None:
    """Return deletion and step as they are now, if the step is still its holder's and the deletion waits for it.

    Also past the lease, as long as nobody has taken it: what was found out is true all the same.
    """
    row = c.execute(_STEP, {"step_id": step.id}).first()
    if row is None or row.fencing_token != step.fencing_token or row.state != StepState.RUNNING:
        return None
    current, deletion = records.step(row), _get(c, step.deletion_id)
    waiting = deletion.status in LIVE and current.round >= deletion.since_round
    return (deletion, current) if waiting else None


def _may_write(c: Connection, step: Step, windows: Windows = ALWAYS, undoing: bool = False) -> bool:
    """Whether the holder of a step may write now; ``undoing``: whatever holds the deletion."""
    held = _held(c, step)
    if held is None:
        return False
    (deletion, current), now = held, database_time(c)
    if not undoing:
        deletion = _with_holds(c, deletion, now)
    return may_write(Facts(deletion, now, windows, step.fencing_token), current)


def _with_holds(c: Connection, deletion: Deletion, now: datetime.datetime) -> Deletion:
    """Return a deletion with what is in force against it. Nothing more is asked where nothing is on record."""
    if not deletion.held_back:
        return deletion
    brake = current_brake(c)
    liens = current_liens(c, [deletion.project_id], now)
    return dataclasses.replace(deletion, liens=liens, brake=brake if brake.on else None)


def _get(c: Connection, deletion_id: str) -> Deletion:
    row = c.execute(_DELETION, {"deletion_id": deletion_id}).first()
    if row is None:
        raise NotFound(f"no deletion has the id {deletion_id}")
    return records.deletion(row)


#: What a survey alone writes of a step that is there.
_SURVEYED = frozenset({"after", "project_setting", "informational", "token", "waived"})


def _swept(step: Step) -> dict[str, Any]:
    """Return what a finished sweep writes of its step: not what a survey may be deciding about it at this moment."""
    values = records.step_values(step)
    return {name: value for name, value in values.items() if name not in _SURVEYED}


def _steps(c: Connection, deletion_id: str) -> tuple[Step, ...]:
    return tuple(records.step(row) for row in c.execute(_STEPS, {"deletion_id": deletion_id}))


def _abandoned(c: Connection, step: Step) -> dict[str, Leftover]:
    """Return what a step's resources were that are let go of, by id."""
    if not step.abandoned:
        return {}
    query = sa.select(t.leftovers).where(t.leftovers.c.step_id == step.id, t.leftovers.c.abandoned)
    return {row.resource_id: records.leftover(row) for row in c.execute(query)}


def _abandon(c: Connection, step_id: str) -> list[Event]:
    """Mark a step's leftovers as let go of, and return the journal lines that name them."""
    mine = t.leftovers.c.step_id == step_id
    c.execute(t.leftovers.update().where(mine).values(abandoned=True))
    rows = c.execute(sa.select(t.leftovers).where(mine).order_by(t.leftovers.c.id)).all()
    events = []
    for start in range(0, len(rows), 100):
        chunk = rows[start : start + 100]
        where = {"region": chunk[0].region, "service": chunk[0].service, "type": chunk[0].type}
        named = [
            {"id": r.resource_id, "name": r.name, "owner": r.owner, "reason": r.reason, "remedy": r.remedy or ""}
            for r in chunk
        ]
        text = f"{chunk[0].service}.{chunk[0].type}: {len(chunk)} let go of by force"
        events.append(Event("resource.abandoned", text, data={**where, "resources": named}))
    return events


def _settle_lien(
    c: Connection, deletion: Deletion, step: Step, sweep: StepResult, now: datetime.datetime
) -> list[Lien]:
    """Raise the lien that a result gives reason to, or end the one whose reason is gone; tell the journal."""
    if sweep.in_use is None or not plugin_liens.binding(deletion):
        return []
    if sweep.in_use:
        lien, type_ = raise_lien(c, plugin_liens.lien(deletion, step, sweep.in_use, now), now), "lien.raised"
        text = f"nothing is deleted before it is removed: {lien}"
    else:
        lien, type_ = end_lien(c, plugin_liens.lien_id(deletion.id, step), now), "lien.ended"
        text = f"its reason is gone: {lien}"
    if lien is None:
        return []
    write_journal(c, deletion.id, now, [Event(type_, text, step.worker, lien.to_dict())])
    return [lien]


def _end_liens(c: Connection, deletion: Deletion, now: datetime.datetime) -> list[Lien]:
    """End what plugins have raised for a deletion that is not under way any more; tell the journal."""
    ended = [end_lien(c, plugin_liens.lien_id(deletion.id, step), now) for step in _steps(c, deletion.id)]
    liens = [lien for lien in ended if lien is not None]
    text = "it was about this deletion, which is not under way any more"
    write_journal(c, deletion.id, now, [Event("lien.ended", f"{text}: {lien}", data=lien.to_dict()) for lien in liens])
    return liens


def _claimed(step: Step) -> sa.ColumnElement[bool]:
    """Return the condition that a step is still held by the claim that gave it this fencing token."""
    columns = t.steps.c
    mine = columns.id == step.id, columns.fencing_token == step.fencing_token
    return sa.and_(*mine, columns.state == StepState.RUNNING)


def _replace_leftovers(c: Connection, step: Step, leftovers: Sequence[Leftover]) -> None:
    stale = t.leftovers.c.step_id == step.id
    if step.outcome is Outcome.UNKNOWN and step.abandoned:  # what nobody can see now is no less there
        stale &= t.leftovers.c.abandoned.is_(False)
    c.execute(t.leftovers.delete().where(stale))
    for start in range(0, len(leftovers), 500):  # the rows of all of them would take three times their memory
        rows = [_leftover_row(step, leftover) for leftover in leftovers[start : start + 500]]
        c.execute(t.leftovers.insert(), rows)


def _leftover_row(step: Step, leftover: Leftover) -> dict[str, Any]:
    return {
        "deletion_id": step.deletion_id,
        "step_id": step.id,
        "region": step.region,
        "service": step.service,
        "type": step.type,
        "resource_id": records.resource_id(leftover.id),
        "name": records.text(leftover.name)[:512],
        "reason": str(leftover.reason),
        "message": records.text(leftover.message),
        "blocked_by": [records.plain(dict(b)) for b in leftover.blocked_by],
        "abandoned": leftover.abandoned,
        "owner": records.text(leftover.owner)[:64],
        "remedy": records.text(leftover.remedy) or None,
    }


def _changes(c: Connection, deletion_id: str, undone: bool | None) -> tuple[Change, ...]:
    query = sa.select(t.changes).where(t.changes.c.deletion_id == deletion_id)
    if undone is not None:
        query = query.where(t.changes.c.undone.is_(undone))
    return tuple(Change(**r._mapping) for r in c.execute(query.order_by(t.changes.c.sequence)))
