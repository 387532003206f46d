"""``cleanup-orchestrator-status upgrade check``: what an operator asks before starting a new release."""

import json
import pathlib

import pytest

from cleanup_orchestrator.cmd import schema, status
from cleanup_orchestrator.errors import CleanupError
from tests.support import databases

CREDENTIALS = """
auth_type = password
auth_url = http://keystone.example.com/v3
username = orchestrator
password = hush-hush
project_name = service
user_domain_id = default
project_domain_id = default
"""
SOUND = {
    "orchestrator": CREDENTIALS,
    "keystone_authtoken": CREDENTIALS,
    "janitor": f"secret = {'hush' * 8}",
    "DEFAULT": "transport_url = rabbit://cleanup:hush-hush@rabbit.example.com/",
}


@pytest.fixture
def check(tmp_path, capsys):
    """Run the checks with a valid configuration plus ``more``; return the exit code and the failed checks."""

    def run(url, **more):
        sections = {"database": f"connection = {url}", **SOUND}
        if url.startswith("sqlite"):
            sections["DEFAULT"] = ""
        sections.update(more)
        path = tmp_path / "status.conf"
        path.write_text("".join(f"[{name}]\n{text}\n" for name, text in sections.items()))
        code = status.main(["--config-file", str(path), "upgrade", "check", "--json"])
        out = capsys.readouterr().out
        assert "hush" not in out
        return code, {one["check"]: one["details"] for one in json.loads(out)["checks"] if one["result"]}

    return run


@pytest.fixture
def url(tmp_path):
    """A database at head."""
    return databases.copy_schema(tmp_path / "status.sqlite")


def test_a_database_at_head_is_fine(database_url, check):
    assert check(database_url) == (0, {})


def test_no_schema_yet(tmp_path, check):
    code, failures = check(f"sqlite:///{tmp_path}/none.sqlite")
    assert code == 2
    assert "run: cleanup-orchestrator-manage db upgrade" in failures["Database"]


def test_a_schema_of_an_earlier_release(url, check, monkeypatch):
    before = schema.revisions()
    monkeypatch.setattr(schema, "revisions", lambda: ["9999", *before])
    code, failures = check(url)
    assert code == 2
    assert f"The schema is at {before[0]}, this release needs 9999" in failures["Database"]


def test_a_bus_within_one_process_does_not_suit_a_database_server(check):
    """It is said also while the database does not answer."""
    _, failures = check("postgresql+psycopg://x:hush@127.0.0.1:1/none", DEFAULT="transport_url = fake://")
    assert "connects no other process" in failures["Message bus"]


def test_an_unreachable_database(check):
    code, failures = check("postgresql+psycopg://x:hush@127.0.0.1:1/none")
    assert code == 2
    assert "refused" in failures["Database"]
    assert "hush" not in failures["Database"]


def test_a_plugin_that_does_not_load(database_url, check, monkeypatch):
    def broken(_versions):
        raise CleanupError("plugin network does not load: no such thing")

    monkeypatch.setattr(status.registry, "load", broken)
    code, failures = check(database_url)
    assert code == 2
    assert failures == {"Plugins": "CleanupError: plugin network does not load: no such thing"}


def test_a_reader_of_the_system_has_to_name_the_workers_project(database_url, check):
    reader = CREDENTIALS.replace("project_name = service", "system_scope = all")
    code, found = check(database_url, orchestrator=reader)
    assert code == 2
    assert "own_project_id" in found["Credentials"]
    assert check(database_url, orchestrator=reader, keystone_authtoken="")[0] == 2
    assert check(database_url, orchestrator=f"{reader}own_project_id = 0b6d\n") == (0, {})


def test_no_janitor(database_url, check):
    code, found = check(database_url, janitor="")
    assert code == 1
    assert "no stack and no cluster can be deleted" in found["Janitor"]


@pytest.mark.parametrize("secret", ["hush-hush", "A_LONG_RANDOM_STRING"])
def test_a_secret_of_the_janitors_that_can_be_guessed(database_url, check, secret):
    code, found = check(database_url, janitor=f"secret = {secret}")
    assert code == 2
    assert "can be guessed" in found["Janitor"]


def test_a_policy_file_in_json(url, tmp_path, check):
    (tmp_path / "policy.json").write_text("{}")
    code, failures = check(url, oslo_policy=f"policy_file = {tmp_path}/policy.json")
    assert code == 2
    assert "JSON-formatted" in failures["Policy file"]


@pytest.mark.parametrize(
    ("database", "transport", "code", "said"),
    [
        ("sqlite", "", 0, ""),
        ("sqlite", "fake://", 0, ""),
        ("sqlite", "rabbit://x:hush@h/", 1, "SQLite, which serves one process"),
        pytest.param("postgresql", "rabbit://x:hush@h/", 0, "", marks=pytest.mark.real),
        pytest.param("postgresql", "fake://", 2, "connects no other process", marks=pytest.mark.real),
        pytest.param("postgresql", "", 1, "names no host", marks=pytest.mark.real),
        # The start of a process checks whether the driver is installed.
        pytest.param("postgresql", "nonsense://x:hush@h/", 0, "", marks=pytest.mark.real),
    ],
)
def test_what_carries_messages_must_suit_what_keeps_records(check, database, transport, code, said):
    with databases.filled(database) as url:
        got, failures = check(url, DEFAULT=f"transport_url = {transport}" if transport else "")
        assert got == code, failures
        assert said in failures.get("Message bus", "")
        assert bool(said) == bool(failures)


