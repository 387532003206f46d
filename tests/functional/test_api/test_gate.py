"""The gate: what it answers to Keystone's policy, and that only ``True`` with the secret lets a delete pass."""

import base64
import datetime
import logging
import threading
import uuid

import pytest

from cleanup_orchestrator.api import gate
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.step import Outcome, StepKind
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.store import tables
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.functional.test_api.test_plans import ended, inventory

SECRET = "5ec2e7" * 6
GATED = f"[gate]\nsecret = {SECRET}\n"


@pytest.fixture
def gated(tmp_path, keystone):
    site = Site(tmp_path, keystone=keystone, extra=GATED)
    yield site
    site.close()
    keystone.broken = False
    keystone.projects["d1"]["enabled"] = True
    keystone.projects.pop("empty-domain", None)


def basic(password, user="keystone"):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def ask(site, path="projects/p1", method="POST", headers=None, body=b"rule=x&target=y&credentials=z"):
    """Post what oslo.policy posts, without a token."""
    sent = basic(SECRET) if headers is None else headers
    return site.call(method, f"/gate/{path}", None, body, {**sent, "Content-Type": "application/x-www-form-urlencoded"})


def told(site, path="projects/p1"):
    """Return the status and the text; nothing but ``True`` is as oslo.policy compares it."""
    answer = ask(site, path)
    text = answer.body.decode()
    assert (text.lstrip('"').rstrip('"') == "True") is (answer.status == 200), text
    return answer.status, text.removeprefix("False: ").strip()


def reported(site, project_id="p1", found=(), types=("port", "router"), **values):
    """A dry run that has ended."""
    made = site.ask(project_id, mode="report", dry_run=True)["id"]
    steps = [step for step in site.store.steps(made) if step.kind is StepKind.SURVEY]
    with site.store.database.begin() as c:
        table = tables.steps
        done = {"round": 1, "state": "done", "outcome": str(Outcome.CLEAR)}
        c.execute(table.update().where(table.c.id == steps[0].id).values(**done))
    for type_ in types:
        inventory(site, made, type_, found if type_ == "port" else ())
    ended(site, made, **values)
    return made


def older(site, made, seconds):
    """Make the lists of a dry run older."""
    with site.store.database.begin() as c:
        table = tables.steps
        at = site.store.now() - datetime.timedelta(seconds=seconds)
        c.execute(table.update().where(table.c.owner_id == made, table.c.kind == "sweep").values(started_at=at))


# ------------------------------------------------------------------------------------------------------------- projects
def test_a_project_that_a_dry_run_has_just_proven_empty_may_be_deleted(gated):
    reported(gated)
    assert told(gated) == (200, "True")


def test_nothing_is_asked_of_keystone_about_a_project(gated):
    """Keystone waits for the answer: with one process it could not answer itself."""
    reported(gated)
    told(gated)
    before = len(gated.keystone.requests)
    assert told(gated) == (200, "True")
    assert gated.keystone.requests[before:] == []


@pytest.mark.parametrize("project_id", ["p1", "unknown-id", "d1", "a%2Fb", "p1%00", "..", ""])
def test_a_project_without_a_report_may_not(gated, project_id):
    assert told(gated, f"projects/{project_id}")[0] == 403


def test_a_report_is_about_its_project_only(gated):
    reported(gated)
    for other in ("p2", "P1", "p1%20", "p1/", "p1/x"):
        assert told(gated, f"projects/{other}")[0] == 403, other


def test_a_report_that_found_something_is_no_proof(gated):
    reported(gated, found=["a"])
    status, text = told(gated)
    assert status == 403
    assert text.endswith("is not empty: network.port@R1 (1 left)")


def test_the_latest_report_counts(gated):
    reported(gated, found=["a"])
    reported(gated)
    assert told(gated)[0] == 200
    reported(gated, found=["a"])
    assert told(gated)[0] == 403


@pytest.mark.parametrize(("seconds", "status"), [(30, 200), (90, 403)])
def test_a_report_proves_nothing_after_a_minute(gated, seconds, status):
    older(gated, reported(gated), seconds)
    assert told(gated)[0] == status


def test_the_time_can_be_configured(tmp_path, keystone):
    site = Site(tmp_path, keystone=keystone, extra=f"{GATED}max_age = 120\n")
    older(site, reported(site), 90)
    assert told(site)[0] == 200
    site.close()


@pytest.mark.parametrize("live", ["cascade", "report"])
def test_not_while_a_deletion_is_under_way(gated, live):
    reported(gated)
    made = gated.ask("p1", mode=live)["id"]
    assert told(gated) == (403, told(gated)[1])
    assert "under way" in told(gated)[1]
    ended(gated, made, status=Status.FAILED)
    assert "ended as failed" in told(gated)[1]


def test_not_under_a_lien_or_the_brake_or_a_waiver(gated):
    reported(gated)
    lien = gated.post("/v1/liens", {"project_id": "p1", "origin": "legal", "reason": "court"}).json["lien"]["id"]
    status, text = told(gated)
    assert status == 403
    assert "in force" in text
    assert "court" not in text
    gated.call("DELETE", f"/v1/liens/{lien}")
    assert told(gated)[0] == 200
    gated.post("/v1/brake", {"reason": "the storage misbehaves"})
    assert told(gated) == (403, "the brake is set")
    gated.call("DELETE", "/v1/brake")
    with gated.store.database.begin() as c:
        c.execute(tables.steps.update().where(tables.steps.c.type == "port").values(waived=str(uuid.uuid4())))
    assert "waiver" in told(gated)[1]


