"""The alert rules and the dashboard in ``etc/`` use metrics that exist; Prometheus loads the rules and fires them."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

from tests.support.cases import each_case

ROOT = pathlib.Path(__file__).parents[2]
RULES = ROOT / "etc" / "prometheus-alerts.yaml"
TESTS = pathlib.Path(__file__).with_name("alerts.test.yaml")
DASHBOARD = ROOT / "etc" / "grafana-dashboard.json"
PAGE = ROOT / "doc" / "source" / "admin" / "monitoring.rst"


def rules():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def queries():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def documented():
    """The metrics that the page names, with the names under which Prometheus stores histograms.

    They are those that processes export: tests/unit/monitoring/test_metrics.py compares them.
    """
    names = set(re.findall(r"\* - ``(cleanup_orchestrator_\w+)``", PAGE.read_text()))
    return names | {f"{name}_bucket" for name in names if name.endswith("_seconds")}


def used(expression):
    return set(re.findall(r"cleanup_orchestrator_\w+", expression))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_uses_metrics_that_exist_and_says_what_to_do(rule):
    assert used(rule["expr"])
    assert used(rule["expr"]) - documented() == set()
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description"}
    assert f"   * - ``{rule['alert']}``\n     - {rule['labels']['severity']}\n" in PAGE.read_text()


@each_case("query", queries())
def test_the_dashboard_uses_metrics_that_exist(query):
    assert used(query) - documented() == set()
    assert used(query) or "process_" in query


def test_the_dashboard_shows_every_metric():
    shown = set().union(*map(used, queries()))
    missing = documented() - shown - {"cleanup_orchestrator_store_up"}
    assert {name for name in missing if f"{name}_bucket" not in shown and not name.endswith("_bucket")} == set()


def test_each_alert_has_a_case_in_which_it_fires():
    fires = set(re.findall(r'alertname="(\w+)"', TESTS.read_text()))
    assert fires == {rule["alert"] for rule in rules()}


@pytest.fixture
def promtool():
    found = shutil.which("promtool")
    if found is None:
        why = "promtool is missing; on Debian it is in the package prometheus"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(why)

    def run(*arguments):
        done = subprocess.run([found, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


@pytest.mark.real
def test_prometheus_loads_the_rules_and_fires_them(promtool, tmp_path):
    shutil.copy(RULES, tmp_path)
    shutil.copy(TESTS, tmp_path)
    promtool("check", "rules", tmp_path / RULES.name)
    promtool("test", "rules", tmp_path / TESTS.name)


@pytest.mark.real
def test_prometheus_reads_the_queries_of_the_dashboard(promtool, tmp_path):
    records = [
        {"record": f"query:number{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries())
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}))
    promtool("check", "rules", path)
