"""Keystone: whose application credentials and rows are looked for, and which lists are believed."""

from __future__ import annotations

import dataclasses
import json
import types

import pytest
import requests
from keystoneauth1.adapter import Adapter
from openstack import exceptions

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.errors import BadAnswer, ProjectGone
from cleanup_orchestrator.plugins import identity
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource
from tests.support.sweeps import inventory
from tests.unit.answers import connection, ids, listing, project
from tests.unit.plugins.test_orchestration import of_gone

NOT_FOUND = {"error": {"code": 404, "title": "Not Found", "message": "Could not find it."}}


class Keystone(Adapter):
    """Answers by path: (status, body)."""

    def __init__(self, **answers):
        super().__init__(session=None)
        self.answers = answers

    def request(self, url, method, **_):
        status, body = self.answers[url.split("?")[0].strip("/").split("/")[0]]
        response = requests.Response()
        response.status_code, response.url = status, url
        response._content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        response.headers["Content-Type"] = "application/json"
        response.request = requests.Request(method, f"http://keystone{url}").prepare()
        return response


def users(members=(), **answers):
    project = ProjectDefinition("p", "P", "default", "", member_ids=members, options={})
    return identity._users(types.SimpleNamespace(identity=Keystone(**answers)), project)


def test_those_of_now_and_those_of_before():
    rows = {"role_assignments": [{"user": {"id": "now"}}], "links": {}}
    assert users(("before",), role_assignments=(200, rows)) == ["before", "now"]


def test_members_of_a_project_that_is_gone_are_the_recorded_ones_or_else_all_users():
    gone = {"role_assignments": (404, NOT_FOUND), "projects": (404, NOT_FOUND)}
    assert users(("before",), **gone) == ["before"]
    gone |= {"domains": (200, {"domains": [{"id": "d"}]}), "users": (200, {"users": [{"id": "u"}]})}
    assert users(("before",), **gone) == ["before"]
    with pytest.raises(ProjectGone, match="most_users"):  # the option is unset here: none may be asked about
        users((), **gone)


@pytest.mark.parametrize(
    ("project", "error"),
    [
        ((200, {"project": {"id": "p"}}), BadAnswer),
        ((503, "no"), exceptions.HttpException),
        ((404, "<html>not here</html>"), exceptions.NotFoundException),
        ((404, {}), exceptions.NotFoundException),
    ],
    ids=["it is there", "no answer", "a proxy", "not Keystone's words"],
)
def test_a_list_that_is_not_there_is_no_answer_while_the_project_may_be(project, error):
    with pytest.raises(error):
        users(("before",), role_assignments=(404, NOT_FOUND), projects=project)


# --------------------------------------------------------------------------------------------------- of every user
def everybody(count, answer, most=10_000):
    """Ask for everybody where each list is ``answer``'s of so many ids, its key and the query."""

    def keystone(method, path, query, body):
        key = path.strip("/")
        if key == "domains":
            ids = [f"d{n:05}" for n in range(count)]
        else:
            ids = [f"{query['domain_id']}u{n:05}" for n in range(count if query["domain_id"] == "d00000" else 0)]
        return 200, answer(ids, key, query)

    project = ProjectDefinition("p", "P", "default", "", options={"most_users": most})
    return identity._all_users(connection(identity=keystone), project)


def rows(ids, key, **more):
    return {key: [{"id": i} for i in ids], "links": {"next": None, "self": "http://k/", "previous": None}, **more}


def keystone_30(ids, key, query, most=1000):
    """Cut at ``max_db_limit``; a caller that sends no limit is not told (``server/flask/common.py``)."""
    limit = min(int(query["limit"]), most) if "limit" in query else None
    found = [i for i in ids if i > query.get("marker", "")][: limit or most]
    body = rows(found, key)
    if limit and len(found) >= limit:
        body["truncated"] = True
        body["links"]["next"] = f"http://k/v3/{key}?limit={limit}&marker={found[-1]}"
    return body


