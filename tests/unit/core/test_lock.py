"""A change of the lock by another user voids the proof: pure, and in a world in memory."""

import dataclasses

import pytest

from cleanup_orchestrator.core import actions, lock
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.findings import ProjectLocked, ProjectReopened, RemovalStopped
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult, StepState, Token
from tests.unit.world import CLEAR, T0, World, allowed, deletion, sweep_step

PORT = sweep_step("network.port")
SECRET = sweep_step("key-manager.secret", token=Token.PROJECT)
SEEN = lock.evidence("me", ())
LOCKED = dataclasses.replace(CLEAR, learned=(ProjectLocked(SEEN),))
IN_PART = StepResult(Outcome.CLEAR, str(Reason.INHERITED_GRANTS), "in part")


@pytest.mark.parametrize(
    ("values", "user_id", "void"),
    [
        ({"drained_at": T0}, "manager", True),
        ({"closed_at": T0}, "manager", True),
        ({"drained_at": T0}, "", True),  # Keystone does not say who gave an inherited role
        ({"drained_at": T0}, "me", False),
        ({"drained_at": T0, "lock_evidence": "7"}, "manager", False),  # the fence: Keystone refuses such a change
        ({"drained_at": T0, "lock_evidence": ""}, "manager", False),
        ({}, "manager", False),
        ({"drained_at": T0, "status": Status.DRAINING}, "manager", False),
        ({"drained_at": T0, "status": Status.CANCELLING}, "manager", False),
        ({"drained_at": T0, "status": Status.DELETED}, "manager", False),
        ({"drained_at": T0, "project_gone_at": T0}, "manager", False),
    ],
)
def test_what_voids_a_lock(values, user_id, void):
    record = deletion(**{"status": Status.VERIFYING, "lock_evidence": SEEN, "round": 3, **values})
    found = lock.void(record, (), user_id, "roles")
    assert bool(found) is void
    if void:
        applied = actions.apply(record, (), found, T0)
        after, (event,) = applied.deletion, applied.events
        assert (after.drained_at, after.closed_at, after.empty_inventories, after.round) == (None, None, 0, 4)
        assert (event.type, event.actor, event.message) == ("inventory.void", user_id, "roles")


@pytest.mark.parametrize("status", [Status.INVENTORY, Status.RECOVERABLE, Status.DELETING])
def test_a_change_before_the_verification_voids_the_lock_in_the_present_round(status):
    record = deletion(status=status, lock_evidence=SEEN, drained_at=T0, round=3)
    after = actions.apply(record, (), lock.void(record, (), "manager", "roles"), T0).deletion
    assert (after.drained_at, after.round) == (None, 3)


@pytest.mark.parametrize(
    ("step", "user_id", "void"),
    [
        ({}, "manager", True),
        ({}, "me", False),
        ({"round": 2}, "manager", False),
        ({"state": StepState.DISPATCHED}, "manager", False),  # it has not begun, and clears the cache later
        ({"state": StepState.DONE}, "manager", False),
        ({"kind": StepKind.SURVEY}, "manager", False),
    ],
    ids=str,
)
def test_a_change_while_the_drain_is_repeated_voids_that_drain(step, user_id, void):
    """The drain may have cleared Keystone's token cache already."""
    record = deletion(status=Status.VERIFYING, lock_evidence=SEEN, round=3)
    drain = dataclasses.replace(Step("s", "d", StepKind.DRAIN, round=3, state=StepState.RUNNING), **step)
    found = lock.void(record, (drain,), user_id, "roles")
    assert bool(found) is void
    if void:
        after = actions.apply(record, (drain,), found, T0).deletion
        assert (after.round, after.drained_at) == (4, None)


def test_nothing_is_voided_while_the_project_is_given_back():
    record = deletion(status=Status.VERIFYING, lock_evidence=SEEN, drained_at=T0, round=3)
    release = Step("r", "d", StepKind.RELEASE, round=1)
    assert lock.void(record, (release,), "manager", "roles") == ()
    assert lock.void(dataclasses.replace(record, since_round=2), (release,), "manager", "roles")


def test_evidence_does_not_depend_on_the_order_and_depends_on_everything_else():
    one, other = ("True", "users", "u", "member"), ("True", "groups", "u", "member")
    assert lock.evidence("me", (one, other)) == lock.evidence("me", (other, one, one))
    texts = [lock.evidence(*args) for args in (("me", ()), ("you", ()), ("me", (one,)), ("me", (other,)))]
    assert len(set(texts)) == 4
    assert max(map(len, texts)) <= 255


class Watched(World):
    """A world that notes which step ran at which time, and under which lock."""

    def __init__(self, drain, **values):
        super().__init__(deletion(**values), PORT, SECRET)
        self.did, self.changed = [], 0
        for name in ("drain", "close", "remove", *self.steps):
            self.answers[name] = lambda step, name=name: self._did(name, drain)

    def _did(self, name, drain):
        self.did.append((name, self.now))
        if name == "remove" and not self.changed:  # the worker compares the lock right before it deletes the project
            self.changed += 1
            learned = (ProjectReopened(), RemovalStopped())
            return StepResult(Outcome.UNKNOWN, str(Reason.STOPPED), "the lock was changed", learned=learned)
        return drain if name == "drain" else CLEAR

    def void(self):
        """Do what an engine does when Keystone says that a domain manager changed the lock."""
        found = lock.void(self.deletion, tuple(self.steps.values()), "manager", "the roles")
        applied = actions.apply(self.deletion, tuple(self.steps.values()), found, self.now)
        self.deletion, self.changed = applied.deletion, self.changed + 1

    def after(self, since):
        return [name for name, at in self.did if at >= since]


