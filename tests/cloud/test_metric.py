"""Gnocchi: resources and metrics are deleted, also those that a service made; its daemon then removes the metrics."""

from __future__ import annotations

import dataclasses
import time

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins import metric
from cleanup_orchestrator.plugins.metric import SERVICE
from tests.cloud.filler import fill
from tests.cloud.fillings.metric import gnocchi
from tests.support import sweeps

CLOUD = ("gnocchi",)
RESOURCE, OF_OTHERS, METRIC = SERVICE.types
KIND = {
    "resource": "gnocchi resource", "resource_of_others": "gnocchi resource of others", "metric": "gnocchi metric",
}  # fmt: skip
#: The rows of a filled project that name it. The metric of the service's resource names the service's project.
ROWS = {"gnocchi.metric": 6, "gnocchi.resource": 4, "gnocchi.resource_history": 1}

each_type = pytest.mark.parametrize("type_", SERVICE.types, ids=lambda type_: type_.name)


def alive(sweeper, filled):
    return sweeper.live(filled.project_id, "gnocchi.")


def settled(sweeper, filled, rows):
    """Wait until the daemon of Gnocchi has removed the metrics that are marked as deleted."""
    deadline = time.monotonic() + 60
    while (found := alive(sweeper, filled)) != rows and time.monotonic() < deadline:
        time.sleep(0.5)
    assert found == rows


@pytest.fixture(scope="module")
def projects(projects, further_admin):
    """Once the daemon of Gnocchi runs, and has processed the measures."""
    deadline = time.monotonic() + 60
    done = {"metrics": 0, "measures": 0}
    while (said := status(further_admin)) != done and time.monotonic() < deadline:
        time.sleep(0.5)
    assert said == done
    return projects


def status(admin):
    answer = gnocchi(admin).proxy.get("/status", params={"details": "false"}, raise_exc=False)
    return answer.json()["storage"]["summary"] if answer.status_code == 200 else None


def found_by(sweeper, filled, type_):
    return sweeps.inventory(type_, sweeper.connection(), sweeper.definition(SERVICE, filled))


def ids(found):
    """Return what was found; what others created is never a leftover."""
    return {left.id for left in (*found.leftovers, *found.kept_resources)}


def test_an_inventory_finds_everything_and_changes_nothing(projects, further_sweeper):
    target, _ = projects
    before = further_sweeper.dump("gnocchi", "keystone")
    found = {type_.name: found_by(further_sweeper, target, type_) for type_ in SERVICE.types}
    assert further_sweeper.dump("gnocchi", "keystone") == before
    wanted = {name: set(target.ids[kind]) for name, kind in KIND.items()}
    assert {name: ids(result) for name, result in found.items()} == wanted
    assert (found["resource"].facts["others_ignored"], found["metric"].facts["others_ignored"]) == (3, 3)
    assert alive(further_sweeper, target) == ROWS


@each_type
def test_all_pages_are_read(type_, projects, further_sweeper, monkeypatch):
    target, _ = projects
    for name in ("_RESOURCES", "_METRICS"):
        monkeypatch.setattr(metric, name, dataclasses.replace(getattr(metric, name), limit=2))
    for one in (type_, type_.all_projects_view()):
        assert ids(found_by(further_sweeper, target, one)) == set(target.ids[KIND[type_.name]])


def test_gnocchi_ignores_a_filter_of_a_get(projects, further_admin):
    """So the plugin must compare the owners."""
    target, neighbour = projects
    query = {"filter": f"project_id='{target.project_id}'"}
    found = {row["id"] for row in gnocchi(further_admin).call("GET", "/resource/generic", params=query)}
    assert set(neighbour.ids["gnocchi resource"]) <= found


def test_users_are_not_shown_their_metrics_without_a_resource(projects):
    """So a token of the project proves nothing."""
    target, _ = projects
    found = {row["id"] for row in gnocchi(target.connection).call("GET", "/metric")}
    assert found and found.isdisjoint(target.ids["gnocchi metric"])