@pytest.mark.parametrize("most", [100, 1000])
@pytest.mark.parametrize("count", [1, 99, 100, 200, 998, 999, 1000, 2500])
def test_all_pages_of_a_keystone_with_a_list_limit_are_read(count, most):
    found = everybody(count, lambda ids, key, query: keystone_30(ids, key, query, most))
    assert found == {f"d00000u{n:05}" for n in range(count)}


@pytest.mark.parametrize("count", [1, 998, 1000, 2500])
def test_a_keystone_without_a_list_limit_returns_one_page(count):
    assert len(everybody(count, lambda ids, key, query: rows(ids, key))) == count


@pytest.mark.parametrize("cut", ["users", "domains"])
@pytest.mark.parametrize(
    "answer",
    [
        lambda ids, key, query: rows(ids[:10], key, truncated=True),
        lambda ids, key, query: rows(ids[: int(query.get("limit", 1000))], key),
        lambda ids, key, query: keystone_30(ids, key, {**query, "marker": ""}),
        lambda ids, key, query: {"error": "none"},
    ],
    ids=["list_limit", "full and nothing said", "the driver ignores the marker (LDAP)", "no list"],
)
def test_a_list_that_may_have_been_cut_is_no_answer(answer, cut):
    with pytest.raises(BadAnswer):
        everybody(1500, lambda ids, key, query: (answer if key == cut else keystone_30)(ids, key, query))


def test_too_many_users_are_too_many_before_the_last_page():
    with pytest.raises(ProjectGone, match="most_users"):
        everybody(2500, keystone_30, most=1500)


# ------------------------------------------------------------------------------------------------------- by project
LIVING = ProjectDefinition("p", "P", "default", "", options={})
TYPES = {type_.name: type_ for type_ in identity.SERVICE.types}
KEY = "application_credentials"
BY_PROJECT = f"/OS-PROJECT-CLEANUP/projects/p/{KEY}"
HIDDEN = {"id": "c", "name": "n", "user_id": "federated", "project_id": "p"}
LISTED = {"id": "d", "name": "n", "project_id": "p"}


def keystone_with(pages, kinds=(200, {"kinds": [KEY, "oauth1_access_tokens"]})):
    """A Keystone whose lists by project give these (status, body) in turn, and whose own show one user."""
    pages = iter(pages)

    def answer(method, path, query, body):
        if path == "/OS-PROJECT-CLEANUP":
            return kinds
        if path.startswith("/OS-PROJECT-CLEANUP/"):
            return next(pages)
        if path.startswith("/role_assignments"):
            return 200, {"role_assignments": [{"user": {"id": "u"}}]}
        assert path == f"/users/u/{KEY}"
        return 200, {KEY: [LISTED, {**LISTED, "id": "x", "project_id": "other"}]}

    return connection(identity=answer)


def page(*rows, following=None):
    return 200, {KEY: list(rows), "links": {"next": following}}


NEXT = f"http://keystone/v3{BY_PROJECT}?limit=1&marker=1"
REFUSED = {"error": {"code": 403, "title": "Forbidden", "message": "These lists are for cleanup-orchestrator."}}


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ([page(HIDDEN)], [HIDDEN]),
        ([page()], []),
        ([page(HIDDEN, following=NEXT), page({**HIDDEN, "id": "e"})], [HIDDEN, {**HIDDEN, "id": "e"}]),
        ([page(following=NEXT), page(HIDDEN)], [HIDDEN]),
        ([(404, NOT_FOUND)], [{**LISTED, "user_id": "u"}]),
        ([(404, "<html>no such page</html>")], [{**LISTED, "user_id": "u"}]),
        ([(403, REFUSED)], [{**LISTED, "user_id": "u"}]),
    ],
    ids=["one", "none", "pages", "an empty page", "no package", "Flask's 404", "not the orchestrator's user"],
)
def test_credentials_are_listed_by_project_where_keystone_can(pages, expected):
    assert list(TYPES["application_credential"].list(keystone_with(pages), LIVING)) == expected


