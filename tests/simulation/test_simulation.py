"""The promises, over many different runs, each of which can be repeated exactly.

``tox`` runs seeds 0 to 59 and the found plans. ``CLEANUP_SIMULATION_RUNS`` and ``CLEANUP_SIMULATION_FIRST`` choose
other seeds: CI tries 100 for each commit, ``tox -e nightly`` some thousands. The tests of the simulation itself and the
search by hypothesis cost minutes, so they have the marker ``real``: they run for each commit in CI, not in ``tox``.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import types

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.core.deletion import Mode, Status
from tests.simulation import lock_breakages
from tests.simulation.breakages import BREAKAGES
from tests.simulation.found import FOUND
from tests.simulation.hunt import attempt, shrink, source
from tests.simulation.plan import DEEDS, FAULTS, SERVICES, Deed, Fault, Plan, _size, plan
from tests.simulation.world import run

#: How many seeds are tried. By default those that ``tox`` tries: always the same ones.
RUNS = int(os.environ.get("CLEANUP_SIMULATION_RUNS", "60"))
#: The first of them. CI derives it from the commit's hash, so that each commit tries others.
FIRST = int(os.environ.get("CLEANUP_SIMULATION_FIRST", "0"))
#: Seeds in one test: several processes share the seeds, and a failure is reported early.
PART = 25

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
    assert [seed for part in parts(700, 60) for seed in part] == list(range(700, 760))
    assert [len(part) for part in parts(700, 60)] == [PART, PART, 10]


def test_a_size_is_always_the_place_of_an_item():
    """Rounded up to 1 it was the place behind the last one, once in two thousand."""
    assert _size(types.SimpleNamespace(random=lambda: 0.9999)) < 1


def ordered(items):
    return st.lists(items, max_size=8).map(lambda found: tuple(sorted(found, key=lambda item: item.at)))


PLANS = st.builds(
    Plan,
    seed=st.integers(0, 1000),
    mode=st.sampled_from(Mode),
    driver=st.sampled_from(["revoke", "fence"]),
    services=st.sampled_from(SERVICES[:3]),
    fill=st.integers(0, 2),
    workers=st.integers(1, 3),
    engines=st.integers(1, 2),
    stick=st.sampled_from([0.0, 0.8]),
    faults=ordered(st.builds(Fault, st.integers(0, 250), st.sampled_from(sorted(FAULTS)), st.floats(0, 0.99))),
    deeds=ordered(st.builds(Deed, st.integers(0, 250), st.sampled_from(sorted(DEEDS)), st.floats(0, 0.99))),
)


@pytest.mark.real
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(PLANS)
def test_combinations_of_hypothesis_keep_the_promises(wanted):
    result = attempt(wanted)
    assert not result.broken, f"{result.broken}\n{source(wanted)}"


@pytest.mark.parametrize("name", FOUND)
def test_earlier_failing_plans_keep_the_promises(name):
    assert attempt(FOUND[name]).broken == ""


# ------------------------------------------------------------------------------------------- the simulation is noticed
@pytest.mark.real
@pytest.mark.parametrize("name", BREAKAGES)
def test_a_deliberate_defect_is_noticed(name):
    breakage = BREAKAGES[name]
    for seed in range(breakage.first, breakage.first + breakage.within):
        broken = attempt(breakage.plans(seed), also=tuple(breakage.patches())).broken
        if broken:
            assert breakage.noticed in broken
            return
    pytest.fail(f"no promise broke in {breakage.within} runs although {name}")


@pytest.mark.real
def test_it_sees_every_status_and_every_fault():
    """A simulation in which no deletion ends would keep all promises, too."""
    passed, struck = set(), set()
    for seed in range(120):
        if passed >= set(Status) - {Status.FAILED} and struck == set(FAULTS):
            break
        result = attempt(plan(seed), tracing=True)
        passed |= result.passed
        struck |= {kind for kind in FAULTS if any(line.endswith(f"<- {kind}") for line in result.trace)}
        struck |= {kind for kind in ("crash", "freeze") if any(kind.upper() in line for line in result.trace)}
    assert passed >= set(Status) - {Status.FAILED}
    assert struck == set(FAULTS)


@pytest.mark.real
def test_the_serial_alone_keeps_the_proof_where_keystone_refuses_no_change_of_a_fence():
    opened = 0
    for seed in range(20):
        result = attempt(lock_breakages.fenced(seed), tracing=True, also=tuple(lock_breakages.without_the_guard()))
        opened += sum("the manager opens" in line for line in result.trace)
        # Project settings may go before the orchestrator compares the serial again. The project does not.
        assert not result.broken or "project settings go last" in result.broken
    assert opened > 20


@pytest.mark.real
@pytest.mark.parametrize(
    ("driver", "listening"), [("fence", False), ("revoke", True), ("revoke", False), ("none", True)]
)
def test_a_domain_manager_makes_no_proof_wrong(driver, listening):
    opened = 0
    for seed in range(15):
        result = attempt(lock_breakages.managed(seed, driver, "swap", "reopen", listening=listening), tracing=True)
        opened += sum("the manager opens" in line and "not" not in line for line in result.trace)
        assert (result.broken, result.status) == ("", "deleted")
    assert opened == 0 if driver == "fence" else opened > 20


# --------------------------------------------------------------------------------------------------- the same each time
def test_the_same_plan_gives_the_same_run():
    first, second = run(TROUBLED, tracing=True), run(TROUBLED, tracing=True)
    assert first.trace == second.trace
    assert first.faults == 5


@pytest.mark.parametrize("hash_seed", ["1", pytest.param("2", marks=pytest.mark.real)])
def test_the_same_plan_gives_the_same_run_in_another_process(hash_seed):
    program = (
        "from tests.simulation.test_simulation import TROUBLED\n"
        "from tests.simulation.world import run\n"
        "print('\\n'.join(run(TROUBLED, tracing=True).trace))"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert tuple(other.stdout.splitlines()) == run(TROUBLED, tracing=True).trace


def test_another_seed_gives_another_run():
    assert run(TROUBLED, tracing=True).trace != run(dataclasses.replace(TROUBLED, seed=4), tracing=True).trace


@pytest.mark.real
def test_a_failing_plan_is_cut_down_to_what_it_needs():
    breakage = BREAKAGES["the guard allows every write"]
    small = shrink(TROUBLED, also=tuple(breakage.patches()))
    assert attempt(small, also=tuple(breakage.patches())).broken
    assert (small.faults, small.deeds, small.driver) == ((), (), Plan(3).driver)


def test_a_plan_is_written_as_it_stands_in_the_list_of_found_ones():
    names = {"Plan": Plan, "Fault": Fault, "Deed": Deed, "Mode": Mode}
    for seed in range(50):
        assert eval(source(plan(seed)), names) == plan(seed)
