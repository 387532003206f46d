"""The words for what a deletion does now, and for what waits."""

import dataclasses

import pytest

from cleanup_orchestrator.core import messages
from cleanup_orchestrator.core.condition_types import Condition
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status, Tally
from cleanup_orchestrator.core.messages import behind, message, reason_now, waits
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepKind, StepState
from tests.unit.world import T0, World, deletion, left, sweep_step

S, P = Status, RoundPurpose
TALLY = Tally(steps=40, steps_done=12, found=71, deleted=60, remaining=11)
OLD = "71 left in network.port"


def true(type_, text="why", reason="code"):
    return Condition(type_, True, reason, text, T0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"status": S.ACCEPTED}, "the project and the services of the catalog are being read"),
        ({"status": S.ACCEPTED, "conditions": (true("waiting", "it has children"),)}, "it has children"),
        ({"status": S.ACCEPTED, "conditions": (true("approval", "approve it"),)}, "approve it"),
        ({"status": S.DRAINING}, "the project is being locked"),
        ({"status": S.INVENTORY, "purpose": P.INVENTORY}, "12 of 40 resource types are listed"),
        ({"status": S.DELETING, "purpose": P.DELETE}, "11 of 71 resources are left"),
        (
            {"status": S.RECOVERABLE, "point_of_no_return_at": T0, "conditions": (true("approval", "approve it"),)},
            "nothing is deleted before 2026-01-01T00:00:00Z; approve it",
        ),
        ({"status": S.RECOVERABLE}, OLD),
        ({"status": S.VERIFYING}, "0 complete inventories in a row were empty"),
        (
            {"status": S.VERIFYING, "conditions": (Condition("settled", False, "token_caches", "cached until X", T0),)},
            "cached until X",
        ),
        (
            {"status": S.VERIFYING, "purpose": P.INVENTORY, "empty_inventories": 1},
            "inventory 2 of the proof that the project is empty: 12 of 40 resource types are listed",
        ),
        ({"status": S.VERIFYING, "purpose": P.PROJECT_SETTINGS}, "the project is proven empty and is being removed"),
        ({"status": S.CANCELLING}, OLD),
        ({"status": S.DELETED}, OLD),
        ({"status": S.LEFTOVERS, "conditions": (true("blocked"),)}, OLD),
        (
            {"status": S.DELETING, "conditions": (true("blocked", "a.b@R: foreign"), true("stalled"))},
            "11 of 71 resources are left; blocked by a.b@R: foreign; stalled",
        ),
        # The text of a hold may be secret; its kind is not.
        (
            {"status": S.DELETING, "conditions": (true("on_hold", "secret", "lien"),)},
            "11 of 71 resources are left; on hold (lien)",
        ),
    ],
)  # fmt: skip
def test_a_message_says_what_a_deletion_does_now(values, expected):
    assert message(deletion(**{"message": OLD, "tally": TALLY, **values})) == expected


@pytest.mark.parametrize("status", sorted(Status))
def test_every_status_has_a_message(status):
    assert message(deletion(status=status, message="old"))


# ---------------------------------------------------------------------------------------------------- what waits
NETWORK = sweep_step("network.network", after=("network.port", "network.subnet"))


@pytest.mark.parametrize(
    ("values", "step", "expected"),
    [
        ({}, {}, "waits for network.port, network.subnet"),
        ({"purpose": P.INVENTORY}, {}, None),
        ({"status": S.VERIFYING}, {}, None),
        ({}, {"round": 3}, None),  # it was tried in this round
        ({}, {"round": 0}, None),  # of an earlier attempt
        ({}, {"reason": Reason.FOREIGN}, None),
        ({}, {"outcome": Outcome.CLEAR}, None),
        ({}, {"kind": StepKind.HALT}, None),
        ({}, {"after": ()}, "its turn comes automatically"),
        ({}, {"after": tuple(f"a.t{n}" for n in range(7))}, "waits for a.t0, a.t1, a.t2, a.t3, a.t4 and 2 more"),
    ],
)
def test_what_a_type_waits_for(values, step, expected):
    record = deletion(**{"status": S.DELETING, "purpose": P.DELETE, "since_round": 1, "round": 3, **values})
    found = {"round": 2, "state": StepState.DONE, "outcome": Outcome.LEFTOVERS, "reason": Reason.PRESENT, **step}
    others = [sweep_step(name, round=3) for name in ("network.port", "network.subnet", *(f"a.t{n}" for n in range(7)))]
    said = waits(record, [dataclasses.replace(NETWORK, **found), *others])
    assert said.get(("R1", "network", "network")) == expected


