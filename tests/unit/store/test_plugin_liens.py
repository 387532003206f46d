"""Liens of plugins: when one is recorded, and what ends it."""

import dataclasses

import pytest

from cleanup_orchestrator.core import plugin_liens
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.step import Step, StepKind
from cleanup_orchestrator.core.transitions import By
from cleanup_orchestrator.store.plugin_liens import end_lien, raise_lien
from tests.support.stores import save
from tests.unit.store.test_guard import claimed, create, moved, protect
from tests.unit.world import CLEAR

PORTS = Step("", "", StepKind.SWEEP, "R1", "network", "port")


def listed(store, in_use, **values):
    """Return a deletion and the lien, if any, that the look at its ports has raised."""
    record = create(store, **{"status": Status.INVENTORY, "purpose": RoundPurpose.INVENTORY, **values})
    survey = claimed(store, record, StepKind.SURVEY)
    assert store.put_steps(survey, [PORTS])
    step = claimed(store, record, StepKind.SWEEP)
    assert store.finish(step, dataclasses.replace(CLEAR, in_use=in_use))
    return record, step


def in_force(store):
    return [lien.origin for lien in store.liens_in_force(["p"])]


def test_an_inventory_records_a_plugin_lien_and_a_later_one_ends_it(store):
    record, _ = listed(store, "1: others use it")
    assert in_force(store) == ["plugin:network.port"]
    assert store.finish(claimed(store, record, StepKind.SWEEP), dataclasses.replace(CLEAR, in_use=None))
    assert in_force(store) == ["plugin:network.port"], "it was not asked"
    assert store.finish(claimed(store, record, StepKind.SWEEP), dataclasses.replace(CLEAR, in_use=""))
    assert in_force(store) == []


@pytest.mark.parametrize("values", [{"dry_run": True}, {"mode": Mode.REPORT}])
def test_a_dry_run_or_a_report_records_no_plugin_lien(store, values):
    listed(store, "1: others use it", **values)
    assert in_force(store) == []


def test_a_lien_of_a_plugin_ends_with_its_deletion_and_not_before(store):
    record, _ = listed(store, "1: others use it")
    protect(store)
    moved(store, record, Status.CANCELLING)
    assert len(in_force(store)) == 2
    moved(store, record, Status.CANCELLED, By.ENGINE)
    assert in_force(store) == ["ops"]


@pytest.mark.parametrize("before", [Status.FAILED, Status.LEFTOVERS])
def test_what_was_not_under_way_ends_no_lien(store, before):
    """A save of a deletion that rests is none that ends it: the lien of a retry beside it would go."""
    record, step = listed(store, "1: others use it")
    after = moved(store, record, Status.FAILED, By.ENGINE)
    assert in_force(store) == []
    now = store.now()
    with store.database.begin() as c:
        assert raise_lien(c, plugin_liens.lien(record, step, "again", now), now)
    resting = store.get(after.id)
    assert resting.has_holds
    save(store, resting, dataclasses.replace(resting, status=before, message="a note"))
    assert in_force(store) == ["plugin:network.port"]


def test_a_plugin_lien_that_an_admin_removed_is_not_recorded_again(store):
    record, step = listed(store, "1: others use it")
    store.remove_lien(plugin_liens.lien_id(record.id, step), "admin")
    assert store.finish(claimed(store, record, StepKind.SWEEP), dataclasses.replace(CLEAR, in_use="1: again"))
    assert in_force(store) == []


def test_the_end_of_one_lien_ends_no_other(store):
    record, step = listed(store, "1: others use it")
    protect(store)
    now = store.now()
    with store.database.begin() as c:
        assert end_lien(c, plugin_liens.lien_id(record.id, step), now) is not None
    assert in_force(store) == ["ops"]


def test_the_user_that_removed_a_lien_first_stays_on_record(store):
    lien = protect(store)
    store.remove_lien(lien.id, "first")
    assert store.remove_lien(lien.id, "second").deleted_by == "first"
