"""What the handlers work with: one object, made by ``app.build`` and handed on. There are no globals."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from oslo_log import log

from cleanup_orchestrator.api.policies import PolicyEnforcer
from cleanup_orchestrator.cloud.projects import Projects, Protection
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.orphan_scan import OrphanScan
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.store import Store

LOG = log.getLogger(__name__)


class EngineCaster(Protocol):
    """What the API says to the engine, and asks a worker (``rpc.Bus``)."""

    def deletion(self, deletion_id: str) -> None:
        """Tell an engine to look at a deletion."""

    def force(self, deletion_id: str) -> Mapping[str, str] | None:
        """Ask a worker on which types force may be used."""

    def orphan_scan(self, scan_id: str) -> None:
        """Tell an engine to look at an orphan scan."""


@dataclasses.dataclass(frozen=True, slots=True)
class ApiContext:
    """The parts of the API."""

    store: Store
    projects: Projects
    answers: Callable[[Iterable[Waiver]], Iterable[Any]]  #: ``coverage.Answer`` of every catalog entry
    engine: EngineCaster
    enforcer: PolicyEnforcer
    rules: Rules
    protection: Callable[[], Protection]  #: as the configuration has it now
    scan: Callable[..., OrphanScan]  #: a fresh orphan scan, by the configuration as it is now, with further fields
    default_limit: int
    max_limit: int
    waiver_limit: datetime.timedelta  #: the longest that a waiver may hold
    plan_max_age: datetime.timedelta  #: a cascade is bound to no older plan
    max_subtree: int  #: the most projects below the one that a request with ``include_subtree`` names


def tell_engine(engine: EngineCaster, deletion_id: str) -> None:
    """Have an engine look at a deletion, as far as the bus takes it.

    The record is written, and the engine's tick finds it: the requester must not think that it failed.
    """
    try:
        engine.deletion(deletion_id)
    except Exception as error:
        LOG.warning("no cast to the engine, its tick takes it up: %s: %s", error.__class__.__name__, error)
