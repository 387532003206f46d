"""Runs everything that takes too long for a commit, in parts of at most an hour, and keeps a record of each part.

The record is `nightly.json` beside this file: for each part the date, the commit, the result and the seconds of its
last run. CI prints how old each run is.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from tests.cloud import releases
from tests.support import commit, real_services, tiers

RECORD = pathlib.Path(__file__).with_suffix(".json")
#: Seconds that a part may take. The parts take half an hour on two processors.
LIMIT = 3600
#: How many parts the test files with real services, and the mutants, are divided into.
SERVICES, MUTANTS = 4, 4
CHAOS, CRASH_POINTS = "tests/functional/test_chaos.py", "tests/functional/test_crash_points.py"
INSTALLS = "tests/functional/test_installs.py"
#: They need root, and make a Debian in a folder.
DEPLOYMENT = ("tests/functional/test_ansible.py", "tests/functional/test_container.py")

EXAMPLE = """example:
  tox -e nightly -- --list            # the parts, and the last run of each
  tox -e nightly -- services-1        # one part
  tox -e nightly                      # all parts, the one whose run is oldest first; hours

The exit code is 0 if each part passed. A part is recorded only in a checkout without changes: commit the record.
"""


@dataclasses.dataclass(frozen=True)
class Part:
    """One command, and the variables that make its tests larger than those of a commit."""

    what: str  #: what it tests, in a few words
    command: tuple[str, ...]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


def _pytest(*arguments: str, processes: int = 4) -> tuple[str, ...]:
    return ("pytest", "-n", str(processes), "--dist", "loadfile", *arguments)


def parts() -> dict[str, Part]:
    """Returns the parts by their name."""
    found = (commit.ROOT / real_services.FOLDER).glob("test_*.py")
    sets = commit.divide([str(path.relative_to(commit.ROOT)) for path in found], tiers.durations(), SERVICES)
    every_point = {"CLEANUP_CRASH_STRIDE": "1"}
    services = {
        f"services-{n}": Part("the real services, every file", _pytest("-m", "", *sorted(files)), every_point)
        for n, files in enumerate(sets, 1)
    }
    chaos = {
        f"chaos-{server}": Part(
            f"200 deletions while processes and {server} die",
            _pytest("-m", "long or real", CHAOS, processes=0),
            {"CLEANUP_CHAOS_PROJECTS": "200", "CLEANUP_CHAOS_DATABASES": server},
        )
        for server in real_services.DATABASES
    }
    mutants = {
        f"mutants-{n}": Part("every mutant", (sys.executable, "-m", "tests.mutants", "--part", f"{n}/{MUTANTS}"))
        for n in range(1, MUTANTS + 1)
    }
    older = {
        f"{release}-{name}": Part(
            f"OpenStack {release}: {each.what}",
            _pytest("-m", "", real_services.FOLDER + each.file, processes=0),
            {releases.VARIABLE: release},
        )
        for release in releases.OLDER
        for name, each in releases.RUNS.items()
    }
    apart = [word for file in (CHAOS, CRASH_POINTS, INSTALLS, *DEPLOYMENT) for word in ("--ignore", file)]
    others = (*apart, "tests/functional")
    small = ("-m", "not real and not slow and not long", "--ignore", "tests/simulation", *others, "tests/unit")
    return {
        **services,
        "databases": Part("real processes, on both database servers", _pytest("-m", "real or slow", *others)),
        "long": Part("what measures real time; published faults of libraries", _pytest("-m", "long", *others)),
        "crash-points": Part("every point at which a process can die", _pytest("-m", "", CRASH_POINTS), every_point),
        **chaos,
        "tempest": Part(
            "Tempest's tests of the Identity API, without the package in Keystone and with it",
            (sys.executable, "-m", "tests.cloud.tempest"),
        ),
        "deployment": Part(
            "the Ansible role and the container recipe, run", _pytest("-m", "", *DEPLOYMENT, processes=2)
        ),
        "examples": Part("random examples, ten times as many", _pytest(*small), {"CLEANUP_TESTS_LONG": "1"}),
        "installs": Part(
            "the wheel beside the packages of each release",
            _pytest("-m", "long", INSTALLS, processes=2),
        ),
        "seeds": Part(
            "4,000 new seeds of the simulation",
            _pytest("tests/simulation", processes=3),
            {"CLEANUP_SIMULATION_RUNS": "4000", "CLEANUP_SIMULATION_FIRST": str(4000 * commit.commit().number)},
        ),
        **mutants,
        **older,
    }


def read() -> dict[str, dict[str, str | int]]:
    """Returns the record: for each part that ever ran, its last run."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def age(run: Mapping[str, str | int] | None) -> str:
    """Says how old a run is, and how it ended."""
    if run is None:
        return "never"
    behind = commit.git("rev-list", "--count", f"{run['commit']}..HEAD", unless="a commit that is not here")
    when = f"{behind} commits ago" if behind.isdigit() else f"at {behind}"
    return f"{run['result']} {when} ({run['date']}, {run['seconds']} s)"


def report(names: Sequence[str]) -> str:
    """Returns one line for each part: the last run, and what the part tests."""
    record, known = read(), parts()
    return "\n".join(f"  {name:<17} {age(record.get(name))}: {known[name].what}" for name in names)


def run(name: str, part: Part) -> bool:
    """Run a part; print its output; record the result if the checkout has no changes; return whether it passed."""
    print(f"== {name}: {part.what}\n   {' '.join(part.command)}", flush=True)
    began = time.monotonic()
    process = subprocess.Popen(
        part.command, cwd=commit.ROOT, env=os.environ | dict(part.environment), start_new_session=True
    )
    try:
        code = process.wait(LIMIT)
        result = "passed" if code == 0 else "failed"
    except subprocess.TimeoutExpired:
        result = "took too long"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)
    seconds = round(time.monotonic() - began)
    print(f"== {name}: {result}, {seconds} s", flush=True)
    changes = commit.git("status", "--porcelain", "--", ".", f":!{RECORD.relative_to(commit.ROOT)}")
    if changes:
        print(f"   not recorded: the checkout has changes:\n{changes}")
    else:
        date = datetime.datetime.now(datetime.UTC).date().isoformat()
        made = {"date": date, "commit": commit.commit().hash, "result": result, "seconds": seconds}
        RECORD.write_text(json.dumps(dict(sorted((read() | {name: made}).items())), indent=1) + "\n")
    return result == "passed"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for; return the exit code."""
    parser = argparse.ArgumentParser(
        "tox -e nightly --",
        description=__doc__,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="the parts to run (default: all of them)")
    parser.add_argument("--list", action="store_true", help="print the parts with their last run, and run nothing")
    options = parser.parse_args(arguments)
    known, record = parts(), read()
    if unknown := sorted(set(options.parts) - set(known)):
        parser.error(f"no part is called {', '.join(unknown)}: see --list")
    oldest = sorted(known, key=lambda name: str(record.get(name, {}).get("date", "")))
    chosen = options.parts or oldest
    if options.list:
        print(report(options.parts or list(known)))
        return 0
    passed = [run(name, known[name]) for name in chosen]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
