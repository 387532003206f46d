"""The two reads of an orphan scan: what is noted, and what is reported."""

import dataclasses
import datetime
import types

import pytest

from cleanup_orchestrator.core import orphan_scan
from cleanup_orchestrator.core.orphan_scan import OrphanScan, ScanStatus
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Outcome, ScanCounts, Step, StepKind
from cleanup_orchestrator.plugins.base import Resource, ResourceType
from cleanup_orchestrator.worker.steps.scan import Scan
from tests.unit.world import T0

SCAN = OrphanScan("s", ScanStatus.RUNNING, T0, T0, T0, min_age=3600, reread_after=600)
PORTS = Step("p", "s", StepKind.SCAN, "R1", "network", "port", round=1)
TYPE = ResourceType("port", list="ports", delete="delete_port", created="born")

#: What Keystone says of each project; ``None``: it does not tell.
KNOWN = {"alive": True, "dead": False, "silent": None, "back": True}


class Records:
    """A store that takes every page."""

    def __init__(self, candidates=()):
        self.candidates, self.noted, self.seen = candidates, [], []

    def now(self):
        return T0

    def note_orphans(self, _part, page):
        self.noted += [(one.project_id, one.resource_id) for one in page]
        return True

    def candidate_projects(self, _part):
        return self.candidates

    def see_orphans_again(self, _part, page):
        self.seen += [(one.project_id, one.resource_id) for one in page]
        return True


def run(store, *resources, step=PORTS, type_=TYPE):
    census = types.SimpleNamespace(knows=lambda _projects, project_id, _own: KNOWN[project_id])
    censuses = types.SimpleNamespace(of=lambda _scan: census)
    clouds = types.SimpleNamespace(project_id=lambda: "own")
    worker = types.SimpleNamespace(store=store, censuses=censuses)
    made = Scan(types.SimpleNamespace(worker=worker, scan=SCAN, step=step, clouds=clouds, projects=lambda: None))
    made._type = lambda: type_
    made._listed = lambda _type: iter(resources)
    return made.run()


def resource(id_, owner, age=None):
    created = (T0 - datetime.timedelta(seconds=age)).isoformat() if age is not None else None
    return Resource(id_, id_, owner, {"id": id_, "born": created, "created_at": T0.isoformat()})


def test_the_first_read_notes_what_is_old_enough_of_projects_that_keystone_does_not_know():
    store = Records()
    resources = [
        resource("1", "alive"),
        resource("2", "dead"),
        resource("3", "silent"),
        resource("4", None),
        resource("5", "0" * 32),
        resource("6", "dead", age=3599),
        resource("7", "dead", age=3600),
    ]
    result = run(store, *resources)
    assert store.noted == [("dead", "2"), ("dead", "7")]
    counts = result.counts
    assert (result.outcome, counts.listed, counts.owner_unknown, counts.too_young) == (Outcome.CLEAR, 7, 2, 1)
    assert counts.undecided == 1


def test_the_age_is_that_which_its_type_declares_and_without_one_it_is_unknown():
    for type_, noted in ((TYPE, []), (dataclasses.replace(TYPE, created=""), [("dead", "1")])):
        store = Records()
        run(store, resource("1", "dead", age=5), type_=type_)
        assert store.noted == noted


@pytest.mark.parametrize("candidates", [("dead", "silent", "back"), ("silent", "back"), ()])
def test_the_second_read_sees_again_what_still_belongs_to_a_project_that_is_still_dead(candidates):
    store = Records(candidates)
    resources = [resource("2", "dead"), resource("3", "silent"), resource("8", "back"), resource("9", "alive")]
    result = run(store, *resources, step=dataclasses.replace(PORTS, round=2))
    assert store.seen == ([("dead", "2")] if "dead" in candidates else [])
    assert result.counts.undecided == (1 if candidates else 0)


def test_what_the_first_read_could_not_decide_stays_on_record():
    step = dataclasses.replace(PORTS, round=2, counts=ScanCounts(listed=4, undecided=2))
    assert run(Records(("dead", "silent")), step=step).counts == ScanCounts(listed=4, undecided=3)


@pytest.mark.parametrize(("seconds", "status", "read"), [(599, ScanStatus.WAITING, 1), (600, ScanStatus.RUNNING, 2)])
def test_the_second_read_begins_when_its_time_has_come(seconds, status, read):
    waiting = dataclasses.replace(SCAN, status=ScanStatus.WAITING, reread_at=T0 + datetime.timedelta(seconds=600))
    now = T0 + datetime.timedelta(seconds=seconds)
    steps = (dataclasses.replace(PORTS, kind=StepKind.CATALOG, service="", type=""), PORTS)
    after = orphan_scan.advance(waiting, steps, now, Rules()).scan
    assert (after.status, after.read) == (status, read)
