"""Mode ``purge``: a project loses what is selected, and is given back."""

import dataclasses
import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.core import dependencies
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.findings import ProjectReopened
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.selection import EVERYTHING, Selection
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.core.transitions import LIVE, forcible
from tests.support.cases import each_case
from tests.support.examples import examples
from tests.unit.world import CLEAR, T0, UNKNOWN, World, allowed, deletion, left, sweep_step

SERVER = sweep_step("compute.server")
PORT = sweep_step("network.port", after=("compute.server",))
FREE_PORT = dataclasses.replace(PORT, needed_by=("compute.server",))
QUOTA = sweep_step("network.quota", project_setting=True)
UNSUPPORTED = Step("x", "d", StepKind.UNSUPPORTED, "R1", "weather", outcome=Outcome.UNKNOWN, reason="no_plugin")
NETWORK = Selection(services=("network",))


def kept(*names):
    """Return a sweep that found these, and of which none is selected."""
    return left(*names, reason=Reason.NOT_SELECTED)


def mixed(selected, unselected):
    """Return a sweep that found both."""
    both = [
        *(Leftover(n, n, Reason.IN_USE) for n in selected),
        *(Leftover(n, n, Reason.NOT_SELECTED) for n in unselected),
    ]
    return StepResult(Outcome.LEFTOVERS, str(Reason.IN_USE), "busy", found=len(both), leftovers=tuple(both))


def purging(*steps, selection=EVERYTHING, rules=None, **values):
    return World(deletion(mode=Mode.PURGE, selection=selection, **values), *steps, rules=rules)


def passed(world):
    return [e.type.removeprefix("deletion.") for e in world.events if e.type.startswith("deletion.")]


# --------------------------------------------------------------------------------------------------------- to its end
def test_a_project_is_purged_and_given_back_after_two_empty_inventories_behind_the_lock():
    world = purging(SERVER, PORT, QUOTA).finds("network.port")
    assert world.run() is Status.PURGED
    assert passed(world) == ["draining", "inventory", "deleting", "verifying", "purged"]
    assert {"close", "remove", "network.quota"}.isdisjoint(world.dispatched)
    assert "release" in world.dispatched and not world.deletion.has_changes
    assert len(world.empty_rounds) == 2
    held = next(e for e in world.events if e.type == "drain.held")
    since = datetime.datetime.fromisoformat(held.message.rsplit(" ", 1)[1].removesuffix("Z"))
    assert all(opened >= since + world.rules.settle for opened in world.empty_rounds)


def test_what_is_not_selected_stays_and_is_counted():
    world = purging(SERVER, FREE_PORT, selection=NETWORK).finds("network.port")
    world.answers["compute.server"] = lambda _: kept("s1", "s2")
    assert world.run() is Status.PURGED
    assert "2 resources that are not selected stay" in world.deletion.message
    assert world.step("compute.server").unselected == 2


def test_a_survey_after_the_last_inventory_sees_the_lock_once_more():
    world = purging(PORT)
    assert world.run() is Status.PURGED
    ended = world.step("network.port").finished_at
    assert world.step("survey").started_at > ended
    assert world.dispatched[-2:] == ["survey", "release"]


def test_a_lock_that_was_lost_during_the_last_inventory_voids_the_inventories():
    world, lost = purging(PORT), []

    def survey(_):
        if world.deletion.empty_inventories < 2 or lost:
            return CLEAR
        lost.append(world.now)
        return dataclasses.replace(CLEAR, learned=(ProjectReopened(),))

    world.answers["survey"] = survey
    assert world.run() is Status.PURGED
    assert len(lost) == 1 and len(world.empty_rounds) == 4
    drained = [e for e in world.events if e.type == "drain.held"]
    assert len(drained) == 2
    assert all(opened >= lost[0] + world.rules.settle for opened in world.empty_rounds[2:])
    assert not world.deletion.has_changes


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_PROTECTED), "it is on the list"), Status.FAILED),
        (UNKNOWN, Status.PURGED),
    ],
)
def test_a_survey_that_fails_after_the_last_inventory_is_repeated_or_ends_the_deletion(answer, end):
    world, asked = purging(PORT), []

    def survey(_):
        if world.deletion.empty_inventories < 2 or len(asked) > 3:
            return CLEAR
        asked.append(world.now)
        return answer

    world.answers["survey"] = survey
    assert world.run() is end
    assert not world.deletion.has_changes


