"""Force: an admin's word that a deletion lets go of what it cannot delete, and what it never does."""

import dataclasses
import datetime
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.core import force, transitions
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Force, Mode, Origin, RoundPurpose, Status, UseDecision
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult, StepState, Token
from tests.support.examples import examples
from tests.unit.world import UNKNOWN, World, deletion, left, sweep_step

ROUND = datetime.timedelta(minutes=30)  #: enough for everything that is tried again to be tried again


def _name(key):
    service, type_ = key.split("__")
    return f"{service.replace('_', '-')}.{type_}"


class Project:
    """What a project has, by type: each goes by an ordinary delete, by force alone, or not at all."""

    def __init__(self, world, **types):
        self.world, self.types = world, {_name(key): dict(kinds) for key, kinds in types.items()}
        self.dead = set()  #: types whose service does not answer
        self.by_force = []  #: what force was used on
        self.known = {}  #: ids that a delete was tried on, by type
        world.answers |= dict.fromkeys(self.types, self.answer)

    def answer(self, step):
        if step.id in self.dead:
            return UNKNOWN
        kinds = self.types[step.id]
        gone = []
        if self.world.deletion.purpose is RoundPurpose.DELETE:
            tried = self.known.setdefault(step.id, set())
            for id_, kind in tuple(kinds.items()):
                if step.forcing and id_ in tried:
                    self.by_force.append(id_)
                if kind == "goes" or (kind == "by_force" and step.forcing and id_ in tried):
                    gone.append((id_, id_))
                    del kinds[id_]
                tried.add(id_)
        result = left(*sorted(kinds), reason=Reason.ERROR if gone or self.known else Reason.PRESENT)
        result = dataclasses.replace(result, deleted=tuple(gone), found=len(kinds) + len(gone))
        return result if kinds else dataclasses.replace(result, outcome=Outcome.CLEAR, reason="")


VOLUME, PORT, ZONE = (sweep_step(name) for name in ("block-storage.volume", "network.port", "dns.zone"))
NETWORK = sweep_step("network.network", after=("network.port",))


def stuck(*steps, **types):
    """A cascade that has got to where nothing moves any more."""
    world = World(deletion(), *steps)
    project = Project(world, **types)
    world.run(until=Status.DELETING)
    wait(world, datetime.timedelta(hours=1))
    assert world.deletion.status is Status.DELETING
    return world, project


def wait(world, time, limit=3000):
    """Let it run for so long."""
    until = world.now + time
    for _ in range(limit):
        if world.now >= until or world.deletion.status not in transitions.LIVE:
            return
        world.run(limit=1)
    raise AssertionError("too many steps")


def types_of(world, name):
    return [e for e in world.events if e.type == name]


# ----------------------------------------------------------------------------------------------------- the ordinary way
def test_a_deletion_waits_until_it_is_forced():
    world, project = stuck(VOLUME, block_storage__volume={"v": "by_force"})
    assert project.by_force == []
    assert not types_of(world, "force.used") and not types_of(world, "force.abandoned")


@pytest.mark.parametrize(
    ("values", "may"),
    [
        ({"status": Status.DELETING}, True),
        ({"status": Status.VERIFYING}, True),
        ({"status": Status.VERIFYING, "purpose": RoundPurpose.INVENTORY}, True),
        ({"status": Status.VERIFYING, "purpose": RoundPurpose.PROJECT_SETTINGS}, False),
        ({"status": Status.DELETING, "mode": Mode.REPORT}, False),
        ({"status": Status.DELETING, "dry_run": True}, False),
        ({"status": Status.VERIFYING, "origin": Origin.NOTICED}, False),
        *(({"status": s}, False) for s in Status if s not in (Status.DELETING, Status.VERIFYING)),
    ],
    ids=str,
)
def test_only_a_cascade_that_is_deleting_can_be_forced(values, may):
    assert transitions.forcible(deletion(**values)) is may


