"""A plugin of pytest: which tests a run has, and in which order several test processes take them."""

from __future__ import annotations

import collections
import functools
import json
import math
import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support import commit, real_services

#: By tier, the seconds of each file, or of each test of a file that processes divide. `--record-durations` writes it.
DURATIONS = pathlib.Path(__file__).with_name("durations.json")
#: The tier of a run, by its `-m`; any other run counts as `long`. A file may have tests of several tiers.
TIERS = {"not real and not slow and not long": "tox", "(real or slow) and not long": "real"}
#: All files that need the whole cloud for themselves: one test process has them all, so that no other waits for it.
ALONE = "the whole cloud, alone"
#: Files whose tests share nothing expensive: several processes may divide them.
DIVIDED = ("tests/simulation/", "tests/functional/test_crash_points.py", "tests/functional/test_emulated.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cleanup-orchestrator")
    group.addoption(
        "--per-commit",
        action="store_true",
        help="leave out the files that take turns, but for those whose turn it is and what the commit changes",
    )
    group.addoption("--record-durations", action="store_true", help=f"update {DURATIONS.name}")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("per_commit"):
        config.stash[_CHOSEN] = choice()
    config.pluginmanager.register(_Order(config), "order")
    if config.getoption("record_durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(tier_of(config)), "recorder")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: one process more than processors, for some tests wait."""
    return len(os.sched_getaffinity(0)) + 1


_CHOSEN = pytest.StashKey[commit.Choice]()


def _recorded() -> dict[str, dict[str, float]]:
    return json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}


def durations(tier: str | None = None) -> dict[str, float]:
    """Returns the recorded seconds of each file or test, in one tier, or in the tier in which it takes longest."""
    tiers = _recorded()
    found: dict[str, float] = {}
    for recorded in tiers.values() if tier is None else [tiers.get(tier, {})]:
        found |= {unit: max(seconds, found.get(unit, 0)) for unit, seconds in recorded.items()}
    return found


def of_files(recorded: Mapping[str, float]) -> dict[str, float]:
    """Returns the seconds of each file, which are those of its tests if processes divide it."""
    found: dict[str, float] = {}
    for unit, seconds in recorded.items():
        file = unit.partition("::")[0]
        found[file] = found.get(file, 0) + seconds
    return found


def choice() -> commit.Choice:
    """Returns which of the files that take turns this commit runs."""
    seconds = of_files(durations("real"))
    turns, sources = real_services.turns(seconds), real_services.SOURCES
    return commit.choose(commit.commit(), real_services.ALWAYS, turns, sources, seconds, real_services.BUDGET)


def tier_of(config: pytest.Config) -> str:
    """Returns the tier of a run."""
    return TIERS.get(config.getoption("markexpr"), "long")


def seconds_of(unit: str, recorded: Mapping[str, float]) -> float:
    """Returns the seconds that a file or a test takes, as far as they were recorded.

    A test without a record takes as long as the longest case of its function, or of its file. A new file counts as
    long: if it is long and ran last, the other processes would wait for it.
    """
    if unit in recorded:
        return recorded[unit]
    for end in ("[", "::"):
        same = [seconds for name, seconds in recorded.items() if name.partition(end)[0] == unit.partition(end)[0]]
        if same:
            return max(same)
    return math.inf


def pytest_report_header(config: pytest.Config) -> list[str]:
    choice = config.stash.get(_CHOSEN, None)
    if choice is None:
        return []
    this = commit.commit()
    title = f"for commit {this.hash[:12]} (number {this.number}): {_database(this)}, and of the files that take turns:"
    lines = [f"  {file} ({why})" for file, why in choice.chosen.items()]
    if choice.over_budget:
        budget = f"changed, but not run by this commit: {real_services.BUDGET:.0f} s of tests are chosen without them"
        lines += [budget, *(f"  {file}" for file in choice.over_budget)]
    return [title, *lines]


