"""What an operator sees and does with the real processes: health, metrics, reports, SIGHUP. No secret in any of it."""

import json
import queue
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import uuid

import oslo_messaging
import pytest
from oslo_config import cfg
from prometheus_client.parser import text_string_to_metric_families

from cleanup_orchestrator.core.deletion import Mode, Status
from tests.functional.processes import PASSWORD, Keystone, Processes
from tests.functional.test_api import keystone as ks
from tests.support.brokers import RABBITMQ, Wire, need_broker
from tests.support.timing import wait


@pytest.fixture
def keystone():
    keystone = Keystone()
    yield keystone
    keystone.close()


@pytest.fixture
def processes(tmp_path, keystone):
    """The all-in-one process needs no broker."""
    made = []

    def make(**values):
        made.append(Processes(tmp_path, keystone, **{"default": "", **values}))
        return made[-1]

    yield make
    for one in made:
        one.close()


def metrics(all_, port=None):
    """Return every sample by its name and labels."""
    status, text, _ = all_.ask("/metrics", port or all_.metrics)
    assert status == 200
    families = text_string_to_metric_families(text)
    return {(s.name, *sorted(s.labels.items())): s.value for family in families for s in family.samples}


def test_the_monitoring_port_counts_what_happens(processes):
    all_ = processes()
    all_.start("all_in_one")
    answer = all_.ask("/v1/deletions", method="POST", body={"project_id": "p1", "dry_run": True})
    assert answer[0] == 202
    stub_knows_no_role_assignments = ("cleanup_orchestrator_steps_total", ("kind", "survey"), ("outcome", "unknown"))
    wait("a step is counted", lambda: metrics(all_).get(stub_knows_no_role_assignments))
    found = metrics(all_)
    assert found["cleanup_orchestrator_store_up",] == 1
    assert found["cleanup_orchestrator_calls_total", ("service", "identity"), ("status", "2xx")] > 0
    assert found["cleanup_orchestrator_calls_total", ("service", "identity"), ("status", "4xx")] > 0
    count = "cleanup_orchestrator_step_duration_seconds_count"
    assert found[count, ("kind", "survey"), ("service", "-")] >= 1
    counted = ("cleanup_orchestrator_deletions", ("status", "accepted"))
    wait("the store is asked again", lambda: metrics(all_)[counted] == 1)
    labels = {value for key in found for pair in key[1:] for value in pair}
    assert not labels & {"p1", json.loads(answer[1])["deletion"]["id"]}


@pytest.mark.slow
def test_the_health_check_names_what_fails(processes, keystone):
    all_ = processes()
    all_.start("all_in_one")
    for port in (all_.port, all_.metrics):
        assert all_.ask("/healthcheck", port)[:2] == (200, "OK")
    keystone.broken = True
    for port in (all_.port, all_.metrics):
        answer = wait("it is noticed", lambda port=port: (a := all_.ask("/healthcheck", port))[0] == 503 and a)
        assert answer[1] == "keystone unavailable"
        status, text, _ = all_.ask("/healthcheck", port, headers={"Accept": "application/json"})
        said = json.loads(text)
        assert (status, said["status"], said["parts"]["store"]["ok"]) == (503, "unavailable", True)
        assert said["parts"]["keystone"]["message"] == "InternalServerError"
    keystone.broken = False
    wait("it is noticed", lambda: all_.ask("/healthcheck")[0] == 200)


@pytest.mark.slow
def test_a_keystone_that_hangs_hangs_no_health_check(processes, keystone):
    all_ = processes()
    all_.start("all_in_one")
    keystone.hold("GET", "/v3/auth/tokens")
    status, text, _ = all_.ask("/healthcheck", all_.metrics, timeout=30)
    assert (status, text) == (503, "keystone unavailable")
    keystone.resume()
    wait("it answers again", lambda: all_.ask("/healthcheck", all_.metrics)[0] == 200)


@pytest.fixture
def wire():
    need_broker()
    wire = Wire()
    yield wire
    wire.close()


