"""The base class of watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cleanup_orchestrator.core.deletion import Status
from tests.simulation.cloud import Thing
from tests.support.scheduler import Thread

if TYPE_CHECKING:
    from tests.simulation.promises import Promises


class Watch:
    """Promises about one subject. By default it watches nothing."""

    def __init__(self, promises: Promises) -> None:
        self.promises, self.plan, self.cloud = promises, promises.plan, promises.cloud
        self.keystone, self.simulation = promises.cloud.keystone, promises.simulation

    def moved(self, deletion_id: str, before: str, after: Status) -> None:
        """A deletion was saved in another status; ``before`` is empty for a new one."""

    def told(self, deletion_id: str, type_: str) -> None:
        """A line was written to the journal."""

    def opened(self, deletion_id: str, purpose: str) -> None:
        """The purpose of a deletion's round changed."""

    def finished(self, thread: Thread) -> None:
        """The result of the step that the thread has claimed was saved."""

    def write(self, thread: Thread, label: str, what: str, thing: Thing | None) -> None:
        """A write is about to take effect."""

    def scanned(self, before: str, after: str) -> None:
        """The status of an orphan scan changed."""

    def confirmed(self, project_id: str, resource_id: str) -> None:
        """A resource was confirmed as an orphan."""

    def at_the_end(self) -> None:
        """Nothing is under way any more."""
