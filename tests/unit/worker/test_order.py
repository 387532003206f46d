"""What refers to another resource of its type is deleted before it, in one sweep; cycles are named."""

import dataclasses
import datetime
import random
import threading
import time
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import DeleteRecord, Outcome
from cleanup_orchestrator.plugins.base import ForcedDelete, ProjectDefinition, Resource, ResourceType, Verdict
from cleanup_orchestrator.worker.sweep import deleting
from cleanup_orchestrator.worker.sweep.context import SweepContext
from cleanup_orchestrator.worker.sweep.item import History
from cleanup_orchestrator.worker.sweep.order import References
from tests.support import sweeps
from tests.support.cases import each_case
from tests.unit.world import T0

US = ProjectDefinition("us", "Us", "default", "R1")
NAME = "network.thing"


class Conflict(Exception):
    """The service refuses."""

    status_code = 409


class Strict:
    """A service that refuses to delete what another of its resources refers to."""

    def __init__(self, **refers):
        self.rows = {id_: {"id": id_, "name": f"n-{id_}", "project_id": "us", "to": to} for id_, to in refers.items()}
        self.deletes, self.refusals, self.asynchronous, self.stuck = [], [], False, set()
        self.lock = threading.Lock()

    def list(self, _connection, _project):
        return [dict(row) for row in self.rows.values()]

    def show(self, _connection, _project, resource):
        return self.rows[resource.id]

    def delete(self, _connection, _project, resource):
        time.sleep(0.0005)
        with self.lock:
            self.deletes.append(resource.id)
            if resource.id in self.stuck or any(resource.id in row["to"] for row in self.rows.values()):
                self.refusals.append(resource.id)
                raise Conflict()
            if self.asynchronous:
                self.rows[resource.id]["status"] = "deleting"
            else:
                del self.rows[resource.id]

    def finish(self):
        self.rows = {id_: row for id_, row in self.rows.items() if "status" not in row}

    def type(self, **values):
        return ResourceType("thing", self.list, self.delete, show=self.show, refers_to=names, **values)


def names(resource):
    """Return what a row refers to."""
    return resource.data["to"]


def going(resource, _project):
    return "it is being deleted" if "status" in resource.data else None


def run(strict, parallel=8, **values):
    return sweeps.delete(strict.type(), None, US, name=NAME, parallel=parallel, **values)


CHAIN = {"a": [], "b": ["a"], "c": ["b"], "d": ["c", "a"]}


@each_case(
    "parallel",
    [1, 2, 8],
    "attempt",
    [1, 2, 3],
    "refers",
    [
        CHAIN,
        dict(reversed(CHAIN.items())),
        {**{f"leaf{n}": ["root"] for n in range(40)}, "root": []},
        {"a": ["n-b"], "b": []},
        {"a": ["gone", "b"], "b": ["a-title-of-none"]},
        {"a": ["a", "b"], "b": []},
    ],
)
def test_one_sweep_suffices_and_the_service_refuses_nothing(refers, attempt, parallel):
    strict = Strict(**{id_: [to.removeprefix("n-") for to in named if to != id_] for id_, named in refers.items()})
    shown = strict.type()
    type_ = dataclasses.replace(shown, refers_to=lambda resource: refers[resource.id])
    result = sweeps.delete(type_, None, US, parallel=parallel, attempt=attempt)
    assert result.outcome is Outcome.CLEAR and not strict.refusals and not strict.rows


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1_000_000), st.integers(1, 60), st.integers(1, 9), st.integers(1, 3))
def test_any_graph_without_a_cycle_takes_one_sweep(seed, count, parallel, attempt):
    chance = random.Random(seed)
    ids = [f"r{n}" for n in range(count)]
    refers = {id_: chance.sample(ids[n + 1 :], min(3, count - n - 1)) for n, id_ in enumerate(ids)}
    listed = list(refers.items())
    chance.shuffle(listed)
    strict = Strict(**dict(listed))
    assert run(strict, parallel, attempt=attempt).outcome is Outcome.CLEAR
    assert not strict.refusals and sorted(strict.deletes) == sorted(ids)