# ------------------------------------------------------------------------------------------------------- what it does
def test_first_ordinary_then_by_force_then_abandoned_and_then_proven_twice():
    world, project = stuck(VOLUME, PORT, block_storage__volume={"f": "by_force", "e": "stays"}, network__port={})
    world.force("block-storage.volume")
    before = len(world.empty_rounds)
    assert world.run(limit=5000) is Status.DELETED
    assert "f" in project.by_force
    assert project.types["block-storage.volume"] == {"e": "stays"}
    assert set(world.left["block-storage.volume"]) == {"e"}
    assert world.left["block-storage.volume"]["e"].abandoned
    assert len(world.empty_rounds) - before >= 2, "verification is not skipped"
    order = [e.type for e in world.events if e.type in ("force.used", "force.abandoned", "inventory.empty")]
    assert order[:2] == ["force.used", "force.abandoned"]
    assert set(order[2:]) == {"inventory.empty"}
    assert world.deletion.reason == "deleted_by_force"
    assert "by force of alice (the storage burnt down): 1 abandoned: 1 block-storage.volume in R1" in (
        world.deletion.message
    )


def test_force_that_had_nothing_to_abandon_says_so():
    world, project = stuck(VOLUME, block_storage__volume={"f": "by_force"})
    world.force("block-storage.volume")
    assert world.run(limit=5000) is Status.DELETED
    assert project.by_force == ["f"]
    assert "nothing is abandoned" in world.deletion.message


def test_a_type_that_was_not_named_is_not_forced_but_abandoned():
    world, project = stuck(VOLUME, block_storage__volume={"f": "by_force"})
    world.force("network.port")
    assert world.run(limit=5000) is Status.DELETED
    assert project.by_force == []
    assert set(world.left["block-storage.volume"]) == {"f"}


def test_nothing_waits_any_more_for_what_was_abandoned():
    world, project = stuck(PORT, NETWORK, network__port={"p": "stays"}, network__network={"n": "goes"})
    assert project.types["network.network"] == {"n": "goes"}, "it waits for the port"
    world.force()
    assert world.run(limit=5000) is Status.DELETED
    assert project.types == {"network.port": {"p": "stays"}, "network.network": {}}


@pytest.mark.parametrize("patience", [300, 0])
@pytest.mark.parametrize("forcible", [True, False])
def test_what_a_leftover_needs_is_neither_forced_nor_abandoned_before_that_leftover(forcible, patience):
    """The volume of a server that cannot be deleted was not tried: it goes once the server is forced or abandoned."""
    server = sweep_step("compute.server")
    volume = sweep_step("block-storage.volume", after=("compute.server",), needed_by=("compute.server",))
    rules = Rules(force_patience=datetime.timedelta(seconds=patience))
    kinds = {"compute__server": {"s": "by_force" if forcible else "stays"}, "block_storage__volume": {"v": "goes"}}
    world = World(deletion(), server, volume, rules=rules)
    project = Project(world, **kinds)
    ordinary = project.answer

    def needed(step):
        needs = project.types["compute.server"] and not world.step("compute.server").abandoned
        project.types["block-storage.volume"] = dict.fromkeys(project.types[step.id], "stays" if needs else "goes")
        return ordinary(step)

    world.answers["block-storage.volume"] = needed
    world.run(until=Status.DELETING)
    wait(world, datetime.timedelta(hours=1))
    assert project.types["block-storage.volume"], "the server needs it"
    world.force("compute.server", "block-storage.volume")
    assert world.run(limit=5000) is Status.DELETED
    assert project.types["block-storage.volume"] == {}
    assert "v" not in project.by_force
    assert [e.data["type"] for e in types_of(world, "force.abandoned")] == ([] if forcible else ["server"])


def test_what_may_still_free_another_is_waited_for():
    """A volume is held by a share that goes by force: it is not let go of before that has been tried."""
    share = sweep_step("shared-file-system.share")
    world, project = stuck(VOLUME, share, block_storage__volume={"v": "stays"}, shared_file_system__share={})
    project.types = {"block-storage.volume": {"v": "stays"}, "shared-file-system.share": {"s": "by_force"}}
    world.force("shared-file-system.share")
    ordinary = project.answer

    def freed(step):
        if not project.types["shared-file-system.share"]:
            project.types["block-storage.volume"] = dict.fromkeys(project.types["block-storage.volume"], "goes")
        return ordinary(step)

    world.answers |= {"block-storage.volume": freed, "shared-file-system.share": ordinary}
    assert world.run(limit=5000) is Status.DELETED
    assert project.types["block-storage.volume"] == {}
    assert "nothing is abandoned" in world.deletion.message


