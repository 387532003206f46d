"""Says in words what a deletion does now, and what waits for what. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cleanup_orchestrator.core import dependencies
from cleanup_orchestrator.core.condition_types import CONDITIONS, ConditionType
from cleanup_orchestrator.core.deletion import Deletion, Profile, RoundPurpose, Status
from cleanup_orchestrator.core.reasons import ONLY_A_PERSON, Reason
from cleanup_orchestrator.core.step import Outcome, StepKind, StepState, StepView
from cleanup_orchestrator.core.texts import enumerated
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.core.transitions import LIVE

#: Resource types that a text names; further ones are counted.
_NAMED = 5

#: Region, service and type of a step.
Place = tuple[str, str, str]

_ACTIONS: Mapping[str, str] = {
    **{word: text for rule in CONDITIONS.values() for word, text in rule.asks.items()},
    Status.LEFTOVERS: "remove the leftovers, then retry",
    Status.FAILED: "remove the cause, then retry",
}
#: Keystone does not know the project, so that no cascade can be requested.
_AFTER_NOTICE = "remove the leftovers by hand, then retry; or run an orphan scan, and adopt the project"
#: A report deletes nothing, so that a retry lists the same again.
_AFTER_REPORT = "request a cascade, which deletes the leftovers that nothing blocks; or remove them by hand, then retry"


def needed_action(attention: Iterable[str], profile: Profile) -> str:
    """Return what a person does about a deletion with these causes of its ``attention``; empty: nothing is known."""
    actions = {**_ACTIONS, Status.LEFTOVERS: _AFTER_REPORT} if profile.only_reports else _ACTIONS
    if profile.noticed:
        actions = {**_ACTIONS, Status.LEFTOVERS: _AFTER_NOTICE}
    return "; ".join(actions[cause] for cause in attention if cause in actions)


def message(deletion: Deletion) -> str:
    """Return what a deletion does now; of one that ended, how it ended.

    It repeats nothing that only some users may read: the text of a hold is in the condition ``on_hold``.
    """
    if deletion.status not in LIVE:
        return deletion.message
    parts = [_doing(deletion)]
    for type_ in (ConditionType.APPROVAL, ConditionType.WAITING):
        if condition := deletion.condition(type_):
            parts = [condition.message]
    if deletion.status is Status.RECOVERABLE:
        parts = _recoverable(deletion)
    if hold := deletion.condition(ConditionType.ON_HOLD):
        parts.append(f"on hold ({hold.reason})")
    if blocked := deletion.condition(ConditionType.BLOCKED):
        parts.append(f"blocked by {blocked.message}")
    if deletion.condition(ConditionType.STALLED):
        parts.append("stalled")
    return "; ".join(parts)


def _doing(d: Deletion) -> str:
    tally = d.tally
    listed = f"{tally.steps_done} of {tally.steps} resource types are listed"
    match d.status:
        case Status.ACCEPTED:
            return "the project and the services of the catalog are being read"
        case Status.DRAINING:
            return "the project is being locked"
        case Status.INVENTORY:
            return listed
        case Status.DELETING:
            unknown = f"; {tally.unknown} types could not be listed" if tally.unknown else ""
            return f"{tally.remaining} of {tally.found} resources are left{unknown}"
        case Status.VERIFYING:
            return _verifying(d, listed)
    return d.message


def _verifying(d: Deletion, listed: str) -> str:
    if d.purpose is RoundPurpose.PROJECT_SETTINGS:
        return "the project is proven empty and is being removed"
    settling = next((c for c in d.conditions if c.type == ConditionType.SETTLED and not c.status), None)
    if settling is not None and d.purpose is RoundPurpose.NONE and settling.message:
        return settling.message
    if d.purpose is RoundPurpose.INVENTORY:
        return f"inventory {d.empty_inventories + 1} of the proof that the project is empty: {listed}"
    return f"{d.empty_inventories} complete inventories in a row were empty"


def _recoverable(d: Deletion) -> list[str]:
    """Return until when nothing is deleted, and which approval is missing."""
    until, approval = d.point_of_no_return_at, d.condition(ConditionType.APPROVAL)
    window = [f"nothing is deleted before {utc(until)}"] if until else []
    return [*window, *([approval.message] if approval else [])] or [d.message]


def waits(deletion: Deletion, steps: Iterable[StepView]) -> Mapping[Place, str]:
    """Return what each resource type of a cascade waits for that is not tried yet in the present delete round.

    Types that only a person can clear are not among them: these say what blocks them.
    """
    every = list(steps)
    late = (s for s in _late(deletion, every) if s.outcome in (Outcome.LEFTOVERS, Outcome.UNKNOWN))
    waiting = [s for s in late if s.reason not in ONLY_A_PERSON]
    pending = dependencies.waits_of_each(waiting, every, deletion.round, deletion.profile.keeps_project)
    return {(s.region, s.service, s.type): _wait(names) for s, names in pending}


def behind(deletion: Deletion, steps: Iterable[StepView]) -> Mapping[Place, tuple[str, ...]]:
    """Return, for each type that waits in the present delete round, the types that it waits for and that do not move.

    A type may wait for another one directly or not. A type whose service deletes its resources moves, and so does a
    type that is being swept.
    """
    every, round_ = list(steps), deletion.round
    late, kept = _late(deletion, every), deletion.profile.keeps_project
    names = {s.id: awaited for s, awaited in dependencies.waits_of_each(late, every, round_, kept)}
    by_name: dict[str, list[StepView]] = {}
    for step in every:
        by_name.setdefault(step.name if step.type else step.service, []).append(step)

    def roots(step: StepView) -> set[str]:
        stopped: set[str] = set()
        seen, pending = {step.id}, [step]
        while pending:
            one = pending.pop()
            others = (s for name in names.get(one.id, ()) for s in by_name.get(name.rstrip("."), ()))
            for other in others:
                if other.id in seen or (step.region and other.region not in ("", step.region)):
                    continue
                seen.add(other.id)
                if names.get(other.id):
                    pending.append(other)
                elif _has_stopped(other, round_):
                    stopped.add(other.name.rstrip("."))
        return stopped

    return {(s.region, s.service, s.type): tuple(sorted(stopped)) for s in late if (stopped := roots(s))}


def _late(deletion: Deletion, steps: Iterable[StepView]) -> list[StepView]:
    """Return the sweeps that have not run yet in the present delete round."""
    if deletion.status is not Status.DELETING or deletion.purpose is not RoundPurpose.DELETE:
        return []
    return [s for s in steps if s.kind is StepKind.SWEEP and deletion.since_round <= s.round < deletion.round]


def _has_stopped(step: StepView, round_: int) -> bool:
    """Whether a step has a result in a round after which nothing of it goes on by itself."""
    here = step.state is StepState.DONE and (step.round == round_ or step.kind is StepKind.UNSUPPORTED)
    left = step.outcome in (Outcome.LEFTOVERS, Outcome.UNKNOWN)
    return here and left and step.reason not in dependencies.MOVING


def _wait(names: tuple[str, ...]) -> str:
    if not names:
        return "its turn comes automatically"
    return f"waits for {enumerated(names, _NAMED)}"


def reason_now(deletion: Deletion, reason: str) -> str:
    """Return the reason code of a leftover: what a cascade under way found is queued, and not merely present."""
    deletes = deletion.profile.deletes and deletion.status in LIVE and deletion.status is not Status.CANCELLING
    return str(Reason.QUEUED) if deletes and reason == Reason.PRESENT else reason
