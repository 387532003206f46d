"""Run the simulation over fresh seeds for hours, or one seed with its trace.

examples:
  python -m tests.simulation --hours 2 --processes 2   fresh random seeds until the time is over or one fails
  python -m tests.simulation --runs 500 --seed 0       the seeds 0 to 499
  python -m tests.simulation --seed 7 --trace          one seed, with every effect in its order
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.simulation.hunt import attempt, brief, shrink, source
from tests.simulation.plan import plan


def show(seed: int, tracing: bool, shrinking: bool = True) -> int:
    """Run one seed, print its result, and return the exit status."""
    print(f"seed {seed}: {source(plan(seed))}")
    result = attempt(plan(seed), tracing=True)
    if tracing:
        print("effect    second who              what")
        print("\n".join(result.trace))
    if not result.broken:
        print(f"all promises held: {result.status} after {result.effects} effects, {result.seconds:.0f} simulated s")
        return 0
    print(f"BROKEN: {result.broken}")
    if shrinking:
        small = shrink(plan(seed))
        again = attempt(small, tracing=True)
        print(f"\nThe smallest plan that was found for it, for tests/simulation/found.py:\n    {source(small)}")
        print(f"which breaks: {again.broken}\nIts last effects:")
        print("\n".join(again.trace[-60:]))
    print(f"\nreplay: python -m tests.simulation --seed {seed} --trace")
    return 1


def _seeds(first: int | None, runs: int | None) -> Iterator[int]:
    if first is not None:
        yield from range(first, first + (runs or 1))
        return
    fresh = random.SystemRandom()
    count = 0
    while runs is None or count < runs:
        count += 1
        yield fresh.randrange(2**40)


def _many(seeds: Iterator[int], seconds: float, processes: int) -> int:
    began = told = time.monotonic()
    ends: Counter[str] = Counter()
    effects = 0

    def said() -> str:
        elapsed = time.monotonic() - began
        rate = ends.total() / elapsed if elapsed else 0.0
        each = ", ".join(f"{count} {status}" for status, count in ends.most_common())
        return f"{elapsed:6.0f} s  {ends.total()} runs ({rate:.1f} a second), {effects} effects: {each}"

    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for seed, broken, status, count in pool.imap_unordered(brief, seeds, chunksize=1):
            ends[status] += 1
            effects += count
            if broken:
                print(said(), file=sys.stderr)
                return show(seed, tracing=False)
            now = time.monotonic()
            if now - told >= 10.0:
                told = now
                print(said(), file=sys.stderr, flush=True)
            if now - began >= seconds:
                break
        pool.terminate()
    print(said())
    print("all promises held")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit status: 0, all promises held; 1, one did not."""
    parser = argparse.ArgumentParser(
        "python -m tests.simulation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, help="for how long; without it and without --seed, until one fails")
    parser.add_argument("--runs", type=int, help="how many seeds at most")
    parser.add_argument("--seed", type=int, help="the first seed; alone: only this one")
    parser.add_argument("--processes", type=int, default=1, help="simulations at the same time (default: 1)")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every effect")
    options = parser.parse_args(argv)
    if options.seed is not None and options.runs is None:
        return show(options.seed, options.trace)
    seconds = options.hours * 3600 if options.hours is not None else float("inf")
    return _many(_seeds(options.seed, options.runs), seconds, options.processes)


if __name__ == "__main__":
    sys.exit(main())