def test_a_project_that_was_not_locked_completely_says_so_at_its_end():
    world = purging(PORT)
    world.answers["drain"] = lambda _: StepResult(Outcome.CLEAR, "inherited_grants", "users keep getting tokens")
    assert world.run() is Status.PURGED
    assert "not locked completely" in world.deletion.message


def test_a_project_of_which_nothing_is_selected_is_not_locked_for_the_recovery_window():
    rules = Rules(recovery_window=datetime.timedelta(days=7))
    world = purging(SERVER, PORT, selection=NETWORK, rules=rules)
    world.answers["compute.server"] = lambda _: kept("s1")
    assert world.run() is Status.PURGED
    assert "recoverable" not in passed(world)
    assert world.now - T0 < datetime.timedelta(hours=1)


def test_a_report_says_that_an_approval_was_missing():
    world = purging(PORT, rules=Rules(approval_resources=2)).finds("network.port", lambda _: left("r1", "r2", "r3"))
    assert world.run() is Status.LEFTOVERS
    assert "3 left in network.port; nothing more was deleted: " in world.deletion.message
    assert world.deletion.message.endswith("a second person has to approve it, and a retry waits for that")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (left("p1", reason=Reason.PROTECTED), "1 left in network.port"),
        (left("p1", reason=Reason.IN_USE), "1 left in network.port"),
        (UNKNOWN, "unknown: network.port"),
        (mixed(["p1"], ["p2"]), "1 left in network.port"),
    ],
)
def test_a_project_of_which_something_selected_is_left_or_unknown_is_given_back_as_not_empty(answer, said):
    world = purging(SERVER, PORT, selection=NETWORK)
    world.answers["network.port"] = lambda _: answer
    assert world.run() is Status.LEFTOVERS
    assert said in world.deletion.message
    assert not world.deletion.has_changes
    assert world.now - T0 < Rules().settle  # its users do not wait for the token caches, which would prove nothing


def test_what_a_service_is_deleting_is_waited_for_longer_than_what_is_refused():
    polls = []

    def answer(_):
        polls.append(None)
        return left("r1", reason=Reason.DELETING) if len(polls) < 60 else CLEAR

    world = purging(PORT).finds("network.port", answer)
    assert world.run() is Status.PURGED


def test_what_a_service_deletes_for_ever_does_not_lock_the_users_out_for_ever():
    world = purging(PORT).finds("network.port", lambda _: left("r1", reason=Reason.DELETING))
    assert world.run() is Status.LEFTOVERS
    assert not world.deletion.has_changes


def test_a_type_that_is_not_selected_and_cannot_be_listed_does_not_keep_the_project_from_being_purged():
    world = purging(sweep_step("dns.zone"), PORT, UNSUPPORTED, selection=NETWORK)
    world.answers["dns.zone"] = lambda _: UNKNOWN
    assert world.run() is Status.PURGED
    assert blockers(world.deletion, world.steps.values()) == ()


@pytest.mark.parametrize("selection", [EVERYTHING, Selection(tags=("temporary",)), Selection(services=("weather",))])
def test_a_service_that_nothing_can_list_keeps_it_if_it_is_selected(selection):
    world = purging(PORT, UNSUPPORTED, selection=selection)
    assert world.run() is Status.LEFTOVERS
    assert "unknown: weather" in world.deletion.message


# ------------------------------------------------------------------------------------------------- what stays is needed
@pytest.mark.parametrize(
    ("port", "deleted"), [(PORT, False), (FREE_PORT, True)], ids=["without a rule", "with a rule for each port"]
)
def test_a_type_that_unselected_resources_may_need_is_deleted_only_by_a_rule(port, deleted):
    world = purging(SERVER, port, selection=NETWORK).finds("network.port")
    world.answers["compute.server"] = lambda _: kept("s1")
    if not deleted:
        world.answers["network.port"] = lambda _: left("r1")
    assert world.run() is (Status.PURGED if deleted else Status.LEFTOVERS)
    assert (("network.port", RoundPurpose.DELETE) in world.writes) is deleted
    assert ("network.port may be needed by compute.server" in world.deletion.message) is not deleted


