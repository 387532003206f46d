"""Searches in the records of all deletions: what they find, what they leave out, and who sees what."""

import datetime

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Step, StepKind
from cleanup_orchestrator.store import records, retention, tables
from cleanup_orchestrator.store.journal import write_journal
from cleanup_orchestrator.store.leftovers import replace_leftovers
from tests.functional.test_api import keystone as ks
from tests.support.stores import create
from tests.unit.world import T0

HOUR = datetime.timedelta(hours=1)
PORT, VOLUME = ("network", "port"), ("block-storage", "volume")


def left(site, deletion, place, *leftovers):
    """Record leftovers of a type."""
    step = Step(f"{deletion.id[:8]}-{place[1]}", deletion.id, StepKind.SWEEP, "R1", *place)
    with site.store.database.begin() as c:
        c.execute(tables.steps.insert(), [records.step_values(step)])
        replace_leftovers(c, step, leftovers, False)


def one(id_, reason=Reason.IN_USE, **values):
    return Leftover(id_, f"name of {id_}", reason, "why", **values)


def put(site, deletion, **values):
    """Change the record, whatever the rules say."""
    with site.store.database.begin() as c:
        c.execute(tables.deletions.update().where(tables.deletions.c.id == deletion.id).values(**values))


def made(site, project_id="p1", domain_id="d1", status=Status.LEFTOVERS, hours=0, **values):
    deletion = create(site.store, project_id=project_id, domain_id=domain_id, project_name=f"name-{project_id}")
    at = T0 + hours * HOUR
    put(site, deletion, status=str(status), created_at=at, updated_at=at, live_project_id=None, **values)
    return deletion


def listed(site, query="", token=ks.ADMIN):
    seen, path = [], f"/v1/leftovers?{query}"
    while path:
        answer = site.get(path, token)
        assert answer.status == 200, answer.body
        seen += answer.json["leftovers"]
        path = (
            answer.json["links"][0]["href"].removeprefix("http://cleanup.example.com") if "links" in answer.json else ""
        )
    return seen


@pytest.fixture
def two(any_site):
    """Leftovers of a project in each of two domains."""
    first = made(any_site)
    left(any_site, first, PORT, one("a"), one("b", Reason.PROTECTED))
    second = made(any_site, "p2", "d2", Status.FAILED)
    left(any_site, second, VOLUME, one("c", Reason.ERROR, abandoned=True, size=10))
    left(any_site, second, PORT, one("d"))
    any_site.first, any_site.second = first, second
    return any_site


class TestLeftovers:
    def test_each_names_its_deletion_and_its_project(self, two):
        found = listed(two)
        assert [(row["id"], row["size"]) for row in found] == [("a", None), ("b", None), ("c", 10), ("d", None)]
        of_one = two.get(f"/v1/deletions/{two.second.id}/leftovers").json["leftovers"]
        project = {"project_id": "p2", "project_name": "name-p2", "domain_id": "d2"}
        assert found[2:] == [{"deletion_id": two.second.id, **project, **row} for row in of_one]

    @pytest.mark.parametrize(
        ("query", "ids"),
        [
            ("service=network", "abd"),
            ("type=volume", "c"),
            ("service=network&type=port&reason=in_use", "ad"),
            ("reason=protected", "b"),
            ("region=R1", "abcd"),
            ("abandoned=true", "c"),
            ("abandoned=false&domain_id=d2", "d"),
            ("domain_id=d1", "ab"),
        ],
    )
    def test_filters(self, two, query, ids):
        for limit in ("", "&limit=1"):
            assert "".join(row["id"] for row in listed(two, query + limit)) == ids

    @pytest.mark.parametrize(
        ("token", "query", "ids"),
        [
            (ks.SYSTEM, "", "abcd"),
            (ks.MANAGER, "", "ab"),
            (ks.MANAGER, "domain_id=d1", "ab"),
            (ks.OTHER_MANAGER, "", "cd"),
            (ks.OTHER_MANAGER, "service=network", "d"),
        ],
    )
    def test_a_domain_manager_sees_the_own_domain(self, two, token, query, ids):
        assert "".join(row["id"] for row in listed(two, query, token)) == ids

    @pytest.mark.parametrize(
        ("token", "query"),
        [(ks.MEMBER, ""), (ks.DOMAIN_MEMBER, ""), (ks.PROJECT_MANAGER, ""), (ks.MANAGER, "domain_id=d2")],
    )
    def test_others_see_nothing(self, two, token, query):
        answer = two.get(f"/v1/leftovers?{query}", token)
        assert (answer.status, answer.error["code"]) == (403, "forbidden")

    def test_what_a_later_deletion_of_the_project_left_is_what_is_left(self, two):
        later = made(two, hours=1)
        left(two, later, PORT, one("b"))
        assert [row["id"] for row in listed(two, "domain_id=d1")] == ["b"]

    def test_a_later_dry_run_changes_nothing_and_is_not_listed(self, two):
        later = made(two, hours=1, dry_run=True)
        left(two, later, PORT, one("e", Reason.PRESENT))
        assert [row["id"] for row in listed(two, "domain_id=d1")] == ["a", "b"]

    def test_after_a_cancel_nothing_is_left_over(self, two):
        put(two, two.first, status="cancelled")
        assert listed(two, "domain_id=d1") == []

    def test_what_is_deleted_with_the_project_is_left_until_then(self, two):
        left(two, two.first, VOLUME, one("i", Reason.INFORMATIONAL))
        assert [row["id"] for row in listed(two, "domain_id=d1")] == ["a", "b", "i"]
        put(two, two.first, status="deleted")
        assert [row["id"] for row in listed(two, "domain_id=d1")] == ["a", "b"]

    def test_kept_resources_are_no_leftovers(self, site):
        answer = site.get("/v1/leftovers?reason=kept")
        assert (answer.status, answer.error["code"], answer.error["field"]) == (400, "invalid_query", "reason")


