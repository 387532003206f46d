"""Every declared type of every plugin keeps the contract; and the check notices when one does not."""

import dataclasses

import pytest

from cleanup_orchestrator.ordering import EVERYTHING, Cycle
from cleanup_orchestrator.plugins import conformance, registry
from cleanup_orchestrator.plugins.base import ResourceType, Rest, Sdk, Service

INSTALLED = registry.load()
EVERY_TYPE = [(s, t) for s in INSTALLED.services.values() for t in s.types]
GOOD = ResourceType(
    "port",
    list=Sdk("network", "ports", project_id="{project_id}"),
    show=Sdk("network", "get_port", "{id}"),
    delete=Sdk("network", "delete_port", "{id}", ignore_missing=False),
    source="neutron",
)


def service(*types):
    return Service("network", types)


def test_the_five_services_of_the_demo_are_there():
    assert set(INSTALLED.services) == {"identity", "image", "key-manager", "network", "object-store"}


@pytest.mark.parametrize("name", sorted(INSTALLED.services))
def test_every_plugin_keeps_the_contract(name):
    others = [s for n, s in INSTALLED.services.items() if n != name]
    assert conformance.problems(INSTALLED.services[name], *others) == []


@pytest.mark.parametrize(("owner", "type_"), EVERY_TYPE, ids=[f"{s.service_type}.{t.name}" for s, t in EVERY_TYPE])
def test_every_type_says_how_its_owner_is_known(owner, type_):
    assert type_.owner
    assert type_.source
    if type_.delete is not None and not type_.dragged_by:
        assert type_.show is not None or type_.fresh


def test_the_order_over_all_plugins_is_without_cycle_and_identity_comes_last():
    ordinary = [n for n in INSTALLED.order if not INSTALLED.find(*n.split(".")).residue]
    last = {n for n in ordinary if EVERYTHING in INSTALLED.find(*n.split(".")).after}
    assert last >= {"identity.application_credential", "identity.credential", "identity.trust"}
    assert max(ordinary.index(n) for n in ordinary if n not in last) < min(ordinary.index(n) for n in last)


def test_a_good_type_has_no_problem():
    assert conformance.problems(service(GOOD)) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"list": Sdk("network", "portz", project_id="{project_id}")}, "has no call portz"),
        ({"list": Sdk("netwurk", "ports", project_id="{project_id}")}, "has no proxy netwurk"),
        ({"list": Sdk("network", "ports")}, "no owner filter"),
        ({"list": Rest("network", "/ports", query={"project_id": "{project_id}"})}, "under which key"),
        ({"list": Rest("network", "/ports", "ports", query={"project_id": "{project_id}"}, paging="x")}, "paging"),
        ({"show": Sdk("network", "get_port")}, "missing a required argument"),
        ({"delete": Sdk("network", "delete_port", "{id}", whatever=1)}, "unexpected keyword"),
        ({"delete": Rest("network", "/ports", method="DELETE")}, "by its id"),
        ({"show": None}, "without being read again"),
        ({"owner": ""}, "owner"),
        ({"source": ""}, "source"),
        ({"after": ("prot",)}, "network.prot, which nobody declares"),
        ({"after": ("no-such-service.thing",)}, "which nobody declares"),
        ({"after": ("port",)}, "cycle"),
        ({"dragged_by": ("nothing",)}, "dragged by network.nothing"),
        ({"name": "Port"}, "lower case"),
        ({"delete": lambda *_: None}, "no lambdas"),
    ],
)
def test_what_breaks_the_contract_is_named(change, problem):
    found = conformance.problems(service(dataclasses.replace(GOOD, **change)))
    assert any(problem in line for line in found), found


def test_a_service_that_is_not_installed_satisfies_an_edge():
    waiting = dataclasses.replace(GOOD, after=("compute.server",))
    assert conformance.problems(service(waiting)) == []


def test_two_plugins_for_one_service_are_refused():
    with pytest.raises(registry.InvalidPlugin, match="two plugins"):
        registry.Registry([service(GOOD), service(GOOD)])


def test_a_cycle_over_two_services_is_refused():
    image = Service("image", (dataclasses.replace(GOOD, name="image", after=("network.port",)),))
    port = service(dataclasses.replace(GOOD, after=("image.image",)))
    with pytest.raises(Cycle):
        registry.Registry([image, port])
