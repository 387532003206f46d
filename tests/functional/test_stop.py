"""The orderly stop of the real processes: they claim nothing new, and finish or release what is under way."""

import http.client
import signal
import threading
import time

import pytest

from cleanup_orchestrator.core.deletion import Status
from tests.functional.processes import Keystone, Processes
from tests.support.brokers import listeners, need_broker
from tests.support.timing import wait

pytestmark = pytest.mark.real

INVENTORY = ("GET", "/v3/projects/p1")  #: the first call of a survey
UNDO = ("DELETE", "/v3/projects/p1/users/u/roles/r")  #: the write that removes a recorded grant


@pytest.fixture
def processes(tmp_path):
    need_broker()
    made = []

    def make(**values):
        keystone = Keystone()
        made.append((Processes(tmp_path, keystone, **values), keystone))
        return made[-1][0]

    yield make
    for one, keystone in made:
        one.close()
        keystone.close()


def worker_of(row):
    return int(row.worker.rsplit(":", 1)[1]) if row.worker else None


def held(all_, call):
    return wait(f"{call} is under way", lambda: all_.keystone.held == [call])


def said(child, text):
    wait(f"it logs: {text}", lambda: text in child.log.read_text())


def ended(child, seconds):
    """Return the exit code, once it has ended."""
    return child.popen.wait(seconds)


def test_the_claim_of_a_step_that_hangs_in_a_read_is_released_and_another_worker_claims_it(processes):
    all_ = processes(patience=2, lease=300)
    all_.start("engine")
    doomed = all_.start("worker", "doomed")
    all_.keystone.hold(*INVENTORY)
    deletion = all_.record()
    held(all_, INVENTORY)
    survivor = all_.start("worker", "survivor")
    began = time.monotonic()
    doomed.signal(signal.SIGTERM)
    assert ended(doomed, 60) == 0
    assert time.monotonic() - began > 2, "the step had its time"
    taken = wait("another takes it", lambda: (s := all_.step(deletion, "survey")).fencing_token > 1 and s, 60)
    assert worker_of(taken) == survivor.popen.pid
    assert "survey@-: its claim is released" in doomed.log.read_text()
    assert "Traceback" not in doomed.log.read_text()


def test_a_step_that_hangs_in_a_write_stays_until_its_lease_is_over(processes):
    """The write may still take effect: it would overtake another worker that undoes it or makes the next write."""
    all_ = processes(patience=0, lease=30)
    all_.start("engine")
    doomed = all_.start("worker", "doomed")
    all_.keystone.hold(*UNDO)
    deletion = all_.record(status=Status.CANCELLING)
    all_.change(deletion, "grant_added", actor="users", actor_id="u", role_id="r")
    held(all_, UNDO)
    survivor = all_.start("worker", "survivor")
    doomed.signal(signal.SIGTERM)
    assert ended(doomed, 60) == 0
    left = all_.step(deletion, "release")
    assert (left.state, left.fencing_token, worker_of(left)) == ("running", 1, doomed.popen.pid)
    assert left.lease_until > all_.store.now()
    assert "a write call does not end" in doomed.log.read_text()

    def taken_over():
        all_.nudge(deletion)
        return (step := all_.step(deletion, "release")).fencing_token == 2 and step

    taken = wait("another takes it", taken_over, 150, 0.3)
    assert taken.started_at >= left.lease_until
    assert worker_of(taken) == survivor.popen.pid
    wait("it is cancelled", lambda: all_.store.get(deletion.id).status is Status.CANCELLED)


def test_the_claim_of_a_step_is_released_when_its_write_returns_before_the_process_ends(processes):
    all_ = processes(patience=1, lease=300)
    all_.start("engine")
    doomed = all_.start("worker", "doomed")
    all_.keystone.hold(*UNDO)
    deletion = all_.record(status=Status.CANCELLING)
    all_.change(deletion, "grant_added", actor="users", actor_id="u", role_id="r")
    held(all_, UNDO)
    doomed.signal(signal.SIGTERM)
    said(doomed, "releasing the claims on the steps still under way")  # the patience is over: it waits for the write
    assert doomed.popen.poll() is None
    assert all_.step(deletion, "release").state == "running"
    all_.keystone.resume()
    assert ended(doomed, 60) == 0
    assert all_.step(deletion, "release").state == "dispatched"


