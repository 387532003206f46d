"""The graph of resource types, and how a deletion waits along it."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup_orchestrator.core import dependencies
from cleanup_orchestrator.core.step import Outcome, StepKind, StepState
from tests.unit.world import sweep_step


def gone(step, round_=1):
    return dataclasses.replace(step, round=round_, state=StepState.DONE, outcome=Outcome.CLEAR)


def test_the_order_keeps_every_edge():
    assert dependencies.check({"net": ["port", "subnet"], "subnet": ["port"], "port": []}) == ("port", "subnet", "net")


def test_a_cycle_is_named():
    with pytest.raises(dependencies.Cycle, match=r"a -> b -> a|b -> a -> b"):
        dependencies.check({"a": ["b"], "b": ["a"]})


@given(st.dictionaries(st.integers(0, 12), st.sets(st.integers(0, 12), max_size=4), max_size=12))
def test_any_graph_is_ordered_or_has_its_cycle_named(graph):
    named = {str(k): [str(v) for v in vs] for k, vs in graph.items()}
    try:
        order = dependencies.check(named)
    except dependencies.Cycle as cycle:
        walk = cycle.names
        # graphlib names the cycle along the edges, backwards
        assert all(a in named[b] for a, b in itertools.pairwise(walk))
    else:
        assert all(order.index(b) < order.index(a) for a, bs in named.items() for b in bs)


NET = sweep_step("network.network", after=("network.port", "compute.server"))
PORT = sweep_step("network.port")


@pytest.mark.parametrize(
    ("others", "waits", "why"),
    [
        ([], (), "a service that is not in the catalog is satisfied"),
        ([PORT], ("network.port",), "not listed yet"),
        ([gone(PORT)], (), "confirmed gone in this round"),
        ([gone(PORT, 0)], ("network.port",), "an older round proves nothing"),
        ([dataclasses.replace(gone(PORT), outcome=Outcome.UNKNOWN)], ("network.port",), "a failure never satisfies"),
        ([dataclasses.replace(gone(PORT), outcome=Outcome.LEFTOVERS)], ("network.port",), "leftovers never do"),
        ([dataclasses.replace(PORT, region="R2")], (), "another region"),
        ([dataclasses.replace(PORT, region="")], ("network.port",), "a regionless step concerns every region"),
        (
            [dataclasses.replace(sweep_step("compute.x"), kind=StepKind.UNSUPPORTED, type="")],
            ("compute.",),
            "an unsupported service",
        ),
        ([dataclasses.replace(PORT, waived="w")], (), "an admin says to go on without it"),
        (
            [dataclasses.replace(sweep_step("compute.x"), kind=StepKind.UNSUPPORTED, type="", waived="w")],
            (),
            "an admin waives an unsupported service",
        ),
    ],
)
def test_a_step_waits_for(others, waits, why):
    assert dependencies.waits_for(NET, [NET, *others], 1) == waits, why


def test_everything_waits_for_all_but_its_likes_and_project_settings():
    trust = sweep_step("identity.trust", after=(dependencies.EVERYTHING,), region="")
    credential = sweep_step("identity.credential", after=(dependencies.EVERYTHING,), region="")
    quota = sweep_step("network.quota", project_setting=True)
    assert dependencies.waits_for(trust, [trust, credential, quota, PORT], 1) == ("network.port",)
    assert dependencies.waits_for(trust, [trust, credential, quota, gone(PORT)], 1) == ()


def test_project_settings_wait_for_project_settings_alone():
    group = sweep_step(
        "network.default_firewall_group", project_setting=True, after=("network.port", dependencies.EVERYTHING)
    )
    policy = sweep_step(
        "network.default_firewall_policy", project_setting=True, after=("network.default_firewall_group",)
    )
    steps = [group, policy, gone(PORT, 0)]
    assert dependencies.waits_for(group, steps, 1) == ()
    assert dependencies.waits_for(policy, steps, 1) == ("network.default_firewall_group",)
    assert dependencies.waits_for(policy, [gone(group), policy, PORT], 1) == ()
