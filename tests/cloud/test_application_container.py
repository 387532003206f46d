"""Zun: capsules, containers, registries and the quota are deleted; the neighbour keeps all."""

from __future__ import annotations

import dataclasses

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.application_container import SERVICE
from tests.cloud.common import (  # noqa: F401
    Case,
    test_a_caller_without_the_admin_role_never_sees_an_empty_project,
    test_a_list_of_all_projects_shows_what_each_has,
    test_a_token_of_the_system_never_shows_an_empty_project,
    test_an_inventory_finds_everything_and_changes_nothing,
    test_every_page_is_read,
    test_the_orchestrator_deletes_the_project_with_everything,
)
from tests.cloud.filler import fill
from tests.cloud.fillings.application_container import zun
from tests.cloud.orchestrator import JANITOR
from tests.support import sweeps

CLOUD = ("neutron", "zun")
OPTIONS = JANITOR
CAPSULE, CONTAINER, REGISTRY, QUOTA = SERVICE.types
CASE = Case(
    SERVICE,
    # The capsule has one row, and one for each of its containers.
    rows={"zun.container": 5, "zun.registry": 2, "zun.quotas": 1},
    found={"capsule": 1, "container": 2, "registry": 2, "quota": 1},
    kinds={"quota": ()},
    ignored={"capsule": 1},  # Zun has no filter for them
    believed=(dataclasses.replace(CAPSULE, proof=None),),
    system={"capsule": "", "container": "", "registry": ""},
    views=("capsule", "container", "registry"),
)


def test_without_all_projects_an_admin_sees_nothing_of_the_project(projects, further_admin):
    """So the plugin must not list without it."""
    for collection in ("capsules", "containers", "registries"):
        assert zun(further_admin).call("GET", f"/{collection}")[collection] == []


def test_a_registry_that_a_container_names_is_left(projects, further_sweeper):
    target, _ = projects
    alone = dataclasses.replace(REGISTRY, after=(), needed_by=())
    definition = further_sweeper.definition(SERVICE, target)
    (left,) = sweeps.delete(alone, further_sweeper.connection(write=True), definition).leftovers
    assert (left.id, left.reason) == (target.first("registry"), Reason.IN_USE)


def test_the_rows_of_a_project_that_keystone_has_deleted_are_deleted(further_admin, further_sweeper):
    """Except a container with a host, which would use the orchestrator's token in Neutron and Cinder."""
    filled = fill(further_admin, "container-orphan", only=["application-container"])
    hosted = filled.first("container")
    further_sweeper.rows("zun", "UPDATE container SET host = 'a-host' WHERE uuid = ?", hosted)
    further_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")

    def sweep():
        return {t.name: CASE.deleted_by(further_sweeper, filled, t, gone=True) for t in SERVICE.types}

    assert [(left.id, left.reason) for left in sweep()["container"].leftovers] == [(hosted, Reason.PROJECT_GONE)]
    further_sweeper.rows("zun", "UPDATE container SET host = NULL WHERE uuid = ?", hosted)
    assert {name: result.outcome for name, result in sweep().items()} == dict.fromkeys(CASE.found, Outcome.CLEAR)
    assert CASE.alive(further_sweeper, filled) == {}
