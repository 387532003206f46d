"""The names of the projects behind blockers: read once, kept for a while, and worth no failed sweep."""

import pytest

from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, StepResult
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins.base import ProjectDefinition, ResourceType, Verdict
from cleanup_orchestrator.worker.sweep import other_projects
from cleanup_orchestrator.worker.sweep.other_projects import OtherProjects
from tests.support.sweeps import inventory, use


class Keystone:
    """Knows some projects, counts the reads, and may fail."""

    def __init__(self, *known, error=None):
        self.known, self.error, self.read = known, error, []

    def get(self, project_id):
        self.read.append(project_id)
        if self.error:
            raise self.error
        if project_id.isupper():  # the database ignores the case
            raise BadAnswer("Keystone did not answer about project")
        if project_id not in self.known:
            raise ProjectNotFound(project_id)
        return Project(project_id, f"name of {project_id}", "d2", True)


def result(*owners):
    blockers = tuple({"type": "network.port", "id": owner or "x", "owner": owner} for owner in owners)
    left = (Leftover("n", "net", Reason.FOREIGN, "used", blockers), Leftover("m", "", Reason.PRESENT))
    return StepResult(Outcome.LEFTOVERS, "foreign", leftovers=left)


def said(found):
    return [(b["owner"], b.get("project_name"), b.get("domain_id")) for b in found.leftovers[0].blocked_by]


@pytest.mark.parametrize(
    ("owners", "read", "expected"),
    [
        (["them"], ["them"], [("them", "name of them", "d2")]),
        (["them", "them"], ["them"], [("them", "name of them", "d2")] * 2),
        (["us"], [], [("us", None, None)]),
        ([""], [], [("", None, None)]),
        (["gone", "them"], ["gone", "them"], [("gone", None, None), ("them", "name of them", "d2")]),
        (["THEM", "them"], ["THEM", "them"], [("THEM", None, None), ("them", "name of them", "d2")]),
    ],
    ids=str,
)
def test_only_other_projects_are_read_each_once(owners, read, expected):
    keystone = Keystone("them", "us")
    found = OtherProjects().name_in(result(*owners), "us", lambda: keystone)
    assert (said(found), keystone.read) == (expected, read)
    assert found.leftovers[1] == result(*owners).leftovers[1]


def test_nothing_is_asked_for_when_nothing_is_blocked():
    empty = StepResult(Outcome.CLEAR)

    def no_session():
        raise AssertionError("no session is needed")

    assert OtherProjects().name_in(empty, "us", no_session) is empty


@pytest.mark.parametrize("without", [{"owner": None}, {}], ids=["none", "missing"])
def test_a_blocker_without_an_owner_has_an_empty_one(without):
    """A plugin may write a blocker by hand, with the owner as the service shows it."""
    blockers = ({"type": "network.port", "id": "x", **without}, {"type": "network.port", "id": "y", "owner": "them"})
    used = lambda *_: Verdict(Reason.FOREIGN, "used", blockers)  # noqa: E731
    rows = lambda *_: [{"id": "n", "project_id": "us"}]  # noqa: E731
    type_ = ResourceType("network", list=rows, delete=None, used_by=use(used))
    found = inventory(type_, None, ProjectDefinition("us", "", "d1", "R"), foresee=True)
    named = OtherProjects().name_in(found, "us", lambda: Keystone("them"))
    assert said(named) == [("", None, None), ("them", "name of them", "d2")]


def test_a_name_is_kept_for_a_while_and_then_read_again():
    now, keystone = [0.0], Keystone("them")
    others = OtherProjects(lambda: now[0])
    for at, reads in ((0.0, 1), (other_projects.KEPT - 1, 1), (other_projects.KEPT, 2)):
        now[0] = at
        assert said(others.name_in(result("them"), "us", lambda: keystone)) == [("them", "name of them", "d2")]
        assert len(keystone.read) == reads


def test_a_failing_keystone_changes_no_result():
    keystone = Keystone(error=RuntimeError("503"))
    found = OtherProjects().name_in(result("them", "others"), "us", lambda: keystone)
    assert said(found) == [("them", None, None), ("others", None, None)]
    assert len(keystone.read) == 1  # it is not asked again and again
    assert (found.outcome, found.reason) == (Outcome.LEFTOVERS, "foreign")


@pytest.mark.parametrize("owner", ["gone", "THEM"])
def test_an_id_without_a_project_is_kept_like_a_name(owner):
    others, keystone = OtherProjects(), Keystone("them")
    for _ in range(2):
        assert said(others.name_in(result(owner), "us", lambda: keystone)) == [(owner, None, None)]
    assert keystone.read == [owner]


def test_the_reads_of_one_result_are_limited(monkeypatch):
    monkeypatch.setattr(other_projects, "MAX_READ", 3)
    keystone = Keystone(*"abcdef")
    found = OtherProjects().name_in(result(*"abcdef"), "us", lambda: keystone)
    assert [name is not None for _, name, _ in said(found)] == [True, True, True, False, False, False]


def test_the_kept_names_are_limited(monkeypatch):
    monkeypatch.setattr(other_projects, "MAX_KEPT", 2)
    others, keystone = OtherProjects(), Keystone(*"abc")
    for owner in ("a", "b", "c", "a"):
        assert said(others.name_in(result(owner), "us", lambda: keystone))[0][1] == f"name of {owner}"
    assert keystone.read == ["a", "b", "c", "a"]
