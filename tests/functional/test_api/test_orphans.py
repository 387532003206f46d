"""Orphan scans over the API: policies, the answers, the export, and refused adoptions."""

import csv
import io
import uuid

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status, accepted
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.orphan_scan import ScanStatus
from cleanup_orchestrator.core.step import TASKS
from tests.functional.test_api import keystone as ks
from tests.support import orphaned
from tests.support.stores import save

ORPHANS = "/v1/orphan-scans"


def test_a_scan_is_begun_followed_listed_and_cancelled(any_site):
    answer = any_site.post(ORPHANS)
    assert answer.status == 202, answer.body
    made = answer.json["orphan_scan"]
    assert (made["status"], made["user_name"], made["scheduled"]) == ("accepted", "admin", False)
    assert (made["min_age"], made["reread_after"]) == (3600, 600)
    assert answer.headers["location"].endswith(f"{ORPHANS}/{made['id']}")
    assert any_site.bus.casts == [made["id"]]
    assert any_site.get(f"{ORPHANS}/{made['id']}").json["orphan_scan"] == made
    assert [each["id"] for each in any_site.get(ORPHANS).json["orphan_scans"]] == [made["id"]]
    for _ in range(2):
        answer = any_site.call("DELETE", f"{ORPHANS}/{made['id']}")
        assert (answer.status, answer.body) == (204, b"")
    shown = any_site.get(f"{ORPHANS}/{made['id']}").json["orphan_scan"]
    assert (shown["status"], shown["message"]) == ("cancelled", "cancelled by admin")
    assert any_site.post(ORPHANS).status == 202


@pytest.mark.parametrize(
    ("min_age", "status"),
    [(3600, 202), (86400, 202), (3599, 400), (0, 400), (-1, 400), (2**31, 400), ("a", 400), (True, 400)],
)
def test_a_scan_may_have_a_greater_minimum_age_than_the_operators(site, min_age, status):
    """A lower one would report what was created while Keystone was asked, and an adoption would delete it."""
    answer = site.post(ORPHANS, {"min_age": min_age})
    assert answer.status == status
    if status == 202:
        assert answer.json["orphan_scan"]["min_age"] == min_age
    else:
        assert (answer.error["code"], answer.error["field"]) == ("invalid_body", "min_age")
        assert site.get(ORPHANS).json["orphan_scans"] == []


def test_one_scan_at_a_time(site):
    first = site.post(ORPHANS).json["orphan_scan"]["id"]
    answer = site.post(ORPHANS)
    assert (answer.status, answer.error["code"], answer.error["orphan_scan_id"]) == (
        409,
        "orphan_scan_under_way",
        first,
    )


def test_a_scan_is_accepted_while_the_broker_is_down(site):
    site.bus.broken = True
    assert site.post(ORPHANS).status == 202


def test_a_scan_that_has_ended_cannot_be_cancelled(site):
    scan = orphaned.found(site.store)
    answer = site.call("DELETE", f"{ORPHANS}/{scan.id}")
    assert (answer.status, answer.error["code"]) == (409, "orphan_scan_ended")


def test_the_scan_names_what_it_listed_and_what_it_could_not_list(any_site):
    scan = orphaned.found(any_site.store)
    shown = any_site.get(f"{ORPHANS}/{scan.id}").json["orphan_scan"]
    assert shown["not_covered"] == [orphaned.NOT_COVERED]
    assert {row["type"]: row["orphans"] for row in shown["coverage"]} == {"port": 3, "default_security_group": 1}
    assert shown["counts"] == {
        "listed": 20, "owner_unknown": 0, "too_young": 0, "undecided": 0, "candidates": 4, "orphans": 4, "calls": 0,
    }  # fmt: skip


