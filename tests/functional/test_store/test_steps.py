"""The steps in the store, on every kind of database: claims, results, and what a waiver does to them."""

import concurrent.futures
import contextlib
import dataclasses
import datetime
import threading

import pytest

from cleanup_orchestrator.core import actions, results
from cleanup_orchestrator.core.deletion import Force, Mode, RoundPurpose, Status
from cleanup_orchestrator.core.proposals import AbandonLeftovers, Requester
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.core.transitions import By, move
from cleanup_orchestrator.store import Store, guard
from cleanup_orchestrator.store import steps as steps_module
from tests.functional.test_store.test_leftovers import surveying, sweeping
from tests.functional.test_store.test_statistics import made, step, waiting
from tests.support.databases import SERVERS, filled
from tests.support.stores import create, dispatched, save


def test_a_step_with_a_released_claim_can_be_claimed_at_once(store):
    deletion = made(store)
    id_ = waiting(store, deletion, StepKind.DRAIN, ago=1000)
    _, mine = store.claim(id_, "one", 300)
    assert not store.withheld(mine)
    assert store.release_claim(mine)
    given = step(store, deletion, StepKind.DRAIN)
    assert (given.state, given.lease_until, given.fencing_token) == (StepState.DISPATCHED, None, 1)
    assert given.dispatched_at > store.now() - datetime.timedelta(seconds=60), "its cast is not overdue"
    assert store.withheld(mine)
    assert not store.renew(mine, 300)
    assert not store.finish(mine, StepResult(Outcome.CLEAR))
    _, theirs = store.claim(id_, "two", 300)
    assert theirs.fencing_token == 2
    assert not store.withheld(theirs)
    assert store.withheld(mine)


def test_only_the_claimant_releases_a_claim_and_only_once(store):
    deletion = made(store)
    id_ = waiting(store, deletion)
    _, mine = store.claim(id_, "one", 300)
    assert store.release_claim(mine)
    assert not store.release_claim(mine)
    _, theirs = store.claim(id_, "two", 300)
    assert not store.release_claim(mine)
    assert step(store, deletion).worker == "two"
    assert store.finish(theirs, StepResult(Outcome.CLEAR))
    assert not store.release_claim(theirs)
    assert step(store, deletion).state is StepState.DONE


def test_an_engine_that_decided_on_an_old_step_gets_a_conflict(store):
    """The version grows, as with every write of a step."""
    deletion = made(store)
    _, mine = store.claim(waiting(store, deletion), "one", 300)
    seen = step(store, deletion)
    assert store.release_claim(mine)
    d = store.get(deletion.id)
    with pytest.raises(Exception, match="changed meanwhile"):
        save(store, d, d, [dataclasses.replace(seen, state=StepState.DISPATCHED)])


def test_a_step_is_claimed_once(store):
    step = dispatched(store, create(store))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        claims = [c for c in pool.map(lambda i: store.claim(step.id, f"w{i}", 60), range(8)) if c]
    assert len(claims) == 1
    assert claims[0][1].fencing_token == 1
    assert store.claim("no such step", "w", 60) is None


def test_a_worker_that_lost_its_lease_saves_nothing_and_may_not_write(store):
    record = create(store)
    step = dispatched(store, record, StepKind.DRAIN)
    _, zombie = store.claim(step.id, "zombie", 0)  # its lease is over at once
    assert store.withheld(zombie)
    dispatched(store, record, StepKind.DRAIN)
    _, owner = store.claim(step.id, "owner", 60)
    assert store.withheld(zombie)
    assert not store.renew(zombie, 60)
    assert not store.finish(zombie, StepResult(Outcome.CLEAR))
    assert store.record_intent(zombie, "grant_added", {}) is None
    assert not store.withheld(owner)
    assert store.renew(owner, 60)
    assert store.finish(owner, StepResult(Outcome.CLEAR, message="done"))
    assert not store.finish(owner, StepResult(Outcome.CLEAR)), "a result is saved once"


@pytest.mark.parametrize(
    ("kind", "values", "may"),
    [
        (StepKind.DRAIN, {}, True),
        (StepKind.DRAIN, {"status": Status.CANCELLING}, False),
        (StepKind.DRAIN, {"dry_run": True}, False),
        (StepKind.RELEASE, {"status": Status.CANCELLING}, True),
        (StepKind.REMOVE, {"status": Status.VERIFYING, "purpose": RoundPurpose.INVENTORY}, False),
        (StepKind.REMOVE, {"status": Status.VERIFYING, "purpose": RoundPurpose.PROJECT_SETTINGS}, True),
        (StepKind.SURVEY, {}, False),
    ],
)
def test_a_write_call_is_made_only_where_the_status_wants_it(store, kind, values, may):
    record = create(store)
    step = dispatched(store, record, kind)
    _, held = store.claim(step.id, "w", 60)
    read = store.get(record.id)
    save(store, read, dataclasses.replace(read, **values))
    assert store.withheld(held) is not may


