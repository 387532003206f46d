"""Ironic: instances, allocations, leases and runbooks are deleted; no node, and nothing of another project, is."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.baremetal import SERVICE
from tests.cloud.common import (  # noqa: F401
    Case,
    ids,
    reasons,
    test_an_inventory_finds_everything_and_changes_nothing,
    test_every_page_is_read,
)
from tests.cloud.filler import fill
from tests.cloud.fillings import baremetal
from tests.cloud.fillings.baremetal import RUNBOOK as STEPS
from tests.cloud.fillings.baremetal import ironic, operator, until
from tests.cloud.fillings.base import Filling
from tests.cloud.orchestrator import JANITOR
from tests.support import sweeps

CLOUD = ("ironic",)
OPTIONS = JANITOR
INSTANCE, ALLOCATION, LEASE, NODE, RUNBOOK = SERVICE.types
CASE = Case(
    SERVICE,
    rows={"ironic.nodes": 5, "ironic.allocations": 3, "ironic.runbooks": 1},  # three leased nodes and two owned ones
    found={"instance": 1, "allocation": 3, "lease": 3, "node": 2, "runbook": 1},
)
HARDWARE = {"ironic.nodes": 2}
each_type = pytest.mark.parametrize("type_", SERVICE.types, ids=lambda type_: type_.name)


def fill_some(admin, name, *kinds):
    """Return a project with some kinds of resources only."""
    filled = fill(admin, f"baremetal-{name}", only=[])
    filling = Filling(admin, filled, 0, 0)
    for kind in kinds:
        kind(filling)
    return filled


@pytest.fixture
def admin(further_admin):
    """Ironic with a token of the system."""
    return ironic(operator(further_admin))


@contextlib.contextmanager
def stock_policy(sweeper):
    """Ironic with its own defaults alone. It reads a changed file at the next request."""
    path = sweeper.cloud.site.home("ironic") / "policy.yaml"
    text = path.read_text()
    path.write_text("{}\n")
    try:
        yield
    finally:
        path.write_text(text)


def undeploy(sweeper, filled):
    """Delete the instances, and wait until Ironic has undeployed them."""
    alone = dataclasses.replace(SERVICE, types=(INSTANCE,))
    first = sweeper.delete(alone, filled)["instance"]
    until("undeployed node", lambda: sweeper.inventory(alone, filled)["instance"].outcome is Outcome.CLEAR)
    return first


def node(rest, uuid):
    return rest.call("GET", f"/nodes/{uuid}")


def test_a_list_without_child_nodes_is_not_complete(projects, further_sweeper):
    """So the plugin must ask for them."""
    target, _ = projects
    query = {key: value for key, value in NODE.list.query.items() if key != "include_children"}
    without = dataclasses.replace(NODE, list=dataclasses.replace(NODE.list, query=query))
    parent, _child = target.ids["node"]
    assert ids(CASE.found_by(further_sweeper, target, without)) == {parent}


@each_type
def test_an_admin_of_another_project_never_sees_an_empty_project(type_, projects, further_sweeper):
    """Neither with the role service does Ironic show all projects by default."""
    target, _ = projects
    definition = further_sweeper.definition(SERVICE, target)
    for seen in (type_.for_missing_project(gone=True), type_.all_projects_view()):
        found = sweeps.inventory(seen, further_sweeper.connection(), definition)
        assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


def test_without_its_filter_and_proof_such_a_list_would_be_empty(projects, further_sweeper):
    target, _ = projects
    for type_, attribute in ((NODE, "owner"), (LEASE, "lessee"), (RUNBOOK, "owner")):
        query = {**type_.list.query, attribute: target.project_id} if type_ is not RUNBOOK else type_.list.query
        query = {key: value for key, value in query.items() if key != "project"}
        listing = dataclasses.replace(type_.list, query=query)
        careless = dataclasses.replace(type_.for_missing_project(gone=True), list=listing, proof=None)
        found = sweeps.inventory(careless, further_sweeper.connection(), further_sweeper.definition(SERVICE, target))
        assert found.outcome is Outcome.CLEAR


@each_type
def test_a_token_of_the_system_sees_everything(type_, projects, further_sweeper):
    target, _ = projects
    definition = further_sweeper.definition(SERVICE, target)
    for seen in (type_.for_missing_project(gone=True), type_.all_projects_view()):
        assert ids(sweeps.inventory(seen, further_sweeper.system_scoped(), definition)) == set(target.ids[type_.name])


# --------------------------------------------------------------------------------------------------------------- delete
def test_everything_but_hardware_is_deleted_and_the_neighbour_keeps_all(
    further_admin, projects, further_sweeper, admin
):
    _, neighbour = projects
    filled = fill(further_admin, "baremetal-all", only=["baremetal"])
    assert CASE.alive(further_sweeper, filled) == CASE.rows
    theirs = further_sweeper.dump_of(neighbour.project_id)
    assert undeploy(further_sweeper, filled).found == 1
    swept = further_sweeper.delete(SERVICE, filled)
    assert {
        name: (swept[name].outcome, swept[name].found) for name in ("instance", "allocation", "lease", "runbook")
    } == {
        "instance": (Outcome.CLEAR, 0),
        "allocation": (Outcome.CLEAR, 2),  # the third one was deleted with the instance
        "lease": (Outcome.CLEAR, 3),
        "runbook": (Outcome.CLEAR, 1),
    }
    assert reasons(swept["node"]) == dict.fromkeys(filled.ids["node"], Reason.PROTECTED)
    assert CASE.alive(further_sweeper, filled) == HARDWARE
    assert CASE.alive(further_sweeper, neighbour) == CASE.rows
    assert further_sweeper.dump_of(neighbour.project_id) == theirs
    for uuid in filled.ids["lease"]:
        row = node(admin, uuid)
        assert (row["provision_state"], row["lessee"], row["instance_uuid"]) == ("available", None, None)
    for uuid in filled.ids["node"]:
        admin.call("PATCH", f"/nodes/{uuid}", [{"op": "remove", "path": "/owner"}])
    assert further_sweeper.delete(SERVICE, filled)["node"].outcome is Outcome.CLEAR
    assert CASE.alive(further_sweeper, filled) == {}


def test_by_default_ironic_leaves_instances_and_leases_to_an_admin(projects, further_sweeper, admin):
    target, _ = projects
    further_sweeper.enter(target)
    further_sweeper.janitor(target.project_id)
    before = further_sweeper.dump("ironic")
    types = dataclasses.replace(
        SERVICE, types=(INSTANCE, dataclasses.replace(LEASE, after=("instance",), needed_by=()))
    )
    with stock_policy(further_sweeper):
        swept = further_sweeper.delete(types, target)
    assert further_sweeper.dump("ironic") == before
    deployed, free = target.first("instance"), target.first("free node")
    assert reasons(swept["instance"]) == {deployed: Reason.FORBIDDEN}
    assert reasons(swept["lease"])[free] is Reason.FORBIDDEN
    assert reasons(swept["lease"])[deployed] is Reason.IN_USE
    said = {left.id: left.message for result in swept.values() for left in result.leftovers if left.id != deployed}
    assert f"openstack baremetal node unset {free} --lessee" in said[free]
    assert f"openstack baremetal node undeploy {deployed}" in swept["instance"].leftovers[0].message


def test_a_manager_undeploys_with_the_defaults_of_ironic(further_admin, further_sweeper, admin):
    """So the operator may give the janitor this role in place of another policy."""
    filled = fill_some(further_admin, "managed", baremetal.leases)
    further_sweeper.enter(filled)
    connection = further_sweeper.janitor(filled.project_id)
    further_sweeper.cloud.admin.ensure_role(filled.project_id, connection.current_user_id, "manager")
    with stock_policy(further_sweeper):
        swept = CASE.deleted_by(further_sweeper, filled, INSTANCE)
    assert set(reasons(swept).values()) <= {Reason.DELETING}
    until("undeployed node", lambda: node(admin, filled.first("instance"))["provision_state"] == "available")


# ------------------------------------------------------------------------------------ what Ironic would let happen
def test_a_lease_is_not_ended_under_an_instance(further_admin, further_sweeper, admin):
    """Ironic would end it: the instance would keep running, and no project would see it."""
    filled = fill_some(further_admin, "running", baremetal.leases)
    deployed = filled.first("instance")
    swept = CASE.deleted_by(further_sweeper, filled, LEASE)
    assert reasons(swept) == {deployed: Reason.IN_USE}
    assert node(admin, deployed)["lessee"] == filled.project_id
    admin.call("PATCH", f"/nodes/{deployed}", [{"op": "remove", "path": "/lessee"}])
    assert node(admin, deployed)["provision_state"] == "active", "Ironic has done it"


def test_an_allocation_is_not_deleted_under_an_instance_on_a_node_in_maintenance(further_admin, further_sweeper, admin):
    filled = fill_some(further_admin, "maintained", baremetal.leases)
    deployed = filled.first("instance")
    running = filled.first("allocation", 1)
    admin.call("PUT", f"/nodes/{deployed}/maintenance", {"reason": "a test"})
    swept = CASE.deleted_by(further_sweeper, filled, ALLOCATION)
    assert reasons(swept) == {running: Reason.IN_USE}
    assert [(each["type"], each["id"]) for each in swept.leftovers[0].blocked_by] == [("baremetal.instance", deployed)]
    admin.call("DELETE", f"/allocations/{running}")
    assert node(admin, deployed)["provision_state"] == "active", "Ironic has deleted it"


def test_an_allocation_whose_node_is_hidden_is_left_to_an_admin(further_admin, further_sweeper, admin):
    filled = fill_some(further_admin, "hidden", baremetal.leases)
    deployed, running = filled.first("instance"), filled.first("allocation", 1)
    admin.call("PATCH", f"/nodes/{deployed}", [{"op": "remove", "path": "/lessee"}])
    swept = CASE.deleted_by(further_sweeper, filled, ALLOCATION)
    assert reasons(swept) == {running: Reason.PROTECTED}
    assert node(admin, deployed)["allocation_uuid"] == running


@pytest.mark.parametrize("allocated", [True, False], ids=["with its allocation", "without an allocation"])
def test_an_instance_of_the_owner_of_a_leased_node_is_left(allocated, further_admin, further_sweeper, admin):
    """Ironic lets the lessee undeploy it, and deletes the owner's allocation."""
    suffix = "allocated" if allocated else "bare"
    owner, lessee = (fill_some(further_admin, f"{name}-{suffix}") for name in ("owner", "lessee"))
    uuid = baremetal.make_node(further_admin, f"lent-{suffix}", owner=owner.project_id, lessee=lessee.project_id)
    allocation = baremetal.allocate(owner.connection, f"theirs-{suffix}", uuid) if allocated else None
    baremetal.deploy(further_admin, uuid)
    before = further_sweeper.dump_of(owner.project_id)
    swept = further_sweeper.delete(SERVICE, lessee)
    assert reasons(swept["instance"]) == {uuid: Reason.FOREIGN}
    assert owner.project_name not in swept["instance"].leftovers[0].message
    assert reasons(swept["lease"]) == {uuid: Reason.IN_USE}
    assert further_sweeper.dump_of(owner.project_id) == before
    connection = further_sweeper.connection(lessee.project_id)
    plan = sweeps.inventory(INSTANCE, connection, further_sweeper.definition(SERVICE, lessee), foresee=True)
    assert reasons(plan) == {uuid: Reason.FOREIGN}
    careless = dataclasses.replace(INSTANCE, used_by=())
    CASE.deleted_by(further_sweeper, lessee, careless)
    until("undeployed node", lambda: node(admin, uuid)["provision_state"] == "available")
    if allocation:
        assert admin.call("GET", f"/allocations/{allocation}", ok={404}) == {}, "Ironic has deleted it"


