"""Plans: what a dry run leaves, and that a cascade by it deletes nothing else."""

import dataclasses
import hashlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.cloud.session import read_only
from cleanup_orchestrator.core import plans, storable
from cleanup_orchestrator.core.deletion import DELETING_MODES, Mode, RoundPurpose, Status
from cleanup_orchestrator.core.reasons import Reason, remedy
from cleanup_orchestrator.core.results import record
from cleanup_orchestrator.core.step import Outcome, StepKind, StepResult, StepState
from cleanup_orchestrator.plugins.base import Composition, ProjectDefinition, ResourceType, Verdict
from tests.support import sweeps
from tests.support.examples import examples
from tests.unit.worker.test_deleting import US, Shelf
from tests.unit.world import CLEAR, T0, UNKNOWN, World, deletion, left, sweep_step

PLAN = "11111111-2222-3333-4444-555555555555"
#: IDs that are stored as they are. A plan has the stored form of any other ID.
IDS = st.text(min_size=1, max_size=8).filter(lambda id_: storable.resource_id(id_) == id_)


def listed_step(name, *ids, **values):
    """A step as a dry run's look leaves it."""
    outcome = Outcome.LEFTOVERS if ids else Outcome.CLEAR
    seen = {"round": 2, "state": StepState.DONE, "outcome": outcome, "digest": plans.digest(ids)}
    return sweep_step(name, **{**seen, **values})


SERVER = listed_step("compute.server", "s1", "s2")
PORT = listed_step("network.port", "p1", after=("compute.server",))
NETWORK = listed_step("network.network", "n1", after=("network.port",))
IMAGE = listed_step("image.image", "i1")
NOTHING = listed_step("image.namespace", after=("network.network",))
LAST = listed_step("orchestration.stack", "x", after=("*",))
QUOTA = listed_step("network.quota", "q", project_setting=True)


# ------------------------------------------------------------------------------------------------------------ the hash
@given(st.lists(IDS, unique=True), st.randoms())
def test_a_digest_does_not_depend_on_the_order(ids, chance):
    shuffled = list(ids)
    chance.shuffle(shuffled)
    assert plans.digest(shuffled) == plans.digest(ids)


@given(st.lists(IDS, unique=True), st.lists(IDS, unique=True))
def test_other_ids_have_another_digest(one, other):
    assert (plans.digest(one) == plans.digest(other)) == (set(one) == set(other))


def test_the_hash_is_what_the_manual_says_it_is():
    """Written out, so that anybody can compute it."""
    assert plans.digest(["b", 'a"\n']) == (
        hashlib.sha256(b'"a\\"\\n"\n"b"\n').hexdigest()  # sorted, JSON, a line each
    )
    row = f'["R1","network","port","{plans.digest(["p1"])}"]\n'
    assert plans.hash_of([PORT]) == hashlib.sha256(row.encode()).hexdigest()


@pytest.mark.parametrize(
    ("steps", "same", "why"),
    [
        ([SERVER, PORT], True, "the order of the steps does not matter"),
        ([PORT, SERVER, NOTHING], True, "nor does a type that has nothing"),
        ([PORT, SERVER, QUOTA], True, "nor what goes with the project"),
        ([PORT, SERVER, listed_step("dns.zone", "z", waived="w")], True, "nor what is not listed"),
        ([PORT, dataclasses.replace(SERVER, id="x", owner_id="y", round=9)], True, "nor ids of ours"),
        ([PORT], False, "a type less"),
        ([PORT, listed_step("compute.server", "s1")], False, "a resource less"),
        ([PORT, listed_step("compute.server", "s1", "s3")], False, "another resource"),
        ([PORT, dataclasses.replace(SERVER, region="R2")], False, "another region"),
        ([PORT, SERVER, IMAGE], False, "a type more"),
    ],
)
def test_the_hash_depends_on_the_resources_to_delete(steps, same, why):
    assert (plans.hash_of(steps) == plans.hash_of([PORT, SERVER])) is same, why


def test_the_order_has_the_types_that_something_goes_of_level_by_level():
    steps = [LAST, NETWORK, NOTHING, PORT, QUOTA, SERVER, IMAGE, dataclasses.replace(PORT, region="R2")]
    assert plans.levels(steps) == (
        ("compute.server", "image.image"),
        ("network.port",),
        ("network.network",),
        ("orchestration.stack",),
    )


