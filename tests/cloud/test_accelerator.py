"""Cyborg: requests without a server are deleted; one that is bound to a server is left to Nova."""

from __future__ import annotations

import dataclasses

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.accelerator import _REQUESTS, SERVICE
from tests.cloud.filler import fill
from tests.cloud.fillings.accelerator import cyborg
from tests.support import sweeps

CLOUD = ("cyborg",)
(REQUEST,) = SERVICE.types
ROWS = {"cyborg.extended_accelerator_requests": 4}
SERVER = "5d3b1c1e-6f0e-4c5e-9f57-0f2d6f1f8b11"


def alive(sweeper, filled):
    return sweeper.live(filled.project_id, "cyborg.")


def found_by(sweeper, filled, type_=REQUEST):
    return sweeps.inventory(type_, sweeper.connection(), sweeper.definition(SERVICE, filled))


def ids(found):
    return {left.id for left in found.leftovers}


def bind(sweeper, request, server):
    """Nova does so, with a service token."""
    sql = "UPDATE extended_accelerator_requests SET instance_uuid = ? WHERE uuid = ?"
    sweeper.rows("cyborg", sql, server, request)


def test_an_inventory_finds_all_requests_and_changes_nothing(projects, further_sweeper):
    target, _ = projects
    before = further_sweeper.dump("cyborg", "keystone")
    found = found_by(further_sweeper, target)
    assert further_sweeper.dump("cyborg", "keystone") == before
    assert ids(found) == set(target.ids["accelerator request"])
    assert found.facts["others_ignored"] == 4
    assert alive(further_sweeper, target) == ROWS
    assert ids(found_by(further_sweeper, target, REQUEST.all_projects_view())) == ids(found)


def test_a_caller_without_the_admin_role_never_sees_an_empty_project(projects, further_sweeper):
    """Cyborg answers with what the caller's project has."""
    target, neighbour = projects
    definition = further_sweeper.definition(SERVICE, target)
    believed = sweeps.inventory(dataclasses.replace(REQUEST, list=_REQUESTS), neighbour.connection, definition)
    assert believed.outcome is Outcome.CLEAR, "the role need not be checked any more"
    assert cyborg(neighbour.connection).call("GET", "/devices") == {"devices": []}, "and this is no proof"
    found = sweeps.inventory(REQUEST, neighbour.connection, definition)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


def test_a_system_scoped_token_never_sees_an_empty_project(projects, further_sweeper):
    target, _ = projects
    definition = further_sweeper.definition(SERVICE, target)
    found = sweeps.inventory(REQUEST, further_sweeper.system_scoped(), definition)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


def test_a_request_that_is_bound_to_a_server_is_left_to_nova(projects, further_sweeper):
    target, neighbour = projects
    theirs = further_sweeper.dump_of(neighbour.project_id)
    bound = target.first("accelerator request")
    bind(further_sweeper, bound, SERVER)
    (left,) = further_sweeper.delete(SERVICE, target)["accelerator_request"].leftovers
    assert (left.id, left.reason) == (bound, Reason.IN_USE)
    assert [(each["type"], each["id"]) for each in left.blocked_by] == [("compute.server", SERVER)]
    assert alive(further_sweeper, target) == {"cyborg.extended_accelerator_requests": 1}
    bind(further_sweeper, bound, None)
    assert further_sweeper.delete(SERVICE, target)["accelerator_request"].outcome is Outcome.CLEAR
    assert alive(further_sweeper, target) == {}
    assert alive(further_sweeper, neighbour) == ROWS
    assert further_sweeper.dump_of(neighbour.project_id) == theirs


def test_requests_of_a_project_that_keystone_has_deleted_are_deleted(further_admin, further_sweeper):
    filled = fill(further_admin, "accelerator-orphan", only=["accelerator"])
    further_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    definition = dataclasses.replace(further_sweeper.definition(SERVICE, filled), gone=True)
    swept = sweeps.delete(REQUEST, further_sweeper.connection(write=True), definition)
    assert (swept.outcome, swept.found) == (Outcome.CLEAR, 4)
    assert alive(further_sweeper, filled) == {}


def test_the_orchestrator_deletes_the_project_with_everything(orchestrator, further_admin, further_sweeper):
    filled = fill(further_admin, "accelerator-whole", only=["accelerator"])
    orchestrator.run(filled.project_id, Mode.REPORT, Status.LEFTOVERS)
    assert alive(further_sweeper, filled) == ROWS
    deletion = orchestrator.run(filled.project_id, Mode.CASCADE, Status.DELETED)
    assert alive(further_sweeper, filled) == {}
    assert orchestrator.deleted(deletion) == ["accelerator.accelerator_request: 4 gone"]
