"""The choice of tests per commit: a file that it forgot would never run again, and no other test would fail."""

import pathlib
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import commit, real_services
from tests.support.commit import Commit, choose, divide

ALWAYS = ("tests/cloud/test_a.py", "tests/cloud/test_b.py")
TURNS = (
    ("tests/cloud/test_c.py", "tests/functional/test_d.py"),
    ("tests/cloud/test_e.py",),
    ("tests/cloud/test_f.py",),
)
DNS = TURNS[1][0]
HASH = "0" * 40
LONG = "\npytestmark = pytest.mark.long"


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


@given(st.dictionaries(st.sampled_from([f"tests/cloud/test_{name}.py" for name in "abcdefgh"]), st.floats(1, 600)))
def test_the_sets_have_each_file_once_and_take_about_the_same_time(seconds):
    sets = divide(seconds, seconds, 3)
    assert sorted(file for files in sets for file in files) == sorted(seconds)
    times = [sum(seconds[file] for file in files) for files in sets]
    assert max(times) - min(times) <= max(seconds.values(), default=0)


def test_a_file_without_a_duration_counts_as_a_minute():
    assert divide(["a", "b", "c"], {"a": 90, "b": 59}, 2) == ({"a"}, {"b", "c"})


def test_no_file_of_real_services_has_a_marker_that_deselects_it_when_the_header_names_it():
    marked = [path.name for path in (commit.ROOT / "tests/cloud").glob("test_*.py") if LONG in path.read_text()]
    assert marked == []


def test_two_commits_in_a_row_run_both_files_that_alternate_and_all_turns_run_the_others():
    turns = real_services.turns({})
    assert len(turns) == real_services.TURNS
    for number, files in enumerate(turns):
        assert set().union(*real_services.ALTERNATE) <= files | turns[number - 1]
    assert set().union(*turns) == real_services.IN_TURN - real_services.ALWAYS


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


def test_a_file_that_git_does_not_track_is_no_file_of_the_project(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(commit, "ROOT", tmp_path)
    for path in ("etc/sample", "setup.cfg", "venv/bin/python", ".idea/workspace.xml", "notes.txt", ".env"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert len(commit.tracked()) == 6, "a source archive has no history"
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "etc", "setup.cfg"], cwd=tmp_path, check=True)
    assert commit.tracked() == ["etc/sample", "setup.cfg"]
    assert commit.tracked("etc") == ["etc/sample"]