@pytest.mark.parametrize(
    ("pages", "error"),
    [
        ([(500, "no")], exceptions.HttpException),
        ([(503, "no")], exceptions.HttpException),
        ([(200, {"links": {}})], BadAnswer),
        ([page(HIDDEN, following=NEXT), page(HIDDEN, following=NEXT)], BadAnswer),
        ([page(HIDDEN, following=NEXT), (404, NOT_FOUND)], BadAnswer),  # a process without the package answered
        ([(200, {KEY: [HIDDEN], "truncated": True})], BadAnswer),
    ],
    ids=["error", "no answer", "no list", "the same page again", "two kinds of Keystone", "cut short"],
)
def test_a_list_by_project_that_fails_is_no_answer(pages, error):
    with pytest.raises(error):
        list(TYPES["application_credential"].list(keystone_with(pages), LIVING))


ALL_KINDS = {"kinds": [KEY, "oauth1_access_tokens"]}


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ((200, ALL_KINDS), ""),
        ((404, NOT_FOUND), "by user only"),
        ((403, REFUSED), "user_id in keystone.conf"),
        ((200, {"kinds": ["trusts"]}), "another driver"),
    ],
)
@pytest.mark.parametrize("name", ["application_credential", "oauth1_access_token"])
def test_the_report_says_whose_credentials_may_be_missed(kinds, said, name):
    """With the query that shows them, copyable, for one project and for the projects that are gone."""
    found = TYPES[name].may_miss(keystone_with([], kinds), LIVING)
    assert bool(found) is bool(said)
    if said:
        assert said in found
        assert "SELECT id, user_id, project_id FROM application_credential WHERE project_id = 'p';" in found
        assert "SELECT id, authorizing_user_id, project_id FROM access_token WHERE project_id = 'p';" in found
        gone = TYPES[name].may_miss(keystone_with([], kinds), ProjectDefinition("0" * 32, "", "", ""))
        assert gone.count("WHERE project_id NOT IN (SELECT id FROM project);") == 2


@pytest.mark.parametrize("kinds", [(500, "no"), (503, "no"), (200, "<html></html>")])
def test_whether_users_may_be_missed_is_not_guessed(kinds):
    with pytest.raises((exceptions.HttpException, BadAnswer)):
        TYPES["application_credential"].may_miss(keystone_with([], kinds), LIVING)


def test_a_list_of_all_projects_needs_the_lists_by_project():
    with pytest.raises(BadAnswer, match="may have been missed"):
        list(TYPES["application_credential"].all_projects(keystone_with([(404, NOT_FOUND)], (404, NOT_FOUND)), LIVING))
    assert list(TYPES["application_credential"].all_projects(keystone_with([page(HIDDEN)]), LIVING)) == [HIDDEN]


DEAD = dataclasses.replace(project("dead"), gone=True)
ADMINS_ONLY = (200, {"services": []})  #: what Keystone tells admins, and its system's readers, alone
NO = (404, {"error": {"code": 404, "message": "Could not find it"}})


def keystone(users):
    def answer(method, path, query, body):
        if path == "/services":
            return ADMINS_ONLY
        if path.startswith("/OS-PROJECT-CLEANUP"):  # it lists them by user only
            return NO
        if path == "/domains":
            return 200, {"domains": [{"id": "d1"}, {"id": "d2"}]}
        if path == "/users":
            return 200, {"users": [{"id": user} for user in users.get(query["domain_id"], ())]}
        if path.endswith("/application_credentials"):
            user = path.split("/")[2]
            rows = [{"id": f"{user}'s", "project_id": "dead"}, {"id": "other", "project_id": "alive"}]
            return 200, {"application_credentials": rows}
        return NO

    return connection(identity=answer)


