"""``cloud check`` of Keystone: roles, endpoints, the janitor, logins, and the project that is made for the lock."""

from __future__ import annotations

import argparse
import time
import types
import uuid

import pytest
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cmd import cloud_check_keystone as checks
from cleanup_orchestrator.core.conformance import Verdict
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.keystone import protocol
from tests.unit.cloud.test_bootstrap import URL, Keystone


@pytest.fixture
def keystone():
    made = Keystone()
    made.tables["users"]["w"] = {"id": "w", "name": "worker", "domain_id": "default"}
    made.grants |= {("/projects/p", "w", "admin", False), ("/domains/default", "w", "admin", True)}
    made.tables["services"] = {
        "k": {"id": "k", "type": "identity"},
        "c": {"id": "c", "type": "project-cleanup"},
    }
    rows = [
        ("k", "public", "RegionOne", "http://k"),
        ("c", "public", "RegionOne", URL),
        ("c", "internal", "RegionOne", URL),
    ]
    for number, (service, interface, region, url) in enumerate(rows):
        row = {"id": f"e{number}", "service_id": service, "interface": interface, "region_id": region, "url": url}
        made.tables["endpoints"][f"e{number}"] = row
    return made


def no_database(_id):
    raise RuntimeError("the database does not answer")


def context(
    keystone,
    driver="fence",
    secret="x",
    roles=("member",),
    domain="",
    no_test_project=False,
    **session,
):
    clouds = types.SimpleNamespace(
        admin_session=lambda _guard=None: types.SimpleNamespace(**session),
        admin_auth=lambda: None,
        session=lambda *_: types.SimpleNamespace(**session),
        identity=lambda _: keystone,
        user_id=lambda: "w",
        project_id=lambda: "p",
        project_auth=lambda *_, **__: None,
    )
    conf = types.SimpleNamespace(
        drain=types.SimpleNamespace(project_role="admin", driver=driver),
        janitor=types.SimpleNamespace(secret=secret, roles=list(roles), domain_id=domain),
    )
    args = argparse.Namespace(no_test_project=no_test_project, api_config_file=[])
    parts = types.SimpleNamespace(clouds=clouds, conf=conf)
    made = types.SimpleNamespace(conf=conf, args=args, undo=[], parts=parts)
    made.projects = lambda: checks.Projects(keystone)
    return made


def bad(found):
    return [(one.subject, one.text) for one in found if one.verdict is not Verdict.OK]


def test_each_domain_without_the_inherited_role_is_named(keystone):
    assert bad(checks.inherited_roles(context(keystone))) == []
    keystone.tables["domains"]["later"] = {"id": "later", "name": "Later"}
    # A role on the domain itself, and one on a project, give no token of its projects.
    keystone.grants |= {("/domains/later", "w", "admin", False), ("/domains/later", "w", "reader", True)}
    ((subject, text),) = bad(checks.inherited_roles(context(keystone)))
    assert subject == "Later" and text.endswith("Run: cleanup-orchestrator-manage cloud bootstrap")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"secret": ""}, "openssl rand -hex 32"),
        ({"roles": ["ghost"]}, "openstack role create ghost"),
        ({"roles": ["boss"]}, "makes the janitor an admin"),
        ({"domain": "nowhere"}, "domain nowhere does not exist"),
        ({}, ""),
        ({"domain": "default"}, ""),
    ],
)
def test_a_janitor_that_could_not_be_made_or_would_be_an_admin_is_red(keystone, given, says, monkeypatch):
    keystone.tables["roles"]["boss"] = {"id": "boss", "name": "boss"}
    rules = [{"prior_role": {"id": "boss"}, "implies": [{"id": "admin"}]}]
    keystone.tables["role_inferences"] = {str(number): rule for number, rule in enumerate(rules)}
    found = bad(checks.janitor_roles(context(keystone, **given)))
    assert len(found) == bool(says) and all(says in text for _, text in found)


class Answer:
    def __init__(self, status, body):
        self.status_code, self._body = status, body

    def json(self):
        if isinstance(self._body, Exception):
            raise self._body
        return self._body


API = Answer(200, {"info": {"title": "Project Cleanup API"}})


