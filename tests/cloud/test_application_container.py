"""Zun: capsules, containers, registries and the quota are deleted; the neighbour keeps all."""

from __future__ import annotations

import dataclasses

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.application_container import SERVICE
from tests.cloud.filler import fill
from tests.cloud.fillings.application_container import zun
from tests.cloud.orchestrator import JANITOR, Orchestrator
from tests.support import sweeps

CLOUD = ("neutron", "zun")
CAPSULE, CONTAINER, REGISTRY, QUOTA = SERVICE.types
LISTED = (CAPSULE, CONTAINER, REGISTRY)
FOUND = {"capsule": 1, "container": 2, "registry": 2, "quota": 1}
#: The rows of a filled project. The capsule has one row, and one for each of its containers.
ROWS = {"zun.container": 5, "zun.registry": 2, "zun.quotas": 1}


def alive(sweeper, filled):
    return sweeper.live(filled.project_id, "zun.")


def found_by(sweeper, filled, type_):
    return sweeps.inventory(type_, sweeper.connection(), sweeper.definition(SERVICE, filled))


def ids(found):
    return {left.id for left in found.leftovers}


def test_an_inventory_finds_everything_and_changes_nothing(projects, further_sweeper):
    target, _ = projects
    before = further_sweeper.dump("zun", "keystone")
    found = {type_.name: found_by(further_sweeper, target, type_) for type_ in SERVICE.types}
    assert further_sweeper.dump("zun", "keystone") == before
    assert {type_.name: ids(found[type_.name]) for type_ in LISTED} == {t.name: {*target.ids[t.name]} for t in LISTED}
    assert {name: each.found for name, each in found.items()} == FOUND
    assert found["capsule"].facts["others_ignored"] == 1, "Zun has no filter for them"
    assert alive(further_sweeper, target) == ROWS


@pytest.mark.parametrize("type_", LISTED, ids=lambda type_: type_.name)
def test_all_pages_are_read(type_, projects, further_sweeper):
    target, _ = projects
    for view in (type_, type_.all_projects_view()):
        short = dataclasses.replace(view, list=dataclasses.replace(view.list, limit=1))
        assert ids(found_by(further_sweeper, target, short)) == set(target.ids[type_.name])


@pytest.mark.parametrize("type_", SERVICE.types, ids=lambda type_: type_.name)
def test_a_caller_without_the_admin_role_never_sees_an_empty_project(type_, projects, further_sweeper):
    target, neighbour = projects
    definition = further_sweeper.definition(SERVICE, target)
    found = sweeps.inventory(type_, neighbour.connection, definition)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)
    if type_ is CAPSULE:
        believed = sweeps.inventory(dataclasses.replace(CAPSULE, proof=None), neighbour.connection, definition)
        assert believed.outcome is Outcome.CLEAR, "the proof is not needed any more"


@pytest.mark.parametrize("type_", LISTED, ids=lambda type_: type_.name)
def test_a_system_scoped_token_sees_everything(type_, projects, further_sweeper):
    target, _ = projects
    found = sweeps.inventory(type_, further_sweeper.system_scoped(), further_sweeper.definition(SERVICE, target))
    assert ids(found) == set(target.ids[type_.name])


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


def test_everything_is_deleted_and_the_neighbour_keeps_all(projects, further_sweeper):
    target, neighbour = projects
    theirs = further_sweeper.dump_of(neighbour.project_id)
    swept = further_sweeper.delete(SERVICE, target)
    assert {name: (result.outcome, result.found) for name, result in swept.items()} == {
        name: (Outcome.CLEAR, 1 if name == "registry" else number) for name, number in FOUND.items()
    }
    assert alive(further_sweeper, target) == {}
    assert alive(further_sweeper, neighbour) == ROWS
    assert further_sweeper.dump_of(neighbour.project_id) == theirs


def test_the_rows_of_a_project_that_keystone_has_deleted_are_deleted(further_admin, further_sweeper):
    """Except a container with a host, which would use the orchestrator's token in Neutron and Cinder."""
    filled = fill(further_admin, "container-orphan", only=["application-container"])
    hosted = filled.first("container")
    further_sweeper.rows("zun", "UPDATE container SET host = 'a-host' WHERE uuid = ?", hosted)
    further_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    definition = dataclasses.replace(further_sweeper.definition(SERVICE, filled), gone=True)

    def sweep():
        connection = further_sweeper.connection(write=True)
        return {type_.name: sweeps.delete(type_, connection, definition) for type_ in SERVICE.types}

    assert [(left.id, left.reason) for left in sweep()["container"].leftovers] == [(hosted, Reason.PROJECT_GONE)]
    further_sweeper.rows("zun", "UPDATE container SET host = NULL WHERE uuid = ?", hosted)
    assert {name: result.outcome for name, result in sweep().items()} == dict.fromkeys(FOUND, Outcome.CLEAR)
    assert alive(further_sweeper, filled) == {}


@pytest.fixture(scope="module")
def orchestrator(further_cloud, tmp_path_factory):
    made = Orchestrator(further_cloud, tmp_path_factory.mktemp("orchestrator"), JANITOR)
    yield made
    made.running.close()


def test_the_orchestrator_deletes_the_project_with_everything(orchestrator, further_admin, further_sweeper):
    """The catalog has Zun under an alias of its official type."""
    filled = fill(further_admin, "container-whole", only=["application-container"])
    orchestrator.run(filled.project_id, Mode.REPORT, Status.LEFTOVERS)
    assert alive(further_sweeper, filled) == ROWS
    deletion = orchestrator.run(filled.project_id, Mode.CASCADE, Status.DELETED)
    assert alive(further_sweeper, filled) == {}
    wanted = {f"application-container.{name}: {number} gone" for name, number in FOUND.items()}
    assert wanted <= {*orchestrator.deleted(deletion)}