def test_a_step_that_ends_in_time_is_finished_by_its_worker(processes):
    all_ = processes(patience=30, lease=300)
    engine, worker = all_.start("engine"), all_.start("worker")
    all_.keystone.hold(*INVENTORY)
    deletion = all_.record()
    held(all_, INVENTORY)
    worker.signal(signal.SIGTERM)
    said(worker, "SIGTERM: stopping")
    assert worker.popen.poll() is None
    all_.keystone.resume()
    assert ended(worker, 60) == 0
    survey = all_.step(deletion, "survey")
    assert (survey.fencing_token, survey.finished_at is not None) == (1, True)
    assert worker_of(survey) == worker.popen.pid
    engine.signal(signal.SIGTERM)
    assert ended(engine, 60) == 0


def test_a_worker_that_is_being_stopped_takes_nothing_new(processes):
    all_ = processes(patience=60, lease=300)
    all_.start("engine")
    doomed = all_.start("worker", "doomed")
    all_.keystone.hold(*INVENTORY)
    all_.record()
    held(all_, INVENTORY)
    survivor = all_.start("worker", "survivor")
    doomed.signal(signal.SIGTERM)
    # The broker gives every second step to each of two workers that listen.
    wait("one of two listens", lambda: listeners(all_.values["exchange"], "worker") == 1)
    others = [all_.record(project_id) for project_id in ("p2", "parent", "child-1", "child-2")]
    for other in others:
        taken = wait("it is taken", lambda other=other: (s := all_.step(other, "survey")).fencing_token and s)
        assert worker_of(taken) == survivor.popen.pid
    assert doomed.popen.poll() is None


def test_the_all_in_one_process_releases_its_claims_for_its_successor(processes):
    all_ = processes(patience=1, lease=300, default="")
    first = all_.start("all_in_one", "first")
    all_.keystone.hold(*INVENTORY)
    deletion = all_.record()
    held(all_, INVENTORY)
    first.signal(signal.SIGTERM)
    assert ended(first, 60) == 0
    assert all_.step(deletion, "survey").state == "dispatched"
    all_.keystone.resume()
    all_.start("all_in_one", "second")
    all_.nudge(deletion)
    # Its cast went with the first one's bus: it is due again after [engine] claim_timeout.
    wait("it is taken", lambda: all_.nudge(deletion) or all_.step(deletion, "survey").fencing_token > 1, 45, 1)


@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_a_process_at_once(processes, again):
    all_ = processes(patience=120, lease=300)
    all_.start("engine")
    worker = all_.start("worker")
    all_.keystone.hold(*INVENTORY)
    deletion = all_.record()
    held(all_, INVENTORY)
    worker.signal(signal.SIGTERM)
    said(worker, "SIGTERM: stopping")
    assert worker.popen.poll() is None
    worker.signal(again)
    assert ended(worker, 60) == -again
    assert all_.step(deletion, "survey").state == "running"  # as after any crash: its lease runs out


def test_the_api_answers_the_requests_that_it_has_and_takes_no_others(processes):
    all_ = processes(patience=30)
    api = all_.start("api")
    wait("it listens", lambda: all_.up(all_.port))
    all_.keystone.hold(*INVENTORY)
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(all_.ask("/v1/deletions", method="POST", body={"project_id": "p1"}))
    )
    asking.start()
    held(all_, INVENTORY)
    api.signal(signal.SIGTERM)
    wait("it takes no others", lambda: not reachable(all_.port), 60)
    assert api.popen.poll() is None
    all_.keystone.resume()
    asking.join(120)
    assert [status for status, *_ in answers] == [202]
    assert ended(api, 60) == 0


def reachable(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
