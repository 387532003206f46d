"""Whose the network of replicated routers is: Neutron gives it no project, and any user may give its name to one."""

import types

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource
from cleanup_orchestrator.plugins.network import replicated
from tests.unit.answers import connection

X, Y = "a" * 32, "b" * 32
PROJECT = ProjectDefinition(X, "X", "default", "RegionOne")


def row(id_, name=f"HA network tenant {X}", project_id="", **more):
    return {"id": id_, "name": name, "project_id": project_id, "tenant_id": project_id, "shared": False, **more}


ROWS = {
    "own": (row("own"), X),
    "without the attribute": ({"id": "n", "name": f"HA network tenant {X}"}, X),
    "of another project": (row("other", f"HA network tenant {Y}"), Y),
    "a user's": (row("fake", project_id=Y), ""),
    "the project's own": (row("mine", project_id=X), ""),
    "shared": (row("shared", shared=True), ""),
    "external": (row("external", **{"router:external": True}), ""),
    "a longer name": (row("long", f"HA network tenant {X} 2"), ""),
    "another name": (row("plain", "net"), ""),
    "no id": (row("none", "HA network tenant "), ""),
    "no name": (row("nameless", None), ""),
    "a newline": (row("line", f"HA network tenant {X}\n"), ""),
}


@pytest.mark.parametrize("what", ROWS)
def test_the_project_of_a_network_is_that_of_its_name_if_it_has_none(what):
    network, project_id = ROWS[what]
    assert replicated.project_of(network) == project_id


def neutron(*rows):
    return connection(network=lambda method, path, query, body: (200, {"networks": list(rows)}))


def test_the_projects_own_are_listed_and_those_of_all_with_their_project():
    """The service may ignore the filter by name."""
    everything = neutron(*(network for network, _ in ROWS.values()))
    found = list(replicated.list_ha_networks(everything, PROJECT))
    assert [(each["id"], each["project_id"]) for each in found] == [("own", X), ("n", X)]
    found = list(replicated.list_all_ha_networks(everything, PROJECT))
    assert [(each["id"], each["project_id"]) for each in found] == [("own", X), ("n", X), ("other", Y)]


@pytest.mark.parametrize(
    ("now", "owner"),
    [
        (row("own"), X),
        (row("own", project_id=Y), Y),
        (row("own", f"HA network tenant {Y}"), Y),
        (row("own", "net"), ""),
    ],
)
def test_the_owner_is_read_again(now, owner):
    class Network:
        def get_network(self, _id):
            return now

    where = connection()
    where.network = Network()
    assert replicated.show_ha_network(where, PROJECT, Resource("own", "", X))["project_id"] == owner


def test_it_is_deleted_after_the_routers_and_never_holds_up_a_project():
    (type_,) = replicated.REPLICATED
    assert type_.after == ("router",) and type_.project_setting


def test_the_ports_that_keep_it_are_named():
    port = {"id": "p", "network_id": "own", "device_id": "r", "tenant_id": "", "device_owner": "network:router_ha"}
    where = connection()
    where.network = types.SimpleNamespace(ports=lambda **_: iter([port, {**port, "network_id": "n"}]))
    verdict = replicated.explain_ha_network(where, PROJECT, Resource("own", "", X))
    assert verdict.reason is Reason.IN_USE
    assert verdict.blocked_by == ({"type": "network.port", "id": "p", "owner": "", "name": "of router r"},)
