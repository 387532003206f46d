"""The janitor: how it is made, which grant it gets, and which token of it is good enough to be used."""

import types

import pytest
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.janitors import Janitor
from cleanup_orchestrator.cloud.projects import Project
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.drain import janitor
from cleanup_orchestrator.drain.revoke import Revoke
from cleanup_orchestrator.errors import NoJanitor, NoProjectToken, Stopped

GRANT = {"actor": "users", "actor_id": "janitor", "role_id": "id-member"}
USER = {"name": "cleanup-janitor-d", "domain_id": "dom"}
MADE = [("janitor_made", USER), ("made", "cleanup-janitor-d")]
GIVEN = [("grant_added", GRANT), ("grant", "users", "janitor", "id-member")]


class Keystone:
    """Assignments of the project ``p``, the janitor's user, and the token that it gets for the project."""

    def __init__(self, *direct, there=True, inherited=(), elsewhere=(), groups=(), locked_out=False, option="janitor"):
        self.direct, self.inherited, self.locked_out = set(direct), set(inherited), locked_out
        self.elsewhere, self.groups, self.there, self.option = list(elsewhere), list(groups), there, option
        self.did, self.users, self.foreign = [], self, False

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

    def get_uncached(self, project_id):
        return Project(project_id, "P", "dom", True, janitor=self.option)

    def set_janitor(self, _project_id, user_id):
        self.did.append(("option", user_id))
        self.option = user_id

    # -- as users
    def make(self, made, description):
        assert (made.password, "project p" in description) == ("derived", True)
        self.did.append(("made", made.name))
        self.there = True
        return "janitor"

    # -- as clouds
    def janitor(self, deletion_id):
        return Janitor(f"cleanup-janitor-{deletion_id}", "dom", "derived")

    def is_janitor(self, made, user_id):
        assert (made.password, user_id) == ("derived", "janitor")
        return not self.foreign

    def janitor_session(self, made, user_id, project_id, guard):
        assert (made.password, user_id, project_id, guard) == ("derived", "janitor", "p", "guard")
        roles = {role for user, role in self.direct | self.inherited if user == "janitor"}
        if self.locked_out or not roles:
            raise NoProjectToken("HTTP 401")
        return self, frozenset(roles | {"reader"})

    def ground(self, record_intent=None):
        record = lambda type_, data: self.did.append((type_, data))  # noqa: E731
        return drain.DrainContext(
            "d", "p", "me", self, self, "guard", record_intent or record, tuple, lambda: "janitor" if self.there else ""
        )


def session(keystone, roles=("member",), fenced=False, **options):
    return janitor.session(keystone.ground(**options), roles, fenced)


def test_its_grant_is_on_record_before_it_is_made():
    keystone = Keystone()
    assert session(keystone) is keystone
    assert keystone.did == GIVEN


def test_the_user_is_on_record_before_it_is_made():
    keystone = Keystone(there=False)
    assert session(keystone) is keystone
    assert keystone.did == MADE + GIVEN


@pytest.mark.parametrize(("option", "set_"), [(None, True), ("an earlier one", True), ("janitor", False)])
def test_the_fence_knows_the_janitor_before_it_has_a_role(monkeypatch, option, set_):
    keystone, slept = Keystone(there=False, option=option), []
    monkeypatch.setattr(janitor.time, "sleep", slept.append)
    assert session(keystone, fenced=True) is keystone
    assert keystone.did == MADE + ([("option", "janitor")] if set_ else []) + GIVEN
    assert len(slept) == set_, "until every Keystone process knows it"


def test_a_keystone_without_the_option_is_named():
    keystone = Keystone(option=None)

    def refuse(*_):
        raise ka_exceptions.BadRequest("Additional properties\n  are not allowed")

    keystone.set_janitor = refuse
    with pytest.raises(NoJanitor, match=r"\(Additional properties are not allowed.*wsgi:application of this release"):
        session(keystone, fenced=True)
    assert keystone.did == []


def test_a_list_makes_no_user():
    keystone = Keystone(there=False)
    with pytest.raises(NoJanitor, match="does not exist yet"):
        janitor.session(keystone.ground(), ["member"], True, writing=False)
    assert keystone.did == []


def test_a_list_gives_it_no_role():
    keystone = Keystone()
    with pytest.raises(NoJanitor, match="does not have its role on the project"):
        janitor.session(keystone.ground(), ["member"], True, writing=False)
    assert keystone.did == []


def test_a_grant_that_is_there_is_neither_recorded_nor_made():
    keystone = Keystone(("janitor", "member"))
    assert session(keystone) is keystone
    assert keystone.did == []


def test_without_leave_to_record_it_there_is_no_user_and_no_grant():
    def refuse(*_):
        raise Stopped("cancelled")

    for keystone in (Keystone(), Keystone(there=False)):
        with pytest.raises(Stopped):
            session(keystone, record_intent=refuse)
        assert keystone.did == []


class Implying(Keystone):
    """A Keystone in which a token of a member also carries the role ``operator``."""

    def janitor_session(self, *about):
        made, roles = super().janitor_session(*about)
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
        (Keystone(elsewhere=[("member", {"project": {"id": "q"}})]), "role id-member on q"),
        (Keystone(elsewhere=[("member", {"domain": {"id": "d"}})]), "role id-member on d"),
        (Keystone(elsewhere=[("member", {"system": {"all": True}})]), "role id-member on system"),
        (Keystone(groups=["operators"]), "group operators"),
    ],
)
def test_a_janitor_that_others_gave_a_role_is_not_used_and_gets_no_other(keystone, named):
    with pytest.raises(NoJanitor) as refused:
        session(keystone)
    assert named in str(refused.value) and "delete this user" in str(refused.value)
    assert keystone.did == []


@pytest.mark.parametrize("role", ["admin", "Admin"])
def test_no_configuration_makes_it_an_admin(role):
    keystone = Keystone()
    with pytest.raises(NoJanitor, match="makes the janitor an admin"):
        session(keystone, roles=("member", role))
    assert keystone.did == []


@pytest.mark.parametrize("has", [(), (("janitor", "member"),)])
def test_a_user_of_its_name_that_another_user_made_gets_neither_a_role_nor_a_way_through_the_fence(has):
    keystone = Keystone(*has, option=None)
    keystone.foreign = True
    with pytest.raises(NoJanitor, match=r"user janitor, does not have its password: another user has made it"):
        session(keystone, fenced=True)
    assert keystone.did == []


def test_a_janitor_that_cannot_log_in_is_named_with_the_way_out():
    with pytest.raises(NoJanitor, match=r"user janitor, .* reset its password.* secret .* delete this user"):
        session(Keystone(locked_out=True))


def test_where_none_is_configured_the_way_out_is_named():
    ground = types.SimpleNamespace(clouds=types.SimpleNamespace(janitor=lambda _: None), deletion_id="d")
    with pytest.raises(NoJanitor, match=r"set \[janitor\] secret"):
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
