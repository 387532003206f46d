"""What a verification waits for, and what it deletes."""

import dataclasses

import pytest

from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.findings import InventoryOutdated
from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult, StepState
from tests.unit.world import CLEAR, UNKNOWN, Token, World, deletion, sweep_step

PORT = sweep_step("network.port")
SECRET = sweep_step("key-manager.secret", token=Token.PROJECT)


def names(world):
    return [event.type for event in world.events if event.type.startswith("deletion.")]


def test_no_round_counts_while_the_catalog_cannot_be_read():
    world = World(deletion(), PORT)
    world.run(until=Status.VERIFYING)
    world.answers["survey"] = lambda _: UNKNOWN
    world.run(limit=300)
    assert world.deletion.status is Status.VERIFYING
    assert (world.empty_rounds, world.deletion.empty_inventories) == ([], 0)
    assert "close" not in world.dispatched


@pytest.mark.parametrize(
    ("mode", "fails"),
    [
        (Mode.REPORT, lambda d: d.has_changes),
        (Mode.REPORT, lambda d: d.status is Status.VERIFYING),
        (Mode.PURGE, lambda d: d.has_changes),
        (Mode.PURGE, lambda d: d.status is Status.VERIFYING),
        (Mode.PURGE, lambda d: d.empty_inventories == 2),
    ],
)
def test_no_user_is_locked_out_for_ever_while_the_catalog_cannot_be_read(mode, fails):
    world, failed = World(deletion(mode=mode), PORT), []
    if mode is Mode.PURGE:
        world.finds("network.port")

    def survey(_):
        if failed or fails(world.deletion):
            failed.append(world.now)
            return UNKNOWN
        return CLEAR

    world.answers["survey"] = survey
    assert world.run() is Status.FAILED
    assert (world.deletion.reason, world.deletion.has_changes) == (UNKNOWN.reason, False)
    assert world.rules.stall_after <= world.now - failed[0] <= 4 * world.rules.stall_after
    assert {"close", "remove"}.isdisjoint(world.dispatched)


def test_no_user_is_locked_out_for_ever_by_a_survey_that_fails_after_a_hold():
    world = World(deletion(mode=Mode.PURGE), PORT).finds("network.port")
    world.run(until=Status.DELETING)
    world.deletion = dataclasses.replace(world.deletion, brake=Brake(True))
    world.settle_engine()
    world.deletion = dataclasses.replace(world.deletion, brake=None)
    world.answers["survey"] = lambda _: UNKNOWN
    assert world.run() is Status.FAILED
    assert (world.deletion.reason, world.deletion.has_changes) == (UNKNOWN.reason, False)


def test_a_catalog_that_is_read_again_in_time_ends_no_deletion():
    world, asked = World(deletion(mode=Mode.PURGE), PORT), []

    def survey(_):
        asked.append(world.now)
        return UNKNOWN if world.now - asked[0] < world.rules.stall_after / 2 else CLEAR

    world.run(until=Status.VERIFYING)
    world.answers["survey"] = survey
    assert world.run() is Status.PURGED
    assert len(asked) > 2 * world.rules.attempts


def test_a_verification_waits_for_what_it_cannot_see_and_deletes_nothing_meanwhile():
    world = World(deletion(), PORT, sweep_step("image.image"))
    world.run(until=Status.VERIFYING)
    world.answers["network.port"] = lambda _: UNKNOWN
    before = names(world)
    world.run(limit=300)
    assert world.deletion.status is Status.VERIFYING
    assert names(world) == before
    assert world.empty_rounds == []


def test_project_settings_are_deleted_only_in_a_separate_round():
    quota = sweep_step("network.quota", project_setting=True)
    world = World(deletion(), PORT, quota)
    assert world.run() is Status.DELETED
    assert [purpose for name, purpose in world.writes if name == "network.quota"] == [RoundPurpose.PROJECT_SETTINGS]


def test_the_settling_time_begins_when_a_slow_drain_holds_and_not_when_it_was_begun():
    """A drain may take minutes: tokens that were given meanwhile are as old as its end."""
    world = World(deletion(), PORT)

    def slow(_step):
        world.now += 2 * world.rules.settle
        return CLEAR

    world.answers["drain"] = slow
    world.run(until=Status.VERIFYING)
    drain = world.step("drain")
    assert drain.finished_at - drain.started_at > world.rules.settle
    assert world.deletion.drained_at == drain.finished_at
    assert world.run() is Status.DELETED
    assert min(world.empty_rounds) >= drain.finished_at + world.rules.settle


def test_a_project_is_not_drained_again_while_a_step_may_disable_it():
    """The drain enables the project, and a close that is under way would disable it after that."""
    world = World(deletion(), PORT)
    for _ in range(100):  # it is cast once the inventories are empty
        world.settle_engine()
        if world.step("close").state is StepState.DISPATCHED:
            break
        world.run(limit=1)
    world.claim("close")
    world.deletion = dataclasses.replace(world.deletion, drained_at=None, empty_inventories=0)  # a user undid the lock
    before = world.dispatched.count("drain")
    lost = world.step("close").lease_until
    world.settle_engine()
    assert (world.dispatched.count("drain"), world.deletion.wake_at) == (before, lost)
    world.now = lost
    world.settle_engine()
    assert world.dispatched.count("drain") == before + 1


def test_an_inventory_that_is_too_old_for_the_closing_is_taken_again():
    """The worker finds that out right before it disables a project in use: see ``worker.steps.close``."""
    world, tried = World(deletion(), PORT, SECRET), []
    world.answers["drain"] = lambda _: StepResult(Outcome.CLEAR, "inherited_grants", "users keep getting tokens")

    def close(_):
        tried.append(len(world.empty_rounds))
        outdated = StepResult(Outcome.UNKNOWN, str(Reason.STOPPED), "too old", learned=(InventoryOutdated(),))
        return outdated if len(tried) == 1 else CLEAR

    world.answers["close"] = close
    assert world.run() is Status.DELETED
    assert tried == [2, 4] and len(world.empty_rounds) == 6, "two before each try, two of the disabled project"
    assert world.dispatched.count("drain") == 1
