"""The step that sweeps a type: when it deletes, what the leftovers of other types keep, and what it reports."""

import dataclasses
import types

import pytest

from cleanup_orchestrator.core import storable
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import DeleteRecord, Leftover, Outcome, StepResult, StepState
from cleanup_orchestrator.plugins.base import ForcedDelete, ResourceType
from cleanup_orchestrator.worker.steps import RUNNERS
from cleanup_orchestrator.worker.steps import sweep as sweep_step_module
from cleanup_orchestrator.worker.steps.sweep import Sweep
from tests.unit.worker.test_guard import task
from tests.unit.world import UNKNOWN, deletion, left, sweep_step


def done(made):
    return RUNNERS[made.step.kind](made.step_context).run()


class Ports:
    """A registry with one type, whose deletes are written down."""

    def __init__(self):
        self.deleted, self.rows = [], [{"id": "1", "name": "one", "project_id": "p"}]
        self.services = {"network": None}

    def find(self, _service, _type):
        listing = lambda *_: list(self.rows)  # noqa: E731
        return ResourceType(
            "port", listing, self.delete, why_no_show="the test", force=ForcedDelete(self.force), source="the test"
        )

    def delete(self, _connection, _project, resource):
        self.deleted.append(resource.id)

    def force(self, _connection, _project, resource):
        self.deleted.append(f"{resource.id} by force")

    def options(self, *_):
        return {}

    def related_types(self, *_):
        return ()


@pytest.mark.parametrize(
    ("values", "deleted"),
    [
        ({"purpose": RoundPurpose.DELETE}, ["1"]),
        ({"purpose": RoundPurpose.DELETE, "dry_run": True}, []),
        ({"purpose": RoundPurpose.INVENTORY}, []),
        ({"purpose": RoundPurpose.NONE}, []),
    ],
)
def test_a_sweep_deletes_in_a_round_of_deletes_and_never_in_a_dry_run(values, deleted):
    ports = Ports()
    made = task(deletion(status=Status.DELETING, **values), registry=ports)
    made.worker.store.append_events = lambda *_: True
    done(made)
    assert ports.deleted == deleted
    assert [each == made.step_context.guard for each in made.worker.clouds.guards] == [bool(deleted)]


@pytest.mark.parametrize(
    ("reason", "forced"),
    [
        (Reason.IN_USE, True),
        (Reason.ERROR, True),
        (Reason.PROTECTED, False),
        (Reason.FOREIGN, False),
        (Reason.OWNER_UNKNOWN, False),
        (Reason.NOT_PLANNED, False),
        (Reason.ON_HOLD, False),
        (Reason.PRESENT, False),
        (Reason.QUEUED, False),
        (Reason.RATE_LIMITED, False),
    ],
)
def test_force_is_used_on_what_an_ordinary_delete_left_and_no_other_project_uses(monkeypatch, reason, forced):
    assert swept_by_force(monkeypatch, "1", reason) == (["1 by force"] if forced else ["1"])


@pytest.mark.parametrize("id_", ["1\0", "1" * 600])
def test_force_is_used_on_what_is_stored_under_another_id(monkeypatch, id_):
    assert swept_by_force(monkeypatch, id_, Reason.ERROR) == [f"{id_} by force"]


def swept_by_force(monkeypatch, id_, reason):
    """Return the deletes of a sweep under force of a port that an attempt before has left."""
    monkeypatch.setattr(sweep_step_module.forcing, "works", lambda _: True)
    ports = Ports()
    ports.rows = [{"id": id_, "name": "one", "project_id": "p"}]
    step = dataclasses.replace(sweep_step("network.port"), state=StepState.RUNNING, round=1, forcing=True)
    made = task(step=step, registry=ports)
    made.worker.store.append_events = lambda *_: True
    made.worker.store.left = [Leftover(storable.resource_id(id_), "one", reason)]
    done(made)
    return ports.deleted


@pytest.mark.parametrize("id_", ["1\0", "1" * 600])
@pytest.mark.parametrize(("announced", "lines"), [(True, 0), (False, 1)])
def test_the_intent_of_what_is_stored_under_another_id_is_written_once(id_, announced, lines):
    ports, written = Ports(), []
    ports.rows = [{"id": id_, "name": "one", "project_id": "p"}]
    step = dataclasses.replace(sweep_step("network.port"), state=StepState.RUNNING, round=1, outcome=Outcome.LEFTOVERS)
    made = task(step=step, registry=ports)
    made.worker.store.append_events = lambda _step, *events: written.extend(events) or True
    left = [Leftover(storable.resource_id(id_), "one", Reason.ERROR, announced=announced)]
    made.worker.store.leftovers = lambda *_, **filters: [
        types.SimpleNamespace(leftover=one) for one in left if one.announced == filters.get("announced")
    ]
    done(made)
    assert (ports.deleted, len(written)) == ([id_], lines)