def test_public_runbooks_are_left_to_an_admin(further_admin, further_sweeper, admin):
    """A public runbook may have an owner. One of another project, or of none, is listed, too, and ignored."""
    filled = fill_some(further_admin, "public")
    owned, other = (
        admin.call("POST", "/runbooks", {"name": name, "public": True, "steps": STEPS, **attributes})["uuid"]
        for name, attributes in (("CUSTOM_OWNED", {"owner": filled.project_id}), ("CUSTOM_FREE", {}))
    )
    swept = further_sweeper.delete(SERVICE, filled)["runbook"]
    assert reasons(swept) == {owned: Reason.PROTECTED}
    admin.call("DELETE", f"/runbooks/{owned}")
    assert further_sweeper.delete(SERVICE, filled)["runbook"].outcome is Outcome.CLEAR
    assert admin.call("GET", f"/runbooks/{other}")["public"]
    admin.call("DELETE", f"/runbooks/{other}")


# ----------------------------------------------------------------------------------------------- a project that is gone
def test_a_project_that_keystone_has_deleted(further_admin, further_sweeper, admin):
    """With a token that sees all, the instance alone is left: there is no janitor any more."""
    filled = fill(further_admin, "baremetal-orphan", only=["baremetal"])
    further_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    definition = dataclasses.replace(further_sweeper.definition(SERVICE, filled), gone=True)
    deployed = filled.first("instance")

    def swept(type_, connection):
        return sweeps.delete(type_.for_missing_project(gone=True), connection, definition)

    blind = {type_.name: swept(type_, further_sweeper.connection(write=True)) for type_ in SERVICE.types}
    assert {result.outcome for result in blind.values()} == {Outcome.UNKNOWN}
    assert CASE.alive(further_sweeper, filled) == CASE.rows
    seeing = {type_.name: swept(type_, further_sweeper.system_scoped()) for type_ in SERVICE.types}
    assert {name: set(reasons(result).values()) for name, result in seeing.items()} == {
        "instance": {Reason.PROJECT_GONE},
        "allocation": {Reason.IN_USE},
        "lease": {Reason.IN_USE},
        "node": {Reason.PROTECTED},
        "runbook": set(),
    }
    assert CASE.alive(further_sweeper, filled) == {"ironic.nodes": 3, "ironic.allocations": 1}
    baremetal.provision(admin, deployed, "deleted", "available")
    assert swept(LEASE, further_sweeper.system_scoped()).outcome is Outcome.CLEAR
    assert CASE.alive(further_sweeper, filled) == HARDWARE


