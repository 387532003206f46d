"""At a terminal, what cannot be undone is named and confirmed; scripts are not asked."""

import datetime

import pytest

from cleanup_orchestrator.osc import confirm
from tests.functional.test_osc import stub

CASCADE = ("project", "delete", "--async", "--cascade")
FORCE = ("project", "deletion", "force", "--reason", "ticket 4711")
PLAN = {
    "id": stub.PLAN_ID,
    "hash": stub.PLAN_HASH,
    "complete": False,
    "created_at": "2026-11-21T10:00:00Z",
    "types": [
        {"region": "R1", "service": "compute", "type": "server", "delete": 8},
        {"region": "R2", "service": "compute", "type": "server", "delete": 1},
        {"region": "R1", "service": "block-storage", "type": "volume", "delete": 12},
        {"region": "R1", "service": "image", "type": "image", "delete": 0},
    ],
}

_REAL_NOW = confirm.now


@pytest.fixture(autouse=True)
def _at_ten_past_ten(monkeypatch):
    now = datetime.datetime(2026, 11, 21, 10, 10, tzinfo=datetime.timezone.utc)
    monkeypatch.setattr(confirm, "now", lambda _client: now)


def asked(cloud):
    return [r for r in cloud.requests if r["method"] in ("POST", "DELETE") and r["path"].startswith("/cleanup")]


@pytest.mark.parametrize(("words", "yes"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)])
@pytest.mark.parametrize("command", [CASCADE, FORCE])
def test_only_yes_goes_on(openstack, stub_cloud, demo, terminal, command, words, yes):
    if command is FORCE:
        stub_cloud.add_deletion(demo, "deleting")
    terminal(words)
    result = openstack(*command, "demo")
    assert result.code == (0 if yes else 1)
    assert len(asked(stub_cloud)) == yes
    assert "[y/N]" in result.err and ("not confirmed" in result.err) is not yes
    assert f"demo ({demo['id']})" in result.err


@pytest.mark.parametrize("command", [CASCADE, FORCE])
def test_yes_skips_the_question(openstack, stub_cloud, demo, terminal, command):
    stub_cloud.add_deletion(demo, "deleting")
    terminal("")
    result = openstack(*command, "--yes", "demo")
    assert result.code == 0 and "[y/N]" not in result.err
    assert len(asked(stub_cloud)) == 1


@pytest.mark.parametrize("command", [CASCADE, FORCE])
def test_a_script_is_not_asked(openstack, stub_cloud, demo, command):
    stub_cloud.add_deletion(demo, "deleting")
    result = openstack(*command, "demo")
    assert result.code == 0 and "[y/N]" not in result.err
    assert len(asked(stub_cloud)) == 1


@pytest.mark.parametrize("options", [[], ["--cascade", "--dry-run"]])
def test_what_deletes_no_resource_is_not_asked(openstack, stub_cloud, demo, terminal, options):
    terminal("")
    assert openstack("project", "delete", "--async", *options, "demo").code == 0


def test_a_cascade_that_is_under_way_is_only_followed(openstack, stub_cloud, demo, terminal):
    """The same command again continues an interrupted --wait."""
    stub_cloud.add_deletion(demo, "deleting", mode="cascade")
    stub_cloud.add_deletion(demo, "planned", mode="cascade", dry_run=True)
    terminal("")
    result = openstack(*CASCADE, "demo")
    assert result.code == 0 and "[y/N]" not in result.err
    query = next(r["query"] for r in stub_cloud.requests if r["path"] == "/cleanup/v1/deletions")
    assert query == {"project_id": [demo["id"]], "status": ["live"], "mode": ["cascade"], "dry_run": ["false"]}


def test_each_project_is_asked_for(openstack, stub_cloud, demo, terminal):
    other = stub_cloud.add_project("other")
    terminal("n\ny\n")
    result = openstack(*CASCADE, "demo", "other")
    assert result.code == 1 and "Cannot delete project 'demo': not confirmed, so not deleted" in result.err
    assert [r["body"]["project_id"] for r in asked(stub_cloud)] == [other["id"]]


def test_it_names_what_the_latest_dry_run_found(openstack, stub_cloud, demo, terminal):
    id_ = stub_cloud.add_deletion(demo, "planned", mode="cascade", dry_run=True)
    stub_cloud.plans[id_] = PLAN
    terminal("n\n")
    said = openstack(*CASCADE, "demo").err
    assert "and all its resources will be deleted. Deleted resources cannot be restored." in said
    text = "As of 10 minutes ago (dry run of 2026-11-21T10:00:00Z): 21 resources in 2 services\n"
    assert f"  {text}    9 servers, 12 volumes\n" in said
    assert "It could not list everything" in said and "The project can have changed since then" in said


