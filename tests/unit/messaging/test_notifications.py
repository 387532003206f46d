"""Notifications: which events send one, what it contains, and that sending never blocks."""

import dataclasses
import datetime
import re
import threading
from pathlib import Path

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging.notify import _impl_test

from cleanup_orchestrator.api import views
from cleanup_orchestrator.core import actions
from cleanup_orchestrator.core.condition_types import Condition
from cleanup_orchestrator.core.deletion import Force, Mode, Status
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.orphan_scan import OrphanScan, ScanStatus
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import TASKS, Leftover, Outcome, StepKind, StepResult
from cleanup_orchestrator.core.transitions import MOVES
from cleanup_orchestrator.messaging import background, notifications, rpc
from cleanup_orchestrator.monitoring import metrics
from cleanup_orchestrator.store import Store, tables
from tests.support.cases import each_case
from tests.support.stores import save
from tests.unit import world

PAGE = Path(__file__).parents[3] / "doc" / "source" / "admin" / "monitoring.rst"
STALLED = Condition("stalled", True, "no_progress", "blocked by network.port@R1: in_use", world.T0)
PYTHON = {"string": str, "boolean": bool, "integer": int, "object": dict, "array": list}


def documented():
    """Return the type of each field of the payload as the manual has it."""
    table = PAGE.read_text().partition("The payload:\n")[2]
    return dict(re.findall(r"   \* - ``(\w+)``\n     - (\w+)\n", table))


@pytest.fixture
def sent():
    """What oslo.messaging's own test driver was given."""
    _impl_test.reset()
    yield _impl_test.NOTIFICATIONS
    _impl_test.reset()


@pytest.fixture
def announcing_store(tmp_path, sent):
    conf = cfg.ConfigOpts()
    conf([])
    oslo_messaging.get_notification_transport(conf)
    conf.set_override("driver", ["test"], group="oslo_messaging_notifications")
    made = Store.from_url(f"sqlite:///{tmp_path}/n.sqlite")
    tables.metadata.create_all(made.database.engine)
    made.announcer = announcer(rpc.notifier(conf, "project_cleanup.here"), made)
    made.on_commit(made.announcer)
    yield made
    made.announcer.close(60)
    made.close()


def announcer(sender, store=None):
    if store is None:
        return notifications.Announcer(sender, lambda _: ())
    return notifications.Announcer(sender, store.steps)


def create(store, **values):
    return store.create(world.deletion(**values), TASKS, Event("deletion.accepted", "test"))


def received(store, sent, count):
    store.announcer.close(60)
    assert len(sent) == count, sent
    return [(priority, message["event_type"], message["payload"]) for _, message, priority, _ in sent]


def test_the_manual_has_every_field_and_no_other():
    payload = notifications.payload(None, world.deletion())
    assert documented().keys() == payload.keys()


@each_case("status", Status, "conditions", [(), (STALLED,)])
def test_every_field_has_the_documented_type_in_every_status(status, conditions):
    d = world.deletion(status=status, conditions=conditions, finished_at=world.T0 if conditions else None)
    for before in (None, world.deletion()):
        payload = notifications.payload(before, d)
        assert {name: type(value) for name, value in payload.items()} == {
            name: PYTHON[kind] for name, kind in documented().items()
        }
    times = [value for name, value in payload.items() if name.endswith("_at") and value]
    assert times and all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value) for value in times)