@pytest.mark.real
def test_an_unreachable_broker_is_reported_and_the_api_stays_in_service(processes, wire):
    all_ = processes(default=f"transport_url = {wire.url}")
    all_.start("api")
    assert all_.ask("/healthcheck")[:2] == (200, "OK")
    wire.cut()
    told = "OK\nbus unavailable: requests are recorded, and start with the next tick of an engine"
    wait("it is noticed", lambda: all_.ask("/healthcheck", timeout=30)[:2] == (200, told))
    said = json.loads(all_.ask("/healthcheck", headers={"Accept": "application/json"})[1])
    assert said["status"] == "degraded"
    assert {name: part["ok"] for name, part in said["parts"].items()} == {"store": True, "keystone": True, "bus": False}
    assert all_.ask("/v1/deletions", method="POST", body={"project_id": "p1"})[0] == 202
    failed = ("cleanup_orchestrator_casts_failed_total",)
    wait("it is counted", lambda: metrics(all_)[failed] > 0)
    wire.mend()
    wait("it answers again", lambda: all_.ask("/healthcheck", timeout=30)[1] == "OK")


@pytest.mark.real
@pytest.mark.parametrize("part", ["engine", "worker"])
def test_a_process_without_its_broker_ends_in_time(processes, wire, part):
    all_ = processes(default=f"transport_url = {wire.url}", patience=2)
    child = all_.start(part)
    wire.cut()
    wait("it notices, and tries to come back", lambda: wire.refused)
    child.signal(signal.SIGTERM)
    assert child.popen.wait(60) == 0


@pytest.mark.slow
def test_a_file_takes_the_api_out_of_service(processes, tmp_path):
    down = tmp_path / "down"
    all_ = processes(more=f"[healthcheck]\nbackends = disable_by_file\ndisable_by_file_path = {down}\n")
    all_.start("all_in_one")
    assert all_.ask("/healthcheck")[0] == 200
    down.touch()
    assert all_.ask("/healthcheck")[:2] == (503, "DISABLED BY FILE")


def test_sighup_takes_over_what_may_change_and_nothing_else(processes):
    all_ = processes()
    all_.keystone.otherwise = 503  # the survey fails, and nothing waits for a person
    child = all_.start("all_in_one")
    log = child.log.read_text
    body = {"project_id": "p1", "dry_run": True}
    all_.configure(more="[deletion]\nnever_delete_projects = one\n[database]\nmax_pool_size = 3\n")
    assert all_.ask("/v1/deletions", method="POST", body=body)[0] == 202  # not yet
    child.signal(signal.SIGHUP)
    wait("it says so", lambda: "SIGHUP: changed: [deletion] never_delete_projects\n" in log())
    assert "Ignoring change to immutable option database.max_pool_size" in log()
    assert all_.ask("/v1/deletions", method="POST", body=body)[0] == 403

    all_.configure(more="[engine]\nstall_after = 1\nretry_base = 1.5\n[worker]\nparallel_deletes = 2\n")
    child.signal(signal.SIGHUP)
    assert all_.ask("/v1/deletions", method="POST", body={**body, "project_id": "p2"})[0] == 202
    names = "[deletion] never_delete_projects, [engine] retry_base, [engine] stall_after, [worker] parallel_deletes\n"
    wait("it says so", lambda: names in log())

    def stalled():
        (deletion,) = json.loads(all_.ask("/v1/deletions?project_id=p2")[1])["deletions"]
        return any(c["type"] == "stalled" and c["status"] for c in deletion["conditions"])

    wait("the engine decides by the new rules", stalled)

    assert "DEBUG" not in log()
    all_.configure(default="debug = true")
    child.signal(signal.SIGHUP)
    wait("more is logged", lambda: " DEBUG " in log())


def test_sighup_with_a_broken_file_changes_nothing(processes):
    all_ = processes()
    child = all_.start("all_in_one")
    sound = all_.configuration.read_text()
    all_.configuration.write_text(sound + "\n[deletion\nnever_delete_projects = one\n")
    child.signal(signal.SIGHUP)
    wait("it says so", lambda: "SIGHUP: the configuration is not changed" in child.log.read_text())
    assert all_.ask("/v1/deletions", method="POST", body={"project_id": "p1", "dry_run": True})[0] == 202
    child.signal(signal.SIGTERM)
    assert child.popen.wait(60) == 0