def test_a_cancel_stops_the_next_write_and_the_next_claim(store):
    record = create(store)
    step = dispatched(store, record, StepKind.DRAIN)
    _, held = store.claim(step.id, "w", 60)
    assert not store.withheld(held)
    read = store.get(record.id)
    save(store, read, move(read, Status.CANCELLING, By.USER, read.created_at, "cancel"))
    assert store.withheld(held)
    waiting = dispatched(store, record, StepKind.ACCESS)
    assert store.claim(waiting.id, "w", 60) is None


def test_a_result_survives_a_renewal_of_its_lease_at_the_same_time(store):
    record = create(store)
    for _ in range(15):
        _, held = store.claim(dispatched(store, record, StepKind.DRAIN).id, "w", 60)
        over = threading.Event()

        def renew(held=held, over=over):
            while not over.is_set():
                store.renew(held, 60)

        thread = threading.Thread(target=renew)
        thread.start()
        try:
            assert store.finish(held, StepResult(Outcome.CLEAR))
        finally:
            over.set()
            thread.join()


@pytest.mark.real
@pytest.mark.parametrize("kind", sorted(SERVERS))
def test_a_result_without_progress_keeps_a_progress_time_that_was_set_meanwhile(kind, monkeypatch):
    """A new round, or a request for force, after the deletion was read for the result and before it is saved."""
    with filled(kind) as url, contextlib.ExitStack() as stack:
        store, other = Store.from_url(url), Store.from_url(url)
        for each in (store, other):
            stack.callback(each.close)
        record = create(other)
        _, held = store.claim(dispatched(other, record).id, "w", 60)
        later = record.progress_at + datetime.timedelta(hours=1)

        def meanwhile(*args):
            known = other.get(record.id)
            save(other, known, dataclasses.replace(known, progress_at=later))
            return results.record(*args)

        monkeypatch.setattr(steps_module, "record", meanwhile)
        assert store.finish(held, StepResult(Outcome.UNKNOWN, "unavailable"))
        assert other.get(record.id).progress_at == later
        monkeypatch.undo()
        _, held = store.claim(dispatched(other, record).id, "w", 60)
        assert store.finish(held, StepResult(Outcome.CLEAR))
        assert other.get(record.id).progress_at not in (later, record.progress_at), "this one moves it"


def test_a_survey_lays_out_the_steps_and_keeps_their_results(store):
    record = create(store)
    _, survey = store.claim(dispatched(store, record).id, "w", 60)
    port = Step("", "", StepKind.SWEEP, "R1", "network", "port", after=("network.trunk",))
    dns = Step("", "", StepKind.UNSUPPORTED, "R1", "dns", reason="no_plugin", message="no plugin")
    assert store.put_steps(survey, [port, dns])
    by_name = {s.name: s for s in store.steps(record.id)}
    assert by_name["network.port"].after == ("network.trunk",)
    assert (by_name["dns."].outcome, by_name["dns."].reason) == (Outcome.UNKNOWN, "no_plugin")
    assert by_name["dns."].round == survey.round
    before = by_name["network.port"].id
    assert store.put_steps(survey, [port])
    after = {s.name: s for s in store.steps(record.id)}
    assert after["network.port"].id == before
    assert "dns." not in after


def test_a_service_that_leaves_the_catalog_during_a_deletion_is_still_called(store):
    """An admin deletes an endpoint: what the project has there is unknown from then on, and not gone."""
    record = create(store)
    image = Step("", "", StepKind.SWEEP, "R1", "image", "image")
    dns = Step("", "", StepKind.UNSUPPORTED, "R1", "dns", reason="no_plugin")
    port = Step("", "", StepKind.SWEEP, "R1", "network", "port")
    whole = {("R1", "image"), ("R1", "network"), ("R1", "dns")}
    surveying(store, record, image, dns, port, catalog=whole)
    # Nothing was listed yet: the catalog is as it is. The survey reports unsupported services.
    surveying(store, record, port, catalog={("R1", "network")})
    assert {s.service for s in store.steps(record.id) if s.service} == {"network"}

    surveying(store, record, image, dns, port, catalog=whole)
    before = store.get(record.id)
    save(store, before, dataclasses.replace(before, status=Status.VERIFYING))
    surveying(store, record, port, catalog={("R1", "network")})
    assert {s.service for s in store.steps(record.id) if s.service} == {"network", "image"}
    surveying(store, record, port, catalog=whole)  # they are in the catalog, so no record is needed any more
    assert {s.service for s in store.steps(record.id) if s.service} == {"network"}


