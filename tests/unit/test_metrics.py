"""Metrics and health: what is counted, that it stays small, and that nothing that hangs hangs them."""

import re
import threading
import time
from pathlib import Path

import pytest
import webob
from keystoneauth1 import exceptions as ka_exceptions
from prometheus_client import CollectorRegistry, generate_latest

from cleanup_orchestrator import health, metrics, monitoring, work
from cleanup_orchestrator.bounded import Bounded, NoAnswer
from cleanup_orchestrator.errors import Stopped, WriteRefused
from cleanup_orchestrator.model import Outcome, State, Status
from cleanup_orchestrator.store import Figures
from tests.timing import measures_time
from tests.unit import world

PAGE = Path(__file__).parents[2] / "doc" / "source" / "admin" / "monitoring.rst"
FIGURES = Figures({"deleted": 3, "deleting": 2}, 1, {"running": 4}, 12.5, 0.5)


def table(title):
    """Return the labels of each metric in a section of the manual."""
    text = PAGE.read_text().partition(f"\n{title}\n")[2].partition("\n\n\n")[0]
    text = re.split(r"\n(?:-{4,}|={4,})\n", text.partition("\n")[2])[0]
    rows = re.findall(r"   \* - ``(cleanup_orchestrator_\w+)``\n     -(.*)\n", text)
    return {name: set(re.findall(r"``(\w+)``", labels)) for name, labels in rows}


def exposed(metric):
    """Return the name under which Prometheus knows a metric of the client library."""
    return metric._name + ("_total" if metric._type == "counter" else "")


def ours():
    return {m for m in metrics.REGISTRY._collector_to_names if hasattr(m, "_labelnames")}


def calls(service, status):
    return metrics.CALLS.labels(service, status)._value.get()


def test_the_manual_has_every_metric_of_a_process_with_its_labels():
    assert table("Of this process") == {exposed(m): set(m._labelnames) for m in ours()}


def test_the_manual_has_every_metric_of_the_store_with_its_labels():
    families = monitoring.StoreCollector(lambda: FIGURES).collect()
    found = {f.name: {label for s in f.samples for label in s.labels} for f in families}
    assert table("Of all deletions") == found


def test_the_manual_names_every_outcome():
    said = PAGE.read_text().partition("cleanup_orchestrator_steps_total")[2].partition("* - ``cleanup")[0]
    assert set(re.findall(r"``(\w+)``", said)) == {"kind", "outcome", *metrics.outcomes()}


def test_no_label_can_grow_with_the_number_of_projects():
    """Each label has values of one small, closed set; a service type is one of os-service-types or of a plugin."""
    closed = {"kind", "outcome", "service", "status", "result", "state"}
    labels = {label for m in ours() for label in m._labelnames}
    labels |= {k for f in monitoring.StoreCollector(lambda: FIGURES).collect() for s in f.samples for k in s.labels}
    assert labels <= closed


def test_a_call_is_counted_by_service_and_how_it_was_answered():
    before = calls("block-storage", "2xx"), calls("block-storage", "5xx"), calls("block-storage", "none")
    for alias in ("volumev3", "volume", "block-storage"):
        with metrics.call({"service_type": alias}) as answered:
            answered(204)
    with pytest.raises(ka_exceptions.HttpError), metrics.call({"service_type": "volumev3"}):
        raise ka_exceptions.ServiceUnavailable
    with pytest.raises(ka_exceptions.ConnectFailure), metrics.call({"service_type": "volumev3"}):
        raise ka_exceptions.ConnectFailure
    after = calls("block-storage", "2xx"), calls("block-storage", "5xx"), calls("block-storage", "none")
    assert [b - a for a, b in zip(before, after, strict=True)] == [3, 1, 1]


@pytest.mark.parametrize("refusal", [Stopped, WriteRefused])
def test_what_the_guard_withheld_was_no_call(refusal):
    before = generate_latest(metrics.REGISTRY).count(b"weird-service")
    with pytest.raises(refusal), metrics.call({"service_type": "weird-service"}):
        raise refusal("no")
    assert generate_latest(metrics.REGISTRY).count(b"weird-service") == before == 0


def test_a_call_for_a_token_is_keystones():
    before = calls("identity", "2xx")
    with metrics.call(None) as answered:
        answered(201)
    assert calls("identity", "2xx") == before + 1


def test_a_step_is_counted_with_its_time():
    step = world.sweep_step("network.port")
    before = metrics.STEPS.labels("sweep", "clear")._value.get()
    metrics.step_ended(step, str(Outcome.CLEAR), 1.5)
    assert metrics.STEPS.labels("sweep", "clear")._value.get() == before + 1
    assert b'step_duration_seconds_bucket{kind="sweep",le="2.0",service="network"}' in generate_latest(metrics.REGISTRY)


def test_what_is_worked_on_is_counted_while_it_is():
    assert work.items() == ()
    with work.on("decide", "d", "p"), work.on("network.port@R1", "d", "p", "s"):
        assert [item.what for item in work.items()] == ["decide", "network.port@R1"]
        assert b"work_in_progress 2.0" in generate_latest(metrics.REGISTRY)
    with pytest.raises(ValueError), work.on("decide", "d"):
        raise ValueError
    assert work.items() == ()


def scraped(figures):
    registry = CollectorRegistry()
    registry.register(monitoring.StoreCollector(figures))
    return generate_latest(registry).decode()


