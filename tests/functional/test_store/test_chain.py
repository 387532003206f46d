"""The hash chain of the journal on every kind of database: also when eight workers append to one deletion at once."""

import dataclasses
import datetime
import json
import threading

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.core import actions, canonical
from cleanup_orchestrator.core.deletion import RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.journal_chain import EMPTY, BrokenChain, Head, checked, moment
from cleanup_orchestrator.core.proposals import Requester, Stop
from cleanup_orchestrator.core.queue import QueueState
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult
from cleanup_orchestrator.store import retention
from cleanup_orchestrator.store import tables as t
from tests.support.stores import claimed, create, dispatched
from tests.unit.world import CLEAR

WORKERS, TURNS = 8, 6


def lines(store, deletion_id):
    return [
        {**dataclasses.asdict(row.event), "deletion_id": deletion_id, "sequence": row.sequence, "digest": row.digest,
         "at": moment(row.at)}
        for row in store.events(deletion_id, 100_000)
    ]  # fmt: skip


def whole(store, deletion_id):
    """Check the chain of a deletion as it reads back, and its head; return the head."""
    head = EMPTY
    for line in lines(store, deletion_id):
        head = checked(head, line)
    assert store.get(deletion_id).journal == head
    return head


def test_every_line_reads_back_as_it_was_hashed(store):
    record = create(store)
    step = claimed(store, record)
    odd = {
        "floats": [0.1, 5.0, -0.0, 1e-7, 1e22, 123456.789, float("inf"), float("nan")],
        "integers": [2**53 - 1, 2**53, -(2**64), 10**30, True],
        "text": "half \ud83d, NUL \0, line \u2028, accents e\u0301 \xe9, \U0001f600 and blanks  ",
        "\ud800": {"\U0001f600": 1, "\ufb33": 2, "a": (1, 2)},
        3: None,
        "resources": [{"id": "x\ud800", "name": "n\0", "remedy": "r" * 5000}, {"id": "y", "name": "n" * 600}],
    }
    events = [Event("note", odd["text"], "u ", odd, "req-1"), Event("note", "", data={}), Event("x.y", "é" * 40_000)]
    assert store.append_events(step, *events)
    assert whole(store, record.id).length == 4


def test_the_lines_of_one_transaction_with_and_without_resources(store):
    record = create(store)
    step = claimed(store, record)
    named = [Event("a.b", str(n), data={"resources": [{"id": f"{n}-{i}", "name": ""} for i in range(n)]})
             for n in (2, 1, 0, 3, 0, 0, 1)]  # fmt: skip
    assert store.append_events(step, *named)
    whole(store, record.id)
    for n, event in zip((2, 1, 3, 1), [e for e in named if e.data["resources"]], strict=True):
        found = store.events_of_resource(f"{n}-{n - 1}", 10)
        assert event.message in [each.row.event.message for each in found]
    assert [row.event.message for row in store.events(record.id, 100, resource_id="3-2")] == ["3"]


def in_delete_round(store):
    record = create(store, status=Status.DELETING, queue_state=QueueState.WORKING, purpose=RoundPurpose.DELETE)
    survey = store.claim(dispatched(store, record).id, "w", 60)[1]
    types = [Step("", "", StepKind.SWEEP, "R1", "network", f"type{n}") for n in range(WORKERS)]
    assert store.put_steps(survey, types)
    assert store.finish(survey, CLEAR)
    return record


@pytest.fixture
def refusals(store):
    """Return the errors of the database so far: a deadlock and a lost race are among them."""
    seen = []
    sa.event.listen(store.database.engine, "handle_error", lambda context: seen.append(context.original_exception))
    return seen


