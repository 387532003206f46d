"""The evidence of the drivers without a fence, in a Keystone that keeps no history, like the real one."""

import pytest

from cleanup_orchestrator.cloud.projects import Project
from cleanup_orchestrator.core import lock
from cleanup_orchestrator.drain import base
from cleanup_orchestrator.drain.none import NoDrain
from cleanup_orchestrator.drain.revoke import Revoke


class Keystone:
    """``Projects`` with the direct and inherited roles on a project, and the number of calls."""

    def __init__(self, *direct, inherited=()):
        self.direct, self.inherited, self.enabled = {("users", "me", "admin"), *direct}, set(inherited), True
        self.below, self.calls = set(), 0

    def assignments(self, project_id, effective=False):
        self.calls += 1
        scope = {"project": {"id": project_id}}
        below = scope | {base.INHERITED: "projects"}
        found = [(row, scope) for row in self.direct | (self.inherited if effective else set())]
        found += [] if effective else [(row, below) for row in self.below]
        return [{a[:-1]: {"id": who}, "role": {"id": role}, "scope": s} for (a, who, role), s in found]

    def members(self, project_id):
        return {who for _, who, _ in self.direct | self.inherited}

    def inherited_groups(self, _project_id):
        return ()

    def ungrant(self, _project_id, *grant):
        self.direct.discard(grant)

    def context(self, evidence=""):
        nothing = lambda *_: None  # noqa: E731
        return base.DrainContext(
            "d", "p", "me", None, self, nothing, nothing, janitor_id=lambda: "janitor", evidence=evidence
        )

    def project(self):
        return Project("p", "P", "dom", self.enabled)


MEMBER, HEIR = ("users", "u", "member"), ("users", "heir", "member")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    def disable(context):
        context.projects.enabled = False
        return base.Result(True)

    monkeypatch.setattr(base, "disable", disable)
    monkeypatch.setattr(base, "forget_tokens", lambda _context: None)


def locked(driver, keystone):
    """Drain and close as a worker does; return the evidence that the deletion keeps."""
    evidence = driver.drain(keystone.context()).evidence
    return driver.close(keystone.context(evidence)).evidence or evidence


CASES = [
    (Revoke(), Keystone(MEMBER), 2),
    (Revoke(), Keystone(MEMBER, inherited=[HEIR]), 2),
    (NoDrain(), Keystone(MEMBER), 2),
]


@pytest.mark.parametrize(("driver", "keystone", "calls"), CASES, ids=["full", "in part", "none"])
def test_an_undisturbed_lock_is_held_and_each_trace_of_a_change_voids_it(driver, keystone, calls):
    evidence = locked(driver, keystone)
    before = keystone.calls

    def held():
        return driver.held_until_removed(keystone.context(evidence), keystone.project())

    assert held()
    assert keystone.calls - before == calls
    for name, row in {"direct": HEIR, "inherited": ("users", "x", "member"), "below": MEMBER}.items():
        rows = getattr(keystone, name)
        rows.add(row)
        assert held() is (name == "below"), "a role on the projects below gives no access to this one"
        rows.discard(row)
        assert held(), "nothing is left of it in Keystone: only its notifications tell"
    keystone.direct.add(("users", "janitor", "member"))
    assert held()
    keystone.enabled = True
    assert not held()


def test_a_lock_of_an_earlier_version_has_no_evidence():
    keystone = Keystone(MEMBER)
    keystone.enabled = False
    assert Revoke().held_until_removed(keystone.context(), keystone.project())


def test_a_user_who_left_or_came_since_the_close_is_seen():
    driver, keystone = NoDrain(), Keystone(MEMBER)
    evidence = locked(driver, keystone)
    assert evidence == lock.evidence("me", [(str(e), *MEMBER) for e in (True, False)])
    keystone.direct.discard(MEMBER)
    assert not driver.held_until_removed(keystone.context(evidence), keystone.project())


def test_tokens_are_forgotten_also_if_an_earlier_try_removed_the_last_grant(monkeypatch):
    forgotten = []
    monkeypatch.setattr(base, "forget_tokens", forgotten.append)
    assert Revoke().drain(Keystone().context()).full
    assert len(forgotten) == 1