WAIVED = {"waived": "w", "reason": "waived", "message": "by alice"}


def test_a_waived_step_has_no_result_and_keeps_what_was_seen(store):
    record = create(store)
    zone = Step("", "", StepKind.SWEEP, "R1", "dns", "zone")
    seen = StepResult(Outcome.LEFTOVERS, "in_use", leftovers=(Leftover("z", "zone", Reason.IN_USE),), found=1)
    surveying(store, record, zone)
    sweeping(store, record, seen)
    surveying(store, record, dataclasses.replace(zone, **WAIVED))
    [step] = [s for s in store.steps(record.id) if s.kind is StepKind.SWEEP]
    assert (step.waived, step.outcome, step.state, step.reason) == ("w", Outcome.NONE, StepState.IDLE, "waived")
    assert [r.leftover.id for r in store.leftovers(record.id, 10)] == ["z"]
    assert (step.found, step.remaining) == (1, 1)


@pytest.mark.parametrize("result", [StepResult(Outcome.CLEAR), StepResult(Outcome.UNKNOWN, "unreachable", "no answer")])
def test_a_step_begins_anew_when_its_waiver_has_ended(store, result):
    """Its old result, with its old round, would look like a result of the current round."""
    record = create(store)
    zone = Step("", "", StepKind.SWEEP, "R1", "dns", "zone")
    surveying(store, record, zone)
    sweeping(store, record, result)
    surveying(store, record, dataclasses.replace(zone, **WAIVED))
    surveying(store, record, zone)
    [step] = [s for s in store.steps(record.id) if s.kind is StepKind.SWEEP]
    assert (step.waived, step.outcome, step.state, step.round) == ("", Outcome.NONE, StepState.IDLE, 0)
    assert (step.reason, step.message) == ("", "")


def test_a_waiver_that_comes_while_a_step_runs_lets_it_end_and_takes_no_result(store):
    record = create(store)
    zone = Step("", "", StepKind.SWEEP, "R1", "dns", "zone")
    surveying(store, record, zone)
    _, held = store.claim(dispatched(store, record, StepKind.SWEEP).id, "w", 60)
    surveying(store, record, dataclasses.replace(zone, **WAIVED))
    assert store.renew(held, 60)
    assert store.finish(held, StepResult(Outcome.CLEAR, deleted=(("1", "one"),)))
    [step] = [s for s in store.steps(record.id) if s.kind is StepKind.SWEEP]
    assert (step.waived, step.outcome, step.reason, step.deleted) == ("w", Outcome.NONE, "waived", 1)
    surveying(store, record, zone)
    [step] = [s for s in store.steps(record.id) if s.kind is StepKind.SWEEP]
    assert (step.waived, step.outcome, step.state, step.round) == ("", Outcome.NONE, StepState.IDLE, 0)


@pytest.fixture
def between(store, monkeypatch):
    """Make a call once a result's transaction has read its step, and before it writes."""
    if store.database.engine.dialect.name == "sqlite":
        pytest.skip("a transaction is alone")
    claimed, calls = guard.claimed, []

    def read(connection, step):
        found = claimed(connection, step)
        while calls:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                assert pool.submit(calls.pop()).result(60)
        return found

    monkeypatch.setattr(guard, "claimed", read)
    return calls.append


def test_a_result_counts_for_a_waiver_that_ends_while_it_is_saved(store, between):
    """The step had no outcome and no waiver in the present round: an inventory with leftovers counted as empty."""
    record = create(store)
    zone = Step("", "", StepKind.SWEEP, "R1", "dns", "zone")
    seen = StepResult(Outcome.LEFTOVERS, "present", leftovers=(Leftover("z", "zone", Reason.PRESENT),), found=1)
    surveying(store, record, zone)
    _, held = store.claim(dispatched(store, record, StepKind.SWEEP).id, "w", 60)
    surveying(store, record, dataclasses.replace(zone, **WAIVED))
    again = dispatched(store, record)

    def survey():
        return store.put_steps(store.claim(again.id, "w", 60)[1], [zone], {("R1", "dns")})

    between(survey)
    assert store.finish(held, seen)
    [step] = [s for s in store.steps(record.id) if s.kind is StepKind.SWEEP]
    assert (step.waived, step.state, step.outcome, step.reason) == ("", StepState.DONE, Outcome.LEFTOVERS, "present")


