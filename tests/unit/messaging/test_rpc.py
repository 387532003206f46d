"""The bus without a broker: what is sent, how often it is tried again, and which messages are dropped."""

import types

import oslo_messaging
import pytest
from oslo_config import cfg

from cleanup_orchestrator import opts
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
    "decide": ("d", {"id": "d"}),
    "steps": (("p", "q"), {"ids": ["p", "q"]}),
}


@pytest.mark.parametrize("method", CASTS)
@pytest.mark.parametrize("error", [None, OSError("the broker is down")])
def test_a_cast_fails_nobody(clients, caplog, method, error):
    caster = rpc.Caster(TRANSPORT)
    given, ids = CASTS[method]
    client = clients[0 if method == "decide" else 1]
    client.error, before = error, metrics.CASTS_FAILED._value.get()
    getattr(caster, method)(given)
    assert client.sent == [(method, ids)]
    assert metrics.CASTS_FAILED._value.get() - before == (1 if error else 0)
    assert ("the next tick finds the record" in caplog.text) is bool(error)


@pytest.mark.parametrize(("answer", "returned"), [({"a.b": ""}, {"a.b": ""}), (None, None), ("no", None)])
def test_only_a_mapping_is_an_answer(clients, answer, returned):
    caster = rpc.Caster(TRANSPORT)
    clients[1].answer = answer
    assert caster.force("d") == returned


def test_the_broker_is_asked_with_another_configuration_than_that_of_a_process():
    """As ``cloud check`` does: oslo.messaging has options that it registers in ``cfg.CONF`` alone."""
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([])
    rpc.check(rpc.transport(conf, in_process=True))


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

    def decide(self, _context, id):
        self.heard.append(id)

    def steps(self, _context, ids):
        self.heard.append(ids)

    def close(self, _context):
        self.heard.append("closed")


MESSAGES = {
    "a deletion": ({"method": "decide", "args": {"id": "p"}}, ["p"], ""),
    "steps": ({"method": "steps", "version": "1.0", "args": {"ids": ["p", "q"]}}, [["p", "q"]], ""),
    "no object": ("decide", [], "it is no object"),
    "no method": ({"args": {}}, [], "it names no method"),
    "a method with a line end": ({"method": "decide\n", "args": {}}, [], "it names no method"),
    "another argument": ({"method": "decide", "args": {"id": "p", "more": 1}}, [], "decide has other arguments"),
    "no argument": ({"method": "decide", "args": {}}, [], "decide has other arguments"),
    "no arguments": ({"method": "decide", "args": ["p"]}, [], "its arguments are no object"),
    "an id that is none": ({"method": "decide", "args": {"id": "p; drop"}}, [], "decide has no id"),
    "an id that is a number": ({"method": "decide", "args": {"id": 3}}, [], "decide has no id"),
    "a list without ids": ({"method": "steps", "args": {"ids": []}}, [], "steps has no id"),
    "a version that is none": ({"method": "decide", "version": "x", "args": {}}, [], "its version is none"),
    "another attribute": ({"method": "close", "args": {}}, [], "a message of another release"),
    "a newer version": ({"method": "decide", "version": "2.0", "args": {}}, [], "a message of another release"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_that_is_not_understood_is_dropped_with_a_line(caplog, name):
    message, heard, said = MESSAGES[name]
    endpoint = Endpoint()
    rpc._Dispatcher([endpoint], None).dispatch(types.SimpleNamespace(message=message, ctxt={}, client_timeout=None))
    assert endpoint.heard == heard
    assert said in caplog.text and bool(said) == bool(caplog.text)
