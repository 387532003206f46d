"""What a worker remembers of the projects that Keystone knows."""

import dataclasses

import pytest

from cleanup_orchestrator.core.orphan_scan import OrphanScan, ScanStatus
from cleanup_orchestrator.worker import census
from cleanup_orchestrator.worker.census import Census, Censuses
from tests.unit.world import T0

SCAN = OrphanScan("s", ScanStatus.RUNNING, T0, T0, T0, min_age=3600, reread_after=600)


class Keystone:
    """Projects by their ids: whether Keystone knows them, or what it raises, one answer after the other."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def knows(self, project_id, _own_id):
        self.asked.append(project_id)
        answer = self.answers[project_id].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def get(self, project_id):
        return self.knows(project_id, "")


def test_each_project_is_asked_for_once():
    keystone, known = Keystone(alive=[True], dead=[False]), Census()
    for _ in range(3):
        assert known.knows(keystone, "alive", "own") is True
        assert known.knows(keystone, "dead", "own") is False
    assert keystone.asked == ["alive", "dead"]


def test_an_error_of_one_project_leaves_it_undecided_and_is_not_remembered():
    away = OSError("away")
    keystone, known = Keystone(p=[away, away, away, True], own=[True]), Census()
    assert known.knows(keystone, "p", "own") is None
    assert known.knows(Keystone(p=[away, True], own=[True]), "p", "own") is True


def test_while_keystone_does_not_answer_at_all_nothing_is_said_of_any_project():
    away = OSError("away")
    with pytest.raises(OSError, match="away"):
        Census().knows(Keystone(p=[away], own=[away]), "p", "own")


def test_a_long_scan_forgets_the_projects_that_it_asked_for_first(monkeypatch):
    monkeypatch.setattr(census, "_REMEMBERED", 2)
    keystone, known = Keystone(a=[True, True], b=[True], c=[True]), Census()
    for project_id in "abca":
        assert known.knows(keystone, project_id, "own")
    assert keystone.asked == ["a", "b", "c", "a"]


def test_each_read_of_a_scan_asks_anew():
    made = Censuses()
    first = made.of(SCAN)
    assert made.of(SCAN) is first
    second = made.of(dataclasses.replace(SCAN, read=2))
    assert second is not first
    made.of(dataclasses.replace(SCAN, id="another"))
    assert made.of(SCAN) is not first, "only two are kept"