@pytest.mark.parametrize(
    ("step", "gap"),
    [
        (SERVER, ()),
        (NOTHING, ()),
        (dataclasses.replace(SERVER, outcome=Outcome.UNKNOWN), ("compute.server@R1",)),
        (dataclasses.replace(SERVER, outcome=Outcome.UNKNOWN, waived="w"), ()),
        (dataclasses.replace(SERVER, state=StepState.RUNNING), ("compute.server@R1",)),
        (dataclasses.replace(SERVER, round=0), ("compute.server@R1",)),
        (dataclasses.replace(SERVER, digest=""), ("compute.server@R1",)),
        (dataclasses.replace(QUOTA, outcome=Outcome.NONE), ()),
        (
            sweep_step("dns.", kind=StepKind.UNSUPPORTED, round=2, state=StepState.DONE, outcome=Outcome.UNKNOWN),
            ("dns@R1",),
        ),
    ],
)
def test_what_a_plan_does_not_know_it_names(step, gap):
    record = deletion(status=Status.PLANNED, dry_run=True, since_round=1)
    assert plans.gaps(record, [IMAGE, step]) == gap


NO_TOKEN = StepResult(Outcome.UNKNOWN, str(Reason.NO_PROJECT_TOKEN), "Keystone issues no token")
ALL = dataclasses.replace(left("1"), digest=plans.digest(["1"]))
EMPTY = dataclasses.replace(CLEAR, digest=plans.EMPTY_DIGEST)
MORE = dataclasses.replace(left("1"), digest="", more=True)


@pytest.mark.parametrize(
    ("secrets", "ports", "reason", "said"),
    [
        (EMPTY, ALL, "complete", ["a deletion can be bound to it"]),
        (NO_TOKEN, ALL, "no_project_token", ["secret@R1 (no_project_token)", "inherited admin role"]),
        (
            NO_TOKEN,
            UNKNOWN,
            "unknown",
            ["secret@R1 (no_project_token)", "port@R1 (unreachable)", "the endpoint of network back"],
        ),
        (EMPTY, UNKNOWN, "unreachable", ["port@R1 (unreachable)"]),
        (EMPTY, MORE, "present", ["port@R1 (list too long)", "most_listed"]),
    ],
    ids=["complete", "no token", "both", "no answer", "too long"],
)
@pytest.mark.parametrize("mode", sorted(DELETING_MODES))
def test_a_dry_run_says_at_its_end_what_it_could_not_see(secrets, ports, reason, said, mode):
    names = {"key-manager.secret": secrets, "network.port": ports}
    world = World(deletion(mode=mode, dry_run=True), *map(sweep_step, names))
    world.answers = {name: lambda _, result=result: result for name, result in names.items()}
    assert world.run() is Status.PLANNED
    [condition] = [c for c in world.deletion.conditions if c.type == "plan_complete"]
    assert (condition.status, condition.reason) == (reason == "complete", reason)
    assert all(text in condition.message for text in said), condition.message
    assert ("INCOMPLETE" in world.deletion.message) is not condition.status
    assert ("no deletion can be bound to it" in world.deletion.message) is not condition.status
    assert condition.status == (not plans.gaps(world.deletion, world.steps.values()))


def test_the_dry_run_of_a_report_is_no_plan():
    world = World(deletion(mode=Mode.REPORT, dry_run=True), sweep_step("network.port"))
    world.answers = {"network.port": lambda _: UNKNOWN}
    assert world.run() is Status.PLANNED
    assert all(c.type != "plan_complete" for c in world.deletion.conditions)
    assert world.deletion.message == "unknown: network.port"


def test_an_incomplete_plan_names_a_few_types_and_each_remedy_once():
    steps = [sweep_step(f"dns.t{n}", round=2, state=StepState.DONE, outcome=Outcome.UNKNOWN, reason="error")
             for n in range(30)]  # fmt: skip
    text = plans.incomplete(deletion(status=Status.PLANNED, dry_run=True, since_round=1), steps)
    assert text.count("@R1") == 20 and "and 10 more" in text and text.count("which the log of the service has") == 1


def test_the_remedy_of_a_dry_run_without_a_token_is_the_inherited_role():
    """The project is enabled: "enable it" cures nothing."""
    first = remedy(Reason.NO_PROJECT_TOKEN).split(";")[0]
    assert "inherited" in first and "enable" not in first


@pytest.mark.parametrize(
    ("values", "is_plan"),
    [
        ({}, True),
        ({"dry_run": False}, False),
        ({"mode": Mode.PURGE}, True),
        ({"mode": Mode.REPORT}, False),
        ({"status": Status.INVENTORY}, False),
        ({"status": Status.CANCELLED}, False),
    ],
)
def test_a_plan_is_a_dry_run_that_has_ended_of_a_mode_that_deletes(values, is_plan):
    record = deletion(**{"status": Status.PLANNED, "dry_run": True, "mode": Mode.CASCADE, **values})
    assert plans.is_plan(record) is is_plan


