"""A world in memory for tests of the core: a clock, a record, workers that answer what the test says."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable

from cleanup_orchestrator.core import actions, decide, force, guard, results, transitions
from cleanup_orchestrator.core.approvals import Requests
from cleanup_orchestrator.core.deletion import Deletion, DeletionCase, Mode, RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.proposals import AbandonLeftovers, Proposal, Requester, Retry, apply
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import TASKS, Leftover, Outcome, Step, StepKind, StepResult, StepState, Token

T0 = datetime.datetime(2026, 1, 1)
CLEAR = StepResult(Outcome.CLEAR)
UNKNOWN = StepResult(Outcome.UNKNOWN, str(Reason.UNREACHABLE), "no answer")


#: The status of a deletion that did what was requested, by its mode.
DONE = {Mode.REPORT: Status.DELETED, Mode.CASCADE: Status.DELETED, Mode.PURGE: Status.PURGED}
#: The modes that remove the project.
REMOVING = (Mode.REPORT, Mode.CASCADE)


def left(*names: str, reason: Reason = Reason.PRESENT) -> StepResult:
    """Return a sweep that found these."""
    items = tuple(Leftover(n, n, reason) for n in names)
    return StepResult(Outcome.LEFTOVERS, str(reason), found=len(items), leftovers=items)


def deletion(**values: object) -> DeletionCase:
    """Return a fresh deletion."""
    base = DeletionCase(
        id="d",
        project_id="p",
        project_name="P",
        domain_id="dom",
        mode=Mode.CASCADE,
        dry_run=False,
        status=Status.ACCEPTED,
        created_at=T0,
        updated_at=T0,
        status_at=T0,
        progress_at=T0,
        wake_at=T0,
    )
    return dataclasses.replace(base, **values)  # type: ignore[arg-type]


def allowed(record: DeletionCase, step: Step, writing: bool = False) -> bool:
    """Whether a step may run, or (``writing``) write, whatever the time and the claim."""
    return not any(guard.causes(guard.HoldInputs(record, liens=record.liens, brake=record.brake), step, writing))


def sweep_step(name: str, **values: object) -> Step:
    """Return a step for ``service.type``."""
    service, type_ = name.split(".")
    return dataclasses.replace(
        Step(name, "d", StepKind.SWEEP, "R1", service, type_),
        **values,  # type: ignore[arg-type]
    )


class World:
    """Runs the core as engine and workers would, one effect at a time."""

    def __init__(self, record: Deletion, *sweeps: Step, rules: Rules | None = None) -> None:
        self.deletion = record
        tasks = [Step(str(k), "d", k) for k in TASKS]
        self.steps = {s.id: s for s in (*tasks, *sweeps)}
        self.rules = rules or Rules()
        self.now = T0
        self.events: list[Event] = []
        self.dispatched: list[str] = []  #: every step that was cast, in order
        self.casts: list[tuple[str, ...]] = []  #: every cast, in order: a worker does its steps one after the other
        self.writes: list[tuple[str, RoundPurpose]] = []  #: steps that were allowed to write, with the round's purpose
        self.answers: dict[str, Callable[[Step], StepResult]] = {}
        self.empty_rounds: list[datetime.datetime] = []  #: when each counted inventory was opened
        self.left: dict[str, dict[str, Leftover]] = {}  #: what is on record as left, by step and id

    def finds(self, name: str, then: Callable[[Step], StepResult] = lambda _: CLEAR) -> World:
        """Let a step find a resource in the inventory before the deletes, and answer with `then` afterwards."""
        self.answers[name] = lambda step: left("r1") if self.deletion.status is Status.INVENTORY else then(step)
        return self

    def step(self, name: str) -> Step:
        """Return a step by id."""
        return self.steps[name]

    def engine(self) -> bool:
        """One decision; whether anything changed."""
        before = self.deletion
        steps = tuple(self.steps.values())
        assert isinstance(self.deletion, DeletionCase)
        decided = decide.decide(self.deletion, steps, self.now, self.rules)
        applied = actions.apply(self.deletion, steps, decided, self.now)
        for action in decided:
            if isinstance(action, actions.CountEmpty):
                assert before.round_opened_at
                self.empty_rounds.append(before.round_opened_at)
        self.deletion = applied.deletion
        self.steps.update({s.id: s for s in applied.steps})
        self.events += applied.events
        self.casts += applied.casts
        self.dispatched += [id_ for batch in applied.casts for id_ in batch]
        for step_id in applied.abandoned:
            here = self.left.get(step_id, {})
            self.left[step_id] = {id_: dataclasses.replace(one, abandoned=True) for id_, one in here.items()}
        return applied.decide_again

    def settle_engine(self) -> None:
        """Decide until there is nothing more to decide now."""
        for _ in range(100):
            if not self.engine():
                return
        raise AssertionError("the engine does not come to rest")

    def claim(self, step_id: str) -> None:
        """A worker takes a step."""
        step = self.steps[step_id]
        assert step.state is StepState.DISPATCHED
        self.steps[step_id] = dataclasses.replace(
            step,
            state=StepState.RUNNING,
            fencing_token=step.fencing_token + 1,
            started_at=self.now,
            lease_until=self.now + datetime.timedelta(seconds=60),
        )

    def finish(self, step_id: str, result: StepResult | None = None) -> None:
        """The worker is done."""
        step = self.steps[step_id]
        if result is None:
            answer = self.answers.get(step_id)
            result = answer(step) if answer else CLEAR
        if step.kind is StepKind.SWEEP and self.deletion.purpose in (
            RoundPurpose.DELETE,
            RoundPurpose.PROJECT_SETTINGS,
        ):
            self.writes.append((step_id, self.deletion.purpose))
        if step.kind in (StepKind.ACCESS, StepKind.DRAIN, StepKind.CLOSE):
            self.writes.append((step_id, self.deletion.purpose))
            self.deletion = dataclasses.replace(self.deletion, has_changes=True)
        if step.kind is StepKind.REMOVE:
            self.writes.append((step_id, self.deletion.purpose))
            self.deletion = dataclasses.replace(self.deletion, has_changes=False)
        if step.kind is StepKind.RELEASE and result.outcome is Outcome.CLEAR:
            self.deletion = dataclasses.replace(self.deletion, has_changes=False)
        abandoned = {id_: one for id_, one in self.left.get(step_id, {}).items() if one.abandoned and step.abandoned}
        result = force.keep_abandoned(result, abandoned)
        self.left[step_id] = {one.id: one for one in result.leftovers}
        if result.outcome is Outcome.UNKNOWN:
            self.left[step_id] = abandoned
        self.deletion, self.steps[step_id] = results.record(self.deletion, step, result, self.now)

    def run(self, limit: int = 2000, until: Status | None = None) -> Status:
        """Let engine and workers run, time included, until only a person can go on (or ``until`` is reached)."""
        for _ in range(limit):
            self.settle_engine()
            if self.deletion.status not in transitions.LIVE or self.deletion.status is until:
                return self.deletion.status
            ready = [s.id for s in self.steps.values() if s.state is StepState.DISPATCHED]
            if ready:
                self.claim(ready[0])
                self.finish(ready[0])
                self.now += datetime.timedelta(milliseconds=100)
            else:
                self.now = max(self.deletion.wake_at, self.now + datetime.timedelta(milliseconds=1))
        return self.deletion.status

    def force(self, *types: str) -> None:
        """An admin forces it."""
        by, reason = Requester("u1", "alice"), "the storage burnt down"
        self.ask(AbandonLeftovers(by=by, seen=self.deletion, reason=reason, wanted=types, types=types))

    def retry_now(self) -> None:
        """A person has it tried again at once."""
        assert transitions.retries_in_place(self.deletion)
        self.ask(Retry(by=Requester("u1", "alice"), seen=self.deletion))

    def ask(self, proposal: Proposal) -> None:
        """Apply a proposal."""
        assert isinstance(self.deletion, DeletionCase)
        applied = apply(proposal, self.deletion, tuple(self.steps.values()), self.now, Requests())
        assert applied is not None
        self.deletion = applied.deletion
        self.steps |= {step.id: step for step in applied.steps}
        self.events += applied.events

    def user(self, to: Status) -> None:
        """A person moves it."""
        self.deletion = transitions.move(self.deletion, to, transitions.By.USER, self.now, str(to))


__all__ = ["CLEAR", "T0", "UNKNOWN", "Token", "World", "deletion", "left", "sweep_step"]