STAYS = {"round": 3, "state": StepState.DONE, "outcome": Outcome.LEFTOVERS, "reason": Reason.IN_USE}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param([sweep_step("network.port", **STAYS)], ("network.port",), id="what it waits for stays"),
        pytest.param(
            [sweep_step("network.port", **STAYS | {"reason": Reason.DELETING})], None, id="what it waits for goes"
        ),
        pytest.param([sweep_step("network.port", round=3, state=StepState.RUNNING)], None, id="it is being swept"),
        pytest.param(
            [
                sweep_step("network.port", round=2, outcome=Outcome.LEFTOVERS, after=("compute.server",)),
                sweep_step("compute.server", **STAYS),
            ],
            ("compute.server",),
            id="what it waits for waits itself",
        ),
        pytest.param(
            [
                sweep_step("network.port", round=2, outcome=Outcome.LEFTOVERS, after=("compute.server",)),
                sweep_step("compute.server", round=3, state=StepState.RUNNING),
                dataclasses.replace(sweep_step("compute.server", **STAYS), id="far", region="R2"),
            ],
            None,
            id="only that of another region stays",
        ),
    ],
)
def test_what_a_type_waits_for_in_the_end(others, expected):
    record = deletion(status=S.DELETING, purpose=P.DELETE, since_round=1, round=3)
    network = dataclasses.replace(
        sweep_step("network.network", after=("network.port",)), round=2, outcome=Outcome.LEFTOVERS
    )
    assert behind(record, [network, *others]).get(("R1", "network", "network")) == expected


@pytest.mark.parametrize(
    ("values", "reason", "expected"),
    [
        ({"status": S.DELETING}, Reason.PRESENT, Reason.QUEUED),
        ({"status": S.DELETING}, Reason.IN_USE, Reason.IN_USE),
        ({"status": S.CANCELLING}, Reason.PRESENT, Reason.PRESENT),
        ({"status": S.LEFTOVERS}, Reason.PRESENT, Reason.PRESENT),
        ({"status": S.INVENTORY, "mode": Mode.REPORT}, Reason.PRESENT, Reason.PRESENT),
        ({"status": S.INVENTORY, "dry_run": True}, Reason.PRESENT, Reason.PRESENT),
    ],
)
def test_what_a_cascade_deletes_is_queued(values, reason, expected):
    assert reason_now(deletion(**values), reason) == expected


# ---------------------------------------------------------------------------------------------------- at the end
@pytest.mark.parametrize(("reason", "said"), [("cancelling", "cancelled"), ("restoring", "restored")])
def test_what_was_cancelled_says_so_and_is_not_locked(reason, said):
    world = World(deletion(), sweep_step("network.port"))
    world.finds("network.port", lambda _: left("p", reason=Reason.IN_USE)).run(limit=60)
    assert world.deletion.drained_at is not None
    world.user(S.CANCELLING)
    text = f"{reason} by alice; force is withdrawn"
    world.deletion = dataclasses.replace(world.deletion, reason=reason, message=text)
    assert world.run() is S.CANCELLED
    d = world.deletion
    assert d.message == f"{said} by alice; force is withdrawn"
    assert (d.drained_at, d.closed_at) == (None, None)
    assert not [c for c in d.conditions if c.status]


def test_what_was_cancelled_says_that_the_project_is_gone():
    world = World(deletion(project_gone_at=T0), sweep_step("network.port"))
    world.user(S.CANCELLING)
    world.deletion = dataclasses.replace(world.deletion, reason="cancelling", message="cancelling by alice")
    assert world.run() is S.CANCELLED
    assert world.deletion.message == "cancelled by alice; Keystone no longer knows the project"


def test_what_is_deleted_keeps_when_it_was_locked():
    world = World(deletion(), sweep_step("network.port"))
    assert world.run() is S.DELETED
    assert world.deletion.drained_at is not None
    assert world.deletion.condition("drained")


def swept(name, reason, after=(), round_=2, outcome=Outcome.LEFTOVERS):
    return sweep_step(name, after=after, round=round_, state=StepState.DONE, outcome=outcome, reason=str(reason))


@pytest.mark.parametrize(
    ("reason", "stopped"),
    [
        (Reason.STUCK, True),
        (Reason.ERROR, True),
        (Reason.IN_USE, True),
        (Reason.DELETING, False),
        (Reason.QUEUED, False),
        (Reason.ON_HOLD, False),
    ],
)
def test_what_is_behind_a_type_that_does_not_move_says_so(reason, stopped):
    server = swept("compute.server", reason)
    port = swept("network.port", Reason.PRESENT, after=("compute.server",), round_=1)
    network = swept("network.network", Reason.PRESENT, after=("network.port",), round_=1)
    free = swept("dns.zone", Reason.PRESENT, round_=1)
    record = deletion(status=Status.DELETING, round=2, since_round=1, purpose=RoundPurpose.DELETE)
    expected = {("R1", "network", t): ("compute.server",) for t in ("port", "network")} if stopped else {}
    assert messages.behind(record, [server, port, network, free]) == expected
    other = dataclasses.replace(server, region="R2")
    assert messages.behind(record, [other, port, network, free]) == {}
