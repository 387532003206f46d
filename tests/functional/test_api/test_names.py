"""The names of services, types and regions in filters: every usual name works, and a typo is no empty list."""

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover
from tests.functional.test_api.test_plans import planned
from tests.functional.test_api.test_searches import left, made

#: The stub's catalog has identity, network, placement and weather in RegionOne; plugins answer for two of them.
KNOWN = [
    ("service=network", "p"),
    ("service=neutron", "p"),
    ("type=port", "p"),
    ("type=network.port", "p"),
    ("type=neutron.port", "p"),
    ("service=neutron&type=network.port", "p"),
    ("service=ceilometer-like", "g"),
    ("type=ceilometer-like.gauge", "g"),
    ("region=R1", "gp"),
    # known, and nothing there
    ("type=network.network", ""),
    ("type=network", ""),
    ("service=identity", ""),
    ("service=keystone", ""),
    ("service=weather", ""),
    ("region=RegionOne", ""),
    ("region=RegionOne&type=network.port", ""),
]
UNKNOWN = [
    ("service=netwrok", "service", "did you mean network?"),
    ("service=nova", "service", "GET /v1/services lists them"),
    ("type=prot", "type", "did you mean port?"),
    ("type=network.prot", "type", "of that service; did you mean port?"),
    ("type=identity.port", "type", "of that service"),
    ("service=identity&type=port", "type", "of that service"),
    ("type=nova.server", "service", "'service' names no service"),
    ("service=identity&type=network.port", "type", "another service"),
    ("region=RegionTwo", "region", "did you mean RegionOne?"),
    ("type=.port", "type", "did you mean port?"),
    ("type=network.", "type", "names no resource type"),
]


@pytest.fixture
def paths(site):
    """Lists with a port and with a resource of a plugin that is no longer installed."""
    deletion = made(site)
    left(site, deletion, ("network", "port"), Leftover("p", "", Reason.IN_USE))
    left(site, deletion, ("ceilometer-like", "gauge"), Leftover("g", "", Reason.IN_USE))
    return (f"/v1/deletions/{deletion.id}/leftovers", "/v1/leftovers")


@pytest.mark.parametrize(("query", "ids"), KNOWN)
def test_a_name_that_something_has(site, paths, query, ids):
    for path in paths:
        answer = site.get(f"{path}?{query}")
        assert answer.status == 200, answer.body
        assert "".join(sorted(row["id"] for row in answer.json["leftovers"])) == ids


@pytest.mark.parametrize(("query", "field", "text"), UNKNOWN)
def test_a_name_that_nothing_has(site, paths, query, field, text):
    for path in paths:
        answer = site.get(f"{path}?{query}")
        assert (answer.status, answer.error["code"], answer.error["field"]) == (400, "invalid_query", field)
        assert text in answer.error["detail"]


def test_an_error_does_not_repeat_the_value(site, paths):
    for path in paths:
        assert "hunter2" not in site.get(f"{path}?service=hunter2").error["detail"]


def test_a_deletion_without_steps_knows_the_names_of_the_cloud(site):
    path = f"/v1/deletions/{site.ask()['id']}/leftovers"
    assert site.get(f"{path}?region=RegionOne&type=network.port").json == {"leftovers": []}
    assert site.get(f"{path}?type=network.prot").status == 400


def test_the_resources_of_a_plan(site):
    path = f"/v1/plans/{planned(site)}/resources"
    assert {row["type"] for row in site.get(f"{path}?type=neutron.port").json["resources"]} == {"port"}
    assert site.get(f"{path}?type=network.router").json == {"resources": []}
    assert site.get(f"{path}?type=network.rooter").error["field"] == "type"


def test_the_catalog_is_read_only_for_names_that_nothing_else_knows(site, paths):
    for path in paths:
        site.keystone.requests.clear()
        site.get(f"{path}?service=neutron&type=network.network")
        site.get(f"{path}?region=R1")
        assert not [path for _method, path in site.keystone.requests if "endpoints" in path]


def test_a_region_without_leftovers_needs_no_catalog(site):
    """The steps of the deletions name the region."""
    left(site, made(site), ("network", "port"))
    site.keystone.requests.clear()
    assert site.get("/v1/leftovers?region=R1").json == {"leftovers": []}
    assert not [path for _method, path in site.keystone.requests if "endpoints" in path]
    assert site.get("/v1/leftovers?region=R2").error["field"] == "region"
