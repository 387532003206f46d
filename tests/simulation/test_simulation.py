"""The promises, over many different runs, each of which can be repeated exactly.

``tox`` runs seeds 0 to 29 and the found plans. ``CLEANUP_SIMULATION_RUNS`` and ``CLEANUP_SIMULATION_FIRST`` choose
other seeds: CI tries 100 for each commit, ``tox -e nightly`` some thousands. The tests of the simulation itself cost
minutes: ``test_breakages.py`` has them.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import types

import pytest

from cleanup_orchestrator.core.deletion import Mode
from tests.simulation.found import FOUND
from tests.simulation.hunt import attempt, source
from tests.simulation.plan import Deed, Fault, Plan, _size, plan
from tests.simulation.world import run

#: How many seeds are tried. By default those that ``tox`` tries: always the same ones.
RUNS = int(os.environ.get("CLEANUP_SIMULATION_RUNS", "30"))
#: The first of them. CI derives it from the commit's hash, so that each commit tries others.
FIRST = int(os.environ.get("CLEANUP_SIMULATION_FIRST", "0"))
#: Seeds in one test: several processes share the seeds, and a failure is reported early.
PART = 15

TROUBLED = Plan(
    3,
    driver="fence",
    services=("network", "key-manager"),
    workers=3,
    parallel=3,
    stick=0.0,
    faults=(Fault(40, "crash"), Fault(70, "freeze", 0.9), Fault(90, "lost"), Fault(95, "drop"), Fault(120, "hang")),
    deeds=(Deed(60, "create"), Deed(150, "unfence")),
)


def explain(seed: int, broken: str, seeds: range) -> str:
    tried = f"seed {seed} (of {seeds[0]} to {seeds[-1]}): {broken}"
    return f"{tried}\nreplay: python -m tests.simulation --seed {seed} --trace"


# ------------------------------------------------------------------------------------------------------ the promises
def parts(first: int, runs: int) -> list[range]:
    """Return the seeds in parts of ``PART``; the last one may be smaller."""
    seeds = range(first, first + runs)
    return [seeds[begin : begin + PART] for begin in range(0, runs, PART)]


@pytest.mark.parametrize("seeds", parts(FIRST, RUNS), ids=lambda seeds: f"seeds {seeds[0]}-{seeds[-1]}")
def test_the_promises_hold_under_random_faults(seeds):
    for seed in seeds:
        result = attempt(plan(seed))
        assert not result.broken, explain(seed, result.broken, seeds)


def test_the_parts_have_each_seed_once():
    assert [seed for part in parts(700, 40) for seed in part] == list(range(700, 740))
    assert [len(part) for part in parts(700, 40)] == [PART, PART, 10]


def test_a_size_is_always_the_place_of_an_item():
    """Rounded up to 1 it was the place behind the last one, once in two thousand."""
    assert _size(types.SimpleNamespace(random=lambda: 0.9999)) < 1


@pytest.mark.parametrize("name", FOUND)
def test_earlier_failing_plans_keep_the_promises(name):
    assert attempt(FOUND[name]).broken == ""


# --------------------------------------------------------------------------------------------------- the same each time
def test_the_same_plan_gives_the_same_run():
    first, second = run(TROUBLED, tracing=True), run(TROUBLED, tracing=True)
    assert first.trace == second.trace
    assert first.faults == 5


def test_the_same_plan_gives_the_same_run_in_another_process():
    program = (
        "from tests.simulation.test_simulation import TROUBLED\n"
        "from tests.simulation.world import run\n"
        "print('\\n'.join(run(TROUBLED, tracing=True).trace))"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert tuple(other.stdout.splitlines()) == run(TROUBLED, tracing=True).trace


def test_another_seed_gives_another_run():
    assert run(TROUBLED, tracing=True).trace != run(dataclasses.replace(TROUBLED, seed=4), tracing=True).trace


def test_a_plan_is_written_as_it_stands_in_the_list_of_found_ones():
    names = {"Plan": Plan, "Fault": Fault, "Deed": Deed, "Mode": Mode}
    for seed in range(50):
        assert eval(source(plan(seed)), names) == plan(seed)
