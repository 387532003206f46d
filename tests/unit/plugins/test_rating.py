"""CloudKitty: which 404 says that there is no scope, and prices that are kept unless the operator wants otherwise."""

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.rating import SERVICE
from tests.support import sweeps
from tests.unit.answers import connection, project

SCOPE, MAPPING, THRESHOLD = SERVICE.types
HASHMAP = "/v1/rating/module_config/hashmap"
VERSIONS = {"versions": [{"id": "v1"}, {"id": "v2"}]}
NO_SCOPE = {"message": "No resource found for provided filters."}


def scope(**values):
    return {"scope_id": "p", "scope_key": "project_id", "fetcher": "keystone", "collector": "gnocchi",
            "last_processed_timestamp": "2026-11-01T00:00:00+00:00", **values}  # fmt: skip


def scopes(status, body, versions=VERSIONS):
    return connection(rating=lambda method, path, *_: (200, versions) if path == "/" else (status, body))


def test_a_scope_is_kept_and_the_report_says_until_when_the_project_is_rated():
    answer = scopes(200, {"results": [scope(), scope(collector="prometheus"), scope(scope_id="q")]})
    found = sweeps.inventory(SCOPE, answer, project(), each_kept=True)
    assert (found.outcome, found.kept, found.others_ignored) == (Outcome.CLEAR, 2, 1)
    assert [left.id for left in found.kept_resources] == [
        "p/project_id/keystone/gnocchi", "p/project_id/keystone/prometheus",
    ]  # fmt: skip
    assert "until 2026-11-01" in found.kept_resources[0].message


def test_only_cloudkittys_own_404_says_that_there_is_no_scope():
    assert sweeps.inventory(SCOPE, scopes(404, NO_SCOPE), project()).outcome is Outcome.CLEAR
    for body in ({"message": "Not found"}, "<html>", {}, [], {"results": None}):
        found = sweeps.inventory(SCOPE, scopes(404, body), project())
        assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


def test_a_full_page_of_scopes_may_be_cut_short():
    answer = {"results": [scope(collector=str(number)) for number in range(1000)]}
    found = sweeps.inventory(SCOPE, scopes(200, answer), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


def test_without_version_2_of_the_api_there_are_no_scopes():
    cloud = scopes(404, "<html>", {"versions": [{"id": "v1"}]})
    assert sweeps.inventory(SCOPE, cloud, project()).outcome is Outcome.CLEAR
    assert [path for _, path, _ in cloud.rating.asked] == ["/"]
    for versions in ({}, {"versions": None}, {"versions": ["v2"]}):
        found = sweeps.inventory(SCOPE, scopes(404, NO_SCOPE, versions), project())
        assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


class Prices:
    """Thresholds of a service and of its field."""

    def __init__(self):
        self.rows = {"service_id=s": ["t1"], "field_id=f": ["t2", "t3"]}

    def answer(self, method, path, query, body):
        name = path.removeprefix(f"{HASHMAP}/")
        if name == "services":
            return 200, {"services": [{"service_id": "s"}]}
        if name == "fields":
            return 200, {"fields": [{"field_id": "f"}]} if query == {"service_id": "s"} else {"fields": []}
        if method == "DELETE":
            for ids in self.rows.values():
                ids.remove(name.rpartition("/")[2]) if name.rpartition("/")[2] in ids else None
            return 204, ""
        if name.startswith("thresholds/"):
            return 200, {"threshold_id": name.rpartition("/")[2], "tenant_id": "p"}
        assert (query.pop("tenant_id"), query.pop("filter_tenant")) == ("p", "true")
        ((parent, id_),) = query.items()
        return 200, {"thresholds": [{"threshold_id": each, "tenant_id": "p"} for each in self.rows[f"{parent}={id_}"]]}


def test_prices_are_kept():
    cloud = connection(rating=Prices().answer)
    swept = sweeps.delete(THRESHOLD, cloud, project())
    assert (swept.outcome, swept.found, swept.kept) == (Outcome.CLEAR, 0, 3)
    assert cloud.rating.writes() == []


@pytest.mark.parametrize("lost", ["services", "fields"])
def test_thresholds_without_their_parents_are_unknown(lost):
    prices = Prices()

    def answer(method, path, query, body):
        return (200, {}) if path.endswith(lost) else prices.answer(method, path, query, body)

    found = sweeps.inventory(THRESHOLD, connection(rating=answer), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


def test_prices_are_deleted_if_the_operator_wants_that():
    cloud = connection(rating=Prices().answer)
    swept = sweeps.delete(THRESHOLD, cloud, project(delete_prices=True))
    assert (swept.outcome, swept.found) == (Outcome.CLEAR, 3)
    # Several threads delete, in any order.
    assert sorted(path for _, path, _ in cloud.rating.writes()) == [f"{HASHMAP}/thresholds/t{n}" for n in (1, 2, 3)]
