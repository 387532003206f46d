"""The choice of tests per commit: a file that it forgot would never run again, and no other test would fail."""

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import commit, real_services
from tests.support.commit import Commit, choose

ALWAYS = ("tests/cloud/test_a.py", "tests/cloud/test_b.py")
TURNS = (
    ("tests/cloud/test_c.py", "tests/functional/test_d.py"),
    ("tests/cloud/test_e.py",),
    ("tests/cloud/test_f.py",),
)
DNS = TURNS[1][0]
HASH = "0" * 40


def at(number, *changed):
    return Commit(HASH, number, frozenset(changed))


@given(st.integers(0, 10**6))
def test_a_full_rotation_of_commits_runs_every_file(first):
    ran = [choose(at(first + n), ALWAYS, TURNS, {}, {}, 0).chosen for n in range(len(TURNS))]
    assert set().union(*ran) == set(ALWAYS).union(*TURNS)
    assert all(set(ALWAYS) <= set(each) for each in ran)
    assert sorted(len(each) for each in ran) == [3, 3, 4]


def test_a_changed_source_selects_its_file_at_every_commit():
    sources = {DNS: ("cleanup_orchestrator/plugins/dns.py", "cleanup_orchestrator/plugins/dns/")}
    for path in ("cleanup_orchestrator/plugins/dns.py", "cleanup_orchestrator/plugins/dns/zone.py", DNS):
        for number in range(len(TURNS)):
            assert DNS in choose(at(number, path), ALWAYS, TURNS, sources, {}, 0).chosen
    untouched = [choose(at(number, "README.rst"), ALWAYS, TURNS, sources, {}, 0).chosen for number in range(3)]
    assert [DNS in chosen for chosen in untouched] == [False, True, False]


@pytest.mark.parametrize(
    ("budget", "ran"),
    [
        pytest.param(0, [], id="none fits"),
        pytest.param(10, [], id="the files of the commit's turn use it up"),
        pytest.param(14, ["tests/cloud/test_f.py"], id="the shortest fits"),
        pytest.param(19, ["tests/cloud/test_e.py", "tests/cloud/test_f.py"], id="all fit"),
    ],
)
def test_files_that_only_changed_themselves_run_within_the_budget(budget, ran):
    seconds = dict(zip([*ALWAYS, *TURNS[0], *TURNS[1], *TURNS[2]], [5, 2, 2, 1, 5, 4], strict=True))
    edited = {TURNS[1][0], TURNS[2][0]}
    choice = choose(at(0, *edited), ALWAYS, TURNS, {}, seconds, budget)
    assert sorted(choice.chosen) == sorted([*ALWAYS, *TURNS[0], *ran])
    assert set(choice.over_budget) == edited - set(ran)


@pytest.mark.parametrize(
    ("budget", "ran"),
    [
        pytest.param(10, [], id="the files of the commit's turn use it up"),
        pytest.param(17, [DNS], id="what is shorter and only changed itself comes after it"),
        pytest.param(20, [DNS, *TURNS[2]], id="both fit"),
    ],
)
def test_files_whose_source_changed_come_first_within_the_budget(budget, ran):
    seconds = dict(zip([*ALWAYS, *TURNS[0], *TURNS[1], *TURNS[2]], [5, 2, 2, 1, 6, 4], strict=True))
    choice = choose(at(0, "dns.py", *TURNS[2]), ALWAYS, TURNS, {DNS: ("dns.py",)}, seconds, budget)
    assert sorted(choice.chosen) == sorted([*ALWAYS, *TURNS[0], *ran])
    assert set(choice.over_budget) == {DNS, *TURNS[2]} - set(ran)
    assert choice.chosen.get(DNS, "dns.py changed") == "dns.py changed"


def test_every_file_of_real_services_runs_always_or_once_in_the_rotation():
    """Except those with the marker ``long``, which no commit runs."""
    files = (path for path in (commit.ROOT / "tests/cloud").glob("test_*.py"))
    there = {
        str(path.relative_to(commit.ROOT))
        for path in files
        if "\npytestmark = pytest.mark.long" not in path.read_text()
    }
    named = [*real_services.ALWAYS, *(file for turn in real_services.TURNS for file in turn)]
    assert there - set(named) == set()
    assert len(named) == len(set(named))


def test_every_file_that_is_named_is_there():
    named = {*real_services.IN_TURN, *real_services.SOURCES, *real_services.BOTH_DATABASES}
    assert [file for file in named if not (commit.ROOT / file).exists()] == []


def test_every_source_that_is_named_is_there():
    paths = {path for sources in real_services.SOURCES.values() for path in sources if not path.endswith("/")}
    missing = [path for path in paths if not (commit.ROOT / path).exists()]
    # A plugin is a module or a package, and both are named.
    assert [path for path in missing if not (commit.ROOT / path.removesuffix(".py")).is_dir()] == []


def test_every_plugin_and_every_launched_service_belongs_to_a_file():
    known = {path for sources in real_services.SOURCES.values() for path in sources}
    services = {f"tests/cloud/services/{path.name}" for path in pathlib.Path("tests/cloud/services").glob("[a-z]*.py")}
    assert services - known == {"tests/cloud/services/base.py", "tests/cloud/services/placement.py"}
