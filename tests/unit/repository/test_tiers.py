"""The order of the files: one that is long and runs last keeps the other processes waiting."""

import configparser
import json
import math
import pathlib
import types

import pytest

from tests.support import commit, tiers

ROOT = pathlib.Path(__file__).parents[3]
RECORDED = {
    "tests/unit/test_a.py": 3.0,
    "tests/simulation/test_s.py::test_seeds[seeds 0-9]": 7.0,
    "tests/simulation/test_s.py::test_seeds[seeds 10-19]": 8.0,
    "tests/simulation/test_s.py::test_same": 1.0,
}


@pytest.mark.parametrize(
    ("unit", "seconds"),
    [
        pytest.param("tests/unit/test_a.py", 3.0, id="a file"),
        pytest.param("tests/simulation/test_s.py::test_same", 1.0, id="a test"),
        pytest.param("tests/simulation/test_s.py::test_seeds[seeds 0-9]", 7.0, id="a case"),
        pytest.param("tests/simulation/test_s.py::test_seeds[seeds 4711-4720]", 8.0, id="another case of a function"),
        pytest.param("tests/simulation/test_s.py::test_new", 8.0, id="a new test of a file"),
        pytest.param("tests/unit/test_ab.py", math.inf, id="a new file"),
    ],
)
def test_how_long_a_unit_takes(unit, seconds):
    assert tiers.seconds_of(unit, RECORDED) == seconds


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The file of the durations, in a checkout with two files."""
    for name in ("tests/unit/test_a.py", "tests/simulation/test_s.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(tiers.commit, "ROOT", tmp_path)
    monkeypatch.setattr(tiers, "DURATIONS", tmp_path / "durations.json")
    return tmp_path / "durations.json"


def record(tier, *reports):
    """Record a run, as pytest calls the plugin."""
    recorder = tiers.Recorder(tier)
    for nodeid, seconds in reports:
        recorder.pytest_runtest_logreport(types.SimpleNamespace(nodeid=nodeid, duration=seconds))
    ends = recorder.pytest_sessionfinish()
    assert list(ends) == [None]


def test_a_record_replaces_what_ran_in_its_tier_and_forgets_files_that_are_gone(file):
    gone = {"tests/unit/test_gone.py": 5.0}
    file.write_text(json.dumps({"tox": RECORDED | gone, "real": {"tests/simulation/test_s.py": 99.0}}))
    seeds = "tests/simulation/test_s.py::test_seeds[seeds 20-29]"
    record("tox", (seeds, 1.5), (seeds, 0.52))
    assert json.loads(file.read_text()) == {
        "real": {"tests/simulation/test_s.py": 99.0},
        "tox": {"tests/unit/test_a.py": 3.0, seeds: 2.0},
    }
    record("tox", ("tests/unit/test_a.py::test_b", 0.01), ("tests/unit/test_a.py::test_c", 0.02))
    assert tiers.durations("tox") == {"tests/unit/test_a.py": 0.0, seeds: 2.0}, "a short file is no new one"
    assert tiers.durations("long") == {}
    assert tiers.durations() == {"tests/unit/test_a.py": 0.0, seeds: 2.0, "tests/simulation/test_s.py": 99.0}


def test_a_file_that_processes_divide_takes_as_long_as_its_tests():
    assert tiers.of_files({"a.py": 1.0, "b.py::one": 2.0, "b.py::two": 3.5}) == {"a.py": 1.0, "b.py": 5.5}


@pytest.mark.parametrize(("file", "used"), [("test_everything", True), ("test_main_job", False)])
def test_the_whole_cloud_starts_only_for_a_commit_that_uses_it(file, used, monkeypatch):
    monkeypatch.setattr(tiers, "choice", lambda: commit.Choice({f"tests/cloud/{file}.py": "its turn"}, ()))
    assert tiers.commit_uses_whole_cloud() is used


def test_the_tiers_are_those_of_tox():
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    for section, tier in (("testenv", "tox"), ("testenv:real", "real")):
        [expression] = [each for each, name in tiers.TIERS.items() if name == tier]
        assert f'-m "{expression}"' in tox[section]["commands"]
