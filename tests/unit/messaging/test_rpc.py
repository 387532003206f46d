"""The bus without a broker: what is sent, how often it is tried again, and which messages are dropped."""

import types

import oslo_messaging
import pytest

from cleanup_orchestrator.messaging import rpc
from cleanup_orchestrator.monitoring import metrics

TRANSPORT = types.SimpleNamespace(conf=types.SimpleNamespace(control_exchange="ours"))


class Client:
    """A client of oslo.messaging that says what it is told; its broker may be down."""

    def __init__(self, target, retry):
        self.target, self.retry, self.sent, self.error, self.answer = target, retry, [], None, None

    def prepare(self, **options):
        self.sent.append(options)
        return self

    def cast(self, _context, method, **ids):
        self.sent.append((method, ids))
        if self.error:
            raise self.error

    def call(self, context, method, **ids):
        self.cast(context, method, **ids)
        return self.answer


@pytest.fixture
def clients(monkeypatch):
    made = []

    def client(_transport, target, retry):
        made.append(Client(target, retry))
        return made[-1]

    monkeypatch.setattr(oslo_messaging, "get_rpc_client", client)
    return made


def test_nothing_that_a_user_waits_for_is_tried_for_ever(clients):
    """-1 and None mean no limit: a request would hang for as long as the broker is down."""
    rpc.Caster(TRANSPORT)
    rpc.check(TRANSPORT)
    assert [client.retry in (0, 1, 2) for client in clients] == [True, True, True]
    assert clients[2].retry == 0


def test_the_topics_are_those_of_one_orchestrator(clients):
    rpc.Caster(TRANSPORT)
    assert [client.target.topic for client in clients] == ["ours.engine", "ours.worker"]


CASTS = {
    "deletion": (("d",), {"deletion_id": "d"}),
    "orphan_scan": (("s",), {"scan_id": "s"}),
    "step": (("p",), {"step_id": "p"}),
    "step_batch": ((("p", "q"),), {"step_ids": ["p", "q"]}),
    "orphan_scan_part": (("r",), {"part_id": "r"}),
}


@pytest.mark.parametrize("method", CASTS)
@pytest.mark.parametrize("error", [None, OSError("the broker is down")])
def test_a_cast_names_the_version_of_its_method_and_fails_nobody(clients, caplog, method, error):
    caster = rpc.Caster(TRANSPORT)
    arguments, ids = CASTS[method]
    client = clients[0 if method in ("deletion", "orphan_scan") else 1]
    client.error, before = error, metrics.CASTS_FAILED._value.get()
    getattr(caster, method)(*arguments)
    assert client.sent == [{"version": rpc.METHODS[method]}, (method, ids)]
    assert metrics.CASTS_FAILED._value.get() - before == (1 if error else 0)
    assert ("the next tick finds the record" in caplog.text) is bool(error)


@pytest.mark.parametrize(("answer", "returned"), [({"a.b": ""}, {"a.b": ""}), (None, None), ("no", None)])
def test_only_a_mapping_is_an_answer(clients, answer, returned):
    caster = rpc.Caster(TRANSPORT)
    clients[1].answer = answer
    assert caster.force("d") == returned


def test_a_broker_that_refuses_is_named(monkeypatch):
    def refused(*_, **__):
        raise OSError("connection refused")

    monkeypatch.setattr(oslo_messaging, "get_rpc_client", refused)
    with pytest.raises(rpc.BrokerUnavailable, match="transport_url: OSError: connection refused"):
        rpc.check(TRANSPORT)


class Endpoint:
    """An endpoint that has more than the methods of the bus."""

    target = oslo_messaging.Target(version=rpc.VERSION)

    def __init__(self):
        self.heard = []

    def step(self, _context, step_id):
        self.heard.append(step_id)

    def step_batch(self, _context, step_ids):
        self.heard.append(step_ids)

    def close(self, _context):
        self.heard.append("closed")


MESSAGES = {
    "a step": ({"method": "step", "args": {"step_id": "p"}}, ["p"], ""),
    "a batch": ({"method": "step_batch", "version": "1.2", "args": {"step_ids": ["p"]}}, [["p"]], ""),
    "no object": ("step", [], "it is no object"),
    "no method": ({"args": {}}, [], "it names no method"),
    "a method with a line end": ({"method": "step\n", "args": {}}, [], "it names no method"),
    "another argument": ({"method": "step", "args": {"step_id": "p", "more": 1}}, [], "step has other arguments"),
    "no argument": ({"method": "step", "args": {}}, [], "step has other arguments"),
    "no arguments": ({"method": "step", "args": ["p"]}, [], "its arguments are no object"),
    "an id that is none": ({"method": "step", "args": {"step_id": "p; drop"}}, [], "step has no id"),
    "an id that is a number": ({"method": "step", "args": {"step_id": 3}}, [], "step has no id"),
    "a list without ids": ({"method": "step_batch", "args": {"step_ids": []}}, [], "step_batch has no id"),
    "a version that is none": ({"method": "step", "version": "x", "args": {}}, [], "its version is none"),
    "another attribute": ({"method": "close", "args": {}}, [], "a message of another release"),
    "a newer version": ({"method": "step", "version": "2.0", "args": {}}, [], "a message of another release"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_that_is_not_understood_is_dropped_with_a_line(caplog, name):
    message, heard, said = MESSAGES[name]
    endpoint = Endpoint()
    rpc._Dispatcher([endpoint], None).dispatch(types.SimpleNamespace(message=message, ctxt={}, client_timeout=None))
    assert endpoint.heard == heard
    assert said in caplog.text and bool(said) == bool(caplog.text)
