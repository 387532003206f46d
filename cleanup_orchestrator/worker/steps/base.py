"""What every step works with, and the base class of all runners."""

from __future__ import annotations

import abc
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.cloud.session import GuardedSession, read_only
from cleanup_orchestrator.core.findings import Finding
from cleanup_orchestrator.core.journal import Change, Event
from cleanup_orchestrator.core.step import Step, StepResult
from cleanup_orchestrator.worker.context import WorkerContext


class TaskContext(abc.ABC):
    """One claimed step with read access to the clouds."""

    def __init__(
        self,
        worker: WorkerContext,
        step: Step,
        withheld: Callable[[], str],
        made: Callable[[GuardedSession], None],
    ) -> None:
        """Create the context of a claimed step.

        :param withheld: returns why the step may no longer write; empty: it may write
        :param made: called with each new session
        """
        self.worker, self.step, self.withheld = worker, step, withheld
        self.store, self.clouds = worker.store, worker.clouds.observed_by(made)
        self.yielded: list[Change] = []  #: recorded changes that a user has undone meanwhile

    def projects(self) -> Projects:
        """Return Keystone's projects, to read them."""
        return Projects(self.clouds.identity(self.clouds.admin_session(read_only)))

    @property
    def project_id(self) -> str:
        """The project that the step is about; empty: it is about no single one."""
        return ""

    @abc.abstractmethod
    def log_context(self) -> AbstractContextManager[None]:
        """Return the logging context of the step."""

    def learned_by_failing(self) -> tuple[Finding, ...]:
        """Return what the failure of a step that changes the project shows of it."""
        return ()

    def events(self, result: StepResult) -> list[Event]:
        """Return the journal lines of a result."""
        return []


class StepRunner(abc.ABC):
    """Does one kind of step.

    An exception is a result, too: the task turns it into ``unknown``.
    """

    #: Whether the step changes the project itself, and fails if Keystone does not know it.
    needs_project: ClassVar[bool] = False

    @abc.abstractmethod
    def __init__(self, context: Any) -> None:
        """Use the context of one claimed step."""

    @abc.abstractmethod
    def run(self) -> StepResult:
        """Do the step and return its result with the facts that it learned."""
