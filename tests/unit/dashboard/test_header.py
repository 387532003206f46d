"""The banner of the brake on every page: what is kept of an answer, and for whom."""

import types

import pytest
from django.core.cache import cache

from cleanup_orchestrator import sdk
from tests.unit.dashboard import stand_in

with stand_in.horizon():
    from cleanup_orchestrator.dashboard import calls
    from cleanup_orchestrator.dashboard.brake import header

SET = types.SimpleNamespace(on=True, reason="the storage misbehaves", since="2026-11-30T04:00:00Z")
LIFTED = types.SimpleNamespace(on=False, reason="", since=None)


def request(region="R", endpoint="https://keystone.example.com", **values):
    user = {"is_authenticated": True, "has_perms": lambda perms: True, "endpoint": endpoint, "services_region": region}
    return types.SimpleNamespace(user=types.SimpleNamespace(**user | values))


def refusal(status):
    response = types.SimpleNamespace(
        status_code=status, headers={}, json=dict, url="https://cleanup.example.com/v1", reason="", text=""
    )
    return sdk.errors.from_response(response)


@pytest.fixture
def answers(monkeypatch):
    """Return the list of the API's next answers."""
    cache.clear()
    left = []

    def get_brake():
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(calls, "proxy", lambda *_: types.SimpleNamespace(get_brake=get_brake))
    monkeypatch.setattr(calls, "allowed", lambda *_: True)
    return left


def test_an_answer_is_kept_for_the_next_page(answers):
    answers += [SET]
    assert header.state(request())["on"] and header.state(request())["on"]


def test_each_region_and_each_cloud_has_its_own_brake(answers):
    answers += [SET, LIFTED, LIFTED]
    shown = [request(), request(region="S"), request(endpoint="https://other.example.com")]
    assert [header.state(each)["on"] for each in shown] == [True, False, False]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_of_one_user_says_nothing_to_others(answers, status):
    answers += [refusal(status), SET]
    assert header.state(request()) is None
    assert header.state(request())["on"], "the next user is told"


def test_an_api_that_does_not_answer_leaves_the_brake_unknown(answers):
    answers += [sdk.Unreachable("no answer")]
    assert header.state(request()) == {"known": False}
    assert header.state(request()) == {"known": False}, "the next page does not wait for it"


def test_after_a_change_the_next_page_asks_again(answers):
    answers += [SET, LIFTED]
    assert header.state(request())["on"]
    header.forget(request())
    assert not header.state(request())["on"]


@pytest.mark.parametrize("values", [{"is_authenticated": False}, {"has_perms": lambda perms: False}])
def test_a_user_who_has_no_such_service_causes_no_call(answers, values):
    assert header.state(request(**values)) is None


def test_the_reason_cannot_reverse_the_text(answers):
    answers += [types.SimpleNamespace(on=True, reason="not \u202etes", since=None)]
    assert header.state(request())["reason"] == "not ?tes"
