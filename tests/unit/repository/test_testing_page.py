"""The page about testing: each promise has tests and breakages, and the page names them all."""

import pathlib
import re

import pytest

from tests.simulation.breakages import BREAKAGES

ROOT = pathlib.Path(__file__).parents[3]
PAGE = (ROOT / "doc" / "source" / "contributor" / "testing.rst").read_text()
#: How many promises the design has.
PROMISES = 13
TIERS = {"tox", "real", "long"}


def table():
    """The rows of the table of promises, each as its cells."""
    text = PAGE.partition("\nPromises\n========\n")[2].partition("\n===")[0].rpartition("\n\n")[0]
    rows = re.split(r"^   \* - ", text, flags=re.M)[2:]
    return [[" ".join(cell.split()) for cell in re.split(r"^     - ", row, flags=re.M)] for row in rows]


def quoted(cell):
    return re.findall(r"``([^`]+)``", cell)


@pytest.mark.parametrize("number", range(1, PROMISES + 1))
def test_every_promise_has_tests_that_exist_and_a_breakage(number):
    promise, tests, breakages, tier = table()[number - 1]
    assert promise.startswith(f"{number}. ")
    assert quoted(tests), "no test"
    assert [file for file in quoted(tests) if not (ROOT / "tests" / file).exists()] == []
    assert breakages
    assert set(tier.replace(",", "").split()) <= TIERS


def test_there_are_no_other_promises():
    assert len(table()) == PROMISES


def test_every_breakage_of_the_simulation_is_named_for_its_promise():
    named = [name for row in table() for name in re.findall(r"[^;]+", row[2])]
    named = [name.strip() for name in named if name.strip() and "``" not in name]
    assert sorted(BREAKAGES) == sorted(set(named))


def test_every_folder_of_tests_with_servers_is_named():
    """A file of these folders guards something of a promise, or it would not need a server."""
    for folder in ("simulation", "cloud"):
        files = {f"{folder}/{path.name}" for path in (ROOT / "tests" / folder).glob("test_*.py")}
        assert files - set(quoted(PAGE)) == set()
