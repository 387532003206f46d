"""Gnocchi: resources and metrics are deleted, also those that a service made; its daemon then removes the metrics."""

from __future__ import annotations

import dataclasses

import pytest

from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins import metric
from cleanup_orchestrator.plugins.metric import SERVICE
from tests.cloud.common import (  # noqa: F401
    Case,
    test_a_caller_without_the_admin_role_never_sees_an_empty_project,
    test_a_list_of_all_projects_shows_what_each_has,
    test_a_token_of_the_system_never_shows_an_empty_project,
    test_an_inventory_finds_everything_and_changes_nothing,
    test_every_page_is_read,
    test_the_orchestrator_deletes_the_project_with_everything,
    test_what_a_project_that_keystone_has_deleted_had_is_deleted,
    until,
)
from tests.cloud.filler import fill
from tests.cloud.fillings.metric import gnocchi

CLOUD = ("gnocchi",)
RESOURCE, OF_OTHERS, METRIC = SERVICE.types
CASE = Case(
    SERVICE,
    # The metric of the service's resource names the service's project.
    rows={"gnocchi.metric": 6, "gnocchi.resource": 4, "gnocchi.resource_history": 1},
    found={"resource": 3, "resource_of_others": 1, "metric": 3},
    kinds={
        "resource": ("gnocchi resource",),
        "resource_of_others": ("gnocchi resource of others",),
        "metric": ("gnocchi metric",),
    },
    kept=("resource_of_others",),
    ignored={"resource": 3, "metric": 3},
    believed=tuple(dataclasses.replace(type_, proof=None) for type_ in SERVICE.types),
    system={"resource": "", "resource_of_others": "", "metric": ""},
    views=("resource", "resource_of_others", "metric"),
    pages=tuple(
        (metric, name, dataclasses.replace(getattr(metric, name), limit=2)) for name in ("_RESOURCES", "_METRICS")
    ),
    settles=60,  # the daemon of Gnocchi removes the metrics that are marked as deleted
)


@pytest.fixture(scope="module")
def projects(projects, further_admin):
    """Once the daemon of Gnocchi runs, and has processed the measures."""
    until(lambda: status(further_admin), lambda said: said == {"metrics": 0, "measures": 0}, 60)
    return projects


def status(admin):
    answer = gnocchi(admin).proxy.get("/status", params={"details": "false"}, raise_exc=False)
    return answer.json()["storage"]["summary"] if answer.status_code == 200 else None


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


def test_a_resource_belongs_to_the_project_that_it_names(further_admin, further_sweeper):
    """A user of one project can make a resource for another one, with metrics."""
    giver, taker = (fill(further_admin, f"metric-{name}", only=[]) for name in ("giver", "taker"))
    body = {"id": "given", "project_id": taker.project_id, "metrics": {"cpu": {"archive_policy_name": "low"}}}
    given = gnocchi(giver.connection).call("POST", "/resource/generic", body)["id"]
    swept = further_sweeper.delete(SERVICE, giver)
    assert [(result.outcome, result.found) for result in swept.values()] == [(Outcome.CLEAR, 0)] * 3
    found = CASE.found_by(further_sweeper, taker, OF_OTHERS)
    assert (found.outcome, [kept.id for kept in found.kept_resources]) == (Outcome.CLEAR, [given]), "it blocks nothing"
    message = found.kept_resources[0].message
    assert message == "generic, created by a service, or by a user of another project"
    assert giver.project_id not in message, "all readers of the deletion see it"
    further_sweeper.delete(SERVICE, taker)
    for filled in (taker, giver):
        CASE.settled(further_sweeper, filled, {})
