"""Every declared type of every plugin keeps the contract; and the check notices when one does not."""

import dataclasses

import pytest

from cleanup_orchestrator.core.dependencies import EVERYTHING, Cycle
from cleanup_orchestrator.plugins import conformance, registry
from cleanup_orchestrator.plugins.base import (
    CONTRACT_VERSION,
    SCOPED,
    Composition,
    ForcedDelete,
    LastChange,
    Parts,
    ProjectDefinition,
    ResourceType,
    Rest,
    Sdk,
    Service,
    refused_in_use,
)

INSTALLED = registry.load()
EVERY_TYPE = {f"{s.service_type}.{t.name}": t for s in INSTALLED.services.values() for t in s.types}
GOOD = ResourceType(
    "port",
    list=Sdk("network", "ports", project_id="{project_id}"),
    show=Sdk("network", "get_port", "{id}"),
    delete=Sdk("network", "delete_port", "{id}", ignore_missing=False),
    source="neutron",
)


def service(*types):
    return Service("network", types)


def test_the_services_that_come_along_are_there():
    assert set(INSTALLED.services) == {
        "accelerator",
        "alarm",
        "application-container",
        "backup",
        "baremetal",
        "block-storage",
        "compute",
        "container-infrastructure-management",
        "database",
        "dns",
        "identity",
        "image",
        "key-manager",
        "load-balancer",
        "message",
        "metric",
        "network",
        "nfv-orchestration",
        "object-store",
        "orchestration",
        "placement",
        "rating",
        "reservation",
        "shared-file-system",
        "workflow",
    }


def test_every_plugin_keeps_the_contract():
    problems = {
        name: conformance.problems(plugin, *(other for other in INSTALLED.services.values() if other is not plugin))
        for name, plugin in INSTALLED.services.items()
    }
    assert {name: found for name, found in problems.items() if found} == {}


def test_every_type_declares_what_of_other_projects_may_use_it():
    """An empty tuple says that nothing can. The author of a new type has to look."""
    assert [name for name, type_ in EVERY_TYPE.items() if type_.used_by is None] == []


def test_every_type_that_another_one_names_is_declared():
    of = {name: type_.variant_of for name, type_ in EVERY_TYPE.items() if type_.variant_of}
    variants = {name: f"{name.partition('.')[0]}.{other}" for name, other in of.items()}
    parts = {name: each.type for name, type_ in EVERY_TYPE.items() for each in type_.parts or () if each.type}
    assert {name: other for name, other in (*variants.items(), *parts.items()) if other not in EVERY_TYPE} == {}
    assert {"orchestration.failed_stack", "compute.server", "network.router_port"} <= variants.keys() | parts.keys()


def test_the_order_over_all_plugins_is_without_cycle_and_identity_comes_last():
    ordinary = [n for n in INSTALLED.order if not INSTALLED.find(*n.split(".")).project_setting]
    last = {n for n in ordinary if EVERYTHING in INSTALLED.find(*n.split(".")).after}
    assert last >= {"identity.application_credential", "identity.oauth1_access_token", "identity.trust"}
    assert INSTALLED.find("identity", "credential").project_setting  # later still
    assert max(ordinary.index(n) for n in ordinary if n not in last) < min(ordinary.index(n) for n in last)