WINDOW = datetime.timedelta(days=3)
LATER = world.T0 + datetime.timedelta(hours=5)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"status": Status.ACCEPTED}, world.T0 + WINDOW),
        ({"status": Status.DRAINING}, world.T0 + WINDOW),
        ({"status": Status.INVENTORY, "status_at": LATER}, LATER + WINDOW),  # it never decreases
        ({"status": Status.RECOVERABLE, "point_of_no_return_at": LATER + WINDOW}, LATER + WINDOW),
        ({"status": Status.INVENTORY, "point_of_no_return_at": LATER}, LATER),  # the window is over
        ({"status": Status.DELETING, "point_of_no_return_at": LATER}, LATER),  # deletes began
        ({"status": Status.DELETED, "point_of_no_return_at": LATER}, LATER),
        ({"status": Status.VERIFYING}, None),  # the project was empty
        ({"status": Status.CANCELLED}, None),
        ({"status": Status.ACCEPTED, "mode": Mode.REPORT}, None),
        ({"status": Status.ACCEPTED, "dry_run": True}, None),
    ],
    ids=str,
)
def test_owners_are_told_when_deletes_can_begin(values, expected):
    d = world.deletion(**{"mode": Mode.CASCADE, **values})
    said = notifications.payload(None, d, WINDOW)["deletes_not_before"]
    assert said == (expected.isoformat(timespec="seconds") + "Z" if expected else "")


def test_owners_are_told_which_project_and_who_asked_and_who_had_a_role(announcing_store, sent):
    many = tuple(f"u{n}" for n in range(notifications.MAX_MEMBERS + 5))
    create(announcing_store, project_name="sales", user_id="boss", user_name="Boss", member_ids=many)
    [(_, _, payload)] = received(announcing_store, sent, 1)
    assert (payload["project_name"], payload["user_id"], payload["user_name"]) == ("sales", "boss", "Boss")
    assert payload["created_at"] and payload["member_ids"] == list(many[: notifications.MAX_MEMBERS])


def test_the_manual_names_the_counters():
    said = PAGE.read_text().partition("``counters``")[2].partition("A later release may add fields")[0]
    assert set(re.findall(r"``(\w+)``", said)) == notifications.payload(None, world.deletion())["counters"].keys()


def test_the_manual_names_the_event_types():
    page = PAGE.read_text()
    assert f"``{notifications.PREFIX}.<status>``" in page
    others = {event for event in notifications.event_types() if event.rsplit(".", 1)[1] not in set(map(str, Status))}
    assert all(f"``{event}``" in page for event in others) and others


def test_a_new_record_and_each_of_its_moves_is_announced_once(announcing_store, sent):
    made = create(announcing_store, user_id="u", request_id="req-1", mode=Mode.REPORT)
    moved = save(
        announcing_store,
        made,
        dataclasses.replace(made, status=Status.INVENTORY, reason="inventory_first", message="m"),
    )
    save(announcing_store, moved, dataclasses.replace(moved, round=2))  # the same status: nothing to say
    first, second = received(announcing_store, sent, 2)
    assert first[:2] == ("INFO", "project_cleanup.deletion.accepted")
    assert (first[2]["status_before"], first[2]["user_id"], first[2]["request_id"]) == ("", "u", "req-1")
    assert second[:2] == ("INFO", "project_cleanup.deletion.inventory")
    assert (second[2]["status_before"], second[2]["status"]) == ("accepted", "inventory")
    assert (second[2]["reason"], second[2]["message"], second[2]["mode"]) == ("inventory_first", "m", "report")
    assert [message["publisher_id"] for _, message, *_ in sent] == ["project_cleanup.here"] * 2


def test_a_needed_approval_is_announced_once(announcing_store, sent):
    asks = Condition("approval", True, "too_many_resources", "it is about 9 resources", world.T0)
    made = create(announcing_store)
    asked = save(announcing_store, made, dataclasses.replace(made, conditions=(asks,)))
    more = dataclasses.replace(asks, message="it is about 10 resources")
    still = save(announcing_store, asked, dataclasses.replace(asked, conditions=(more,)))
    save(announcing_store, still, dataclasses.replace(still, conditions=(dataclasses.replace(asks, status=False),)))
    _, (priority, event, payload) = received(announcing_store, sent, 2)
    assert (priority, event) == ("INFO", "project_cleanup.deletion.approval_needed")
    assert payload["approval_message"] == "it is about 9 resources"


def test_what_lost_the_race_is_not_announced(announcing_store, sent):
    made = create(announcing_store)
    save(announcing_store, made, dataclasses.replace(made, round=2))
    with pytest.raises(Exception, match="changed meanwhile"):
        save(announcing_store, made, dataclasses.replace(made, status=Status.DRAINING))
    assert [event for _, event, _ in received(announcing_store, sent, 1)] == ["project_cleanup.deletion.accepted"]