REPORT = {
    "status": "leftovers",
    "summary": "1 resource will be deleted, and the project",
    "finished_at": "2026-11-21T10:07:00Z",
    "counts": [stub.count("compute", "server", remaining=1, found=1), stub.count("dns", "zone", outcome="unknown")],
}


@pytest.mark.parametrize("command", [CASCADE, ("project", "purge")])
@pytest.mark.parametrize(("planned_at", "newer"), [("2026-11-21T10:00:00Z", True), ("2026-11-21T10:08:00Z", False)])
def test_it_names_the_newer_of_report_and_dry_run(openstack, stub_cloud, demo, terminal, command, planned_at, newer):
    mode = "cascade" if command is CASCADE else "purge"
    id_ = stub_cloud.add_deletion(demo, "planned", mode=mode, dry_run=True)
    stub_cloud.plans[id_] = {**PLAN, "created_at": planned_at, "complete": True}
    stub_cloud.add_deletion(demo, REPORT)
    terminal("n\n")
    said = openstack(*command, "demo").err
    what = "1 resource in 1 service" if mode == "purge" else "1 resource will be deleted, and the project"
    assert (f"  As of 3 minutes ago (report of 2026-11-21T10:07:00Z): {what}\n" in said) == newer
    assert ("  As of 2 minutes ago (dry run of 2026-11-21T10:08:00Z): " in said) != newer
    assert ("It could not list everything" in said) == newer


def test_it_says_that_a_report_is_of_one_project(openstack, stub_cloud, demo, terminal):
    stub_cloud.add_deletion(demo, REPORT)
    terminal("n\nn\n")
    text = "  That is this project alone, without those below it.\n"
    assert text in openstack(*CASCADE, "--include-subtree", "demo").err
    assert text not in openstack(*CASCADE, "demo").err


def test_a_report_says_nothing_about_a_plan_or_a_selection(openstack, stub_cloud, demo, terminal):
    stub_cloud.add_deletion(demo, REPORT)
    terminal("n\nn\n")
    assert "report" not in openstack("project", "purge", "--tag", "test", "demo").err
    stub_cloud.plans[stub.PLAN_ID] = PLAN
    said = openstack(*CASCADE, "--plan", stub.PLAN_ID, "demo").err
    assert "report" not in said and "can have changed" not in said


def test_the_summary_of_the_server_is_said(openstack, stub_cloud, demo, terminal):
    id_ = stub_cloud.add_deletion(demo, "planned", mode="cascade", dry_run=True)
    stub_cloud.plans[id_] = {**PLAN, "summary": "21 resources in 2 services will be deleted; nothing blocks it"}
    terminal("n\n")
    said = openstack(*CASCADE, "demo").err
    assert "Z): 21 resources in 2 services will be deleted; nothing blocks it\n" in said


def test_it_names_what_the_plan_has(openstack, stub_cloud, demo, terminal):
    stub_cloud.plans[stub.PLAN_ID] = {**PLAN, "complete": True}
    terminal("n\n")
    said = openstack(*CASCADE, "--plan", stub.PLAN_ID, "demo").err
    assert "and the resources that the plan names will be deleted" in said
    assert "9 servers, 12 volumes" in said and "could not list" not in said


def test_it_says_that_the_plan_cannot_be_read(openstack, demo, terminal):
    terminal("n\n")
    said = openstack(*CASCADE, "--plan", "nosuch", "demo").err
    assert "The plan nosuch could not be read, so what it has is not known.\n" in said and "--dry-run" not in said


def test_without_a_dry_run_it_says_how_to_make_one(openstack, demo, terminal):
    terminal("n\n")
    said = openstack(*CASCADE, "demo").err
    assert f"openstack project delete --async --cascade --dry-run --wait {demo['id']}\n" in said


def test_it_names_the_projects_below(openstack, stub_cloud, demo, terminal):
    child = stub_cloud.add_project("child")
    child["parent_id"] = demo["id"]
    stub_cloud.add_project("grand\x1b[2Jchild")["parent_id"] = child["id"]
    terminal("n\n")
    said = openstack(*CASCADE, "--include-subtree", "demo").err
    assert "Also all projects below it, with all their resources: child, grand?[2Jchild\n" in said


def test_it_looks_up_no_more_projects_below_than_it_names(openstack, stub_cloud, demo, terminal):
    for n in range(30):
        child = stub_cloud.add_project(f"child-{n:02}")
        child["parent_id"] = demo["id"]
        stub_cloud.add_project(f"grandchild-{n:02}")["parent_id"] = child["id"]
    terminal("n\n")
    said = openstack(*CASCADE, "--include-subtree", "demo").err
    names = ", ".join(f"child-{n:02}" for n in range(20))
    assert f"Also all projects below it, with all their resources: {names} and more\n" in said
    assert len([r for r in stub_cloud.requests if "parent_id" in r["query"]]) == 1


