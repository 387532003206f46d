"""A sweep reports the size of each resource, as its list shows it, and decides nothing by it."""

import dataclasses

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from tests.support import sweeps
from tests.unit.worker.test_sweep import US, HttpError, Shelf, row, run

#: Sizes that no service should show: nothing of a sweep may depend on them.
ODD = [-1, None, "much", 10**400, float("nan"), float("inf"), True, {}, [1]]


def sized(shelf, **values):
    return shelf.type(size=("size", 1024), **values)


def sizes(resources):
    return {one.id: one.size for one in resources}


def kept(resource, _project):
    return "it is the service's own" if resource.id == "kept" else None


def protected(resource, _project):
    return "it is shared" if resource.id == "shared" else None


def test_an_inventory_has_the_size_of_what_is_deleted_protected_and_kept():
    shelf = Shelf(row("1", size=1), row("2"), row("shared", size=3), row("kept", size=4), row("x", "them", size=5))
    type_ = sized(shelf, keep=(kept,), protect=(protected,))
    result = sweeps.inventory(type_, None, US, each_kept=True)
    assert sizes(result.leftovers) == {"1": 1024, "2": None, "shared": 3072}
    assert sizes(result.kept_resources) == {"kept": 4096}


def test_what_is_left_after_the_deletes_has_its_size():
    shelf = Shelf(*(row(id_, size=n) for n, id_ in enumerate(("gone", "refused", "slow", "shared"))))
    shelf.refuse, shelf.slow = {"refused": HttpError(409)}, {"slow"}
    result = run(sized(shelf, protect=(protected,)))
    assert sizes(result.leftovers) == {"refused": 1024, "slow": 2048, "shared": 3072}


@pytest.mark.parametrize(
    ("values", "reason"),
    [({"deleting": lambda _resource, _project: "it is being deleted"}, Reason.DELETING), ({"delete": None}, "refused")],
    ids=["it is being deleted", "no API deletes it"],
)
def test_what_is_not_tried_has_its_size(values, reason):
    result = run(sized(Shelf(row("1", size=2)), **values))
    assert [(one.id, one.name, one.reason, one.size) for one in result.leftovers] == [("1", "n-1", reason, 2048)]


def test_a_size_that_changed_between_the_two_lists_is_the_later_one(monkeypatch):
    monkeypatch.setattr("cleanup_orchestrator.worker.sweep.deleting.MOST_DELETED", 1)
    shelf = Shelf(row("1"), row("2", size=1))
    delete = shelf.delete

    def grow(*args):
        shelf.rows["2"]["size"] = 2
        delete(*args)

    result = run(sized(shelf, delete=grow))
    assert [(one.id, one.reason, one.size) for one in result.leftovers] == [("2", Reason.QUEUED, 2048)]


def test_no_size_changes_what_a_sweep_does():
    rows = [row(str(n), size=size) for n, size in enumerate(ODD)]
    plain, odd = Shelf(*rows), Shelf(*rows)
    for shelf in (plain, odd):
        shelf.refuse = {"1": HttpError(409)}
    inventories = [sweeps.inventory(t, None, US) for t in (plain.type(), sized(odd))]
    results = [run(plain.type()), run(sized(odd))]
    for one, other in (inventories, results):
        left = tuple(dataclasses.replace(each, size=None) for each in other.leftovers)
        assert dataclasses.replace(other, leftovers=left) == one
    assert inventories[0].digest
    assert results[1].outcome is Outcome.LEFTOVERS
    assert plain.deletes == odd.deletes
