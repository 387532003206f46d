"""The bus: a process handles all messages that it understands, and drops others with a log line."""

import queue
import threading
import uuid

import oslo_messaging
import pytest
from oslo_config import cfg

from cleanup_orchestrator.messaging import rpc
from tests.support.brokers import RABBITMQ, need_broker


class Served:
    """An engine on a bus."""

    def __init__(self, url):
        self.conf = cfg.CONF  # libraries register options there
        self.conf.reset()
        self.conf([])
        oslo_messaging.set_transport_defaults(f"cleanup_test_{uuid.uuid4().hex}")
        self.transport = oslo_messaging.get_rpc_transport(self.conf, url=url)
        if url.startswith("rabbit"):
            self.conf.set_override("amqp_auto_delete", True, group="oslo_messaging_rabbit")
        self.heard = queue.Queue()
        self.server = rpc.server(self.transport, "engine", "host", rpc.EngineEndpoint(self.heard.put))
        self.server.start(override_pool_size=1)

    def client(self, version):
        """A client of a release whose newest version is this."""
        target = oslo_messaging.Target(topic=rpc.topic(self.conf, "engine"), version=version)
        return oslo_messaging.get_rpc_client(self.transport, target, retry=1)


@pytest.fixture(params=["fake://", pytest.param("rabbit", marks=pytest.mark.real)])
def served(request):
    if request.param == "rabbit":
        need_broker()
    made = Served(RABBITMQ if request.param == "rabbit" else request.param)
    yield made
    made.server.stop()
    made.server.wait()
    made.transport.cleanup()
    oslo_messaging.set_transport_defaults("cleanup_orchestrator")


def following_minor():
    major, minor = rpc.VERSION.split(".")
    return f"{major}.{int(minor) + 1}"


def test_every_method_of_the_bus_is_received():
    assert rpc.METHODS.keys() == {name for name in vars(rpc.Bus) if not name.startswith("_")}


def test_what_it_does_not_know_is_dropped_with_a_line_and_the_next_is_taken(served, caplog):
    """What a later release may send."""
    caplog.set_level("INFO")
    newer = served.client(following_minor())
    newer.cast({}, "news", id="x")  # a method that is not there, of a version that is not
    newer.cast({}, "decide", id="x")  # a method with another meaning
    major = int(rpc.VERSION.split(".")[0])
    served.client(f"{major + 1}.0").cast({}, "decide", id="x")
    served.client(rpc.VERSION).cast({}, "nonsense", id="x")  # an unknown method
    rpc.Caster(served.transport).decide("d")
    assert served.heard.get(timeout=60) == "d"
    assert served.heard.empty()
    lines = [r for r in caplog.records if "a message of another release" in r.getMessage()]
    assert [r.levelname for r in lines] == ["WARNING"] * 4
    assert not any(r.exc_info for r in caplog.records if r.levelname in ("WARNING", "ERROR"))


@pytest.fixture(params=["fake://", pytest.param("rabbit", marks=pytest.mark.real)])
def asked(request):
    """A caster, and a worker whose answer a test chooses."""
    if request.param == "rabbit":
        need_broker()
    made = Served(RABBITMQ if request.param == "rabbit" else request.param)
    made.answers = {}
    made.endpoint = rpc.WorkerEndpoint(made.heard.put, lambda deletion_id: made.answers[deletion_id])
    worker = rpc.server(made.transport, "worker", "host", made.endpoint)
    worker.start(override_pool_size=1)
    yield made
    for server in (worker, made.server):
        server.stop()
        server.wait()
    made.transport.cleanup()
    oslo_messaging.set_transport_defaults("cleanup_orchestrator")


def test_a_worker_answers_on_what_force_may_be_used(asked):
    asked.answers = {"d": {"compute.server": "", "orchestration.stack": "Heat abandons no stacks"}}
    assert rpc.Caster(asked.transport).force("d") == asked.answers["d"]


def test_a_worker_that_fails_or_drops_the_question_gives_no_answer(asked, monkeypatch):
    assert rpc.Caster(asked.transport).force("unknown") is None
    monkeypatch.setattr(rpc, "METHODS", {})
    assert rpc.Caster(asked.transport).force("d") is None


def test_a_worker_gets_steps_in_their_order(asked, monkeypatch):
    monkeypatch.setattr(asked.endpoint, "_handle", lambda *step_ids: asked.heard.put(step_ids))
    rpc.Caster(asked.transport).steps(["c", "a", "b"])
    assert asked.heard.get(timeout=60) == ("c", "a", "b")


def test_without_a_worker_the_question_is_given_up(served, monkeypatch):
    monkeypatch.setattr(rpc, "_ANSWER", 1)
    assert rpc.Caster(served.transport).force("d") is None


@pytest.mark.real
def test_a_worker_that_stops_gets_no_more_casts_while_it_ends_its_steps(caplog):
    need_broker()
    leaving = Served(RABBITMQ)
    go, busy, heard = threading.Event(), threading.Event(), queue.Queue()

    def work(_):
        busy.set()
        go.wait(120)

    leaving.server.dispatcher.endpoints[0]._handle = work
    caster = rpc.Caster(leaving.transport)
    staying = rpc.server(leaving.transport, "engine", "other", rpc.EngineEndpoint(heard.put))
    caster.decide("first")
    assert busy.wait(60)
    staying.start(override_pool_size=1)  # two threads could change the order
    rpc.leave(leaving.server)
    for number in range(6):
        caster.decide(str(number))
    assert [heard.get(timeout=60) for _ in range(6)] == [str(number) for number in range(6)]
    go.set()
    leaving.server.wait()  # a second time
    staying.stop()
    staying.wait()
    leaving.transport.cleanup()
    oslo_messaging.set_transport_defaults("cleanup_orchestrator")
    assert not any(record.levelname in ("ERROR", "CRITICAL") for record in caplog.records)