def test_failed_and_stalled_are_errors_and_progress_is_not(announcing_store, sent):
    made = create(announcing_store)
    stuck = save(announcing_store, made, dataclasses.replace(made, conditions=(STALLED,)))
    longer = dataclasses.replace(STALLED, message="blocked by image.image@R1: error")
    still = save(announcing_store, stuck, dataclasses.replace(stuck, conditions=(longer,)))  # still stalled: not new
    well = save(
        announcing_store, still, dataclasses.replace(still, conditions=(dataclasses.replace(STALLED, status=False),))
    )
    save(announcing_store, well, dataclasses.replace(well, status=Status.FAILED))
    found = received(announcing_store, sent, 4)
    assert [(priority, event.rsplit(".", 1)[1]) for priority, event, _ in found] == [
        ("INFO", "accepted"),
        ("ERROR", "stalled"),
        ("INFO", "resumed"),
        ("ERROR", "failed"),
    ]
    assert found[1][2]["stalled_message"] == STALLED.message
    assert (found[1][2]["stalled"], found[2][2]["stalled"]) == (True, False)


BLOCKED = Condition("blocked", True, "person_needed", "image.image@R1: protected", world.T0)


def test_what_only_a_person_can_clear_is_an_error_and_names_it():
    free = world.deletion(status=Status.DELETING)
    stuck = dataclasses.replace(free, conditions=(BLOCKED,))
    assert notifications.announced(free, stuck) == ("blocked",)
    assert notifications.announced(stuck, dataclasses.replace(stuck, round=9)) == ()
    assert notifications.announced(stuck, free) == ("unblocked",)
    assert notifications.announced(stuck, dataclasses.replace(free, status=Status.VERIFYING)) == ("verifying",)
    payload = notifications.payload(free, stuck)
    assert (payload["blocked"], payload["blocked_message"]) == (True, "image.image@R1: protected")


def test_a_hold_and_its_cause_are_announced(announcing_store, sent):
    made = create(announcing_store)
    lien = announcing_store.add_lien(Lien("l", "p", "billing", "an open invoice", world.T0, user_name="alice"))
    on = announcing_store.set_brake(Brake(True, "the storage misbehaves", request_id="req-1"))
    assert announcing_store.set_brake(Brake(True, "once more", request_id="req-2")) == on
    held = Condition("on_hold", True, "lien", "held by lien l", world.T0)
    read = announcing_store.get(made.id)
    stopped = save(announcing_store, read, dataclasses.replace(read, conditions=(held,)))
    announcing_store.remove_lien(lien.id, "u")
    announcing_store.remove_lien(lien.id, "u")
    announcing_store.set_brake(Brake(False, "the storage misbehaves", request_id="req-3"))
    read = announcing_store.get(stopped.id)
    save(announcing_store, read, dataclasses.replace(read, conditions=(dataclasses.replace(held, status=False),)))
    found = received(announcing_store, sent, 7)
    assert [(priority, event.removeprefix("project_cleanup.")) for priority, event, _ in found] == [
        ("INFO", "deletion.accepted"),
        ("INFO", "lien.recorded"),
        ("ERROR", "brake.set"),
        ("INFO", "deletion.on_hold"),
        ("INFO", "lien.removed"),
        ("INFO", "brake.lifted"),
        ("INFO", "deletion.continued"),
    ]
    assert (found[3][2]["on_hold"], found[3][2]["hold_message"], found[6][2]["on_hold"]) == (
        True,
        "held by lien l",
        False,
    )
    assert (found[1][2]["origin"], found[1][2]["expires_at"], found[4][2]["deleted_by"]) == ("billing", "", "u")
    assert (found[2][2]["on"], found[2][2]["reason"]) == (True, "the storage misbehaves")
    page = PAGE.read_text()
    for payload in (found[1][2], found[2][2]):
        assert [name for name in payload if f"``{name}``" not in page] == []