def _database(this: commit.Commit) -> str:
    """Return the database server of this commit."""
    return real_services.DATABASES[(this.number + this.rotation(real_services.TURNS)) % 2]


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Leave out the files that this commit does not run."""
    choice = config.stash.get(_CHOSEN, None)
    if choice is None or not collection_path.name.startswith("test_"):
        return None
    file = str(collection_path.relative_to(commit.ROOT))
    return True if file in real_services.IN_TURN and file not in choice.chosen else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks all tests in tests/cloud as ``real``; deselects the tests on the other database server.

    :raises pytest.UsageError: a unit test has the marker ``real`` or ``slow``: `tox -e real` collects no unit tests
    """
    for item in items:
        if item.nodeid.startswith("tests/unit/") and {"real", "slow"} & {marker.name for marker in item.iter_markers()}:
            raise pytest.UsageError(f"{item.nodeid} needs a server or many seconds: it belongs to tests/functional")
        if item.nodeid.startswith(real_services.FOLDER):
            item.add_marker(pytest.mark.real)
    if _CHOSEN not in config.stash:
        return
    (absent,) = set(real_services.DATABASES) - {_database(commit.commit())}

    def waits(item: pytest.Item) -> bool:
        called = getattr(item, "callspec", None)
        file = item.nodeid.partition("::")[0]
        return called is not None and absent in called.params.values() and file not in real_services.BOTH_DATABASES

    if left_out := [item for item in items if waits(item)]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not waits(item)]


@functools.cache
def _needs_alone(file: str) -> bool:
    """Return whether a file declares that it needs the whole cloud alone."""
    return file.startswith(real_services.FOLDER) and "\nALONE = True\n" in (commit.ROOT / file).read_text()


@functools.cache
def uses_whole_cloud(path: pathlib.Path) -> bool:
    """Whether a file has one of the fixtures of the whole cloud."""
    return re.search(r"\bfull_(cloud|admin|sweeper)\b", path.read_text()) is not None


def commit_uses_whole_cloud() -> bool:
    """Whether a file that this commit runs uses the whole cloud."""
    return any(uses_whole_cloud(commit.ROOT / file) for file in choice().chosen)


def _shares(file: str) -> bool:
    """Whether a file shares the whole cloud with others, and so waits while a file has it alone."""
    if not file.startswith(real_services.FOLDER) or _needs_alone(file):
        return False
    return uses_whole_cloud(commit.ROOT / file)


class _Order:
    """Gives out the longest files first; a short one at the end keeps no process waiting."""

    def __init__(self, config: pytest.Config) -> None:
        recorded = durations(tier_of(config))
        self._seconds = functools.cache(lambda unit: seconds_of(unit, recorded))

    def first(self, unit: str, taken: bool) -> tuple[bool, bool, float]:
        """Returns the key by which units are compared: the unit with the largest key runs first.

        The files that need the whole cloud alone run first. While one of them has it, the files that share it would
        wait, so they run last; once it is free, they run next. Among equals the longest runs first.

        :param taken: whether the files that need the whole cloud alone have not all ended
        """
        return unit == ALONE, _shares(unit.partition("::")[0]) != taken, self._seconds(unit)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> object:
        if config.getoption("dist") != "loadfile":
            return None
        from xdist.scheduler import LoadFileScheduling

        order = self

        class Scheduling(LoadFileScheduling):
            def _split_scope(self, nodeid: str) -> str:
                if nodeid.startswith(DIVIDED):
                    return nodeid
                file = super()._split_scope(nodeid)
                return ALONE if _needs_alone(file) else file

            def _assign_work_unit(self, node: Any) -> None:
                alone = [work[ALONE] for work in self.assigned_work.values() if ALONE in work]
                taken = ALONE in self.workqueue or any(not all(tests.values()) for tests in alone)
                first = max(self.workqueue, key=lambda unit: order.first(unit, taken))
                self.workqueue.move_to_end(first, last=False)
                super()._assign_work_unit(node)

            def _reschedule(self, node: Any) -> None:
                # xdist starts the last test of a file once the process has received its next unit. A unit is not given
                # out earlier, because it would wait behind the longest test of the file.
                if node.shutting_down or not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
                    super()._reschedule(node)

        return Scheduling(config, log)


class Recorder:
    """Adds up what each file takes in this run, over tests and fixtures, and replaces its earlier record."""

    def __init__(self, tier: str) -> None:
        self._tier = tier
        self._seconds: collections.Counter[str] = collections.Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        divided = report.nodeid.startswith(DIVIDED)
        self._seconds[report.nodeid if divided else report.nodeid.partition("::")[0]] += report.duration

    @pytest.hookimpl(hookwrapper=True)
    def pytest_sessionfinish(self) -> Iterator[None]:
        yield
        tiers = _recorded()
        again = {unit.partition("::")[0] for unit in self._seconds}
        known = {
            unit: seconds
            for unit, seconds in tiers.get(self._tier, {}).items()
            if (file := unit.partition("::")[0]) not in again and (commit.ROOT / file).exists()
        }
        known |= {unit: round(seconds, 1) for unit, seconds in self._seconds.items()}
        tiers[self._tier] = dict(sorted(known.items()))
        DURATIONS.write_text(json.dumps(dict(sorted(tiers.items())), indent=1) + "\n")