def test_not_an_unsupported_service(gated):
    made = reported(gated)
    with gated.store.database.begin() as c:
        table = tables.steps
        values = {"kind": "unsupported", "outcome": "unknown", "reason": "no_plugin"}
        c.execute(table.update().where(table.c.owner_id == made, table.c.type == "port").values(**values))
    assert "no_plugin" in told(gated)[1]


@pytest.mark.parametrize("protected", ["one", "p1"])
def test_not_a_project_that_is_never_deleted(gated, protected):
    reported(gated)
    gated.conf.set_override("never_delete_projects", [protected], "deletion")
    assert "never-delete list" in told(gated)[1]


# -------------------------------------------------------------------------------------------------------------- domains
def test_a_disabled_domain_without_projects_may_be_deleted(gated):
    gated.keystone.project("empty-domain", "Empty", None, is_domain=True)
    assert told(gated, "domains/empty-domain") == (403, "domain empty-domain is enabled: its users can create projects")
    gated.keystone.projects["empty-domain"]["enabled"] = False
    assert told(gated, "domains/empty-domain") == (200, "True")
    assert told(gated, "projects/empty-domain")[0] == 403, "DELETE /v3/projects/{domain id}"
    gated.post("/v1/brake", {"reason": "the storage misbehaves"})
    assert told(gated, "domains/empty-domain")[0] == 403


def test_a_domain_with_projects_may_not_whatever_their_reports_say(gated):
    gated.keystone.projects["d1"]["enabled"] = False
    for project_id in ("p1", "child-2"):
        reported(gated, project_id)
    assert told(gated, "domains/d1") == (403, "domain d1 has 4 projects: delete them first")


@pytest.mark.parametrize("domain_id", ["unknown-id", "p1", "..", "d1?x", ""])
def test_an_unknown_domain_may_not(gated, domain_id):
    assert told(gated, f"domains/{domain_id}")[0] in (403, 503)


def test_errors_are_no_permission(gated, caplog):
    reported(gated)
    gated.keystone.project("empty-domain", "Empty", None, is_domain=True)
    gated.keystone.projects["empty-domain"]["enabled"] = False
    gated.keystone.broken = True
    assert told(gated, "domains/empty-domain")[0] == 503
    with gated.store.database.begin() as c:
        c.exec_driver_sql("ALTER TABLE deletions RENAME TO gone")
    assert told(gated)[0] == 500


# --------------------------------------------------------------------------------------------------------- who may ask
@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic(""),
        basic(SECRET[:-1]),
        basic(SECRET + "0"),
        basic("x", SECRET),
        {"Authorization": f"Bearer {SECRET}"},
        {"Authorization": f"Basic {SECRET}"},
        {"Authorization": "Basic ä"},
        {"Authorization": ""},
        {"X-Auth-Token": ks.ADMIN},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["projects/p1", "projects/unknown-id", "domains/d1", "x"])
def test_without_the_secret_nothing_is_told(gated, headers, path):
    reported(gated)
    answer = ask(gated, path, headers=headers)
    assert (answer.status, answer.body) == (401, b"False: the password of the URL is not [gate] secret\n")
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="gate"'


def test_it_is_off_by_default(site):
    reported(site)
    for headers in ({}, basic(""), basic(SECRET)):
        assert ask(site, headers={**headers, "X-Auth-Token": ks.ADMIN}).status == 404


@pytest.mark.parametrize("secret", ["short", "x" * 31, f"{SECRET}%", f"{SECRET}ä", f"{SECRET}:"])
def test_a_bad_secret_is_refused_at_the_start(tmp_path, keystone, secret):
    with pytest.raises(CleanupError, match=r"\[gate\] secret needs 32 or more letters and digits"):
        Site(tmp_path, keystone=keystone, extra=f"[gate]\nsecret = {secret}\n")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_it_is_only_asked_with_post(gated, method):
    reported(gated)
    answer = ask(gated, method=method)
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


def test_a_long_body_does_not_matter(gated):
    """The body has the description of the project, and is not read."""
    reported(gated)
    assert ask(gated, body=b"target=" + b"x" * 100_000).status == 200


def test_the_secret_is_in_no_log(gated, caplog):
    caplog.set_level(logging.DEBUG)
    reported(gated)
    told(gated)
    ask(gated, "projects/p2")
    ask(gated, headers=basic(SECRET + "0"))
    assert "POST /gate/projects/p1: 200" in caplog.text
    assert "the gate refuses: " in caplog.text
    assert SECRET not in caplog.text
    assert base64.b64encode(SECRET.encode()).decode()[:20] not in caplog.text


def test_checks_do_not_take_all_threads_of_the_api(gated, monkeypatch):
    """Only so many are worked on at the same time; the others are refused at once."""
    reported(gated)
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(*args, **kwargs):
        begun.release()
        assert go_on.wait(20)
        return []

    monkeypatch.setattr(gated.store, "list", slow)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(gated).status)) for _ in range(gate.AT_ONCE)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert begun.acquire(timeout=20)
    assert told(gated) == (503, f"{gate.AT_ONCE} checks are under way")
    go_on.set()
    for thread in threads:
        thread.join()
    assert answers == [403] * gate.AT_ONCE
    monkeypatch.undo()
    assert told(gated)[0] == 200


def test_more_deletions_than_are_read_are_no_proof(gated, monkeypatch):
    monkeypatch.setattr(gate, "_RECORDS", 2)
    reported(gated)
    assert told(gated)[0] == 200
    reported(gated)
    assert told(gated) == (403, "the project has 2 or more deletions since then")
