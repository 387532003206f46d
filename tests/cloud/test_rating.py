"""CloudKitty: scopes stay; prices for one project stay, too, or are deleted with it if the operator wants that."""

from __future__ import annotations

import dataclasses

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.rating import SERVICE
from tests.cloud import rows
from tests.cloud.filler import fill
from tests.cloud.fillings.rating import HASHMAP, cloudkitty
from tests.support import sweeps

CLOUD = ("cloudkitty",)
SCOPE, MAPPING, THRESHOLD = SERVICE.types
SCOPES = {"cloudkitty.cloudkitty_storage_states": 1, "cloudkitty.storage_scope_reprocessing_schedule": 1}
PRICES = {"cloudkitty.hashmap_mappings": 3, "cloudkitty.hashmap_thresholds": 3}
#: What the type finds in a filled project.
FOUND = {"scope": 1, "mapping": 3, "threshold": 3}


def alive(sweeper, filled):
    """Also the rows that stay."""
    found = rows.read(sweeper.cloud).of(filled.project_id).tables
    live = {f"{database}.{table}": sum(not rows.is_history(row) for row in each)
            for (database, table), each in found.items() if database == "cloudkitty"}  # fmt: skip
    return {place: count for place, count in live.items() if count}


def found_by(sweeper, filled, type_, connection=None, **options):
    definition = sweeper.definition(SERVICE, filled, **options)
    return sweeps.inventory(type_, connection or sweeper.connection(), definition, each_kept=True)


def ids(found):
    return {left.id for left in found.leftovers}


def test_an_inventory_finds_everything_and_changes_nothing(projects, further_sweeper):
    target, _ = projects
    before = further_sweeper.dump("cloudkitty", "keystone")
    kept = {type_.name: found_by(further_sweeper, target, type_) for type_ in SERVICE.types}
    priced = {type_.name: found_by(further_sweeper, target, type_, delete_prices=True) for type_ in SERVICE.types}
    assert further_sweeper.dump("cloudkitty", "keystone") == before
    assert {name: (result.outcome, result.kept) for name, result in kept.items()} == {
        name: (Outcome.CLEAR, number) for name, number in FOUND.items()
    }
    (scope,) = kept["scope"].kept_resources
    assert (scope.name, scope.reason) == ("project_id/keystone/prometheus", Reason.KEPT)
    assert "until 2026-11-01T00:00:00" in scope.message
    for name in ("mapping", "threshold"):
        assert ids(priced[name]) == set(target.ids[name])
    assert alive(further_sweeper, target) == SCOPES | PRICES


def test_a_project_without_a_scope_is_clear_and_another_404_is_not(further_admin, further_sweeper):
    """CloudKitty answers 404 if there is no scope."""
    empty = fill(further_admin, "rating-nothing", only=[])
    assert found_by(further_sweeper, empty, SCOPE).outcome is Outcome.CLEAR
    elsewhere = dataclasses.replace(SCOPE, list=dataclasses.replace(MAPPING.list, path="/v2/nothing"))
    assert found_by(further_sweeper, empty, elsewhere).outcome is Outcome.UNKNOWN


def test_without_its_second_parameter_cloudkitty_ignores_the_filter(projects, further_sweeper):
    """So the plugin must not list without it."""
    target, _ = projects
    plain = dataclasses.replace(MAPPING.list, query={"tenant_id": "{project_id}"})
    everything = dataclasses.replace(MAPPING, list=plain, unfiltered="the test")
    assert found_by(further_sweeper, target, everything).others_ignored == 6, "the neighbour's, and the plain"


@pytest.mark.parametrize("type_", SERVICE.types, ids=lambda type_: type_.name)
@pytest.mark.parametrize("who", ["a member of the project", "a member of another", "an admin of the system"])
def test_a_caller_without_the_admin_role_never_sees_an_empty_project(type_, who, projects, further_sweeper):
    target, neighbour = projects
    connections = {"a member of the project": target.connection, "a member of another": neighbour.connection}
    found = found_by(further_sweeper, target, type_, connections.get(who) or further_sweeper.system_scoped())
    assert found.outcome is Outcome.UNKNOWN
    assert found.reason == (Reason.ERROR if who == "an admin of the system" else Reason.FORBIDDEN)


def test_prices_are_deleted_only_if_the_operator_wants_that(projects, further_admin, further_sweeper):
    target, neighbour = projects
    before = further_sweeper.dump("cloudkitty")
    theirs = further_sweeper.dump_of(neighbour.project_id)
    swept = further_sweeper.delete(SERVICE, target)
    assert {name: (result.outcome, result.kept) for name, result in swept.items()} == {
        name: (Outcome.CLEAR, number) for name, number in FOUND.items()
    }
    assert further_sweeper.dump("cloudkitty") == before
    swept = further_sweeper.delete(SERVICE, target, delete_prices=True)
    assert {name: (result.outcome, result.found) for name, result in swept.items()} == {
        "scope": (Outcome.CLEAR, 0), "mapping": (Outcome.CLEAR, 3), "threshold": (Outcome.CLEAR, 3),
    }  # fmt: skip
    assert alive(further_sweeper, target) == SCOPES
    assert alive(further_sweeper, neighbour) == SCOPES | PRICES
    assert further_sweeper.dump_of(neighbour.project_id) == theirs
    everyones = "SELECT COUNT(*) FROM hashmap_mappings WHERE tenant_id IS NULL AND deleted IS NULL"
    assert further_sweeper.rows("cloudkitty", everyones) == [(3,)]
    deleted = target.first("mapping")
    assert cloudkitty(further_admin).call("GET", f"{HASHMAP}/mappings/{deleted}")["deleted"], "it is still shown"


def test_the_orchestrator_keeps_what_a_bill_needs(orchestrator, further_admin, further_sweeper):
    filled = fill(further_admin, "rating-whole", only=["rating"])
    deletion = orchestrator.run(filled.project_id, Mode.REPORT, Status.DELETED)
    assert alive(further_sweeper, filled) == SCOPES | PRICES
    assert orchestrator.deleted(deletion) == []
