"""The hook, with stand-ins for Flask and Keystone, which this environment does not have.

`tests/cloud/test_pipeline.py` runs it in the real Keystone.
"""

import sys
import types

import pytest

from cleanup_orchestrator.keystone import intercept, pipeline, protocol

PROJECT = {"id": "p1", "name": "demo", "domain_id": "d1", "is_domain": False, "options": {}}
REFUSED = intercept.Refused(404, "There is no project p1.").response


class Forbidden(Exception):
    pass


class NotFound(Exception):
    pass


class Immutable(Exception):
    pass


def module(name, **members):
    made = types.ModuleType(name)
    vars(made).update(members)
    return made


class Site:
    """One request to Keystone: its policy, its projects, and what the orchestrator answers."""

    def __init__(self, monkeypatch):
        self.allowed, self.projects, self.handled = True, {"p1": PROJECT}, []
        self.answer = None
        self.request = types.SimpleNamespace(
            endpoint="projects", method="DELETE", headers={"X-Auth-Token": "t"}, environ={"who": None},
            query_string=b"", view_args={"project_id": "p1"},
        )  # fmt: skip
        driver = types.SimpleNamespace(get_project=self.get, list_projects_in_subtree=lambda id_: [{"id": "child"}])
        apis = types.SimpleNamespace(resource_api=types.SimpleNamespace(driver=driver))
        stand_ins = {
            "flask": module("flask", request=self.request, jsonify=self.jsonify),
            "keystone": module("keystone"),
            "keystone.exception": module("e", ProjectNotFound=NotFound, DomainNotFound=NotFound),
            "keystone.api": module("a", projects=types.SimpleNamespace(_build_project_target_enforcement=None)),
            "keystone.common": module("c"),
            "keystone.common.context": module("c", REQUEST_CONTEXT_ENV="who"),
            "keystone.common.provider_api": module("p", ProviderAPIs=apis),
            "keystone.common.rbac_enforcer": module("r", enforcer=types.SimpleNamespace(RBACEnforcer=self)),
            "keystone.common.resource_options": module("r"),
            "keystone.common.resource_options.options": module("o", immutable=self),
        }
        for name, stand_in in stand_ins.items():
            monkeypatch.setitem(sys.modules, name, stand_in)
            room, _, own = name.rpartition(".")
            if room:
                setattr(stand_ins[room], own, stand_in)
        monkeypatch.setattr(intercept, "handle", self.handle)

    def get(self, id_):
        if id_ not in self.projects:
            raise NotFound
        return self.projects[id_]

    def enforce_call(self, action, build_target=None):
        if not self.allowed:
            raise Forbidden(action)

    def check_immutable_delete(self, resource_ref, resource_type, resource_id):
        if resource_ref["options"].get("immutable"):
            raise Immutable(resource_type, resource_id)

    def handle(self, settings, target, caller):
        self.handled.append((target, caller))
        return self.answer

    @staticmethod
    def jsonify(body):
        return types.SimpleNamespace(body=body, status_code=200, headers={})

    def delete(self):
        settings = intercept.Settings("always", "http://127.0.0.1:1", user_id="orchestrator")
        return pipeline._Hook(settings, {"projects": "project", "domains": "domain"})()


@pytest.fixture
def site(monkeypatch):
    return Site(monkeypatch)


def test_a_delete_is_handed_over_with_what_keystone_knows_of_the_project(site):
    site.answer = intercept.Response(202, {"deletion": {}}, {"Location": "here"})
    answer = site.delete()
    ((target, caller),) = site.handled
    assert target == intercept.Target("p1", "demo", "d1", below=frozenset({"child"}))
    assert caller.token == "t"
    assert (answer.status_code, answer.headers) == (202, {"Location": "here"})


def test_a_caller_whom_keystones_policy_refuses_does_not_reach_the_orchestrator(site):
    site.allowed = False
    with pytest.raises(Forbidden, match="identity:delete_project"):
        site.delete()
    assert site.handled == []


@pytest.mark.parametrize(("changed", "error"), [({"immutable": True}, Immutable), (None, NotFound)])
def test_keystone_itself_refuses_what_is_immutable_or_missing(site, changed, error):
    site.projects = {"p1": PROJECT | {"options": changed}} if changed else {}
    with pytest.raises(error):
        site.delete()
    assert site.handled == []


def test_a_404_of_the_orchestrator_never_reaches_the_client(site):
    """The client would take it for a deleted project."""
    site.answer = REFUSED
    assert site.delete().status_code == 503


def test_a_404_is_keystones_if_the_project_is_gone_meanwhile(site):
    site.answer = REFUSED
    handle = intercept.handle

    def gone(*arguments):
        site.projects = {}
        return handle(*arguments)

    intercept.handle = gone
    with pytest.raises(NotFound):
        site.delete()


@pytest.mark.parametrize(("user", "passes"), [("orchestrator", True), ("another", False), (None, False)])
def test_the_final_delete_passes_for_the_orchestrators_user_only(site, user, passes):
    site.request.headers = {protocol.FINAL_HEADER: "d-1"}
    site.request.environ = {"who": types.SimpleNamespace(user_id=user)}
    site.answer = intercept.Response(202, {})
    assert (site.delete() is None, site.handled == []) == (passes, passes)


@pytest.mark.parametrize(("endpoint", "method"), [("projects", "GET"), ("users", "DELETE"), (None, "DELETE")])
def test_other_requests_go_on(site, endpoint, method):
    site.request.endpoint, site.request.method = endpoint, method
    assert site.delete() is None
    assert site.handled == []