def test_what_is_behind_a_type_that_cannot_be_listed_is_not_deleted_even_if_that_type_is_not_selected():
    world = purging(SERVER, PORT, selection=NETWORK)
    world.answers = {"compute.server": lambda _: UNKNOWN, "network.port": lambda _: left("p1")}
    assert world.run() is Status.LEFTOVERS
    assert ("network.port", RoundPurpose.DELETE) not in world.writes
    assert world.deletion.message == (
        "1 left in network.port; not deleted, because other resources may need them: network.port may be needed by "
        "compute.server"
    )


def test_a_report_names_the_unsupported_service_that_may_need_what_is_left():
    port = dataclasses.replace(PORT, after=("compute.server", "weather.station"))
    world = purging(SERVER, port, UNSUPPORTED, selection=NETWORK)
    world.answers["network.port"] = lambda _: left("p1")
    assert world.run() is Status.LEFTOVERS
    assert "network.port may be needed by weather" in world.deletion.message


def test_a_report_counts_what_is_selected():
    world = purging(PORT, selection=Selection(tags=("x",))).finds("network.port", lambda _: mixed(["p1"], ["p2", "p3"]))
    assert world.run() is Status.LEFTOVERS
    assert world.deletion.message == "1 left in network.port"


def test_leftovers_that_are_all_unselected_do_not_satisfy_an_edge_as_unplanned_ones_do():
    done = {"state": StepState.DONE, "outcome": Outcome.LEFTOVERS, "round": 2, "remaining": 1}
    for field, waits in (("unplanned", ()), ("unselected", ("compute.server",))):
        server = dataclasses.replace(SERVER, **done, **{field: 1})
        assert dependencies.waits_for(PORT, [server], 2) == waits


@pytest.mark.parametrize(("mode", "deleted"), [(Mode.CASCADE, True), (Mode.PURGE, False)])
def test_what_unplanned_resources_may_need_stays_in_a_project_that_is_kept(mode, deleted):
    world = World(deletion(mode=mode, plan_id="plan"), SERVER, PORT).finds("network.port")
    world.answers["compute.server"] = lambda _: left("new", reason=Reason.NOT_PLANNED)
    if not deleted:
        world.answers["network.port"] = lambda _: left("r1")
    assert world.run() is Status.LEFTOVERS
    assert world.deletion.reason == "unplanned"
    assert (("network.port", RoundPurpose.DELETE) in world.writes) is deleted
    assert ("network.port may be needed by compute.server" in world.deletion.message) is not deleted


# ------------------------------------------------------------------------------------------------------------- refused
def test_a_project_that_another_client_deletes_meanwhile_fails_and_nothing_more_is_deleted():
    world = purging(PORT).finds("network.port", lambda _: left("p1", reason=Reason.IN_USE))
    world.run(until=Status.DELETING)
    world.deletion = dataclasses.replace(world.deletion, project_gone_at=world.now)
    before = len(world.writes)
    assert world.run() is Status.FAILED
    assert (world.deletion.reason, world.deletion.has_changes) == ("project_gone", False)
    assert [w for w in world.writes[before:] if w[0] == "network.port"] == []


@pytest.mark.parametrize("selection", [EVERYTHING, Selection(services=("compute",))])
def test_a_type_that_may_raise_a_lien_and_cannot_be_listed_does_not_lock_the_users_out_for_ever(selection):
    world = purging(SERVER, PORT, selection=selection, rules=Rules(lien_types=frozenset({"network.port"})))
    world.answers["compute.server"] = lambda _: left("s1")
    world.answers["network.port"] = lambda _: CLEAR if world.step("release").state is StepState.DONE else UNKNOWN
    assert world.run() is Status.LEFTOVERS
    assert "may raise a lien" in world.deletion.message
    assert not world.deletion.has_changes
    assert all(purpose is not RoundPurpose.DELETE for _, purpose in world.writes)


def test_a_project_that_another_client_deletes_during_the_recovery_window_fails_at_once():
    day = datetime.timedelta(days=1)
    world = purging(PORT, rules=Rules(recovery_window=day)).finds("network.port")
    world.run(until=Status.RECOVERABLE)
    world.deletion = dataclasses.replace(world.deletion, project_gone_at=world.now)
    assert world.run() is Status.FAILED
    assert (world.deletion.reason, world.deletion.has_changes) == ("project_gone", False)
    assert world.now - T0 < day


