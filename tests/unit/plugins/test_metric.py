"""Gnocchi: who owns what, and how far the list of metrics is read."""

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.metric import SERVICE
from tests.support import sweeps
from tests.unit.answers import connection, project

RESOURCE, OF_OTHERS, METRIC = SERVICE.types


def resource(id_, project_id, creator):
    return {"id": id_, "original_resource_id": id_, "project_id": project_id, "created_by_project_id": creator}


def metric(id_, creator="p", resource_id=None):
    return {"id": id_, "name": id_, "created_by_project_id": creator, "resource_id": resource_id}


class Gnocchi:
    """Pages as Gnocchi makes them: a page begins after the marker."""

    def __init__(self, *rows, size=2, **shown):
        self.rows, self.size, self.shown, self.lists = list(rows), size, shown, []

    def answer(self, method, path, query, body):
        if path == "/status":
            return 200, {}
        id_ = path.rpartition("/")[2]
        if method == "DELETE":
            self.rows = [row for row in self.rows if row["id"] != id_]
            return 204, ""
        if path not in ("/metric", "/resource/generic"):
            return 200, self.shown.get(id_) or next(row for row in self.rows if row["id"] == id_)
        self.lists.append(query.get("marker"))
        begin = [row["id"] for row in self.rows].index(query["marker"]) + 1 if "marker" in query else 0
        return 200, self.rows[begin : begin + self.size]


def ids(result):
    return {left.id for left in result.leftovers}


@pytest.mark.parametrize(
    ("row", "own", "of_others"),
    [
        pytest.param(resource("r", "p", "p"), {"r"}, set(), id="a user of the project made it"),
        pytest.param(resource("r", None, "p"), {"r"}, set(), id="the same, and it names no project"),
        pytest.param(resource("r", "", "p"), {"r"}, set(), id="the same with an empty name"),
        pytest.param(resource("r", "p", "service"), set(), {"r"}, id="a service made it for the project"),
        pytest.param(resource("r", "p", None), set(), {"r"}, id="its creator is unknown"),
        pytest.param(resource("r", "q", "p"), set(), set(), id="a user of the project made it for another one"),
        pytest.param(resource("r", None, "q"), set(), set(), id="another project's"),
        pytest.param(resource("r", None, None), set(), set(), id="without any project"),
    ],
)
def test_the_owner_of_a_resource(row, own, of_others):
    cloud = connection(metric=Gnocchi(row).answer)
    assert ids(sweeps.inventory(RESOURCE, cloud, project())) == own
    informational = sweeps.inventory(OF_OTHERS, cloud, project())
    assert informational.outcome is Outcome.CLEAR, "it blocks nothing"
    assert {one.id for one in informational.kept_resources} == of_others


def test_a_resource_that_names_another_project_right_before_its_delete_stays():
    gnocchi = Gnocchi(resource("r", "p", "p"), r=resource("r", "q", "p"))
    swept = sweeps.delete(RESOURCE, connection(metric=gnocchi.answer), project())
    assert [left.reason for left in swept.leftovers] == [Reason.OWNER_UNKNOWN]
    assert len(gnocchi.rows) == 1


def test_metrics_are_read_up_to_the_first_that_has_a_resource():
    many = [metric(f"a{number}", resource_id="r") for number in range(100)]
    gnocchi = Gnocchi(metric("m1"), metric("foreign", "q"), metric("m2"), *many)
    assert ids(sweeps.inventory(METRIC, connection(metric=gnocchi.answer), project())) == {"m1", "m2"}
    assert gnocchi.lists == [None, "foreign"]


def test_a_metric_that_was_given_to_a_resource_since_it_was_listed_stays():
    gnocchi = Gnocchi(metric("m"), m={**metric("m"), "resource": resource("r", "q", "p")})
    swept = sweeps.delete(METRIC, connection(metric=gnocchi.answer), project())
    assert [left.reason for left in swept.leftovers] == [Reason.PROTECTED]
    assert len(gnocchi.rows) == 1


@pytest.mark.parametrize(
    ("type_", "row", "without"),
    [
        (RESOURCE, resource("r", "q", "p"), "project_id"),
        (RESOURCE, resource("r", None, "p"), "created_by_project_id"),
        (METRIC, metric("m"), "resource_id"),
    ],
)
def test_a_row_without_what_is_needed_makes_the_list_unknown(type_, row, without):
    del row[without]
    found = sweeps.inventory(type_, connection(metric=Gnocchi(row).answer), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)
