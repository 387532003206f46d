"""Ironic: an instance that Nova manages, or that may be another project's, is not undeployed."""

import dataclasses
import types

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins import baremetal
from cleanup_orchestrator.plugins.baremetal import SERVICE
from cleanup_orchestrator.plugins.base import Resource
from tests.support import sweeps
from tests.unit.answers import connection, project

INSTANCE, ALLOCATION, LEASE, NODE, RUNBOOK = SERVICE.types
MISSING = (404, {"error_message": "not found"})
FORBIDDEN = (403, {"error_message": "denied"})


def node(**row):
    return {"uuid": "n", "name": "metal", "owner": None, "lessee": "p", "provision_state": "active",
            "instance_uuid": "i", "allocation_uuid": None, **row}  # fmt: skip


class Cloud:
    """Ironic with one node, and Nova if it is given the answers for the list and for the server."""

    def __init__(self, row, allocation=MISSING, nova=None):
        self.row, self.allocation, self.nova = row, allocation, nova
        self.made = connection("p", baremetal=self.ironic, compute=self.servers)
        found = {"compute": [{}] if nova else []}
        catalog = types.SimpleNamespace(get_endpoints=lambda **_: found)
        access = types.SimpleNamespace(service_catalog=catalog)
        self.made.session.auth = types.SimpleNamespace(get_access=lambda _: access)

    def ironic(self, method, path, query, body):
        if method == "PUT":
            self.row["provision_state"] = "deleting"
            return 202, ""
        if method == "PATCH":
            self.row["lessee"] = None
            return 200, self.row
        if path.startswith("/allocations"):
            return self.allocation
        if path != "/nodes":
            return 200, self.row
        return 200, {"nodes": [] if "marker" in query or not self.row["lessee"] else [self.row]}

    def servers(self, method, path, query, body):
        return self.nova[0] if path == "/servers" else self.nova[1]

    def delete(self, type_=INSTANCE, gone=False, **context):
        definition = dataclasses.replace(project(), gone=gone)
        return sweeps.delete(type_, self.made, definition, janitor=lambda: self.made, **context)


SHOWN = (200, {"servers": []})


def server(owner):
    return 200, {"server": {"id": "i", "tenant_id": owner}}


@pytest.mark.parametrize(
    ("nova", "reason"),
    [
        (None, Reason.DELETING),
        ((SHOWN, (404, {"itemNotFound": {}})), Reason.DELETING),
        ((SHOWN, server("p")), Reason.IN_USE),
        ((SHOWN, server("q")), Reason.FOREIGN),
        ((FORBIDDEN, MISSING), Reason.FORBIDDEN),  # then a 404 does not say that there is no server
        ((SHOWN, (500, {})), Reason.ERROR),
        ((SHOWN, MISSING), Reason.BAD_ANSWER),  # a proxy without a backend
    ],
    ids=["no Nova", "no server", "the project's", "another project's", "Nova does not show all", "Nova fails", "proxy"],
)
def test_nova_is_asked_for_a_server_on_the_node(nova, reason):
    cloud = Cloud(node(), nova=nova)
    (left,) = cloud.delete().leftovers
    assert left.reason is reason
    assert bool(cloud.made.baremetal.writes()) is (reason is Reason.DELETING)


@pytest.mark.parametrize(
    ("row", "allocation", "reason"),
    [
        ({"owner": "q"}, MISSING, Reason.FOREIGN),
        ({"owner": "p"}, MISSING, Reason.DELETING),
        ({"allocation_uuid": "a"}, MISSING, Reason.FOREIGN),  # Ironic hides what is another project's
        ({"allocation_uuid": "a"}, (200, {"uuid": "a", "owner": None}), Reason.FOREIGN),
        ({"allocation_uuid": "a", "owner": "q"}, (200, {"uuid": "a", "owner": "p"}), Reason.DELETING),
        ({"allocation_uuid": "a"}, (503, {}), Reason.ERROR),
    ],
    ids=["its owner's", "the own node", "hidden", "of no project", "with the own allocation", "unknown"],
)
def test_an_instance_is_undeployed_only_if_it_is_the_project_s(row, allocation, reason):
    cloud = Cloud(node(**row), allocation)
    (left,) = cloud.delete().leftovers
    assert left.reason is reason
    assert bool(cloud.made.baremetal.writes()) is (reason is Reason.DELETING)