def test_a_selected_type_that_its_service_does_not_have_any_more_is_unknown():
    world = purging(PORT, SERVER, selection=Selection(types=("compute.server", "network.port")))
    world.run(until=Status.VERIFYING)
    del world.steps["network.port"]
    assert world.run() is Status.LEFTOVERS
    assert world.deletion.reason == "not_in_catalog" and "network.port" in world.deletion.message


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_selection_of_what_the_catalog_does_not_have_fails_before_anything_is_locked(dry_run):
    world = purging(PORT, selection=Selection(types=("network.prot",)), dry_run=dry_run)
    assert world.run() is Status.FAILED
    assert world.deletion.reason == "not_in_catalog" and "network.prot" in world.deletion.message
    assert world.writes == []


def test_force_is_refused_in_every_status():
    for status in Status:
        assert not forcible(deletion(mode=Mode.PURGE, status=status))


@each_case("kind", [StepKind.CLOSE, StepKind.REMOVE], "purpose", list(RoundPurpose), "origin", list(Origin))
def test_the_guard_refuses_to_disable_and_to_remove_a_project_that_is_kept(kind, purpose, origin):
    record = deletion(mode=Mode.PURGE, status=Status.VERIFYING, purpose=purpose, origin=origin)
    for writing in (False, True):
        assert not allowed(record, Step("s", "d", kind, round=record.round), writing)


def test_the_guard_refuses_to_delete_the_settings_of_a_project_that_is_kept():
    for purpose in RoundPurpose:
        record = deletion(mode=Mode.PURGE, status=Status.VERIFYING, purpose=purpose)
        assert not allowed(record, dataclasses.replace(QUOTA, round=record.round), writing=True)


# ---------------------------------------------------------------------------------------------------- what always holds
ANSWERS = st.sampled_from(
    [CLEAR, CLEAR, UNKNOWN, left("a"), left("a", reason=Reason.IN_USE), kept("k"), mixed("a", "k")]
)


@settings(max_examples=examples(80))
@given(
    st.dictionaries(st.sampled_from(["compute.server", "network.port", "dns.zone"]), st.lists(ANSWERS, max_size=8)),
    st.sampled_from([EVERYTHING, NETWORK, Selection(tags=("x",)), Selection(types=("dns.zone", "compute.server"))]),
)
def test_it_always_ends_and_is_purged_only_if_the_last_lists_had_nothing_that_is_selected(answers, selection):
    world = purging(SERVER, FREE_PORT, sweep_step("dns.zone"), QUOTA, selection=selection)
    script = {name: list(each) for name, each in answers.items()}
    last = {}

    def answer(step):
        mine = script.get(step.id, [])
        last[step.id] = mine.pop(0) if len(mine) > 1 else (mine[0] if mine else CLEAR)  # the last one holds for ever
        return last[step.id]

    world.answers = dict.fromkeys(["compute.server", "network.port", "dns.zone"], answer)
    status = world.run()
    assert status not in LIVE and not world.deletion.has_changes
    assert {"close", "remove", "network.quota"}.isdisjoint(world.dispatched)
    if status is Status.PURGED:
        for name, result in last.items():
            if selection.has_type(*name.split(".")):
                assert result.outcome is not Outcome.UNKNOWN
                assert all(one.reason is Reason.NOT_SELECTED for one in result.leftovers)
    else:
        assert status is Status.LEFTOVERS


# ------------------------------------------------------------------------------------------------------ giving it back
def test_nothing_is_listed_and_nothing_counts_once_the_project_is_being_given_back():
    world = purging(PORT)
    # The service answers again as soon as the lock is undone: its users may have created something since.
    world.answers["network.port"] = lambda _: CLEAR if "release" in world.dispatched else UNKNOWN
    assert world.run() is Status.LEFTOVERS
    assert "unknown: network.port" in world.deletion.message
    assert world.dispatched[-1] == "release"
    assert world.empty_rounds == []


def test_a_survey_that_fails_the_deletion_still_does_so_once_the_project_is_given_back():
    world = purging(PORT).finds("network.port")
    world.run(until=Status.VERIFYING)
    world.answers["survey"] = lambda _: StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_IMMUTABLE), "it is immutable")
    assert world.run() is Status.FAILED
    assert (world.deletion.reason, world.deletion.has_changes) == ("project_immutable", False)
