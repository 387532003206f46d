"""What the tasks of one worker share, such as the store and the clouds."""

from __future__ import annotations

import dataclasses
import functools

from oslo_config import cfg

from cleanup_orchestrator import drain as drain_drivers
from cleanup_orchestrator.cloud import protection
from cleanup_orchestrator.cloud.catalog import ServiceCatalog
from cleanup_orchestrator.cloud.connections import Clouds
from cleanup_orchestrator.cloud.projects import Protection
from cleanup_orchestrator.cloud.rate_limiter import RateLimiter
from cleanup_orchestrator.core.guard import HoldOptions
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.messaging.rpc import Bus
from cleanup_orchestrator.monitoring import metrics
from cleanup_orchestrator.plugins.registry import Registry
from cleanup_orchestrator.protocol.discovery import Discovery
from cleanup_orchestrator.store import Store
from cleanup_orchestrator.worker.census import Censuses
from cleanup_orchestrator.worker.sweep.other_projects import OtherProjects


@dataclasses.dataclass
class WorkerContext:
    """What a worker and its tasks are given."""

    conf: cfg.ConfigOpts
    name: str  #: of the worker, for the journal and for claims
    store: Store
    unlimited: Clouds  #: sessions outside the rate limits
    registry: Registry
    catalog: ServiceCatalog
    bus: Bus

    budget: RateLimiter = dataclasses.field(init=False)  #: the worker's share of the rate limits
    clouds: Clouds = dataclasses.field(init=False)  #: the same clouds, in sessions that keep the rate limits
    protocol: Discovery = dataclasses.field(init=False)  #: the services that speak the project resources protocol
    censuses: Censuses = dataclasses.field(default_factory=Censuses)  #: for orphan scans
    others: OtherProjects = dataclasses.field(default_factory=OtherProjects)  #: projects that are not deleted

    def __post_init__(self) -> None:
        """Connect the clouds with the rate limits."""
        self.budget = RateLimiter(self.conf, self.store, metrics.waited)
        self.clouds = self.unlimited.rate_limited(self.budget)
        self.protocol = Discovery(self.conf, self.store, self.clouds, self.registry)

    @property
    def protection(self) -> Protection:
        """Which projects are never deleted, as the configuration says now."""
        return Protection(tuple(self.conf.deletion.never_delete_projects), self.clouds.project_id)

    @property
    def hold_options(self) -> HoldOptions:
        """The options that holds read, as configured now."""
        return protection.hold_options(self.conf)

    @functools.cached_property
    def driver(self) -> drain.Driver:
        """The drain driver that the operator chose.

        :raises CleanupError: it does not load
        """
        return drain_drivers.load(self.conf.drain.driver)
