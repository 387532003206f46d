"""The simulation notices defects, and reaches what it should reach."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.core.deletion import Mode, Status
from tests.simulation import lock_breakages
from tests.simulation.breakages import BREAKAGES
from tests.simulation.hunt import attempt, shrink, source
from tests.simulation.plan import DEEDS, FAULTS, SERVICES, Deed, Fault, Plan, plan
from tests.simulation.test_simulation import TROUBLED

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_deliberate_defect_is_noticed(name):
    breakage = BREAKAGES[name]
    for seed in range(breakage.first, breakage.first + breakage.within):
        broken = attempt(breakage.plans(seed), also=tuple(breakage.patches())).broken
        if broken:
            assert breakage.noticed in broken
            return
    pytest.fail(f"no promise broke in {breakage.within} runs although {name}")


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


def test_the_serial_alone_keeps_the_proof_where_keystone_refuses_no_change_of_a_fence():
    opened = 0
    for seed in range(20):
        result = attempt(lock_breakages.fenced(seed), tracing=True, also=tuple(lock_breakages.without_the_guard()))
        opened += sum("the manager opens" in line for line in result.trace)
        # Project settings may go before the orchestrator compares the serial again. The project does not.
        assert not result.broken or "project settings go last" in result.broken
    assert opened > 20


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


def test_a_failing_plan_is_cut_down_to_what_it_needs():
    breakage = BREAKAGES["the guard allows every write"]
    small = shrink(TROUBLED, also=tuple(breakage.patches()))
    assert attempt(small, also=tuple(breakage.patches())).broken
    assert (small.faults, small.deeds, small.driver) == ((), (), Plan(3).driver)


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


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(PLANS)
def test_combinations_of_hypothesis_keep_the_promises(wanted):
    result = attempt(wanted)
    assert not result.broken, f"{result.broken}\n{source(wanted)}"
