"""Metrics and health: what is counted, that it stays small, and that nothing that hangs hangs them."""

import os
import re
import time
from pathlib import Path

import psutil
import pytest
import webob
from keystoneauth1 import exceptions as ka_exceptions
from prometheus_client import CollectorRegistry, generate_latest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.step import Outcome, StepState
from cleanup_orchestrator.errors import Stopped, WriteRefused
from cleanup_orchestrator.monitoring import activity, health, metrics, probe, reports, server
from cleanup_orchestrator.monitoring.probe import CachedProbe, NoAnswer
from cleanup_orchestrator.store import Figures
from tests.support.scheduler import Active
from tests.support.virtual_time import virtual_time
from tests.unit import world

PAGE = Path(__file__).parents[3] / "doc" / "source" / "admin" / "monitoring.rst"
FIGURES = Figures({"deleted": 3, "deleting": 2}, 1, {"running": 4}, 12.5, 0.5, 6, 7, True, 8)


@pytest.fixture(autouse=True)
def play():
    """Questions that may hang are asked on virtual time."""
    with virtual_time(probe, health) as made:
        yield made


def hang():
    Active.simulation.sleep(30.0)
    return "late"


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


def test_a_process_has_its_metrics_where_proc_shows_only_processes(tmp_path):
    """As under ``ProcSubset=pid``: there is no ``/proc/stat``."""
    (tmp_path / "self").symlink_to("/proc/self")
    found = {metric.name: metric for metric in metrics._OfThisProcess(proc=str(tmp_path), registry=None).collect()}
    assert {"process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"} <= set(found)
    [sample] = found["process_start_time_seconds"].samples
    assert 0 <= time.time() - sample.value < 86400


def test_a_report_with_a_failed_section_has_the_others(tmp_path, monkeypatch):
    """As under ``ProcSubset=pid``: psutil has no ``/proc/stat``."""
    (tmp_path / "self").symlink_to("/proc/self")
    (tmp_path / str(os.getpid())).symlink_to(f"/proc/{os.getpid()}")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    text = reports.Report(reports._Version()).run()
    assert "Threads" in text and "test_a_report_with_a_failed_section_has_the_others" in text
    assert "FileNotFoundError" in text.partition(" Processes ")[2].partition(" Configuration ")[0]


def test_the_manual_has_every_metric_of_a_process_with_its_labels():
    assert table("Metrics of one process") == {exposed(m): set(m._labelnames) for m in ours()}


def test_the_manual_has_every_metric_of_the_store_with_its_labels(play):
    (families,) = play.run(server.StoreCollector(lambda: FIGURES).collect)
    found = {f.name: {label for s in f.samples for label in s.labels} for f in families}
    assert table("Metrics of all deletions") == found


def test_the_manual_names_every_outcome():
    said = PAGE.read_text().partition("cleanup_orchestrator_steps_total")[2].partition("* - ``cleanup")[0]
    assert set(re.findall(r"``(\w+)``", said)) == {"kind", "outcome", *metrics.outcomes()}


def test_no_label_can_grow_with_the_number_of_projects(play):
    """Each label has values of one small, closed set; a service type is one of os-service-types or of a plugin."""
    (families,) = play.run(server.StoreCollector(lambda: FIGURES).collect)
    closed = {"kind", "outcome", "service", "status", "result", "state"}
    labels = {label for m in ours() for label in m._labelnames}
    labels |= {k for f in families for s in f.samples for k in s.labels}
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


def test_a_call_for_a_token_is_counted_for_keystone():
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
    assert activity.items() == ()
    with activity.track("decide", "d", "p"), activity.track("network.port@R1", "d", "p", "s"):
        assert [item.what for item in activity.items()] == ["decide", "network.port@R1"]
        assert b"work_in_progress 2.0" in generate_latest(metrics.REGISTRY)
    with pytest.raises(ValueError), activity.track("decide", "d"):
        raise ValueError
    assert activity.items() == ()


def scraped(play, figures):
    registry = CollectorRegistry()
    registry.register(server.StoreCollector(figures))
    (text,) = play.run(lambda: generate_latest(registry).decode())
    return text


def test_every_status_has_a_series_also_when_there_is_no_such_deletion(play):
    text = scraped(play, lambda: FIGURES)
    assert set(re.findall(r'_deletions\{status="(\w+)"\}', text)) == {str(s) for s in Status}
    assert 'cleanup_orchestrator_deletions{status="deleted"} 3.0' in text
    assert 'cleanup_orchestrator_deletions{status="failed"} 0.0' in text
    assert f'cleanup_orchestrator_steps_under_way{{state="{StepState.RUNNING}"}} 4.0' in text
    others = {
        "store_up": 1, "deletions_stalled": 1, "deletions_blocked": 8, "deletions_held": 6, "liens": 7, "brake_on": 1,
        "unclaimed_step_age_seconds": 12.5, "overdue_seconds": 0.5,
    }  # fmt: skip
    assert {
        name for name, value in others.items() if f"cleanup_orchestrator_{name} {float(value)}" not in text
    } == set()


def test_a_store_that_does_not_answer_gives_no_old_figures(play):
    def away():
        raise ConnectionError("postgresql://cleanup:hush@db/cleanup is away")

    text = scraped(play, away)
    assert "cleanup_orchestrator_store_up 0.0" in text
    assert "_deletions" not in text and "hush" not in text


def test_a_store_that_hangs_is_waited_for_five_seconds(play):
    text = scraped(play, hang)
    assert "cleanup_orchestrator_store_up 0.0" in text and "_deletions" not in text
    assert play.now == 5.0


def test_simultaneous_scrapes_cost_one_query(play):
    asked = []

    def figures():
        asked.append(play.now)
        play.simulation.sleep(0.1)
        return FIGURES

    registry = CollectorRegistry()
    registry.register(server.StoreCollector(figures))
    assert asked == []  # registering does not ask
    play.run(*[lambda: generate_latest(registry)] * 20)
    assert asked == [0.0]
    play.sleep(9.5)
    play.run(lambda: generate_latest(registry))
    assert asked == [0.0]
    play.sleep(0.5)
    play.run(lambda: generate_latest(registry))
    assert len(asked) == 2


# --------------------------------------------------------------------------------------------------------- bounded
def test_what_hangs_is_waited_for_once_and_only_so_long(play):
    begun = []

    def slow():
        begun.append(1)
        return hang()

    ask = CachedProbe(slow, timeout=1, keep=10)
    for _ in range(5):
        with pytest.raises(NoAnswer):
            play.run(ask)
    assert play.now == 1.0  # the later ones do not wait at all
    play.sleep(30.0)
    assert play.run(ask) == ["late"]
    assert begun == [1]


def test_an_answer_that_comes_in_time_is_waited_for(play):
    def slow():
        play.simulation.sleep(0.9)
        return "in time"

    assert play.run(CachedProbe(slow, timeout=1, keep=0)) == ["in time"]
    assert play.now == 0.9


def test_an_answer_is_kept_for_a_while_and_so_is_an_error(play):
    asked = []

    def fail():
        asked.append(1)
        raise ValueError("no")

    ask = CachedProbe(fail, timeout=5, keep=0.2)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            play.run(ask)
    assert asked == [1]
    play.sleep(0.19)
    with pytest.raises(ValueError, match="no"):
        play.run(ask)
    assert asked == [1]
    play.sleep(0.02)
    with pytest.raises(ValueError, match="no"):
        play.run(ask)
    assert asked == [1, 1]


# ---------------------------------------------------------------------------------------------------------- health
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
