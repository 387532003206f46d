"""Steps of deletions and of orphan scans: workers claim them and save their results.

An engine writes a step only if its ``version`` is the one that it read. A worker writes a step only with the
``fencing_token`` of its claim.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import force, orphan_scan, storable
from cleanup_orchestrator.core.deletion import Deletion, Status
from cleanup_orchestrator.core.guard import NO_OPTIONS, Cause, HoldOptions, may_run
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.journal import Change, Event, EventType
from cleanup_orchestrator.core.messages import Place
from cleanup_orchestrator.core.orphan_scan import SCANNING, OrphanScan
from cleanup_orchestrator.core.results import believed, record, settled
from cleanup_orchestrator.core.step import SCANS, TASKS, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.store import guard, queries, records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.changes import mark_undone
from cleanup_orchestrator.store.database import Repository, new_id
from cleanup_orchestrator.store.deletes import replace_deletes
from cleanup_orchestrator.store.journal import write_journal
from cleanup_orchestrator.store.leftovers import abandoned_leftovers, replace_leftovers
from cleanup_orchestrator.store.orphans import begin_read, count_orphans, wake_scan
from cleanup_orchestrator.store.plugin_liens import settle_lien
from cleanup_orchestrator.store.transient import retry_transient

#: Columns that only a survey writes once a step exists.
_SURVEYED = frozenset({"after", "needed_by", "project_setting", "informational", "token", "waived"})


#: Columns that a claim changes.
_CLAIMED = ("state", "fencing_token", "worker", "started_at", "lease_until", "version")

#: Columns that a result does not write: a survey may write them at the same moment, or they never change.
_NOT_OF_RESULT = _SURVEYED | {"id", "owner_id", "version"}

#: These statements set the columns that are among their parameters. By fencing token and state, not by version: the
#: lease may be renewed at the same moment. An engine that decided on older values reads again. The other parameters
#: are those of ``guard.claim`` and ``guard.waiting``. Without a match no row is updated.
_UPDATE_CLAIMED = t.steps.update().where(guard.CLAIM_HOLDS).values(version=t.steps.c.version + 1)
#: A result of a step of a deletion follows from the step as it was read, which others may have written since.
_UPDATE_READ = _UPDATE_CLAIMED.where(t.steps.c.version == sa.bindparam("known_version"))
_UPDATE_WAITING = t.deletions.update().where(guard.WAITS_FOR).values(version=t.deletions.c.version + 1)


class _ClaimLost(Exception):
    """The claim of a step no longer holds."""


class _StepChanged(Exception):
    """A step was written since the transaction read it."""


class Steps(Repository):
    """Reads and writes steps."""

    @retry_transient
    def list(self, owner_id: str) -> tuple[Step, ...]:
        """Return all steps of a deletion or of an orphan scan."""
        with self._database.read() as c:
            return queries.steps_of(c, owner_id)

    @retry_transient
    def live_places(self) -> frozenset[tuple[str, str]]:
        """Return (region, service) of all steps of live deletions."""
        s, d = t.steps.c, t.deletions.c
        query = sa.select(s.region, s.service).join(t.deletions, d.id == s.owner_id).distinct()
        with self._database.read() as c:
            rows = c.execute(query.where(d.live_project_id.is_not(None), s.service != ""))
            return frozenset((row.region, row.service) for row in rows)

    @retry_transient
    def places(self) -> Sequence[Place]:
        """Return the region, service and type of all steps on record that concern a service, each once.

        One index has these three columns, and no other: a condition on another one doubles the time.
        """
        s = t.steps.c
        query = sa.select(s.region, s.service, s.type).where(s.service != "").distinct()
        with self._database.read() as c:
            return [(row.region, row.service, row.type) for row in c.execute(query)]

    @retry_transient
    def by_deletion(self, deletion_ids: Sequence[str]) -> dict[str, tuple[Step, ...]]:
        """Return all steps of several deletions in one query, by deletion.

        Deletions without steps are missing.
        """
        if not deletion_ids:
            return {}
        by_owner: dict[str, list[Step]] = {}
        with self._database.read() as c:
            rows = c.execute(sa.select(t.steps).where(t.steps.c.owner_id.in_(deletion_ids))).all()
        for row in rows:
            by_owner.setdefault(row.owner_id, []).append(records.step(row))
        return {deletion_id: tuple(steps) for deletion_id, steps in by_owner.items()}

    # ------------------------------------------------------------------------------------------------------ claims
    def claim(self, step_id: str, worker: str, lease: float) -> tuple[Deletion | OrphanScan, Step] | None:
        """Claim a dispatched step under a lease of so many seconds.

        The fencing token of the step grows.

        :returns: the step, and the deletion or the orphan scan that it belongs to. ``None``: another worker has claimed
            the step, it is finished, or what it belongs to does not wait for it
        """
        return self._claim(step_id, worker, lease, set())

    @retry_transient
    def _claim(
        self, step_id: str, worker: str, lease: float, tried: set[Step]
    ) -> tuple[Deletion | OrphanScan, Step] | None:
        """Claim a step.

        :param tried: receives the step as each attempt writes it. If it is stored so, an earlier attempt was committed
            and its answer was lost
        """
        with self._database.begin() as c:
            if (waiting := _waiting(c, step_id)) is None:
                return None
            owner, step, now, waits = waiting
            if step in tried:
                return owner, step
            if step.state is not StepState.DISPATCHED or not waits:
                return None
            claimed = dataclasses.replace(
                step,
                state=StepState.RUNNING,
                fencing_token=step.fencing_token + 1,
                worker=worker,
                started_at=now,
                lease_until=now + datetime.timedelta(seconds=lease),
                version=step.version + 1,
            )
            tried.add(claimed)
            key = {"known_id": step.id, "known_version": step.version}
            values = records.step_values(claimed)
            result = c.execute(queries.UPDATE_STEP, {name: values[name] for name in _CLAIMED} | key)
            if result.rowcount != 1:
                return None
            if step.kind is StepKind.SCAN:
                begin_read(c, step)
            return owner, claimed

    @retry_transient
    def renew(self, step: Step, lease: float) -> bool:
        """Extend the lease of a claimed step. ``False``: the claim no longer holds."""
        with self._database.begin() as c:
            if (now := guard.held(c, step)) is None:
                return False
            until = now + datetime.timedelta(seconds=lease)
            result = c.execute(_UPDATE_CLAIMED, {"lease_until": until} | guard.claim(step))
            return bool(result.rowcount == 1)

    @retry_transient
    def withheld(self, step: Step, options: HoldOptions = NO_OPTIONS, never_delete: str = "") -> tuple[Cause, ...]:
        """Return what keeps the worker that claimed a step from making a write call now; see :func:`guard.withheld`."""
        with self._database.begin() as c:
            return guard.withheld(c, step, options, never_delete)

    def release_claim(self, step: Step) -> bool:
        """Give a claimed step back to the queue, as if it had just been dispatched.

        ``False``: the claim is gone. The caller has no write call under way: the next worker claims the step at once,
        and a cancel does not wait for it. There is one attempt: a database that does not answer does not delay the end
        of a process, and the lease expires.
        """
        with self._database.begin() as c:
            if (now := guard.held(c, step)) is None:
                return False
            values = {"state": str(StepState.DISPATCHED), "dispatched_at": now, "lease_until": None}
            result = c.execute(_UPDATE_CLAIMED, values | guard.claim(step))
            return bool(result.rowcount == 1)

    # ----------------------------------------------------------------------------------------------------- results
    def finish(
        self, step: Step, result: StepResult, events: Sequence[Event] = (), yielded: Iterable[Change] = ()
    ) -> bool:
        """Save the result of a claimed step.

        With it are saved its leftovers, its journal lines, the facts that it learned, and the lien that it raises or
        ends. ``False``: the claim no longer holds, nothing is saved.

        :param yielded: recorded changes that others have undone: they are marked, and will not be undone again
        """
        undone = tuple(yielded)
        while True:
            try:
                if step.kind in SCANS:
                    self._finish_scan(step, result)
                    return True
                liens = self._finish(step, result, events, undone)
                break
            except _StepChanged:
                continue
            except _ClaimLost:
                return False
        for lien in liens:
            self._database.listeners.lien_changed(lien)
        return True

    @retry_transient
    def _finish(
        self, step: Step, result: StepResult, events: Sequence[Event], yielded: Sequence[Change]
    ) -> Sequence[Lien]:
        """Save a result; return the liens that changed with it.

        :raises _ClaimLost: the claim no longer holds; the transaction is rolled back
        :raises _StepChanged: the step was written since it was read; the transaction is rolled back
        """
        with self._database.begin() as c:
            if (work := guard.claimed(c, step)) is None:
                raise _ClaimLost
            before, known, now = work.deletion, work.step, work.now
            result = believed(known, result)
            result = force.keep_abandoned(result, abandoned_leftovers(c, known), storable.resource_id)
            deletion, after = record(before, known, result, now)
            # The deletion first: see queries.lock_deletion. It may have ended while this transaction waited for it.
            values = records.deletion_values(deletion)
            learned = {name: values[name] for name in settled(before, deletion, result)}
            saved = c.execute(_UPDATE_WAITING, learned | {"wake_at": now} | guard.waiting(known))
            if saved.rowcount != 1:
                raise _ClaimLost
            # Meanwhile the lease may have been renewed, or a waiver may have ended.
            key = guard.claim(step) | {"known_version": known.version}
            if c.execute(_UPDATE_READ, _result_values(after) | key).rowcount != 1:
                raise _ClaimLost if guard.held(c, step) is None else _StepChanged
            replace_leftovers(c, after, (*result.leftovers, *result.kept_resources), work.has_leftovers)
            replace_deletes(c, after, result, work.has_deletes)
            mark_undone(c, yielded)
            liens, lines = settle_lien(c, deletion, after, result, now)
            write_journal(c, deletion.id, now, [*events, *lines])
            return liens

    @retry_transient
    def _finish_scan(self, step: Step, result: StepResult) -> None:
        """Save the result of a step of an orphan scan, with the counts of the orphans on record.

        :raises _ClaimLost: the claim no longer holds; the transaction is rolled back
        """
        with self._database.begin() as c:
            # The scan first, as in a decision. Its new version makes an engine that decided on older steps read again.
            if (work := guard.claimed_scan(c, step)) is None or not wake_scan(c, work.scan.id, work.now):
                raise _ClaimLost
            after = orphan_scan.record(work.step, result, work.now)
            if c.execute(_UPDATE_CLAIMED, _result_values(after) | guard.claim(step)).rowcount != 1:
                raise _ClaimLost
            if step.kind is StepKind.SCAN and result.outcome is Outcome.CLEAR:
                count_orphans(c, after)

    @retry_transient
    def put(self, holder: Step, wanted: Sequence[Step], catalog: Collection[tuple[str, str]] = ()) -> bool:
        """Replace the sweep steps of a deletion by those that its survey found.

        Steps that exist keep their results. Steps that are no longer wanted are deleted, with one exception: those
        whose service or region disappeared from the catalog after the deletion began. Their resources still exist and
        can only not be seen; the steps stay and report that they cannot answer. ``UNSUPPORTED`` steps are marked
        unknown for the survey's round.

        A waived step has no result; an earlier result no longer holds. Its leftovers stay on record, because
        after the project is gone they are all that is known. When the waiver has ended, the step begins again.

        :param holder: the survey step, as its worker claimed it
        :param catalog: (region, service) of each catalog entry that the survey found, whatever supports it
        :returns: ``False``: the claim of the survey step no longer holds, nothing is saved
        """
        with self._database.begin() as c:
            queries.lock_deletion(c, holder.owner_id)
            if (work := guard.claimed(c, holder)) is None:
                return False
            known = {_key(s): s for s in queries.steps_of(c, holder.owner_id) if s.kind not in TASKS}
            beginning = work.deletion.status is Status.ACCEPTED
            new = []
            for step in wanted:
                if (old := known.pop(_key(step), None)) is None:
                    new.append(_new_step(holder, step, work.now))
                else:
                    _update_step(c, holder, step, old, work.now)
            if new:
                c.execute(t.steps.insert(), new)
            _drop_steps(c, holder, _unwanted(known.values(), beginning, catalog), work.now)
            return True


def _waiting(c: Connection, step_id: str) -> tuple[Deletion | OrphanScan, Step, datetime.datetime, bool] | None:
    """Return a step with what it belongs to, the time, and whether the latter waits for the step."""
    if (work := queries.find_work(c, step_id)) is not None:
        return work.deletion, work.step, work.now, may_run(work.deletion, work.step)
    if (of_scan := queries.find_scan_work(c, step_id)) is not None:
        return *of_scan, of_scan.scan.status in SCANNING
    return None


def _key(step: Step) -> tuple[StepKind, str, str, str]:
    return step.kind, step.region, step.service, step.type


def _new_step(holder: Step, step: Step, now: datetime.datetime) -> dict[str, Any]:
    """Return the columns of a step that a survey found first."""
    values = records.step_values(dataclasses.replace(step, id=new_id(), owner_id=holder.owner_id))
    return values | _survey_result(holder, step, None, now)


def _update_step(c: Connection, holder: Step, step: Step, old: Step, now: datetime.datetime) -> None:
    """Update a step that a survey found again; one that is on record as it was found stays as it is."""
    result = _survey_result(holder, step, old, now)
    declared = {
        "after": list(step.after),
        "needed_by": list(step.needed_by),
        "project_setting": step.project_setting,
        "informational": step.informational,
        "token": step.token,
    }
    stored = records.step_values(old)
    if result or any(stored[name] != value for name, value in declared.items()):
        mine = t.steps.c.id == old.id
        c.execute(t.steps.update().where(mine).values(**declared, version=t.steps.c.version + 1, **result))


def _survey_result(holder: Step, step: Step, old: Step | None, now: datetime.datetime) -> dict[str, Any]:
    """Return what a survey writes of the result of a step.

    For most steps that is nothing, because their own result stays.
    """
    if step.kind is StepKind.UNSUPPORTED and not step.waived:
        return {
            "round": holder.round,
            "state": StepState.DONE,
            "outcome": Outcome.UNKNOWN,
            "reason": step.reason,
            "message": step.message,
            "finished_at": now,
            "waived": "",
        }
    if step.waived or (old is not None and old.waived):
        result: dict[str, Any] = {"waived": step.waived, "reason": step.reason, "message": step.message}
        result |= {"outcome": str(Outcome.NONE)}
        if old is None or old.state is not StepState.RUNNING:  # a running one ends by itself; see results.record
            result |= {"state": str(StepState.IDLE), "round": 0}
        return result
    return {}


def _unwanted(known: Iterable[Step], beginning: bool, catalog: Collection[tuple[str, str]]) -> Iterable[Step]:
    """Return the steps that a survey deletes, of those that it no longer wants.

    :param beginning: the deletion has only just been accepted
    """
    for step in known:
        begun = not beginning or step.outcome in (Outcome.LEFTOVERS, Outcome.UNKNOWN)
        out_of_sight = step.kind is StepKind.SWEEP and (step.region, step.service) not in catalog
        if not (begun and out_of_sight) and not step.abandoned:  # what was abandoned stays on record
            yield step


def _drop_steps(c: Connection, holder: Step, dropped: Iterable[Step], now: datetime.datetime) -> None:
    """Delete steps with their leftovers, and name them in the journal."""
    names = []
    for step in dropped:
        c.execute(t.leftovers.delete().where(t.leftovers.c.step_id == step.id))
        c.execute(t.deletes.delete().where(t.deletes.c.step_id == step.id))
        c.execute(t.steps.delete().where(t.steps.c.id == step.id))
        if step.kind is not StepKind.HALT:
            names.append(f"{step.name}@{step.region}")
    if names:
        text = f"need no longer be asked: {', '.join(sorted(names))}"
        write_journal(c, holder.owner_id, now, [Event(EventType.SURVEY_DROPPED, text, holder.worker)])


def _result_values(step: Step) -> dict[str, Any]:
    """Return the columns that a result writes.

    Columns that a survey may write at the same moment are left out.
    """
    values = records.step_values(step)
    return {name: value for name, value in values.items() if name not in _NOT_OF_RESULT}
