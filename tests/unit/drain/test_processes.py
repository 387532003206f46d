"""The drain before a Keystone whose processes disagree: each may be the one that still lets members in."""

import pytest

from cleanup_orchestrator.drain import base
from cleanup_orchestrator.drain.base import NotHeld
from tests.simulation.keystone_api import ADMIN, CALLERS
from tests.unit.drain.installation import DELETION, MEMBER, Fenceless, Installation, Stale

PROCESSES = 3
EACH = pytest.mark.parametrize("number", range(PROCESSES))


def drain(context, driver):
    return driver.drain(context)


def close(context, driver):
    return driver.close(context)


# ---------------------------------------------------------------------------------------------------- the token cache
@pytest.mark.parametrize("processes", [2, 3, base.PROBES])
def test_one_process_with_a_token_cache_of_its_own_keeps_the_project_from_being_locked(processes):
    """All but the process that revokes the token still accept it."""
    with pytest.raises(NotHeld, match="do not share their cache"):
        Installation("revoke", processes, own_caches=True).do(drain)


@pytest.mark.parametrize("processes", [2, 3, base.PROBES])
@pytest.mark.parametrize("driver", ["fence", "none"])
def test_nor_is_the_project_closed(driver, processes):
    installation = Installation(driver, processes, own_caches=True)
    installation.do(drain)
    with pytest.raises(NotHeld, match="do not share their cache"):
        installation.do(close)


def test_the_fence_refuses_what_a_process_has_in_its_own_cache():
    installation = Installation("fence", own_caches=True)
    assert installation.do(drain).full
    assert not installation.lets_members_in


def test_a_validation_that_was_under_way_when_a_role_was_taken_makes_no_token_good():
    """Keystone drops its token cache before it removes the grant; the validation puts the token back afterwards."""
    installation = Installation("revoke", raced=True)
    assert installation.do(drain).full
    assert not installation.lets_members_in


def test_nor_does_one_that_was_under_way_when_the_project_was_disabled():
    installation = Installation("none", raced=True)
    assert installation.do(close).full
    assert not installation.lets_members_in


@EACH
def test_one_process_that_takes_a_disabled_project_for_enabled_keeps_it_from_being_closed(number):
    installation = Installation("none", PROCESSES, differs=(Stale, number))
    with pytest.raises(NotHeld, match="still gives or accepts a token"):
        installation.do(close)


# ------------------------------------------------------------------------------------------------------------ the fence
@EACH
def test_one_process_without_the_fence_is_noticed(number):
    installation = Installation("fence", PROCESSES, differs=(Fenceless, number))
    with pytest.raises(NotHeld, match="still accepts tokens"):
        installation.do(drain)


@pytest.mark.parametrize("processes", [1, 3, 20])
def test_a_fence_is_in_effect_in_each_process_when_the_drain_ends(processes):
    """Each process reads the fences at an interval of its own."""
    installation = Installation("fence", processes)
    assert installation.do(drain).full
    assert installation.fences() == [DELETION] * processes


# ----------------------------------------------------------------------------------------------------------- the grants
def test_roles_that_are_given_while_others_are_taken_are_taken_too():
    installation = Installation("revoke")
    keystone, project = installation.keystone, installation.project
    #: Whom an admin lets in while which role is taken.
    guests = {"grant users u member": "friend", "grant users friend member": "guest"}

    def invite(_thread, method, what, *_):
        if method == "DELETE" and what in guests:
            keystone.grant(CALLERS[ADMIN], project, ("users", guests[what], "member"), True)

    installation.cloud.on_write = invite
    assert installation.do(drain).full
    assert {who for _, who, _ in project.grants} == {"me"}
    taken = [data["actor_id"] for type_, data in installation.intended if type_ == base.GRANT_REMOVED]
    assert taken == ["g", "u", "friend", "guest"]


def test_a_role_that_the_orchestrator_has_through_a_group_is_not_relied_upon():
    """The driver ``revoke`` takes the grant of the group."""
    installation = Installation("revoke")
    installation.project.grants = {MEMBER, ("groups", "operators", "admin")}
    result = installation.do(lambda context, _driver: base.ensure_access(context, "admin"))
    assert "gave" in result.message
    assert installation.intended == [(base.GRANT_ADDED, {"actor": "users", "actor_id": "me", "role_id": "admin"})]
    assert ("users", "me", "admin") in installation.project.grants