def test_application_credentials_are_searched_for_among_all_users_if_these_are_few():
    whole = dataclasses.replace(DEAD, options={"most_users": 2})
    type_ = of_gone(identity)["application_credential"]
    found = inventory(type_, keystone({"d1": ["u1"], "d2": ["u2"]}), whole)
    assert [one.id for one in found.leftovers] == ["u1's", "u2's"]
    too_many = inventory(type_, keystone({"d1": ["u1", "u2"], "d2": ["u3"]}), whole)
    assert (too_many.outcome, too_many.reason) == (Outcome.UNKNOWN, Reason.PROJECT_GONE)
    assert "most_users" in too_many.message


def test_a_list_of_users_that_fails_is_not_empty():
    def answer(method, path, query, body):
        if path == "/services":
            return ADMINS_ONLY
        return NO if path != "/domains" else (503, {})

    whole = dataclasses.replace(DEAD, options={"most_users": 2})
    assert (
        inventory(of_gone(identity)["application_credential"], connection(identity=answer), whole).outcome
        is Outcome.UNKNOWN
    )


@pytest.mark.parametrize(("body", "outcome"), [(NO[1], Outcome.CLEAR), ("a proxy's page", Outcome.UNKNOWN)])
def test_associations_count_as_gone_only_if_keystone_confirms_that_the_project_is_gone(body, outcome):
    cloud = connection(identity=lambda _, path, *__: ADMINS_ONLY if path == "/services" else (404, body))
    assert inventory(of_gone(identity)["endpoint_association"], cloud, DEAD).outcome is outcome


OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


def keystone_of_users(method, path, query, body):
    """Two users; each has an application credential in each project, and the first one has the project as default."""
    if path.startswith("/OS-PROJECT-CLEANUP"):  # it lists them by user only
        return 404, {"error": {"code": 404, "message": "not found"}}
    if path.startswith("/role_assignments"):
        scope = {"project": {"id": OURS}}
        return 200, {"role_assignments": [{"user": {"id": who}, "scope": scope} for who in ("u1", "u2")]}
    if path.endswith("/application_credentials"):
        user = path.split("/")[2]
        rows = [{"id": f"{user}-{who}", "project_id": who} for who in (OURS, THEIRS)]
        return 200, {"application_credentials": rows}
    if path.startswith("/users/"):
        user = path.split("/")[2]
        default = OURS if user == "u1" else THEIRS
        return 200, {"user": {"id": user, "default_project_id": default}}
    return 200, {"things": [{"id": who, "project_id": who} for who in (OURS, THEIRS)]}


def test_of_each_users_credentials_those_in_the_project_are_listed():
    found = listing(identity, "application_credential")(connection(identity=keystone_of_users), PROJECT)
    assert sorted(ids(found)) == ["u1-p", "u2-p"]


def test_users_with_the_project_as_their_default_project_are_listed():
    assert ids(identity._default_project_users(connection(identity=keystone_of_users), PROJECT)) == ["u1"]


def test_of_a_list_without_a_filter_the_projects_rows_are_taken():
    assert ids(identity._list_own("/things", "things")(connection(identity=keystone_of_users), PROJECT)) == [OURS]


@pytest.mark.parametrize(
    ("row", "kept"),
    [
        ({"remaining_uses": None, "expires_at": None}, False),
        ({"remaining_uses": 1, "expires_at": "2999-01-01T00:00:00.000000Z"}, False),
        ({"remaining_uses": 0, "expires_at": None}, True),
        ({"remaining_uses": 1, "expires_at": "2020-01-01T00:00:00.000000Z"}, True),
    ],
    ids=["for ever", "for a while", "used up", "expired"],
)
def test_a_trust_that_keystone_answers_404_for_is_kept(row, kept):
    [rule] = next(type_ for type_ in identity.SERVICE.types if type_.name == "trust").keep
    assert bool(rule(Resource("t", "", "p", row), project("p"))) is kept
