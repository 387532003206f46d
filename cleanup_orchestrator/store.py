"""The only module with a database session. Everything that is written is written here, under compare-and-swap.

Rules that hold for every write: a deletion is saved only if its ``version`` is the one that was read; a step only
if its ``version`` (engine) or its ``fence`` (worker) is. Whoever loses reads again and decides again. Times are the
database's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
import tenacity
from oslo_config import cfg
from sqlalchemy import event as sa_event
from sqlalchemy import exc as sa_exc
from sqlalchemy.engine import Connection, Engine, Row

from cleanup_orchestrator import limits, records
from cleanup_orchestrator import tables as t
from cleanup_orchestrator.actions import record
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.model import (
    Change,
    Child,
    Deletion,
    Event,
    Kind,
    Leftover,
    Outcome,
    Reason,
    State,
    Status,
    Step,
    Sweep,
)
from cleanup_orchestrator.transitions import allowed

OPTS = {
    "database": [
        cfg.StrOpt(
            "connection",
            default="sqlite:////var/lib/cleanup-orchestrator/cleanup-orchestrator.sqlite",
            secret=True,
            help="SQLAlchemy URL of the database. SQLite serves the all-in-one process; PostgreSQL "
            "(postgresql+psycopg://) or MariaDB (mysql+pymysql://) serve several processes and hosts.",
        ),
        cfg.IntOpt("max_pool_size", default=10, min=1, help="Connections kept open by each process."),
        cfg.IntOpt("max_overflow", default=20, min=0, help="Connections opened beyond the pool under load."),
        cfg.IntOpt(
            "connection_recycle_time", default=3600, min=1, help="Seconds after which a pooled connection is replaced."
        ),
    ]
}


class Conflict(CleanupError):
    """Somebody else wrote first: read again."""

    code = "conflict"


class AlreadyUnderWay(CleanupError):
    """A live deletion of the project exists."""

    code = "deletion_under_way"

    def __init__(self, existing: Deletion) -> None:
        super().__init__(f"a deletion of project {existing.project_id} is under way: {existing.id}")
        self.existing = existing


class NotFound(CleanupError):
    """No such record."""

    code = "not_found"


def unavailable(error: BaseException) -> bool:
    """Whether an error means that the database does not answer, and not that we asked it something wrong."""
    if isinstance(error, sa_exc.DBAPIError) and error.connection_invalidated:
        return True
    return isinstance(error, sa_exc.OperationalError | sa_exc.InterfaceError | sa_exc.TimeoutError)


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
class Page:
    """What part of a listing is wanted. ``marker`` is the id of the last item of the page before."""

    limit: int
    marker: str | None = None
    sort: tuple[tuple[str, str], ...] = (("created_at", "desc"),)  #: (column, ``asc`` or ``desc``)


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """What the record looks like as a whole, for who watches over it."""

    deletions: Mapping[str, int]  #: by status
    stalled: int
    steps: Mapping[str, int]  #: of live deletions, by state: ``dispatched``, ``running``
    unclaimed: float  #: seconds since the oldest step was dispatched that nobody has taken
    overdue: float  #: seconds by which the most overdue deletion should have been looked at


_transient = tenacity.retry(
    retry=tenacity.retry_if_exception(
        lambda e: (
            isinstance(e, sa_exc.OperationalError) or (isinstance(e, sa_exc.DBAPIError) and e.connection_invalidated)
        )
    ),
    wait=tenacity.wait_random_exponential(multiplier=0.05, max=2),
    stop=tenacity.stop_after_delay(20),
    reraise=True,
)

#: Two that make the same row at the same moment: the second one finds it when it looks again.
_first_of_two = tenacity.retry(
    retry=tenacity.retry_if_exception_type(sa_exc.IntegrityError), stop=tenacity.stop_after_attempt(3), reraise=True
)


class Store:
    """Deletions, steps, leftovers, changes and the journal."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def from_url(cls, url: str, **pool: Any) -> Store:
        """Open a store. The schema has to be there: ``cleanup-orchestrator-manage db upgrade``."""
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite":
            engine = sa.create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})
            sa_event.listen(engine, "connect", _sqlite_connect)
            sa_event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        else:
            options: dict[str, Any] = {"pool_pre_ping": True, "pool_recycle": 3600, **pool}
            options["isolation_level"] = "READ COMMITTED"
            engine = sa.create_engine(url, **options)
        return cls(engine)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Store:
        """Open the store that ``[database]`` names."""
        c = conf.database
        return cls.from_url(
            c.connection,
            **(
                {}
                if c.connection.startswith("sqlite")
                else {
                    "pool_size": c.max_pool_size,
                    "max_overflow": c.max_overflow,
                    "pool_recycle": c.connection_recycle_time,
                }
            ),
        )

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextlib.contextmanager
    def _begin(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            yield connection

    # ------------------------------------------------------------------------------------------------------- time
    @_transient
    def now(self) -> datetime.datetime:
        """Return the database's time, UTC, naive. Also the cheapest proof that the store answers."""
        with self._begin() as c:
            return _now(c)

    def ping(self) -> None:
        """Ask the database for a sign of life, once: a health check does not wait for better times."""
        with self._begin() as c:
            _now(c)

    def figures(self) -> Figures:
        """Return what the record looks like as a whole. Asked once: who watches asks again by themselves.

        All but the count by status looks at live deletions only, whatever has gathered in the past.
        """
        live = t.deletions.c.live_project_id.is_not(None)
        of_live = t.steps.join(t.deletions, t.deletions.c.id == t.steps.c.deletion_id)
        under_way = live & t.steps.c.state.in_([str(State.DISPATCHED), str(State.RUNNING)])
        by_state = (
            sa.select(t.steps.c.state, sa.func.count(), sa.func.min(t.steps.c.dispatched_at))
            .select_from(of_live)
            .where(under_way)
            .group_by(t.steps.c.state)
        )
        # The text only narrows it down: a condition that is over is there, too.
        maybe_stalled = sa.cast(t.deletions.c.conditions, sa.Text).contains("stalled")
        with self._begin() as c:
            now = _now(c)
            counts = c.execute(sa.select(t.deletions.c.status, sa.func.count()).group_by(t.deletions.c.status)).all()
            conditions = c.execute(sa.select(t.deletions.c.conditions).where(live, maybe_stalled)).scalars().all()
            wake_at = c.execute(sa.select(sa.func.min(t.deletions.c.wake_at)).where(live)).scalar()
            states = {state: (count, since) for state, count, since in c.execute(by_state)}
        _, since = states.get(str(State.DISPATCHED), (0, None))
        age = lambda at: max(0.0, (now - at).total_seconds()) if at else 0.0  # noqa: E731
        return Figures(
            deletions=dict(row._tuple() for row in counts),
            stalled=sum(any(x["type"] == "stalled" and x["status"] for x in found) for found in conditions),
            steps={state: count for state, (count, _) in states.items()},
            unclaimed=age(since),
            overdue=age(wake_at),
        )

    # -------------------------------------------------------------------------------------------------- deletions
    def create(self, deletion: Deletion, kinds: Iterable[Kind], event: Event) -> Deletion:
        """Record a new deletion with its deletion-wide steps; see :meth:`create_all`."""
        return self.create_all([(deletion, event)], kinds)[0]

    @_transient
    def create_all(self, wanted: Sequence[tuple[Deletion, Event]], kinds: Iterable[Kind]) -> tuple[Deletion, ...]:
        """Record new deletions, each with its deletion-wide steps and its first journal line: all of them or none.

        The times are replaced by the database's.

        :raises AlreadyUnderWay: when one of the projects has a live one
        """
        kinds, made = tuple(kinds), []
        try:
            with self._begin() as c:
                now = _now(c)
                for deletion, event in wanted:
                    deletion = dataclasses.replace(
                        deletion, created_at=now, updated_at=now, status_at=now, progress_at=now, wake_at=now
                    )
                    c.execute(t.deletions.insert(), [records.deletion_values(deletion)])
                    rows = [records.step_values(Step(id=_uuid(), deletion_id=deletion.id, kind=kind)) for kind in kinds]
                    c.execute(t.steps.insert(), rows)
                    _journal(c, deletion.id, now, [event])
                    made.append(deletion)
        except sa_exc.IntegrityError:
            for deletion, _event in wanted:
                if existing := self.live(deletion.project_id):
                    raise AlreadyUnderWay(existing) from None
            raise
        return tuple(made)

    @_transient
    def get(self, deletion_id: str) -> Deletion:
        """Return one deletion.

        :raises NotFound: when there is none
        """
        with self._begin() as c:
            return _get(c, deletion_id)

    @_transient
    def live(self, project_id: str) -> Deletion | None:
        """Return the project's live deletion, if there is one."""
        with self._begin() as c:
            row = c.execute(records.select_deletions().where(t.deletions.c.live_project_id == project_id)).first()
            return records.deletion(row) if row else None

    @_transient
    def list(self, page: Page, **filters: Any) -> list[Deletion]:
        """Return one page of deletions.

        :param filters: column=value; a list or tuple means "any of"
        :raises NotFound: when the marker does not exist
        """
        table = t.deletions
        query = records.select_deletions()
        for name, value in filters.items():
            column = table.c[name]
            query = query.where(column.in_(value) if isinstance(value, list | tuple) else column == value)
        sort = [*page.sort] + ([("id", "asc")] if "id" not in dict(page.sort) else [])
        with self._begin() as c:
            if page.marker is not None:
                marker = c.execute(sa.select(table).where(table.c.id == page.marker)).first()
                if marker is None:
                    raise NotFound(f"no deletion has the id of the marker: {page.marker}")
                query = query.where(_after(table, sort, marker))
            query = query.order_by(*(getattr(table.c[name], way)() for name, way in sort)).limit(page.limit)
            return [records.deletion(row) for row in c.execute(query).all()]

    @_transient
    def due(self, limit: int = 100) -> list[str]:
        """Return ids of live deletions whose time to be looked at has come, the longest overdue first."""
        table = t.deletions
        with self._begin() as c:
            query = (
                sa.select(table.c.id)
                .where(table.c.live_project_id.is_not(None), table.c.wake_at <= _now(c))
                .order_by(table.c.wake_at)
                .limit(limit)
            )
            return [row.id for row in c.execute(query)]

    @_transient
    def load(self, deletion_id: str) -> tuple[Deletion, tuple[Step, ...], datetime.datetime]:
        """Return a deletion, all its steps, and the time, as of one transaction."""
        with self._begin() as c:
            deletion = _get(c, deletion_id)
            if deletion.include_subtree:
                deletion = dataclasses.replace(deletion, children=_children(c, deletion_id))
            return deletion, _steps(c, deletion_id), _now(c)

    @_transient
    def save(
        self, before: Deletion, after: Deletion, steps: Iterable[Step] = (), events: Sequence[Event] = ()
    ) -> Deletion:
        """Save a decision: the deletion, the steps that it changed, and its journal lines, all or nothing.

        :raises Conflict: when the deletion or a step was written by somebody else since it was read
        :raises AlreadyUnderWay: when it would become live, and the project has another live one
        """
        try:
            return self._save(before, after, steps, events)
        except sa_exc.IntegrityError:
            existing = self.live(after.project_id)
            if existing is None or existing.id == before.id:
                raise
            raise AlreadyUnderWay(existing) from None

    def _save(self, before: Deletion, after: Deletion, steps: Iterable[Step], events: Sequence[Event]) -> Deletion:
        with self._begin() as c:
            now = _now(c)
            after = dataclasses.replace(after, version=before.version + 1)
            result = c.execute(
                t.deletions.update()
                .where(t.deletions.c.id == before.id, t.deletions.c.version == before.version)
                .values(**records.deletion_values(after))
            )
            if result.rowcount != 1:
                raise Conflict(f"deletion {before.id} changed meanwhile")
            for step in steps:
                values = records.step_values(dataclasses.replace(step, version=step.version + 1))
                result = c.execute(
                    t.steps.update().where(t.steps.c.id == step.id, t.steps.c.version == step.version).values(**values)
                )
                if result.rowcount != 1:
                    raise Conflict(f"step {step.id} changed meanwhile")
            _journal(c, before.id, now, events)
            return after

    # ------------------------------------------------------------------------------------------------------ steps
    @_transient
    def steps(self, deletion_id: str) -> tuple[Step, ...]:
        """Return all steps of a deletion."""
        with self._begin() as c:
            return _steps(c, deletion_id)

    @_transient
    def steps_of(self, deletion_ids: Sequence[str]) -> dict[str, tuple[Step, ...]]:
        """Return all steps of several deletions, by deletion, in one query; one without steps is not in it."""
        found: dict[str, list[Step]] = {}
        with self._begin() as c:
            for row in c.execute(sa.select(t.steps).where(t.steps.c.deletion_id.in_(deletion_ids))):
                found.setdefault(row.deletion_id, []).append(records.step(row))
        return {deletion_id: tuple(steps) for deletion_id, steps in found.items()}

    @_transient
    def claim(self, step_id: str, worker: str, lease: float) -> tuple[Deletion, Step] | None:
        """Take a dispatched step under a lease of so many seconds; its fence grows.

        :returns: ``None`` when there is nothing to do: taken, finished, or the deletion has moved on
        """
        with self._begin() as c:
            row = c.execute(sa.select(t.steps).where(t.steps.c.id == step_id)).first()
            if row is None:
                return None
            step = records.step(row)
            deletion = _get(c, step.deletion_id)
            if step.state is not State.DISPATCHED or not allowed(deletion, step):
                return None
            now = _now(c)
            claimed = dataclasses.replace(
                step,
                state=State.RUNNING,
                fence=step.fence + 1,
                worker=worker,
                started_at=now,
                lease_until=now + datetime.timedelta(seconds=lease),
                version=step.version + 1,
            )
            result = c.execute(
                t.steps.update()
                .where(t.steps.c.id == step.id, t.steps.c.version == step.version)
                .values(**records.step_values(claimed))
            )
            return (deletion, claimed) if result.rowcount == 1 else None

    @_transient
    def renew(self, step: Step, lease: float) -> bool:
        """Extend the lease of a step that we hold. ``False``: it is not ours any more."""
        with self._begin() as c:
            until = _now(c) + datetime.timedelta(seconds=lease)
            result = c.execute(
                t.steps.update()
                .where(t.steps.c.id == step.id, t.steps.c.fence == step.fence, t.steps.c.state == State.RUNNING)
                .values(lease_until=until, version=t.steps.c.version + 1)
            )
            return result.rowcount == 1

    @_transient
    def may_write(self, step: Step) -> bool:
        """Whether the holder of this step may make a write call now: its fence, its lease, and no cancel."""
        with self._begin() as c:
            return _may_write(c, step)

    @_transient
    def finish(
        self, step: Step, sweep: Sweep, events: Sequence[Event] = (), yielded: Iterable[Change] = (), **values: Any
    ) -> bool:
        """Save a sweep's result, with leftovers and journal. ``False``: the step was not ours any more, nothing saved.

        :param yielded: recorded changes that somebody else undid: they are not ours to undo any more
        :param values: fields of the deletion that the result settles (a survey's project name and members)
        """
        with self._begin() as c:
            row = c.execute(sa.select(t.steps).where(t.steps.c.id == step.id)).first()
            if row is None or row.fence != step.fence or row.state != State.RUNNING:
                return False
            now = _now(c)
            current = records.step(row)
            deletion, after = record(_get(c, step.deletion_id), current, sweep, now)
            # By fence and state, not by version: our own lease may be renewed at this very moment.
            result = c.execute(
                t.steps.update()
                .where(t.steps.c.id == step.id, t.steps.c.fence == step.fence, t.steps.c.state == State.RUNNING)
                .values(**{**records.step_values(after), "version": t.steps.c.version + 1})
            )
            if result.rowcount != 1:
                return False
            _replace_leftovers(c, after, sweep.leftovers)
            for change in yielded:
                c.execute(t.changes.update().where(t.changes.c.id == change.id).values(undone=True))
            stored = {"member_ids": list(values["member_ids"])} if "member_ids" in values else {}
            c.execute(
                t.deletions.update()
                .where(t.deletions.c.id == deletion.id)
                .values(
                    progress_at=deletion.progress_at,
                    wake_at=now,
                    version=t.deletions.c.version + 1,  # whoever decides on older steps has to look again
                    **{**values, **stored},
                )
            )
            _journal(c, deletion.id, now, events)
            return True

    def give_back(self, step: Step) -> bool:
        """Give a step that we hold back to the queue, as if it had just been dispatched. ``False``: it is not ours.

        Only for a holder with no write call under way: the next one takes it at once, and a cancel does not wait for
        it. Tried once: a store that does not answer does not hold up the end of a process; the lease runs out.
        """
        with self._begin() as c:
            values = {"state": str(State.DISPATCHED), "dispatched_at": _now(c), "lease_until": None}
            result = c.execute(
                t.steps.update()
                .where(t.steps.c.id == step.id, t.steps.c.fence == step.fence, t.steps.c.state == State.RUNNING)
                .values(**values, version=t.steps.c.version + 1)
            )
            return result.rowcount == 1

    @_transient
    def put_steps(self, holder: Step, wanted: Sequence[Step], catalog: Collection[tuple[str, str]] = ()) -> bool:
        """Make the sweep steps of a deletion what a survey found, under the survey step's fence.

        Known ones keep their results. Those that nobody wants any more go, but not because their service or region
        vanished from the catalog under way: what the project has there is not gone, only out of sight. They stay, and
        are asked, and cannot answer. ``UNCOVERED`` ones are marked unknown for the survey's round.

        :param catalog: (region, service) of each entry that the survey found, whoever answers for it
        :returns: ``False``: the survey step was not ours any more, nothing saved
        """
        with self._begin() as c:
            mine = c.execute(sa.select(t.steps).where(t.steps.c.id == holder.id)).first()
            if mine is None or mine.fence != holder.fence or mine.state != State.RUNNING:
                return False
            key = lambda s: (s.kind, s.region, s.service, s.type)  # noqa: E731
            known = {key(s): s for s in _steps(c, holder.deletion_id) if s.kind in (Kind.SWEEP, Kind.UNCOVERED)}
            now = _now(c)
            beginning = _get(c, holder.deletion_id).status is Status.ACCEPTED
            for step in wanted:
                old = known.pop(key(step), None)
                uncovered = step.kind is Kind.UNCOVERED
                result = (
                    {"round": holder.round, "state": State.DONE, "outcome": Outcome.UNKNOWN, "reason": step.reason}
                    | {"message": step.message, "finished_at": now}
                    if uncovered
                    else {}
                )
                if old is None:
                    values = records.step_values(dataclasses.replace(step, id=_uuid(), deletion_id=holder.deletion_id))
                    c.execute(t.steps.insert(), [values | result])
                else:
                    c.execute(
                        t.steps.update()
                        .where(t.steps.c.id == old.id)
                        .values(
                            after=list(step.after),
                            residue=step.residue,
                            token=step.token,
                            version=t.steps.c.version + 1,
                            **result,
                        )
                    )
            for name, old in tuple(known.items()):
                begun = not beginning or old.outcome is Outcome.LEFTOVERS
                # Nobody could ever answer for an uncovered one: taking it from the catalog is an admin's way out.
                if begun and old.kind is Kind.SWEEP and (old.region, old.service) not in catalog:
                    del known[name]
            for gone in known.values():
                c.execute(t.leftovers.delete().where(t.leftovers.c.step_id == gone.id))
                c.execute(t.steps.delete().where(t.steps.c.id == gone.id))
            if known:
                names = ", ".join(sorted(f"{s.name}@{s.region}" for s in known.values()))
                _journal(c, holder.deletion_id, now, [Event("survey.dropped", f"need not be asked any more: {names}")])
            return True

    # ---------------------------------------------------------------------------------------- leftovers and journal
    @_transient
    def leftovers(
        self, deletion_id: str, limit: int, marker: int | None = None, **filters: str
    ) -> Sequence[LeftoverRow]:
        """Return one page of leftovers in the order in which they were found."""
        query = sa.select(t.leftovers).where(t.leftovers.c.deletion_id == deletion_id)
        for name, value in filters.items():
            query = query.where(t.leftovers.c[name] == value)
        if marker is not None:
            query = query.where(t.leftovers.c.id > marker)
        with self._begin() as c:
            rows = c.execute(query.order_by(t.leftovers.c.id).limit(limit)).all()
        return [
            LeftoverRow(
                r.id,
                r.region,
                r.service,
                r.type,
                Leftover(r.resource_id, r.name, Reason(r.reason), r.message, tuple(r.blocked_by)),
            )
            for r in rows
        ]

    @_transient
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

    @_transient
    def journal(self, deletion_id: str, *events: Event) -> None:
        """Append to the journal."""
        with self._begin() as c:
            _journal(c, deletion_id, _now(c), events)

    # ---------------------------------------------------------------------------------------------------- changes
    @_transient
    def intend(self, step: Step, type_: str, data: Mapping[str, Any]) -> Change | None:
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
            change = Change(_uuid(), step.deletion_id, len(existing) + 1, type_, dict(data))
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

    @_transient
    def changes(self, deletion_id: str) -> tuple[Change, ...]:
        """Return the changes that are not undone, in the order in which they were made."""
        with self._begin() as c:
            return _changes(c, deletion_id, undone=False)

    @_transient
    def undone(self, change: Change, event: Event) -> None:
        """Mark a change as undone, with its journal line."""
        with self._begin() as c:
            c.execute(t.changes.update().where(t.changes.c.id == change.id).values(undone=True))
            _journal(c, change.deletion_id, _now(c), [event])

    # ----------------------------------------------------------------------------------------------------- limits
    @_first_of_two
    def visit_account(self, service: str, region: str, ask: limits.Ask) -> limits.Grant:
        """Take turns and slots; see :func:`cleanup_orchestrator.limits.visit`. Tried once: the caller asks again."""
        with self._begin() as c:
            account = _account(c, service, region)
            now = _now(c)  # not before the row is ours: who waited for it must not go back in time
            table = t.account_leases
            here = sa.and_(table.c.service == service, table.c.region == region)
            rows = c.execute(
                sa.select(table.c.holder, table.c.slots, table.c.wanted, table.c.since, table.c.until).where(here)
            )
            leases = [limits.Lease(*row) for row in rows]
            after, lease, grant = limits.visit(account, leases, ask, now)
            if after != account:
                _put_account(c, service, region, after)
            void = {one.holder for one in leases if one.until <= now}
            known = ask.holder in {one.holder for one in leases} - void
            mine = sa.and_(here, table.c.holder == ask.holder)
            if void:
                c.execute(table.delete().where(here, table.c.until <= now))
            if lease is None and known:
                c.execute(table.delete().where(mine))
            elif lease is not None:
                values = dataclasses.asdict(lease)
                key = {"service": service, "region": region}
                c.execute(table.update().where(mine).values(values) if known else table.insert().values(key | values))
            return grant

    @_first_of_two
    def pause_account(self, service: str, region: str, seconds: float) -> None:
        """Let nobody call a service for so many seconds, unless it is to be longer already."""
        with self._begin() as c:
            account = _account(c, service, region)
            until = _now(c) + datetime.timedelta(seconds=seconds)
            if account.paused_until is None or account.paused_until < until:
                _put_account(c, service, region, dataclasses.replace(account, paused_until=until))


# ------------------------------------------------------------------------------------------------ rows and values
def _account(c: Connection, service: str, region: str) -> limits.Account:
    """Return an account and hold its row, until the transaction ends: for milliseconds, and never during a call."""
    table = t.accounts
    query = sa.select(table.c.calls_at, table.c.deletes_at, table.c.paused_until)
    query = query.where(table.c.service == service, table.c.region == region).with_for_update()
    row = c.execute(query).first()
    if row is None:
        # Two at once: the second one fails, and looks again.
        c.execute(table.insert().values(service=service, region=region))
        return limits.Account()
    return limits.Account(*row)


def _put_account(c: Connection, service: str, region: str, account: limits.Account) -> None:
    table = t.accounts
    mine = sa.and_(table.c.service == service, table.c.region == region)
    c.execute(table.update().where(mine).values(dataclasses.asdict(account)))


def _children(c: Connection, deletion_id: str) -> tuple[Child, ...]:
    table = t.deletions
    query = sa.select(table.c.id, table.c.project_id, table.c.status, table.c.status_at)
    rows = c.execute(query.where(table.c.parent_deletion_id == deletion_id).order_by(table.c.project_id))
    return tuple(records.child(row) for row in rows)


def _uuid() -> str:
    return str(uuid.uuid4())


def _sqlite_connect(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN IMMEDIATE ourselves: two writers queue instead of failing
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _now(c: Connection) -> datetime.datetime:
    name = c.dialect.name
    if name == "sqlite":
        text = c.exec_driver_sql("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')").scalar_one()
        return datetime.datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f")
    sql = "SELECT utc_timestamp(6)" if name in ("mysql", "mariadb") else "SELECT clock_timestamp() AT TIME ZONE 'UTC'"
    value: datetime.datetime = c.exec_driver_sql(sql).scalar_one()
    return value


def _may_write(c: Connection, step: Step) -> bool:
    row = c.execute(sa.select(t.steps).where(t.steps.c.id == step.id)).first()
    if row is None:
        return False
    current = records.step(row)
    held = current.fence == step.fence and current.state is State.RUNNING
    if not held or current.lease_until is None or current.lease_until <= _now(c):
        return False
    return allowed(_get(c, step.deletion_id), current, writing=True)


def _after(table: sa.Table, sort: Sequence[tuple[str, str]], marker: Row[Any]) -> sa.ColumnElement[bool]:
    """Return the condition for "sorts after the marker", column by column."""
    clauses = []
    for index, (name, way) in enumerate(sort):
        same = [table.c[n] == getattr(marker, n) for n, _ in sort[:index]]
        value = getattr(marker, name)
        clauses.append(sa.and_(*same, table.c[name] > value if way == "asc" else table.c[name] < value))
    return sa.or_(*clauses)


def _get(c: Connection, deletion_id: str) -> Deletion:
    row = c.execute(records.select_deletions().where(t.deletions.c.id == deletion_id)).first()
    if row is None:
        raise NotFound(f"no deletion has the id {deletion_id}")
    return records.deletion(row)


def _steps(c: Connection, deletion_id: str) -> tuple[Step, ...]:
    query = sa.select(t.steps).where(t.steps.c.deletion_id == deletion_id)
    return tuple(
        records.step(r) for r in c.execute(query.order_by(t.steps.c.region, t.steps.c.service, t.steps.c.type))
    )


def _replace_leftovers(c: Connection, step: Step, leftovers: Sequence[Leftover]) -> None:
    c.execute(t.leftovers.delete().where(t.leftovers.c.step_id == step.id))
    rows = [
        {
            "deletion_id": step.deletion_id,
            "step_id": step.id,
            "region": step.region,
            "service": step.service,
            "type": step.type,
            "resource_id": leftover.id[:512],
            "name": leftover.name[:512],
            "reason": str(leftover.reason),
            "message": leftover.message,
            "blocked_by": [dict(b) for b in leftover.blocked_by],
        }
        for leftover in leftovers
    ]
    for start in range(0, len(rows), 500):
        c.execute(t.leftovers.insert(), rows[start : start + 500])


def _journal(c: Connection, deletion_id: str, now: datetime.datetime, events: Sequence[Event]) -> None:
    if events:
        c.execute(
            t.events.insert(),
            [
                {
                    "deletion_id": deletion_id,
                    "at": now,
                    "type": e.type,
                    "message": e.message,
                    "actor": e.actor,
                    "request_id": e.request_id,
                    "data": dict(e.data),
                }
                for e in events
            ],
        )


def _changes(c: Connection, deletion_id: str, undone: bool | None) -> tuple[Change, ...]:
    query = sa.select(t.changes).where(t.changes.c.deletion_id == deletion_id)
    if undone is not None:
        query = query.where(t.changes.c.undone.is_(undone))
    return tuple(Change(**r._mapping) for r in c.execute(query.order_by(t.changes.c.sequence)))
