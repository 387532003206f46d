"""What is asked of Keystone about projects, and which of its answers are believed."""

import json
from unittest import mock

import pytest
import requests
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.projects import ProjectNotFound, Projects, Protection
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.keystone import protocol

NOT_FOUND = {"error": {"code": 404, "title": "Not Found", "message": "Could not find project: p."}}


def response(body, status=200):
    made = requests.Response()
    made.status_code = status
    made._content = (body if isinstance(body, str) else json.dumps(body)).encode()
    return made


class Keystone:
    """Answers by path, as an adapter with ``raise_exc`` does; it writes down what it is asked."""

    def __init__(self, **answers):
        self.answers = {path.replace("__", "/"): answer for path, answer in answers.items()}
        self.asked = []

    def get(self, path, **kwargs):
        return self.answer("GET", path, kwargs)

    def delete(self, path, **kwargs):
        return self.answer("DELETE", path, kwargs)

    def put(self, path, **kwargs):
        return self.answer("PUT", path, kwargs)

    def patch(self, path, **kwargs):
        return self.answer("PATCH", path, kwargs)

    def answer(self, method, path, kwargs):
        self.asked.append((method, path, kwargs))
        status, body = self.answers.get(path.split("?")[0].strip("/"), (404, NOT_FOUND))
        if status == 404:
            raise ka_exceptions.NotFound(response=response(body, 404))
        return response(body, status)


def shown(id_):
    return 200, {"project": {"id": id_, "name": f"n-{id_}", "enabled": True, "domain_id": "dom"}}


# --------------------------------------------------------------------------------------------------------- one project
def test_a_project_is_read_by_its_id():
    assert Projects(Keystone(projects__p=shown("p"))).get("p").name == "n-p"
    with pytest.raises(ProjectNotFound):
        Projects(Keystone()).get("p")


@pytest.mark.parametrize("body", [{"project": {"id": "q"}}, {"project": {}}, {"project": []}, {}, "<html>"])
def test_an_answer_about_something_else_is_not_taken(body):
    with pytest.raises(BadAnswer):
        Projects(Keystone(projects__p=(200, body))).get("p")


def test_a_404_without_an_answer_does_not_mean_that_a_project_is_gone():
    """Nothing shows that Keystone itself said it."""
    keystone = Keystone()
    keystone.answer = mock.Mock(side_effect=ka_exceptions.NotFound(method="GET", url="/projects/p"))
    with pytest.raises(BadAnswer, match="GET /projects/p"):
        Projects(keystone).get("p")


@pytest.mark.parametrize("body", ["<html>not here</html>", {}, {"error": {"code": 500, "message": "x"}}, {"error": {}}])
def test_a_404_that_is_not_from_keystone_does_not_mean_that_a_project_is_gone(body):
    with pytest.raises(BadAnswer):
        Projects(Keystone(projects__p=(404, body))).get("p")


@pytest.mark.parametrize("id_", ["", "p/../q"])
def test_an_invalid_project_id_causes_no_call(id_):
    keystone = Keystone(**{"projects__": shown("")})
    for ask in (Projects(keystone).get, Projects(keystone).get_uncached):
        with pytest.raises(ProjectNotFound):
            ask(id_)
    assert keystone.asked == []


def test_answers_of_a_keystone_that_does_not_find_the_project_of_the_orchestrator_are_ignored():
    """A Keystone with an empty database says no to everything."""
    assert Projects(Keystone(projects__p=shown("p"))).knows("p", "own")
    assert not Projects(Keystone(projects__own=shown("own"))).knows("p", "own")
    with pytest.raises(BadAnswer, match="does not count"):
        Projects(Keystone()).knows("p", "own")
    with pytest.raises(BadAnswer, match="no id"):
        Projects(Keystone(projects__own=shown("own"))).knows("", "own")


@pytest.mark.parametrize("spelling", ["AB-C1", "ab-c1", "ABC1"])
def test_a_project_that_keystone_knows_in_another_spelling_is_not_gone(spelling):
    keystone = {"projects__own": shown("own")}
    assert not Projects(Keystone(**keystone)).knows(spelling, "own")
    with pytest.raises(BadAnswer, match="abc1, the same id"):
        Projects(Keystone(projects__abc1=shown("abc1"), **keystone)).knows(spelling, "own")


# ------------------------------------------------------------------------------------------------------- what is on it
def on(project_id, user):
    return {"user": {"id": user}, "role": {"id": "r"}, "scope": {"project": {"id": project_id}}}


def test_the_assignments_of_a_project_are_listed_by_its_id_and_compared():
    """A Keystone that ignores the filter lists everybody's: their grants would be taken away."""
    keystone = Keystone(role_assignments=(200, {"role_assignments": [on("p", "u"), on("q", "v"), {"scope": {}}]}))
    assert [row["user"]["id"] for row in Projects(keystone).assignments("p")] == ["u"]
    assert "scope.project.id=p" in keystone.asked[0][1]
    with pytest.raises(ValueError, match="empty"):
        Projects(keystone).assignments("")


@pytest.mark.parametrize("more", [{"truncated": True}, {"role_assignments": None}])
def test_a_list_of_assignments_that_was_cut_short_is_no_list(more):
    keystone = Keystone(role_assignments=(200, {"role_assignments": [on("p", "u")], **more}))
    with pytest.raises(BadAnswer):
        Projects(keystone).assignments("p")


def test_the_access_of_a_user_is_its_assignments_and_groups():
    keystone = Keystone(
        role_assignments=(200, {"role_assignments": [on("p", "u"), on("q", "v"), {"group": {"id": "g"}}]}),
        users__u__groups=(200, {"groups": [{"id": "g", "name": "operators"}]}),
    )
    assert Projects(keystone).assignments_of("u") == [on("p", "u")]
    assert "user.id=u" in keystone.asked[0][1]
    assert Projects(keystone).groups_of("u") == ["operators"]


