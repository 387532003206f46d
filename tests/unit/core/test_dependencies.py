"""The graph of resource types, and how a deletion waits along it."""

import dataclasses
import datetime
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


@pytest.mark.parametrize(("unsupported", "waits"), [("vendor.two", ("vendor.two.",)), ("vendor", ())])
def test_a_type_of_a_second_service_waits_for_that_service_and_not_for_the_first(unsupported, waits):
    part = dataclasses.replace(NET, service="vendor.two", type="part", after=("vendor.two.widget",))
    other = dataclasses.replace(PORT, kind=StepKind.UNSUPPORTED, service=unsupported, type="")
    assert dependencies.waits_for(part, [part, other], 1) == waits


PARTLY = dataclasses.replace(NET, needed_by=("network.port",))
LEFT = dataclasses.replace(gone(PORT), outcome=Outcome.LEFTOVERS, reason="in_use", remaining=1)


@pytest.mark.parametrize(
    ("other", "waits", "why"),
    [
        (PORT, True, "not listed yet"),
        (LEFT, False, "what is left needs a part at most"),
        (dataclasses.replace(LEFT, round=0), True, "it was left in an older round"),
        (dataclasses.replace(LEFT, state=StepState.RUNNING), True, "it is being tried"),
        (dataclasses.replace(LEFT, outcome=Outcome.UNKNOWN), True, "what is left is not known"),
        *(
            (dataclasses.replace(LEFT, reason=reason), True, "it is about to be deleted")
            for reason in ("deleting", "queued", "rate_limited", "on_hold")
        ),
        (gone(PORT), False, "nothing is left"),
    ],
)
def test_a_step_that_is_partly_needed_goes_on_once_the_other_type_is_stuck(other, waits, why):
    assert dependencies.waits_for(PARTLY, [PARTLY, other], 1) == (("network.port",) if waits else ()), why
    assert dependencies.waits_for(NET, [NET, other], 1) == (() if other == gone(PORT) else ("network.port",))


@pytest.mark.parametrize(
    ("other", "may_need"),
    [
        (PORT, True),
        (LEFT, True),
        (dataclasses.replace(LEFT, outcome=Outcome.UNKNOWN), True),
        (dataclasses.replace(LEFT, unplanned=1), True),
        (gone(PORT), False),
        (gone(PORT, 0), True),
        (dataclasses.replace(LEFT, region="R2"), False),
        (dataclasses.replace(LEFT, waived="w"), False),
        (dataclasses.replace(LEFT, type="trunk"), False),
    ],
)
def test_what_is_not_proven_gone_may_need_a_part(other, may_need):
    assert dependencies.may_need(PARTLY, [PARTLY, other], 1) == ((other,) if may_need else ())
    assert dependencies.may_need(NET, [NET, other], 1) == ()


def test_a_step_sees_that_what_needed_it_became_clear_after_its_end():
    early, late = datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2)
    ended = dataclasses.replace(PARTLY, finished_at=early)
    assert dependencies.cleared_since(ended, [ended, dataclasses.replace(gone(PORT), finished_at=late)], 1)
    assert not dependencies.cleared_since(ended, [ended, dataclasses.replace(gone(PORT), finished_at=early)], 1)
    assert not dependencies.cleared_since(ended, [ended, dataclasses.replace(LEFT, finished_at=late)], 1)
    assert not dependencies.cleared_since(PARTLY, [PARTLY, dataclasses.replace(gone(PORT), finished_at=late)], 1)
    plain = dataclasses.replace(NET, finished_at=early)
    assert not dependencies.cleared_since(plain, [plain, dataclasses.replace(gone(PORT), finished_at=late)], 1)


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


NAMES = st.sampled_from(["a.x", "a.y", "b.x", "c.x", "*"])
STEPS = st.builds(
    lambda number, name, values: sweep_step(
        name, id=str(number), kind=StepKind.SWEEP if name[-1] != "." else StepKind.UNSUPPORTED, **values
    ),
    st.integers(0, 10**6),
    st.sampled_from(["a.x", "a.y", "b.x", "b.", "c."]),
    st.fixed_dictionaries(
        {
            "region": st.sampled_from(["", "R1", "R2"]),
            "after": st.lists(NAMES, max_size=3).map(tuple),
            "needed_by": st.lists(NAMES, max_size=1).map(tuple),
            "state": st.sampled_from([StepState.DONE, StepState.RUNNING]),
            "outcome": st.sampled_from([Outcome.CLEAR, Outcome.LEFTOVERS, Outcome.UNKNOWN]),
            "round": st.integers(1, 2),
            "remaining": st.integers(0, 1),
            "unplanned": st.integers(0, 1),
            "waived": st.sampled_from(["", "w"]),
            "project_setting": st.booleans(),
        }
    ),
)


@given(st.lists(STEPS, max_size=8))
def test_all_at_once_the_steps_wait_for_the_same_as_OneByOne(steps):
    expected = [(step, dependencies.waits_for(step, steps, 2)) for step in steps]
    assert list(dependencies.waits_of_each(steps, steps, 2)) == expected
