"""The intent to delete a resource is in the journal once, whatever becomes of the later tries."""

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins.base import Refused, Verdict
from cleanup_orchestrator.worker.sweep import deleting
from tests.support import sweeps
from tests.unit.worker.test_sweep import US, Shelf, row, run

REFUSED = Refused(Verdict(Reason.ERROR, "its storage burnt down"))


class Journal:
    """Writes intents as a step does, and gives each attempt what the one before has left."""

    def __init__(self, type_):
        self.type, self.lines, self.announced, self.attempt = type_, [], frozenset(), 0

    def sweep(self, **values):
        self.attempt += 1
        values = {"attempt": self.attempt, "announced": self.announced, "record_intent": self.record, **values}
        result = sweeps.delete(values.pop("type_", self.type), None, US, parallel=1, **values)
        self.announced = frozenset(one.id for one in result.leftovers if one.announced)
        return result

    def record(self, resources):
        self.lines += [one.id for one in resources if one.id not in self.announced]


def stuck(number):
    shelf = Shelf(*(row(f"{n:04}") for n in range(number)))
    shelf.refuse = dict.fromkeys(shelf.rows, REFUSED)
    return shelf


def test_of_many_that_are_stuck_each_has_one_line(monkeypatch):
    """A sweep tries a part of them, in another order each time."""
    monkeypatch.setattr(deleting, "MOST_DELETED", 10)
    shelf = stuck(30)
    journal = Journal(shelf.type())
    for _ in range(40):
        journal.sweep()
    assert len(shelf.deletes) == 400
    assert sorted(journal.lines) == sorted(shelf.rows)


def test_what_a_sweep_that_ended_early_has_not_tried_is_announced_once():
    shelf = stuck(5)
    journal = Journal(shelf.type())
    for seconds, lines in ((0, []), (60, sorted(shelf.rows)), (0, sorted(shelf.rows)), (60, sorted(shelf.rows))):
        result = journal.sweep(seconds=seconds)
        assert {one.reason for one in result.leftovers} == {Reason.ERROR if seconds else Reason.QUEUED}
        assert sorted(journal.lines) == lines


def test_the_rest_of_a_chunk_that_was_not_tried_is_announced():
    """The intents of a chunk are written together. The sweep may end before the deletes of the chunk."""
    shelf = stuck(3)
    slow_down = Refused(Verdict(Reason.RATE_LIMITED, "no permit in time"))
    shelf.refuse = dict.fromkeys(shelf.rows, slow_down)
    journal = Journal(shelf.type())
    for _ in range(4):
        result = journal.sweep()
        assert sorted(one.reason for one in result.leftovers) == [Reason.QUEUED, Reason.QUEUED, Reason.RATE_LIMITED]
        assert all(one.announced for one in result.leftovers)
    assert sorted(journal.lines) == sorted(shelf.rows)


@pytest.mark.parametrize(
    "meanwhile",
    [
        {"deleting": lambda one, _project: "its service is deleting it" if one.id != "0002" else None},
        {"deleting": lambda *_: "its service is deleting it"},
        {"protect": (lambda *_: "it is shared",)},
        {"protect": (lambda one, _project: "it is shared" if one.id != "0002" else None,)},
        {"delete": None},
    ],
    ids=["some are going", "all are going", "all are protected", "some are protected", "no delete"],
)
def test_what_is_not_tried_for_a_while_has_no_second_line(meanwhile):
    shelf = stuck(3)
    journal = Journal(shelf.type())
    journal.sweep()
    result = journal.sweep(type_=shelf.type(**meanwhile))
    assert len(result.leftovers) == 3 and all(one.announced for one in result.leftovers)
    journal.sweep()
    assert sorted(journal.lines) == sorted(shelf.rows)


def test_what_was_not_going_to_be_deleted_is_not_announced():
    shelf = Shelf(row("1"), row("2"))
    result = run(shelf.type(protect=(lambda *_: "it is shared",)), announced={"2"})
    assert [(one.id, one.announced) for one in result.leftovers] == [("1", False), ("2", True)]
