"""What is stored is what every database takes."""

import pytest

from cleanup_orchestrator.core.deletion import Condition
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.store import records
from tests.support import sqlite_stores
from tests.unit import world


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("a port", "a port"),
        ("a\0b", "a\ufffdb"),
        ("a\ud800b", "a?b"),
        ("x" * 60_000, "x" * 60_000),
        ("x" * 60_001, "x" * 60_000 + " ..."),
        ("x" + "é" * 30_000, "x" + "é" * 29_999 + " ..."),
        (404, "404"),
    ],
    ids=["plain", "a null", "half a character", "just so much", "too much", "no half of a letter", "no text"],
)
def test_text(given, stored):
    assert records.text(given) == stored
    assert len(records.text(given).encode()) < 65_535


def test_a_condition_that_a_later_release_recorded_is_read():
    """During a rolling upgrade a process of this release loads what one of the next release has saved."""
    store = sqlite_stores.in_memory()
    unknown = Condition("a later one", True, "reason", "message", world.T0)
    made = store.create(world.deletion(conditions=(unknown,)), TASKS, Event("deletion.accepted", ""))
    assert store.load(made.id)[0].conditions == (unknown,)
    assert store.get(made.id).attention == ""