@pytest.mark.parametrize("drain", [LOCKED, dataclasses.replace(IN_PART, learned=(ProjectLocked(""),))])
def test_a_lock_that_was_changed_before_the_removal_is_set_anew_and_every_type_is_listed_again(drain):
    world = Watched(drain)
    assert world.run() is Status.DELETED
    (first, _last) = [at for name, at in world.did if name == "remove"]
    names = world.after(first)[1:]
    # The drain enables the project again: the secrets can be listed only with a token of the project.
    assert names.index("drain") < names.index(SECRET.id) < names.index("close") < names.index("remove")
    assert len([opened for opened in world.empty_rounds if opened > first]) >= 3


@pytest.mark.parametrize("phase", ["drained", "settling", "inventory", "closed"])
def test_a_hint_voids_the_proof_at_every_moment(phase):
    world = Watched(LOCKED)
    reached = {
        "drained": lambda d: d.status is Status.VERIFYING,
        "settling": lambda d: d.status is Status.VERIFYING and d.purpose is RoundPurpose.NONE and d.drained_at,
        "inventory": lambda d: d.empty_inventories == 1 and d.purpose is RoundPurpose.INVENTORY,
        "closed": lambda d: d.closed_at is not None,
    }[phase]
    for _ in range(400):
        if reached(world.deletion):
            break
        world.run(limit=1)
    assert reached(world.deletion)
    world.void()
    voided, drains = world.now, world.dispatched.count("drain")
    assert world.run() is Status.DELETED
    assert world.dispatched.count("drain") == drains + 1
    drained_at = world.deletion.drained_at
    assert drained_at >= voided
    counted = [opened for opened in world.empty_rounds if opened >= drained_at]
    assert len(counted) >= 3
    assert min(counted) >= drained_at + world.rules.settle


def test_a_hint_during_the_closing_stops_it_before_the_project_is_locked_again():
    """The closing disables the project, and the drain enables it."""
    world, drains = Watched(LOCKED), []
    world.changed = 1

    def close(step):
        if not drains:
            world.void()
            world.settle_engine()
            assert not allowed(world.deletion, step, writing=True)
            drains.append(world.dispatched.count("drain"))
            world.now = world.step("close").lease_until
            world.settle_engine()  # as if its worker had died
            drains.append(world.dispatched.count("drain"))
        return CLEAR

    world.answers["close"] = close
    assert world.run() is Status.DELETED
    assert drains == [1, 2]


@pytest.mark.parametrize("lost", [False, True])
def test_a_hint_during_a_survey_lets_it_end_before_the_project_is_locked_again(lost):
    """The survey drops the record of what a user gave back: it must not drop what the drain takes again meanwhile."""
    world, drains = Watched(LOCKED), []
    world.changed = 1

    def survey(step):
        if not drains and world.deletion.status is Status.VERIFYING:
            world.void()
            world.settle_engine()
            drains.append(world.dispatched.count("drain"))
            if lost:  # its worker died: another one surveys first
                world.now = world.step("survey").lease_until
                world.settle_engine()
                assert world.dispatched[-1] == "survey"
                drains.append(world.dispatched.count("drain"))
                world.claim("survey")
        return CLEAR

    world.answers["survey"] = survey
    assert world.run() is Status.DELETED
    assert drains == [1] * (1 + lost)
    assert world.dispatched.count("drain") == 2


def test_a_hint_during_the_removal_stops_it():
    """The worker may delete the project only in the round in which it was proven empty."""
    record = deletion(status=Status.VERIFYING, lock_evidence=SEEN, closed_at=T0, round=5, mode=Mode.CASCADE)
    record = dataclasses.replace(record, purpose=RoundPurpose.PROJECT_SETTINGS)
    remove = Step("remove", "d", StepKind.REMOVE, round=5)
    assert allowed(record, remove, writing=True)
    after = actions.apply(record, (remove,), lock.void(record, (remove,), "manager", "enabled"), T0).deletion
    assert not allowed(after, remove, writing=True)


def test_a_second_change_before_the_next_inventory_voids_the_second_lock_too():
    world = Watched(LOCKED)
    world.changed = 1
    while not world.deletion.closed_at:
        world.run(limit=1)
    voided = []
    for _ in range(3):
        while not world.deletion.drained_at:
            world.run(limit=1)
        assert world.deletion.purpose is RoundPurpose.NONE or not voided
        voided.append(world.now)
        world.void()
    assert world.run() is Status.DELETED
    assert world.dispatched.count("drain") == 4
    assert min(at for at in world.empty_rounds if at > voided[-1]) >= world.deletion.drained_at + world.rules.settle


@pytest.mark.parametrize("mode", [Mode.CASCADE, Mode.PURGE])
@pytest.mark.parametrize(("evidence", "said"), [(SEEN, True), ("fence serial 7", False)])
def test_the_report_says_if_others_can_have_changed_the_lock_unseen(mode, evidence, said):
    world = World(deletion(mode=mode, lock_evidence=evidence), PORT)
    locked = dataclasses.replace(CLEAR, learned=(ProjectLocked(evidence),))
    world.answers = {"drain": lambda _: locked}
    assert world.run() in (Status.DELETED, Status.PURGED)
    assert ("can change and restore without a trace" in world.deletion.message) is said
