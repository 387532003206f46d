"""Cyborg: requests without a server are deleted; one that is bound to a server is left to Nova."""

from __future__ import annotations

import dataclasses

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.accelerator import _REQUESTS, SERVICE
from tests.cloud.common import (  # noqa: F401
    Case,
    test_a_caller_without_the_admin_role_never_sees_an_empty_project,
    test_a_list_of_all_projects_shows_what_each_has,
    test_a_token_of_the_system_never_shows_an_empty_project,
    test_an_inventory_finds_everything_and_changes_nothing,
    test_the_orchestrator_deletes_the_project_with_everything,
    test_what_a_project_that_keystone_has_deleted_had_is_deleted,
)
from tests.cloud.fillings.accelerator import cyborg

CLOUD = ("cyborg",)
(REQUEST,) = SERVICE.types
CASE = Case(
    SERVICE,
    rows={"cyborg.extended_accelerator_requests": 4},
    found={"accelerator_request": 4},
    kinds={"accelerator_request": ("accelerator request",)},
    ignored={"accelerator_request": 4},
    believed=(dataclasses.replace(REQUEST, list=_REQUESTS),),
    system={"accelerator_request": Reason.FORBIDDEN},
    views=("accelerator_request",),
    in_order=True,
)
SERVER = "5d3b1c1e-6f0e-4c5e-9f57-0f2d6f1f8b11"


def bind(sweeper, request, server):
    """Nova does so, with a service token."""
    sql = "UPDATE extended_accelerator_requests SET instance_uuid = ? WHERE uuid = ?"
    sweeper.rows("cyborg", sql, server, request)


def test_devices_prove_no_role(projects):
    """Cyborg answers with what the caller's project has."""
    assert cyborg(projects[1].connection).call("GET", "/devices") == {"devices": []}


def test_a_request_that_is_bound_to_a_server_is_left_to_nova(projects, further_sweeper):
    target, _ = projects
    bound = target.first("accelerator request")
    bind(further_sweeper, bound, SERVER)
    (left,) = further_sweeper.delete(SERVICE, target)["accelerator_request"].leftovers
    assert (left.id, left.reason) == (bound, Reason.IN_USE)
    assert [(each["type"], each["id"]) for each in left.blocked_by] == [("compute.server", SERVER)]
    assert CASE.alive(further_sweeper, target) == {"cyborg.extended_accelerator_requests": 1}
    bind(further_sweeper, bound, None)
    assert further_sweeper.delete(SERVICE, target)["accelerator_request"].outcome is Outcome.CLEAR
    assert CASE.alive(further_sweeper, target) == {}