def test_a_good_type_has_no_problem():
    assert conformance.problems(service(GOOD)) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"list": Sdk("network", "portz", project_id="{project_id}")}, "has no call portz"),
        ({"list": Sdk("netwurk", "ports", project_id="{project_id}")}, "has no proxy netwurk"),
        ({"list": Sdk("network", "ports")}, "no owner filter"),
        ({"list": Sdk("network", "ndp_proxies"), "unfiltered": "no filter"}, "only the first page (paginated=False)"),
        (
            {"list": Rest("network", "/ports", key="ports"), "owner": SCOPED},
            "the rows of all projects would be the project's",
        ),
        ({"list": Rest("network", "/ports", query={"project_id": "{project_id}"})}, "under which key"),
        ({"show": Sdk("network", "get_port")}, "missing a required argument"),
        ({"delete": Sdk("network", "delete_port", "{id}", whatever=1)}, "unexpected keyword"),
        ({"delete": Rest("network", "/ports", method="DELETE")}, "by its id"),
        ({"show": None}, "without being read again"),
        ({"owner": ""}, "owner"),
        ({"source": ""}, "source"),
        ({"after": ("prot",)}, "network.prot, which no plugin declares"),
        ({"after": ("no-such-service.thing",)}, "which no plugin declares"),
        ({"after": ("port",)}, "cycle"),
        ({"needed_by": (("image.image", refused_in_use),)}, "is needed by image.image, which it does not wait for"),
        ({"composition": Composition(deleted_with=("nothing",))}, "is deleted with network.nothing"),
        ({"refers_to": lambda _: ()}, "refers_to: a hook has a name"),
        ({"refers_to": str, "delete": None}, "its order ('refers_to') would never be used"),
        ({"created": "created at"}, "'created' is 'created at', which is no name of an attribute"),
        ({"created": "meta."}, "'created' is 'meta.'"),
        ({"updated": LastChange("changed at"), "parts": ()}, "'updated' is 'changed at', which is no name"),
        ({"updated": LastChange("at")}, "it does not say what is deleted with it ('parts')"),
        ({"updated": LastChange("at"), "project_setting": True, "parts": ()}, "'updated') would never be used"),
        (
            {"created": "at", "parts": (Parts("rule", "rules", updated=LastChange("a b")),)},
            "'a b', which is no name",
        ),
        ({"created": "created_at", "project_setting": True}, "would never be used"),
        ({"created": "created_at"}, "does not say what is deleted with it ('parts')"),
        ({"created": "at", "parts": (Parts("rule", "the rules"),)}, "'the rules', which is no name of an attribute"),
        ({"created": "at", "parts": (Parts("rule", "rules", created="a b"),)}, "'a b', which is no name"),
        ({"created": "at", "parts": (Parts("rule", lambda *_: ()),)}, "parts: a hook has a name"),
        ({"parts": (Parts("rule", "rules"),)}, "'parts' would never be used"),
        ({"size": ("the size", 1)}, "'size' names 'the size', which is no name of an attribute"),
        ({"size": ("size", 0)}, "'size' has a unit of 0 bytes"),
        ({"size": "size"}, "'size' is 'size': name an attribute, and the bytes of one unit"),
        ({"size": ("size", "GiB")}, "'size' is ('size', 'GiB')"),
        ({"name": "Port"}, "lower case"),
        ({"delete": lambda *_: None}, "no lambdas"),
    ],
)
def test_what_breaks_the_contract_is_named(change, problem):
    found = conformance.problems(service(dataclasses.replace(GOOD, **change)))
    assert any(problem in line for line in found), found


@pytest.mark.parametrize("type_", ["no-such-service", "gnocchi"])
def test_a_service_type_that_no_service_is_registered_with_is_named(type_):
    plugin = dataclasses.replace(service(GOOD), service_type=type_)
    assert conformance.problems(plugin) == [f"{type_} is not an official service type of os-service-types"]


@pytest.mark.parametrize("paging", ["none", "links", "pages", "offset", "marker"])
def test_every_paging_that_a_list_can_follow_is_accepted(paging):
    ports = Rest("network", "/ports", key="ports", query={"project_id": "{project_id}"}, paging=paging)
    assert conformance.problems(service(dataclasses.replace(GOOD, list=ports))) == []


def test_an_unknown_paging_is_refused_where_it_is_declared():
    """A list that follows no pages would end after the first one, and look complete."""
    with pytest.raises(ValueError, match=r"unknown paging 'x'.*known are none, links, pages, offset, marker"):
        Rest("network", "/ports", key="ports", paging="x")


@pytest.mark.parametrize("version", [0, CONTRACT_VERSION + 1, "1", None])
def test_a_plugin_of_an_unknown_contract_version_is_refused(version):
    plugin = dataclasses.replace(service(GOOD), contract_version=version)
    expected = rf"network.*written for version {version!r}.*supports version 1 and {CONTRACT_VERSION}"
    with pytest.raises(registry.InvalidPlugin, match=expected):
        registry.Registry([plugin])
    assert any("written for version" in problem for problem in conformance.problems(plugin))


def test_the_services_that_come_along_state_the_current_contract_version():
    assert {plugin.contract_version for plugin in INSTALLED.services.values()} == {CONTRACT_VERSION}


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