def endpoints(keystone, answer=API):
    def get(url, **how):
        assert url.endswith("/v1/openapi.json") and "//v1" not in url
        assert how["authenticated"] is False and how["redirect"] is False, (
            "no token is sent to an endpoint that may be wrong"
        )
        if isinstance(answer, Exception):
            raise answer
        return answer

    return bad(checks.api_endpoints(context(keystone, get=get)))


def test_the_endpoints_of_an_api_that_answers_are_fine(keystone):
    assert endpoints(keystone) == []


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, {"versions": [{"id": "v1.0"}]}),  # Heat
        Answer(200, {"info": {"title": "Ironic"}}),
        Answer(200, {"info": "Project Cleanup API"}),
        Answer(200, []),
        Answer(300, {"info": {"title": "Project Cleanup API"}}),
        Answer(200, ValueError("no JSON")),
        ka_exceptions.ConnectFailure("refused"),
    ],
)
def test_what_does_not_answer_as_the_api_is_red(keystone, answer):
    found = endpoints(keystone, answer)
    assert len(found) == 2 and all("openstack endpoint set --url URL" in text for _, text in found)


def test_an_unknown_certificate_has_a_command_of_its_own(keystone):
    found = endpoints(keystone, ka_exceptions.SSLError("self-signed certificate"))
    assert len(found) == 2 and all("[orchestrator] cafile" in text for _, text in found)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t["services"].pop("c"), "no services of type project-cleanup"),
        (lambda t: t["services"].update(d={"id": "d", "type": "project-cleanup"}), "2 services of type"),
        (lambda t: t["services"]["c"].update(enabled=False), "openstack service set --enable c"),
        (lambda t: t["endpoints"].pop("e1"), "no public endpoint"),
        (lambda t: t["endpoints"]["e2"].update(enabled=False), "openstack endpoint set --enable e2"),
        (lambda t: t["endpoints"]["e2"].update(region_id="Mars"), "openstack endpoint set --region RegionOne e2"),
    ],
)
def test_a_mistake_in_the_catalog_is_named(keystone, change, says):
    change(keystone.tables)
    ((_, text),) = endpoints(keystone)
    assert says in text


@pytest.mark.parametrize(
    ("error", "right", "command"),
    [
        (ka_exceptions.Unauthorized("no"), True, "cloud bootstrap"),
        (ka_exceptions.Unauthorized("no"), False, "--reset-passwords"),
        (ka_exceptions.Unauthorized("no"), None, "--reset-passwords"),
        (ka_exceptions.ConnectFailure("no"), True, "curl -i AUTH_URL"),
    ],
)
def test_a_missing_role_and_a_wrong_password_have_different_commands(error, right, command):
    def is_password_right():
        if right is None:
            raise ka_exceptions.ConnectFailure("no")
        return right

    found = checks._no_login("user", "here", error, types.SimpleNamespace(is_password_right=is_password_right))
    assert found.verdict is Verdict.FAILED and command in found.text.partition("Run: ")[2]
    assert ("--reset-passwords" in found.text) is (command == "--reset-passwords")


@pytest.mark.parametrize(
    ("scope", "says"),
    [
        ({"project": {"id": "p", "name": "service"}}, "admin on project service (p)"),
        ({"domain": {"id": "d", "name": "D"}, "OS-INHERIT:inherited_to": "projects"}, "admin on domain D (d)"),
        ({"system": {"all": True}}, "admin on the system"),
    ],
)
def test_an_api_user_that_is_an_admin_anywhere_is_red(keystone, scope, says):
    """The token that the API uses shows its roles on the system only."""
    keystone.assigned = []
    keystone._assignments = lambda: keystone.assigned
    keystone._asked = lambda row, query: query == {"user.id": "a", "effective": "", "include_names": ""}
    row = {"user": {"id": "a"}, "role": {"id": "r", "name": "reader"}, "scope": {"system": {"all": True}}}
    keystone.assigned += [row]
    assert checks._powers("api user", context(keystone), "api", "a").verdict is Verdict.OK
    keystone.assigned += [{**row, "role": {"id": "r", "name": "Admin"}, "scope": scope}]
    found = checks._powers("api user", context(keystone), "api", "a")
    assert found.verdict is Verdict.FAILED and says in found.text