def test_orphans_are_listed_page_by_page_and_by_filter(any_site):
    scan = orphaned.found(any_site.store)
    path = f"{ORPHANS}/{scan.id}/orphans"
    everything = any_site.get(path).json["orphans"]
    assert [row["id"] for row in everything] == ["p1", "p2", "p3", "g1"]
    assert everything[0] == {
        "project_id": orphaned.DEAD, "region": "R1", "service": "network", "type": "port", "id": "p1", "name": "web",
        "project_setting": False, "created_at": "2026-01-02T03:04:05Z", "age_known": True,
        "first_seen_at": everything[0]["first_seen_at"], "last_seen_at": everything[0]["last_seen_at"],
    }  # fmt: skip
    assert (everything[1]["created_at"], everything[1]["age_known"]) == (None, False)
    seen, following = [], f"{path}?limit=3"
    while following:
        page = any_site.get(following).json
        seen += page["orphans"]
        following = page["links"][0]["href"].removeprefix("http://cleanup.example.com") if "links" in page else None
    assert seen == everything
    ids = lambda query: [row["id"] for row in any_site.get(f"{path}?{query}").json["orphans"]]  # noqa: E731
    assert ids(f"project_id={orphaned.OTHER}") == ["p3"]
    assert ids("type=default_security_group&service=network&region=R1") == ["g1"]
    assert ids("type=neutron.port") == ["p1", "p2", "p3"]
    assert ids("type=network.network") == []
    for format_ in ("json", "csv"):
        answer = any_site.get(f"{path}?format={format_}&region=R2")
        assert (answer.status, answer.error["code"], answer.error["field"]) == (400, "invalid_query", "region")


@pytest.mark.parametrize(
    ("query", "status", "reads"),
    [
        ("", 200, 1),
        ("limit=1&marker=1", 200, 1),
        ("region=R1", 200, 1),
        ("region=R2", 400, 1),
        ("region=R2&marker=1", 200, 1),
        ("format=csv", 200, 2),  # the rows, and that there are no more
        (f"format=csv&project_id={'0' * 32}", 200, 1),
        ("format=csv&region=R1", 200, 3),
        ("format=csv&region=R2", 400, 1),
    ],
)
def test_names_are_checked_only_if_there_may_be_no_row(site, monkeypatch, query, status, reads):
    scan, read, seen = orphaned.found(site.store), site.store.orphans, []
    monkeypatch.setattr(site.store, "orphans", lambda *args, **filters: seen.append(args) or read(*args, **filters))
    assert site.get(f"{ORPHANS}/{scan.id}/orphans?{query}").status == status
    assert len(seen) == reads


@pytest.mark.parametrize("how", ["query", "header"])
def test_the_export_is_csv_with_nothing_that_a_spreadsheet_would_run(site, how):
    scan = orphaned.found(site.store)
    path, headers = f"{ORPHANS}/{scan.id}/orphans", {}
    if how == "query":
        path += "?format=csv"
    else:
        headers["Accept"] = "text/csv"
    answer = site.get(path, headers=headers)
    assert answer.headers["content-type"] == "text/csv; charset=UTF-8"
    rows = list(csv.reader(io.StringIO(answer.body.decode(), newline="")))
    assert rows[0][:5] == ["project_id", "region", "service", "type", "id"]
    assert [row[5] for row in rows[1:]] == [
        "web",
        '\'=HYPERLINK("http://evil")',
        '\'-1+1, "quoted"\nand 🗑',
        "default",
    ]
    assert rows[2][7:9] == ["", "false"]


def test_the_export_has_every_row_however_many_pages_it_takes(site, monkeypatch):
    monkeypatch.setattr("cleanup_orchestrator.api.orphans._EXPORT_PAGE", 2)
    scan = orphaned.found(site.store, tuple(orphaned.port(f"p{n}") for n in range(7)))
    answer = site.get(f"{ORPHANS}/{scan.id}/orphans?format=csv&limit=1")
    assert len(answer.body.splitlines()) == 8