def test_a_guru_meditation_report_says_what_the_process_works_on(processes, keystone):
    all_ = processes()
    child = all_.start("all_in_one")
    keystone.hold("GET", "/v3/projects/p1")
    deletion = all_.record()
    wait("it works", lambda: keystone.held)
    child.signal(signal.SIGUSR2)
    text = wait("it reports", lambda: "Configuration" in (said := child.log.read_text()) and said)
    work = text.partition("Work")[2].partition("====")[2]
    step = all_.step(deletion, "survey")
    assert re.search(rf"survey@-: deletion {deletion.id}, project p1, step {step.id}, for \d+\.\d s, in thread ", work)
    assert "password = ***" in text and PASSWORD not in text
    assert child.popen.poll() is None


HANGS = """
import ctypes
from oslo_config import cfg
from cleanup_orchestrator.monitoring import reports
reports.register(cfg.CONF)
cfg.CONF([])
reports.setup(cfg.CONF, "hangs")
print("it hangs", flush=True)
libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
while True:
    libc.pthread_mutex_lock(mutex)
"""


def test_a_process_whose_main_thread_hangs_reports_where_at_each_request(tmp_path):
    program, log = tmp_path / "hangs.py", tmp_path / "log"
    program.write_text(HANGS)
    with log.open("w") as output, subprocess.Popen([sys.executable, program], stdout=output, stderr=output) as hangs:
        try:
            wait("it hangs", lambda: "it hangs" in log.read_text())
            for times in (1, 2):
                hangs.send_signal(signal.SIGUSR2)
                wait("it reports", lambda times=times: log.read_text().count(" Configuration ") == times)
            assert hangs.poll() is None
        finally:
            hangs.kill()
    assert log.read_text().count("`libc.pthread_mutex_lock(mutex)`") == 2


@pytest.mark.real
def test_each_new_status_is_on_the_bus(processes):
    """As a consumer gets it: over RabbitMQ, in oslo.messaging's own format."""
    need_broker()
    topic = f"cleanup_test_{uuid.uuid4().hex}"
    heard = queue.Queue()

    class Endpoint:
        def info(self, context, publisher_id, event_type, payload, metadata):
            heard.put((publisher_id, event_type, payload))

        error = info

    conf = cfg.CONF
    conf.reset()
    conf([])
    transport = oslo_messaging.get_notification_transport(conf, RABBITMQ)
    conf.set_override("amqp_auto_delete", True, group="oslo_messaging_rabbit")
    # An exchange is not deleted by itself: the one that all notifications of OpenStack go through is there anyway.
    targets = [oslo_messaging.Target(topic=topic)]
    listener = oslo_messaging.get_notification_listener(transport, targets, [Endpoint()], "threading")
    listener.start(override_pool_size=1)
    try:
        more = f"[oslo_messaging_notifications]\ndriver = messagingv2\ntopics = {topic}\ntransport_url = {RABBITMQ}\n"
        all_ = processes(more=more, exchange=conf.control_exchange)
        child = all_.start("all_in_one")
        asked = all_.ask("/v1/deletions", method="POST", body={"project_id": "p1", "dry_run": True})
        deletion_id = json.loads(asked[1])["deletion"]["id"]
        assert all_.ask(f"/v1/deletions/{deletion_id}/cancel", method="POST")[0] == 202
        found = [heard.get(timeout=60) for _ in range(3)]
        assert {who for who, *_ in found} == {f"project_cleanup.{socket.gethostname()}"}
        assert sorted((event, said["status_before"]) for _, event, said in found) == [
            ("project_cleanup.deletion.accepted", ""),
            ("project_cleanup.deletion.cancelled", "cancelling"),
            ("project_cleanup.deletion.cancelling", "accepted"),
        ]
        assert {said["deletion_id"] for *_, said in found} == {deletion_id}
        sent = ("cleanup_orchestrator_notifications_total", ("result", "sent"))
        wait("they are counted", lambda: metrics(all_)[sent] == 3)
        child.signal(signal.SIGTERM)
        assert child.popen.wait(60) == 0
    finally:
        listener.stop()
        listener.wait()
        transport.cleanup()