def test_an_api_user_whose_roles_are_unknown_is_not_ok(keystone):
    keystone.get = no_database
    assert checks._powers("api user", context(keystone), "api", "a").verdict is Verdict.WARNING


def test_without_the_workers_file_the_check_says_so():
    conf = {"orchestrator": types.SimpleNamespace(auth_type=None)}
    made = types.SimpleNamespace(conf=conf, parts=types.SimpleNamespace(clouds=None))
    (found,) = checks.worker_user(made)
    assert found.verdict is Verdict.FAILED and "--config-file" in found.text


# -- the project that is made for the test of the lock
@pytest.fixture
def locked(monkeypatch):
    """Replace what locks a project; return what to raise, and the projects that were locked."""
    what = types.SimpleNamespace(error=None, result=drain.Result(True), ids=[])

    def lock(self, made):
        what.ids.append(made.project_id)
        if what.error:
            raise what.error
        return what.result

    monkeypatch.setattr(checks, "_driver", lambda _name: type("Driver", (), {"drain": lock})())
    monkeypatch.setattr(drain, "ensure_access", lambda *_: None)
    monkeypatch.setattr(drain, "check_shared_cache", lambda _context: None)
    monkeypatch.setattr(
        checks.Projects, "delete", lambda self, id_, *_: self._identity.tables["projects"].pop(id_, None)
    )
    return what


def test_the_project_of_the_test_is_deleted_whatever_happens(keystone, locked):
    for error in (None, drain.NotHeld("a Keystone process accepts tokens"), RuntimeError("odd")):
        locked.error = error
        try:
            found = list(checks.lock(context(keystone)))
        except RuntimeError:
            found = []
        assert list(keystone.tables["projects"]) == ["p"] and locked.ids.pop() != "p"
        if isinstance(error, drain.NotHeld):
            assert found[-1].verdict is Verdict.FAILED and "systemctl restart keystone" in found[-1].text
    assert [one.verdict for one in checks.lock(context(keystone, no_test_project=True))] == [Verdict.WARNING]
    assert not locked.ids, "then nothing is made"


def test_a_check_that_hangs_leaves_what_undoes_it(keystone, locked):
    made = context(keystone)
    locked.error = RuntimeError("odd")
    found = checks.lock(made)
    with pytest.raises(RuntimeError):
        list(found)
    (undo,) = made.undo
    keystone.tables["projects"][locked.ids[0]] = {"id": locked.ids[0]}
    undo()
    assert list(keystone.tables["projects"]) == ["p"]


def test_a_lock_that_cannot_be_seen_to_hold_is_red(keystone, locked):
    locked.result = drain.Result(False, "no_project_token", "it cannot be seen")
    (found,) = checks.lock(context(keystone))
    assert found.verdict is Verdict.FAILED and "it cannot be seen" in found.text


@pytest.mark.parametrize(
    ("hours", "tags", "fence", "gone"),
    [
        (2, True, checks._TestProject.deletion_id.fget, True),
        (0, True, checks._TestProject.deletion_id.fget, False),  # a check may be under way
        (2, False, checks._TestProject.deletion_id.fget, False),  # a project that is only named so
        (2, True, lambda _: None, False),  # no fence: any manager of the domain can make such a project
        (2, True, lambda test: test.name.rpartition("-")[2], False),
        (2, True, lambda _: str(uuid.uuid4()), False),  # that of a deletion: the manager has renamed its project
    ],
)
@pytest.mark.parametrize("end", ["-abcd1234", "-", ""])
def test_only_a_project_that_an_earlier_check_left_is_deleted(keystone, locked, hours, tags, fence, gone, end):
    name = f"{checks.TEST_PROJECT}-{int(time.time() - 3600 * hours - 5)}{end}"
    made = {
        "id": "left",
        "name": name,
        "domain_id": "default",
        "enabled": True,
        "tags": [checks.TEST_PROJECT] if tags else [],
        "options": {protocol.FENCE_OPTION: fence(checks._TestProject(None, None, name))},
    }
    keystone.tables["projects"]["left"] = made
    found = list(checks._left(context(keystone), "default"))
    assert ("left" not in keystone.tables["projects"]) is gone
    assert len(found) == int(tags)
