"""Lists longer than ``[worker] most_listed``: never empty, never more in memory, and worked off in a cascade."""

import dataclasses
import itertools

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.base import Composition
from cleanup_orchestrator.worker.sweep import calls
from cleanup_orchestrator.worker.sweep import listing as sweep_listing
from cleanup_orchestrator.worker.sweep.context import RelatedType
from tests.support import sweeps
from tests.unit.worker.test_deleting import US, Shelf, row, run
from tests.unit.world import CLEAR, World, deletion, left, sweep_step

MOST = 10


def shelf_of(number, **values):
    return Shelf(*(row(f"{n:04}", **values) for n in range(number)))


@pytest.mark.parametrize(("number", "more"), [(1, False), (MOST, False), (MOST + 1, True), (10 * MOST, True)])
def test_an_inventory_of_a_long_list_reports_a_lower_bound(number, more):
    found = sweeps.inventory(shelf_of(number).type(), None, US, most_listed=MOST)
    assert (found.outcome, found.reason, len(found.leftovers)) == (Outcome.LEFTOVERS, "present", min(number, MOST))
    assert found.more is more
    assert found.message == (
        "at least 10, and there are more: the list is longer than [worker] most_listed" if more else ""
    )
    assert bool(found.digest) is not more  # a plan does not know what it has


def test_no_more_is_read_than_is_needed():
    read = []

    def listing(_connection, _project):
        for one in itertools.count():
            read.append(one)
            yield row(str(one))

    assert sweeps.inventory(Shelf().type(list=listing), None, US, most_listed=MOST).more
    assert len(read) == MOST + 1


def test_sweeps_work_it_off():
    """Each deletes the first ones, and its result is not empty as long as there are more."""
    shelf, sweeps = shelf_of(95), []
    while not sweeps or sweeps[-1].outcome is not Outcome.CLEAR:
        sweeps.append(run(shelf.type(), most_listed=MOST))
        assert len(sweeps) < 20
    assert [len(each.deleted) for each in sweeps] == [10] * 9 + [5]
    assert {each.reason for each in sweeps[:8]} == {Reason.QUEUED}
    assert sweeps[0].message == "10 deleted, at least 10 queued for the next sweep"
    assert sum(len(each.deleted) for each in sweeps) == 95
    assert not shelf.rows


def test_beyond_what_was_read_nothing_counts_as_gone():
    """What is accepted and still there, at the end of a list that goes another way by now, is no progress."""
    shelf = shelf_of(30)
    shelf.slow = set(shelf.rows)
    directions = itertools.cycle((1, -1))

    def listing(_connection, _project):
        yield from [dict(r) for r in sorted(shelf.rows.values(), key=lambda r: r["id"])[:: next(directions)]]

    refused = {id_: RuntimeError("no") for id_ in shelf.rows}
    shelf.refuse = refused
    result = run(shelf.type(list=listing), most_listed=MOST)
    assert (result.deleted, result.more) == ((), True)
    dragged = run(shelf.type(list=listing, composition=Composition(deleted_with=("whole",))), most_listed=MOST)
    assert (dragged.deleted, dragged.more) == ((), True)


def test_rows_that_the_service_does_not_know_are_no_progress():
    """A plugin that makes up new rows for ever: each delete answers 404."""
    numbers = itertools.count()

    def listing(_connection, _project):
        for number in numbers:
            yield row(str(number))

    result = run(Shelf().type(list=listing), most_listed=MOST)
    assert (result.outcome, result.deleted, result.more) == (Outcome.LEFTOVERS, (), True)
    assert result.reason != Reason.QUEUED


def test_without_progress_a_long_list_stalls_as_any_other():
    world = World(deletion(), sweep_step("network.port"))
    stuck = dataclasses.replace(left("1", "2"), more=True, message="at least 2, and there are more")
    world.answers = {"network.port": lambda _: stuck}
    world.run(limit=300)
    assert world.deletion.status is Status.DELETING
    assert next(c for c in world.deletion.conditions if c.type == "stalled").status