def test_slow_is_not_stuck():
    """As long as any resource moves, none is abandoned."""
    world, _ = stuck(VOLUME, PORT, block_storage__volume={"v": "stays"}, network__port={})
    many = itertools.count(100, -1)
    world.answers["network.port"] = lambda _: dataclasses.replace(left(*map(str, range(next(many)))), reason="error")
    world.force()
    for _ in range(20):
        wait(world, world.rules.force_patience / 4)
        if world.steps["network.port"].remaining <= 1:
            break
        if world.now - world.deletion.progress_at < world.rules.force_patience:
            assert not types_of(world, "force.abandoned")


def test_it_takes_effect_with_the_next_round_and_counts_tries_anew():
    world, _ = stuck(VOLUME, block_storage__volume={"v": "stays"})
    assert world.steps["block-storage.volume"].attempt > world.rules.force_attempts
    old = world.deletion.round
    world.force("block-storage.volume")
    world.settle_engine()
    assert (world.deletion.round, world.deletion.purpose) == (old + 1, RoundPurpose.DELETE)
    assert not types_of(world, "force.used")
    wait(world, world.rules.force_patience - datetime.timedelta(seconds=1))
    assert not types_of(world, "force.used"), "not before its patience is over"
    wait(world, datetime.timedelta(minutes=2))
    assert types_of(world, "force.used")


def test_a_verification_that_cannot_end_goes_back_when_it_is_forced():
    world = World(deletion(), PORT, ZONE)
    project = Project(world, network__port={"p": "goes"}, dns__zone={})
    world.run(until=Status.VERIFYING)
    project.dead = {"dns.zone"}
    wait(world, datetime.timedelta(hours=1))
    assert world.deletion.status is Status.VERIFYING
    world.force()
    world.settle_engine()
    assert (world.deletion.status, world.deletion.purpose) == (Status.DELETING, RoundPurpose.DELETE)
    assert world.run(limit=5000) is Status.DELETED
    assert "unknown, abandoned unseen: dns.zone in R1" in world.deletion.message


# ------------------------------------------------------------------------------------------------- nothing is skipped
def test_a_catalog_entry_without_a_plugin_is_abandoned_by_name():
    unsupported = Step("dns", "d", StepKind.UNSUPPORTED, "R1", "dns", reason="no_plugin", message="no plugin for dns")
    unsupported = dataclasses.replace(unsupported, state=StepState.DONE, outcome=Outcome.UNKNOWN, round=1)
    world, _ = stuck(PORT, unsupported, network__port={})
    world.force()
    assert world.run(limit=5000) is Status.DELETED
    assert "unknown, abandoned unseen: dns in R1" in world.deletion.message
    assert [s.service for s in force.unseen(world.deletion, world.steps.values())] == ["dns"]


def test_what_gives_no_answer_is_abandoned_where_more_than_so_many_need_an_approval_as_well():
    """It is left out of the rounds of deletes until it is counted; force does not wait for that."""
    world = World(deletion(), VOLUME, PORT, NETWORK, rules=Rules(approval_resources=9))
    kinds = {"block_storage__volume": {"v": "goes"}, "network__port": {"p": "stays"}, "network__network": {"n": "goes"}}
    project = Project(world, **kinds)
    project.dead = {"network.port"}
    world.run(until=Status.VERIFYING)
    wait(world, datetime.timedelta(hours=1))
    assert world.deletion.status is Status.VERIFYING and project.types["network.network"], "it waits for an answer"
    world.force()
    assert world.run(limit=9000) is Status.DELETED
    assert "unknown, abandoned unseen: network.port in R1" in world.deletion.message
    assert project.by_force == [] and not project.types["network.network"]


