"""Converts plans to JSON. Pure functions, as in ``views``."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from cleanup_orchestrator import shapes
from cleanup_orchestrator.api.views import LeftoverRow, blockers_of, place, self_link
from cleanup_orchestrator.core import approvals, plans, summaries
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import DeletionView
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Step, StepKind, StepView
from cleanup_orchestrator.shapes.render import render

#: The action of a plan for a resource, by its reason. For all other reasons it is ``protect``.
_ACTIONS = {Reason.PRESENT: "delete", Reason.KEPT: "keep", Reason.NOT_SELECTED: "keep"}


class Counted(Protocol):
    """Resources of one type in one region, with one reason (``store.plans.Counted``)."""

    @property
    def number(self) -> int:
        """Return the number of the resources."""

    @property
    def size(self) -> int | None:
        """Return the sum of the sizes of the resources; ``None``: that of one or more is not known."""

    @property
    def objects(self) -> int | None:
        """Return the sum of the objects in containers; ``None``: that of one or more is not known."""


#: By region, service and type: the resources that an inventory found, by reason.
Counts = Mapping[tuple[str, str, str], Mapping[Reason, Counted]]


def plan(
    d: DeletionView,
    steps: Sequence[Step],
    counts: Counts,
    until: datetime.datetime,
    href: str,
    limit: int = 0,
) -> dict[str, Any]:
    """Return the plan of a dry run.

    :param d: the dry run
    :param counts: the number and the size of the resources of each (region, service, type), by reason
    :param until: the time until which a cascade can be bound to it
    :param href: its URL
    :param limit: resources that one deletion may delete without an approval; 0: no limit
    """
    unknown, types = plans.gaps(d, steps), planned_types(d, steps, counts)
    return render(
        shapes.Plan,
        d,
        summary=_sentence(d, steps, types, limit),
        created_at=d.finished_at,
        expires_at=until,
        hash=plans.hash_of(steps),
        complete=not unknown,
        unknown=unknown,
        **{action: sum(each[action] for each in types) for action in ("delete", "keep", "protect")},
        order=plans.levels(steps),
        with_project=sorted({s.name for s in steps if s.kind is StepKind.SWEEP and s.project_setting}),
        types=types,
        blockers=blockers_of(d, steps),
        links=self_link(href),
    )


def planned_types(d: DeletionView, steps: Sequence[StepView], counts: Counts) -> list[dict[str, Any]]:
    """Return what an inventory found of each type in each region, by what a cascade would do with it."""
    unknown, types = plans.gaps(d, steps), []
    for s in sorted(steps, key=lambda s: (s.region, s.service, s.type)):
        if s.kind not in (StepKind.SWEEP, StepKind.UNSUPPORTED) or s.project_setting:
            continue
        numbers = {"delete": 0, "keep": 0, "protect": 0}
        counted = counts.get((s.region, s.service, s.type), {})
        for reason, each in counted.items():
            numbers[_ACTIONS.get(reason, "protect")] += each.number
        goes = counted.get(Reason.PRESENT)
        sums = {"size": goes and goes.size, "objects": goes and goes.objects}
        known = f"{s.name.rstrip('.')}@{s.region}" not in unknown and not s.waived
        types.append(render(shapes.PlannedType, s, **numbers, **sums, known=known, waived=bool(s.waived)))
    return types


def summary(d: DeletionView, steps: Sequence[StepView], counts: Counts, limit: int = 0) -> str:
    """Return the sentence that precedes a decision by what a dry run or a report found.

    :param limit: resources that one deletion may delete without an approval; 0: no limit
    """
    return _sentence(d, steps, planned_types(d, steps, counts), limit)


def _sentence(d: DeletionView, steps: Sequence[StepView], types: Sequence[Mapping[str, Any]], limit: int) -> str:
    foreseen = summaries.Foreseen(
        delete=sum(each["delete"] for each in types),
        services=len({each["service"] for each in types if each["delete"]}),
        protect=sum(each["protect"] for each in types),
        unknown=len(plans.gaps(d, steps)),
        blockers=sum(not each.service for each in blockers(d, steps)),
        approval_above=limit if approvals.affected_count(d, steps) > limit else 0,
    )
    return summaries.summary(d, foreseen)


def planned(row: LeftoverRow, blocked_by: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a resource of a plan; for ``blocked_by`` see :func:`leftover`."""
    one = row.leftover
    action = _ACTIONS.get(one.reason, "protect")
    return render(shapes.PlannedResource, one, **place(row), action=action, blocked_by=blocked_by)
