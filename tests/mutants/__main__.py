"""Shows that the tests notice defects: applies each mutation to a copy of the source and runs its tests."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants import MUTATIONS, choice, runner
from tests.mutants.runner import Result, Verdict
from tests.support import commit, tiers

ROOT = Path(__file__).resolve().parents[2]

EXAMPLE = """example:
  python -m tests.mutants --jobs 2
  python -m tests.mutants --list
  python -m tests.mutants --only 'A sweep deletes what belongs to another project' --only fence
  python -m tests.mutants --changed --seconds-in-total 120
  python -m tests.mutants --part 1/4

The exit code is 0 if every mutation was killed, and 1 otherwise: one survived, timed out, could not be run, or does not
apply to today's source, or a test fails without any mutation.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutations that are asked for; return the exit code."""
    parser = argparse.ArgumentParser(
        "python -m tests.mutants",
        description=__doc__,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="print the mutations and run nothing")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="run those whose name or file contains this, in any case; may be given several times",
    )
    parser.add_argument(
        "--changed",
        action="store_true",
        help="run those of the files that changed in this commit or in a commit of the four hours before it; "
        "CLEANUP_TESTS_BASE sets another commit since which changes count",
    )
    parser.add_argument(
        "--part", type=_part, metavar="N/M", help="run part N of M; a mutation always belongs to the same part"
    )
    parser.add_argument(
        "--seconds-in-total",
        type=float,
        metavar="SECONDS",
        help="run the shortest whose tests fit, as long as the tests took when their durations were recorded; "
        "the others are named first",
    )
    parser.add_argument("--jobs", type=int, default=runner.cores(), help="mutations at once (default: one per core)")
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="time limit of one mutation's tests (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    wanted = [name.casefold() for name in options.only]
    chosen = [m for m in MUTATIONS if not wanted or any(w in f"{m.name} {m.file}".casefold() for w in wanted)]
    if not chosen:
        parser.error("no mutation has such a name: see --list")
    if options.changed:
        chosen = choice.of_changed(chosen, commit.commit().changed)
    if options.part:
        chosen = choice.part(chosen, *options.part)
    if options.seconds_in_total is not None:
        budget = options.seconds_in_total * max(1, options.jobs)
        chosen, left_out = choice.within(chosen, budget, tiers.of_files(tiers.durations()))
        if left_out:
            print(f"{len(left_out)} mutations are left out, because the tests would take too long:")
            print(*(f"  {mutation.file}: {mutation.name}" for mutation in left_out), sep="\n")
    if options.list:
        for mutation in chosen:
            print(f"{mutation.file}: {mutation.name}")
        return 0
    if not chosen:
        print("no mutation to run")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the copies and the tests that run go with it
    began = time.monotonic()
    results, plain = runner.check(ROOT, chosen, max(1, options.jobs), options.seconds, _say)
    if broken := [result for result in plain if result.verdict is not Verdict.SURVIVED]:
        for result in broken:
            print(f"\n{result.name} fails without any mutation:\n{_tail(result)}")
        return 1
    alive = list(runner.survivors(results))
    for result in alive:
        print(f"\n{result.verdict}: {result.name}\n{_tail(result)}")
    counts = {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    print(f"\n{len(results)} mutations: {said}, in {time.monotonic() - began:.0f} s with {options.jobs} jobs")
    return 1 if alive else 0


def _part(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not 1 <= int(number) <= int(count):
        raise ValueError
    return int(number), int(count)


def _say(result: Result, number: int, count: int) -> None:
    # A test file that runs without any mutation passes, or it does not.
    verdict = "passes" if result.name.endswith(".py") and result.verdict is Verdict.SURVIVED else result.verdict
    print(f"[{number:3}/{count}] {verdict:<10} {result.seconds:5.1f} s  {result.name}", flush=True)


def _tail(result: Result) -> str:
    return "\n".join(
        f"    {line}" for line in result.output.splitlines()[-(5 if result.verdict is Verdict.SURVIVED else 40) :]
    )


if __name__ == "__main__":
    sys.exit(main())
