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
