"""``cloud bootstrap`` and ``cloud remove``: arguments, passwords, configuration, unfinished deletions."""

from __future__ import annotations

import argparse

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from oslo_config import cfg

from cleanup_orchestrator import store
from cleanup_orchestrator.cloud.bootstrap import Account, Outcome
from cleanup_orchestrator.cmd import cloud_setup, manage
from cleanup_orchestrator.cmd.schema import ManageError
from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.deletion import Mode, accepted
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from tests.support import databases

PRINTABLE = st.text(st.characters(min_codepoint=32, exclude_categories=("C", "Z"), include_characters=" ")).filter(
    str.isprintable
)


@given(text=PRINTABLE)
@example(text=" a")
@example(text="a ")
@example(text="'a'")
@example(text='"')
@example(text="$a")
@example(text="\\$a")
@example(text="\\\\$$")
def test_each_value_is_read_as_it_was_meant(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("value") / "test.conf"
    path.write_text(f"[orchestrator]\npassword = {cloud_setup.value(text)}\nname = x\n", encoding="utf-8")
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.StrOpt("password"), cfg.StrOpt("name")], group="orchestrator")
    conf([f"--config-file={path}"], project="test", default_config_files=[])
    assert (conf.orchestrator.password or "", conf.orchestrator.name) == (text, "x")


def arguments(*more):
    parser = argparse.ArgumentParser()
    cloud_setup.add_bootstrap_arguments(parser)
    return parser.parse_args(more)


@pytest.fixture
def clean(monkeypatch):
    for part in ("WORKER", "API", "PROTOCOL"):
        monkeypatch.delenv(f"CLEANUP_{part}_PASSWORD", raising=False)
    return monkeypatch


def test_passwords_come_from_files_and_the_environment_and_from_no_argument(clean, tmp_path):
    (tmp_path / "api").write_text(" of the file \n")
    clean.setenv("CLEANUP_WORKER_PASSWORD", "of the environment")
    clean.setenv("CLEANUP_API_PASSWORD", "not used")
    given = arguments("--password-file", f"api={tmp_path / 'api'}", "--protocol-user", "speaker")
    made = {account.part: account.password for account in cloud_setup._accounts(given)}
    assert made == {"worker": "of the environment", "api": " of the file ", "protocol": ""}
    assert "of the" not in repr(cloud_setup._accounts(given)), "no log shows them"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--api-user", cloud_setup.NAMES["worker"].upper()], "two users have the same name"),
        (["--worker-user", " "], "--worker-user is empty"),
        (["--worker-user", "a\nb"], "has a control character"),
        (["--password-file", "worker"], "it is PART=PATH"),
        (["--password-file", "boss=/dev/null"], "it is PART=PATH"),
        (["--password-file", "api=/dev/null"], "the file is empty"),
        (["--password-file", "api=/no/such/file"], "No such file"),
    ],
)
def test_a_wrong_argument_is_said(clean, given, says):
    with pytest.raises(ManageError, match=says):
        cloud_setup._accounts(arguments(*given))


def test_a_password_with_a_control_character_is_refused(clean, tmp_path):
    (tmp_path / "api").write_text("one\ntwo\n")
    with pytest.raises(ManageError, match="password of api has a control character"):
        cloud_setup._accounts(arguments("--password-file", f"api={tmp_path / 'api'}"))


@pytest.mark.parametrize(
    "url", ["cleanup.example.org", "ftp://x", "http://", "http://a b", "http://u:p@x", "http://x?a=1", ""]
)
def test_what_is_no_url_is_refused(url):
    with pytest.raises(argparse.ArgumentTypeError):
        cloud_setup._url(url)


def test_the_slash_at_the_end_of_a_url_is_dropped():
    assert cloud_setup._url("https://cleanup.example.org:8790/") == "https://cleanup.example.org:8790"


ACCOUNTS = [Account("worker", "w"), Account("api", "a"), Account("protocol", "p")]


def test_only_new_passwords_are_shown_and_a_new_secret_only_for_a_new_user():
    outcome = Outcome("project", "default", {"worker": "id"}, {"api": "new$1", "worker": "reset"}, {"api"})
    worker, api, keystone = cloud_setup.configuration(outcome, ACCOUNTS, "http://keystone/v3").values()
    assert "password = reset" in worker
    # A secret that anybody knows would be one: from it the passwords of the janitors follow.
    assert "[janitor]\n# secret = THE_SECRET_IN_USE" in worker
    assert api.count(r"password = new\$1") == 2 and "own_project_id = project" in api
    assert worker.count(cloud_setup._KEPT) == api.count(cloud_setup._KEPT) == 1, "of the protocol's user"
    assert keystone.endswith("user_id = id")
    outcome.made.add("worker")
    worker, *_ = cloud_setup.configuration(outcome, ACCOUNTS, "http://keystone/v3").values()
    assert len(worker.partition("secret = ")[2].partition("\n")[0]) == 64


def test_a_name_from_keystone_controls_no_terminal_and_begins_no_line(capsys):
    """A manager of a domain may give a user such a name."""
    cloud_setup._say("kept", "user x\x1b[2J\nremoved           user y")
    assert capsys.readouterr().out == "kept              user x\\x1b[2J\\nremoved           user y\n"


def configured(url):
    conf = cfg.ConfigOpts()
    for group, options in store.OPTS.items():
        conf.register_opts(options, group=group)
    conf([], project="test", default_config_files=[])
    conf.set_override("connection", url, group="database")
    return conf


@pytest.fixture
def url(tmp_path):
    return databases.copy_schema(tmp_path / "setup.sqlite")


def record(url, **values):
    opened = store.Store.from_url(url)
    about = {"id": "d" * 32, "project_id": "p" * 32, "project_name": "p", "domain_id": "default"}
    opened.create(accepted(**about, mode=Mode.REPORT, dry_run=True, **values), TASKS, Event("deletion.accepted", "x"))
    opened.close()


def test_nothing_is_removed_while_a_deletion_is_unfinished(url):
    cloud_setup.expect_no_unfinished(configured(url))
    record(url)
    with pytest.raises(ManageError, match=r"d{32}.*openstack project deletion cancel"):
        cloud_setup.expect_no_unfinished(configured(url))


def test_unfinished_deletions_are_those_of_each_live_status():
    assert {"accepted", "draining", "deleting", "cancelling"} <= set(transitions.LIVE)


def test_a_database_that_does_not_answer_does_not_count_as_empty(tmp_path):
    for bad in (f"sqlite:///{tmp_path}/none.sqlite", "postgresql+psycopg://x:hush@127.0.0.1:1/none"):
        with pytest.raises(ManageError, match=r"is not known.*--no-database") as refused:
            cloud_setup.expect_no_unfinished(configured(bad))
        assert "hush" not in str(refused.value)


def test_a_cloud_that_is_not_there_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "clouds.yaml").write_text("clouds: {}\n")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    for verb in (["bootstrap"], ["remove", "--no-database"]):
        assert manage.main(["cloud", *verb, "--os-cloud", "nowhere"]) == 1
        said = capsys.readouterr().err
        assert "cloud nowhere" in said and said.count("\n") == 1
