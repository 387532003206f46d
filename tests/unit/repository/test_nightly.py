"""The nightly parts: each long test belongs to one, and the record says only what was seen."""

import json
import re
import subprocess
import sys

import pytest

from tests import nightly
from tests.support import commit


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with one commit, in which the parts run and the record stands."""

    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True)

    git("init", "-q")
    (tmp_path / "README").write_text("")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    monkeypatch.setattr(commit, "ROOT", tmp_path)
    monkeypatch.setattr(nightly, "RECORD", tmp_path / "nightly.json")
    commit.commit.cache_clear()
    yield tmp_path
    commit.commit.cache_clear()


def part(code):
    return nightly.Part("a test", (sys.executable, "-c", code), {"CLEANUP_CRASH_STRIDE": "7"})


def test_every_file_of_real_services_is_in_one_part():
    named = [
        argument
        for name, each in nightly.parts().items()
        if name.startswith("services-")
        for argument in each.command
        if argument.startswith("tests/cloud/")
    ]
    there = [str(path.relative_to(commit.ROOT)) for path in (commit.ROOT / "tests/cloud").glob("test_*.py")]
    assert sorted(named) == sorted(there)


def test_a_test_reads_each_variable_that_a_part_sets():
    texts = [path.read_text() for path in (commit.ROOT / "tests").rglob("*.py") if path.stem.find("nightly") < 0]
    named = {name for each in nightly.parts().values() for name in each.environment}
    assert [name for name in named if not any(name in text for text in texts)] == []


def test_every_file_with_a_long_test_is_in_a_part():
    marked = re.compile(r"mark\.long\b")
    files = [path.relative_to(commit.ROOT) for path in (commit.ROOT / "tests").rglob("test_*.py")]
    long = {str(file) for file in files if marked.search((commit.ROOT / file).read_text())}
    folders = ("tests/cloud/", "tests/functional/", "tests/unit/repository/")
    assert [file for file in long if not file.startswith(folders)] == []


@pytest.mark.parametrize(
    ("code", "limit", "result"),
    [
        ("import os; assert os.environ['CLEANUP_CRASH_STRIDE'] == '7'", 60, "passed"),
        ("raise SystemExit(3)", 60, "failed"),
        ("import time; time.sleep(600)", 0.2, "took too long"),
    ],
)
def test_a_run_is_recorded_with_its_commit_and_its_result(checkout, monkeypatch, code, limit, result):
    monkeypatch.setattr(nightly, "LIMIT", limit)
    assert nightly.run("one", part(code)) is (result == "passed")
    recorded = json.loads(nightly.RECORD.read_text())["one"]
    assert (recorded["result"], recorded["commit"]) == (result, commit.git("rev-parse", "HEAD"))
    assert nightly.age(recorded).startswith(f"{result} 0 commits ago (")


def test_a_run_of_changed_files_is_not_recorded(checkout, capsys):
    (checkout / "README").write_text("changed")
    assert nightly.run("one", part("")) is True
    assert not nightly.RECORD.exists()
    assert "not recorded: the checkout has changes:\nM README" in capsys.readouterr().out


def test_the_record_of_another_part_stays(checkout):
    nightly.run("one", part(""))
    nightly.run("two", part("raise SystemExit(1)"))
    assert {name: run["result"] for name, run in nightly.read().items()} == {"one": "passed", "two": "failed"}


def test_a_part_without_a_run_and_a_run_of_an_unknown_commit_are_said():
    assert nightly.age(None) == "never"
    run = {"commit": "0" * 40, "date": "2026-11-28", "result": "passed", "seconds": 5}
    assert nightly.age(run) == "passed at a commit that is not here (2026-11-28, 5 s)"


def test_an_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit):
        nightly.main(["services-9"])
    assert "no part is called services-9: see --list" in capsys.readouterr().err


def test_the_record_names_only_parts_that_there_are():
    assert set(nightly.read()) <= set(nightly.parts())
