"""Zaqar: its lists link to a page after the last one, and a store without topics answers as one that fails."""

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.message import SERVICE
from tests.support import sweeps
from tests.unit.answers import connection, project

SUBSCRIPTION, QUEUE, TOPIC = SERVICE.types


class Zaqar:
    """Two queues on pages of one, with a subscription each; topics as the status says."""

    def __init__(self, topics):
        self.topics = topics

    def answer(self, method, path, query, body):
        if path == "/topics":
            return (200, {"topics": [], "links": []}) if self.topics == 200 else (self.topics, {"title": "no"})
        if path == "/queues":
            left = [name for name in ("a", "b") if name > query.get("marker", "")][:1]
            return 200, {
                "queues": [{"name": name, "metadata": {}} for name in left],
                "links": [{"rel": "next", "href": f"/v2/queues?marker={name}"} for name in left],
            }
        queue = path.split("/")[2]
        rows = [] if query.get("marker") else [{"id": f"s-{queue}", "source": queue, "subscriber": "http://x"}]
        return 200, {"subscriptions": rows, "links": [{"rel": "next", "href": "?marker=1"}] if rows else []}


@pytest.mark.parametrize("status", [200, 404, 500, 503])
@pytest.mark.parametrize("option", [True, False])
def test_topics_are_empty_only_if_zaqar_or_the_operator_says_so(status, option):
    cloud = connection("p", message=Zaqar(status).answer)
    found = sweeps.inventory(TOPIC, cloud, project(list_topics=option))
    assert found.outcome is (Outcome.CLEAR if status == 200 or not option else Outcome.UNKNOWN)
    if status == 503 and option:
        assert found.reason == Reason.BAD_ANSWER
        assert "list_topics = false" in found.message
    subscriptions = sweeps.inventory(SUBSCRIPTION, cloud, project(list_topics=option))
    assert (subscriptions.outcome is Outcome.UNKNOWN) is (found.outcome is Outcome.UNKNOWN)
    if found.outcome is Outcome.CLEAR:
        assert [left.id for left in subscriptions.leftovers] == ["s-a", "s-b"]


def test_queues_are_listed_until_a_page_is_empty():
    found = sweeps.inventory(QUEUE, connection("p", message=Zaqar(200).answer), project())
    assert [left.id for left in found.leftovers] == ["a", "b"]
