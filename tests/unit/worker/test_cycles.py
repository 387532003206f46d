"""Cycles of resources that refer to each other: which are found, and what is said of them."""

import dataclasses
import types

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, StepResult
from cleanup_orchestrator.plugins.base import ProjectDefinition
from cleanup_orchestrator.worker.steps.sweep import Sweep
from cleanup_orchestrator.worker.sweep import order
from tests.support import sweeps
from tests.unit.worker.test_order import Strict, run
from tests.unit.world import deletion, sweep_step


def test_a_long_way_through_many_types_is_not_read_to_its_end():
    read = []

    def blocked(number):
        by = ({"type": f"a.t{number + 1}", "id": "x", "owner": "p"},)
        return Leftover("x", "", Reason.IN_USE, blocked_by=by)

    def leftovers_of(type_):
        read.append(type_)
        assert len(read) < 100, "it reads without an end"
        return [blocked(int(type_.removeprefix("a.t")))]

    result = StepResult(Outcome.LEFTOVERS, leftovers=(blocked(0),))
    assert order.with_cycles(result, "a.t0", "p", leftovers_of) == result
    assert len(read) == order.MAX_TYPES - 1


US = ProjectDefinition("us", "Us", "default", "R1")
NAME = "network.thing"


def test_all_members_of_a_cycle_are_tried_and_what_stays_names_it():
    strict = Strict(web=["db"], db=["web"], free=["web"], below=[], above=["below", "db"])
    result = run(strict)
    assert sorted(set(strict.deletes)) == ["above", "below", "db", "free", "web"]
    assert sorted(strict.refusals) == ["db", "web"], "what is outside of the cycle is deleted in order"
    told = order.with_cycles(result, NAME, "us", lambda name: [])
    by_id = {one.id: one for one in told.leftovers}
    said = "it is part of a cycle: n-web -> n-db -> n-web; remove one of these references"
    assert by_id["web"].message.endswith(said)
    assert by_id["web"].blocked_by == ({"type": NAME, "id": "db", "owner": "us", "name": "n-db"},)
    assert "it is part of a cycle: n-db -> n-web -> n-db" in by_id["db"].message
    assert "it is part of a cycle" in told.message, "the blocker of the deletion says so"


def test_a_cycle_that_the_service_deletes_is_not_reported():
    strict = Strict(web=["db"], db=["web"])
    type_ = dataclasses.replace(strict.type(), delete=lambda _c, _p, resource: strict.rows.pop(resource.id))
    assert sweeps.delete(type_, None, US).outcome is Outcome.CLEAR


def left(id_, *blockers, owner="us", name=None):
    named = tuple({"type": type_, "id": other, "owner": owner} for type_, other in blockers)
    return Leftover(id_, f"n-{id_}" if name is None else name, Reason.IN_USE, "in use", named)


@pytest.mark.parametrize(
    ("others", "cycle"),
    [
        ({}, ""),
        ({"b.b": [left("2")]}, ""),
        ({"b.b": [left("2", ("a.a", "1"))]}, "a.a n-1 -> b.b n-2 -> a.a n-1"),
        ({"b.b": [left("2", ("a.a", "1"), name="")]}, "a.a n-1 -> b.b 2 -> a.a n-1"),
        ({"b.b": [left("2", ("c.c", "3"))], "c.c": [left("3", ("a.a", "1"))]},
         "a.a n-1 -> b.b n-2 -> c.c n-3 -> a.a n-1"),
        ({"b.b": [left("2", ("c.c", "3"))], "c.c": [left("3", ("b.b", "2"))]}, ""),
        ({"b.b": [left("2", ("a.a", "1"), owner="them")]}, ""),
        ({"b.b": [left("other", ("a.a", "1"))]}, ""),
    ],
    ids=["not on record", "a chain", "two types", "no name", "three types", "one further on", "of others", "another"],
)  # fmt: skip
def test_a_cycle_across_types_is_named(others, cycle):
    blocked = left("1", ("b.b", "2"))
    result = StepResult(Outcome.LEFTOVERS, str(Reason.IN_USE), "in use", leftovers=(blocked,))
    told = order.with_cycles(result, "a.a", "us", lambda name: others.get(name, []))
    wanted = f"in use; it is part of a cycle: {cycle}; remove one of these references" if cycle else "in use"
    assert told.leftovers[0].message == told.message == wanted
    assert dataclasses.replace(told.leftovers[0], message="in use") == blocked


def test_a_long_cycle_names_some_of_its_members():
    count = 30
    rows = tuple(left(str(n), ("a.a", str((n + 1) % count))) for n in range(count))
    result = StepResult(Outcome.LEFTOVERS, str(Reason.IN_USE), "in use", leftovers=rows)
    told = order.with_cycles(result, "a.a", "us", lambda name: [])
    assert "n-9 -> and 20 more -> n-0; remove" in told.leftovers[0].message
    assert all("it is part of a cycle" in one.message for one in told.leftovers)


def test_what_is_left_of_a_second_service_of_a_type_is_found():
    """Its type has a dot itself."""
    asked = []
    store = types.SimpleNamespace(leftovers=lambda *_, service, type, **_other: asked.append((service, type)) or [])
    context = types.SimpleNamespace(store=store, worker=None, deletion=deletion(), step=sweep_step("network.port"))
    Sweep(context)._left_of("vendor.two.widget")
    assert asked == [("vendor.two", "widget")]