def test_what_appears_later_is_deleted_and_not_abandoned():
    world, project = stuck(VOLUME, block_storage__volume={"v": "stays"})
    world.force()
    world.run(limit=5000, until=Status.VERIFYING)
    project.types["block-storage.volume"]["new"] = "goes"
    assert world.run(limit=5000) is Status.DELETED
    assert project.types["block-storage.volume"] == {"v": "stays"}
    assert [e.message for e in world.events if e.type == "deletion.deleting"][-1].startswith(
        "from verifying to deleting: verification found"
    )


def test_what_appears_later_and_does_not_go_is_abandoned_by_name_as_well():
    world, project = stuck(VOLUME, block_storage__volume={"v": "stays"})
    world.force()
    world.run(limit=5000, until=Status.VERIFYING)
    project.types["block-storage.volume"]["new"] = "stays"
    assert world.run(limit=9000) is Status.DELETED
    assert {id_ for id_, one in world.left["block-storage.volume"].items() if one.abandoned} == {"v", "new"}


def test_earlier_abandoned_resources_do_not_cover_a_service_that_fails_during_verification():
    world, project = stuck(VOLUME, block_storage__volume={"v": "stays"})
    world.force()
    world.run(limit=5000, until=Status.VERIFYING)
    project.dead = {"block-storage.volume"}
    wait(world, ROUND / 6)
    assert world.deletion.status is Status.DELETING, "unknown: back to where it may be let go of"
    assert world.run(limit=9000) is Status.DELETED
    text = world.deletion.message
    assert "1 abandoned: 1 block-storage.volume in R1; unknown, abandoned unseen: block-storage.volume in R1" in text
    assert set(world.left["block-storage.volume"]) == {"v"}, "what was known stays on record"


def test_an_abandoned_type_that_needs_a_project_token_keeps_its_last_inventory():
    backup = sweep_step("block-storage.backup", token=Token.PROJECT)
    world, project = stuck(backup, block_storage__backup={"b": "stays"})
    world.force()

    def answer(step):
        return UNKNOWN if world.deletion.closed_at else project.answer(step)

    world.answers["block-storage.backup"] = answer
    assert world.run(limit=5000) is Status.DELETED
    assert "1 abandoned: 1 block-storage.backup in R1" in world.deletion.message
    assert "unseen" not in world.deletion.message


def test_what_keystone_keeps_is_not_forced_away():
    world, _ = stuck(VOLUME, block_storage__volume={"v": "stays"})
    world.answers["remove"] = lambda _: StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_IMMUTABLE), "immutable")
    world.force()
    assert world.run(limit=5000) is Status.VERIFYING
    assert "release" not in world.dispatched


def test_a_project_that_may_not_be_deleted_any_more_is_not_forced_away():
    world, _ = stuck(VOLUME, block_storage__volume={"v": "stays"})
    world.answers["survey"] = lambda _: StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_PROTECTED), "never deleted")
    world.force()
    assert world.run(limit=5000) is Status.FAILED


# --------------------------------------------------------------------------------------------------- taking it back
@pytest.mark.parametrize("until", [Status.DELETING, Status.VERIFYING])
def test_a_cancel_withdraws_it(until):
    world, _ = stuck(VOLUME, block_storage__volume={"v": "stays"})
    world.force()
    world.run(limit=5000, until=until)
    world.settle_engine()
    world.user(Status.CANCELLING)
    assert world.deletion.forced is None
    assert world.run(limit=500) is Status.CANCELLED
    assert not any(c.type == "forced" for c in world.deletion.conditions)


def test_a_retry_is_an_ordinary_deletion_again():
    world, _ = stuck(VOLUME, block_storage__volume={"v": "stays"})
    world.answers["remove"] = lambda _: StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_PROTECTED), "protected")
    world.force()
    assert world.run(limit=5000) is Status.FAILED
    old = world.deletion.forced
    world.user(Status.ACCEPTED)
    assert world.deletion.forced is None
    del world.answers["remove"]
    # Force of an earlier attempt counts for nothing, also where it is still on record.
    world.deletion = dataclasses.replace(world.deletion, forced=old)
    count = len(types_of(world, "force.abandoned"))
    wait(world, datetime.timedelta(hours=2))
    assert world.deletion.status is Status.DELETING
    assert len(types_of(world, "force.abandoned")) == count
    assert world.steps["block-storage.volume"].abandoned == 0


