"""The bus: bags of messages that arrive late, twice or never."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tests.support.scheduler import Event, Simulation

if TYPE_CHECKING:
    from cleanup_orchestrator.worker.worker import Worker

#: A message: the method that it calls, and one or more ids.
Message = tuple[str, Sequence[str]]


class Bus:
    """A bag of messages for the engines and one for the workers. Any message that has arrived may be taken next."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._bags: dict[str, list[tuple[float, Message]]] = {"engine": [], "worker": []}
        self.worker: Worker | None = None  #: answers the questions of the API to the workers

    def decide(self, id_: str) -> None:
        self._cast("engine", "decide", id_)

    def steps(self, ids: Sequence[str]) -> None:
        self._cast("worker", "steps", *ids)

    def notification(self, event: str, payload: str, number: str) -> None:
        """Put a notification of Keystone on the bus: it comes at least once."""
        delay = 2.0 * self._simulation.rng.random()
        self._bags["engine"].append((self._simulation.now + delay, ("notification", (event, payload, number))))

    def force(self, deletion_id: str) -> Mapping[str, str] | None:
        return self.worker.force(deletion_id) if self.worker is not None else None

    def _cast(self, part: str, method: str, *ids: str) -> None:
        simulation = self._simulation
        fault = simulation.point("cast", f"{part} {method} {' '.join(ids)}")
        kind = fault.kind if fault is not None else ""
        if kind == "drop":
            return
        delay = 120.0 * fault.size if kind == "late" else 0.05 * simulation.rng.random()
        self._bags[part].append((simulation.now + delay, (method, ids)))
        if kind == "twice":
            self._bags[part].append((simulation.now + 120.0 * fault.size, (method, ids)))

    def take(self, part: str) -> Message:
        """Wait for a message."""
        simulation = self._simulation
        bag = self._bags[part]
        waiting = _Arrival(bag, simulation)
        while True:
            there = [entry for entry in bag if entry[0] <= simulation.now]
            if there:
                entry = there[int(simulation.rng.random() * len(there))]
                bag.remove(entry)
                return entry[1]
            simulation.wait(waiting, None)

    @property
    def empty(self) -> bool:
        return not any(self._bags.values())


class _Arrival(Event):
    """Set when a message is there."""

    def __init__(self, bag: list[tuple[float, Message]], simulation: Simulation) -> None:
        super().__init__()
        self._bag, self._simulation = bag, simulation

    def is_set(self) -> bool:
        return any(arrives <= self._simulation.now for arrives, _ in self._bag)

    def next_at(self) -> float:
        return min((arrives for arrives, _ in self._bag), default=math.inf)
