"""Two releases on one bus: the older one handles all messages that it understands, and drops others with a log line."""

import queue
import threading
import uuid

import oslo_messaging
import pytest
from oslo_config import cfg

from cleanup_orchestrator.messaging import rpc
from tests.support.brokers import RABBITMQ, need_broker


class Served:
    """An engine of this release, on a bus."""

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


def test_every_method_of_the_bus_names_its_version():
    methods = {name for name in vars(rpc.Bus) if not name.startswith("_")}
    assert rpc.METHODS.keys() == methods
    newest = max(rpc.METHODS.values(), key=lambda version: [int(part) for part in version.split(".")])
    assert newest == rpc.VERSION


def test_a_newer_release_is_understood_where_it_uses_what_there_was(served, monkeypatch):
    """The next release has a method more, and so a newer version; it casts the old methods as it always did."""
    monkeypatch.setattr(rpc, "VERSION", following_minor())
    monkeypatch.setitem(rpc.METHODS, "news", following_minor())
    rpc.Caster(served.transport).deletion("d")
    assert served.heard.get(timeout=60) == "d"


def test_what_it_does_not_know_is_dropped_with_a_line_and_the_next_is_taken(served, caplog):
    caplog.set_level("INFO")
    newer = served.client(following_minor())
    newer.cast({}, "news", deletion_id="x")  # a method that is not there, of a version that is not
    newer.cast({}, "deletion", deletion_id="x")  # a method with another meaning
    served.client(rpc.VERSION).cast({}, "nonsense", deletion_id="x")  # an unknown method
    rpc.Caster(served.transport).deletion("d")
    assert served.heard.get(timeout=60) == "d"
    assert served.heard.empty()
    lines = [r for r in caplog.records if "a message of another release" in r.getMessage()]
    assert [r.levelname for r in lines] == ["WARNING"] * 3
    assert not any(r.exc_info for r in caplog.records if r.levelname in ("WARNING", "ERROR"))


def test_another_major_version_is_dropped(served, caplog):
    major = int(rpc.VERSION.split(".")[0])
    served.client(f"{major + 1}.0").cast({}, "deletion", deletion_id="x")
    rpc.Caster(served.transport).deletion("d")
    assert served.heard.get(timeout=60) == "d"
    assert served.heard.empty()
    assert sum("a message of another release" in text for text in caplog.messages) == 1


@pytest.fixture(params=["fake://", pytest.param("rabbit", marks=pytest.mark.real)])
def asked(request):
    """A caster, and a worker of some release, whose answer a test chooses."""
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


def test_a_worker_that_fails_or_is_of_the_release_before_gives_no_answer(asked, monkeypatch):
    assert rpc.Caster(asked.transport).force("unknown") is None
    monkeypatch.setitem(rpc.METHODS, "force", following_minor())  # newer than what is served
    assert rpc.Caster(asked.transport).force("d") is None


def test_a_worker_gets_the_steps_of_a_batch_in_their_order(asked, monkeypatch):
    rpc.Caster(asked.transport).step("a")
    assert asked.heard.get(timeout=60) == "a"
    monkeypatch.setattr(asked.endpoint, "_handle", lambda *step_ids: asked.heard.put(step_ids))
    rpc.Caster(asked.transport).step_batch(["c", "a", "b"])
    assert asked.heard.get(timeout=60) == ("c", "a", "b")


def test_a_worker_of_the_release_before_drops_a_batch_and_takes_the_next_step(asked, monkeypatch, caplog):
    monkeypatch.setitem(rpc.METHODS, "step_batch", following_minor())  # newer than what is served
    caster = rpc.Caster(asked.transport)
    caster.step_batch(["a", "b"])
    caster.step("c")
    assert asked.heard.get(timeout=60) == "c"
    assert asked.heard.empty()
    assert sum("a message of another release" in text for text in caplog.messages) == 1


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
    caster.deletion("first")
    assert busy.wait(60)
    staying.start(override_pool_size=1)  # two threads could change the order
    rpc.leave(leaving.server)
    for number in range(6):
        caster.deletion(str(number))
    assert [heard.get(timeout=60) for _ in range(6)] == [str(number) for number in range(6)]
    go.set()
    leaving.server.wait()  # a second time
    staying.stop()
    staying.wait()
    leaving.transport.cleanup()
    oslo_messaging.set_transport_defaults("cleanup_orchestrator")
    assert not any(record.levelname in ("ERROR", "CRITICAL") for record in caplog.records)
