"""Heat: every stack of the project is deleted, also after a failed delete; the neighbour keeps all."""

from __future__ import annotations

import dataclasses

from cleanup_orchestrator.core.plans import EMPTY_DIGEST
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.plugins import orchestration as plugin
from cleanup_orchestrator.plugins.orchestration import SERVICE
from tests.cloud.common import (  # noqa: F401
    Case,
    ids,
    sweep_until,
    test_every_page_is_read,
)
from tests.cloud.fillings.base import Rest

STACKS = plugin.listing.stacks_of
CASE = Case(
    SERVICE,
    limit=0,
    pages=(
        (plugin.configs, "_CONFIGS", dataclasses.replace(plugin.configs._CONFIGS, limit=2)),
        (plugin.listing, "stacks_of", lambda *_, **more: dataclasses.replace(STACKS(*_, **more), limit=2)),
    ),
)


def alive(sweeper, project_id):
    """Return live rows from the database by table, including nested stacks and trusts."""
    stacks = "SELECT id FROM stack WHERE tenant = ? AND deleted_at IS NULL"
    found = {"stack": {i for (i,) in sweeper.rows("heat", stacks, project_id)}}
    for table in ("snapshot", "software_config", "software_deployment"):
        found[table] = {i for (i,) in sweeper.rows("heat", f"SELECT id FROM {table} WHERE tenant = ?", project_id)}
    credentials = sweeper.rows("heat", "SELECT id FROM user_creds WHERE tenant_id = ?", project_id)
    found["user_creds"] = {i for (i,) in credentials}
    trusts = "SELECT id FROM trust WHERE project_id = ? AND deleted_at IS NULL"
    found["trust"] = {i for (i,) in sweeper.rows("keystone", trusts, project_id)}
    # An underscore and a percent sign stand for anything; the id has neither.
    made = sweeper.rows("keystone", "SELECT id FROM project WHERE name LIKE ?", f"{project_id}-%")
    found["project of a stack"] = {i for (i,) in made}
    return found


def test_a_deployment_that_cannot_be_read_by_its_id_is_found_and_deleted(projects, full_admin):
    """Heat would run the signal of its config with the token of the caller. Later tests check its delete."""
    target, _ = projects
    path = f"/software_deployments/{target.first('software deployment')}"
    assert Rest(full_admin.orchestration).raw("GET", path, ok=(400,)).status_code == 400


def test_an_inventory_finds_all_resources_and_changes_nothing(projects, full_sweeper):
    target, _ = projects
    before = alive(full_sweeper, target.project_id)
    found = full_sweeper.inventory(SERVICE, target)
    assert alive(full_sweeper, target.project_id) == before
    failed = set(target.ids["failed stack"])
    assert ids(found["stack"]) == set(target.ids["stack"]) - failed
    assert found["stack"].kept == len(failed)
    assert ids(found["failed_stack"]) == failed
    assert "non-empty container" in found["failed_stack"].leftovers[0].message
    assert found["nested_stack"].outcome is Outcome.CLEAR  # their root is there
    assert before["stack"] > set(target.ids["stack"])  # the nested ones
    assert ids(found["software_config"]) == set(target.ids["software config"])
    assert ids(found["software_deployment"]) == set(target.ids["software deployment"])
    assert found["stack_user_project"] == StepResult(
        Outcome.CLEAR, digest=EMPTY_DIGEST, absent=True
    )  # the domain is not configured


def test_a_stack_whose_owner_is_not_shown_is_protected(projects, full_sweeper):
    """Heat shows the owner only to admins."""
    target, _ = projects
    found = CASE.found_by(full_sweeper, target, "stack", target.connection)
    assert {left.reason for left in found.leftovers} == {Reason.OWNER_UNKNOWN}


