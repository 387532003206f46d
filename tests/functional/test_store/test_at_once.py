"""Several users and workers act on one deletion, or on one orphan scan, at the same moment."""

import collections
import concurrent.futures
import contextlib
import datetime
import threading

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.core.condition_types import Condition, ConditionType
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.orphan_scan import ScanStatus
from cleanup_orchestrator.core.proposals import Approve, Change, Refused, Requester, Retry, Stop
from cleanup_orchestrator.core.request_limits import RequestLimits
from cleanup_orchestrator.core.transitions import By, move
from cleanup_orchestrator.store import Conflict, TooManyDeletions, deletions, tables
from tests.support import orphaned
from tests.support.stores import change, create
from tests.unit.world import T0

ASKS = (Condition(ConditionType.APPROVAL, True, "too_many_resources", "x", T0),)


def at_once(*calls):
    """Make calls at the same moment; return what each returned or raised."""
    barrier = threading.Barrier(len(calls))

    def begin(call):
        barrier.wait()
        try:
            return call()
        except (Refused, Conflict, TooManyDeletions) as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(begin, calls))


@pytest.mark.parametrize("turn", range(5))
def test_users_at_once_each_take_effect_once_or_are_refused(store, turn):
    """PostHog/posthog#49663: the state was checked before the row was locked."""
    record = create(store, conditions=ASKS, project_id=f"p{turn}")
    asked = [Approve(by=Requester(name), seen=record, reason=name) for name in ("u1", "u2", "u3")]
    asked += [Retry(by=Requester("u4"), seen=record), Stop(by=Requester("u5"), seen=record)]
    answers = at_once(*(lambda proposal=proposal: store.propose(proposal) for proposal in asked))
    applied = [a for a in answers if a is not None and not isinstance(a, Exception)]
    lines = [row.event.type for row in store.events(record.id, 20)][1:]
    assert collections.Counter(lines) == collections.Counter(e.type for a in applied for e in a.applied.events)
    saved = store.get(record.id)
    assert saved.version == record.version + len(applied)
    assert saved.status is Status.CANCELLING, "the cancel is never refused"
    assert len(saved.approvals) == lines.count("deletion.approved")
    assert len({a.user_id for a in saved.approvals}) == len(saved.approvals)


LIMITS = RequestLimits(live_per_requester=1)


def failed(store, **values):
    """Record a deletion that failed."""
    record = create(store, user_id="u", **values)
    return change(store, record.id, lambda d: move(d, Status.FAILED, By.ENGINE, store.now(), "x"))


def test_retries_at_once_keep_the_limit_of_their_requester(store, monkeypatch):
    """Each counted before the other one was saved."""
    records, check = [failed(store, project_id=f"p{n}") for n in range(2)], deletions.check_requests
    counted = threading.Barrier(2)

    def slow(*arguments):
        check(*arguments)
        with contextlib.suppress(threading.BrokenBarrierError):
            counted.wait(1)

    monkeypatch.setattr(deletions, "check_requests", slow)
    asked = [Retry(by=Requester("u"), seen=record, limits=LIMITS) for record in records]
    answers = at_once(*(lambda proposal=proposal: store.propose(proposal) for proposal in asked))
    assert [isinstance(answer, TooManyDeletions) for answer in answers].count(True) == 1
    assert sorted(store.get(record.id).status for record in records) == [Status.ACCEPTED, Status.FAILED]


def test_a_cascade_that_begins_now_counts_one_that_was_recorded_meanwhile(store, monkeypatch):
    """The API reads the time before the deletion is locked. Neither cascade counted the other one."""
    waits = create(store, project_id="p1", user_id="u", not_before=store.now() + datetime.timedelta(30))
    asked = Change(by=Requester("u"), seen=waits, fields={"not_before": store.now()})
    began = create(store, project_id="p2", user_id="u")
    locked = []
    in_order = deletions.in_order
    monkeypatch.setattr(deletions, "in_order", lambda c: locked.append(c) or in_order(c))
    store.propose(asked)
    assert [store.load(each.id)[0].cascades_before for each in (began, waits)] == [0, 1]
    store.propose(Change(by=Requester("u"), seen=store.get(waits.id), fields={"ticket": "CHG-1"}))
    assert len(locked) == 1, "only a date has an order"


def test_a_dry_run_that_ends_for_a_retry_does_not_count_for_its_limit(store):
    """Nor does one that ends for a new request."""
    record, dry_run = failed(store), create(store, user_id="u", dry_run=True)
    assert store.propose(Retry(by=Requester("u"), seen=record, limits=LIMITS))
    assert store.get(dry_run.id).status is Status.CANCELLED


def test_an_approval_that_is_sent_twice_is_recorded_once(store):
    """paperclipai/paperclip#502: a second request before the first has taken effect doubled the approval."""
    record = create(store, conditions=ASKS)
    approve = Approve(by=Requester("u1"), seen=record, reason="x")
    at_once(*[lambda: store.propose(approve)] * 4)
    assert [row.event.type for row in store.events(record.id, 20)] == ["deletion.accepted", "deletion.approved"]
    assert len(store.get(record.id).approvals) == 1


def test_nothing_is_changed_if_the_journal_cannot_be_written(store, monkeypatch):
    """coleam00/Archon#2146: the decision was saved, and its line in the journal was lost."""
    record = store.get(create(store).id)

    def full(*_):
        raise sa.exc.DataError("INSERT", {}, Exception("the disk is full"))

    monkeypatch.setattr(deletions, "write_journal", full)
    with pytest.raises(sa.exc.DataError):
        store.propose(Stop(by=Requester("u"), seen=record))
    assert store.get(record.id) == record


def test_a_scan_that_is_cancelled_with_a_lost_worker_leaves_nothing_behind(store):
    """HKUDS/LightRAG#3994, OctopusDeploy/Issues#5634: the lease outlived its scan and blocked the next one."""
    scan = orphaned.begin(store)
    step = orphaned.claim(store, scan.id, "port", 1)
    assert store.note_orphans(step, [orphaned.port("p1")])
    with store.database.begin() as c:
        c.execute(tables.steps.update().values(lease_until=T0 - datetime.timedelta(days=1)))
    orphaned.move(store, scan.id, ScanStatus.CANCELLED)
    assert not store.note_orphans(step, [orphaned.port("p2")])
    assert not store.finish(step, orphaned.clear(step))
    assert store.claim(step.id, "another", 60) is None
    assert store.orphans(scan.id, 10) == []
    again = orphaned.begin(store)
    assert again.id != scan.id
