"""The plugin keeps the contract, without a cloud and on a cloud."""

import json
import os
import subprocess
import sys

import pytest
import yaml
from fake_cloud import PROJECT, FakeCloud
from functions_plugin import SERVICE, keep_examples, protect_published

from cleanup_orchestrator.plugins import conformance
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource

FUNCTION = SERVICE.types[1]


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    """A cloud with functions and triggers, which ``clouds.yaml`` names."""
    with FakeCloud() as made:
        file = tmp_path / "clouds.yaml"
        file.write_text(yaml.safe_dump(made.clouds()))
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(file))
        yield made


def test_the_plugin_keeps_the_contract():
    assert conformance.problems(SERVICE) == []


def test_the_installed_plugin_passes_each_rule_on_a_cloud(cloud):
    command = [sys.executable, "-m", "cleanup_orchestrator.cmd.manage", "plugin", "check", "function-engine"]
    command += ["--cloud", "admin", "--project", PROJECT, "--as-member", "member", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    answers = {f"{each['subject']} {each['rule']}": each["answer"] for each in json.loads(done.stdout)["findings"]}
    assert {name: answer for name, answer in answers.items() if answer != "ok"} == {}
    assert cloud.writes == []


@pytest.mark.parametrize(
    ("rule", "row", "applies"),
    [
        (keep_examples, {"example": True}, True),
        (keep_examples, {"example": False}, False),
        (protect_published, {"published": True}, True),
        (protect_published, {}, False),
    ],
)
def test_what_is_not_deleted(rule, row, applies):
    project = ProjectDefinition(PROJECT, "name", "default", "RegionOne")
    assert bool(rule(Resource("1", "one", PROJECT, row), project)) is applies
    assert rule in (*FUNCTION.keep, *FUNCTION.protect)
