"""The brake voids decisions that were made without it."""

import dataclasses

import pytest

from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.store import Conflict
from tests.support.stores import save
from tests.unit.store.test_guard import draining


def test_the_brake_voids_a_decision_that_was_made_without_it(store):
    record, _ = draining(store)
    before = store.get(record.id)
    store.set_brake(Brake(True, "x"))
    with pytest.raises(Conflict):
        save(store, before, dataclasses.replace(before, message="x"))