# -------------------------------------------------------------------------------------------------------- properties
KINDS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["goes", "by_force", "stays"]), max_size=3)
TYPES = ("block-storage.volume", "network.port", "network.network", "dns.zone")
HAPPENS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(1, 900)),
        st.tuples(st.just("make"), st.sampled_from(TYPES), st.sampled_from(["goes", "by_force", "stays"])),
        st.tuples(st.just("die"), st.sampled_from(TYPES)),
        st.tuples(st.just("revive"), st.sampled_from(TYPES)),
    ),
    max_size=8,
)


def world_of(kinds, dead):
    network = dataclasses.replace(NETWORK)
    world = World(deletion(), VOLUME, PORT, network, ZONE)
    project = Project(world, **{name.replace(".", "__"): dict(kinds[name]) for name in TYPES})
    project.types = {name: dict(kinds[name]) for name in TYPES}
    world.answers |= dict.fromkeys(TYPES, project.answer)
    project.dead = set(dead)
    return world, project


def happen(world, project, happens):
    names = itertools.count()
    for what, *how in happens:
        if world.deletion.status not in transitions.LIVE or world.deletion.purpose is RoundPurpose.PROJECT_SETTINGS:
            return
        if what == "wait":
            wait(world, datetime.timedelta(seconds=how[0]))
        elif what == "make" and world.deletion.closed_at is None:
            project.types[how[0]][f"new{next(names)}"] = how[1]
        elif what == "die":
            project.dead.add(how[0])
        elif what == "revive":
            project.dead.discard(how[0])


EXAMPLES = settings(max_examples=examples(20), suppress_health_check=list(HealthCheck))


@EXAMPLES
@given(st.fixed_dictionaries(dict.fromkeys(TYPES, KINDS)), st.sets(st.sampled_from(TYPES)), HAPPENS)
def test_without_a_recorded_force_nothing_is_ever_abandoned(kinds, dead, happens):
    world, project = world_of(kinds, dead)
    world.run(until=Status.DELETING)
    happen(world, project, happens)
    wait(world, ROUND)
    assert not any(s.forcing or s.abandoned or s.unseen for s in world.steps.values())
    assert project.by_force == []
    if world.deletion.status is Status.DELETED:
        assert not any(project.types.values())


@EXAMPLES
@given(
    st.fixed_dictionaries(dict.fromkeys(TYPES, KINDS)),
    st.sets(st.sampled_from(TYPES)),
    HAPPENS,
    HAPPENS,
    st.sets(st.sampled_from(TYPES)),
)
def test_with_force_the_project_is_removed_after_two_complete_inventories_with_all_leftovers_named(
    kinds, dead, before, after, forced
):
    world, project = world_of(kinds, dead)
    world.run(until=Status.DELETING)
    happen(world, project, before)
    if not transitions.forcible(world.deletion):
        return
    world.force(*sorted(forced))
    asked_at = world.now
    happen(world, project, after)
    assert world.run(limit=20000) is Status.DELETED
    assert len([at for at in world.empty_rounds if at > asked_at]) >= 2
    for name, there in project.types.items():
        step = world.steps[name]
        named = {id_ for id_, one in world.left.get(name, {}).items() if one.abandoned}
        if step.unseen:
            assert f"unseen: {name} in R1" in world.deletion.message or f", {name} in R1" in world.deletion.message
        else:
            assert set(there) == named, name
            assert not there or f"{len(there)} {name} in R1" in world.deletion.message
        assert all(kind != "goes" or step.unseen for kind in there.values()), "what goes by itself is not abandoned"
        tried = name in forced and not step.unseen
        assert not tried or "by_force" not in there.values(), "force is tried before anything is let go of"
    assert set(project.by_force) <= {id_ for name in forced for id_ in project.known.get(name, ())}


