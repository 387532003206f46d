"""Mails: who gets which text, and what becomes of refused recipients and of a server that breaks off."""

import contextlib
import email
import email.policy
import socket
import threading
import time

import pytest
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.notices import mail
from cleanup_orchestrator.notices.driver import Notice, NoticeFailed
from tests.support.cases import each_case

A, B, C = "ann@example.com", "bob@example.com", "cas@example.com"


@pytest.fixture
def posting(site, mailbox):
    site.conf.set_override("driver", ["cleanup_mail"], group="oslo_messaging_notifications")
    values = {"mail_server": "127.0.0.1", "mail_port": mailbox.port, "mail_from": "cloud@example.com", "timeout": 5.0}
    return lambda **more: site.start(**values, **more)


def read(envelope):
    return email.message_from_bytes(envelope.content, policy=email.policy.default)


def test_each_recipient_gets_a_mail_and_sees_no_other_one(posting, mailbox):
    site = posting(mail_to=[A, B])
    [line] = site.journal(site.request(project_name="demo", ticket="CHG-1"))
    assert line.type == "notice.sent" and line.data["to"] == [A, B]
    assert [m.rcpt_tos for m in mailbox.mails] == [[A], [B]]
    first = read(mailbox.mails[0])
    assert first["To"] == A and first["From"] == "cloud@example.com" and B not in str(first)
    assert first["Subject"] == "The deletion of project demo was requested"
    assert "Ticket: CHG-1" in first.get_content() and "Reason: -" in first.get_content()
    assert first["Auto-Submitted"] == "auto-generated"
    assert first["Date"].datetime, "a server can refuse a mail without one"


def test_the_name_of_a_project_adds_no_header_and_no_line(posting, mailbox):
    site = posting(mail_to=[A])
    site.journal(site.request(project_name="x\r\nBcc: eve@example.com\r\n\r\n$message \x1b[2J"))
    [sent] = mailbox.mails
    assert sent.rcpt_tos == [A]
    assert read(sent)["Bcc"] is None
    assert "\x1b" not in read(sent).get_content() and "\nBcc" not in read(sent).get_content()


def test_a_refused_recipient_is_named_and_the_others_get_it(posting, mailbox):
    mailbox.refused = {A}
    site = posting(mail_to=[A, B])
    [line] = site.journal(site.request())
    assert line.type == "notice.sent" and line.data["to"] == [B] and line.data["refused"] == {A: "550"}
    assert f"refused for {A}: 550" in line.message


def test_if_every_recipient_is_refused_it_has_failed(posting, mailbox):
    mailbox.refused = {A}
    site = posting(mail_to=[A])
    [line] = site.journal(site.request())
    assert line.type == "notice.failed" and "550" in line.message


def test_a_server_that_breaks_off_gets_no_mail_twice(posting, mailbox):
    mailbox.most = 1
    site = posting(mail_to=[A, B, C])
    [line] = site.journal(site.request())
    assert [m.rcpt_tos for m in mailbox.mails] == [[A]]
    assert line.data["to"] == [A] and set(line.data["refused"]) == {B, C}


def test_a_server_that_breaks_off_before_the_first_mail_is_tried_again(posting, mailbox):
    mailbox.most = 0
    site = posting(mail_to=[A], tries=3)
    tried = []
    handle = mailbox.handle_DATA

    async def later(server, session, envelope):
        tried.append(1)
        mailbox.most = 1000 if len(tried) == 2 else 0
        return await handle(server, session, envelope)

    mailbox.handle_DATA = later
    [line] = site.journal(site.request())
    assert line.type == "notice.sent" and len(mailbox.mails) == 1


def test_a_server_that_sends_a_byte_at_a_time_is_left(posting, monkeypatch):
    """Each byte comes within the limit of a read."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip():
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                while not done.wait(0.1):
                    connection.send(b"2")

        threading.Thread(target=drip, daemon=True).start()
        site = posting(mail_to=[A], tries=1)
        site.conf.set_override("mail_port", listening.getsockname()[1], group="notices")
        site.conf.set_override("timeout", 1.0, group="notices")
        began = time.monotonic()
        [line] = site.journal(site.request())
        done.set()
    assert line.type == "notice.failed" and time.monotonic() - began < 10


def test_no_server_is_a_failed_notice(posting):
    site = posting(mail_to=[A])
    site.conf.set_override("mail_port", 1, group="notices")
    [line] = site.journal(site.request())
    assert line.type == "notice.failed" and "127.0.0.1" in line.message


def test_no_recipient_is_a_failed_notice(posting):
    site = posting(mail_to=["not an address"])
    [line] = site.journal(site.request())
    assert line.type == "notice.failed" and "no recipient" in line.message


def test_a_keystone_that_does_not_answer_is_a_failed_notice(posting, monkeypatch):
    def fails(_driver):
        raise ka_exceptions.ConnectFailure("no answer")

    monkeypatch.setattr(mail.MailDriver, "_identity", fails)
    site = posting(mail_to=["members"])
    [line] = site.journal(site.request())
    assert line.type == "notice.failed" and "Keystone does not say who gets it" in line.message


# ------------------------------------------------------------------------------------------------------------ templates
def notice(event="reminder", **values):
    counters = {"found": 3, "deleted": 0, "remaining": 3}
    return Notice(event, {"payload": {"project_name": "demo", "message": "", "counters": counters, **values}})


def test_the_templates_of_an_operator_come_first(tmp_path):
    (tmp_path / "reminder.txt").write_text("Projekt $project_name wird gelöscht\n\nGefunden: $found ($unknown_word)\n")
    (tmp_path / "default.txt").write_text("Projekt $project_name: $event\nText\n")
    assert mail.rendered(notice(), str(tmp_path)) == (
        "Projekt demo wird gelöscht",
        "Gefunden: 3 ($unknown_word)\n",
    )
    assert mail.rendered(notice("deleted"), str(tmp_path)) == ("Projekt demo: deleted", "Text\n")


@each_case("text", [None, b"\xff\xfe"])
def test_a_template_that_cannot_be_read_is_named(tmp_path, text):
    if text is not None:
        (tmp_path / "reminder.txt").write_bytes(text)
    with pytest.raises(NoticeFailed, match="mail_templates"):
        mail.rendered(notice(), str(tmp_path))


@pytest.mark.parametrize("missing", ["mail_server", "mail_from"])
def test_without_a_server_or_a_sender_there_is_no_driver(site, missing):
    values = {"mail_server": "127.0.0.1", "mail_from": A} | {missing: None}
    for name, value in values.items():
        site.conf.set_override(name, value, group="notices")
    with pytest.raises(Exception, match=missing):
        mail.MailDriver(site.conf, [], None)
