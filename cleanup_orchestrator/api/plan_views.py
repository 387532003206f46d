"""Converts plans to JSON. Pure functions, as in ``views``."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from cleanup_orchestrator import shapes
from cleanup_orchestrator.api.views import LeftoverRow, blockers_of, place, self_link
from cleanup_orchestrator.core import plans
from cleanup_orchestrator.core.deletion import DeletionView
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Step, StepKind
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


def plan(
    d: DeletionView,
    steps: Sequence[Step],
    counts: Mapping[tuple[str, str, str], Mapping[Reason, Counted]],
    until: datetime.datetime,
    href: str,
) -> dict[str, Any]:
    """Return the plan of a dry run.

    :param d: the dry run
    :param counts: the number and the size of the resources of each (region, service, type), by reason
    :param until: the time until which a cascade can be bound to it
    :param href: its URL
    """
    unknown = plans.gaps(d, steps)
    types = []
    for s in sorted(steps, key=lambda s: (s.region, s.service, s.type)):
        if s.kind not in (StepKind.SWEEP, StepKind.UNSUPPORTED) or s.project_setting:
            continue
        numbers = {"delete": 0, "keep": 0, "protect": 0}
        counted = counts.get((s.region, s.service, s.type), {})
        for reason, each in counted.items():
            numbers[_ACTIONS.get(reason, "protect")] += each.number
        size = counted[Reason.PRESENT].size if Reason.PRESENT in counted else None
        known = f"{s.name.rstrip('.')}@{s.region}" not in unknown and not s.waived
        types.append(render(shapes.PlannedType, s, **numbers, size=size, known=known, waived=bool(s.waived)))
    return render(
        shapes.Plan,
        d,
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


def planned(row: LeftoverRow, blocked_by: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a resource of a plan; for ``blocked_by`` see :func:`leftover`."""
    one = row.leftover
    action = _ACTIONS.get(one.reason, "protect")
    return render(shapes.PlannedResource, one, **place(row), action=action, blocked_by=blocked_by)
