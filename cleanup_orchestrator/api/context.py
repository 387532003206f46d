"""The objects that the handlers work with; ``app.build`` creates them."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from oslo_log import log

from cleanup_orchestrator.api.policies import PolicyEnforcer
from cleanup_orchestrator.cloud.catalog import CatalogEntryStatus
from cleanup_orchestrator.cloud.projects import Projects, Protection
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.orphan_scan import OrphanScan
from cleanup_orchestrator.core.request_limits import UNLIMITED, RequestLimits
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.evidence.signing import Signer
from cleanup_orchestrator.store import Store

LOG = log.getLogger(__name__)


class EngineCaster(Protocol):
    """The messages of the API to engines and workers (``rpc.Caster``)."""

    def decide(self, id_: str) -> None:
        """Have an engine decide on a deletion or an orphan scan."""

    def force(self, id_: str) -> Mapping[str, str] | None:
        """Ask a worker which resource types may be forced.

        :returns: for each type, the reason why it cannot be forced now, or an empty text; ``None``: no worker answers
        """


#: A checked query: the values of each parameter.
Query = Mapping[str, list[str]]
#: A checked body.
Body = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ReportSettings:
    """What each report has."""

    signer: Signer | None = None  #: ``None``: reports are unsigned
    remains: str = ""  #: what the operator says about what stays outside of the APIs


@dataclasses.dataclass(frozen=True, slots=True)
class ApiContext:
    """The objects that the handlers work with."""

    store: Store
    projects: Projects
    catalog_status: Callable[
        [Iterable[Waiver]], Iterable[CatalogEntryStatus]
    ]  #: returns the status of each catalog entry
    types: Mapping[str, tuple[str, ...]]  #: the resource types of each service that has a plugin
    engine: EngineCaster
    enforcer: PolicyEnforcer
    rules: Rules
    protection: Callable[[], Protection]  #: reads the configuration at each call
    scan: Callable[..., OrphanScan]  #: creates an orphan scan from the configuration and further fields
    max_limit: int
    waiver_limit: datetime.timedelta  #: the longest time from the creation of a waiver to its end
    plan_max_age: datetime.timedelta  #: the oldest plan that a cascade can be bound to
    max_subtree: int  #: the most projects below the one of a request with ``include_subtree``
    max_delay: datetime.timedelta = datetime.timedelta(366)  #: the longest time from a request to its date
    required: tuple[str, ...] = ()  #: the fields that a request must have, unless it is a dry run
    #: By ``service.type``: the types with the same resources in another state or place.
    variants: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    limits: RequestLimits = UNLIMITED  #: for users who are no admins of the cloud
    report: ReportSettings = ReportSettings()


def tell_engine(cast: Callable[[str], None], id_: str) -> None:
    """Have an engine process a record; log errors of the bus.

    The record is written, and the tick of an engine finds it. Therefore an error of the bus does not fail the request.

    :param cast: the method of :class:`EngineCaster` for this kind of record
    """
    try:
        cast(id_)
    except Exception as error:
        LOG.warning(
            "no cast to the engine; its next tick processes the record: %s: %s", error.__class__.__name__, error
        )