@pytest.mark.slow
def test_no_secret_is_in_anything_that_leaves_the_process(processes, keystone, tmp_path, monkeypatch):
    """The secrets are the password of the orchestrator, a password in a URL, and tokens in errors of a service."""
    fernet, labelled, in_url = f"gAAAAA{uuid.uuid4().hex}{uuid.uuid4().hex}", uuid.uuid4().hex, uuid.uuid4().hex
    tokens = []
    inner = keystone._answer

    def chatty(method, path, environ):
        tokens.append(environ.get("HTTP_X_AUTH_TOKEN"))
        if path.startswith("/v3/role_assignments"):
            said = (
                f'the token {fernet} of X-Auth-Token: {environ["HTTP_X_AUTH_TOKEN"]} ("password": "{labelled}") fails'
            )
            return 500, {"error": {"code": 500, "title": "x", "message": said}}, []
        return inner(method, path, environ)

    monkeypatch.setattr(keystone, "_answer", chatty)
    unreachable = f"rabbit://someone:{in_url}@127.0.0.1:1/"
    more = (
        f"[oslo_messaging_notifications]\ndriver = messagingv2\ndriver = log\ntransport_url = {unreachable}\n"
        "[oslo_messaging_rabbit]\nrabbit_retry_backoff = 0\n"
    )
    all_ = processes(default="debug = true", more=more)
    child = all_.start("all_in_one")
    deletion = json.loads(all_.ask("/v1/deletions", method="POST", body={"project_id": "p1", "dry_run": True})[1])
    deletion_id = deletion["deletion"]["id"]
    path = f"/v1/deletions/{deletion_id}"

    def failed():
        shown = json.loads(all_.ask(path)[1])["deletion"]
        return [b for b in shown["blockers"] if b["type"] == "survey"]

    (blocker,) = wait("it fails", failed)
    assert "the token *** of X-Auth-Token: ***" in blocker["message"]
    wait("a broker is tried", lambda: "Could not send notification" in child.log.read_text(), 40)
    assert "project_cleanup.deletion.accepted" in child.log.read_text()
    child.signal(signal.SIGUSR2)
    wait("it reports", lambda: "Configuration" in child.log.read_text())
    said = {
        "log and report": child.log.read_text(),
        "record": "".join(sqlite3.connect(tmp_path / "all.sqlite").iterdump()),
        "api": "".join(all_.ask(p)[1] for p in (path, f"{path}/events", f"{path}/leftovers")),
        "metrics": all_.ask("/metrics", all_.metrics)[1],
        "health": "".join(
            all_.ask("/healthcheck", all_.metrics, headers={"Accept": kind})[1]
            for kind in ("text/plain", "application/json")
        ),
    }
    secrets = {PASSWORD, fernet, labelled, in_url, *(token for token in tokens if token)}
    assert len(secrets) > 4
    assert [(where, secret) for where, text in said.items() for secret in secrets if secret in text] == []


@pytest.mark.slow
def test_the_api_process_alone_says_nothing_of_the_store_in_its_metrics(processes):
    """Only the engines report them. If every process gave the same figures, a dashboard might add them up."""
    all_ = processes(default="transport_url = fake://")
    all_.start("api")
    names = {key[0] for key in metrics(all_)}
    assert "cleanup_orchestrator_deletions" not in names
    assert "process_open_fds" in names


@pytest.mark.slow
def test_of_a_record_that_ended_the_engine_counts_no_age(processes):
    all_ = processes()
    all_.record(status=Status.LEFTOVERS, mode=Mode.REPORT)
    all_.start("all_in_one")
    found = metrics(all_)
    assert found["cleanup_orchestrator_deletions", ("status", "leftovers")] == 1
    assert found["cleanup_orchestrator_overdue_seconds",] == 0


@pytest.mark.slow
def test_the_health_check_answers_a_client_with_an_invalid_token(processes):
    all_ = processes()
    all_.start("all_in_one")
    assert all_.ask("/healthcheck", headers={"X-Auth-Token": "nobody"})[0] == 200
    assert all_.ask("/v1/deletions", headers={"X-Auth-Token": "nobody"})[0] == 401
    assert ks.ADMIN not in all_.ask("/healthcheck")[1]
