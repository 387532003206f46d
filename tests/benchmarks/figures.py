"""The result of a benchmark: figures, each with its bound, as a table or as JSON.

A benchmark is a module with `measure`, which yields `Figure` values. It ends with `main(__doc__, measure)`, and is in
`tests.benchmarks.__main__.ALL`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One measured value."""

    what: str  #: what was measured, with the conditions: `an empty project, 50 ms a call: seconds`
    value: float
    bound: float | None = None  #: `None`: the value is informational
    at_least: bool = False  #: whether the bound is the lowest good value; otherwise it is the highest
    note: str = ""  #: what explains the value, in a few words

    @property
    def met(self) -> bool | None:
        """Whether the value is within its bound; `None` without a bound."""
        if self.bound is None:
            return None
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def table(figures: Iterable[Figure]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"{'':70} {'value':>10} {'bound':>11}"
    for each in figures:
        bound = "" if each.bound is None else f"{'>=' if each.at_least else '<='} {each.bound:g}"
        verdict = {True: "", False: "  NOT MET", None: ""}[each.met]
        note = f"  ({each.note})" if each.note else ""
        yield f"{each.what:70} {each.value:10.4g} {bound:>11}{verdict}{note}"


def machine() -> str:
    """Return the machine's processors and its load."""
    loads = " ".join(f"{load:.1f}" for load in os.getloadavg())
    return f"{os.cpu_count()} processors, load {loads} (1, 5, 15 minutes)"


def main(description: str | None, measure: Callable[[], Iterable[Figure]]) -> None:
    """Run a benchmark from the command line and print its figures."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object for each figure")
    options = parser.parse_args()
    before = machine()
    figures = list(measure())
    if options.json:
        for each in figures:
            print(json.dumps(dataclasses.asdict(each)), flush=True)
        return
    print(before)
    print("\n".join(table(figures)))
