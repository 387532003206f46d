"""The health check: which parts put a process out of service, and what is shown and logged."""

import pytest
import webob

from cleanup_orchestrator.monitoring import health
from tests.unit.monitoring.test_server import hang


def fine():
    pass


def broken():
    raise ConnectionError("rabbit://user:hush@broker is away")


@pytest.fixture
def asked(play):
    def ask(checks, accept="*/*", method="GET"):
        request = webob.Request.blank("/healthcheck", method=method, accept=accept)
        (answer,) = play.run(lambda: request.get_response(checks))
        return answer

    return ask


def checks(store=fine, keystone=fine, bus=fine, **values):
    parts = [health.Part("store", store, True), health.Part("keystone", keystone, True)]
    return health.Health([*parts, health.Part("bus", bus, False, "the tick goes on")], **values)


def test_the_health_check_of_a_healthy_process(asked):
    answer = asked(checks())
    assert (answer.status_int, answer.text, answer.content_type) == (200, "OK", "text/plain")
    assert asked(checks(), method="HEAD").status_int == 204


@pytest.mark.parametrize("part", ["store", "keystone"])
def test_without_what_is_needed_it_is_out_of_service(asked, part):
    answer = asked(checks(**{part: broken}))
    assert (answer.status_int, answer.text) == (503, f"{part} unavailable")
    assert asked(checks(**{part: broken}), method="HEAD").status_int == 503
    assert asked(checks(**{part: broken}), "application/json").json["status"] == "unavailable"


def test_without_the_broker_it_stays_in_service_and_says_so(asked):
    answer = asked(checks(bus=broken))
    assert (answer.status_int, answer.text) == (200, "OK\nbus unavailable: the tick goes on")
    said = asked(checks(bus=broken), "application/json").json
    assert said["status"] == "degraded"
    assert said["parts"]["bus"] | {"seconds": 0} == {
        "ok": False, "needed": False, "message": "ConnectionError", "seconds": 0,
    }  # fmt: skip


def test_all_parts_are_probed_at_once_and_each_wait_is_limited(play, asked):
    answer = asked(checks(hang, hang, hang, timeout=3), "application/json")
    assert play.now == 3.0
    assert answer.status_int == 503
    assert {part["message"] for part in answer.json["parts"].values()} == {"no answer within 3 s"}
    assert {part["seconds"] for part in answer.json["parts"].values()} == {3.0}


def test_no_text_of_an_error_is_shown_or_logged(asked, caplog):
    for accept in ("text/plain", "application/json", "text/html", "image/png"):
        assert "hush" not in asked(checks(broken, broken, broken), accept).text
    assert "hush" not in caplog.text


def test_the_log_has_one_line_when_it_breaks_and_one_when_it_is_well_again(asked, caplog):
    caplog.set_level("INFO")
    state = [broken]
    # A name of its own: a thread that another file started here may write lines about its store at the same time.
    check = health.Health([health.Part("ledger", lambda: state[0](), needed=True)], keep=0)
    for _ in range(5):
        asked(check)
    state[0] = fine
    for _ in range(5):
        asked(check)
    assert [text for text in caplog.messages if "ledger" in text] == [
        "health check: ledger does not answer: ConnectionError",
        "health check: ledger answers again",
    ]