@pytest.mark.parametrize("purpose", [RoundPurpose.DELETE, RoundPurpose.INVENTORY])
@pytest.mark.parametrize(
    ("outcome", "accepted", "announced", "left"),
    [
        (Outcome.UNKNOWN, 1, False, True),
        (Outcome.LEFTOVERS, 0, True, True),
        (Outcome.LEFTOVERS, 1, False, True),
        (Outcome.UNKNOWN, 0, False, False),  # another client asked for its delete
        (Outcome.LEFTOVERS, 0, False, False),
    ],
)
def test_what_lost_its_owner_is_known_from_the_attempt_before(purpose, outcome, accepted, announced, left):
    ports = Ports()
    ports.rows = [{"id": "1", "name": "one", "project_id": None}]
    find = ports.find
    ports.find = lambda *names: dataclasses.replace(find(*names), unfiltered="a test")
    step = dataclasses.replace(sweep_step("network.port"), state=StepState.RUNNING, round=1, outcome=outcome)
    made = task(deletion(status=Status.VERIFYING, purpose=purpose), step, registry=ports)
    made.worker.store.append_events = lambda *_: True
    made.worker.store.deletes = lambda _: {"1": DeleteRecord("1", accepted)}
    made.worker.store.leftovers = lambda *_, **filters: (
        [types.SimpleNamespace(leftover=Leftover("1", "one", Reason.ERROR, announced=True))]
        * (announced and filters.get("announced", False))
    )
    assert [one.reason for one in done(made).leftovers] == [Reason.OWNER_UNKNOWN] * left
    assert ports.deleted == []


def needy(left, rule, mode=Mode.CASCADE, **values):
    """Return a sweep of two ports, of which some may be needed by servers, with what the servers' step has left."""
    ports = Ports()
    ports.rows = [{"id": id_, "name": id_, "project_id": "p"} for id_ in ("1", "2")]
    ports.needed_by = lambda *_: {"compute.server": rule}
    step = sweep_step("network.port", after=("compute.server",), needed_by=("compute.server",))
    record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE, mode=mode)
    made = task(record, dataclasses.replace(step, state=StepState.RUNNING, round=1), registry=ports)
    other = {"round": 1, "state": StepState.DONE, "outcome": Outcome.LEFTOVERS, "remaining": len(left), **values}
    made.worker.store.steps = lambda _: (made.step, sweep_step("compute.server", **other))
    made.worker.store.append_events = lambda *_: True
    made.worker.store.left = left
    return ports, made


@pytest.mark.parametrize("mode", [Mode.CASCADE, Mode.PURGE])
def test_a_rule_of_what_a_type_serves_is_asked_only_if_the_project_is_kept(mode):
    ports, made = needy(SERVERS, needs_the_first, mode)
    asked = []
    ports.needed_by = lambda _service, _type, kept: asked.append(kept) or {"compute.server": needs_the_first}
    done(made)
    assert set(asked) == {mode is Mode.PURGE}


def needs_the_first(_connection, _project, left):
    return lambda resource: sorted(left)[0] if resource.id == "1" else None


SERVERS = [Leftover("s1", "one", Reason.PROTECTED), Leftover("s2", "two", Reason.ERROR)]


@pytest.mark.parametrize(
    ("left", "values", "deleted", "why"),
    [
        (SERVERS, {}, ["2"], "the first one is needed"),
        (SERVERS, {"state": StepState.RUNNING}, ["2"], "its latest result still says what may be left"),
        ([], {"outcome": Outcome.CLEAR}, ["1", "2"], "nothing is left that could need one"),
        ([], {"outcome": Outcome.CLEAR, "round": 0}, [], "it was not listed in this round"),
        ([], {"outcome": Outcome.UNKNOWN}, [], "its list failed"),
        (SERVERS, {"remaining": 3}, [], "a new result is being stored"),
        (SERVERS, {"remaining": 1000}, [], "too many to ask about"),
        ([Leftover(storable.resource_id("s\0"), "", Reason.ERROR)], {}, [], "its service knows it by another id"),
        ([Leftover(f"s{n}", "", Reason.ERROR) for n in range(10)], {}, [], "its list was truncated: most_listed is 10"),
    ],
)
def test_what_the_leftovers_of_another_type_need_is_not_deleted(left, values, deleted, why):
    ports, made = needy(left, needs_the_first, **values)
    result = done(made)
    assert ports.deleted == deleted, why
    kept = {one.id: one for one in result.leftovers if one.reason is Reason.IN_USE}
    assert set(kept) == {"1", "2"} - set(deleted)
    if deleted == ["2"]:
        assert kept["1"].blocked_by == ({"type": "compute.server", "id": "s1", "owner": "p"},)