def test_projects_are_shown_with_their_deletion_records(any_site):
    records = {name: str(uuid.uuid4()) for name in ("older", "newer")}
    for name, record_id in records.items():
        record = accepted(
            id=record_id, project_id=orphaned.DEAD, project_name=name, domain_id="d1", mode=Mode.REPORT,
            dry_run=False,
        )  # fmt: skip
        record = any_site.store.create(record, TASKS, Event("deletion.accepted", "x"))
        _end(any_site.store, record)
    scan = orphaned.found(any_site.store)
    path = f"{ORPHANS}/{scan.id}/projects"
    first, second = any_site.get(path).json["projects"]
    assert first == {
        "project_id": orphaned.DEAD, "project_name": "newer", "domain_id": "d1", "deletion_id": records["newer"],
        "orphans": 2, "counts": [{"type": "network.port", "count": 2}],
        "project_settings": [{"type": "network.default_security_group", "count": 1}],
    }  # fmt: skip
    assert (second["project_id"], second["project_name"], second["orphans"]) == (orphaned.OTHER, None, 1)
    page = any_site.get(f"{path}?limit=1").json
    assert page["projects"] == [first]
    following = page["links"][0]["href"].removeprefix("http://cleanup.example.com")
    assert any_site.get(following).json == {"projects": [second]}


def _end(store, record):
    from cleanup_orchestrator.core.transitions import By, move

    for to, by in ((Status.INVENTORY, By.ENGINE), (Status.FAILED, By.ENGINE)):
        after = move(record, to, by, store.now(), "x")
        record = save(store, record, after)


# -------------------------------------------------------------------------------------------------------- adoption
def adopt(site, scan, project_id=orphaned.DEAD, token=ks.ADMIN, **fields):
    return site.post(f"{ORPHANS}/{scan.id}/adopt", {"project_id": project_id, **fields}, token)


def test_an_adoption_is_an_ordinary_deletion_with_the_origin_adopted(any_site):
    scan = orphaned.found(any_site.store)
    answer = adopt(any_site, scan, dry_run=True)
    assert answer.status == 202, answer.body
    made = answer.json["deletion"]
    assert (made["origin"], made["mode"], made["dry_run"], made["status"]) == ("adopted", "cascade", True, "accepted")
    assert answer.headers["location"].endswith(f"/v1/deletions/{made['id']}")
    assert any_site.bus.casts == [made["id"]]
    events = any_site.get(f"/v1/deletions/{made['id']}/events").json["events"]
    assert (events[0]["type"], events[0]["data"]["orphan_scan_id"]) == ("deletion.adopted", scan.id)
    assert [d["id"] for d in any_site.get("/v1/deletions?origin=adopted").json["deletions"]] == [made["id"]]
    again = adopt(any_site, scan, dry_run=True)
    assert (again.status, again.json["deletion"]["id"]) == (202, made["id"])
    real = adopt(any_site, scan).json["deletion"]["id"]
    assert real != made["id"] and any_site.store.get(made["id"]).status is Status.CANCELLED
    other = adopt(any_site, scan, dry_run=True)
    assert (other.status, other.error["code"], other.error["deletion_id"]) == (409, "deletion_under_way", real)


def test_an_adoption_during_a_cancel_says_to_wait(site):
    """The answer must not say "cancel it first" of a deletion that is being cancelled."""
    scan = orphaned.found(site.store)
    made = adopt(site, scan).json["deletion"]["id"]
    assert site.call("POST", f"/v1/deletions/{made}/cancel").status == 202
    refused = adopt(site, scan)
    assert (refused.status, refused.error["code"], refused.error["deletion_id"]) == (409, "deletion_under_way", made)
    assert "is being cancelled: repeat the request when that has ended" in refused.error["detail"]


def test_what_keystone_knows_is_not_adopted(site, keystone):
    scan = orphaned.found(site.store, (orphaned.port("p1", "p1"),))
    answer = adopt(site, scan, "p1")
    assert (answer.status, answer.error["code"]) == (409, "project_known")


