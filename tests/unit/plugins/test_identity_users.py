"""Whose application credentials are looked for: a list that is not there is no answer, unless the project is not."""

import json
import types

import pytest
import requests
from keystoneauth1.adapter import Adapter
from openstack import exceptions

from cleanup_orchestrator.errors import BadAnswer, ProjectGone
from cleanup_orchestrator.plugins import identity
from cleanup_orchestrator.plugins.base import ProjectDefinition
from tests.unit.answers import connection

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
PROJECT = ProjectDefinition("p", "P", "default", "", options={})
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
    assert list(TYPES["application_credential"].list(keystone_with(pages), PROJECT)) == expected


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
        list(TYPES["application_credential"].list(keystone_with(pages), PROJECT))


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
    found = TYPES[name].may_miss(keystone_with([], kinds), PROJECT)
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
        TYPES["application_credential"].may_miss(keystone_with([], kinds), PROJECT)


def test_a_list_of_all_projects_needs_the_lists_by_project():
    with pytest.raises(BadAnswer, match="may have been missed"):
        list(TYPES["application_credential"].all_projects(keystone_with([(404, NOT_FOUND)], (404, NOT_FOUND)), PROJECT))
    assert list(TYPES["application_credential"].all_projects(keystone_with([page(HIDDEN)]), PROJECT)) == [HIDDEN]
