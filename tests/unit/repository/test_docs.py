"""The manual says what the source says: an operator looks up a word at night and must find it."""

import configparser
from pathlib import Path

from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.reasons import Reason, remedy
from tests.support.cases import each_case

ROOT = Path(__file__).parents[3]
DOC = ROOT / "doc" / "source"


def entry_points(group):
    setup = configparser.ConfigParser(delimiters=("=",))
    setup.read(ROOT / "setup.cfg")
    return [line.split(" = ")[0].strip() for line in setup["options.entry_points"][group].strip().splitlines()]


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


def test_every_client_command_is_explained():
    page = (DOC / "user" / "osc.rst").read_text()
    commands = [name.replace("_", " ") for name in entry_points("openstack.project_cleanup.v1")]
    assert [command for command in commands if f"``openstack {command}" not in page] == []


def test_every_console_script_is_named():
    pages = "".join(path.read_text() for path in (DOC / "admin").glob("*.rst"))
    assert [name for name in entry_points("console_scripts") if name not in pages] == []
