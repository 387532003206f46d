"""Messages that no release sends: the process drops each with one log line, and handles the next one."""

import json
import threading
import uuid

import pytest

from cleanup_orchestrator.core.step import StepKind
from cleanup_orchestrator.engine.deletions import Engine
from cleanup_orchestrator.messaging import rpc
from tests.functional.test_rpc import served
from tests.support import sqlite_stores
from tests.support.brokers import connect
from tests.support.stores import create
from tests.unit.worker.test_watchdog import Site

__all__ = ["served"]

#: The defect, and the message.
ENVELOPES = {
    "no method": {"args": {"id": "x"}},
    "a method that is no text": {"method": 5, "args": {"id": "x"}},
    "a method that is a list": {"method": ["decide"], "args": {}},
    "a method with a line break": {"method": "decide\nERROR forged", "args": {}},
    "an inner method": {"method": "_handle", "args": {"id": "x"}},
    "an attribute": {"method": "target", "args": {}},
    "a method of Python's": {"method": "__init__", "args": {"handle": "x"}},
    "an unknown method": {"method": "nonsense", "args": {}},
    "no arguments": {"method": "decide"},
    "arguments that are a list": {"method": "decide", "args": ["x"]},
    "arguments that are none": {"method": "decide", "args": None},
    "an argument too few": {"method": "decide", "args": {}},
    "an argument too many": {"method": "decide", "args": {"id": "x", "force": True}},
    "another argument": {"method": "decide", "args": {"ids": ["x"]}},
    "an id that is a number": {"method": "decide", "args": {"id": 5}},
    "an id that is none": {"method": "decide", "args": {"id": None}},
    "an id that is a list": {"method": "decide", "args": {"id": ["x"]}},
    "an id that is an object": {"method": "decide", "args": {"id": {"$ne": ""}}},
    "a list of no ids": {"method": "steps", "args": {"ids": []}},
    "a list with a number": {"method": "steps", "args": {"ids": ["x", 5]}},
    "a list with a list": {"method": "steps", "args": {"ids": [["x"]]}},
    "an id instead of a list": {"method": "steps", "args": {"ids": "xyz"}},
    "an empty id": {"method": "decide", "args": {"id": ""}},
    "an id with a line break": {"method": "decide", "args": {"id": "x\nERROR forged"}},
    "an id with a NUL": {"method": "decide", "args": {"id": "x\0"}},
    "an id of a megabyte": {"method": "decide", "args": {"id": "x" * 1_000_000}},
    "an id of SQL": {"method": "decide", "args": {"id": "' OR 1=1 --"}},
    "a version that is none": {"method": "decide", "args": {"id": "x"}, "version": "latest"},
    "a version that is a number": {"method": "decide", "args": {"id": "x"}, "version": 1},
    "a version of ages to come": {"method": "decide", "args": {"id": "x"}, "version": "99.0"},
    "another namespace": {"method": "decide", "args": {"id": "x"}, "namespace": "other"},
}


def warnings(caplog):
    return [r for r in caplog.records if r.levelname in ("WARNING", "ERROR", "CRITICAL")]


@pytest.mark.parametrize("what", ENVELOPES)
def test_a_message_that_makes_no_sense_is_dropped_with_one_line(what, caplog):
    heard = []
    dispatcher = rpc._Dispatcher([rpc.EngineEndpoint(heard.append)], None)

    class Incoming:
        message, ctxt, client_timeout = ENVELOPES[what], {}, None

    assert dispatcher.dispatch(Incoming) is None
    assert heard == []
    (line,) = warnings(caplog)
    assert line.message.startswith("dropped ") and "\n" not in line.message and len(line.message) < 300
    assert "forged" not in line.message and line.exc_info is None


def test_over_the_bus_too_and_the_next_one_is_taken(served, caplog):
    client = served.client(rpc.VERSION)
    casts = [("nonsense", {}), ("decide", {}), ("decide", {"id": 5}), ("decide", {"other": "x"})]
    for method, arguments in casts:
        client.cast({}, method, **arguments)
    rpc.Caster(served.transport).decide("d")
    assert served.heard.get(timeout=60) == "d"
    assert served.heard.empty()
    lines = [r for r in warnings(caplog) if r.name == rpc.__name__]
    assert len(lines) == len(casts)
    assert not any(r.exc_info for r in warnings(caplog))


