"""The order of resources that refer to each other, and the cycles among them."""

import itertools
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cleanup_orchestrator.core import references

GRAPHS = st.dictionaries(st.integers(0, 9).map(str), st.lists(st.integers(0, 9).map(str), max_size=4), max_size=10)


@pytest.mark.parametrize(
    ("graph", "levels", "cycles", "why"),
    [
        ({}, {}, {}, "nothing refers"),
        ({"a": []}, {}, {}, "a resource alone"),
        ({"a": ["a"]}, {}, {}, "a reference to itself says nothing"),
        ({"a": ["b"], "b": ["c"]}, {"b": 1, "c": 2}, {}, "a chain"),
        ({"a": ["c"], "b": ["c"], "c": []}, {"c": 1}, {}, "two that refer to one"),
        ({"a": ["b", "c"], "b": ["c"]}, {"b": 1, "c": 2}, {}, "the longest way counts"),
        ({"a": ["b"], "b": ["a"]}, {}, {"a": {"b"}, "b": {"a"}}, "a cycle has no order"),
        (
            {"x": ["a"], "a": ["b"], "b": ["a", "y"]},
            {"a": 1, "b": 1, "y": 2},
            {"a": {"b"}, "b": {"a"}},
            "what refers to a cycle is before it, and what a cycle refers to is behind it",
        ),
    ],
)
def test_what_refers_goes_first(graph, levels, cycles, why):
    found = references.order(graph)
    assert (found.levels, found.cycles) == (levels, cycles), why


def ways(graph, start):
    """Return all nodes that references lead to from a node."""
    found, pending = set(), [start]
    while pending:
        for other in graph.get(pending.pop(), ()):
            if other not in found:
                found.add(other)
                pending.append(other)
    return found


@given(GRAPHS)
def test_each_reference_outside_of_cycles_is_kept_in_any_graph(graph):
    found = references.order(graph)
    nodes = {*graph, *itertools.chain(*graph.values())}
    assert {*found.levels, *found.referrers, *found.cycles} <= nodes
    for id_, needed in graph.items():
        for other in needed:
            together = id_ in ways(graph, other)
            if other == id_:
                assert id_ not in found.referrers.get(id_, ())
            elif together:
                assert id_ in found.cycles[other] and other in found.cycles
                assert found.levels.get(id_, 0) == found.levels.get(other, 0)
            else:
                assert id_ in found.referrers[other] and found.levels.get(id_, 0) < found.levels[other]
    for id_, referrers in found.referrers.items():
        assert all(id_ in graph[referrer] for referrer in referrers)


@given(GRAPHS)
def test_the_cycle_of_a_node_is_a_way_back_to_it(graph):
    for start in {*graph, *itertools.chain(*graph.values())}:
        found = references.cycle(start, graph)
        elsewhere = {other for other in graph.get(start, ()) if other != start}
        assert bool(found) is any(start in ways(graph, other) for other in elsewhere)
        if found:
            assert found[0] == start and len(set(found)) == len(found) > 1
            assert all(after in graph[one] for one, after in itertools.pairwise((*found, start)))


@given(GRAPHS, st.sets(st.integers(0, 9).map(str)))
def test_what_is_behind_waits_directly_or_not(graph, ids):
    found = references.order(graph)
    behind = found.behind(ids)
    for id_, referrer in behind.items():
        assert referrer in found.referrers[id_] and (referrer in ids or referrer in behind)
    waiting = {id_ for id_, referrers in found.referrers.items() if referrers & (ids | behind.keys())}
    assert waiting == behind.keys()


@given(
    st.dictionaries(st.sampled_from("0123456789"), st.lists(st.sampled_from("0123456789abc"), max_size=4), max_size=10),
    st.dictionaries(st.sampled_from("abc"), st.lists(st.sampled_from("0123456789"), min_size=1, unique=True)),
)
@example({"0": ["a"]}, {"a": ["0"]})
@example({"0": ["a"], "1": ["a"], "2": ["1"]}, {"a": ["0", "1", "2"]})
def test_a_reference_to_a_name_is_one_to_each_resource_of_the_name(graph, names):
    graph = {id_: [one for one in needed if one.isdigit() or one in names] for id_, needed in graph.items()}
    plain = {id_: [id_ for one in needed for id_ in names.get(one, [one])] for id_, needed in graph.items()}
    found, expected = references.order(graph, names), references.order(plain)
    assert (found.referrers, found.cycles) == (expected.referrers, expected.cycles)
    assert found.behind("0").keys() == expected.behind("0").keys()
    assert not found.levels.keys() & names.keys()
    for id_, referrers in found.referrers.items():
        assert all(found.levels.get(referrer, 0) < found.levels[id_] for referrer in referrers)
    for id_, members in found.cycles.items():
        assert {found.levels.get(id_, 0)} == {found.levels.get(member, 0) for member in members}


@pytest.mark.parametrize("back", [False, True])
def test_many_resources_of_one_name_take_memory_in_proportion(back):
    """A set for each resource would take a hundred megabytes."""
    ids = {name: [f"{name}{n}" for n in range(2000)] for name in ("a", "b")}
    graph = {id_: ["b"] for id_ in ids["a"]} | {id_: ["a"] for id_ in ids["b"] if back}
    tracemalloc.start()
    try:
        found = references.order(graph, ids if back else {"b": ids["b"]})
        behind = found.behind(["a0"])
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
    which = found.cycles if back else found.referrers
    assert which["b0"] == which["b1999"] == frozenset(ids["a"])
    assert behind.keys() == (set() if back else set(ids["b"]))


def test_long_chains_and_large_cycles_end():
    count = 50_000
    chain = {str(n): [str(n + 1)] for n in range(count)}
    assert references.order(chain).levels[str(count)] == count
    assert len(references.cycle("0", {**chain, str(count): ["0"]})) == count + 1
    assert len(references.order({**chain, str(count): ["0"]}).cycles) == count + 1
