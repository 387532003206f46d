"""Waivers: what going on without a service means for the steps, for the decisions, and for what is said of it."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.api import views
from cleanup_orchestrator.core import results
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Outcome, StepKind, StepState, Token
from cleanup_orchestrator.core.tally import tally
from cleanup_orchestrator.store import records
from tests.unit.worker.test_survey import FIRST, Keystone, several, surveyed
from tests.unit.world import CLEAR, DONE, T0, UNKNOWN, World, deletion, left, sweep_step

PORT = sweep_step("network.port")
NETWORK = sweep_step("network.network", after=("network.port", "compute.server"))
SERVER = sweep_step("compute.server")
SECRET = sweep_step("key-manager.secret", token=Token.PROJECT)


def waiver(service_type="network", id_="w", hours=1, **values):
    until = T0 + datetime.timedelta(hours=hours)
    return Waiver(id_, service_type, "it is retired", T0, until, user_name="alice", **values)


# ---------------------------------------------------------------------------------------------------- who answers


def test_a_waived_step_names_the_user_and_the_expiry_and_not_the_reason():
    """Who sees the step need not be one who may read waivers."""
    found = surveyed(Keystone(("workflow", "R1")), waivers=[waiver("workflow")])
    [step] = [s for s in found.steps if s.service == "workflow"]
    for part in ("alice", "2026-01-01T01:00:00Z", "not listed"):
        assert part in step.message
    assert "it is retired" not in step.message


# ------------------------------------------------------------------------------------------------------ the survey
def waived(found):
    return sorted((str(s.kind), s.region, s.name) for s in found.steps if s.waived)


def test_every_type_of_a_waived_service_is_left_out_in_its_region_alone():
    keystone = Keystone(("network", "R1"), ("network", "R2"), ("block-storage", "R1"))
    found = surveyed(keystone, waivers=[waiver(region="R1")])
    assert waived(found) == [("sweep", "R1", "network.port")]
    assert {s.waived for s in found.steps if s.waived} == {"w"}
    assert "network@R1" in found.result.message
    assert waived(surveyed(keystone, waivers=[waiver()])) == [
        ("sweep", "R1", "network.port"),
        ("sweep", "R2", "network.port"),
    ]


def test_a_service_without_a_plugin_stays_on_record_when_it_is_waived():
    assert waived(surveyed(Keystone(("workflow", "R1")), waivers=[waiver("workflow")])) == [
        ("unsupported", "R1", "workflow.")
    ]


def test_a_second_service_of_one_type_is_waived_only_by_its_name():
    keystone = several(FIRST, ("s2", "network", "other", "internal", "http://other"))
    assert waived(surveyed(keystone, waivers=[waiver("network.other")])) == [("unsupported", "R1", "network.other.")]
    assert waived(surveyed(keystone, waivers=[waiver("network")])) == [("sweep", "R1", "network.port")]


def test_identity_cannot_be_waived():
    found = surveyed(Keystone(("identity", "R1")), waivers=[waiver("identity")])
    assert (waived(found), found.waivers) == ([], ())


def test_what_is_swept_once_for_all_regions_is_waived_in_all_of_them_or_in_none():
    several = Keystone(("dns", "R1"), ("dns", "R2"))
    assert waived(surveyed(several, waivers=[waiver("dns", region="R1")])) == []
    assert waived(surveyed(several, waivers=[waiver("dns", region="R2")])) == []
    assert waived(surveyed(several, waivers=[waiver("dns")])) == [("sweep", "", "dns.zone")]


UNSEEN = dataclasses.replace(sweep_step("workflow.x"), kind=StepKind.UNSUPPORTED, type="", outcome=Outcome.UNKNOWN)


def test_an_unsupported_service_blocks_also_when_it_has_left_the_catalog():
    """What the project has there is not gone. An admin says to go on, by a waiver, and not by deleting an endpoint."""
    nothing_else = Keystone(("network", "R1"))
    found = surveyed(nothing_else, known=[UNSEEN])
    [step] = [s for s in found.steps if s.kind is StepKind.UNSUPPORTED]
    assert (step.service, step.reason, step.waived) == ("workflow", "no_plugin", "")
    assert "left the catalog" in step.message
    found = surveyed(nothing_else, known=[UNSEEN], waivers=[waiver("workflow")])
    assert waived(found) == [("unsupported", "R1", "workflow.")]
    assert [w.id for w in found.waivers] == ["w"]


def test_what_was_never_seen_in_this_deletion_does_not_block_it():
    assert [s for s in surveyed(Keystone(("network", "R1"))).steps if s.kind is StepKind.UNSUPPORTED] == []


def test_a_service_that_is_now_declared_to_own_nothing_does_not_block():
    gone = dataclasses.replace(UNSEEN, service="placement")
    steps = surveyed(Keystone(("network", "R1")), known=[gone]).steps
    assert [s for s in steps if s.kind is StepKind.UNSUPPORTED] == []


def test_a_service_with_a_plugin_that_has_left_the_catalog_can_be_waived_too():
    volume = sweep_step("block-storage.volume")
    steps = surveyed(Keystone(("network", "R1")), known=[volume]).steps
    assert [s for s in steps if s.service == "block-storage"] == [], "its steps stay by themselves"
    found = surveyed(Keystone(("network", "R1")), known=[volume], waivers=[waiver("block-storage")])
    assert waived(found) == [("sweep", "R1", "block-storage.volume")]
    ended = dataclasses.replace(volume, waived="w", reason="waived", message="…")
    [step] = [s for s in surveyed(Keystone(("network", "R1")), known=[ended]).steps if s.service == "block-storage"]
    assert (step.waived, step.reason) == ("", "")


# ------------------------------------------------------------------------------------------------------- decisions
def waive(world, name, end=False):
    """What a survey with a waiver, or one after its end, makes of a step (``Store.put_steps``)."""
    steps = [s for s in world.steps.values() if s.name == name]
    for step in steps:
        after = dataclasses.replace(
            step, waived="" if end else "w", state=StepState.IDLE, outcome=Outcome.NONE, round=0
        )
        world.steps[step.id] = after
    world.deletion = dataclasses.replace(world.deletion, waivers=() if end else (waiver(name.split(".")[0]),))


@pytest.mark.parametrize("mode", list(Mode))
def test_a_waived_service_is_never_called_and_the_record_names_it(mode):
    world = World(deletion(mode=mode), PORT, SERVER)
    waive(world, "compute.server")
    assert world.run() is DONE[mode]
    assert "compute.server" not in world.dispatched
    assert "not listed" in world.deletion.message and "alice" in world.deletion.message
    empty = [e.message for e in world.events if e.type == "inventory.empty"]
    assert empty and all("not listed: compute" in text for text in empty)
    condition = next(c for c in world.deletion.conditions if c.type == "waived")
    assert condition.status and "alice" in condition.message


def test_without_a_waiver_nothing_is_said_of_any():
    world = World(deletion(), PORT)
    assert world.run() is Status.DELETED
    assert "not listed" not in world.deletion.message
    assert [c for c in world.deletion.conditions if c.type == "waived"] == []


def test_what_waits_for_a_waived_type_goes_on():
    world = World(deletion(), PORT, NETWORK, SERVER).finds("network.network")
    world.answers["compute.server"] = lambda _: UNKNOWN
    world.run(limit=300)
    assert not [s for s, p in world.writes if s == "network.network"]
    waive(world, "compute.server")
    assert world.run() is Status.DELETED
    assert ("network.network", RoundPurpose.DELETE) in world.writes


def test_waivers_are_read_only_while_a_result_stays_unknown():
    world = World(deletion(), PORT, SERVER)
    world.run()
    usual = world.dispatched.count("survey")
    world = World(deletion(), PORT, SERVER)
    world.answers = {"compute.server": lambda step: UNKNOWN if step.attempt < 3 else CLEAR}
    assert world.run() is Status.DELETED
    assert world.dispatched.count("survey") == usual, "one that passes by itself is no reason to"
    world = World(deletion(), PORT, SERVER)
    world.answers = {"compute.server": lambda _: UNKNOWN}
    world.run(limit=600)
    first, last = world.step("survey").finished_at, world.now
    assert last - first <= 3 * world.rules.heartbeat, "the latest one is not long ago"
    assert world.dispatched.count("survey") > usual


def test_a_waiver_that_ends_under_way_brings_the_service_back():
    world = World(deletion(), PORT, SERVER)
    waive(world, "compute.server")
    world.run(until=Status.VERIFYING)
    waive(world, "compute.server", end=True)
    world.answers = {"compute.server": lambda _: UNKNOWN}
    world.run(limit=400)
    assert world.deletion.status is not Status.DELETED
    assert [b.service for b in blockers(world.deletion, world.steps.values())] == ["compute"]
    assert not next(c for c in world.deletion.conditions if c.type == "waived").status
    world.answers = {}
    assert world.run() is Status.DELETED
    assert "not listed" not in world.deletion.message


def test_what_was_waived_until_the_project_was_closed_is_not_taken_for_empty():
    """A disabled project gives no token: a type that was not listed before is unknown, and blocks."""
    world = World(deletion(), PORT, SECRET)
    waive(world, "key-manager.secret")
    for _ in range(1000):
        world.run(limit=1)
        if world.deletion.closed_at:
            break
    assert world.deletion.closed_at and world.deletion.status is Status.VERIFYING
    waive(world, "key-manager.secret", end=True)
    world.answers = {"key-manager.secret": lambda _: dataclasses.replace(UNKNOWN, reason="no_project_token")}
    world.run(limit=300)
    assert world.deletion.status is not Status.DELETED
    assert "remove" not in world.dispatched
    assert [b.reason for b in blockers(world.deletion, world.steps.values())] == ["no_project_token"]


def test_what_the_closing_rests_on_does_not_name_what_was_waived():
    world = World(deletion(), PORT, SECRET)
    waive(world, "key-manager.secret")
    world.run()
    assert "secret" not in next(c for c in world.deletion.conditions if c.type == "drained").message


def test_what_comes_in_after_the_waiver_is_no_result():
    running = dataclasses.replace(
        SERVER, state=StepState.RUNNING, waived="w", reason="waived", message="by alice", round=3
    )
    for result in (CLEAR, UNKNOWN, left("1")):
        _, after = results.record(deletion(), running, result, T0)
        assert (after.outcome, after.reason, after.message) == (Outcome.NONE, "waived", "by alice")
        assert after.remaining == len(result.leftovers), "what was seen stays on record"


# ------------------------------------------------------------------------------------------------- what is said
def test_a_waived_type_is_shown_as_not_listed_with_its_earlier_counts():
    seen = dataclasses.replace(SERVER, waived="w", reason="waived", message="by alice", found=2, remaining=2)
    record = deletion(status=Status.DELETING, round=5, since_round=2, waivers=(waiver("compute"),))
    [count] = views.counts(record, [seen])
    assert (count["outcome"], count["state"], count["reason"], count["message"]) == ("", "idle", "waived", "by alice")
    assert (count["remaining"], count["found"]) == (2, 2)
    numbers = tally(record, [seen])
    assert (numbers.steps, numbers.unknown, numbers.remaining) == (0, 0, 2)
    shown = views.deletion(record, [seen], Rules(), "/", {"waiver"})["waivers"]
    assert shown == [
        {
            "id": "w",
            "service_type": "compute",
            "region": None,
            "project_id": None,
            "reason": "it is retired",
            "expires_at": "2026-01-01T01:00:00Z",
            "created_at": "2026-01-01T00:00:00Z",
            "user_id": "",
            "user_name": "alice",
            "not_listed": [{"region": "R1", "service": "compute"}],
        }
    ]


def test_a_record_keeps_its_waivers_as_they_were():
    whole = waiver(region="R1", project_id="p", user_id="u", request_id="req-1")
    row = type("Row", (), {"_mapping": {}})
    values = {**records.deletion_values(deletion(waivers=(whole,))), "has_changes": False, "has_holds": False}
    values |= {"journal_length": 0, "journal_digest": ""}
    row._mapping = values
    for name, value in values.items():
        setattr(row, name, value)
    assert records.deletion(row).waivers == (whole,)
