"""Aodh's quota: it is read by a call that changes nothing, and not by the one that creates a row."""

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.alarm import SERVICE
from tests.support import sweeps
from tests.unit.answers import connection, project

ALARM, QUOTA = SERVICE.types
ROW = {"resource": "alarms", "limit": 30}


class Aodh:
    """Quotas as Aodh handles them."""

    def __init__(self, *rows):
        self.rows = list(rows)

    def answer(self, method, path, query, body):
        if (method, path) == ("DELETE", "/quotas/p"):
            self.rows = []
            return 204, ""
        if (method, path) == ("GET", "/alarms"):
            return 200, []
        assert (method, path) == ("POST", "/quotas"), "GET creates a row"
        assert body == {"project_id": "p", "quotas": []}
        return 201, {"project_id": "p", "quotas": self.rows}


@pytest.mark.parametrize("rows", [(), (ROW,), (ROW, {"resource": "others", "limit": -1})])
def test_the_quota_is_deleted_if_there_is_a_row(rows):
    aodh = Aodh(*rows)
    cloud = connection(alarm=aodh.answer)
    swept = sweeps.delete(QUOTA, cloud, project())
    assert (swept.outcome, swept.found) == (Outcome.CLEAR, min(len(rows), 1))
    deletes = [path for method, path, _ in cloud.alarm.asked if method == "DELETE"]
    assert deletes == ["/quotas/p"] * min(len(rows), 1)
    assert aodh.rows == []


@pytest.mark.parametrize("body", [{}, {"quotas": None}, {"quotas": {}}])
def test_an_answer_without_quotas_is_no_missing_quota(body):
    swept = sweeps.delete(QUOTA, connection(alarm=lambda *_: (201, body)), project())
    assert (swept.outcome, swept.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_list_is_no_empty_list(status):
    """Aodh refuses the alarms of another project with 401, and those of all projects with 403."""

    def answer(method, path, query, body):
        return (200, []) if query["q.field"] == "all_projects" and status == 401 else (status, {"error_message": "no"})

    found = sweeps.inventory(ALARM, connection(alarm=answer), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)