@pytest.mark.parametrize("parallel", [1, 8])
@pytest.mark.parametrize("refers", [{"a": ["b"], "b": ["a"]}, {"a": ["n-b"], "b": ["c"], "c": ["n-a"]}])
@pytest.mark.parametrize("others", ["are shown it", "use it"])
def test_what_stays_keeps_what_it_refers_to_in_a_cycle(refers, others, parallel):
    """Others go on using it, and what it needs with it, whatever a service says of the order."""
    strict, deletes = Strict(**refers, other=["other"]), []
    stays = Verdict(Reason.FOREIGN, "theirs", ({"type": "x.y", "id": "z", "owner": "them"},))
    how = {
        "are shown it": {"protect": (lambda resource, _project: "public" if resource.id == "a" else None,)},
        "use it": {"used_by": sweeps.use(lambda _c, _p, resource: stays if resource.id == "a" else None)},
    }
    type_ = dataclasses.replace(strict.type(**how[others]), delete=lambda _c, _p, one: deletes.append(one.id))
    result = sweeps.delete(type_, None, US, name=NAME, parallel=parallel)
    assert deletes == ["other"]
    assert {one.id for one in result.leftovers if "refers to it, and stays" in one.message} == refers.keys() - {"a"}


def test_what_the_service_refuses_does_not_keep_the_rest_from_being_tried():
    strict = Strict(**CHAIN)
    strict.stuck = {"d"}
    result = run(strict)
    assert sorted(strict.deletes) == ["a", "b", "c", "d"], "the service decides"
    assert {one.reason for one in result.leftovers} == {Reason.IN_USE}


@pytest.mark.parametrize("parallel", [1, 8])
def test_what_refers_and_is_being_deleted_is_waited_for(parallel):
    strict = Strict(**CHAIN)
    strict.asynchronous = True
    type_ = strict.type(deleting=going)
    for gone in ("d", "c", "b", "a"):
        result = sweeps.delete(type_, None, US, name=NAME, parallel=parallel)
        assert result.reason == Reason.DELETING
        poll = sweeps.delete(type_, None, US, name=NAME, parallel=parallel)
        assert poll.reason == Reason.DELETING
        last = {one.id: one for one in poll.leftovers}
        assert strict.deletes.pop() == gone and not strict.deletes, "one delete for each, and none meanwhile"
        if gone != "a":
            assert last["a"].blocked_by[0]["type"] == NAME and "follows that of" in last["a"].message
        strict.finish()
    assert not strict.refusals and not strict.rows


def test_force_does_not_wait_for_what_is_being_deleted():
    strict = Strict(a=[], b=["a"])
    strict.rows["b"]["status"] = "deleting"
    forced = []
    type_ = strict.type(deleting=going, force=ForcedDelete(lambda _c, _p, resource: forced.append(resource.id)))
    sweeps.delete(type_, None, US, stuck={"a"})
    assert forced == ["a"]


@pytest.mark.parametrize("attempt", [1, 2, 5])
def test_a_part_of_a_long_list_leaves_out_what_the_rest_refers_to(attempt, monkeypatch):
    monkeypatch.setattr(deleting, "MAX_DELETED", 20)
    strict = Strict(**{f"r{n}": [f"r{n + 1}"] if n % 4 < 3 else [] for n in range(100)})
    sweep = 0
    while strict.rows:
        result = run(strict, attempt=attempt + sweep)
        assert result.deleted, "each sweep makes progress"
        sweep += 1
    assert not strict.refusals and sweep <= 20


def test_a_part_of_which_nothing_would_remain_is_tried(monkeypatch):
    monkeypatch.setattr(deleting, "MAX_DELETED", 2)
    strict = Strict(a=[], b=["a"], c=["b"])
    run(strict)
    assert sorted(strict.deletes) == ["a", "b"]


