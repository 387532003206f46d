"""Many projects with one ticket and a date on the real services: a file, a date, notices, and a signed report."""

from __future__ import annotations

import datetime
import json
import pathlib
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.cloud import filler
from tests.cloud.forcing import Forcing, shipped
from tests.cloud.launcher import Cloud
from tests.cloud.proof import left
from tests.support.notices import SECRET, Mailbox, Receiver, mailbox_at
from tests.support.timing import wait

NOTICES = """
[oslo_messaging_notifications]
driver = cleanup_webhook
driver = cleanup_mail
[notices]
webhook_url = {url}/hook
webhook_secret = {secret}
mail_server = 127.0.0.1
mail_port = {port}
mail_from = cloud@example.com
mail_to = members, project:contact
[deletion]
required = reason, ticket
[report]
signing_key_file = {key}
remains = Backups are overwritten after 30 days.
"""
MANAGE = pathlib.Path(sys.executable).parent / "cleanup-orchestrator-manage"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    yield from mailbox_at(Mailbox())


@pytest.fixture
def key(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "report-key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", made], check=True)
    return made


@pytest.fixture
def orchestrator(cloud: Cloud, receiver: Receiver, mailbox: Mailbox, key: pathlib.Path) -> Iterator[Forcing]:
    yield from shipped(cloud, NOTICES.format(url=receiver.url, secret=SECRET, port=mailbox.port, key=key))


def managed(*arguments: str, code: int = 0) -> str:
    """Run a command of the operator, and return what it says."""
    done = subprocess.run([MANAGE, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_projects_of_a_ticket_go_at_their_date(orchestrator, cloud, admin, receiver, mailbox, tmp_path):
    ticket = f"CHG-{secrets.token_hex(2)}"
    filled = [filler.fill(admin, f"grant-{n}-{secrets.token_hex(2)}", only=("network", "image")) for n in range(2)]
    names = [each.project_name for each in filled]
    before = [left(cloud, each.project_id) for each in filled]
    admin.identity.update_user(filled[0].user_id, email="ann@example.com")
    admin.identity.update_project(filled[0].project_id, contact="dan@example.com")

    def run(*arguments: str, code: int = 0) -> str:
        ended, said = orchestrator.command("project", *arguments)
        assert ended == code, said
        return said

    def summary() -> dict:
        return orchestrator.ask("project", "deletion", "summary", "--ticket", ticket)

    file = tmp_path / "projects.csv"
    file.write_text("".join(("project,reason\n", *(f"{name},the grant ended\n" for name in names))))
    said = run("delete", "--async", "--cascade", "--from-file", str(file), "--delay", "1h", code=2)
    assert "ticket" in said and "required" in said
    run("delete", "--async", "--cascade", "--from-file", str(file), "--delay", "1h", "--ticket", ticket)
    found = summary()
    assert (found["deletions"], found["statuses"], found["scheduled"]) == (2, {"accepted": 2}, 2)
    time.sleep(10)  # a sample: there is no event that a test could wait for
    assert [left(cloud, each.project_id) for each in filled] == before, "not even a role of the orchestrator"

    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=20)
    run("deletion", "set", "--ticket", ticket, "--at", soon.strftime("%Y-%m-%dT%H:%M:%SZ"), "--yes")
    wait("the deletions end", lambda: summary()["statuses"] == {"deleted": 2}, 600, 2)
    assert [left(cloud, each.project_id) for each in filled] == [{}, {}]
    for name in names:
        [row] = orchestrator.ask("project", "deletion", "list", "--ticket", ticket, "--project", name)
        events = orchestrator.ask("project", "deletion", "events", row["ID"])
        drained = next(each for each in events if each["Type"] == "drain.held")
        assert drained["At"] >= soon.strftime("%Y-%m-%dT%H:%M:%SZ"), "locked at its date, and not before"

    report = tmp_path / "report.json"
    for form in ("json", "html", "pdf"):
        run("deletion", "report", names[0], "--format", form, "--output", str(report.with_suffix(f".{form}")))
    assert report.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    page = report.with_suffix(".html").read_text()
    assert ticket in page and "the grant ended" in page and "Backups are overwritten" in page
    keys = tmp_path / "keys.json"
    keys.write_text(managed("report", "keys", "--config-file", str(orchestrator.home / "cleanup-orchestrator.conf")))
    assert "Deleted" in managed("report", "verify", str(report), "--keys", str(keys))
    whole = json.loads(report.read_text())
    whole["report"]["deletion"]["project_name"] = "another"
    report.write_text(json.dumps(whole))
    assert "signature" in managed("report", "verify", str(report), "--keys", str(keys), code=1)

    heard = [json.loads(body) for _path, _headers, body in receiver.heard]
    told = {(each["payload"]["project_name"], each["event_type"].rpartition(".")[2]) for each in heard}
    assert told >= {(name, event) for name in names for event in ("accepted", "draining", "deleted")}
    wait("the last mails come", lambda: sum("was deleted" in str(m.content) for m in mailbox.mails) >= 2, 60)
    ends = [each.rcpt_tos for each in mailbox.mails if b"was deleted" in each.content]
    assert sorted(ends) == [["ann@example.com"], ["dan@example.com"]], "also when Keystone no longer has the project"