def test_it_names_the_projects_below_that_the_user_may_list(openstack, stub_cloud, demo, terminal, monkeypatch):
    child = stub_cloud.add_project("child")
    child["parent_id"] = demo["id"]
    denied = (403, {"error": {"code": 403, "title": "Forbidden", "message": "You are not authorized"}}, {})
    answer = stub_cloud.answer

    def only_the_first(method, path, query, body):
        return denied if query.get("parent_id") == [child["id"]] else answer(method, path, query, body)

    monkeypatch.setattr(stub_cloud, "answer", only_the_first)
    terminal("n\n")
    said = openstack(*CASCADE, "--include-subtree", "demo").err
    assert "Also all projects below it, with all their resources: child and possibly more\n" in said


def test_force_names_what_is_left(openstack, stub_cloud, demo, terminal):
    counts = [
        stub.count("block-storage", "volume", found=3, remaining=2, outcome="leftovers"),
        stub.count("dns", "zone", outcome="unknown"),
        stub.count("image", "image"),
    ]
    stub_cloud.add_deletion(demo, "deleting", counts=counts)
    terminal("n\n")
    said = openstack(*FORCE, "demo").err
    assert "Abandoned resources stay in the cloud without a project" in said
    assert "Not deleted yet: 2 RegionOne block-storage.volume\n" in said
    assert "Could not be listed, and will be abandoned unseen: RegionOne dns.zone\n" in said


def test_yes_needs_async(openstack, stub_cloud, demo):
    result = openstack("project", "delete", "--yes", "demo")
    assert result.code == 2 and "--yes: only with --async; nothing was deleted" in result.err
    assert not stub_cloud.made("DELETE")


@pytest.mark.parametrize("command", [CASCADE, FORCE, ("project", "purge")])
def test_a_question_that_the_user_could_not_see_is_not_asked(
    openstack, stub_cloud, demo, terminal, monkeypatch, command
):
    """With ``2>log`` at a terminal the command would wait for an answer without a visible question."""
    if command is FORCE:
        stub_cloud.add_deletion(demo, "deleting")
    terminal("y\n")
    monkeypatch.setattr(confirm, "_is_seen", lambda: False)
    result = openstack(*command, "demo")
    assert result.code == 1 and asked(stub_cloud) == []
    assert "add --yes" in result.err and "[y/N]" not in result.err
    assert openstack(*command, "--yes", "demo").code == 0


def test_after_the_end_of_the_input_the_refusal_has_a_line_of_its_own(openstack, demo, terminal):
    terminal("")
    assert "[y/N] \nCannot delete project 'demo': not confirmed" in openstack(*CASCADE, "demo").err


REPORTED = {
    "status": "leftovers",
    "mode": "report",
    "finished_at": "2026-11-21T10:02:00Z",
    "updated_at": "2026-11-21T10:02:00Z",
    "summary": "75 resources in 5 services will be deleted, and the project is removed after that; nothing blocks it",
}


def test_a_report_that_a_purge_made_old_says_so(openstack, stub_cloud, demo, terminal):
    stub_cloud.add_deletion(demo, REPORTED)
    purge = {"status": "purged", "mode": "purge", "updated_at": "2026-11-21T10:09:00Z"}
    id_ = stub_cloud.add_deletion(demo, purge, created_at="2026-11-21T10:08:00Z")
    terminal("n\n")
    said = openstack(*CASCADE, "demo").err
    assert "As of 8 minutes ago (report of 2026-11-21T10:02:00Z): 75 resources" in said
    told = "OUT OF DATE: a purge of the project has been at work since then (purged, 2026-11-21T10:09:00Z). See it with"
    assert f"  {told}: openstack project deletion show {id_}\n" in said
    stub_cloud.deletions[id_][0]["updated_at"] = REPORTED["finished_at"]
    terminal("n\n")
    assert "OUT OF DATE" not in openstack(*CASCADE, "demo").err


def test_the_age_is_by_the_clock_of_the_server(openstack, stub_cloud, demo, terminal, monkeypatch):
    stub_cloud.add_deletion(demo, REPORTED)
    monkeypatch.setattr(confirm, "now", _REAL_NOW)
    monkeypatch.setattr(
        "http.server.BaseHTTPRequestHandler.date_time_string", lambda *_: "Sat, 21 Nov 2026 12:02:00 GMT"
    )
    terminal("n\n")
    assert "As of 2 hours ago (report of 2026-11-21T10:02:00Z): 75 resources" in openstack(*CASCADE, "demo").err
    for unknown in ("", "yesterday", "Sat, 21 Nov 2026 09:02:00 GMT"):
        monkeypatch.setattr("http.server.BaseHTTPRequestHandler.date_time_string", lambda *_, text=unknown: text)
        terminal("n\n")
        assert "As of 2026-11-21T10:02:00Z (report): 75 resources" in openstack(*CASCADE, "demo").err
