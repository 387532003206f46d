"""The janitor: which grant it gets, and which token of it is good enough to be used."""

import types

import pytest

from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.drain import janitor
from cleanup_orchestrator.drain.revoke import Revoke
from cleanup_orchestrator.errors import NoJanitor, NoProjectToken, Stopped

GRANT = {"actor": "users", "actor_id": "janitor", "role_id": "id-member"}


class Keystone:
    """Assignments of the project ``p``, and the token that the janitor gets for it."""

    def __init__(self, *direct, inherited=(), locked_out=False):
        self.direct, self.inherited, self.locked_out = set(direct), set(inherited), locked_out
        self.did = []

    # -- as projects
    def role_id(self, name):
        return f"id-{name}"

    def implied_roles(self, role_ids):
        return frozenset(role_id.removeprefix("id-") for role_id in role_ids) | {"reader"}

    def assignments(self, _project_id):
        rows = [{"user": {"id": user}, "role": {"id": f"id-{role}"}, "scope": {}} for user, role in self.direct]
        scope = {drain.INHERITED: "projects"}
        return rows + [{"user": {"id": u}, "role": {"id": f"id-{r}"}, "scope": scope} for u, r in self.inherited]

    def grant(self, _project_id, actor, actor_id, role_id):
        self.did.append(("grant", actor, actor_id, role_id))
        self.direct.add((actor_id, role_id.removeprefix("id-")))

    # -- as clouds
    def janitor_session(self, project_id, guard):
        assert (project_id, guard) == ("p", "guard")
        roles = {role for user, role in self.direct | self.inherited if user == "janitor"}
        if self.locked_out or not roles:
            raise NoProjectToken("HTTP 401")
        return "session", frozenset(roles | {"reader"})

    def ground(self, intend=None):
        record = lambda type_, data: self.did.append((type_, data))  # noqa: E731
        return drain.Ground("d", "p", "me", self, self, "guard", intend or record, tuple, lambda: "janitor")


def session(keystone, roles=("member",), **options):
    return janitor.session(keystone.ground(**options), roles)


def test_its_grant_is_on_record_before_it_is_made():
    keystone = Keystone()
    assert session(keystone) == "session"
    assert keystone.did == [("grant_added", GRANT), ("grant", "users", "janitor", "id-member")]


def test_a_grant_that_is_there_is_neither_recorded_nor_made():
    keystone = Keystone(("janitor", "member"))
    assert session(keystone) == "session"
    assert keystone.did == []


def test_a_grant_that_reaches_only_children_is_no_grant():
    keystone = Keystone(inherited={("janitor", "member")})
    session(keystone)
    assert keystone.did[0] == ("grant_added", GRANT)


def test_without_leave_to_record_it_there_is_no_grant():
    def refuse(*_):
        raise Stopped("cancelled")

    keystone = Keystone()
    with pytest.raises(Stopped):
        session(keystone, intend=refuse)
    assert keystone.did == []


@pytest.mark.parametrize(
    "keystone", [Keystone(("janitor", "admin")), Keystone(inherited={("janitor", "admin"), ("janitor", "member")})]
)
def test_a_token_with_more_than_a_members_roles_is_not_used(keystone):
    with pytest.raises(NoJanitor, match=r"more roles on the project .* admin;"):
        session(keystone)


def test_a_fence_that_does_not_know_it_is_named():
    with pytest.raises(NoJanitor, match=r"janitor_user_id in the keystone\.conf"):
        session(Keystone(locked_out=True))


def test_where_none_is_configured_the_way_out_is_named():
    ground = types.SimpleNamespace(janitor_id=str)
    with pytest.raises(NoJanitor, match=r"\[janitor\] is not configured.* make a user without any role"):
        janitor.session(ground, ["member"])


class Revoking(Keystone):
    """The same, as the drain that removes grants sees it."""

    def members(self, _project_id):
        return tuple(user for user, _ in self.direct)

    def inherited_groups(self, _project_id):
        return ()


def test_the_drain_leaves_it_its_grant():
    keystone = Revoking(("me", "admin"), ("janitor", "member"))
    assert Revoke().held(keystone.ground())
    keystone.direct.add(("u", "member"))
    assert not Revoke().held(keystone.ground())