# --------------------------------------------------------------------------------------------------------- the sweep
def rows(*ids, **values):
    return [{"id": i, "name": i, "project_id": "us", **values} for i in ids]


def reasons(result):
    return {leftover.id: leftover.reason for leftover in result.leftovers}


def test_an_inventory_for_a_plan_names_what_would_be_deleted_or_kept_and_why():
    shelf = Shelf(*rows("a", "b"), *rows("k", kind="default"), *rows("p", shared=True), {"id": "o", "name": "o"})
    type_ = shelf.type(
        keep=(lambda r, _: "it is Neutron's" if r.data.get("kind") else None,),
        protect=(lambda r, _: "shared" if r.data.get("shared") else None,),
    )
    found = sweeps.inventory(type_, None, US, each_kept=True)
    assert reasons(found) == {
        "a": Reason.PRESENT,
        "b": Reason.PRESENT,
        "p": Reason.PROTECTED,
        "o": Reason.OWNER_UNKNOWN,
    }
    assert [(s.id, s.reason, s.message) for s in found.kept_resources] == [("k", Reason.KEPT, "it is Neutron's")]
    assert found.digest == plans.digest(["a", "b"])
    assert sweeps.inventory(type_, None, US).kept_resources == ()


def test_an_empty_inventory_has_the_digest_of_nothing():
    assert sweeps.inventory(Shelf().type(), None, US).digest == plans.EMPTY_DIGEST


def test_a_failed_inventory_has_no_digest():
    shelf = Shelf(*rows("a"))
    shelf.list_error = RuntimeError("no")
    assert sweeps.inventory(shelf.type(), None, US).digest == ""


def test_of_plan_and_reality_the_intersection_goes():
    shelf = Shelf(*rows("a", "b", "new"))
    result = sweeps.delete(shelf.type(), None, US, planned={"a", "b", "gone already"})
    assert sorted(shelf.deletes) == ["a", "b"]
    assert reasons(result) == {"new": Reason.NOT_PLANNED}
    assert (result.outcome, result.reason) == (Outcome.LEFTOVERS, "not_planned")


def test_an_empty_plan_deletes_nothing():
    shelf = Shelf(*rows("a"))
    sweeps.delete(shelf.type(), None, US, planned=frozenset())
    assert shelf.deletes == []


@pytest.mark.parametrize("planned", [{"a"}, set()])
def test_an_unplanned_resource_that_a_leftover_needs_still_counts_as_unplanned(planned):
    """So the deletion ends with a report. Otherwise it would wait for the leftover without a limit."""
    shelf = Shelf(*rows("a", "b"))
    needed = Verdict(Reason.IN_USE, "a server may need it")
    needs = lambda: lambda _resources: {"b": needed}  # noqa: E731
    result = sweeps.delete(shelf.type(), None, US, planned=planned, needs=needs)
    assert "b" in shelf.rows and {one.id: one.reason for one in result.leftovers}["b"] is Reason.IN_USE
    _, after = record(deletion(), sweep_step("network.port"), result, T0)
    assert after.unplanned == after.remaining == 2 - len(planned)


def test_an_unplanned_resource_is_not_announced_as_going_to_be_deleted():
    told = []
    shelf = Shelf(*rows("a", "new"))
    sweeps.delete(shelf.type(), None, US, record_intent=lambda found: told.extend(r.id for r in found), planned={"a"})
    assert told == ["a"]


def test_one_that_comes_while_the_sweep_runs_is_unplanned_as_well():
    shelf = Shelf(*rows("a"))
    real = shelf.delete

    def delete(connection, project, resource):
        real(connection, project, resource)
        shelf.rows["new"] = rows("new")[0]

    result = sweeps.delete(shelf.type(delete=delete), None, US, planned={"a"})
    assert reasons(result) == {"new": Reason.NOT_PLANNED}
    assert [i for i, _ in result.deleted] == ["a"]


@settings(max_examples=examples(50))
@given(st.sets(IDS, max_size=12), st.sets(IDS, max_size=12), st.booleans(), st.integers(1, 3))
def test_no_id_outside_the_plan_is_ever_deleted(there, planned, drag, attempt):
    shelf = Shelf(*rows(*there))
    type_ = shelf.type(composition=Composition(deleted_with=("whole",) if drag else ()))
    result = sweeps.delete(type_, None, US, planned=planned, attempt=attempt)
    assert set(shelf.deletes) <= planned
    assert {i for i, reason in reasons(result).items() if reason is Reason.NOT_PLANNED} == there - planned