RAW = {
    "no JSON": (b"\xff\xfe garbage", "application/json", "utf-8"),
    "half of JSON": (b'{"oslo.version": "2.0", "oslo.mess', "application/json", "utf-8"),
    "a list": (b"[]", "application/json", "utf-8"),
    "a number": (b"5", "application/json", "utf-8"),
    "null": (b"null", "application/json", "utf-8"),
    "an empty object": (b"{}", "application/json", "utf-8"),
    "nothing": (b"", "application/json", "utf-8"),
    "an unknown envelope": (b'{"oslo.version": "9.0", "oslo.message": "{}"}', "application/json", "utf-8"),
    "an envelope with a list": (b'{"oslo.version": "2.0", "oslo.message": "[]"}', "application/json", "utf-8"),
    "an envelope with text": (b'{"oslo.version": "2.0", "oslo.message": "x"}', "application/json", "utf-8"),
    "a pickle": (b"cos\nsystem\n(S'true'\ntR.", "application/x-python-serialize", "binary"),
    "an unknown type": (b"x", "application/x-unheard-of", "utf-8"),
}  # fmt: skip


@pytest.mark.real
@pytest.mark.parametrize("served", ["rabbit"], indirect=True)
def test_what_is_no_message_at_all_is_dropped_and_the_next_one_is_taken(served, caplog):
    topic = rpc.topic(served.conf, "engine")
    with connect() as connection:
        channel = connection.channel()
        for body, type_, encoding in RAW.values():
            message = channel.prepare_message(body, content_type=type_, content_encoding=encoding)
            channel.basic_publish(message, exchange="", routing_key=topic)
        envelope = {
            "oslo.version": "2.0",
            "oslo.message": json.dumps({"method": "decide", "args": {"id": 5}}),
        }
        message = channel.prepare_message(
            json.dumps(envelope).encode(), content_type="application/json", content_encoding="utf-8"
        )
        channel.basic_publish(message, exchange="", routing_key=topic)
    rpc.Caster(served.transport).decide("d")
    assert served.heard.get(timeout=60) == "d"
    assert served.heard.empty()
    rpc.Caster(served.transport).decide("e")
    assert served.heard.get(timeout=60) == "e"


# ---------------------------------------------------------------------------------------------------- ids of the wrong
class RealTime:
    """The threads and the clock of the operating system, for `Site`: here nothing hangs."""

    def call(self, function, *args):
        return function(*args)

    def until(self, condition):
        assert condition()


@pytest.fixture
def site(tmp_path):
    made = Site(RealTime(), sqlite_stores.in_file(tmp_path / "poison.sqlite"))
    made.with_hooks()
    yield made
    made.close()


@pytest.mark.parametrize("what", ["an unknown id", "a deletion's", "a project's", "garbage"])
def test_a_worker_ignores_the_id_of_what_is_no_step(site, what, caplog):
    caplog.set_level("DEBUG", "cleanup_orchestrator")
    made = site.record()
    before = site.store.load(made.id)[:2]
    caplog.clear()
    given = {
        "an unknown id": str(uuid.uuid4()),
        "a deletion's": made.id,
        "a project's": made.project_id,
        "garbage": "x-y",
    }
    site.worker.handle(given[what])
    assert site.store.load(made.id)[:2] == before
    assert site.announced == []
    assert len([r for r in caplog.records if r.name.startswith("cleanup_orchestrator")]) == 1


@pytest.mark.parametrize("what", ["an unknown id", "a step's", "a project's", "garbage"])
def test_an_engine_ignores_the_id_of_what_is_no_deletion(site, what, caplog):
    made = site.record()
    engine = Engine(site.conf, "e", site.store, site.bus)
    before = site.store.load(made.id)[:2]
    step = site.step(made)
    given = {"an unknown id": str(uuid.uuid4()), "a step's": step.id, "a project's": made.project_id, "garbage": "x-y"}
    caplog.clear()
    engine.handle(given[what])
    assert site.store.load(made.id)[:2] == before
    (line,) = warnings(caplog)
    assert "is no deletion and no orphan scan in the store" in line.message


@pytest.mark.parametrize("state", ["idle", "running", "done"])
def test_a_worker_ignores_a_step_that_was_not_dispatched(site, state):
    made = site.record()
    step = site.step(made)
    if state != "idle":
        _, held = site.store.claim(site.dispatch(made, StepKind.SWEEP, "port").id, "another", 60)
        if state == "done":
            site.store.release_claim(held)
            site.worker.handle(step.id)
    before = site.step(made)
    site.worker.handle(step.id)
    assert site.step(made) == before


def test_a_thousand_doubled_messages_do_a_step_once(site):
    made = site.record()
    begun = []
    site.with_hooks(list=lambda *_: begun.append(1) or [])
    step = site.dispatch(made, StepKind.SWEEP, "port")
    threads = [threading.Thread(target=lambda: [site.worker.handle(step.id) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(begun) == 1
    assert site.step(made).fencing_token == 1


def test_ids_that_fit_no_column_are_not_found_on_every_database(store):
    """The bus accepts letters, digits and dashes. An id that is longer than a column, or unknown, is not found."""
    made = create(store)
    for odd in ("x" * 64, made.id.upper() + "-", "0", "-" * 36):
        assert store.claim(odd, "w", 60) is None