def test_a_result_leaves_nothing_abandoned_if_force_is_asked_for_again_while_it_is_saved(store, between):
    record = create(store, status=Status.DELETING, purpose=RoundPurpose.DELETE)
    surveying(store, record, Step("", "", StepKind.SWEEP, "R1", "dns", "zone"))
    seen = StepResult(Outcome.LEFTOVERS, "in_use", leftovers=(Leftover("z", "zone", Reason.IN_USE),), found=1)
    sweeping(store, record, seen)
    before, steps, now = store.load(record.id)
    [zone] = [s for s in steps if s.kind is StepKind.SWEEP]
    applied = actions.apply(before, steps, (actions.Abandon(zone.id),), now)
    forced = dataclasses.replace(applied.deletion, round=2, forced=Force("x", (), now, 1, 1))
    save(store, before, forced, applied.steps, abandoned=applied.abandoned)
    _, held = store.claim(dispatched(store, record, StepKind.SWEEP).id, "w", 60)
    again = {"reason": "again", "wanted": None, "types": ("dns.zone",)}
    between(lambda: store.propose(AbandonLeftovers(by=Requester("u"), seen=store.get(record.id), **again)))
    assert store.finish(held, seen)
    assert [s.abandoned for s in store.steps(record.id) if s.kind is StepKind.SWEEP] == [0]
    assert [row.leftover.abandoned for row in store.leftovers(record.id, 10)] == [False]


def test_a_result_is_saved_while_its_lease_is_renewed(store, between):
    record = create(store)
    _, held = store.claim(dispatched(store, record).id, "w", 60)
    between(lambda: store.renew(held, 60))
    assert store.finish(held, StepResult(Outcome.CLEAR))


def test_a_waived_service_without_a_plugin_is_no_unknown_until_its_waiver_ends(store):
    record = create(store)
    dns = Step("", "", StepKind.UNSUPPORTED, "R1", "dns", reason="no_plugin", message="no plugin")
    uncovered = lambda: next(s for s in store.steps(record.id) if s.kind is StepKind.UNSUPPORTED)  # noqa: E731
    surveying(store, record, dns)
    assert uncovered().outcome is Outcome.UNKNOWN
    surveying(store, record, dataclasses.replace(dns, **WAIVED))
    assert (uncovered().outcome, uncovered().waived) == (Outcome.NONE, "w")
    surveying(store, record, dns)
    assert (uncovered().outcome, uncovered().waived, uncovered().reason) == (Outcome.UNKNOWN, "", "no_plugin")


@pytest.mark.parametrize(
    "result",
    [
        StepResult(Outcome.UNKNOWN, "unreachable", "no answer"),
        StepResult(Outcome.LEFTOVERS, "in_use", found=1, leftovers=(Leftover("1", "one", Reason.IN_USE),)),
    ],
    ids=lambda result: str(result.outcome),
)
def test_a_retry_does_not_forget_what_was_left_or_could_not_be_seen(store, result):
    """A service fails in one attempt and leaves the catalog; the next attempt still asks for it."""
    record = create(store)
    image = Step("", "", StepKind.SWEEP, "R1", "image", "image")
    port = Step("", "", StepKind.SWEEP, "R1", "network", "port")
    surveying(store, record, image, catalog={("R1", "image")})
    sweeping(store, record, result)
    assert store.get(record.id).status is Status.ACCEPTED
    surveying(store, record, port, catalog={("R1", "network")})
    assert {s.service for s in store.steps(record.id) if s.service} == {"network", "image"}


def test_the_unselected_resources_of_a_step_are_counted_and_read(store):
    record = create(store, mode=Mode.PURGE, status=Status.INVENTORY, purpose=RoundPurpose.INVENTORY)
    step = store.claim(dispatched(store, record).id, "w", 60)[1]
    rows = (Leftover("a", "", Reason.NOT_SELECTED, "its type is not selected"), Leftover("b", "", Reason.PRESENT))
    assert store.finish(step, StepResult(Outcome.LEFTOVERS, "present", found=2, leftovers=rows))
    [read] = [s for s in store.steps(record.id) if s.id == step.id]
    assert (read.remaining, read.unselected) == (2, 1)
    assert {row.leftover.id: row.leftover.reason for row in store.leftovers(record.id, 10)} == {
        "a": Reason.NOT_SELECTED,
        "b": Reason.PRESENT,
    }