PARTS = ResourceType("part", lambda *_: [], None)


def test_an_inventory_with_a_plan_writes_nothing():
    shelf = Shelf(*rows("a", "new"))
    result = sweeps.inventory(shelf.type(delete=lambda *_: read_only("DELETE", "x")), None, US, planned={"a"})
    assert reasons(result) == {"a": Reason.PRESENT, "new": Reason.NOT_PLANNED}
    assert result.digest == plans.digest(["a"]), "what may go, and no newcomer"


# ------------------------------------------------------------------------------------------------------- the decisions
class Shelves:
    """Answers for steps from sets of ids, as sweeps of a bound deletion would."""

    def __init__(self, world, planned, **there):
        self.world, self.planned = world, planned
        self.there = {name.replace("__", "."): set(ids) for name, ids in there.items()}
        self.stuck = set()
        world.answers = dict.fromkeys(self.there, self.answer)

    def answer(self, step):
        there = self.there[step.id]
        gone = set()
        if self.world.deletion.purpose is RoundPurpose.DELETE:
            gone = {i for i in there if i in self.planned and i not in self.stuck}
            there -= gone
        if not there:
            return dataclasses.replace(CLEAR, found=len(gone), deleted=tuple((i, i) for i in sorted(gone)))
        result = left(*sorted(there))
        items = tuple(dataclasses.replace(item, reason=self.reason(item.id)) for item in result.leftovers)
        worst = min(items, key=lambda item: (item.reason is Reason.PRESENT, item.reason)).reason
        gone = tuple((i, i) for i in sorted(gone))
        return dataclasses.replace(result, leftovers=items, reason=str(worst), deleted=gone)

    def reason(self, id_):
        if id_ not in self.planned:
            return Reason.NOT_PLANNED
        return Reason.IN_USE if self.world.deletion.purpose is RoundPurpose.DELETE else Reason.PRESENT


def bound(planned, **there):
    world = World(deletion(plan_id=PLAN), *(sweep_step(n.replace("__", ".")) for n in there))
    if "network.network" in world.steps:
        world.steps["network.network"] = dataclasses.replace(world.steps["network.network"], after=("network.port",))
    return world, Shelves(world, planned, **there)


def test_a_bound_cascade_of_what_is_planned_goes_to_its_end():
    world, _ = bound({"p", "n"}, network__port={"p"}, network__network={"n"})
    assert world.run() is Status.DELETED


def test_unplanned_end_it_in_leftovers_with_the_project_given_back():
    world, shelves = bound({"p", "n"}, network__port={"p", "new"}, network__network={"n"})
    assert world.run() is Status.LEFTOVERS
    assert (world.deletion.reason, world.deletion.has_changes) == ("unplanned", False)
    assert PLAN in world.deletion.message
    assert shelves.there == {"network.port": {"new"}, "network.network": set()}, "what does not wait for it is gone"
    assert "close" not in world.dispatched and "remove" not in world.dispatched
    # The deletion does not wait until caches expire.
    assert world.now - T0 < world.rules.settle


def test_what_an_unplanned_resource_uses_is_tried_for_a_while_and_reported():
    world, shelves = bound({"n"}, network__port={"new"}, network__network={"n"})
    shelves.stuck = {"n"}
    assert world.run() is Status.LEFTOVERS
    assert (world.deletion.reason, world.deletion.has_changes) == ("unplanned", False)
    assert world.dispatched.count("network.network") == 1 + world.rules.attempts + 1  # look, delete, look


def test_a_service_that_is_down_does_not_lock_the_user_out_beside_unplanned_resources():
    world, _ = bound({"p"}, network__port={"p", "new"})
    world.steps["dns.zone"] = sweep_step("dns.zone")
    world.answers["dns.zone"] = lambda _: UNKNOWN
    assert world.run() is Status.LEFTOVERS
    assert "dns.zone" in world.deletion.message


def test_once_the_unplanned_are_gone_it_goes_on_to_its_end():
    world, shelves = bound({"p"}, network__port={"p", "new"})
    world.run(until=Status.VERIFYING)
    shelves.there["network.port"].clear()
    assert world.run() is Status.DELETED
    # The look that found them gone proved nothing: caches had not run out.
    assert all(opened >= world.deletion.drained_at + world.rules.settle for opened in world.empty_rounds)


