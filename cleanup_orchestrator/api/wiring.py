"""What the handlers work with: one object, made by ``app.build`` and handed on. There are no globals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from cleanup_orchestrator.api.policies import Judge
from cleanup_orchestrator.decide import Rules
from cleanup_orchestrator.projects import Projects, Protection
from cleanup_orchestrator.store import Store


class EngineCaster(Protocol):
    """What the API says to the engine (``rpc.Bus``)."""

    def deletion(self, deletion_id: str) -> None:
        """Tell an engine to look at a deletion."""


@dataclasses.dataclass(frozen=True, slots=True)
class Wiring:
    """The parts of the API."""

    store: Store
    projects: Projects
    answers: Callable[[], Iterable[Any]]  #: ``coverage.Answer`` of every catalog entry
    engine: EngineCaster
    judge: Judge
    rules: Rules
    protection: Callable[[], Protection]  #: as the configuration has it now
    default_limit: int
    max_limit: int
