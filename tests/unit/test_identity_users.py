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


def test_of_a_project_that_is_gone_those_of_before_are_known_and_else_anybody_may_be_one():
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