def test_a_retry_goes_by_the_same_plan():
    world, shelves = bound({"p"}, network__port={"p", "new"})
    world.run()
    shelves.there["network.port"] = {"another"}
    world.user(Status.ACCEPTED)
    assert world.run() is Status.LEFTOVERS
    assert (world.deletion.plan_id, shelves.there["network.port"]) == (PLAN, {"another"})


@settings(max_examples=examples(20))
@given(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef")))
def test_a_bound_cascade_always_ends_and_says_how(ports, networks, planned):
    world, shelves = bound(planned, network__port=set(ports), network__network=set(networks))
    status = world.run()
    new = (ports | networks) - planned
    assert status is (Status.LEFTOVERS if new else Status.DELETED)
    assert not world.deletion.has_changes
    assert shelves.there == {"network.port": ports - planned, "network.network": networks - planned}


# ------------------------------------------------------------------------------------------------------- the worker
class Record:
    """The part of the store that a worker asks about plans."""

    def __init__(self):
        self.asked = []

    def planned(self, *place, parts=False):
        self.asked.append(place)
        return frozenset({"a", "aside"} if parts else {"a"})


@pytest.mark.parametrize(
    ("plan_id", "project_setting", "expected"),
    [("", False, None), (PLAN, False, frozenset({"a"})), (PLAN, True, None)],
)
def test_a_worker_asks_for_the_plan_of_each_type_in_its_region(plan_id, project_setting, expected):
    from cleanup_orchestrator.worker.steps.context import StepContext

    task = object.__new__(StepContext)
    task.deletion, task.step = deletion(plan_id=plan_id), sweep_step("network.port")
    task.store = Record()
    type_ = dataclasses.replace(PARTS, project_setting=project_setting)
    assert task.planned("network", type_) == expected
    assert task.store.asked == ([(PLAN, "R1", "network", "part")] if expected is not None else [])


def test_the_parts_of_what_a_plan_deletes_are_in_it_although_they_are_not_selected():
    from cleanup_orchestrator.worker.steps.context import StepContext

    task = object.__new__(StepContext)
    task.deletion, task.step, task.store = deletion(plan_id=PLAN), sweep_step("network.network"), Record()
    assert task.planned("network", PARTS, parts=True) == {"a", "aside"}


def test_the_plugin_contract_has_no_plan():
    """The plugins' contract does not know plans: no plugin can ignore one."""
    assert not [f.name for f in dataclasses.fields(ProjectDefinition) if "plan" in f.name]
    assert not [f.name for f in dataclasses.fields(ResourceType) if "plan" in f.name]


def test_shuffled_steps_give_the_same_hash():
    steps = [SERVER, PORT, NETWORK, IMAGE, NOTHING, LAST, QUOTA]
    chance = random.Random(1)
    assert len({plans.hash_of(chance.sample(steps, len(steps))) for _ in range(20)}) == 1


def test_a_finished_sweep_counts_its_unplanned():
    world = World(deletion(status=Status.INVENTORY, purpose=RoundPurpose.INVENTORY), sweep_step("network.port"))
    world.steps["network.port"] = sweep_step("network.port", round=1, state=StepState.RUNNING)
    found = left("a", "b", "c", reason=Reason.NOT_PLANNED)
    world.finish("network.port", dataclasses.replace(found, digest="d"))
    assert (world.step("network.port").unplanned, world.step("network.port").digest) == (3, "d")
    world.steps["network.port"] = dataclasses.replace(world.step("network.port"), state=StepState.RUNNING)
    world.finish("network.port", StepResult(Outcome.CLEAR))
    assert (world.step("network.port").unplanned, world.step("network.port").digest) == (0, "d")


def test_force_abandons_no_unplanned_resource_however_slow_the_round_is():
    """A service that hangs keeps the round open until force may take its turn: the newcomer is reported."""
    world, shelves = bound({"p"}, network__port={"p", "new"})
    shelves.stuck = {"p"}
    world.steps["dns.zone"] = sweep_step("dns.zone")
    world.run(until=Status.DELETING)

    def slow(_):
        world.now += world.rules.force_patience
        return UNKNOWN

    world.answers["dns.zone"] = slow
    world.force()
    assert world.run(limit=5000) is Status.LEFTOVERS
    assert (world.deletion.reason, world.deletion.has_changes) == ("unplanned", False)
    assert "remove" not in world.dispatched
    assert not any(row.abandoned for row in world.left.get("network.port", {}).values())