def test_everything_goes_once_nothing_foreign_is_in_it(projects, full_sweeper, full_admin):
    target, neighbour = projects
    theirs = alive(full_sweeper, neighbour.project_id)
    assert all(theirs.values())
    swept = sweep_until(full_sweeper, SERVICE, target, lambda swept: swept["stack"].outcome is Outcome.CLEAR)
    # Foreign resources have blocked two stacks; the test removes them now.
    occupied = [left for left in swept["failed_stack"].leftovers if left.name.endswith("-occupied")]
    sweep_until(
        full_sweeper,
        SERVICE,
        target,
        lambda swept: {left.reason for left in swept["failed_stack"].leftovers} == {Reason.ERROR},
    )
    assert occupied
    left = alive(full_sweeper, target.project_id)
    assert left["stack"] == {occupied[0].id, target.first("failed stack")}
    assert not left["software_config"] and not left["software_deployment"] and not left["snapshot"]

    Rest(full_admin.network).call("DELETE", f"/ports/{target.first('squatting port')}")
    objects = Rest(target.connection.object_store)
    for container in objects.call("GET", "", params={"format": "json"}):
        for item in objects.call("GET", f"/{container['name']}", params={"format": "json"}):
            objects.call("DELETE", f"/{container['name']}/{item['name']}")
    sweep_until(full_sweeper, SERVICE, target)
    assert not any(alive(full_sweeper, target.project_id).values())
    assert alive(full_sweeper, neighbour.project_id) == theirs


def test_networks_that_survive_their_stack_are_listed_by_neutron(projects, full_admin):
    """After the test before: a retained network, and that of an abandoned stack."""
    target, _ = projects
    found = Rest(full_admin.network).call("GET", "/networks", params={"project_id": target.project_id})["networks"]
    assert [network["name"] for network in found if "retain" in network["name"] or "abandoned" in network["name"]]


def test_a_project_that_heat_left_behind_goes_when_its_domain_is_named(projects, full_sweeper, full_admin):
    target, neighbour = projects
    api = Rest(full_admin.identity)
    stack = Rest(neighbour.connection.orchestration).call("GET", "/stacks")["stacks"][0]
    theirs = api.call("GET", f"/projects/{stack['stack_user_project_id']}")["project"]
    domain = api.call("GET", f"/domains/{theirs['domain_id']}")["domain"]

    def make(owner, description=theirs["description"], **more):
        name = f"{owner}-01234567-89ab-cdef-0123-456789a"
        body = {"name": name, "description": description, "domain_id": domain["id"], **more}
        return api.call("POST", "/projects", {"project": body})["project"]["id"]

    orphan, alike = make(target.project_id), make(target.project_id, domain_id="default")
    body = {"name": "signal", "domain_id": domain["id"], "default_project_id": orphan}
    user = api.call("POST", "/users", {"user": body})["user"]["id"]
    role = api.call("GET", "/roles", params={"name": "heat_stack_user"})["roles"][0]["id"]
    api.call("PUT", f"/projects/{orphan}/users/{user}/roles/{role}")
    try:
        wish = {"stack_user_domain": domain["name"]}
        found = CASE.found_by(full_sweeper, target, "stack_user_project", **wish)
        assert [left.id for left in found.leftovers] == [orphan]
        swept = full_sweeper.delete(SERVICE, target, **wish)["stack_user_project"]
        assert [identity for identity, _ in swept.deleted] == [orphan]
        assert api.raw("GET", f"/users/{user}", ok=(404,)).status_code == 404
        assert api.raw("GET", f"/projects/{orphan}", ok=(404,)).status_code == 404
        assert api.call("GET", f"/projects/{theirs['id']}")["project"] == theirs
        assert api.call("GET", f"/projects/{alike}")["project"]["id"] == alike
        # That of a living stack is Heat's.
        kept = full_sweeper.delete(
            dataclasses.replace(SERVICE, types=(CASE.types["stack_user_project"],)), neighbour, **wish
        )
        assert {left.reason for left in kept["stack_user_project"].leftovers} == {Reason.IN_USE}
        assert api.call("GET", f"/projects/{theirs['id']}")["project"] == theirs
    finally:
        for path in (f"/users/{user}", f"/projects/{orphan}", f"/projects/{alike}"):
            api.call("DELETE", path, ok=(404,))
