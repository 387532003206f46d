"""Webhooks: what a receiver gets, and what becomes of one that fails, hangs or redirects."""

import hashlib
import hmac
import json
import time

import pytest

from cleanup_orchestrator.notices import driver, webhook
from tests.support.cases import each_case
from tests.support.notices import SECRET


@pytest.fixture
def hooked(site, receiver):
    values = {"webhook_url": f"{receiver.url}/hook", "webhook_secret": SECRET, "timeout": 2.0}
    return lambda **more: site.start(**values | more)


def test_a_receiver_can_check_who_sent_it_and_when(hooked, receiver):
    site = hooked()
    made = site.request(ticket="CHG-1")
    [line] = site.journal(made)
    [(path, headers, body)] = receiver.heard
    assert path == "/hook" and json.loads(body)["payload"]["ticket"] == "CHG-1"
    assert json.loads(body)["event_type"] == "project_cleanup.deletion.accepted"
    at, _, given = headers[webhook.SIGNATURE].partition(",v1=")
    seconds = at.removeprefix("t=")
    assert given == hmac.new(SECRET.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    assert abs(int(seconds) - time.time()) < 60
    assert line.type == "notice.sent" and line.data["to"] == [receiver.url]


def test_one_changed_byte_has_another_signature():
    assert webhook.signature(SECRET, 1, b"a") != webhook.signature(SECRET, 1, b"b")
    assert webhook.signature(SECRET, 1, b"a") != webhook.signature(SECRET, 2, b"a")


@each_case("answers", [[500, 204], [503, 429, 200]])
def test_it_is_sent_again_to_a_receiver_that_fails(site, receiver, answers):
    receiver.answers, receiver.heard = list(answers), []
    if not hasattr(site, "announcer"):
        site.start(webhook_url=receiver.url, webhook_secret=SECRET)
    made = site.request(id=f"d{len(answers)}", project_id=f"p{len(answers)}")
    [line] = site.journal(made)
    assert line.type == "notice.sent" and len(receiver.heard) == len(answers)


def test_what_fails_is_in_the_journal_and_holds_nothing(hooked, receiver):
    receiver.answers = [500]
    site = hooked()
    made = site.request()
    [line] = site.journal(made)
    assert line.type == "notice.failed" and "answered 500" in line.message
    assert len(receiver.heard) == 3
    assert site.store.get(made.id).version == made.version, "the deletion is as before"


def test_a_redirect_is_not_followed(hooked, receiver):
    """The receiver could send the notice, and its signature, to another host."""
    receiver.answers = [307]
    site = hooked()
    [line] = site.journal(site.request())
    assert "redirects are not followed" in line.message
    assert [path for path, *_ in receiver.heard] == ["/hook"]


def test_a_proxy_of_the_environment_is_not_used(hooked, receiver, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    site = hooked(tries=1)
    [line] = site.journal(site.request())
    assert line.type == "notice.sent" and len(receiver.heard) == 1


def test_an_event_of_an_orphan_scan_is_no_notice():
    message = {"event_type": "project_cleanup.orphan_scan.failed", "payload": {"dry_run": False}}
    assert driver.wanted(message, ["failed"]) is None
    assert driver.wanted({**message, "event_type": "project_cleanup.deletion.failed"}, ["failed"]).event == "failed"


def test_a_refusal_is_not_repeated(hooked, receiver):
    receiver.answers = [410]
    site = hooked()
    [line] = site.journal(site.request())
    assert "answered 410" in line.message and len(receiver.heard) == 1


def test_a_receiver_that_hangs_delays_no_other_notification(hooked, receiver):
    receiver.answers = [None]
    site = hooked(timeout=1.0, tries=1)
    began = time.monotonic()
    made = [site.request(id=f"d{n}", project_id=f"p{n}") for n in range(3)]
    site.announcer.close(5)
    assert time.monotonic() - began < 1.0, "the notifier has given all of them to the driver"
    for each in made:
        [line] = site.journal(each)
        assert line.type == "notice.failed" and "takes more than 1 s" in line.message


def test_the_secret_is_in_no_line(hooked, receiver):
    receiver.answers = [500]
    site = hooked()
    [line] = site.journal(site.request())
    assert SECRET not in line.message and SECRET not in json.dumps(line.data)


@pytest.mark.parametrize("answer", [204, 307, 410, None, "gone"])
def test_the_key_in_a_url_is_in_no_line(site, receiver, answer):
    """The managers of a domain read the journal, and a URL of a chat is enough to write to it."""
    port = receiver.url.rpartition(":")[2] if answer != "gone" else "1"
    receiver.answers = [answer]
    url = f"http://ann:pw-1@127.0.0.1:{port}/hook/KEY-1?key=KEY-2"
    site.start(webhook_url=url, webhook_secret=SECRET, timeout=1.0, tries=1)
    [line] = site.journal(site.request())
    assert f"http://127.0.0.1:{port}" in line.message
    assert not {each for each in ("KEY", "pw-1") if each in line.message + json.dumps(line.data)}


@pytest.mark.parametrize("values", [{"dry_run": True}, {"status_only": "recoverable"}])
def test_only_what_the_operator_wants_is_sent(hooked, receiver, values):
    site = hooked(events=["draining"]) if "status_only" in values else hooked()
    site.request(**{name: value for name, value in values.items() if name != "status_only"})
    site.announcer.close(5)
    time.sleep(0.2)
    assert receiver.heard == []


@pytest.mark.parametrize(
    "options", [{"webhook_secret": SECRET}, {"webhook_url": "http://x", "webhook_secret": "short"}]
)
def test_without_a_url_or_a_secret_there_is_no_driver(site, options):
    for name, value in options.items():
        site.conf.set_override(name, value, group="notices")
    with pytest.raises(Exception, match="webhook_"):
        webhook.WebhookDriver(site.conf, [], None)