@given(st.integers(1, 5), st.integers(0, 5), st.sampled_from(Outcome), st.booleans(), st.booleans())
def test_only_all_of_a_result_or_a_named_unknown_counts_as_abandoned(remaining, abandoned, outcome, unseen, works):
    asked = World(deletion(status=Status.DELETING))
    asked.force()
    d = dataclasses.replace(asked.deletion, round=2 if works else 1)
    step = dataclasses.replace(PORT, outcome=outcome, remaining=remaining, abandoned=abandoned, unseen=unseen)
    covered = (outcome is Outcome.LEFTOVERS and remaining == abandoned) or (outcome is Outcome.UNKNOWN and unseen)
    assert force.is_abandoned(d, step) is (works and covered)


def test_what_is_found_again_keeps_what_was_said_of_it_and_what_is_new_is_not_marked():
    known = Leftover("a", "A", Reason.IN_USE, "a server has it", abandoned=True, owner="p", remedy="by hand")
    found = StepResult(
        Outcome.LEFTOVERS, leftovers=(Leftover("a", "A", Reason.PRESENT), Leftover("b", "B", Reason.PRESENT))
    )
    a, b = force.keep_abandoned(found, {"a": known}).leftovers
    assert a == known
    assert b == found.leftovers[1]


def test_a_decision_to_abandon_is_recorded_with_place_and_reason():
    world, _ = stuck(VOLUME, block_storage__volume={"v": "stays"})
    world.force()
    world.run(limit=5000, until=Status.VERIFYING)
    [event] = types_of(world, "force.abandoned")
    assert event.data == {
        "region": "R1",
        "service": "block-storage",
        "type": "volume",
        "abandoned": 1,
        "unseen": False,
        "reason": "error",
    }
    world.settle_engine()
    [condition] = [c for c in world.deletion.conditions if c.type == "forced"]
    assert condition.status and "1 block-storage.volume in R1" in condition.message
    assert blockers(world.deletion, tuple(world.steps.values())) == ()


# --------------------------------------------------------------------------- uses that an admin overrules
F1, F2 = ("network.floating_ip", "f1"), ("network.floating_ip", "f2")


def decided(d, *by, of="network.port:p"):
    """A deletion after an admin's decision."""
    new = Force("4711", (), NOW, d.attempt, d.round, "u1", "alice", abandons=False)
    return force.with_decisions(d, dataclasses.replace(new, uses=(UseDecision(of, by, new.who),)))


NOW = datetime.datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("after", "holds"),
    [
        ({}, True),
        ({"round": 9}, True),
        ({"attempt": 2}, False),
        ({"status": Status.CANCELLING}, False),
        ({"status": Status.CANCELLED}, False),
    ],
    ids=str,
)
def test_a_decision_on_uses_holds_for_one_attempt_and_abandons_nothing(after, holds):
    d = dataclasses.replace(decided(deletion(status=Status.DELETING), F1), **after)
    assert force.decided_uses(d) == ({"network.port:p": {F1}} if holds else {})
    assert (force.asked(d), force.works(d), force.pending(d)) == (None, False, False)


def test_decisions_on_uses_add_up_and_stay_beside_force():
    d = decided(decided(deletion(status=Status.DELETING), F1), F2)
    d = decided(d, F1, of="compute.server:s")
    assert force.decided_uses(d) == {"network.port:p": {F1, F2}, "compute.server:s": {F1}}
    forced = dataclasses.replace(d, forced=Force("burnt", ("dns.zone",), NOW, 1, 1, uses=force.decisions(d)))
    both = decided(forced, F2, of="compute.server:s")
    assert force.asked(both).types == ("dns.zone",) and force.asked(both).reason == "burnt"
    assert force.decided_uses(both)["compute.server:s"] == {F1, F2}
    assert {use.who for use in force.decisions(both)} == {"alice (4711)"}


def test_what_is_left_after_a_decision_on_uses_is_not_abandoned():
    world, _project = stuck(VOLUME, block_storage__volume={"e": "stays"})
    world.deletion = decided(world.deletion, F1)
    wait(world, datetime.timedelta(hours=2))
    assert world.deletion.status is Status.DELETING
    assert not types_of(world, "force.used") and not types_of(world, "force.abandoned")