def test_eight_workers_and_an_engine_append_at_once(store, refusals):
    """No line is lost, the chain is whole, and neither a deadlock nor an error of the database makes a turn again."""
    record = in_delete_round(store)
    ids = [s.id for s in store.steps(record.id) if s.kind is StepKind.SWEEP]
    sent = tuple(map(actions.Dispatch, ids))
    store.decide(record.id, lambda d, steps, now: actions.apply(d, steps, sent, now))
    held = [store.claim(id_, f"w{number}", 600)[1] for number, id_ in enumerate(ids)]
    begin = whole(store, record.id).length
    left = StepResult(Outcome.LEFTOVERS, "in_use", found=1, leftovers=(Leftover("1", "one", Reason.IN_USE),))
    failures, go = [], threading.Barrier(WORKERS + 2)

    def work(step):
        for turn in range(TURNS):
            resources = [{"id": f"{step.type}-{turn}-{n}", "name": "x"} for n in range(3)]
            assert store.append_events(step, Event("resource.deleting", "x", data={"resources": resources}))
            assert store.append_events(step, Event("note", "a"), Event("note", "b"))
        assert store.finish(step, left, [Event("resource.deleted", "x", data={"resources": resources})])

    def decide():
        for _ in range(TURNS):
            store.decide(record.id, lambda d, *_: applied(d, Event("deletion.noted", "the engine decided")))

    def run(call, *arguments):
        try:
            go.wait()
            call(*arguments)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work, step)) for step in held]
    threads += [threading.Thread(target=run, args=(decide,)) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == [] and refusals == []
    assert whole(store, record.id).length - begin == WORKERS * (TURNS * 3 + 1) + 2 * TURNS


def applied(deletion, *events):
    after = dataclasses.replace(deletion, progress_at=deletion.progress_at + datetime.timedelta(seconds=1))
    return actions.Applied(after, (), events, (), False, ())


def test_a_saved_deletion_has_the_head_of_its_journal(store):
    """A notification has it."""
    seen = []

    class Listener:
        def deletion_saved(self, _before, after):
            seen.append(after.journal)

    store.on_commit(Listener())
    record = create(store)
    store.decide(record.id, lambda d, *_: applied(d, Event("a.b", "c")))
    store.decide(record.id, lambda d, *_: applied(d))
    assert store.propose(Stop(by=Requester("u"), seen=store.get(record.id)))
    assert seen[0].length == 1 and seen[1].length == seen[2].length == 2
    assert seen[-1] == whole(store, record.id)


#: What a person with the database's password does to line 3 of 5, and the line at which it is found.
FORGERIES = {
    "another message": (lambda c, e: c.execute(e.update().where(e.c.sequence == 3).values(message="nothing")), 3),
    "another actor": (lambda c, e: c.execute(e.update().where(e.c.sequence == 3).values(actor="x")), 3),
    "another microsecond": (
        lambda c, e: c.execute(e.update().where(e.c.sequence == 3).values(at=datetime.datetime(2020, 1, 1))), 3),
    "other data": (lambda c, e: c.execute(e.update().where(e.c.sequence == 3).values(data={"x": 1})), 3),
    "another digest": (lambda c, e: c.execute(e.update().where(e.c.sequence == 3).values(digest="0" * 64)), 3),
    "a dropped line": (lambda c, e: c.execute(e.delete().where(e.c.sequence == 3)), 3),
    "the first line dropped": (lambda c, e: c.execute(e.delete().where(e.c.sequence == 1)), 1),
    "two lines swapped": (
        lambda c, e: [
            c.execute(e.update().where(e.c.sequence == 3).values(sequence=99)),
            c.execute(e.update().where(e.c.sequence == 4).values(sequence=3)),
            c.execute(e.update().where(e.c.sequence == 99).values(sequence=4)),
        ], 3),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_changed_line_is_found(store, forgery):
    record = create(store)
    step = claimed(store, record)
    assert store.append_events(step, *(Event("note", str(n)) for n in range(4)))
    whole(store, record.id)
    change, at = FORGERIES[forgery]
    with store.database.begin() as c:
        c.execute(t.event_resources.delete())
        change(c, t.events)
    with pytest.raises(BrokenChain) as found:
        whole(store, record.id)
    assert found.value.sequence == at


def test_the_last_lines_dropped_are_found_by_the_head(store):
    record = create(store)
    assert store.append_events(claimed(store, record), Event("note", "x"), Event("note", "y"))
    with store.database.begin() as c:
        c.execute(t.events.delete().where(t.events.c.sequence == 3))
    with pytest.raises(AssertionError):
        whole(store, record.id)


def test_the_head_of_a_purged_journal_stays(store):
    record = create(store)
    head = whole(store, record.id)
    with store.database.begin() as c:
        ended = {"finished_at": datetime.datetime(2020, 1, 1), "live_project_id": None, "status": "deleted"}
        c.execute(t.deletions.update().where(t.deletions.c.id == record.id).values(**ended))
    with store.database.begin() as c:
        assert retention.purge(c, datetime.timedelta(days=1), False)["deletions"] == 1
    with store.database.begin() as c:
        kept = c.execute(sa.select(t.purged_journals)).one()
    assert (kept.deletion_id, Head(kept.length, kept.digest)) == (record.id, head)
    assert abs(store.now() - kept.purged_at) < datetime.timedelta(minutes=1)


def test_what_is_stored_is_what_json_carries(store):
    record = create(store)
    assert store.append_events(claimed(store, record), Event("note", "", data={"n": 2**70}))
    [line] = lines(store, record.id)[1:]
    assert line["data"] == {"n": str(2**70)} == json.loads(canonical.encoded(line["data"]))