@each_type
def test_a_caller_without_the_admin_role_never_sees_an_empty_project(type_, projects, further_sweeper):
    """Gnocchi answers with what the caller's project has."""
    target, neighbour = projects
    definition = further_sweeper.definition(SERVICE, target)
    believed = sweeps.inventory(dataclasses.replace(type_, proof=None), neighbour.connection, definition)
    assert believed.outcome is Outcome.CLEAR, "it needs no proof any more"
    found = sweeps.inventory(type_, neighbour.connection, definition)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


@each_type
def test_a_system_scoped_admin_sees_everything(type_, projects, further_sweeper):
    target, _ = projects
    found = sweeps.inventory(type_, further_sweeper.system_scoped(), further_sweeper.definition(SERVICE, target))
    assert ids(found) == set(target.ids[KIND[type_.name]])


def test_everything_is_deleted_and_the_neighbour_keeps_all(projects, further_sweeper):
    target, neighbour = projects
    theirs = further_sweeper.dump_of(neighbour.project_id)
    swept = further_sweeper.delete(SERVICE, target)
    assert {name: (result.outcome, result.found) for name, result in swept.items()} == {
        "resource": (Outcome.CLEAR, 3), "resource_of_others": (Outcome.CLEAR, 1), "metric": (Outcome.CLEAR, 3),
    }  # fmt: skip
    settled(further_sweeper, target, {})
    assert alive(further_sweeper, neighbour) == ROWS
    assert further_sweeper.dump_of(neighbour.project_id) == theirs


def test_a_resource_belongs_to_the_project_that_it_names(further_admin, further_sweeper):
    """A user of one project can make a resource for another one, with metrics."""
    giver, taker = (fill(further_admin, f"metric-{name}", only=[]) for name in ("giver", "taker"))
    body = {"id": "given", "project_id": taker.project_id, "metrics": {"cpu": {"archive_policy_name": "low"}}}
    given = gnocchi(giver.connection).call("POST", "/resource/generic", body)["id"]
    swept = further_sweeper.delete(SERVICE, giver)
    assert [(result.outcome, result.found) for result in swept.values()] == [(Outcome.CLEAR, 0)] * 3
    found = found_by(further_sweeper, taker, OF_OTHERS)
    assert (found.outcome, ids(found)) == (Outcome.CLEAR, {given}), "it blocks nothing"
    message = found.kept_resources[0].message
    assert message == "generic, created by a service, or by a user of another project"
    assert giver.project_id not in message, "all readers of the deletion see it"
    further_sweeper.delete(SERVICE, taker)
    for filled in (taker, giver):
        settled(further_sweeper, filled, {})


def test_the_rows_of_a_project_that_keystone_has_deleted_are_deleted(further_admin, further_sweeper):
    filled = fill(further_admin, "metric-orphan", only=["metric"])
    further_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    definition = dataclasses.replace(further_sweeper.definition(SERVICE, filled), gone=True)
    for type_, number in ((RESOURCE, 3), (OF_OTHERS, 1), (METRIC, 3)):
        swept = sweeps.delete(type_, further_sweeper.connection(write=True), definition)
        assert (swept.outcome, swept.found) == (Outcome.CLEAR, number)
    settled(further_sweeper, filled, {})


def test_the_orchestrator_deletes_the_project_with_everything(orchestrator, further_admin, further_sweeper):
    filled = fill(further_admin, "metric-whole", only=["metric"])
    orchestrator.run(filled.project_id, Mode.REPORT, Status.LEFTOVERS)
    assert alive(further_sweeper, filled) == ROWS
    deletion = orchestrator.run(filled.project_id, Mode.CASCADE, Status.DELETED)
    settled(further_sweeper, filled, {})
    deleted = {*orchestrator.deleted(deletion)}
    assert {"metric.resource: 3 gone", "metric.resource_of_others: 1 gone", "metric.metric: 3 gone"} <= deleted
