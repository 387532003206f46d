"""What a list and a status poll cost: statements, policy checks, and what Keystone is asked for."""

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.api.policies import PolicyEnforcer
from tests.functional.test_api import keystone as ks
from tests.support.stores import create

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
    # one transaction for the page, one for the counts
    assert counted[0] == counted[1] == (5, 1)


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
