"""The driver that takes roles: each grant is recorded before, and the lock holds while no other user has a role."""

import pytest

from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.drain.revoke import Revoke
from tests.unit.drain.test_fence import Keystone, grant


@pytest.fixture
def forgetful(monkeypatch):
    monkeypatch.setattr(drain, "forget_tokens", lambda _: None)


def test_a_grant_is_recorded_before_its_removal_and_the_grant_of_the_orchestrator_stays(forgetful):
    keystone = Keystone(grant("me", "admin"), grant("u1"), grant("g", actor="groups"))
    assert Revoke().drain(keystone.ground()).full
    assert keystone.did == [
        ("intend", drain.GRANT_REMOVED, "users", "u1", "member"),
        ("ungrant", "u1", "member"),
        ("intend", drain.GRANT_REMOVED, "groups", "g", "member"),
        ("ungrant", "g", "member"),
    ]
    assert keystone.grants == [grant("me", "admin")]


def test_a_drain_is_not_full_while_others_inherit_a_role(forgetful):
    result = Revoke().drain(Keystone(grant("u1"), members={"u2"}).ground())
    assert (result.full, result.reason) == (False, "inherited_grants")


@pytest.mark.parametrize(
    ("grants", "members", "held"),
    [
        ([], (), True),
        ([grant("me", "admin")], ("me",), True),
        ([grant("u1")], (), False),
        ([grant("g", actor="groups")], (), False),
        ([], ("u2",), False),
    ],
)
def test_a_drain_is_in_effect_while_no_other_user_has_a_role(grants, members, held):
    keystone = Keystone(*grants)
    keystone.members = lambda _: set(members)
    assert Revoke().held(keystone.ground()) is held
