"""``cloud remove`` removes what bootstrap made, and nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.bootstrap import Account
from cleanup_orchestrator.cloud.keystone_rows import KEY, MARK
from cleanup_orchestrator.cloud.removal import Removal
from tests.unit.cloud import test_bootstrap as made
from tests.unit.cloud.test_bootstrap import API, URL, WORKER, Death, Keystone, user

NAMES = ("cleaner", "clean-api")


def run(keystone: Keystone, dry_run: bool = False) -> list[str]:
    said: list[str] = []
    Removal(keystone, lambda verb, what: said.append(f"{verb} {what}"), dry_run).run(NAMES)
    return said


def state(keystone: Keystone) -> Any:
    return copy.deepcopy((keystone.tables, keystone.grants))


@pytest.fixture
def keystone(monkeypatch):
    monkeypatch.setattr(made.bootstrap.time, "sleep", lambda _: None)
    return Keystone()


def bootstrapped(keystone: Keystone) -> None:
    made.run(keystone, WORKER, API, Account("protocol", "speaker"), quota_role=True)


def test_nothing_is_left(keystone):
    before = state(keystone)
    bootstrapped(keystone)
    assert not [line for line in run(keystone) if line.startswith("kept")]
    assert state(keystone) == before
    assert run(keystone) == []


def test_a_dry_run_says_the_same_and_writes_nothing(keystone):
    bootstrapped(keystone)
    writes = keystone.writes
    foretold = run(keystone, dry_run=True)
    assert keystone.writes == writes
    assert [line.replace("would be ", "") for line in foretold] == run(keystone)


def test_after_a_death_at_each_write_the_next_run_removes_the_rest(keystone):
    before = state(keystone)
    bootstrapped(keystone)
    assert made.deaths(keystone, lambda: run(keystone)) >= 6
    assert state(keystone) == before


def test_users_go_before_all_else(keystone):
    bootstrapped(keystone)
    keystone.lives = 3
    with pytest.raises(Death):
        run(keystone)
    assert keystone.rows("users") == [] and keystone.grants == set()


@pytest.mark.parametrize("forged", [{}, {MARK: "0" * 64}])
def test_a_user_of_another_person_stays_with_its_roles(keystone, forged):
    keystone.tables["users"]["of-cleaner"] = user(**forged)
    keystone.grants |= {
        ("/projects/p", "of-cleaner", "admin", False),
        ("/domains/default", "of-cleaner", "admin", True),
    }
    before = state(keystone)
    made.run(keystone)
    said = run(keystone)
    assert any(line.startswith("kept user cleaner (of-cleaner)") for line in said)
    assert state(keystone) == before


def test_a_service_and_its_endpoint_of_another_person_stay(keystone):
    keystone.tables["services"]["theirs"] = {"id": "theirs", "type": "project-cleanup"}
    row = {"id": "e", "service_id": "theirs", "interface": "public", "region_id": "RegionOne", "url": URL}
    keystone.tables["endpoints"]["e"] = row
    made.run(keystone)
    assert "kept service project-cleanup (theirs), made by another person" in run(keystone)
    assert keystone.rows("endpoints") == [row] and keystone.rows("users") == []
    assert not any(keystone.tables["services"]["theirs"].get(name) for name in (KEY, "cleanup_orchestrator_user_api"))


def test_an_endpoint_that_another_person_added_or_changed_keeps_the_service(keystone):
    made.run(keystone)
    first = keystone.rows("endpoints")[0]
    first["url"] = "http://moved"
    assert any("it has endpoints of others" in line for line in run(keystone))
    assert keystone.rows("endpoints") == [first] and len(keystone.rows("services")) == 1


def test_a_role_that_others_have_by_now_stays(keystone):
    made.run(keystone, WORKER, quota_role=True)
    (role,) = [row for row in keystone.rows("roles") if row.get(MARK)]
    keystone.tables["users"]["u"] = user("u")
    keystone.grants.add(("/projects/p", "u", role["id"], False))
    assert any(line.startswith("kept role key-manager:service-admin") for line in run(keystone))
    assert role in keystone.rows("roles")


def test_a_role_that_another_role_implies_by_now_stays(keystone):
    """It has no assignment of its own, and each user with the other role has it."""
    made.run(keystone, WORKER, quota_role=True)
    (role,) = [row for row in keystone.rows("roles") if row.get(MARK)]
    keystone.tables["role_inferences"] = {"0": {"prior_role": {"id": "admin"}, "implies": [{"id": role["id"]}]}}
    assert "kept role key-manager:service-admin: another role implies it by now" in run(keystone)
    assert role in keystone.rows("roles")


def test_a_role_that_keystones_policy_keeps_stays_and_all_else_goes(keystone):
    """Some clouds let no user delete roles. An immutable role is refused, too."""
    made.run(keystone, WORKER, quota_role=True)
    delete = keystone.delete

    def refusing(path):
        if path.startswith("/roles/"):
            raise ka_exceptions.Forbidden("identity:delete_role\n is no")
        delete(path)

    keystone.delete = refusing
    (line,) = [line for line in run(keystone) if line.startswith("kept")]
    assert line.startswith(
        "kept role key-manager:service-admin: Keystone refuses to delete it (identity:delete_role is no"
    )
    assert keystone.rows("services") == keystone.rows("endpoints") == keystone.rows("users") == []


def test_a_user_that_was_renamed_is_named_and_stays(keystone):
    """It has its roles still, and its mark fits its earlier name only."""
    made.run(keystone)
    (worker,) = [row for row in keystone.rows("users") if row["name"] == "cleaner"]
    worker["name"] = "renamed"
    for _ in ("before", "after another one was made"):
        (line,) = [line for line in run(keystone, dry_run=True) if line.startswith("kept")]
        assert f"user renamed ({worker['id']})" in line and f"openstack user delete {worker['id']}" in line
        made.run(keystone)
    run(keystone)
    assert keystone.rows("users") == [worker]


def test_users_of_earlier_names_are_found(keystone):
    made.run(keystone, Account("worker", "an-earlier-name"))
    made.run(keystone, WORKER)
    run(keystone)
    assert keystone.rows("users") == []


def test_a_user_whose_service_is_gone_is_named_and_stays(keystone):
    made.run(keystone)
    keystone.tables["services"].clear()
    (line,) = [line for line in run(keystone) if "user cleaner" in line]
    assert "openstack user delete" in line and len(keystone.rows("users")) == 2