@each_case("before,after", sorted(MOVES))
def test_every_legal_move_is_announced(before, after):
    assert notifications.announced(world.deletion(status=before), world.deletion(status=after)) == (str(after),)


def test_the_end_of_a_stall_is_one_notification():
    before = world.deletion(conditions=(STALLED,))
    assert notifications.announced(before, world.deletion(status=Status.DRAINING)) == ("draining",)


def test_the_counters_are_of_all_steps(announcing_store, sent):
    made = create(announcing_store)
    step = next(s for s in announcing_store.steps(made.id) if s.kind is StepKind.SURVEY)
    waiting = dataclasses.replace(step, state="dispatched", round=1)
    made = save(announcing_store, made, dataclasses.replace(made, status=Status.INVENTORY), [waiting])
    _, mine = announcing_store.claim(step.id, "w", 60)
    announcing_store.put_steps(mine, [dataclasses.replace(world.sweep_step("network.port"), round=1)])
    announcing_store.finish(mine, StepResult(Outcome.CLEAR, calls=3))
    sweep = next(s for s in announcing_store.steps(made.id) if s.kind is StepKind.SWEEP)
    made = announcing_store.get(made.id)
    dispatched = dataclasses.replace(sweep, state="dispatched", round=made.round)
    made = save(announcing_store, made, made, [dispatched])
    _, mine = announcing_store.claim(sweep.id, "w", 60)
    left = (Leftover("a", "a", Reason.PRESENT), Leftover("b", "b", Reason.PRESENT))
    announcing_store.finish(mine, StepResult(Outcome.LEFTOVERS, "present", found=2, kept=1, calls=4, leftovers=left))
    delete = (actions.Move(Status.DELETING, "cascade"),)
    announcing_store.decide(made.id, lambda d, steps, now: actions.apply(d, steps, delete, now))
    *_, (_, event, payload) = received(announcing_store, sent, 3)
    assert event == "project_cleanup.deletion.deleting"
    counters = {"found": 2, "deleted": 0, "remaining": 2, "abandoned": 0, "kept": 1, "unknown": 0, "calls": 7}
    assert payload["counters"] == counters


def test_force_is_announced_once_with_user_and_reason(announcing_store, sent):
    made = create(announcing_store)
    made = save(announcing_store, made, dataclasses.replace(made, status=Status.DELETING))
    asked = Force("burnt down", (), world.T0, 1, 1, "u2", "alice")
    forced = save(announcing_store, made, dataclasses.replace(made, forced=asked))
    save(announcing_store, forced, dataclasses.replace(forced, round=2))
    *_, (priority, event, payload) = received(announcing_store, sent, 3)
    assert (priority, event) == ("INFO", "project_cleanup.deletion.forced")
    assert (payload["forced"], payload["forced_reason"], payload["forced_by"]) == (True, "burnt down", "u2")
    assert payload["status"] == payload["status_before"] == "deleting"


def test_a_plugin_lien_is_announced_like_any_other(announcing_store, sent):
    lien = Lien("l", "p", "plugin:image.image", "image: 1: shared with q", world.T0)
    announcing_store.announcer.lien_changed(lien)
    announcing_store.announcer.lien_changed(dataclasses.replace(lien, deleted_at=world.T0, deleted_by="plugin"))
    told = received(announcing_store, sent, 2)
    assert [event for _, event, _ in told] == ["project_cleanup.lien.recorded", "project_cleanup.lien.removed"]
    assert told[0][2]["origin"] == "plugin:image.image" and told[1][2]["deleted_by"] == "plugin"


def test_a_token_in_a_message_does_not_get_out(announcing_store, sent):
    token = "gAAAAABk2x_Qv-7H9cXlP0aYc3b1ZC9xN5yK8wVt2mRrUuJp"
    condition = dataclasses.replace(STALLED, message=f"X-Auth-Token: {token}")
    create(announcing_store, status=Status.FAILED, message=f"refused {token}", conditions=(condition,))
    for _, _, payload in received(announcing_store, sent, 2):
        assert token not in str(payload)
        assert payload["message"] == "refused ***"


