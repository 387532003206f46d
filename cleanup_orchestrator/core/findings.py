"""What a step found out about its deletion as a whole, as typed facts.

A step returns facts in ``StepResult.learned``. ``results.record`` alone turns them into changes of the deletion.
"""

from __future__ import annotations

import dataclasses
import datetime

from cleanup_orchestrator.core.holds import Waiver


@dataclasses.dataclass(frozen=True, slots=True)
class Surveyed:
    """The survey is complete and relies on these waivers."""

    waivers: tuple[Waiver, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectSeen:
    """Keystone knows the project, under this name, with these members."""

    name: str
    domain_id: str
    member_ids: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectGone:
    """Keystone does not know the project, and the orchestrator did not delete it.

    Empty inventories from before count only if the project was locked. Without a lock (driver ``none``) a member could
    create a resource after the last of them, until the project was gone.
    """

    at: datetime.datetime  #: UTC; when the step found it out
    locked: bool  #: whether the project was drained or closed when the step began


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectReturned:
    """Keystone knows the project again.

    Every conclusion drawn without the project is void.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectLocked:
    """The drain driver locked the project, or found it locked."""

    evidence: str  #: see ``Deletion.lock_evidence``


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectReopened:
    """The lock on the project is gone: every inventory that rests on the lock is void."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectReclosed:
    """The project is closed, and a user had access until then.

    Only later inventories count.
    """

    at: datetime.datetime  #: UTC; when the project was closed


@dataclasses.dataclass(frozen=True, slots=True)
class InventoryOutdated:
    """The project is in use, and its inventories are too old: it is proven empty again before it is disabled."""


@dataclasses.dataclass(frozen=True, slots=True)
class RemovalStopped:
    """The project must not be removed yet.

    The round ends, and the project is proven empty again.
    """


Finding = (
    Surveyed
    | ProjectSeen
    | ProjectGone
    | ProjectReturned
    | ProjectLocked
    | ProjectReopened
    | ProjectReclosed
    | InventoryOutdated
    | RemovalStopped
)
