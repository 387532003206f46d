"""The two reads of an orphan scan: what is noted, and what is reported."""

import dataclasses
import datetime
import types

import pytest

from cleanup_orchestrator.core import orphan_scan
from cleanup_orchestrator.core.orphan_scan import OrphanScan, ScanPart, ScanStatus
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.base import Resource
from cleanup_orchestrator.worker import orphan_scan as scanning
from tests.unit.world import T0

SCAN = OrphanScan("s", ScanStatus.RUNNING, T0, T0, T0, min_age=3600, reread_after=600)
PART = ScanPart("p", "s", "R1", "network", "port", read=1)

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


def task(store, *resources, part=PART):
    census = types.SimpleNamespace(knows=lambda _projects, project_id, _own: KNOWN[project_id])
    clouds = types.SimpleNamespace(project_id=lambda: "own", seen_by=lambda _: clouds)
    conf = types.SimpleNamespace(worker=None)
    worker = types.SimpleNamespace(store=store, clouds=clouds, conf=conf)
    made = scanning.ScanTask(worker, SCAN, part, census)
    made._projects = lambda: None
    made._listed = lambda: iter(resources)
    return made


def resource(id_, owner, age=None):
    created = (T0 - datetime.timedelta(seconds=age)).isoformat() if age is not None else None
    return Resource(id_, id_, owner, {"id": id_, "created_at": created})


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
    result = task(store, *resources).first()
    assert store.noted == [("dead", "2"), ("dead", "7")]
    assert (result.outcome, result.listed, result.owner_unknown, result.too_young) == (Outcome.CLEAR, 7, 2, 1)
    assert result.undecided == 1


@pytest.mark.parametrize("candidates", [("dead", "silent", "back"), ("silent", "back"), ()])
def test_the_second_read_sees_again_what_still_belongs_to_a_project_that_is_still_dead(candidates):
    store = Records(candidates)
    resources = [resource("2", "dead"), resource("3", "silent"), resource("8", "back"), resource("9", "alive")]
    result = task(store, *resources).second()
    assert store.seen == ([("dead", "2")] if "dead" in candidates else [])
    assert result.undecided == (1 if candidates else 0)


@pytest.mark.parametrize(("seconds", "status", "read"), [(599, ScanStatus.WAITING, 1), (600, ScanStatus.RUNNING, 2)])
def test_the_second_read_begins_when_its_time_has_come(seconds, status, read):
    waiting = dataclasses.replace(SCAN, status=ScanStatus.WAITING, reread_at=T0 + datetime.timedelta(seconds=600))
    now = T0 + datetime.timedelta(seconds=seconds)
    parts = (dataclasses.replace(PART, service="", type=""), PART)
    after = orphan_scan.advance(waiting, parts, now, orphan_scan.Rules()).scan
    assert (after.status, after.read) == (status, read)
