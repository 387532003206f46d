"""Runs the benchmarks and prints their figures against the bounds: `tox -e bench [-- --only NAME]`.

Each benchmark runs in a process of its own, one after the other. The bounds are those of DESIGN for 2 processors and
nothing else running. A figure that misses its bound is marked. It does not make the command fail, because it depends
on the machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from tests.benchmarks.figures import Figure, machine, table

#: Modules of this package, in the order in which they run.
ALL = ("deletion", "cascade", "start", "statements", "lists", "memory", "orphan_scan", "many")


def run(name: str) -> list[Figure]:
    """Run one benchmark in its own process."""
    command = [sys.executable, "-m", f"tests.benchmarks.{name}", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: exit code {done.returncode}")
    return [Figure(**json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]


def main() -> None:
    """Run all of them, or those that were named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ALL, help="may be given more than once")
    options = parser.parse_args()
    missed = 0
    for name in options.only or ALL:
        print(f"== {name}: {machine()}", flush=True)
        figures = run(name)
        print("\n".join(table(figures)), flush=True)
        missed += sum(each.met is False for each in figures)
    print(f"== {missed} not met; {machine()}")


if __name__ == "__main__":
    main()