class Broker:
    """Hangs, or fails, as long as the test wants."""

    def __init__(self):
        self.go, self.sent, self.error = threading.Event(), [], None

    def info(self, ctxt, event_type, payload):
        assert self.go.wait(120), "the test did not get as far as letting the broker go on"
        if self.error:
            raise self.error
        self.sent.append(event_type)

    error = info


SECRET = "gAAAAABk2x_Qv-7H9cXlP0aYc3b1ZC9xN5yK8wVt2mRrUuJp"


def test_no_text_of_a_person_or_of_a_service_gets_out_with_a_secret():
    """The reason of a lien, of the brake and of force, and the messages of conditions."""
    sender, text = Kept(), f"found in a log: {SECRET}"
    announcing = announcer(sender)
    announcing.lien_changed(Lien("l", "p", "billing", text, world.T0))
    announcing.brake_changed(Brake(True, text, world.T0, "u", "alice", "req-1"))
    conditions = [Condition(type_, True, "code", text, world.T0) for type_ in ("blocked", "stalled", "on_hold")]
    forced = Force(text, (), world.T0, 1, 1, "u2", "alice")
    announcing.deletion_saved(None, world.deletion(message=text, conditions=tuple(conditions), forced=forced))
    announcing.close(60)
    assert len(sender.told) > 4
    assert [event for _, event, payload in sender.told if SECRET in str(payload)] == []


@pytest.mark.parametrize(
    ("values", "priority"),
    [
        ({"status": ScanStatus.COMPLETED}, "info"),
        ({"status": ScanStatus.INCOMPLETE}, "error"),
        ({"status": ScanStatus.FAILED}, "error"),
        ({"status": ScanStatus.CANCELLED}, "info"),
    ],
)
def test_a_scan_that_did_not_see_everything_needs_an_operator(values, priority):
    sender = Kept()
    announcing = announcer(sender)
    announcing.scan_moved(OrphanScan("s", values["status"], world.T0, world.T0, world.T0, 0, 1))
    announcing.close(60)
    assert [(told, event) for told, event, _ in sender.told] == [
        (priority, f"project_cleanup.orphan_scan.{values['status']}")
    ]


@pytest.mark.parametrize(
    ("type_", "priority"), [("blocked", "error"), ("stalled", "error"), ("on_hold", "info"), ("approval", "info")]
)
def test_what_needs_an_operator_is_an_error(type_, priority):
    sender, before = Kept(), world.deletion(status=Status.DELETING)
    announcing = announcer(sender)
    condition = Condition(type_, True, "code", "why", world.T0)
    announcing.deletion_saved(before, dataclasses.replace(before, conditions=(condition,)))
    announcing.close(60)
    assert [told for told, _event, _payload in sender.told] == [priority]


def test_the_counters_are_those_that_the_api_shows():
    """A type that this attempt has not listed yet had resources, and they are gone: found and deleted never go back."""
    again = {"found": 3, "deleted": 7, "remaining": 1, "kept": 2, "outcome": Outcome.LEFTOVERS, "calls": 9}
    steps = [world.sweep_step("a.b", round=2, found=5, deleted=5, calls=4), world.sweep_step("a.c", round=3, **again)]
    record = world.deletion(status=Status.DELETING, since_round=3, round=3)
    decided = actions.apply(record, steps, (), world.T0).deletion
    counters = notifications.payload(record, decided)["counters"]
    shown = views.progress(decided)
    assert counters == {name: shown[name] for name in counters}
    assert (counters["found"], counters["deleted"], counters["remaining"]) == (13, 12, 1)


SCHEDULED = [Condition("scheduled", True, reason, "", world.T0) for reason in ("date", "in_7_days", "in_1_days")]


