"""The recovery window from end to end over the emulated cloud: servers are stopped, and a restore starts them again.

The emulated cloud has no Nova. Networks stand for servers: one that is up runs, and is stopped by taking it down.
"""

from __future__ import annotations

import dataclasses
import threading

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.plugins import base, registry
from tests.emulated.orchestrator import Orchestrator
from tests.support.emulated_site import LEAN
from tests.support.stores import cancel
from tests.support.timing import wait

LONG = 300
NETWORK = "network.network"
CLOUD = {**LEAN, "without": ("image", "object-store", "key-manager"), "things": {NETWORK: 3}}


class Networks:
    """The plugin of Neutron with only networks, which can be stopped, and a record of its calls."""

    def __init__(self):
        self.log = []
        self.gate = None  #: the second stop waits for it
        self.waiting = threading.Event()

    def act(self, up):
        call = base.Rest("network", "/networks/{id}", method="PUT", body={"network": {"admin_state_up": up}})

        def action(connection, project, network):
            if not up and self.gate is not None and len(self.log) == 1:
                self.waiting.set()
                self.gate.wait(LONG)
            call.call(connection, project, network)
            self.log.append(("start" if up else "stop", network.id))

        return action

    def install(self, orchestrator):
        made = registry.load()
        neutron = made.services["network"]
        run = lambda row: base.Run.ON if row["is_admin_state_up"] else base.Run.OFF  # noqa: E731
        halt = base.Halt(run, stop=self.act(False), start=self.act(True))
        alone = {"halt": halt, "after": (), "needed_by": ()}
        [network] = [dataclasses.replace(t, **alone) for t in neutron.types if t.name == "network"]
        services = [made.services["identity"], dataclasses.replace(neutron, types=(network,))]
        orchestrator.parts.registry = registry.Registry(services)
        orchestrator.parts.registry.register_options(orchestrator.parts.conf)
        return orchestrator


@pytest.fixture
def networks():
    return Networks()


@pytest.fixture
def running(emulated):
    """Three networks that are up; a fourth is down already."""
    [project] = emulated.projects
    table = emulated.state.table("RegionOne", NETWORK)
    up = list(table.owned[project].values())
    for row in up:
        table.change(row, {"admin_state_up": True})
    return [*up, emulated.state.add("RegionOne", NETWORK, project, name="down", admin_state_up=False)]


def orchestrator(emulated, folder, networks, days=1.0, stop=True, **more):
    deletion = {"recovery_window": days, "recovery_stop_servers": str(stop).lower()}
    return networks.install(Orchestrator(emulated, folder, deletion=deletion, **more))


def states(rows):
    """Return which of them are up; none: it is gone."""
    return [row.get("admin_state_up") if row.id in row.table.rows else None for row in rows]


def others(emulated):
    table = emulated.state.table("RegionOne", NETWORK)
    return [row.get("admin_state_up") for row in table.rows.values() if row.owner not in emulated.projects]


def condition(made, id_, type_="halted"):
    return next((c for c in made.store.get(id_).conditions if c.type == type_), None)


def halted(made, id_):
    found = condition(made, id_)
    return found is not None and found.status


def restore(made, id_):
    cancel(made.store, id_, "restore")
    made.parts.bus.decide(id_)
    assert made.wait([id_], LONG) == {id_: Status.CANCELLED}
    assert not made.store.get(id_).has_changes


def journal(made, id_, type_):
    return [row.event for row in made.store.events(id_, 10_000) if row.event.type == type_]


def test_what_runs_is_stopped_and_a_restore_starts_exactly_that(emulated, running, networks, tmp_path):
    before = others(emulated)
    with orchestrator(emulated, tmp_path, networks) as made:
        [project] = emulated.projects
        mine = [r for r in running[0].table.owned[project].values() if r.get("admin_state_up")]
        id_ = made.request(project)
        wait("it is stopped", lambda: halted(made, id_), LONG)
        assert made.store.get(id_).status is Status.RECOVERABLE
        assert not any(states(mine)) and others(emulated) == before
        assert f"{len(mine)} stopped" in condition(made, id_).message
        [stopped] = journal(made, id_, "resource.stopped")
        assert {each["id"] for each in stopped.data["resources"]} == {row.id for row in mine}
        found = [r for r in made.store.leftovers(id_, 10_000) if r.leftover.id == running[0].id]
        assert len(found) == 1, "the inventory is what it was"
        # A user starts one of them, and deletes another one.
        running[1].table.change(running[1], {"admin_state_up": True})
        emulated.state.delete("RegionOne", running[2])
        restore(made, id_)
        assert states(running) == [True, True, None, False]
        started = [i for what, i in networks.log if what == "start"]
        assert sorted(started) == sorted(r.id for r in mine if r not in running[1:3])
        said = [event.message for event in journal(made, id_, "drain.undone")]
        assert any("no longer stopped" in text for text in said) and any("is gone" in text for text in said)


@pytest.mark.slow
def test_nothing_is_stopped_unless_the_option_is_set(emulated, running, networks, tmp_path):
    with orchestrator(emulated, tmp_path, networks, stop=False) as made:
        id_ = made.request(emulated.projects[0])
        wait("it rests", lambda: made.store.get(id_).status is Status.RECOVERABLE, LONG)
        restore(made, id_)
        assert networks.log == [] and condition(made, id_) is None