def test_a_type_waits_for_what_it_serves_only_if_the_project_is_kept():
    image = Service("image", (dataclasses.replace(GOOD, name="image"),))
    address = dataclasses.replace(GOOD, serves=(("image.image", refused_in_use),))
    both = registry.Registry([image, service(address)])
    assert (both.after(service(address), address), both.needed_by(service(address), address)) == ((), {})
    assert both.after(service(address), address, kept=True) == ("image.image",)
    assert both.needed_by(service(address), address, kept=True) == {"image.image": refused_in_use}
    assert (both.graph()["network.port"], both.graph(kept=True)["network.port"]) == (set(), {"image.image"})


def test_a_cycle_in_a_project_that_is_kept_is_refused_too():
    image = Service("image", (dataclasses.replace(GOOD, name="image", after=("network.port",)),))
    port = service(dataclasses.replace(GOOD, serves=(("image.image", refused_in_use),)))
    with pytest.raises(Cycle):
        registry.Registry([image, port])


def test_what_a_service_waits_for_each_of_its_types_waits_for_but_project_settings_do_not():
    quota = dataclasses.replace(GOOD, name="quota", project_setting=True)
    network = Service("network", (GOOD, quota), after=("image.image",))
    both = registry.Registry([network, INSTALLED.services["image"]])
    assert both.after(network, GOOD) == ("image.image",)
    assert both.after(network, quota) == ()
    assert both.graph()["network.port"] == {"image.image"}


# ------------------------------------------------------------------------------------------------------------- force
def force_it(_connection, _project, _resource):
    """Force it."""


def may_force(_connection, _project):
    """Say whether."""


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"force": ForcedDelete(Sdk("network", "delete_port", "{id}", ignore_missing=False))}, ""),
        ({"force": ForcedDelete(force_it, allowed=may_force)}, ""),
        (
            {"force": ForcedDelete(Sdk("network", "burn_port", "{id}"))},
            "force: openstacksdk's network has no call burn_port",
        ),
        (
            {"force": ForcedDelete(Rest("network", "/v2.0/burn", method="POST"))},
            "does not address a resource by its id",
        ),
        ({"force": ForcedDelete(force_it), "delete": None}, "would never be used"),
        ({"force": ForcedDelete(force_it), "project_setting": True}, "would never be used"),
    ],
)
def test_a_force_that_could_not_work_is_noticed(change, problem):
    found = conformance.problems(service(dataclasses.replace(GOOD, **change)))
    assert (problem in " ".join(found)) if problem else found == []


@pytest.mark.parametrize(
    ("proof", "problem"),
    [
        (Rest("network", "/quotas", key="quotas"), ""),
        (Rest("network", "/quotas", method="POST"), "is no read"),
    ],
)
def test_a_proof_that_could_change_something_is_noticed(proof, problem):
    found = conformance.problems(dataclasses.replace(service(GOOD), proof=proof))
    assert (problem in " ".join(found)) if problem else found == []


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({}, "as an admin, with openstacksdk: network.delete_port('7', ignore_missing=False)"),
        (
            {"delete": Rest("network", "/v2.0/ports/{id}", method="DELETE")},
            "as an admin: DELETE /v2.0/ports/7 (network)",
        ),
        ({"delete": Rest("network", "/a/{row[x]}/{id}", method="DELETE")}, "as an admin, with the calls of: neutron"),
        ({"delete": force_it}, "as an admin, with the calls of: neutron"),
        ({"by_hand": "openstack port delete {id} # of {project_id}"}, "openstack port delete 7 # of p"),
    ],
)
def test_what_is_abandoned_is_left_with_a_remedy(change, remedy):
    project = ProjectDefinition("p", "P", "default", "R1")
    assert dataclasses.replace(GOOD, **change).remedy("7", project) == remedy


def test_every_type_has_a_remedy_for_what_is_abandoned():
    """Also those whose calls are hooks; a template that cannot be filled would lose the result of a sweep."""
    project = ProjectDefinition("p", "P", "default", "R1")
    said = {name: type_.remedy("the-id", project) for name, type_ in EVERY_TYPE.items()}
    assert {name: text for name, text in said.items() if not text.startswith("as an admin")} == {}