def test_every_status_has_a_series_also_when_there_is_no_such_deletion():
    text = scraped(lambda: FIGURES)
    assert set(re.findall(r'_deletions\{status="(\w+)"\}', text)) == {str(s) for s in Status}
    assert 'cleanup_orchestrator_deletions{status="deleted"} 3.0' in text
    assert 'cleanup_orchestrator_deletions{status="failed"} 0.0' in text
    assert f'cleanup_orchestrator_steps_under_way{{state="{State.RUNNING}"}} 4.0' in text
    assert "cleanup_orchestrator_deletions_stalled 1.0" in text
    assert "cleanup_orchestrator_unclaimed_step_age_seconds 12.5" in text


def test_a_store_that_does_not_answer_gives_no_old_figures():
    def away():
        raise ConnectionError("postgresql://cleanup:hush@db/cleanup is away")

    text = scraped(away)
    assert "cleanup_orchestrator_store_up 0.0" in text
    assert "_deletions" not in text and "hush" not in text


def test_many_who_scrape_cost_one_query():
    asked = []
    collector = monitoring.StoreCollector(lambda: asked.append(1) or FIGURES)
    registry = CollectorRegistry()
    registry.register(collector)
    assert asked == []  # registering does not ask
    threads = [threading.Thread(target=generate_latest, args=(registry,)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked == [1]


# --------------------------------------------------------------------------------------------------------- bounded
@measures_time
def test_what_hangs_is_waited_for_once_and_only_so_long():
    go, begun = threading.Event(), []

    def hang():
        begun.append(1)
        go.wait(30)
        return "late"

    ask, began = Bounded(hang, timeout=1, keep=0), time.monotonic()
    for _ in range(5):
        with pytest.raises(NoAnswer):
            ask()
    assert time.monotonic() - began < 4  # the later ones do not wait at all
    assert begun == [1]
    go.set()
    while ask.begin().ended is None:
        time.sleep(0.01)
    assert ask() == "late"


def test_an_answer_is_kept_for_a_while_and_so_is_an_error():
    asked = []

    def fail():
        asked.append(1)
        raise ValueError("no")

    ask = Bounded(fail, timeout=5, keep=0.2)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            ask()
    assert asked == [1]
    time.sleep(0.25)
    with pytest.raises(ValueError, match="no"):
        ask()
    assert asked == [1, 1]


# ---------------------------------------------------------------------------------------------------------- health
def fine():
    pass


def broken():
    raise ConnectionError("rabbit://user:hush@broker is away")


def asked(checks, accept="*/*", method="GET"):
    request = webob.Request.blank("/healthcheck", method=method, accept=accept)
    return request.get_response(checks)


def checks(store=fine, keystone=fine, bus=fine, **values):
    parts = [health.Part("store", store, True), health.Part("keystone", keystone, True)]
    return health.Health([*parts, health.Part("bus", bus, False, "the tick goes on")], **values)


def test_all_is_well():
    answer = asked(checks())
    assert (answer.status_int, answer.text, answer.content_type) == (200, "OK", "text/plain")
    assert asked(checks(), method="HEAD").status_int == 204


@pytest.mark.parametrize("part", ["store", "keystone"])
def test_without_what_is_needed_it_is_out_of_service(part):
    answer = asked(checks(**{part: broken}))
    assert (answer.status_int, answer.text) == (503, f"{part} unavailable")
    assert asked(checks(**{part: broken}), method="HEAD").status_int == 503
    assert asked(checks(**{part: broken}), "application/json").json["status"] == "unavailable"


def test_without_the_broker_it_stays_in_service_and_says_so():
    answer = asked(checks(bus=broken))
    assert (answer.status_int, answer.text) == (200, "OK\nbus unavailable: the tick goes on")
    said = asked(checks(bus=broken), "application/json").json
    assert said["status"] == "degraded"
    assert said["parts"]["bus"] | {"seconds": 0} == {
        "ok": False, "needed": False, "message": "ConnectionError", "seconds": 0,
    }  # fmt: skip


@measures_time
def test_all_parts_are_asked_at_once_and_none_is_waited_for_too_long():
    go = threading.Event()
    hang = lambda: go.wait(30)  # noqa: E731
    began = time.monotonic()
    answer = asked(checks(hang, hang, hang, timeout=3), "application/json")
    assert time.monotonic() - began < 6, "two one after the other take that long; a busy machine adds a second or so"
    assert answer.status_int == 503
    assert {part["message"] for part in answer.json["parts"].values()} == {"no answer within 3 s"}
    go.set()


def test_no_word_of_an_error_is_shown_or_logged(caplog):
    for accept in ("text/plain", "application/json", "text/html", "image/png"):
        assert "hush" not in asked(checks(broken, broken, broken), accept).text
    assert "hush" not in caplog.text


def test_the_log_has_one_line_when_it_breaks_and_one_when_it_is_well_again(caplog):
    caplog.set_level("INFO")
    state = [broken]
    check = checks(store=lambda: state[0](), keep=0)
    for _ in range(5):
        asked(check)
    state[0] = fine
    for _ in range(5):
        asked(check)
    lines = [record.message for record in caplog.records if record.name == health.__name__]
    assert lines == [
        "health check: store does not answer: ConnectionError",
        "health check: store answers again",
    ]
