"""Real processes that are stopped at work and resume when others have completed the work: they change nothing.

Engine and workers as shipped, over PostgreSQL and RabbitMQ, with the emulated cloud, which audits every write.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
import uuid

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.deletion import Mode, Status, accepted
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.store import Store, database, tables
from tests.cloud.processes import Children
from tests.emulated import Emulated
from tests.emulated.orchestrator import configuration
from tests.support.brokers import RABBITMQ, listeners, need_broker
from tests.support.databases import filled
from tests.support.stores import cancel, save
from tests.support.timing import wait

pytestmark = pytest.mark.real

LEASE = 5


class Hold:
    """Delays the answer to a call, once; the answer was correct at the time of the call."""

    def __init__(self, cloud, method, path):
        self.held, self.go = threading.Event(), threading.Event()
        inner = cloud._server._answer

        def answer(request):
            response = inner(request)
            if request.method == method and request.path.endswith(path) and not self.held.is_set():
                self.held.set()
                self.go.wait(300)
            return response

        cloud._server._answer = answer


class Fleet:
    """An emulated cloud with a small project, and processes over a database and a broker."""

    def __init__(self, folder, url):
        self.cloud = Emulated(projects=0, bystanders=1, seed=5, fences=True)
        self.project = self.cloud.add_project("doomed")
        self.cloud.audit.under_deletion = {self.project}
        user = self.cloud.add_user("doomed-user")
        self.cloud.grant(self.project, user, "member")
        self.network = self.cloud.state.add("RegionOne", "network.network", self.project, name="net").id
        self.port = self.cloud.state.add("RegionOne", "network.port", self.project, network_id=self.network).id
        self.exchange = f"cleanup_test_{uuid.uuid4().hex}"
        self.config = configuration(
            folder,
            self.cloud.auth_url,
            DEFAULT={"transport_url": RABBITMQ, "control_exchange": self.exchange},
            # The broker delivers the messages of a stopped worker to others when its connection counts as dead.
            oslo_messaging_rabbit={
                "amqp_auto_delete": "true",
                "rabbit_transient_queues_ttl": 60,
                "heartbeat_timeout_threshold": 10,
            },
            database={"connection": url},
            orchestrator={"call_timeout": 300},
            engine={"claim_timeout": 20},
            worker={"lease": LEASE, "parallel_deletes": 1},
            limits=dict.fromkeys(("calls_per_second", "calls_at_once", "deletes_per_second"), "default:0"),
        )
        self.store = Store.from_url(url)
        self.children = Children(folder / "log")

    def start(self, part, name, skew=None):
        module = (
            ["cleanup_orchestrator.cmd.processes", part]
            if skew is None
            else ["tests.functional.skewed", str(skew), part]
        )
        command = [sys.executable, "-m", *module, "--config-file", str(self.config)]
        return self.children.start(name, ["exec", "--", *command], python=sys.executable)

    def request(self):
        made = accepted(
            id=str(uuid.uuid4()),
            project_id=self.project,
            project_name="?",
            domain_id="default",
            mode=Mode.CASCADE,
            dry_run=False,
        )
        return self.store.create(made, TASKS, Event("deletion.accepted", "a test asks for it")).id

    def close(self):
        self.children.stop()
        self.store.close()
        self.cloud.close()

    # -- what is on record
    def status(self, deletion_id):
        return self.store.get(deletion_id).status

    def step(self, deletion_id, name):
        return next((s for s in self.store.steps(deletion_id) if s.name == name), None)

    def journal(self, deletion_id):
        return [row.event for row in self.store.events(deletion_id, 100_000)]

    def nudge(self, deletion_id):
        """Make it due at the next tick."""
        with self.store.database.engine.begin() as connection:
            mine = tables.deletions.c.id == deletion_id
            long_ago = self.store.get(deletion_id).created_at
            connection.execute(tables.deletions.update().where(mine).values(wake_at=long_ago))

    def end(self, deletion_id, status, seconds=300):
        wait("it has ended", lambda: self.status(deletion_id) not in transitions.LIVE, seconds)
        assert self.status(deletion_id) is status


def worker_of(step):
    return int(step.worker.rsplit(":", 1)[1]) if step.worker else None


@pytest.fixture
def fleet(tmp_path):
    need_broker()
    with filled("postgresql") as url:
        made = Fleet(tmp_path, url)
        yield made
        made.close()


def test_a_worker_that_resumes_after_its_lease_deletes_and_saves_nothing(fleet):
    """It was stopped between the read of the owner and the delete. Meanwhile the id belongs to another project."""
    hold = Hold(fleet.cloud, "GET", f"/ports/{fleet.port}")
    fleet.start("engine", "engine")
    zombie = fleet.start("worker", "zombie")
    deletion = fleet.request()
    assert hold.held.wait(300), zombie.log.read_text()[-3000:]
    held = fleet.step(deletion, "network.port")
    assert worker_of(held) == zombie.popen.pid
    zombie.signal(signal.SIGSTOP)

    fleet.start("worker", "successor")
    table = fleet.cloud.state.table("RegionOne", "network.port")
    wait("the successor deletes the port", lambda: fleet.port not in table.rows)
    wait("the successor has the step", lambda: fleet.step(deletion, "network.port").fencing_token > held.fencing_token)
    (theirs,) = fleet.cloud.bystanders
    fleet.cloud.state.add("RegionOne", "network.port", theirs, id=fleet.port, name="of another project")
    writes = len(fleet.cloud.audit.writes)
    fleet.end(deletion, Status.DELETED)
    journal, steps = fleet.journal(deletion), fleet.store.steps(deletion)

    hold.go.set()  # its answer still says: the project's
    zombie.signal(signal.SIGCONT)
    wait("the zombie notices", lambda: "its result is dropped" in zombie.log.read_text())
    assert fleet.journal(deletion) == journal
    assert fleet.store.steps(deletion) == steps
    assert not any(
        event.actor.endswith(f":{zombie.popen.pid}") for event in journal if event.type == "resource.deleted"
    )
    assert fleet.port in table.rows
    assert fleet.cloud.audit.foreign_writes() == fleet.cloud.defects == []
    deletes = [
        w for w in fleet.cloud.audit.writes if w.method == "DELETE" and w.target.endswith(f"/ports/{fleet.port}")
    ]
    assert len(deletes) == 1 and fleet.cloud.audit.writes.index(deletes[0]) < writes

    # It works normally again.
    assert zombie.popen.poll() is None


def test_an_engine_that_resumes_after_a_pause_overwrites_no_newer_decision(fleet):
    """It was stopped during a save. Meanwhile the deletion was cancelled, and everything undone."""
    deletion = fleet.request()
    locked = fleet.store.database.engine.connect()
    # The store's connections end an idle transaction after 10 s. On a busy machine an engine needs longer to start.
    locked.exec_driver_sql("SET SESSION idle_in_transaction_session_timeout = 0")
    locked.commit()
    transaction = locked.begin()
    locked.execute(sa.select(tables.deletions).where(tables.deletions.c.id == deletion).with_for_update())
    zombie = fleet.start("engine", "zombie")

    def saving():
        with fleet.store.database.engine.connect() as connection:
            waiting = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            return connection.exec_driver_sql(waiting).scalar_one()

    wait("it saves", saving)
    zombie.signal(signal.SIGSTOP)
    transaction.rollback()
    locked.invalidate()
    locked.close()
    cancel(fleet.store, deletion)
    fleet.start("engine", "successor")
    fleet.start("worker", "worker")
    fleet.end(deletion, Status.CANCELLED)
    before = fleet.store.load(deletion)[:2], fleet.journal(deletion)
    zombie.signal(signal.SIGCONT)
    other = wait("another one is recorded", lambda: fleet.store.live("another") or record(fleet, "another"))
    wait(
        "the zombie goes on with it",
        lambda: fleet.store.get(other.id).status is not Status.ACCEPTED or fleet.step(other.id, "survey").fencing_token,
    )
    assert (fleet.store.load(deletion)[:2], fleet.journal(deletion)) == before
    statuses = [e.type for e in before[1] if e.type.startswith("deletion.")]
    assert statuses == ["deletion.accepted", "deletion.cancelling", "deletion.cancelled"]
    assert fleet.cloud.audit.foreign_writes() == []


def record(fleet, project_id):
    made = accepted(
        id=str(uuid.uuid4()), project_id=project_id, project_name="?", domain_id="d", mode=Mode.CASCADE, dry_run=False
    )
    return fleet.store.create(made, TASKS, Event("deletion.accepted", "x"))


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_process_that_stops_within_a_transaction_does_not_block_others(kind, monkeypatch):
    """A host that stands still: its connections stay, and so do their locks."""
    monkeypatch.setattr(database, "_IDLE", 2)
    with filled(kind) as url:
        still, other = Store.from_url(url), Store.from_url(url)
        made = other.create(
            accepted(
                id="d", project_id="p", project_name="?", domain_id="d", mode=Mode.CASCADE, dry_run=False
            ), TASKS, Event("deletion.accepted", "x"),
        )  # fmt: skip
        connection = still.database.engine.connect()
        connection.execute(tables.deletions.update().values(message="half done"))
        began = time.monotonic()
        saved = save(other, made, made)  # within the retries of the store, else it raises
        assert time.monotonic() - began > 1, "it had to wait"
        with pytest.raises(sa.exc.SQLAlchemyError):
            connection.execute(sa.select(tables.deletions))
            connection.commit()
        connection.invalidate()
        connection.close()
        assert (other.get("d").message, other.get("d").version) == ("", saved.version)
        assert still.get("d").version == saved.version, "it goes on with another connection"
        still.close()
        other.close()


def test_workers_whose_clocks_are_hours_apart_delete_a_project_together(fleet):
    """The code compares times of the database, or durations on one host; never the clocks of two hosts."""
    fleet.start("engine", "engine", skew=-3)
    ahead, behind = fleet.start("worker", "ahead", skew=7), fleet.start("worker", "behind", skew=-7)
    wait("both workers listen", lambda: listeners(fleet.exchange, "worker") == 2)
    deletion = fleet.request()
    fleet.end(deletion, Status.DELETED)
    workers = {worker_of(step) for step in fleet.store.steps(deletion) if step.worker}
    assert workers == {ahead.popen.pid, behind.popen.pid}
    record, now = fleet.store.get(deletion), fleet.store.now()
    for step in fleet.store.steps(deletion):
        assert all(record.created_at <= at <= now for at in (step.started_at, step.finished_at) if at)
    events = fleet.store.events(deletion, 100_000)
    assert all(record.created_at <= row.at <= now for row in events)
    # Those of workers are not in order to the millisecond: a result has the time from before its wait for the lock.
    decided = [row.at for row in events if row.event.actor.startswith("engine@")]
    assert decided and decided == sorted(decided)
    assert fleet.cloud.audit.foreign_writes() == fleet.cloud.defects == []
    takeovers = [step.name for step in fleet.store.steps(deletion) if step.fencing_token > 12]
    assert takeovers == [], "no lease ran out because of a clock"
