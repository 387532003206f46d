"""The threats in the manual: each actor has a table, and each row names tests that exist and try the attack."""

import ast
import functools
import pathlib
import re

from tests.support.cases import each_case

ROOT = pathlib.Path(__file__).parents[3]
PAGE = (ROOT / "doc" / "source" / "admin" / "security.rst").read_text()
ACTORS = {
    "Members of the project",
    "Users without a role on the project",
    "Managers of the domain",
    "Readers",
    "Users who requested a deletion",
    "Services",
    "Holders of the janitor's token",
    "Holders of the protocol's token",
    "Clients of the message bus",
    "Clients of the API",
}


def tables(page):
    """The rows of each actor's table: what the actor tries, what happens, the tests."""
    section = page.partition("\nThreats\n=======\n")[2].partition("\n====")[0].rpartition("\n\n")[0]
    found = {}
    for part in re.split(r"\n(?=[^\n]+\n-{4,}\n)", section)[1:]:
        title, _, text = part.partition("\n")
        rows = re.split(r"^   \* - ", text, flags=re.M)[2:]
        found[title] = [[" ".join(cell.split()) for cell in re.split(r"^     - ", row, flags=re.M)] for row in rows]
    return found


TABLES = tables(PAGE)
ROWS = [row for rows in TABLES.values() for row in rows]


def named(row):
    """The tests of a row; the cell has nothing else."""
    cell = row[2]
    found = re.findall(r"``([\w/]+\.py)::(\w+)``", cell)
    assert cell == ", ".join(f"``{file}::{name}``" for file, name in found), cell
    return found


@functools.cache
def functions(file):
    """The tests of a file, with those that it imports."""
    path = ROOT / "tests" / file
    tree = ast.parse(path.read_text() if path.exists() else "")
    names = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.alias))}
    return {name for name in names if name.startswith("test_")}


def missing(rows):
    return [f"{file}::{name}" for row in rows for file, name in named(row) if name not in functions(file)]


def test_each_actor_has_a_table():
    assert set(TABLES) == ACTORS
    assert [actor for actor, rows in TABLES.items() if not rows] == []


@each_case("row", ROWS)
def test_each_row_says_what_happens_and_names_tests_that_exist(row):
    tries, happens, _tests = row
    assert tries
    assert happens.endswith(".")
    assert named(row)
    assert missing([row]) == []


def test_no_row_is_there_twice():
    assert len({row[0] for row in ROWS}) == len(ROWS)


def test_a_row_with_a_test_that_does_not_exist_is_seen():
    page = PAGE.replace(f"``{'::'.join(named(ROWS[0])[0])}``", "``unit/test_log.py::test_of_another_day``")
    assert missing([row for rows in tables(page).values() for row in rows]) == ["unit/test_log.py::test_of_another_day"]