@pytest.mark.parametrize("group", ["orchestrator", "keystone_authtoken"])
@pytest.mark.parametrize("text", ["", "auth_type = no-such-thing", "auth_type = password"])
def test_a_user_that_cannot_log_in(url, check, group, text):
    code, failures = check(url, **{group: text})
    of_a_worker = group == "keystone_authtoken" and not text  # which checks no tokens
    assert (code, list(failures)) == (1 if of_a_worker else 2, ["Credentials"])
    assert f"[{group}]" in failures["Credentials"]


@pytest.mark.parametrize("group", ["orchestrator", "keystone_authtoken"])
def test_the_files_of_two_processes_at_once_are_no_configuration(url, check, group):
    """oslo.config merges them option by option: a user with the scopes of two configurations cannot log in."""
    code, failures = check(url, **{group: f"{CREDENTIALS}system_scope = all\nown_project_id = 0b6d\n"})
    assert code == 2
    assert failures["Credentials"].startswith(f"[{group}] has project_name and system_scope: a token has one scope")


def test_the_key_of_the_sample_keeps_nothing_secret(url, check):
    key = "memcache_secret_key = A_LONG_RANDOM_STRING\n"
    code, failures = check(url, keystone_authtoken=CREDENTIALS + key)
    assert (code, list(failures)) == (2, ["Credentials"])
    assert "is the one of the sample" in failures["Credentials"]
    assert check(url, keystone_authtoken=CREDENTIALS + key.replace("A_LONG", "ANOTHER"))[0] == 0
    sample = pathlib.Path(__file__).parents[2] / "etc/cleanup-orchestrator-api.conf.sample"
    assert key in sample.read_text()


def test_credentials_of_another_section_are_fine(url, check):
    assert check(url, keystone_authtoken="auth_section = orchestrator") == (0, {})


def test_a_drain_driver_that_is_not_there(url, check):
    code, failures = check(url, drain="driver = nonesuch")
    assert (code, list(failures)) == (2, ["Drain driver"])
    assert "nonesuch" in failures["Drain driver"]


def test_no_settling_time_is_a_warning(url, check):
    code, failures = check(url, drain="token_cache_time = 0")
    assert (code, list(failures)) == (1, ["Settling time"])
    assert "[keystone_authtoken] token_cache_time = -1" in failures["Settling time"]
    assert "secret_cache_duration = 0" in failures["Settling time"]  # the S3 API of Swift has a cache of its own


def test_a_notification_driver_that_is_not_there_is_a_warning(url, check):
    """oslo.messaging itself reports nothing, and sends nothing."""
    code, failures = check(url, oslo_messaging_notifications="driver = messagingv3")
    assert (code, list(failures)) == (1, ["Notifications"])
    assert check(url, oslo_messaging_notifications="driver = log") == (0, {})


@pytest.mark.parametrize(
    ("rules", "code", "said"),
    [
        ('"cleanup:deletions:create": "role:admin"', 0, ""),
        ('"cleanup:deletion:create": "role:admin"', 1, "cleanup:deletion:create"),
        ('"cleanup:deletions:create": "rule:no_such_rule"', 2, "refers to an unknown rule"),
        ("this is: [no policy", 2, "oslo_policy"),
    ],
)
def test_the_policy_file_is_read(url, check, tmp_path, rules, code, said):
    (tmp_path / "ours.yaml").write_text(rules)
    got, failures = check(url, oslo_policy=f"policy_file = {tmp_path}/ours.yaml")
    assert (got, list(failures)) == (code, ["Policy rules"] if code else [])
    assert said in failures.get("Policy rules", "")


def test_a_policy_file_that_is_named_and_not_there(url, check):
    code, failures = check(url, oslo_policy="policy_file = /nonexistent/policy.yaml")
    assert (code, list(failures)) == (1, ["Policy rules"])


def test_a_missing_configuration_file_is_one_line(capsys):
    assert status.main(["--config-file", "/nonexistent.conf", "upgrade", "check"]) == 255
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "line",
    [
        "--config-file {} upgrade check --json",
        "upgrade --config-file {} check --json",
        "upgrade check --config-file {} --json",
        "upgrade check --json --config-file={}",
    ],
)
def test_the_configuration_file_is_named_anywhere(line, url, tmp_path, capsys):
    path = tmp_path / "named.conf"
    path.write_text(f"[database]\nconnection = {url}\n")
    assert status.main(line.format(path).split()) == 2  # there are no credentials in it
    found = {one["check"]: one["result"] for one in json.loads(capsys.readouterr().out)["checks"]}
    assert (found["Database"], found["Credentials"]) == (0, 2)


@pytest.mark.parametrize("line", ["", "upgrade", "upgrade look", "upgrade check more", "--bogus", "upgrade check -x"])
def test_a_wrong_command_line_is_2(line, capsys):
    with pytest.raises(SystemExit) as ended:
        status.main(line.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: cleanup-orchestrator-status ")
