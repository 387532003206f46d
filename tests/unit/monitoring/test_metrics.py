"""Metrics and health: what is counted, that it stays small, and that nothing that hangs hangs them."""

import re
import time
from pathlib import Path

import pytest
from keystoneauth1 import exceptions as ka_exceptions
from prometheus_client import generate_latest

from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.errors import Stopped, WriteRefused
from cleanup_orchestrator.monitoring import activity, metrics, server
from cleanup_orchestrator.store import Figures
from tests.unit import world

PAGE = Path(__file__).parents[3] / "doc" / "source" / "admin" / "monitoring.rst"
FIGURES = Figures({"deleted": 3, "deleting": 2}, 1, {"running": 4}, 12.5, 0.5, 6, 7, True, 8)


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