def test_the_decision_on_its_allocation_is_none_on_its_server():
    """An admin was shown the allocation, and not the server, which another project has on the node."""
    cloud = Cloud(node(allocation_uuid="a"), nova=(SHOWN, server("q")))
    decided = {"baremetal.instance:n": frozenset({("baremetal.allocation", "a")})}
    (left,) = cloud.delete(name="baremetal.instance", decided_uses=decided).leftovers
    assert (left.reason, [one["type"] for one in left.blocked_by]) == (Reason.FOREIGN, ["compute.server"])
    assert cloud.made.baremetal.writes() == []


@pytest.mark.parametrize(
    "answer", [(200, {}), (204, ""), (200, {"error": "busy"}), (200, node(uuid="another"))], ids=str
)
def test_an_answer_without_the_node_does_not_say_that_no_other_project_uses_it(answer):
    cloud = Cloud(node(allocation_uuid="a"))
    ironic, shows = cloud.ironic, []

    def odd(method, path, query, body):
        if method == "GET" and path == "/nodes/n":
            shows.append(path)
            return answer if len(shows) < 4 else (200, cloud.row)
        return ironic(method, path, query, body)

    cloud.made.baremetal.answer = odd
    (left,) = cloud.delete().leftovers
    assert (left.reason, cloud.made.baremetal.writes()) == (Reason.BAD_ANSWER, [])


def test_an_instance_that_is_being_undeployed_is_not_asked_for_again():
    cloud = Cloud(node(provision_state="deleting"))
    (left,) = cloud.delete().leftovers
    assert left.reason is Reason.DELETING and cloud.made.baremetal.writes() == []


def test_without_a_project_no_instance_is_undeployed():
    cloud = Cloud(node())
    (left,) = cloud.delete(gone=True).leftovers
    assert left.reason is Reason.PROJECT_GONE and cloud.made.baremetal.writes() == []


@pytest.mark.parametrize("state", ["cleaning", "clean wait", "deleting"])
def test_a_lease_ends_after_the_cleaning(state):
    cloud = Cloud(node(provision_state=state, instance_uuid=None))
    (left,) = cloud.delete(LEASE).leftovers
    assert left.reason is Reason.DELETING and cloud.made.baremetal.writes() == []
    cloud.row["provision_state"] = "available"
    assert cloud.delete(LEASE).outcome is Outcome.CLEAR


@pytest.mark.parametrize("state", ["active", "deploy failed", "rescue", "service wait", "error", "a new state", None])
def test_any_other_state_counts_as_an_instance(state):
    cloud = Cloud(node(provision_state=state))
    (left,) = cloud.delete(LEASE).leftovers
    assert left.reason is Reason.IN_USE and cloud.made.baremetal.writes() == []
    assert sweeps.inventory(INSTANCE, cloud.made, project()).found == 1


def test_the_state_is_read_right_before_a_lease_is_ended():
    """The node may have been deployed since it was listed."""
    cloud = Cloud(node(provision_state="available"))
    listed = dict(cloud.row)
    stale = dataclasses.replace(LEASE, list=lambda connection, project: [listed])
    cloud.row["provision_state"] = "active"
    (left,) = cloud.delete(stale).leftovers
    assert left.reason is Reason.IN_USE and cloud.made.baremetal.writes() == []


@pytest.mark.parametrize(("newest", "known"), [((1, 91), False), ((1, 92), True), ((1, 115), True)])
def test_an_old_ironic_has_no_runbooks(newest, known):
    cloud = connection(baremetal=lambda *_: (200, {}))
    cloud.baremetal.get_endpoint_data = lambda: types.SimpleNamespace(max_microversion=newest)
    assert baremetal._has_runbooks(cloud, project()) is known


@pytest.mark.parametrize(
    ("row", "protected"), [({"public": False}, False), ({"public": True}, True), ({"public": None}, True), ({}, True)]
)
def test_a_runbook_is_protected_unless_ironic_says_that_it_is_not_public(row, protected):
    [rule] = RUNBOOK.protect
    assert bool(rule(Resource("r", "one", "p", row), project())) is protected
