"""The manual says what the source says: an operator looks up a word at night and must find it."""

import ast
import configparser
import importlib.metadata
import re
import shlex
from pathlib import Path

import pytest

from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.reasons import Reason, remedy
from tests.support.cases import each_case

ROOT = Path(__file__).parents[3]
DOC = ROOT / "doc" / "source"


def entry_points(group):
    setup = configparser.ConfigParser(delimiters=("=",))
    setup.read(ROOT / "setup.cfg")
    lines = setup["options.entry_points"][group].strip().splitlines()
    return dict(tuple(part.strip() for part in line.split(" = ")) for line in lines)


def section(title):
    page = (DOC / "admin" / "operations.rst").read_text()
    return page.partition(f"\n{title}\n{'=' * len(title)}\n")[2].partition("\n====")[0]


@each_case("status", Status)
def test_every_status_is_explained(status):
    assert section("Statuses").count(f"   * - ``{status}``\n") == 1


@each_case("condition", ConditionType)
def test_every_condition_is_explained(condition):
    assert section("Conditions").count(f"   * - ``{condition}``\n") == 1


@each_case("reason", Reason)
def test_every_reason_is_explained_with_its_remedy(reason):
    _, found, rest = section("Reasons").partition(f"   * - ``{reason}``\n")
    assert found
    assert rest.splitlines()[1] == f"     - {remedy(reason)}"


def said(path):
    """Return the texts in a module, with an ellipsis for each expression in a text."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(re.sub(r"\{\w+\}", "…", node.value))
    return found


def test_the_words_that_people_look_up_are_words_of_the_program():
    page = (
        (DOC / "admin" / "stuck.rst")
        .read_text()
        .partition("\nWhat you see\n")[2]
        .partition("\nThe deletion does not")[0]
    )
    words = re.findall(r"^   \* - ``(.*)``$", page, re.MULTILINE)
    assert len(words) > 25
    texts = "\n".join(text for path in (ROOT / "cleanup_orchestrator").rglob("*.py") for text in said(path))
    assert [line for line in words if line.rstrip("… ") not in texts] == []


def commands(path):
    """Return the commands of this package that a page shows, with the words that stand for names and IDs."""
    text = re.sub(r"\\\n\s*", "", path.read_text())
    for line in text.splitlines():
        found = re.match(r"\s+(?:\$ )?openstack (project (?:delete --async|purge|deletion|orphan)\b.*)", line)
        if found and not re.search(r"[\[|]|\.\.\.", found[1].partition(" #")[0]):
            yield shlex.split(found[1].partition("  #")[0].partition(" < ")[0], comments=True)


PAGES = [ROOT / "README.rst", *sorted(DOC.rglob("*.rst"))]


@pytest.mark.parametrize("path", [page for page in PAGES if any(commands(page))], ids=lambda path: path.stem)
def test_the_commands_of_a_page_are_commands_of_this_package(path, capsys):
    targets = entry_points("openstack.extension") | entry_points("openstack.project_cleanup.v1")
    known = {name.replace("_", " "): importlib.metadata.EntryPoint(name, to, "") for name, to in targets.items()}
    for words in commands(path):
        name = max((name for name in known if " ".join(words).startswith(name)), key=len)
        parser = known[name].load()(None, None).get_parser(name)
        arguments = words[len(name.split()) :]
        try:
            parser.parse_args(arguments)
        except SystemExit:
            pytest.fail(f"{path.name}: openstack {' '.join(words)}: {capsys.readouterr().err}")


def test_every_client_command_is_explained():
    page = (DOC / "user" / "osc.rst").read_text()
    commands = [name.replace("_", " ") for name in entry_points("openstack.project_cleanup.v1")]
    assert [command for command in commands if f"``openstack {command}" not in page] == []


def test_every_console_script_is_named():
    pages = "".join(path.read_text() for path in (DOC / "admin").glob("*.rst"))
    assert [name for name in entry_points("console_scripts") if name not in pages] == []
