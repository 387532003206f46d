"""Finds what keeps a deletion from going on. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from cleanup_orchestrator.core import force, trees
from cleanup_orchestrator.core.deletion import Deletion, DeletionView, RoundPurpose, Status
from cleanup_orchestrator.core.reasons import ONLY_A_PERSON, Reason, Subject, commands, remedy
from cleanup_orchestrator.core.snapshot import in_scope
from cleanup_orchestrator.core.step import Outcome, StepKind, StepState, StepView
from cleanup_orchestrator.core.transitions import LIVE

#: Reasons of leftovers that do not block: the resources are about to be deleted, or stay as requested.
_HARMLESS = frozenset({Reason.PRESENT, Reason.QUEUED, Reason.NOT_SELECTED})


@dataclasses.dataclass(frozen=True, slots=True)
class Blocker:
    """What keeps a deletion from going on, and what clears it."""

    region: str
    service: str
    type: str
    reason: str
    message: str
    remedy: str
    commands: tuple[str, ...]  #: those of the remedy that a person can copy


def blockers(deletion: DeletionView, steps: Iterable[StepView]) -> tuple[Blocker, ...]:
    """Return what keeps a deletion from going on, by region, service and type."""
    of_steps = (
        Blocker(
            step.region,
            step.service,
            step.type or str(step.kind),
            step.reason,
            step.message,
            remedy_of(deletion, step),
            commands(step.reason, _subject(deletion, step), step.remedy),
        )
        for step in steps
        if blocks(deletion, step)
    )
    return tuple(sorted(of_steps, key=lambda b: (b.region, b.service, b.type)))


def remedy_of(deletion: Deletion, step: StepView) -> str:
    """Return what a person does about the reason of a step."""
    return remedy(step.reason, _subject(deletion, step), step.remedy)


def _subject(deletion: Deletion, step: StepView) -> Subject:
    return Subject(deletion.id, deletion.project_id, step.service, step.type)


def blocks(deletion: DeletionView, step: StepView) -> bool:
    """Whether the latest result of a step in this attempt keeps the deletion from going on.

    While the step is tried again in the same round, that result counts. The results of an earlier round count only if
    they do not end by themselves: a new round does not clear them.
    """
    if deletion.status in (Status.CANCELLING, Status.CANCELLED) and step.kind is not StepKind.RELEASE:
        return False
    return _has_result(deletion, step) and _is_against(deletion, step)


def only_a_person_clears(deletion: DeletionView, step: StepView) -> bool:
    """Whether a step blocks until a person changes something, however often it is tried again.

    Some steps never block in this way. The access step does not: if a sweep needs a token of the project and gets none,
    the sweep itself blocks. A halt step does not: resources that could not be stopped are deleted all the same. A step
    of project settings does not: the project is removed even if the settings stay. Under force, a sweep does not: what
    it cannot delete is abandoned. A reason that one odd answer may have blocks in this way once two answers gave it.
    """
    if step.reason not in ONLY_A_PERSON or step.kind in (StepKind.ACCESS, StepKind.HALT) or step.project_setting:
        return False
    if not step.seen_twice:
        return False
    sweep = step.kind in (StepKind.SWEEP, StepKind.UNSUPPORTED)
    forced = sweep and force.asked(deletion) is not None and not step.unplanned
    return blocks(deletion, step) and not forced


def _has_result(deletion: Deletion, step: StepView) -> bool:
    """Whether the step has a result of this attempt that still says something."""
    if step.round < deletion.since_round:
        return False
    if step.state is StepState.DONE:
        return True
    if step.state is StepState.IDLE:
        return False
    # The result of a step that runs for the first time in an attempt is of the attempt before: in the first round, and
    # of the tasks that are done at the end of an attempt.
    repeated = step.kind in (StepKind.SWEEP, StepKind.SURVEY) and not step.project_setting
    later = repeated and step.round > deletion.since_round + 1 and step.reason in ONLY_A_PERSON
    return step.attempt > 1 or later


def _is_against(deletion: DeletionView, step: StepView) -> bool:
    """Whether the result of a step keeps the deletion from going on.

    A sweep that has not run in the present round does not block, except for what does not end by itself: it waits for
    other steps or for its turn. Resources that are merely present do not block: a cascade deletes them. What is on hold
    does not block: its condition says why. A refused removal does not block while the project is proven empty again:
    that begins with a survey, which finds the cause. Projects below do not block while they are being deleted, and
    never a dry run that includes them. An informational step never blocks.
    """
    if step.reason == Reason.ON_HOLD or step.informational:
        return False
    if step.kind in (StepKind.SWEEP, StepKind.UNSUPPORTED) and not deletion.selection.has_type(step.service, step.type):
        return False  # nothing of it is selected
    if step.kind is StepKind.HALT and deletion.status is not Status.RECOVERABLE:
        return False  # nothing is halted after the recovery window
    removing = deletion.purpose is RoundPurpose.PROJECT_SETTINGS or deletion.status not in LIVE
    if step.kind is StepKind.REMOVE and not removing:
        return False
    if step.kind not in (StepKind.SWEEP, StepKind.UNSUPPORTED):
        if step.reason == Reason.PROJECT_HAS_CHILDREN:
            included = deletion.dry_run and step.outcome is Outcome.CLEAR  # they have dry runs of their own
            return not included and not trees.under_way(deletion, step)
        return step.outcome is Outcome.UNKNOWN
    current = step.round == deletion.round or step.kind is StepKind.UNSUPPORTED or step.reason in ONLY_A_PERSON
    left = step.outcome is Outcome.LEFTOVERS and step.reason not in _HARMLESS
    against = current and in_scope(deletion, step) and (left or step.outcome is Outcome.UNKNOWN)
    return against and not force.is_abandoned(deletion, step)
