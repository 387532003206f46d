"""What Nova is asked about servers of any project, and which of its answers say that there is none."""

from __future__ import annotations

import pytest

from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins import nova
from tests.unit.answers import connection

GONE = (404, {"itemNotFound": {"code": 404, "message": "Instance s could not be found."}})


def asked(answer):
    return nova.server_blocker(connection(compute=lambda *_: answer), "s")


def test_a_server_is_named_with_its_owner():
    shown = {"server": {"id": "s", "tenant_id": "them", "name": "web"}}
    assert asked((200, shown)) == {"type": "compute.server", "id": "s", "owner": "them", "name": "web"}
    assert asked(GONE) is None
    assert nova.server_blocker(connection(), "s") is None, "a cloud without Nova has no servers"


@pytest.mark.parametrize("name", [".", "..", "a/../b"])
def test_no_server_has_a_name_that_a_user_made_up(name):
    cloud = connection(compute=lambda *_: (200, {"server": {"id": "s", "tenant_id": "them"}}))
    assert (nova.server_blocker(cloud, name), cloud.compute.asked) == (None, [])


@pytest.mark.parametrize("body", [{}, [], "<html>no backend</html>"], ids=str)
def test_a_404_of_a_proxy_does_not_say_that_a_server_is_gone(body):
    """The server runs, and has its port, its volume or its node, while Nova's API has no backend for a moment."""
    with pytest.raises(BadAnswer, match="not as Nova does"):
        asked((404, body))


@pytest.mark.parametrize("body", [{}, {"server": {"id": "s"}}, "no JSON"], ids=str)
def test_a_server_without_an_owner_is_an_error(body):
    with pytest.raises(BadAnswer, match="without its owner"):
        asked((200, body))