@pytest.mark.slow
def test_when_the_window_is_over_what_was_stopped_is_deleted(emulated, running, networks, tmp_path):
    with orchestrator(emulated, tmp_path, networks, days=10 / 86400) as made:
        id_ = made.request(emulated.projects[0])
        assert made.wait([id_], LONG) == {id_: Status.DELETED}
        assert {what for what, _ in networks.log} == {"stop"}
    assert emulated.audit.deleted_while_not_empty() == []


@pytest.mark.slow
def test_the_brake_withholds_each_stop(emulated, running, networks, tmp_path):
    with orchestrator(emulated, tmp_path, networks) as made:
        emulated.faults.latency(milliseconds=10)
        networks.gate = threading.Event()
        id_ = made.request(emulated.projects[0])
        wait("one is stopped", networks.waiting.is_set, LONG)
        made.store.set_brake(Brake(True, "something is wrong"))
        networks.gate.set()
        wait("it says so", lambda: (c := condition(made, id_)) and c.reason == "on_hold", LONG)
        assert len(networks.log) == 1, "and no other one"
        made.store.set_brake(Brake(False))
        made.parts.bus.decide(id_)
        wait("it is stopped", lambda: halted(made, id_), LONG)
        assert not any(states(running))
        restore(made, id_)
        assert states(running) == [True, True, True, False]


@pytest.mark.slow
def test_a_failed_stop_is_reported_and_tried_again(emulated, running, networks, tmp_path):
    with orchestrator(emulated, tmp_path, networks) as made:
        broken, real = threading.Event(), networks.log
        refused = base.Refused(base.Verdict("error", "its host burns"))
        network = made.parts.registry.find("network", "network")
        stop = network.halt.stop

        def fails(connection, project, resource):
            if not broken.is_set() and resource.id == running[0].id:
                raise refused
            stop(connection, project, resource)

        object.__setattr__(network.halt, "stop", fails)
        id_ = made.request(emulated.projects[0])
        wait("it says so", lambda: (c := condition(made, id_)) and "its host burns" in c.message, LONG)
        assert not halted(made, id_) and states(running)[:2] == [True, False]
        wait("it is a blocker", lambda: "its host burns" in str(made.blockers(id_)), LONG)
        broken.set()
        wait("it is stopped", lambda: halted(made, id_), LONG)
        assert not any(states(running)) and len([i for _, i in real if i == running[1].id]) == 1
        restore(made, id_)
        assert states(running) == [True, True, True, False]


@pytest.mark.slow
def test_a_server_that_does_not_start_is_named_and_the_project_is_restored(emulated, running, networks, tmp_path):
    with orchestrator(emulated, tmp_path, networks) as made:
        [project] = emulated.projects
        id_ = made.request(project)
        wait("it is stopped", lambda: halted(made, id_), LONG)
        network = made.parts.registry.find("network", "network")
        mended, start = threading.Event(), network.halt.start

        def fails(connection, project, resource):
            if not mended.is_set() and resource.id == running[0].id:
                raise base.Refused(base.Verdict("error", "its host burnt down"))
            start(connection, project, resource)

        object.__setattr__(network.halt, "start", fails)
        cancel(made.store, id_, "restore")
        made.parts.bus.decide(id_)
        wait("it is named", lambda: running[0].id in str(made.blockers(id_)), LONG)
        assert states(running) == [False, True, True, False]
        left = made.store.changes(id_)
        assert [change.data.get("id") for change in left] == [running[0].id], "the lock is undone, and all the others"
        assert made.store.get(id_).status is Status.CANCELLING
        mended.set()
        assert made.wait([id_], LONG) == {id_: Status.CANCELLED}
        assert states(running) == [True, True, True, False]


@pytest.mark.slow
def test_a_process_that_ends_while_it_stops_them_is_replaced_and_nothing_is_forgotten(
    emulated, running, networks, tmp_path
):
    networks.gate = threading.Event()
    quick = {"DEFAULT": {"graceful_stop_timeout": 1}, "worker": {"lease": 5}}
    with orchestrator(emulated, tmp_path, networks, **quick) as first:
        id_ = first.request(emulated.projects[0])
        wait("one is stopped", networks.waiting.is_set, LONG)
    assert len(networks.log) == 1
    after = Networks()
    with orchestrator(emulated, tmp_path, after, **quick) as second:
        wait("the others are, too", lambda: halted(second, id_), LONG)
        networks.gate.set()  # the first one comes back, and its step is another one's
        assert not any(states(running))
        restore(second, id_)
        assert states(running) == [True, True, True, False]
        stopped = [i for what, i in [*networks.log, *after.log] if what == "stop"]
        assert len(stopped) == len(set(stopped))


@pytest.mark.slow
def test_a_restore_in_the_midst_of_it_leaves_nothing_stopped(emulated, running, networks, tmp_path):
    networks.gate = threading.Event()
    with orchestrator(emulated, tmp_path, networks, worker={"lease": 5}) as made:
        id_ = made.request(emulated.projects[0])
        wait("one is stopped", networks.waiting.is_set, LONG)
        threading.Timer(1.0, networks.gate.set).start()
        restore(made, id_)
        assert states(running) == [True, True, True, False]