@pytest.mark.parametrize(("forced", "deleted"), [(True, ["1", "2"]), (False, ["2"])])
def test_what_abandoned_leftovers_need_is_deleted_while_force_works(monkeypatch, forced, deleted):
    monkeypatch.setattr(sweep_step_module.forcing, "works", lambda _: forced)
    ports, made = needy([dataclasses.replace(one, abandoned=True) for one in SERVERS], needs_the_first)
    done(made)
    assert ports.deleted == deleted


def test_a_rule_that_fails_makes_the_sweep_unknown_and_deletes_nothing():
    def fails(*_):
        raise TimeoutError("no answer")

    ports, made = needy(SERVERS, fails)
    assert done(made).outcome is Outcome.UNKNOWN
    assert ports.deleted == []


REFUSED = Leftover("a", "a", Reason.IN_USE, "a server uses it", ({"type": "compute.server", "id": "s"},))
ASIDE = Leftover("b", "b", Reason.NOT_SELECTED, "it does not have the tag 'x'")


def listed_by(mode, status, *before):
    """Return the method of a sweep whose last attempt left these."""
    sweep = Sweep.__new__(Sweep)
    sweep.deletion = deletion(mode=mode, status=status)
    sweep.worker = types.SimpleNamespace(conf=types.SimpleNamespace(worker=types.SimpleNamespace(most_listed=10)))
    sweep._left = lambda _most: list(before)
    return sweep._still_refused


def test_the_last_inventory_keeps_the_reason_of_the_last_delete():
    result = listed_by(Mode.PURGE, Status.VERIFYING, REFUSED, ASIDE)(left("a", "b", "c"))
    assert result.leftovers == (REFUSED, *left("b", "c").leftovers)
    assert (result.outcome, result.reason, result.message) == (Outcome.LEFTOVERS, "in_use", "a server uses it")


@pytest.mark.parametrize("id_", ["a\0", "a" * 600])
def test_the_reason_of_the_last_delete_is_found_by_the_stored_id(id_):
    before = dataclasses.replace(REFUSED, id=storable.resource_id(id_))
    assert listed_by(Mode.PURGE, Status.VERIFYING, before)(left(id_)).leftovers == (before,)


def test_what_the_inventory_itself_says_of_a_resource_counts():
    now = left("a", reason=Reason.PROTECTED)
    assert listed_by(Mode.PURGE, Status.VERIFYING, REFUSED)(now).leftovers == now.leftovers


@pytest.mark.parametrize("before", [[], [REFUSED]])
@pytest.mark.parametrize(
    "result", [UNKNOWN, StepResult(Outcome.CLEAR), dataclasses.replace(left("a"), more=True, message="at least 1")]
)
def test_a_list_that_failed_or_is_empty_or_incomplete_is_not_changed(result, before):
    assert listed_by(Mode.PURGE, Status.VERIFYING, *before)(result) == result


@pytest.mark.parametrize(
    ("mode", "status"),
    [(Mode.CASCADE, Status.VERIFYING), (Mode.REPORT, Status.VERIFYING), (Mode.PURGE, Status.INVENTORY)],
)
def test_other_inventories_say_only_what_they_see(mode, status):
    assert listed_by(mode, status, REFUSED)(left("a")) == left("a")


@pytest.mark.parametrize(("round_", "deleted"), [(1, ["1", "2"]), (0, [])])
def test_leftovers_of_an_earlier_round_do_not_say_what_is_needed(round_, deleted):
    """Others may be left by now, so that each resource counts as needed."""
    ports, made = needy([Leftover("s", "", Reason.IN_USE)], lambda *_: lambda _resource: None, round=round_)
    done(made)
    assert ports.deleted == deleted