@each_case(
    "before,after,says",
    [
        (None, SCHEDULED[0], ["scheduled"]),
        (None, SCHEDULED[1], ["scheduled"]),  # requested a few days before: that is said already
        (SCHEDULED[0], SCHEDULED[1], ["reminder"]),
        (SCHEDULED[1], SCHEDULED[2], ["reminder"]),
        (SCHEDULED[1], SCHEDULED[1], []),
        (SCHEDULED[1], SCHEDULED[0], []),  # postponed
        (SCHEDULED[1], None, ["due"]),
    ],
)
def test_a_date_that_comes_near_is_announced_once(before, after, says):
    records = [world.deletion(conditions=() if each is None else (each,)) for each in (before, after)]
    assert list(notifications.announced(*records)) == says


def test_a_process_that_was_forked_starts_its_own_thread(monkeypatch):
    """A thread does not survive a fork: without one, nothing would be sent, and the queue would fill."""
    sender = Kept()
    announcing = announcer(sender)
    announcing.deletion_saved(None, world.deletion())
    announcing.close(60)
    child = announcing._background._pid + 1
    monkeypatch.setattr(background.os, "getpid", lambda: child)
    announcing.deletion_saved(None, world.deletion())
    announcing.close(60)
    assert len(sender.told) == 2


class Kept:
    """A sender that keeps what it is told."""

    def __init__(self):
        self.told = []

    def info(self, _context, event_type, payload):
        self.told.append(("info", event_type, payload))

    def error(self, _context, event_type, payload):
        self.told.append(("error", event_type, payload))


def counted(result):
    return metrics.NOTIFICATIONS.labels(result)._value.get()


def test_a_broker_that_hangs_delays_no_commit_and_the_queue_is_limited():
    broker = Broker()
    announcing = announcer(broker)
    before, failed = counted("dropped"), counted("failed")
    for _ in range(background.WAITING + 50):
        announcing.deletion_saved(None, world.deletion())
    # The broker still hangs: no commit has waited for it. It has taken one of them, or none yet.
    dropped = counted("dropped") - before
    assert dropped in (49, 50)
    broker.go.set()
    announcing.close(60)
    assert len(broker.sent) == background.WAITING + 50 - dropped
    assert counted("failed") == failed


def test_an_error_of_the_broker_does_not_reach_the_caller():
    broker = Broker()
    broker.error, before = ConnectionError("away"), counted("failed")
    broker.go.set()
    announcing = announcer(broker)
    announcing.deletion_saved(None, world.deletion())
    announcing.close(60)
    assert counted("failed") == before + 1


def test_an_error_of_the_store_while_sending_does_not_reach_the_caller():
    def steps(_):
        raise RuntimeError("no store")

    broker = Broker()
    broker.go.set()
    announcing = notifications.Announcer(broker, steps)
    announcing.scan_moved(OrphanScan("scan", ScanStatus.COMPLETED, world.T0, world.T0, world.T0, 0, 0))
    announcing.close(60)
    assert broker.sent == []


@pytest.mark.parametrize("drivers", [[], ["noop"], [""]])
def test_without_a_driver_no_sender_is_started(drivers):
    conf = cfg.ConfigOpts()
    conf([])
    oslo_messaging.get_notification_transport(conf)
    conf.set_override("driver", drivers, group="oslo_messaging_notifications")
    assert rpc.notifier(conf, "x") is None


@pytest.mark.parametrize(("asked", "tries"), [(-1, 5), (0, 0), (2, 2), (1000, 5)])
def test_no_operator_can_have_it_tried_for_ever(asked, tries):
    conf = cfg.ConfigOpts()
    conf([])
    oslo_messaging.get_notification_transport(conf)
    conf.set_override("driver", ["messagingv2"], group="oslo_messaging_notifications")
    conf.set_override("retry", asked, group="oslo_messaging_notifications")
    assert rpc.notifier(conf, "x").retry == tries


def test_times_are_utc_without_fractions():
    at = datetime.datetime(2026, 1, 31, 23, 59, 59, 999999)
    assert notifications.payload(None, world.deletion(created_at=at))["created_at"] == "2026-01-31T23:59:59Z"
