"""Orphan scans: what happens next, what can be an owner, and what the manual says of them."""

import dataclasses
import datetime
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup_orchestrator.core import orphan_scan
from cleanup_orchestrator.core.orphan_scan import SCANNING, OrphanScan, ScanStatus
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Outcome, ScanCounts, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.messaging import notifications
from cleanup_orchestrator.plugins import registry
from tests.support.cases import each_case

T0 = datetime.datetime(2026, 1, 1)
SECOND = datetime.timedelta(seconds=1)
RULES = Rules()
PAGE = Path(__file__).parents[3] / "doc" / "source" / "admin" / "orphans.rst"


class World:
    """Runs scans as engines and workers would, one effect at a time."""

    def __init__(self, *types, rules=RULES, answers=None):
        self.scan = OrphanScan("s", ScanStatus.ACCEPTED, T0, T0, T0, 3600, 600)
        self.steps = {"catalog": Step("catalog", "s", StepKind.CATALOG)}
        self.types, self.rules, self.now = types, rules, T0
        self.answers = answers or {}
        self.reads = []  # (step, read, when)

    def engine(self):
        decided = orphan_scan.advance(self.scan, tuple(self.steps.values()), self.now, self.rules)
        self.scan = decided.scan
        self.steps.update({step.id: step for step in decided.steps})
        assert set(decided.casts) <= {step.id for step in decided.steps}
        cast = [s for s in self.steps.values() if s.kind is StepKind.SCAN and s.state is StepState.DISPATCHED]
        held = [s for s in self.steps.values() if s.state is StepState.RUNNING and s.lease_until > self.now]
        assert len(cast) + len(held) <= self.rules.scan_steps_at_once
        return decided

    def worker(self, step):
        """Do a step as its answer says: a number of candidates or orphans, ``None`` for unknown, or "lost"."""
        self.reads.append((step.id, step.round, self.now))
        answer = self.answers.get((step.id, step.round), 0)
        answer = answer.pop(0) if isinstance(answer, list) else answer
        if answer == "lost":
            lease = self.now + 60 * SECOND
            self.steps[step.id] = dataclasses.replace(step, state=StepState.RUNNING, lease_until=lease)
            return
        if answer is None:
            result = StepResult(Outcome.UNKNOWN, message="no answer")
        else:
            name = "orphans" if step.round == 2 else "candidates"
            result = StepResult(Outcome.CLEAR, counts=dataclasses.replace(step.counts, **{name: answer}))
        self.steps[step.id] = orphan_scan.record(step, result, self.now)
        if step.id == "catalog" and answer is not None:
            self.steps.update({name: Step(name, "s", StepKind.SCAN, "R", "network", name) for name in self.types})

    def run(self, limit=3000):
        for _ in range(limit):
            decided = self.engine()
            if self.scan.status not in SCANNING:
                return self.scan.status
            ready = [s for s in self.steps.values() if s.state is StepState.DISPATCHED]
            if ready:
                self.worker(ready[0])
            elif not decided.again:
                self.now = max(self.scan.wake_at, self.now + SECOND / 1000)
        raise AssertionError(f"it comes to no end: {self.scan}")


def test_a_scan_without_candidates_reads_once():
    world = World("port", "image")
    assert world.run() is ScanStatus.COMPLETED
    assert [(name, read) for name, read, _ in world.reads] == [("catalog", 1), ("port", 1), ("image", 1)]


def test_what_had_candidates_is_read_again_after_a_while_and_nothing_else():
    world = World("port", "image", answers={("port", 1): 7, ("port", 2): 5})
    assert world.run() is ScanStatus.COMPLETED
    assert world.scan.message == "5 orphans"
    first, second = [when for name, _, when in world.reads if name == "port"]
    assert second - first >= 600 * SECOND
    assert [read for name, read, _ in world.reads if name == "image"] == [1]


def test_the_result_says_what_was_skipped():
    """ "0 orphans" alone looked as if there were none, where two were too young."""
    counts = ScanCounts(listed=9, owner_unknown=1, too_young=2)
    port = Step("port", "s", StepKind.SCAN, "R", "network", "port", outcome=Outcome.CLEAR, counts=counts)
    scan = dataclasses.replace(World().scan, min_age=3600, not_covered=({"type": "zone"},))
    ended = orphan_scan._ended(scan, [port], T0)
    assert ended.status is ScanStatus.COMPLETED
    assert ended.message.split("; ") == [
        "0 orphans",
        "2 too young (less than 3600 seconds)",
        "1 without an owner that can be a project",
        "1 of the types cannot be listed",
    ]


