"""What a row says is read as it was written."""

import dataclasses

from cleanup_orchestrator.core.condition_types import Condition
from cleanup_orchestrator.core.deletion import Force, Tally, UseDecision
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from tests.support import sqlite_stores
from tests.support.stores import save
from tests.unit import world


def test_a_condition_that_a_later_release_recorded_is_read():
    """During a rolling upgrade a process of this release loads what one of the next release has saved."""
    store = sqlite_stores.in_memory()
    unknown = Condition("a later one", True, "reason", "message", world.T0)
    made = store.create(world.deletion(conditions=(unknown,)), TASKS, Event("deletion.accepted", ""))
    assert store.load(made.id)[0].conditions == (unknown,)
    assert store.get(made.id).attention == ()


def test_the_decision_about_a_use_is_read_as_it_was_made():
    """It is about the uses that were on record then: without them it would overrule nothing, or all."""
    store = sqlite_stores.in_memory()
    made = store.create(world.deletion(), TASKS, Event("deletion.accepted", ""))
    use = UseDecision("network.port:1", (("compute.server", "s"), ("dns.zone", "z")), "alice (agreed)")
    forced = Force("lost", ("a.b",), world.T0, 1, 2, "u", "alice", "req-1", (use,), abandons=False)
    save(store, made, dataclasses.replace(made, forced=forced))
    assert store.get(made.id).forced == forced


def test_the_tally_of_a_decision_is_on_record_until_the_next_one():
    store = sqlite_stores.in_memory()
    made = store.create(world.deletion(), TASKS, Event("deletion.accepted", ""))
    assert store.get(made.id).tally == Tally()
    counted = Tally(steps=3, steps_done=2, found=5, remaining=4)
    saved = save(store, made, dataclasses.replace(made, tally=counted))
    assert store.get(made.id).tally == saved.tally == counted
