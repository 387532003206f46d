"""Collects what one decision schedules. Pure.

That is: dispatches, wake-up times, and the approval that the deletion waits for.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

from cleanup_orchestrator.core import approvals, dispatch
from cleanup_orchestrator.core.actions import Actions, Dispatch, Move
from cleanup_orchestrator.core.deletion import RoundPurpose, Status
from cleanup_orchestrator.core.guard import destructive
from cleanup_orchestrator.core.queue import QueueState
from cleanup_orchestrator.core.reasons import ONLY_A_PERSON
from cleanup_orchestrator.core.snapshot import Snapshot, retry_at
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepState
from cleanup_orchestrator.core.transitions import WORKING

#: The longest wait of a queued deletion for the next decision. Its turn is announced when it comes.
QUEUE_WAKE = datetime.timedelta(seconds=120)


class ActionPlan:
    """What a decision on one snapshot schedules. Methods never change the snapshot."""

    def __init__(self, view: Snapshot) -> None:
        self.view = view
        self.dispatches: list[Dispatch] = []
        self.wakes: list[datetime.datetime] = [view.now + view.rules.heartbeat]
        self.needs: approvals.Needed | None = None  #: the approval that the deletion waits for
        self.delete_is_next = False  #: whether the deletion would delete now, but for a hold
        self.awaits_children = False  #: whether the deletion waits for the projects below
        self.halts: Sequence[Step] = ()  #: the steps that stop what runs, if that is being done
        self.stalls_at: datetime.datetime | None = None  #: see ``conditions.stalls_at``
        self.queue_state = view.deletion.queue_state
        self._soon = False  #: whether a step that may succeed at its next try waits for it

    # -- when
    def wake(self, at: datetime.datetime) -> None:
        """Decide again at this time at the latest."""
        self.wakes.append(at)

    def wake_only(self, at: datetime.datetime) -> None:
        """Decide again at this time, and not at the times that were collected before."""
        self.wakes = [at]

    # -- steps
    def dispatch(self, step: Step) -> None:
        """Dispatch a step now."""
        self.dispatches.append(Dispatch(step.id))

    def dispatch_at(self, step: Step, at: datetime.datetime) -> None:
        """Dispatch a step once this time has come, or a user has asked for another try."""
        if self.view.now >= at or self.view.retried_now(step):
            self.dispatch(step)
        else:
            self.wake(at)

    def retry(self, step: Step) -> None:
        """Dispatch a finished step again when its back-off is over."""
        self.dispatch_at(step, retry_at(step, self.view.deletion, self.view.rules))
        person = step.reason in ONLY_A_PERSON and step.seen_twice
        tried = step.attempt >= self.view.rules.attempts or person
        self._soon = self._soon or step.polled or not tried

    def follow(self, step: Step) -> None:
        """Dispatch a step that is under way again when its cast or its lease is lost."""
        until = dispatch.under_way_until(step, self.view.rules)
        assert until is not None
        self.dispatch_at(step, until)

    def run(self, kind: StepKind, since: int | None = None) -> Step | None:
        """Schedule a deletion-wide step until it is clear; return it once it has a result.

        :param since: the round from which a result counts; without it, the first round of the attempt
        """
        step = self.view.task(kind)
        if step.round < (self.view.deletion.since_round if since is None else since):
            self.dispatch(step)
            return None
        if self.view.under_way(step):
            self.follow(step)
            return None
        if step.outcome is not Outcome.CLEAR:
            self.retry(step)
        return step

    def drop(self, step: Step | None = None) -> None:
        """Forget the dispatches of a step, or without one every dispatch."""
        self.dispatches = [a for a in self.dispatches if step is not None and a.step_id != step.id]

    # -- the end of a deletion
    def end(self, to: Status, reason: str, message: str = "") -> Actions:
        """End in a status that is not live, once no step runs and all changes are undone."""
        view = self.view
        running = [s for s in view.steps if s.state is StepState.RUNNING]
        waiting = [s.lease_until for s in running if s.lease_until and s.lease_until > view.now]
        if waiting:  # a change that is being made right now would not be undone
            self.wake(min(waiting))
            return ()
        if not view.deletion.has_changes:
            return (Move(to, reason, message),)
        release = self.run(StepKind.RELEASE)
        if release is not None and release.outcome is Outcome.CLEAR:
            self.retry(release)  # it undid what it found, but a change was recorded meanwhile
        return ()

    def fail(self, step: Step) -> Actions:
        """Forget every dispatch, and end as failed, for the reason of a step."""
        self.drop()
        return self.end(Status.FAILED, step.reason, step.message)

    # -- what may be dispatched now
    def withhold(self) -> None:
        """Drop the dispatches that a hold forbids; decide again when it may be over."""
        hold, view = self.view.hold, self.view
        if hold is None:
            return
        self.dispatches = [a for a in self.dispatches if not destructive(view.deletion, view.by_id[a.step_id])]
        if hold.until is not None:
            self.wake(hold.until)

    def take_place(self) -> None:
        """Have the deletion take a place for work, give it back, or wait for one; see :mod:`.queue`.

        Without a place nothing is dispatched but the release, which gives the project back to its users. A deletion of
        which nothing is under way gives its place back, and needs one again to go on: so no more deletions than there
        are places go on at once when what all of them waited for ends. It keeps its place during a few failed tries and
        while it polls, because both end soon.
        """
        view, by_id = self.view, self.view.by_id
        releases = [a for a in self.dispatches if by_id[a.step_id].kind is StepKind.RELEASE]
        wanted = len(self.dispatches) > len(releases)
        if view.deletion.status not in WORKING:
            self.queue_state = QueueState.OUT
        elif wanted and not view.may_work:
            self.queue_state, self.dispatches = QueueState.WAITING, releases
            self.wake_only(view.now + QUEUE_WAKE)
        elif wanted or any(view.under_way(step) for step in view.steps if step.kind is not StepKind.RELEASE):
            self.queue_state = QueueState.WORKING
        elif self.queue_state is QueueState.WAITING or not self._soon:
            self.queue_state = QueueState.OUT

    def limit_sweeps(self) -> None:
        """Have at most ``steps_at_once`` sweeps run at the same time: one deletion must not occupy all workers.

        Lost sweeps come first (their cast or their worker was lost), then those that have not run in this round, then
        those that have not run for the longest time, so that each gets its turn. The end of a sweep that was sent alone
        causes another decision. A lost sweep does not count as busy.
        """
        view, by_id = self.view, self.view.by_id
        sweeps = [a for a in self.dispatches if by_id[a.step_id].kind is StepKind.SWEEP]
        here = {a.step_id for a in sweeps}
        others = (s for s in view.steps if s.kind is StepKind.SWEEP and s.id not in here)
        busy = dispatch.busy_until(others, view.now, view.rules)
        free = max(0, view.rules.steps_at_once - len(busy))
        if len(sweeps) <= free:
            return
        lost, new, again = self._turns(sweeps)
        chosen = lost[:free]
        chosen += self._batches(new, free - len(chosen))
        chosen += again[: max(0, free - len(chosen))]
        if len(chosen) < len(sweeps):
            self.wakes += busy
        kept = {a.step_id: a for a in chosen}
        self.dispatches = [
            kept.get(a.step_id, a) for a in self.dispatches if a.step_id in kept or a.step_id not in here
        ]

    def _turns(self, sweeps: list[Dispatch]) -> tuple[list[Dispatch], list[Dispatch], list[Dispatch]]:
        """Divide sweeps into lost ones, new ones, and those that run again in this round, each in their order."""
        view = self.view
        lost: list[Dispatch] = []
        new: list[Dispatch] = []
        again: list[Dispatch] = []
        for each in sweeps:
            step = view.by_id[each.step_id]
            if step.round != view.deletion.round:
                new.append(each)
            elif step.state is StepState.DONE:
                again.append(each)
            else:
                lost.append(each)
        return lost, new, sorted(again, key=lambda each: view.by_id[each.step_id].finished_at or view.now)

    def _batches(self, new: list[Dispatch], places: int) -> list[Dispatch]:
        """Return the new sweeps that may be dispatched, in an inventory all of them in one batch for each place.

        Most lists of an inventory are empty and short. In batches, with 8 places, a deletion of 40 types needs 8
        messages to the workers and 8 decisions for each inventory, instead of 40. Steps of one service are next to each
        other, because a worker asks a service only once what it can do. Deletes take long, so they are never in a
        batch. A step that waits too long for the others of its batch counts as lost, and is then sent alone.
        """
        if self.view.deletion.purpose is not RoundPurpose.INVENTORY or len(new) <= places:
            return new[:places]
        if not places:
            return []
        by_id = self.view.by_id
        ordered = sorted(new, key=lambda each: (by_id[each.step_id].region, by_id[each.step_id].name))
        return [dataclasses.replace(each, batch=1 + n * places // len(ordered)) for n, each in enumerate(ordered)]