@pytest.mark.parametrize(
    ("answers", "status", "message"),
    [
        ({("catalog", 1): None}, ScanStatus.FAILED, "the catalog could not be read: no answer"),
        ({("port", 1): None}, ScanStatus.INCOMPLETE, "0 orphans; unknown: network.port@R"),
        ({("port", 1): 3, ("port", 2): None}, ScanStatus.INCOMPLETE, "0 orphans; unknown: network.port@R"),
        ({("port", 1): [None, None, 3], ("port", 2): [None, 2]}, ScanStatus.COMPLETED, "2 orphans"),
        ({("port", 1): ["lost", 3], ("port", 2): ["lost", "lost", 3]}, ScanStatus.COMPLETED, "3 orphans"),
        ({("port", 1): "lost"}, ScanStatus.INCOMPLETE, "0 orphans; unknown: network.port@R"),
    ],
    ids=str,
)
def test_how_it_ends(answers, status, message):
    world = World("port", "image", answers=answers)
    assert world.run() is status
    assert world.scan.message == message
    assert world.scan.finished_at == world.now


def test_a_project_that_keystone_said_nothing_of_makes_it_incomplete():
    world = World("port")
    while world.scan.status is ScanStatus.ACCEPTED:
        world.engine()
        for step in [s for s in world.steps.values() if s.state is StepState.DISPATCHED]:
            world.worker(step)
    world.steps["port"] = dataclasses.replace(world.steps["port"], counts=ScanCounts(undecided=1))
    assert world.run() is ScanStatus.INCOMPLETE


def test_a_cast_that_was_lost_is_cast_again_and_counts_as_no_try():
    world = World("port")
    assert world.engine().casts == ("catalog",)
    assert world.engine().casts == ()
    world.now += RULES.claim_timeout
    assert world.engine().casts == ("catalog",)
    assert world.steps["catalog"].attempt == 1


def test_a_read_that_failed_is_repeated_after_a_wait_that_grows():
    world = World("port", answers={("port", 1): [None, None, 0]})
    assert world.run() is ScanStatus.COMPLETED
    first, second, third = (when for _id, _read, when in world.reads[1:])
    assert (second - first, third - second) == (SECOND, 2 * SECOND)


def test_an_ended_scan_is_not_changed():
    for status in set(ScanStatus) - SCANNING:
        scan = dataclasses.replace(World().scan, status=status)
        assert orphan_scan.advance(scan, [], T0, RULES) == orphan_scan.Advance(scan)


ANSWER = st.one_of(st.none(), st.just("lost"), st.integers(0, 3))
TYPES = ("a", "b", "c")


@given(st.fixed_dictionaries({(n, r): st.lists(ANSWER, min_size=6, max_size=6) for n in TYPES for r in (1, 2)}))
def test_a_scan_ends_and_repeats_no_read_too_soon_or_too_often(answers):
    world = World(*TYPES, answers=answers)
    status = world.run()
    assert status in (ScanStatus.COMPLETED, ScanStatus.INCOMPLETE)
    for name in TYPES:
        first = [when for each, read, when in world.reads if (each, read) == (name, 1)]
        second = [when for each, read, when in world.reads if (each, read) == (name, 2)]
        assert 1 <= len(first) <= RULES.attempts and len(second) <= RULES.attempts
        if second:
            assert min(second) - max(first) >= 600 * SECOND
            assert world.steps[name].counts.candidates > 0
        assert not world.steps[name].counts.orphans or second
    unknown = any(world.steps[name].outcome is not Outcome.CLEAR for name in TYPES)
    assert (status is ScanStatus.INCOMPLETE) is unknown


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        ("0123456789abcdef0123456789abcdef", True),
        ("11111111-2222-3333-4444-555555555555", True),
        ("default", True),
        (None, False),
        ("", False),
        ("0" * 32, False),
        ("00000000-0000-0000-0000-000000000000", False),
        ("a/b", False),
        ("a b", False),
        ("*", False),
        ("x" * 65, False),
        ("abc\n", False),
    ],
)
def test_which_values_can_be_an_owner(owner, expected):
    assert orphan_scan.owner_of(owner) == (owner if expected else None)


SERVICES = registry.load().services.values()


@each_case("type_", [t for s in SERVICES for t in s.types], ids=lambda t: t.name)
def test_every_type_is_scanned_or_gives_the_reason_why_not(type_):
    all_projects_view = type_.all_projects_view()
    if all_projects_view is None:
        assert len(str(type_.all_projects)) > 15
    else:
        assert all_projects_view.list is type_.all_projects


def test_the_manual_has_every_status_and_every_field_of_a_notification():
    page = PAGE.read_text()
    statuses, _, fields = page.partition("Notifications\n")
    assert all(statuses.count(f"   * - ``{status}``\n") == 1 for status in ScanStatus)
    payload = notifications.scan_payload(World().scan, [])
    assert set(re.findall(r"   \* - ``(\w+)``\n", fields)) == payload.keys()
    assert all(f"``{name}``" in fields for name in payload["counters"])
    assert f"``{notifications.SCAN_PREFIX}.<status>``" in fields
