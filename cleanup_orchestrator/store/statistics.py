"""Statistics: numbers over all records, for metrics and alerts."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.step import StepState
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.brake import current_brake
from cleanup_orchestrator.store.database import Repository, database_time
from cleanup_orchestrator.store.liens import count_liens


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of one moment."""

    deletions: Mapping[str, int]  #: by status
    stalled: int
    steps: Mapping[str, int]  #: of live deletions, by state: ``dispatched``, ``running``
    unclaimed: float  #: seconds for which the oldest dispatched step has waited for a worker
    overdue: float  #: seconds since the most overdue deletion should have been decided on
    on_hold: int = 0  #: live deletions that a lien, the brake or a delete window holds
    liens: int = 0  #: in force
    brake: bool = False  #: whether it is on
    blocked: int = 0  #: live deletions that need an action of a person


class Statistics(Repository):
    """Counts records."""

    def figures(self) -> Figures:
        """Return the numbers of this moment, in one attempt: monitoring asks again.

        Except for the count by status, only live deletions are read: the time does not grow with old records.
        """
        live = t.deletions.c.live_project_id.is_not(None)
        of_live = t.steps.join(t.deletions, t.deletions.c.id == t.steps.c.owner_id)
        under_way = live & t.steps.c.state.in_([str(StepState.DISPATCHED), str(StepState.RUNNING)])
        by_state = (
            sa.select(t.steps.c.state, sa.func.count(), sa.func.min(t.steps.c.dispatched_at))
            .select_from(of_live)
            .where(under_way)
            .group_by(t.steps.c.state)
        )
        # The text of the column only reduces the rows: it also names conditions that are over.
        conditions_text = sa.cast(t.deletions.c.conditions, sa.Text)
        counted = (ConditionType.STALLED, ConditionType.ON_HOLD, ConditionType.BLOCKED)
        maybe_counted = sa.or_(*(conditions_text.contains(type_) for type_ in counted))
        with self._database.read() as c:
            now = database_time(c)
            counts = c.execute(sa.select(t.deletions.c.status, sa.func.count()).group_by(t.deletions.c.status)).all()
            conditions = c.execute(sa.select(t.deletions.c.conditions).where(live, maybe_counted)).scalars().all()
            wake_at = c.execute(sa.select(sa.func.min(t.deletions.c.wake_at)).where(live)).scalar()
            liens, brake = count_liens(c, now), current_brake(c)
            states = {state: (count, since) for state, count, since in c.execute(by_state)}
        _, since = states.get(str(StepState.DISPATCHED), (0, None))
        return Figures(
            deletions={str(status): number for status, number in counts},
            stalled=_with_condition(conditions, ConditionType.STALLED),
            steps={state: count for state, (count, _) in states.items()},
            unclaimed=_age(since, now),
            overdue=_age(wake_at, now),
            on_hold=_with_condition(conditions, ConditionType.ON_HOLD),
            liens=liens,
            brake=brake.on,
            blocked=_with_condition(conditions, ConditionType.BLOCKED),
        )


def _age(at: datetime.datetime | None, now: datetime.datetime) -> float:
    """Return the seconds since a time; 0 if there is none or it is in the future."""
    return max(0.0, (now - at).total_seconds()) if at else 0.0


def _with_condition(deletions: Iterable[Iterable[Mapping[str, Any]]], type_: str) -> int:
    """Return how many of these lists of conditions have one of a type that is true."""
    return sum(any(x["type"] == type_ and x["status"] for x in conditions) for conditions in deletions)
