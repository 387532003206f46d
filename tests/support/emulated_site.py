"""The fixture ``emulated``: the emulated cloud that a file of tests describes in its constant ``CLOUD``."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from cleanup_orchestrator.core.deletion import RoundPurpose, Status
from cleanup_orchestrator.plugins import registry
from tests.emulated import Emulated
from tests.emulated.faults import Fate
from tests.support.timing import wait

if TYPE_CHECKING:  # it imports all processes of the orchestrator, which not every test needs
    from tests.emulated.orchestrator import Orchestrator

#: A cloud of Keystone, Glance and Barbican, for what does not depend on the resource types: a deletion costs processor
#: time for each type in the catalog, and Neutron has as many as all others together.
LEAN = {"projects": 0, "bystanders": 1, "small": True, "fences": True, "without": ("network", "object-store")}


@pytest.fixture
def emulated(request: pytest.FixtureRequest) -> Iterator[Emulated]:
    """An emulated cloud, made with the keyword arguments in ``CLOUD`` of the test's module.

    Two arguments are the fixture's own. ``without`` names services that leave the catalog. ``things`` gives a project
    to delete that has nothing but so many of these types in each region.

    A test that needs another cloud than its module gives the difference with :func:`with_cloud`.

    At the end there must be no defect of the emulation and no write to a project that is not under deletion. A module
    that writes to such projects itself sets ``FOREIGN_WRITES = True``.
    """
    options = {"without": (), "things": {}, **request.module.CLOUD, **getattr(request, "param", {})}
    without, things = options.pop("without"), options.pop("things")
    with Emulated(**options) as made:
        remove_from_catalog(made, *without)
        if things:
            project = made.add_project("doomed")
            made.projects.append(project)
            made.audit.under_deletion.add(project)
            for region, (kind, number) in itertools.product(made.regions, things.items()):
                for _ in range(number):
                    made.state.add(region, kind, project, name=f"{kind} in {region}")
        yield made
        assert made.defects == []
        if not getattr(request.module, "FOREIGN_WRITES", False):
            assert made.audit.foreign_writes() == []


def with_cloud(**difference: Any) -> pytest.MarkDecorator:
    """Return a mark for a test whose cloud differs from that of its module."""
    return pytest.mark.parametrize("emulated", [difference], indirect=True, ids=["-".join(difference)])


def remove_from_catalog(cloud: Emulated, *types: str) -> None:
    """Remove services of these types and their endpoints from Keystone's catalog."""
    services = cloud.state.table("", "identity.service")
    endpoints = cloud.state.table("", "identity.endpoint")
    for service in [row for row in services.rows.values() if row.get("type") in types]:
        for endpoint in [row for row in endpoints.rows.values() if row.get("service_id") == service.id]:
            endpoints.remove(endpoint)
        services.remove(service)


def with_type(name: str, of: registry.Registry | None = None, /, **changes: Any) -> registry.Registry:
    """Return a registry with changed fields of one resource type.

    :param name: such as ``image.image``
    :param of: the registry that is changed; ``None``: that of all plugins
    """
    services = (of or registry.load()).services
    service_type, _, type_name = name.partition(".")
    service = services[service_type]
    types = [dataclasses.replace(each, **changes) if each.name == type_name else each for each in service.types]
    return registry.Registry({**services, service_type: dataclasses.replace(service, types=tuple(types))}.values())


def wait_until_tried(orchestrator: Orchestrator, deletion_id: str, name: str, times: int) -> None:
    """Wait until the deletes of a cascade tried to delete a type more than so many times, and something is left."""

    def tried() -> bool:
        d, steps, _ = orchestrator.store.load(deletion_id)
        found = any(s.name == name and s.remaining and s.round == d.round and s.attempt > times for s in steps)
        return d.status is Status.DELETING and d.purpose is RoundPurpose.DELETE and found

    wait("it is tried in vain", tried, 300)


class DeleteGate:
    """Lets some DELETE calls to the services through and holds up all further ones until it is opened.

    So a deletion is in the midst of its deletes for as long as a test needs it, on a machine of any speed.
    """

    def __init__(self, cloud: Emulated, free: int) -> None:
        self.reached = threading.Event()  #: set when a call waits
        self._opened = threading.Event()
        self._left, self._lock = free, threading.Lock()
        self._fate = cloud.faults.fate
        cloud.faults.fate = self._decide  # type: ignore[method-assign]

    def open(self) -> None:
        """Let all calls through."""
        self._opened.set()

    def _decide(self, service: str, region: str, method: str, target: str, projects: Iterable[str] = ()) -> Fate:
        if method == "DELETE" and service != "identity":
            with self._lock:
                self._left -= 1
                waits = self._left < 0
            if waits:
                self.reached.set()
                self._opened.wait(300)
        return self._fate(service, region, method, target, projects)
