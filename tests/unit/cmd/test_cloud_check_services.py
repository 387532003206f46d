"""``cloud check`` of services: the token caches in configuration files, and which results of a list are red."""

from __future__ import annotations

import argparse
import types

import pytest

from cleanup_orchestrator.cloud.catalog import AnsweredBy, CatalogEntryStatus
from cleanup_orchestrator.cmd import cloud_check_services as services
from cleanup_orchestrator.core.conformance import Verdict
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult, Token

AUTH, SWIFT, S3 = "[keystone_authtoken]\n", "[filter:authtoken]\n", "[filter:s3token]\n"


def times(tmp_path, **files):
    paths = []
    for name, text in files.items():
        path = tmp_path / f"{name.replace('_', '-')}.conf"
        path.write_text(text)
        paths.append(str(path))
    return [(option, seconds) for _path, option, seconds in services.cache_times(paths, [])]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (AUTH, [("token_cache_time", 300)]),
        (f"{AUTH}token_cache_time = 60\n", [("token_cache_time", 60)]),
        (f"{AUTH}token_cache_time = 60\ntoken_cache_time = 900\n", [("token_cache_time", 900)]),
        (f"{AUTH}#token_cache_time = 60\n", [("token_cache_time", 300)]),
        (f"[DEFAULT]\ntoken_cache_time = 1\n{AUTH}", [("token_cache_time", 300)]),
        ("[database]\nconnection = x\n", []),
        (SWIFT, []),
        (f"{S3}secret_cache_duration = 7\n", [("secret_cache_duration", 7)]),
        (S3, [("secret_cache_duration", 60)]),
        (f"{AUTH}token_cache_time = often\n", []),
        ("no section = 1\n", []),
    ],
)
def test_what_a_file_says_of_its_cache(tmp_path, text, found):
    assert times(tmp_path, nova=text) == found


def test_the_proxy_of_swift_has_its_options_in_a_filter(tmp_path):
    assert times(tmp_path, proxy_server=SWIFT) == [("token_cache_time", 300)]


def test_a_file_that_cannot_be_read_is_said(tmp_path):
    """Its cache may be the longest one. Root reads each file, so that this is a link to itself."""
    (tmp_path / "cinder.conf").mkdir()
    (tmp_path / "glance.conf").symlink_to(tmp_path / "nothing")
    assert verdicts(tmp_path, 300, nova=AUTH) == [Verdict.OK]
    (tmp_path / "heat.conf").symlink_to(tmp_path / "heat.conf")
    assert verdicts(tmp_path, 300, nova=AUTH) == [Verdict.WARNING, Verdict.OK]


def verdicts(tmp_path, ours, own=(), **files):
    times(tmp_path, **files)
    api, *workers = [str(tmp_path / f"{name}.conf") for name in own] or [""]
    args = argparse.Namespace(service_config=[str(tmp_path / "*.conf")], api_config_file=[api] if api else [])
    conf = types.SimpleNamespace(drain=types.SimpleNamespace(token_cache_time=ours), config_file=workers)
    return [one.verdict for one in services.token_caches(types.SimpleNamespace(args=args, conf=conf))]


@pytest.mark.parametrize(
    ("ours", "files", "verdict"),
    [
        (300, {"nova": AUTH}, Verdict.OK),
        (299, {"nova": AUTH}, Verdict.FAILED),
        (300, {"nova": f"{AUTH}token_cache_time = 301"}, Verdict.FAILED),
        (300, {"nova": f"{AUTH}token_cache_time = 0"}, Verdict.FAILED),
        (300, {"nova": f"{AUTH}token_cache_time = -1"}, Verdict.OK),
        (30, {"nova": f"{AUTH}token_cache_time = 30", "proxy": S3}, Verdict.FAILED),
        (30, {"nova": f"{AUTH}token_cache_time = 30", "proxy": f"{S3}secret_cache_duration = 0"}, Verdict.OK),
        (300, {}, Verdict.WARNING),
    ],
)
def test_a_cache_that_lasts_longer_than_ours_or_for_ever_is_red(tmp_path, ours, files, verdict):
    assert verdicts(tmp_path, ours, **files) == [verdict]


def test_the_orchestrators_own_files_do_not_count(tmp_path):
    files = {"nova": f"{AUTH}token_cache_time = 5", "api": AUTH, "main": AUTH}
    assert verdicts(tmp_path, 5, own=("api", "main"), **files) == [Verdict.OK]
    assert verdicts(tmp_path, 5, own=("api",), **files) == [Verdict.FAILED]


TYPE = types.SimpleNamespace(name="thing", token=Token.ADMIN)
MEMBERS = types.SimpleNamespace(name="member_thing", token=Token.MEMBER)


def listed(monkeypatch, *results, secret="x"):
    """Return what the check says of a service whose types are listed with these results."""
    left = iter(results)
    monkeypatch.setattr(services, "inventory", lambda *_: next(left))
    made = types.SimpleNamespace(service_type="image", types=(TYPE,) * len(results) + (MEMBERS,), regional=True)
    registry = types.SimpleNamespace(services={"image": made}, options=lambda *_: {})
    protocol = types.SimpleNamespace(registry=lambda *_: registry)
    project = types.SimpleNamespace(id="p", name="P", domain_id="d")
    clouds = types.SimpleNamespace(why_no_endpoint=lambda *_: "")
    context = types.SimpleNamespace(
        project=project,
        projects=lambda: types.SimpleNamespace(members=lambda _: ()),
        conf=types.SimpleNamespace(janitor=types.SimpleNamespace(secret=secret)),
        parts=types.SimpleNamespace(clouds=clouds),
    )
    status = CatalogEntryStatus("One", "image", "glance", AnsweredBy.PLUGIN)
    return list(services._service(context, status, protocol))


def test_a_list_of_which_nothing_is_known_is_red_and_names_its_type(monkeypatch):
    good = StepResult(Outcome.LEFTOVERS, found=3)
    bad = StepResult(Outcome.UNKNOWN, str(Reason.FORBIDDEN), "no")
    *_, first, second = listed(monkeypatch, good, bad)
    assert (first.verdict, first.subject) == (Verdict.FAILED, "image.thing One")
    assert "cloud bootstrap" in first.text
    assert second.verdict is Verdict.WARNING and "member_thing" in second.text
    *_, last = listed(monkeypatch, good, good)
    assert last.verdict is Verdict.OK and "2 types: 6 resources" in last.text


@pytest.mark.parametrize(
    ("reason", "command"),
    [
        (Reason.NO_PROJECT_TOKEN, "cloud bootstrap"),
        (Reason.FORBIDDEN, "cloud bootstrap"),
        (Reason.UNREACHABLE, "openstack endpoint set --url"),
        (Reason.BAD_ANSWER, "openstack endpoint list --service image --region One"),
    ],
)
def test_each_reason_has_its_command(monkeypatch, reason, command):
    found = listed(monkeypatch, StepResult(Outcome.UNKNOWN, str(reason), "odd"))
    (red,) = [one for one in found if one.verdict is Verdict.FAILED]
    assert command in red.text.partition("Run: ")[2]


@pytest.mark.parametrize(
    ("by", "verdict"),
    [
        (AnsweredBy.UNSUPPORTED, Verdict.FAILED),
        (AnsweredBy.WAIVED, Verdict.WARNING),
        (AnsweredBy.NOTHING_TO_OWN, Verdict.OK),
    ],
)
def test_a_service_that_nothing_covers_is_red(by, verdict):
    (found,) = services._service(None, CatalogEntryStatus("One", "dreams", "x", by, message="so"), None)
    assert found.verdict is verdict and "so" in found.text