def test_nothing_is_adopted_unless_keystone_confirms_that_the_project_is_gone(site, keystone):
    scan = orphaned.found(site.store)
    keystone.broken = True
    assert adopt(site, scan).status == 503
    keystone.broken = False
    own = keystone.projects.pop(ks.OWN_PROJECT)
    try:
        assert (adopt(site, scan).status) == 503, "a Keystone that does not know our own project says nothing"
    finally:
        keystone.projects[ks.OWN_PROJECT] = own
    assert site.get("/v1/deletions").json["deletions"] == []


def test_only_what_the_scan_found_is_adopted_and_only_when_it_has_ended(site):
    scan = orphaned.found(site.store)
    answer = adopt(site, scan, "f" * 32)
    assert (answer.status, answer.error["code"]) == (404, "orphan_project_not_found")
    running = orphaned.begin(site.store)
    answer = adopt(site, running)
    assert (answer.status, answer.error["code"]) == (409, "orphan_scan_under_way")


def test_the_never_delete_list_stands_above_adoption(tmp_path, keystone):
    from tests.functional.test_api.site import Site

    site = Site(tmp_path, keystone=keystone, extra=f"[deletion]\nnever_delete_projects = {orphaned.DEAD}\n")
    answer = adopt(site, orphaned.found(site.store))
    assert (answer.status, answer.error["code"]) == (403, "project_protected")
    site.close()


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"project_id": None}, "project_id"), ({"project_id": "a b"}, "project_id"), ({"project_id": ""}, "project_id"),
     ({"dry_run": "yes"}, "dry_run"), ({"mode": "report"}, "mode"), ({"force": True}, "force")],
)  # fmt: skip
def test_a_bad_adoption(site, fields, field):
    answer = adopt(site, orphaned.found(site.store), **fields)
    assert (answer.status, answer.error["code"], answer.error["field"]) == (400, "invalid_body", field)


@pytest.mark.parametrize("token", [ks.MANAGER, ks.MEMBER, ks.DOMAIN_MEMBER])
def test_only_an_admin_can_read_or_change_anything(site, token):
    scan = orphaned.found(site.store)
    calls = [("POST", ORPHANS), ("GET", ORPHANS), ("GET", f"{ORPHANS}/{scan.id}"), ("DELETE", f"{ORPHANS}/{scan.id}")]
    calls += [("GET", f"{ORPHANS}/{scan.id}/{part}") for part in ("orphans", "projects")]
    for method, path in calls:
        assert site.call(method, path, token).error["code"] == "forbidden", path
    assert adopt(site, scan, token=token).error["code"] == "forbidden"


def test_a_system_reader_can_read_and_cannot_change_anything(site, keystone):
    token = keystone.token("auditor-token", "reader", system=True)
    scan = orphaned.found(site.store)
    for path in (ORPHANS, f"{ORPHANS}/{scan.id}", f"{ORPHANS}/{scan.id}/orphans", f"{ORPHANS}/{scan.id}/projects"):
        assert site.get(path, token).status == 200, path
    assert site.post(ORPHANS, token=token).status == 403
    assert site.call("DELETE", f"{ORPHANS}/{scan.id}", token).status == 403
    assert adopt(site, scan, token=token).status == 403


@pytest.mark.parametrize("path", ["", "/orphans", "/projects"])
@pytest.mark.parametrize("id_", ["nope", "11111111-2222-3333-4444-555555555555"])
def test_a_scan_that_is_not_there(site, path, id_):
    answer = site.get(f"{ORPHANS}/{id_}{path}")
    assert (answer.status, answer.error["code"]) == (404, "orphan_scan_not_found")


def test_an_incomplete_scan_shows_its_orphans_and_allows_adoption(site):
    scan = orphaned.found(site.store, status=ScanStatus.INCOMPLETE)
    assert len(site.get(f"{ORPHANS}/{scan.id}/orphans").json["orphans"]) == 4
    assert adopt(site, scan).status == 202
