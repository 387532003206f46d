"""``cleanup-orchestrator-status upgrade check``: what an operator asks before starting a new release."""

import json

import pytest

from cleanup_orchestrator.cmd import manage, status
from cleanup_orchestrator.errors import CleanupError


@pytest.fixture
def check(tmp_path, capsys):
    """Run the checks with a configuration; give the exit code and the failures with their details."""

    def run(url, more=""):
        path = tmp_path / "status.conf"
        path.write_text(f"[database]\nconnection = {url}\n{more}")
        code = status.main(["--config-file", str(path), "upgrade", "check", "--json"])
        answer = json.loads(capsys.readouterr().out)
        return code, {one["check"]: one["details"] for one in answer["checks"] if one["result"]}

    return run


def test_a_database_at_head_is_fine(database_url, check):
    manage.upgrade(database_url)
    assert check(database_url) == (0, {})


def test_no_schema_yet(tmp_path, check):
    code, failures = check(f"sqlite:///{tmp_path}/none.sqlite")
    assert code == 2
    assert "run: cleanup-orchestrator-manage db upgrade" in failures["Database"]


def test_an_unreachable_database(check):
    code, failures = check("postgresql+psycopg://x:hush@127.0.0.1:1/none")
    assert code == 2
    assert "refused" in failures["Database"]
    assert "hush" not in failures["Database"]


def test_a_plugin_that_does_not_load(database_url, check, monkeypatch):
    def broken():
        raise CleanupError("plugin network does not load: no such thing")

    manage.upgrade(database_url)
    monkeypatch.setattr(status.registry, "load", broken)
    code, failures = check(database_url)
    assert code == 2
    assert failures == {"Plugins": "CleanupError: plugin network does not load: no such thing"}


def test_a_policy_file_in_json(tmp_path, check):
    url = f"sqlite:///{tmp_path}/p.sqlite"
    manage.upgrade(url)
    (tmp_path / "policy.json").write_text("{}")
    code, failures = check(url, f"[oslo_policy]\npolicy_file = {tmp_path}/policy.json\n")
    assert code == 2
    assert "JSON-formatted" in failures["Policy file"]


def test_a_missing_configuration_file_is_one_line(capsys):
    assert status.main(["--config-file", "/nonexistent.conf", "upgrade", "check"]) == 255
    assert len(capsys.readouterr().err.splitlines()) == 1
