"""Fairness: the first deletion of another domain begins within one turn, however many requests there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cleanup_orchestrator.core.deletion import Status
from tests.simulation.keystone import ELSEWHERES
from tests.simulation.watches.base import Watch

if TYPE_CHECKING:
    from tests.simulation.promises import Promises


class Fairness(Watch):
    """What holds in a plan with a flood of requests."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._waits = False  #: whether the deletion of the other domain has not begun yet
        self._began = 0  #: deletions that began meanwhile

    def moved(self, deletion_id: str, before: str, after: Status) -> None:
        other = self.promises.project[deletion_id] == ELSEWHERES
        if other and not before:
            self._waits = True
        elif before != Status.ACCEPTED or not self._waits:
            return
        elif other:
            self._waits = False
        else:
            self._began += 1
            if self._began > self.plan.places:
                self.promises.fail(f"{self._began} deletions of one domain begin before the first one of another")
