"""The graph of resource types: what must be confirmed gone before what. Pure.

A node is ``service.type``. Edges come from ``ResourceType.after``, with own-service short names already spelt out
by the registry; ``*`` is every other type that does not itself say ``*``. A name that has no step in a deletion
(its service is not in the catalog) is satisfied, and so is one that is waived; one that has a step must be clear in
every region that matters; one whose service is in the catalog with nobody to answer for it is never satisfied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepState

#: In ``Step.after``: every other type that does not itself say so.
EVERYTHING = "*"


class Cycle(ValueError):
    """The declared order has a cycle; ``names`` walks it."""

    def __init__(self, names: list[str]) -> None:
        super().__init__("cycle in 'after': " + " -> ".join(names))
        self.names = names


def check(graph: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the nodes in an order in which every edge is kept.

    :param graph: node to the nodes that must be gone before it
    :raises Cycle: when there is none
    """
    try:
        return tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise Cycle(list(error.args[1])) from None


def confirmed_gone(step: Step, round_: int) -> bool:
    """Whether the present round has confirmed that nothing of this type is left."""
    return step.round == round_ and step.state is StepState.DONE and step.outcome is Outcome.CLEAR


def only_unplanned(step: Step, round_: int) -> bool:
    """Whether the present round left nothing of this type but what is not in the deletion's plan, and so stays."""
    left = step.round == round_ and step.state is StepState.DONE and step.outcome is Outcome.LEFTOVERS
    return left and 0 < step.unplanned == step.remaining


def waits_for(step: Step, steps: Iterable[Step], round_: int) -> tuple[str, ...]:
    """Return the names that this step still has to wait for: one failed or unlistable region is enough.

    Regions do not wait for each other; a step without a region (identity) waits for, and is waited for by, all.
    """
    return tuple(
        sorted(
            {
                other.name
                for other in steps
                if _edge(step, other) and not confirmed_gone(other, round_) and not only_unplanned(other, round_)
            }
        )
    )


def behind(steps: Collection[Step], ids: Collection[str]) -> frozenset[str]:
    """Return the ids of all steps that wait for one of these, directly or by way of others."""
    found: set[str] = set()
    news = set(ids)
    while news:
        sources = [step for step in steps if step.id in news]
        news = {step.id for step in steps if step.id not in found and any(_edge(step, other) for other in sources)}
        found |= news
    return frozenset(found)


def _edge(step: Step, other: Step) -> bool:
    """Whether ``step`` waits for ``other``, as long as that one is not confirmed gone."""
    here = not step.region or not other.region or step.region == other.region
    return other.id != step.id and here and _matters(step, other)


def _matters(step: Step, other: Step) -> bool:
    """Whether an edge leads from ``step`` to ``other``."""
    if other.waived:  # an admin's word: go on without it
        return False
    if step.project_setting:  # by then everything else is proven gone: only project settings waits for project settings
        return other.project_setting and other.name in step.after
    if other.kind is StepKind.UNSUPPORTED:
        return EVERYTHING in step.after or any(name.split(".")[0] == other.service for name in step.after)
    if other.kind is not StepKind.SWEEP or other.project_setting:
        return False
    return other.name in step.after or (EVERYTHING in step.after and EVERYTHING not in other.after)
