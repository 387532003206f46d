"""What a list and a status poll cost: statements, policy checks, and what Keystone is asked for."""

import dataclasses
import datetime

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.api.policies import PolicyEnforcer
from cleanup_orchestrator.store import records, tables
from tests.functional.test_api import keystone as ks
from tests.support.stores import create
from tests.unit.world import T0, deletion

SORTED = "&sort=project_name:asc"


@pytest.fixture
def statements(site):
    """The statements since the beginning of the test."""
    sent = []
    note = lambda *arguments: sent.append(arguments[2])  # noqa: E731
    sa.event.listen(site.store.database.engine, "before_cursor_execute", note)
    return sent


@pytest.fixture
def checks(monkeypatch):
    """The policy rules that were checked since the beginning of the test."""
    checked, may = [], PolicyEnforcer.may

    def note(self, context, rule, *target):
        checked.append(rule)
        return may(self, context, rule, *target)

    monkeypatch.setattr(PolicyEnforcer, "may", note)
    return checked


@pytest.mark.parametrize("path", ["/v1/deletions?limit=50", "/v1/deletions?limit=50&attention=false" + SORTED])
def test_the_statements_and_checks_of_a_list_do_not_depend_on_its_length(site, statements, checks, path):
    counted = []
    for number in (2, 20):
        for each in range(number):
            create(site.store, project_id=f"{number}-{each}")
        statements.clear()
        checks.clear()
        assert len(site.get(path).json["deletions"]) >= number
        counted.append((len(statements), len(checks)))
    assert counted[0] == counted[1] == (3, 1)


def test_a_status_poll_needs_few_statements_and_checks(site, statements, checks):
    record = create(site.store)
    statements.clear()
    assert site.get(f"/v1/deletions/{record.id}").status == 200
    assert len(statements) == 3, "BEGIN, the deletion, its steps"
    assert len(checks) == 2, "whether it may be seen, and whether the grants that the drain removed may be seen"


@pytest.mark.parametrize("part", ["leftovers", "events"])
def test_a_page_of_a_deletion_does_not_read_its_steps(site, statements, part):
    record = create(site.store)
    statements.clear()
    assert site.get(f"/v1/deletions/{record.id}/{part}").status == 200
    assert not [each for each in statements if "FROM steps" in each]


def test_keystone_is_not_asked_for_the_catalog_of_the_token(site, monkeypatch):
    asked, answer = [], site.keystone._answer

    def note(method, path, environ):
        if (method, path) == ("GET", "/v3/auth/tokens"):
            asked.append(environ["QUERY_STRING"])
        return answer(method, path, environ)

    monkeypatch.setattr(site.keystone, "_answer", note)
    assert site.get("/v1/deletions", ks.SECOND_ADMIN).status == 200
    assert asked == ["nocatalog"]


# ------------------------------------------------------------------------------------------------------------- filters
HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def three(any_site):
    """Three deletions, an hour apart, of two users and two projects of one name; the first one changed last."""
    rows = [
        {"project_id": "p1", "project_name": "demo", "domain_id": "d1", "user_id": "u1", "user_name": "alice"},
        {"project_id": "p2", "project_name": "demo", "domain_id": "d2", "user_id": "u2", "user_name": "bob"},
        {"project_id": "p3", "project_name": "test", "domain_id": "d1", "user_id": "u3", "user_name": "alice"},
    ]
    with any_site.store.database.begin() as c:
        for n, row in enumerate(rows):
            times = {"created_at": T0 + n * HOUR, "updated_at": T0 + (9 - n) * HOUR}
            record = dataclasses.replace(deletion(id=f"{n}0000000-0000-0000-0000-000000000000", **row), **times)
            c.execute(tables.deletions.insert(), [records.deletion_values(record)])
    return any_site


def at(hours):
    return (T0 + hours * HOUR).isoformat(timespec="seconds") + "Z"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("project_name=demo", "10"),
        ("project_name=nosuch", ""),
        ("project_name=demo&domain_id=d1", "0"),
        ("user_name=alice", "20"),
        ("user_id=u2", "1"),
        ("user_id=u2&user_name=alice", ""),
        (f"created_since={at(1)}", "21"),
        (f"created_until={at(1)}", "0"),
        (f"created_since={at(1)}&created_until={at(2)}", "1"),
        (f"created_since={at(3)}", ""),
        (f"changed_since={at(8)}", "01"),
        (f"changed_since={at(8)}&sort=created_at:asc", "01"),
        (f"changed_since={at(8)}&sort=created_at:desc", "10"),
        (f"changed_since={at(8)}&user_name=alice", "0"),
        (f"changed_since={at(0)}&limit=2", "01"),
    ],
)
def test_filters_of_deletions(three, query, found):
    answer = three.get(f"/v1/deletions?{query}")
    assert answer.status == 200, answer.body
    assert "".join(d["id"][0] for d in answer.json["deletions"]) == found


def test_the_next_page_of_what_changed_is_in_the_same_order(three):
    link = three.get(f"/v1/deletions?changed_since={at(0)}&limit=2").json["links"][0]["href"]
    page = three.get(link.removeprefix("http://cleanup.example.com")).json
    assert [d["id"][0] for d in page["deletions"]] == ["2"]


def test_the_next_page_has_every_value_of_a_filter(three):
    link = three.get("/v1/deletions?status=failed&status=accepted&sort=created_at:asc&limit=2").json["links"][0]["href"]
    page = three.get(link.removeprefix("http://cleanup.example.com")).json
    assert [d["id"][0] for d in page["deletions"]] == ["2"]


@pytest.mark.parametrize("name", ["created_since", "created_until", "changed_since"])
@pytest.mark.parametrize("value", ["yesterday", "2026-11-21", "2026-11-21T10:00:00", "2026-02-30T00:00:00Z", ""])
def test_a_time_that_is_none(site, name, value):
    answer = site.get(f"/v1/deletions?{name}={value}")
    assert (answer.status, answer.error["code"], answer.error["field"]) == (400, "invalid_query", name)


def test_a_filter_shows_no_other_domain(three):
    for query in ("project_name=demo", "user_name=bob", f"created_since={at(0)}", f"changed_since={at(0)}"):
        shown = three.get(f"/v1/deletions?{query}", ks.MANAGER).json["deletions"]
        assert {d["domain_id"] for d in shown} <= {"d1"}, query


def test_a_user_who_may_list_no_domain_cannot_ask_for_the_deletions_of_another(three):
    answer = three.get("/v1/deletions?user_id=u1", ks.MEMBER)
    assert (answer.status, answer.error["code"]) == (403, "forbidden")
