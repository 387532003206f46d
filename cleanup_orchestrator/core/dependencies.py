"""The graph of resource types: which one must be gone before which. Pure.

A node is ``service.type``. Edges come from ``ResourceType.after``, in which the registry has completed short names.
``*`` stands for every other type that does not declare ``*`` itself. A name is satisfied if it has no step in the
deletion (its service is not in the catalog), or if the step is waived. If it has a step, the step must be clear in
every region that matters. A name of an unsupported service is never satisfied.

A name that is in ``StepView.needed_by``, too, is also satisfied once the leftovers of the other type are known and are
not about to be deleted. Then the step deletes what these leftovers do not need. The worker finds out what they need.

Leftovers that are not in the plan of a cascade satisfy a name. In a deletion that keeps the project (``kept``),
leftovers that are not in the plan or the selection do not: they go on being used, so that what they may need stays.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepState, StepView

#: In ``StepView.after``: every other type that does not declare this itself.
EVERYTHING = "*"

#: Reasons of leftovers that are about to be deleted. A type that needs them gone waits for that, and tries nothing.
MOVING = frozenset({Reason.DELETING, Reason.QUEUED, Reason.RATE_LIMITED, Reason.ON_HOLD})


class Cycle(ValueError):
    """The declared order has a cycle. ``names`` lists its nodes in order."""

    def __init__(self, names: list[str]) -> None:
        super().__init__("cycle in 'after': " + " -> ".join(names))
        self.names = names


def check(graph: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the nodes in an order that respects every edge.

    :param graph: node to the nodes that must be gone before it
    :raises Cycle: there is no such order
    """
    try:
        return tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise Cycle(list(error.args[1])) from None


def confirmed_gone(step: StepView, round_: int) -> bool:
    """Whether the present round has confirmed that nothing of this type is left."""
    return step.round == round_ and step.state is StepState.DONE and step.outcome is Outcome.CLEAR


def only_unplanned(step: StepView, round_: int) -> bool:
    """Whether no leftover of this type in the present round is in the deletion's plan.

    Such leftovers stay.
    """
    left = step.round == round_ and step.state is StepState.DONE and step.outcome is Outcome.LEFTOVERS
    return left and 0 < step.unplanned == step.remaining


def only_staying(step: StepView, round_: int) -> bool:
    """Whether each leftover of this type in the present round is outside of the deletion's plan or its selection."""
    left = step.round == round_ and step.state is StepState.DONE and step.outcome is Outcome.LEFTOVERS
    return left and 0 < step.unplanned + step.unselected == step.remaining


def waits_for(step: StepView, steps: Iterable[StepView], round_: int, kept: bool = False) -> tuple[str, ...]:
    """Return the names that this step still waits for.

    One region that failed, or cannot be listed, is enough. Regions do not wait for each other. A step without a region
    (identity) waits for all regions, and all wait for it.

    :param kept: whether the deletion keeps the project
    """
    return tuple(
        sorted(
            {
                other.name
                for other in steps
                if _edge(step, other)
                and not _satisfies(other, round_, kept)
                and not (other.name in step.needed_by and _stuck(other, round_))
            }
        )
    )


def waits_of_each(
    waiting: Iterable[StepView], steps: Collection[StepView], round_: int, kept: bool = False
) -> Iterator[tuple[StepView, tuple[str, ...]]]:
    """Yield each of these steps with the names that it still waits for; see :func:`waits_for`.

    Each step is compared only with the steps that its names can lead to, not with all of them.
    """
    pending = [s for s in steps if not _satisfies(s, round_, kept)]
    by_name: dict[str, list[StepView]] = {}
    for each in pending:
        by_name.setdefault(each.name, []).append(each)
    unsupported = [each for each in pending if each.kind is StepKind.UNSUPPORTED]
    for step in waiting:
        named = itertools.chain.from_iterable(by_name.get(name, ()) for name in step.after)
        yield step, waits_for(step, pending if EVERYTHING in step.after else [*unsupported, *named], round_, kept)


def staying(step: Step, others: Iterable[Step]) -> tuple[str, ...]:
    """Return the names that a step waits for in vain: what they have stays, and it is not known what this needs.

    :param others: the steps with leftovers that stay, or of which nothing is selected and nothing is known
    """
    known = (Outcome.LEFTOVERS, Outcome.CLEAR)
    held = (s for s in others if _edge(step, s) and not (s.name in step.needed_by and s.outcome in known))
    return tuple(sorted({s.name if s.type else s.service for s in held}))


def may_need(step: Step, steps: Iterable[Step], round_: int) -> tuple[Step, ...]:
    """Return the steps of ``step.needed_by`` whose leftovers may need a resource of this step.

    A step whose result is not from this round, or is unknown, is among them: what it has left is not known. So is one
    that has only leftovers that are not in the plan: they stay, and what they need stays with them.
    """
    edges = _needing(step, steps)
    return tuple(other for other in edges if not confirmed_gone(other, round_))


def cleared_since(step: Step, steps: Iterable[Step], round_: int) -> bool:
    """Whether a type of ``step.needed_by`` became clear after the step ended."""
    ended = step.finished_at
    return ended is not None and any(
        confirmed_gone(other, round_) and other.finished_at is not None and other.finished_at > ended
        for other in _needing(step, steps)
    )


def _satisfies(step: StepView, round_: int, kept: bool) -> bool:
    """Whether steps no longer wait for this one."""
    return confirmed_gone(step, round_) or (not kept and only_unplanned(step, round_))


def _needing(step: Step, steps: Iterable[Step]) -> list[Step]:
    """Return the steps of ``step.needed_by``."""
    return [other for other in steps if other.name in step.needed_by and _edge(step, other)]


def _stuck(step: StepView, round_: int) -> bool:
    """Whether the present round has listed the leftovers of a step, and they are not about to be deleted."""
    left = step.round == round_ and step.state is StepState.DONE and step.outcome is Outcome.LEFTOVERS
    return left and step.reason not in MOVING


def behind(steps: Collection[Step], ids: Collection[str]) -> frozenset[str]:
    """Return the ids of all steps that wait, also indirectly, for one of these."""
    waiting: set[str] = set()
    added = set(ids)
    while added:
        sources = [step for step in steps if step.id in added]
        added = {step.id for step in steps if step.id not in waiting and any(_edge(step, other) for other in sources)}
        waiting |= added
    return frozenset(waiting)


def _edge(step: StepView, other: StepView) -> bool:
    """Whether ``step`` waits for ``other`` until ``other`` is confirmed gone."""
    here = not step.region or not other.region or step.region == other.region
    return other.id != step.id and here and _matters(step, other)


def _matters(step: StepView, other: StepView) -> bool:
    """Whether an edge leads from ``step`` to ``other``."""
    if other.waived:  # an admin decided to go on without it
        return False
    if step.project_setting:  # everything else is proven gone by then: settings wait for settings only
        return other.project_setting and other.name in step.after
    if other.kind is StepKind.UNSUPPORTED:
        return EVERYTHING in step.after or any(name.rpartition(".")[0] == other.service for name in step.after)
    if other.kind is not StepKind.SWEEP or other.project_setting:
        return False
    return other.name in step.after or (EVERYTHING in step.after and EVERYTHING not in other.after)
