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

    def __init__(self, *direct, inherited=(), elsewhere=(), groups=(), locked_out=False, rescopes=True, mistral=False):
        self.direct, self.inherited, self.locked_out = set(direct), set(inherited), locked_out
        self.elsewhere, self.groups, self.rescopes, self.mistral = list(elsewhere), list(groups), rescopes, mistral
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

    def assignments_of(self, user_id):
        here = [
            {**row, "scope": {**row["scope"], "project": {"id": "p"}}}
            for row in self.assignments("p")
            if row["user"]["id"] == user_id
        ]
        there = [{"user": {"id": user_id}, "role": {"id": f"id-{r}"}, "scope": scope} for r, scope in self.elsewhere]
        return here + there

    def groups_of(self, _user_id):
        return self.groups

    def grant(self, _project_id, actor, actor_id, role_id):
        self.did.append(("grant", actor, actor_id, role_id))
        self.direct.add((actor_id, role_id.removeprefix("id-")))

    # -- as clouds
    def janitor_session(self, project_id, guard):
        assert (project_id, guard) == ("p", "guard")
        roles = {role for user, role in self.direct | self.inherited if user == "janitor"}
        if self.locked_out or not roles:
            raise NoProjectToken("HTTP 401")
        return self, frozenset(roles | {"reader"})

    def can_rescope(self, made, project_id):
        assert (made, project_id) == (self, "p")
        return self.rescopes

    # -- as the session
    def service_types(self):
        return frozenset({"identity", "workflowv2"} if self.mistral else {"identity"})

    def ground(self, record_intent=None):
        record = lambda type_, data: self.did.append((type_, data))  # noqa: E731
        return drain.DrainContext(
            "d", "p", "me", self, self, "guard", record_intent or record, tuple, lambda: "janitor"
        )


def session(keystone, roles=("member",), fenced=False, **options):
    return janitor.session(keystone.ground(**options), roles, fenced)


def test_its_grant_is_on_record_before_it_is_made():
    keystone = Keystone()
    assert session(keystone) is keystone
    assert keystone.did == [("grant_added", GRANT), ("grant", "users", "janitor", "id-member")]


def test_a_grant_that_is_there_is_neither_recorded_nor_made():
    keystone = Keystone(("janitor", "member"))
    assert session(keystone) is keystone
    assert keystone.did == []


def test_without_leave_to_record_it_there_is_no_grant():
    def refuse(*_):
        raise Stopped("cancelled")

    keystone = Keystone()
    with pytest.raises(Stopped):
        session(keystone, record_intent=refuse)
    assert keystone.did == []


class Implying(Keystone):
    """A Keystone in which a token of a member also carries the role ``operator``."""

    def janitor_session(self, project_id, guard):
        made, roles = super().janitor_session(project_id, guard)
        return made, roles | {"operator"}


def test_a_token_with_more_than_a_members_roles_is_not_used():
    with pytest.raises(NoJanitor, match=r"more roles on the project .* operator;"):
        session(Implying())


@pytest.mark.parametrize(
    ("keystone", "named"),
    [
        (Keystone(("janitor", "admin")), "role id-admin on p"),
        (Keystone(inherited={("janitor", "member")}), "role id-member on p (inherited by projects)"),
        (Keystone(elsewhere=[("admin", {"project": {"id": "q"}})]), "role id-admin on q"),
        (Keystone(elsewhere=[("member", {"domain": {"id": "d"}})]), "role id-member on d"),
        (Keystone(elsewhere=[("member", {"system": {"all": True}})]), "role id-member on system"),
        (Keystone(groups=["operators"]), "group operators"),
    ],
)
def test_a_janitor_that_has_a_role_already_is_not_used_and_gets_no_other(keystone, named):
    with pytest.raises(NoJanitor) as refused:
        session(keystone)
    assert named in str(refused.value) and "take them from it" in str(refused.value)
    assert keystone.did == []


def test_grants_of_the_janitor_on_other_projects_in_deletion_are_accepted():
    assert session(Keystone(elsewhere=[("member", {"project": {"id": "q"}})]))


@pytest.mark.parametrize("role", ["admin", "Admin"])
def test_no_configuration_makes_it_an_admin(role):
    keystone = Keystone()
    with pytest.raises(NoJanitor, match="makes the janitor an admin"):
        session(keystone, roles=("member", role))
    assert keystone.did == []


@pytest.mark.parametrize(
    ("mistral", "rescopes", "fenced", "used"),
    [
        (False, True, False, True),
        (True, True, False, False),
        (True, True, True, True),
        (True, False, False, True),
    ],
)
def test_a_workflow_that_reads_the_token_reaches_no_other_project(mistral, rescopes, fenced, used):
    keystone = Keystone(mistral=mistral, rescopes=rescopes)
    if used:
        assert session(keystone, fenced=fenced)
        return
    with pytest.raises(NoJanitor, match="allow_rescope_scoped_token = false"):
        session(keystone, fenced=fenced)


def test_a_fence_that_does_not_know_it_is_named():
    with pytest.raises(NoJanitor, match=r"janitor_user_id in the keystone\.conf"):
        session(Keystone(locked_out=True))


def test_where_none_is_configured_the_way_out_is_named():
    ground = types.SimpleNamespace(janitor_id=str)
    with pytest.raises(NoJanitor, match=r"\[janitor\] is not configured.* make a user without any role"):
        janitor.session(ground, ["member"], False)


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
