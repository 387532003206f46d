"""Searches in the records of all deletions: what they find, what they leave out, and who sees what."""

import datetime

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Step, StepKind
from cleanup_orchestrator.store import records, tables
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
    left(any_site, second, VOLUME, one("c", Reason.ERROR, abandoned=True))
    left(any_site, second, PORT, one("d"))
    any_site.first, any_site.second = first, second
    return any_site


class TestLeftovers:
    def test_each_names_its_deletion_and_its_project(self, two):
        found = listed(two)
        assert [row["id"] for row in found] == ["a", "b", "c", "d"]
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
