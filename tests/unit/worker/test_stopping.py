"""What runs is stopped and started: written down before, and only if it is shown as before."""

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.base import Halt, ProjectDefinition, Run, Use, Verdict
from tests.support import sweeps
from tests.unit.worker.test_deleting import Shelf, row

US = ProjectDefinition("us", "Us", "default", "R1")


class Machines(Shelf):
    """Things that run or do not, by ``on``; it writes down what happens to them, in order."""

    def __init__(self, *rows):
        super().__init__(*rows)
        self.did = []

    def halting(self, **values):
        state = lambda one: Run.ON if one["on"] else Run.OFF  # noqa: E731

        def switch(word, on):
            def act(_connection, _project, resource):
                self.did.append((word, resource.id))
                self.rows[resource.id]["on"] = on

            return act

        return self.type(halt=Halt(state, switch("stop", False), switch("start", True)), **values)

    def halt(self, **values):
        record = lambda resource: self.did.append(("write down", resource.id))  # noqa: E731
        return sweeps.halt(self.halting(**values), None, US, record)


def test_a_stop_is_written_down_and_then_made():
    machines = Machines(row("1", on=True), row("2", on=False), row("3", owner="them", on=True))
    assert machines.halt().outcome is Outcome.CLEAR
    assert machines.did == [("write down", "1"), ("stop", "1")]


def shown_as(**values):
    return lambda *_: {**row("1", on=True), **values}


@pytest.mark.parametrize("values", [{"id": "another"}, {"project_id": "them"}, {"project_id": None}, {"on": False}])
def test_what_is_shown_otherwise_right_before_is_not_stopped(values):
    machines = Machines(row("1", on=True))
    machines.halt(show=shown_as(**values))
    assert machines.did == []


@pytest.mark.parametrize("values", [{"id": "another"}, {"project_id": "them"}, {"project_id": None}, {"on": True}])
def test_what_is_shown_otherwise_is_not_started(values):
    machines = Machines(row("1", on=False))
    sweeps.start(machines.halting(show=shown_as(**{"on": False, **values})), None, US, "1")
    assert machines.did == []
    sweeps.start(machines.halting(show=shown_as(on=False)), None, US, "1")
    assert machines.did == [("start", "1")]


def used(*ids, fails=None):
    """The use by which others need some machines; ``fails``: it cannot be read."""

    def find(_connection, _project, resources):
        if fails is not None:
            raise fails
        return {one.id: Verdict(Reason.FOREIGN, "it is their gateway") for one in resources if one.id in ids}

    return (Use(("network.subnet",), "leaves them without a gateway", find),)


def test_what_others_use_goes_on_running():
    """The cascade leaves it for their sake: a stop would cut them off as well."""
    machines = Machines(row("1", on=True), row("2", on=True))
    assert machines.halt(used_by=used("1")).outcome is Outcome.CLEAR
    assert machines.did == [("write down", "2"), ("stop", "2")]


def test_nothing_is_stopped_while_it_is_not_known_whether_others_use_it():
    machines = Machines(row("1", on=True))
    assert machines.halt(used_by=used(fails=RuntimeError("Neutron is away"))).outcome is Outcome.UNKNOWN
    assert machines.did == []


def test_of_a_list_that_is_too_long_it_is_not_known_what_runs():
    machines = Machines(row("1", on=True), row("2", on=True))
    result = sweeps.halt(machines.halting(), None, US, machines.did.append, most_listed=1)
    assert (result.outcome, machines.did) == (Outcome.UNKNOWN, [])
    assert "whether the others run is not known" in result.message