@pytest.mark.parametrize("body", [{"truncated": True, "role_assignments": [], "groups": []}, {}])
def test_a_list_of_what_a_user_has_that_was_cut_short_is_no_list(body):
    keystone = Keystone(role_assignments=(200, body), users__u__groups=(200, body))
    for call in (Projects(keystone).assignments_of, Projects(keystone).groups_of):
        with pytest.raises(BadAnswer):
            call("u")


@pytest.mark.parametrize(("subtree", "below"), [(None, ()), ({}, ()), ({"c": {"g": None}}, ("c", "g"))])
def test_what_is_below_a_project_is_what_keystone_says(subtree, below):
    assert Projects(Keystone(projects__p=(200, {"project": {"subtree": subtree}}))).children("p") == below


def test_to_say_nothing_of_what_is_below_is_not_to_say_that_there_is_nothing():
    with pytest.raises(BadAnswer):
        Projects(Keystone(projects__p=(200, {"project": {}}))).children("p")


# ---------------------------------------------------------------------------------------------------------- the removal
def test_the_removal_names_its_project_and_its_deletion():
    keystone = Keystone(projects__p=(204, ""))
    assert Projects(keystone).delete("p", "d")
    assert keystone.asked == [("DELETE", "/projects/p", {"headers": {protocol.FINAL_HEADER: "d"}})]
    assert not Projects(Keystone()).delete("p", "d"), "it was gone already"
    with pytest.raises(ValueError, match="empty"):
        Projects(keystone).delete("", "d")


# ------------------------------------------------------------------------------------------- the never-delete list
@pytest.mark.parametrize(
    ("project_id", "name", "refused"),
    [
        ("p", "P", False),
        ("own", "P", True),
        ("1234", "P", True),
        ("p", "admin", True),
        ("p", "ADMIN", True),
        ("ABCD", "P", True),
        ("p", "administrator", False),
    ],
)
def test_what_is_never_deleted(project_id, name, refused):
    protection = Protection(("Admin", "1234", "abcd"), lambda: "own")
    assert bool(protection.why(project_id, name)) is refused
    assert bool(protection.listed(project_id, name)) is (refused and project_id != "own")


# ---------------------------------------------------------------------------------------------- why there is no token
@pytest.mark.parametrize(
    ("project", "domain", "said"),
    [
        (True, True, ""),
        (False, True, "openstack project set --enable p"),
        (True, False, "domain Customers (dom) is disabled, and so Keystone gives no token for its projects"),
        (True, False, "openstack domain set --enable dom"),
        (False, False, "openstack domain set --enable dom"),  # first: no project of a disabled domain can be used
    ],
)
def test_what_is_disabled_is_named_with_the_call_that_enables_it(project, domain, said):
    shown_project = 200, {"project": {"id": "p", "name": "P", "enabled": project, "domain_id": "dom"}}
    shown_domain = 200, {"domain": {"id": "dom", "name": "Customers", "enabled": domain}}
    found = Projects(Keystone(projects__p=shown_project, domains__dom=shown_domain)).why_disabled("p")
    assert said in found and bool(found) is bool(said)


# ------------------------------------------------------------------------------------------------- a 404 to a change
CHANGES = {
    "delete the project": lambda projects: projects.delete("p", "d"),
    "grant": lambda projects: projects.grant("p", "users", "u", "r"),
    "ungrant": lambda projects: projects.ungrant("p", "users", "u", "r"),
    "enable": lambda projects: projects.set_enabled("p", True),
    "lift the fence": lambda projects: projects.set_fence("p", None),
    "delete the janitor": lambda projects: projects.users.remove("j", "dom"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_404_that_is_not_from_keystone_does_not_mean_that_there_is_nothing_to_change(change):
    """A proxy without a backend answers 404 to everything. A lock that stays would count as undone.

    A project that is there would be recorded as deleted by another client.
    """
    users = 200, {"users": [{"id": "u", "name": "j", "domain_id": "dom"}]}
    paths = ("projects__p__users__u__roles__r", "projects__p", "users__u")
    with pytest.raises(BadAnswer):
        change(Projects(Keystone(**dict.fromkeys(paths, (404, "<html>no backend</html>")), users=users)))
    try:
        change(Projects(Keystone(users=users)))
    except ka_exceptions.NotFound:
        pass


# ------------------------------------------------------------------------------------------------------------- a domain
DISABLED = {"domain": {"id": "dom", "enabled": False}}


def test_only_a_disabled_domain_without_projects_is_free_of_doubt():
    def doubt(domain, *projects):
        asked = Keystone(domains__dom=(200, domain), projects=(200, {"projects": list(projects)}))
        return Projects(asked).doubt_domain("dom")

    assert doubt(DISABLED) == ""
    assert "is enabled" in doubt({"domain": {"id": "dom", "enabled": True}})
    assert "is enabled" in doubt({"domain": {"id": "dom"}})
    assert "has 1 projects" in doubt(DISABLED, {"id": "p", "domain_id": "dom"})


@pytest.mark.parametrize(
    ("domain", "projects"),
    [
        ({"domain": {"id": "other", "enabled": False}}, []),
        (DISABLED, [{"id": "p", "domain_id": "other"}]),
        (DISABLED, None),
    ],
)
def test_an_answer_about_another_domain_tells_nothing(domain, projects):
    asked = Keystone(domains__dom=(200, domain), projects=(200, {} if projects is None else {"projects": projects}))
    with pytest.raises(BadAnswer):
        Projects(asked).doubt_domain("dom")
