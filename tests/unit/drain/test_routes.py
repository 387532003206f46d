"""A service without the fence that gets some requests about tokens: which answers show it, and which show nothing."""

import pytest
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.drain import routes
from cleanup_orchestrator.keystone import protocol
from tests.unit.drain.test_fence import Fenced, Keystone, answer


def found(**how):
    clouds = Fenced(**how)
    return routes.past_fence(Keystone().ground(clouds), "token"), clouds


def test_nothing_is_found_where_the_fence_refuses_the_login_and_no_other_version_answers():
    problem, clouds = found()
    assert problem == ""
    assert clouds.logins == [{protocol.CANARY_HEADER: "d"}, "http://keystone/v4/auth/tokens"]


def test_a_service_that_issues_tokens_is_found():
    problem, _ = found(login=None)
    assert problem.startswith("POST /v3/auth/tokens: a service without the fence issues tokens")
    assert "[drain] driver = revoke" in problem


def test_a_refusal_that_the_fence_does_not_confirm_shows_nothing():
    assert found(login="refused")[0].startswith("POST /v3/auth/tokens: it was not the fence")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (answer(200), "GET /v4/auth/tokens: a service without the fence answers about tokens (200)"),
        (answer(401), "(401)"),
        (answer(403), "(403)"),
        (answer(503), "(503)"),
        (answer(404), ""),
        (answer(404, json=False), ""),
        (answer(403, json=False), ""),  # of a proxy
        (answer(200, json=False), ""),
    ],
)
def test_another_version_of_the_api_is_found(other, said):
    problem = found(other=other)[0]
    assert (said in problem) if said else problem == ""


def test_no_answer_is_an_error(monkeypatch):
    class Cut(Fenced):
        def session(self, *_, **__):
            made = super().session()

            def get_token():
                raise ka_exceptions.ConnectFailure("no connection")

            made.get_token = get_token
            return made

    with pytest.raises(ka_exceptions.ConnectFailure):
        routes.past_fence(Keystone().ground(Cut()), "token")
