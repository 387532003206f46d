"""Nova: every server of the project is deleted in every state, and nothing of other projects."""

from __future__ import annotations

import dataclasses
import time

import pytest

from cleanup_orchestrator.core.plans import EMPTY_DIGEST
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.plugins import compute as plugin
from cleanup_orchestrator.plugins.compute import SERVICE
from tests.cloud.fillings.base import Rest
from tests.cloud.fillings.compute import await_server, compute, make_server
from tests.support import sweeps

PATIENCE = 600.0
TYPES = {type_.name: type_ for type_ in SERVICE.types}


def extra_server(filled, name):
    nova = compute(filled.connection)
    known = nova.call("GET", "/servers", params={"name": f"^{name}$"})["servers"]
    server_id = filled.note(name, make_server(filled, name, imageRef=filled.first("image")))
    if not known:  # else it exists from an earlier run, in this state
        await_server(nova, server_id, "ACTIVE")
    return server_id


@pytest.fixture(scope="module")
def projects(full_cloud, projects):
    """The target has servers in three states that the API does not lead to here, too."""
    target, neighbour = projects
    # One state is a matter of configuration, two are defects.
    for name, change in (
        ("soft-deleted", "vm_state = 'soft-delete'"),
        ("stuck", "task_state = 'deleting', updated_at = '2020-01-01'"),
        ("undeletable", "disable_terminate = 1"),
    ):
        server_id = extra_server(target, name)
        full_cloud.mariadb.sql(f"UPDATE instances SET {change} WHERE uuid = '{server_id}'", "nova")
    return target, neighbour


def rows(cloud, project_id):
    """Return the rows of a project in the databases of Nova, without those of deleted resources."""
    found = {}
    for database, table, columns, condition in (
        # The periodic tasks of Nova also update rows of servers that do not change.
        ("nova", "instances", "uuid, vm_state, task_state", "deleted = 0"),
        ("nova_cell0", "instances", "uuid, vm_state, task_state", "deleted = 0"),
        ("nova_api", "instance_groups", "*", "1"),
        ("nova_api", "quotas", "*", "1"),
        ("nova_api", "project_user_quotas", "*", "1"),
        ("nova_api", "flavor_projects", "*", "1"),
        ("nova_api", "build_requests", "*", "1"),
    ):
        sql = f"SELECT {columns} FROM {table} WHERE {condition} AND project_id = '{project_id}'"
        found[f"{database}.{table}"] = set(map(str, cloud.mariadb.sql(sql, database)))
    return found


def alive(cloud, project_id):
    sql = f"SELECT uuid FROM instances WHERE deleted = 0 AND project_id = '{project_id}'"
    return {uuid for (uuid,) in cloud.mariadb.sql(sql, "nova")}


def delete(sweeper, target, until, **options):
    """Sweep until the rows are as `until` says: Nova deletes asynchronously."""
    deadline = time.monotonic() + PATIENCE
    while not until(swept := sweeper.delete(SERVICE, target, **options)):
        assert time.monotonic() < deadline, swept
        time.sleep(1)
    return swept


def test_an_inventory_finds_all_resources_and_changes_nothing(projects, full_sweeper, full_cloud):
    target, _ = projects
    before = rows(full_cloud, target.project_id)
    found = full_sweeper.inventory(SERVICE, target)
    assert rows(full_cloud, target.project_id) == before
    assert {name for name, each in found.items() if each.outcome is Outcome.UNKNOWN} == set()
    assert {left.id for left in found["server"].leftovers} == alive(full_cloud, target.project_id)
    assert target.first("soft-deleted") in {left.id for left in found["server"].leftovers}
    assert {left.id for left in found["server_group"].leftovers} == set(target.ids["server group"])
    assert found["keypair"].kept == 1 and found["keypair"].outcome is Outcome.CLEAR
    assert found["aggregate"].kept >= 1 and found["aggregate"].outcome is Outcome.CLEAR
    assert [left.id for left in found["flavor_access"].leftovers] == [target.first("flavor access")]
    assert [left.id for left in found["quota_set"].leftovers] == [target.project_id]
    assert found["unreachable_server"] == StepResult(Outcome.CLEAR, digest=EMPTY_DIGEST)


def test_every_page_is_read(projects, full_sweeper, monkeypatch):
    target, _ = projects
    whole = full_sweeper.inventory(SERVICE, target)
    small = dataclasses.replace(plugin.servers._SERVERS, query={"limit": "2"})
    monkeypatch.setattr(plugin.servers, "_SERVERS", small)
    monkeypatch.setattr(plugin.groups, "PAGE", 2)
    monkeypatch.setattr(plugin.groups, "OVERLAP", 1)
    paged = full_sweeper.inventory(SERVICE, target)
    assert paged["server"].leftovers == whole["server"].leftovers and len(whole["server"].leftovers) > 8
    assert set(paged["server_group"].leftovers) == set(whole["server_group"].leftovers)


@pytest.mark.parametrize("name", ["server", "server_group", "flavor_access", "aggregate"])
def test_an_inventory_without_admin_rights_is_unknown(projects, full_sweeper, name):
    """A refused list is no empty list. For such a user Nova lists only groups of the token's project."""
    _, neighbour = projects
    found = sweeps.inventory(TYPES[name], neighbour.connection, full_sweeper.definition(SERVICE, projects[0]))
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


def test_resources_out_of_reach_are_listed_with_a_project_token(projects, full_sweeper):
    target, _ = projects
    definition = full_sweeper.definition(SERVICE, target)
    found = sweeps.inventory(TYPES["unreachable_server"], full_sweeper.connection(), definition)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


def test_everything_goes_but_what_nova_ignores(projects, full_sweeper, full_cloud, full_admin):
    target, neighbour = projects
    theirs = rows(full_cloud, neighbour.project_id)
    undeletable = target.first("undeletable")

    swept = delete(full_sweeper, target, lambda swept: {left.id for left in swept["server"].leftovers} == {undeletable})
    (left,) = swept["server"].leftovers
    assert left.reason is Reason.REFUSED and "disable_terminate" in left.message
    assert alive(full_cloud, target.project_id) == {undeletable}

    sql = f"UPDATE instances SET disable_terminate = 0 WHERE uuid = '{undeletable}'"
    full_cloud.mariadb.sql(sql, "nova")
    swept = delete(full_sweeper, target, lambda swept: not any(each.leftovers for each in swept.values()))
    assert {each.outcome for each in swept.values()} == {Outcome.CLEAR}
    assert not any(rows(full_cloud, target.project_id).values())

    # What was deleted with it, and what was not.
    ports = Rest(full_admin.network).call("GET", "/ports", params={"project_id": target.project_id})["ports"]
    assert [(port["id"], port["device_id"]) for port in ports] == [(target.first("port"), "")]
    images = Rest(full_admin.image).call("GET", "/images", params={"owner": target.project_id, "visibility": "all"})
    assert [image["id"] for image in images["images"]] == [target.first("image")]
    assert full_sweeper.inventory(SERVICE, target)["keypair"].kept == 1
    assert rows(full_cloud, neighbour.project_id) == theirs