def test_a_truncated_list_is_ordered_as_far_as_it_is_read():
    strict = Strict(**CHAIN)
    run(strict, most_listed=3)
    assert strict.deletes == ["c", "b", "a"], "what refers to them was not read"
    strict = Strict(**dict(reversed(CHAIN.items())))
    run(strict, most_listed=3)
    assert strict.deletes == ["d", "c", "b"] and strict.rows.keys() == {"a"} and not strict.refusals


def test_references_by_a_name_that_many_have_are_kept_in_proportion():
    """An edge for each pair took seconds for 2,000 resources of two names."""
    many = {f"{name}{n}": types.SimpleNamespace(name=name) for name in ("above", "below") for n in range(1000)}
    found = References(SweepContext(ResourceType("thing", None, None, refers_to=names), None, US))
    for id_, one in many.items():
        row = {"to": ["above"] if one.name == "below" else []}
        found.add(Resource(id_, one.name, "us", row))
    edges, ids = found._among(many)
    assert sum(map(len, edges.values())) == sum(map(len, ids.values())) == 1000
    order = found.order(many)
    assert order.referrers["above0"] is order.referrers["above999"] and len(order.referrers["above0"]) == 1000


def test_force_does_not_wait_for_what_this_sweep_is_deleting():
    """An ordinary delete of it was left once: its referrer may be deleted for ever."""
    strict, forced = Strict(a=["b"], b=[], c=["d"], d=[]), []
    strict.asynchronous = True
    force = lambda _connection, _project, resource: forced.append(resource.id)  # noqa: E731
    type_ = strict.type(deleting=going, force=ForcedDelete(force))
    result = sweeps.delete(type_, None, US, name=NAME, parallel=1, stuck={"b"})
    assert (strict.deletes, forced) == (["a", "c"], ["b"])
    assert [one.id for one in result.leftovers if one.blocked_by] == ["d"]


@pytest.mark.parametrize(("failed", "tried"), [(1, ["a"]), (2, ["a", "b"])])
def test_what_refers_and_fails_each_time_is_not_waited_for(failed, tried):
    """It is no longer being deleted, so that the service decides about what it refers to."""
    strict = Strict(a=["b"], b=[])
    strict.asynchronous = True
    known = History({"a": DeleteRecord("a", failed, failed, "the array is full")})
    sweeps.delete(strict.type(deleting=going), None, US, name=NAME, parallel=1, history=known)
    assert strict.deletes == tried


@pytest.mark.parametrize("shown", [{"id": "other", "project_id": "us"}, {"id": "b", "project_id": None}])
@pytest.mark.parametrize("parallel", [1, 8])
def test_what_refers_and_is_not_shown_as_itself_keeps_what_it_refers_to(shown, parallel):
    """It may be another project's by now, which still needs what it refers to."""
    strict = Strict(a=[], b=["a"], c=[])
    show = lambda _connection, _project, one: shown if one.id == "b" else strict.rows[one.id]  # noqa: E731
    type_ = dataclasses.replace(strict.type(), show=show)
    result = sweeps.delete(type_, None, US, name=NAME, parallel=parallel)
    assert strict.deletes == ["c"]
    assert {one.id: one.reason for one in result.leftovers} == {"a": Reason.IN_USE, "b": Reason.BAD_ANSWER}


def test_a_member_of_a_cycle_whose_delete_no_longer_moves_is_blocked_by_no_other():
    strict = Strict(a=["b"], b=["a"])
    strict.rows["a"]["status"] = "deleting"
    old = DeleteRecord("a", 1, seen_at=T0, accepted_at=T0)
    late = History({"a": old}, now=T0 + datetime.timedelta(hours=9))
    result = sweeps.delete(strict.type(deleting=going), None, US, name=NAME, history=late)
    found = {one.id: (one.reason, [b["id"] for b in one.blocked_by]) for one in result.leftovers}
    assert found == {"a": (Reason.STUCK, []), "b": (Reason.IN_USE, ["a"])}
