"""The table of conditions: one entry for each type, and what it says of a deletion."""

import dataclasses

import pytest

from cleanup_orchestrator.core import actions, conditions, messages
from cleanup_orchestrator.core.condition_types import CONDITIONS, Condition, ConditionType
from cleanup_orchestrator.core.deletion import Mode, Origin, Status
from tests.support.cases import each_case
from tests.unit.world import T0, deletion


def test_every_type_has_its_entry_and_what_observes_it():
    assert set(CONDITIONS) == set(ConditionType)
    assert {*conditions._OBSERVERS, ConditionType.PLAN_COMPLETE} == set(ConditionType)


@each_case("type_", ConditionType)
def test_a_trouble_that_never_was_is_not_recorded(type_):
    """A lock that is not complete is recorded at once, and so is one that is."""
    after = actions.apply(deletion(), (), (conditions.fine(type_),), T0).deletion
    assert bool(after.conditions) is CONDITIONS[type_].fine


@pytest.mark.parametrize(
    ("types", "reason", "expected"),
    [
        (("blocked", "on_hold", "approval", "stalled"), "lien", "stalled approval lien blocked"),
        (("blocked", "on_hold", "approval"), "lien", "approval lien blocked"),
        (("blocked", "on_hold"), "lien", "lien blocked"),
        (("blocked", "on_hold"), "brake", "brake blocked"),
        (("blocked", "on_hold"), "window", "blocked"),  # it ends by itself
        (("on_hold",), "window", ""),
        (("waiting", "forced", "waived", "drained"), "x", ""),
        (("of a later release",), "lien", ""),
    ],
)
def test_what_asks_for_a_person(types, reason, expected):
    found = tuple(Condition(type_, True, reason, "why", T0) for type_ in types)
    d = deletion(status=Status.DELETING, conditions=found)
    assert d.attention == tuple(expected.split())
    assert messages.needed_action(d.attention, d.profile).count("; ") == max(len(d.attention) - 1, 0)
    assert bool(messages.needed_action(d.attention, d.profile)) is bool(expected)
    assert dataclasses.replace(d, superseded=True).attention == ()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"status": Status.LEFTOVERS, "mode": Mode.CASCADE}, "remove the leftovers, then retry"),
        ({"status": Status.LEFTOVERS, "mode": Mode.PURGE}, "remove the leftovers, then retry"),
        (
            {"status": Status.LEFTOVERS, "mode": Mode.REPORT},
            "request a cascade, which deletes the leftovers that nothing blocks; or ",
        ),
        ({"status": Status.LEFTOVERS, "mode": Mode.REPORT, "origin": Origin.NOTICED}, "run an orphan scan"),
        ({"status": Status.FAILED, "mode": Mode.REPORT}, "remove the cause, then retry"),
        ({"status": Status.DELETED}, ""),
    ],
)
def test_what_a_person_does_about_a_deletion_that_has_ended(values, expected):
    d = deletion(**values)
    assert expected in messages.needed_action(d.attention, d.profile)
    assert bool(messages.needed_action(d.attention, d.profile)) is bool(expected)