# ---------------------------------------------------------------------------------------------------------- the whole


def test_the_orchestrator_deletes_the_project_once_an_admin_has_taken_its_nodes(
    projects, orchestrator, further_admin, further_sweeper, admin
):
    _, neighbour = projects
    filled = fill(further_admin, "baremetal-whole", only=["baremetal"])
    theirs = further_sweeper.dump_of(neighbour.project_id)
    orchestrator.run(filled.project_id, Mode.REPORT, Status.LEFTOVERS)
    assert CASE.alive(further_sweeper, filled) == CASE.rows
    deletion = orchestrator.request(filled.project_id, Mode.CASCADE)
    orchestrator.wait(deletion, until=lambda _: CASE.alive(further_sweeper, filled) == HARDWARE, seconds=120)
    orchestrator.tried_again(deletion, "baremetal.node")
    assert orchestrator.blockers(deletion) == {"baremetal.node": Reason.PROTECTED}
    for uuid in filled.ids["node"]:
        admin.call("PATCH", f"/nodes/{uuid}", [{"op": "remove", "path": "/owner"}])
    orchestrator.wait(deletion, Status.DELETED)
    assert CASE.alive(further_sweeper, filled) == {}
    assert further_sweeper.dump_of(neighbour.project_id) == theirs
    assert {"baremetal.lease: 3 gone", "baremetal.runbook: 1 gone"} <= {*orchestrator.deleted(deletion)}