def note(site, deletion, type_, *ids):
    """Write a journal line that names resources, as a worker does it."""
    data = {"service": "network", "type": "port", "resources": [{"id": id_, "name": f"name of {id_}"} for id_ in ids]}
    with site.store.database.begin() as c:
        write_journal(
            c, deletion.id, T0, [Event("note", "x"), Event(type_, f"{len(ids)}", "w", data), Event("note", "y")]
        )


@pytest.fixture
def journals(any_site):
    """Two deletions in two domains. Both were going to delete "b", and the second one has deleted it."""
    any_site.first, any_site.second = made(any_site), made(any_site, "p2", "d2", Status.DELETED)
    note(any_site, any_site.first, "resource.deleting", "a", "b", "a")
    note(any_site, any_site.second, "resource.deleting", "b", "ünïcødé/ %")
    note(any_site, any_site.second, "resource.deleted", "b", "ünïcødé/ %", "")
    return any_site


class TestEvents:
    def find(self, site, query, token=ks.ADMIN):
        answer = site.get(f"/v1/events?{query}", token)
        assert answer.status == 200, answer.body
        return [(row["project_id"], row["type"]) for row in answer.json["events"]]

    def test_which_deletion_deleted_a_resource(self, journals):
        [found] = journals.get("/v1/events?resource_id=b&type=resource.deleted").json["events"]
        rows = journals.get(f"/v1/deletions/{journals.second.id}/events?type=resource.deleted").json["events"]
        project = {"project_id": "p2", "project_name": "name-p2", "domain_id": "d2"}
        assert [found] == [{"deletion_id": journals.second.id, **project, **row} for row in rows]

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("resource_id=a", [("p1", "resource.deleting")]),
            (
                "resource_id=b",
                [("p1", "resource.deleting"), ("p2", "resource.deleting"), ("p2", "resource.deleted")],
            ),
            ("resource_id=%C3%BCn%C3%AFc%C3%B8d%C3%A9%2F%20%25&type=resource.deleted", [("p2", "resource.deleted")]),
            ("resource_id=b&domain_id=d1", [("p1", "resource.deleting")]),
            ("resource_id=nosuch", []),
        ],
    )
    def test_filters(self, journals, query, found):
        assert self.find(journals, query) == found

    def test_pages(self, journals):
        page = journals.get("/v1/events?resource_id=b&limit=2").json
        more = journals.get(page["links"][0]["href"].removeprefix("http://cleanup.example.com")).json
        assert [row["type"] for row in page["events"] + more["events"]] == [
            "resource.deleting",
            "resource.deleting",
            "resource.deleted",
        ]
        assert "links" not in more

    def test_the_events_of_one_deletion_that_name_a_resource(self, journals):
        path = f"/v1/deletions/{journals.second.id}/events"
        rows = journals.get(f"{path}?resource_id=b").json["events"]
        assert [row["type"] for row in rows] == ["resource.deleting", "resource.deleted"]
        assert journals.get(f"{path}?resource_id=a").json["events"] == []
        everything = [row["type"] for row in journals.get(path).json["events"]]
        assert everything == [
            "deletion.accepted",
            *["note", "resource.deleting", "note"],
            *["note", "resource.deleted", "note"],
        ]

    @pytest.mark.parametrize(
        ("token", "projects"),
        [(ks.SYSTEM, ["p1", "p2", "p2"]), (ks.MANAGER, ["p1"]), (ks.OTHER_MANAGER, ["p2", "p2"])],
    )
    def test_a_domain_manager_sees_the_own_domain(self, journals, token, projects):
        assert [project for project, _type in self.find(journals, "resource_id=b", token)] == projects

    @pytest.mark.parametrize(
        ("token", "query"),
        [(ks.MEMBER, ""), (ks.DOMAIN_MEMBER, ""), (ks.PROJECT_MANAGER, ""), (ks.MANAGER, "&domain_id=d2")],
    )
    def test_others_see_nothing(self, journals, token, query):
        answer = journals.get(f"/v1/events?resource_id=b{query}", token)
        assert (answer.status, answer.error["code"]) == (403, "forbidden")

    @pytest.mark.parametrize(
        "query", ["", "type=resource.deleted", "resource_id=", "resource_id=a%00", "resource_id=" + "x" * 513]
    )
    def test_a_search_names_one_resource(self, site, query):
        answer = site.get(f"/v1/events?{query}")
        assert (answer.status, answer.error["code"], answer.error["field"]) == (400, "invalid_query", "resource_id")

    def test_a_purge_removes_the_names(self, journals):
        with journals.store.database.begin() as c:
            c.execute(tables.deletions.update().values(finished_at=T0))
            removed = retention.purge(c, datetime.timedelta(0), named=True)
        assert removed["event_resources"] == 6
        assert self.find(journals, "resource_id=b") == []
