"""The choice of some mutations: one that no part had would never be tried, and no other test would fail."""

import pytest

from tests.mutants import MUTATIONS, choice
from tests.mutants.__main__ import main
from tests.mutants.mutation import Mutation
from tests.support import commit, tiers


def mutation(name, *tests):
    return Mutation(name, f"{name}.py", "x", "y", tests)


def test_the_parts_have_every_mutation_once_and_about_as_many():
    parts = [choice.part(MUTATIONS, number, 4) for number in (1, 2, 3, 4)]
    assert sorted(m.name for each in parts for m in each) == sorted(m.name for m in MUTATIONS)
    assert min(map(len, parts)) > len(MUTATIONS) / 6


def test_a_mutation_stays_in_its_part_when_others_come_and_go():
    before = choice.part(MUTATIONS, 2, 3)
    assert before == [m for m in choice.part((mutation("a new one"), *MUTATIONS), 2, 3) if m in MUTATIONS]
    assert before[1:] == choice.part([m for m in MUTATIONS if m != before[0]], 2, 3)


def test_only_the_mutations_of_changed_files_are_chosen():
    assert choice.of_changed([mutation("a"), mutation("b")], {"b.py", "c.py"}) == [mutation("b")]


SHORT, OTHER, LONG = mutation("short", "s"), mutation("other", "s", "t"), mutation("long", "l")
SECONDS = {"s": 1.0, "t": 5.0, "l": 50.0, "l of another": 900.0}


@pytest.mark.parametrize(
    ("seconds", "fit"),
    [
        pytest.param(5, [], id="none fits"),
        pytest.param(6, [SHORT], id="the shortest, and its file without any mutation"),
        pytest.param(15, [SHORT], id="not the other's second file"),
        pytest.param(16, [SHORT, OTHER], id="both share a file, which runs once without any mutation"),
        pytest.param(119, [SHORT, OTHER], id="not the long one"),
        pytest.param(120, [SHORT, OTHER, LONG], id="all"),
    ],
)
def test_the_shortest_run_within_a_total_and_the_others_are_left_out(seconds, fit):
    given = [LONG, OTHER, SHORT]
    assert choice.within(given, seconds, SECONDS) == (fit, [m for m in given if m not in fit])


def test_the_command_tells_what_it_leaves_out(monkeypatch, capsys):
    durations = {path: 30.0 for m in MUTATIONS for path in m.tests}
    monkeypatch.setattr(tiers, "durations", lambda: durations)
    changed = frozenset({MUTATIONS[0].file})
    monkeypatch.setattr(commit, "commit", lambda: commit.Commit("0" * 40, 1, changed))
    here = [m for m in MUTATIONS if m.file in changed]
    assert main(["--list", "--changed", "--jobs", "2", "--seconds-in-total", "32"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    left_out = [line.removeprefix("  ") for line in rest if line.startswith("  ")]
    run = [line for line in rest if not line.startswith("  ")]
    assert first == f"{len(left_out)} mutations are left out, because the tests would take too long:"
    assert len(run) == 1
    assert sorted(run + left_out) == sorted(f"{m.file}: {m.name}" for m in here)


def test_the_command_runs_nothing_if_no_file_with_mutations_changed(monkeypatch, capsys):
    monkeypatch.setattr(commit, "commit", lambda: commit.Commit("0" * 40, 1, frozenset({"README.rst"})))
    assert main(["--changed"]) == 0
    assert capsys.readouterr().out == "no mutation to run\n"


@pytest.mark.parametrize("part", ["0/2", "3/2", "2", "a/b"])
def test_the_command_refuses_a_part_that_is_none(part, capsys):
    with pytest.raises(SystemExit):
        main(["--list", "--part", part])
    assert "--part" in capsys.readouterr().err