def test_a_verification_that_finds_a_long_list_goes_back():
    world = World(deletion(), sweep_step("network.port"))
    looks = iter([left("0"), CLEAR, dataclasses.replace(left("1"), more=True)])
    world.answers = {"network.port": lambda _: next(looks, CLEAR)}
    assert world.run() is Status.DELETED
    assert [e.type for e in world.events].count("deletion.deleting") == 2


@pytest.mark.parametrize("values", [{"owner": "them"}, {"kept": True}])
def test_what_is_not_to_be_deleted_fills_no_list(values):
    """Else anybody could make a list of all projects too long, and a member one with rows that stay."""
    shelf = Shelf(*(row(f"{n:04}", **values) for n in range(10 * MOST)), row("mine"))
    type_ = shelf.type(keep=(lambda one, _project: "kept" if one.data.get("kept") else None,))
    found = sweeps.inventory(type_, None, US, most_listed=MOST, each_kept=True)
    assert ([one.id for one in found.leftovers], found.more) == (["mine"], False)
    assert len(found.kept_resources) <= MOST
    assert (found.kept, found.others_ignored) in ((100, 0), (0, 100))
    result = run(type_, most_listed=MOST)
    assert (result.outcome, [id_ for id_, _ in result.deleted]) == (Outcome.CLEAR, ["mine"])
    assert run(type_, most_listed=MOST).outcome is Outcome.CLEAR


def test_what_is_listed_twice_behind_many_of_others_counts_once():
    """Of what is not to be deleted, the ids are in memory up to the limit; of the project's, all are."""
    others = [row(f"{n:04}", owner="them") for n in range(2 * MOST)]
    for mine in (row("mine"), row("mine", kept=True)):
        type_ = Shelf().type(
            list=lambda *_, mine=mine: [*others, mine, mine],
            protect=(lambda one, _project: "kept" if one.data.get("kept") else None,),
        )
        found = sweeps.inventory(type_, None, US, most_listed=MOST)
        assert (found.found, [one.id for one in found.leftovers]) == (1, ["mine"])


def test_what_became_kept_is_not_gone():
    """It is looked for by its id, however many are kept before it."""
    shelf = Shelf(*(row(f"{n:04}", kept=True) for n in range(10 * MOST)), row("mine"))

    def keeps(_connection, _project, resource):
        shelf.rows[resource.id]["kept"] = True

    type_ = shelf.type(delete=keeps, keep=(lambda one, _project: "kept" if one.data.get("kept") else None,))
    result = run(type_, most_listed=MOST)
    assert (result.deleted, result.kept) == ((), 101)


def test_what_is_protected_is_named_up_to_the_limit():
    shelf = shelf_of(3 * MOST)
    type_ = shelf.type(protect=(lambda _one, _project: "public",))
    for result in (sweeps.inventory(type_, None, US, most_listed=MOST), run(type_, most_listed=MOST)):
        assert (result.outcome, len(result.leftovers), result.more) == (Outcome.LEFTOVERS, MOST, True)
    assert not shelf.deletes


def test_a_list_of_others_without_an_end_is_no_list(monkeypatch):
    monkeypatch.setattr(calls, "MAX_ROWS", 1000)

    def listing(_connection, _project):
        for number in range(2000):  # more than a test needs
            yield row(str(number), owner="them")

    endless = Shelf().type(list=listing)
    found = sweeps.inventory(endless, None, US, most_listed=MOST)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)
    part = RelatedType("part", endless, US, whole=False, attribute="whole_id")
    found = sweeps.inventory(shelf_of(1).type(), None, US, related=[part], planned={"0000"})
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER), "the list of a related type"


def test_the_same_rows_for_ever_are_no_list(monkeypatch):
    monkeypatch.setattr(sweep_listing, "MAX_REPEATED", 10)
    shelf = shelf_of(MOST)
    endless = shelf.type(list=lambda *_: itertools.cycle([dict(one) for one in shelf.rows.values()]))
    found = sweeps.inventory(endless, None, US, most_listed=MOST)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)
