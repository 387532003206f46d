"""Every installed plugin has its page, which says what it declares in the words of the report."""

import functools
import sys
from pathlib import Path

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.plugins.base import Refused, ResourceType, Rest, Sdk, Service, Verdict
from cleanup_orchestrator.plugins.registry import Registry
from tests.support.cases import each_case

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "doc" / "ext"))
import service_pages  # noqa: E402

sys.path.remove(str(ROOT / "doc" / "ext"))

INSTALLED = service_pages.plugins()
KNOWN = Registry(service for service, _ in INSTALLED.values())
TYPES = [(name, type_) for name, (service, _) in INSTALLED.items() for type_ in service.types]


@functools.cache
def page(name):
    return service_pages.page(*INSTALLED[name], KNOWN)


def section(name, type_):
    _, found, rest = page(name).partition(f"\n{type_.name}\n{'-' * len(type_.name)}\n")
    assert found, type_.name
    lines = rest.splitlines()
    end = next((n for n, line in enumerate(lines) if n and set(line) == {"-"}), len(lines))
    return "\n".join(lines[: end - 1]) if end < len(lines) else rest


def test_each_plugin_has_a_page_and_the_index_names_it():
    index = service_pages.index(INSTALLED, KNOWN)
    assert set(INSTALLED) == set(KNOWN.services)
    assert [name for name in INSTALLED if f"\n   {name}\n" not in index] == []


@each_case("name", INSTALLED)
def test_a_page_says_which_role_is_needed_and_what_the_service_is(name):
    service, intro = INSTALLED[name]
    assert intro and intro in page(name)
    assert service.roles and service.roles in page(name)
    for option in service.options:
        assert f"\n``{option.dest}`` (default: " in page(name)


@each_case("name,type_", TYPES, ids=lambda value: getattr(value, "name", value))
def test_a_page_says_all_that_a_type_declares(name, type_):
    text = section(name, type_)
    assert ":Listed with: " in text and ":Deleted with: " in text
    for said in (type_.note, type_.source):
        assert said in text
    assert (":Token: scoped into the project" in text) is (type_.token is Token.PROJECT)
    assert (":Token: the janitor's, scoped into the project." in text) is (type_.token is Token.MEMBER)
    assert ("Kept, and not counted as left:" in text) is bool(type_.keep)
    assert (":Deleted last:" in text) is type_.project_setting
    deletable = type_.delete is not None and not type_.composition.deleted_with and not type_.project_setting
    assert (":Age: " in text) is deletable
    assert all(f"{parts.name} (" in text for parts in type_.parts or () if deletable)
    if type_.protect:
        assert f"``{Reason.PROTECTED}``: " in text


def test_the_order_names_every_type_once():
    for name, (service, _) in INSTALLED.items():
        order = page(name).partition("\nOrder\n")[2].partition("\nTypes\n")[0].partition("\nOptions\n")[0]
        named = [type_.name for type_ in service.types if f"``{type_.name}``" in order]
        assert named == [type_.name for type_ in service.types]


def _in_the_way(connection, project, resource):
    raise Refused(Verdict(Reason.FOREIGN, f"{resource.id} belongs to another project"))


def _prepare(connection, project, resource):
    """Look first."""
    _in_the_way(connection, project, resource)


def _keep(resource, project):
    return "it is the service's own" if resource.data.get("default") else None


def _protect(resource, project):
    if resource.data.get("public"):
        return f"it is shared with {len(resource.data)} projects"
    return None


def test_what_is_kept_protected_and_refused_is_read_out_of_the_rules():
    thing = ResourceType(
        "thing",
        list=Rest("network", "/things", "things", query={"project_id": "{project_id}"}),
        delete=Sdk("network", "delete_port", "{id}"),
        prepare=(_prepare,),
        keep=(_keep,),
        protect=(_protect,),
    )
    text = service_pages.page(Service("network", (thing,)), "Things.", Registry([Service("network", (thing,))]))
    opening = text.partition("\nIn short\n========\n")[2].partition("\nThings.\n")[0]
    assert (
        opening
        == """
**Deleted**, if the project owns it: ``thing``.

**Kept** (it is no leftover):

- ``thing``: It is the service's own.

**Never touched** (the report names it, and the project stays until a person decides):

- ``thing``: It is shared with … projects.

**Never touched**: what the project does not own.
"""
    )
    for line in (
        ":Listed with: ``GET /things?project_id={project_id}``",
        ":Before the delete: Look first.",
        ":Deleted with: ``network.delete_port('{id}')`` of openstacksdk",
        "- It is the service's own.",
        "- ``protected``: It is shared with … projects.",
        "- ``foreign``: … belongs to another project.",
    ):
        assert f"{line}\n" in text, line


def test_the_extension_writes_what_is_new_and_removes_what_is_no_longer_there(tmp_path):
    directory = tmp_path / "services"
    directory.mkdir()
    (directory / "retired.rst").write_text("a plugin that is gone")
    service_pages.write(directory)
    assert {path.stem for path in directory.iterdir()} == {*INSTALLED, "index"}
    before = {path: path.stat().st_mtime_ns for path in directory.iterdir()}
    service_pages.write(directory)
    assert {path: path.stat().st_mtime_ns for path in directory.iterdir()} == before


def test_an_opening_names_each_type_that_can_be_deleted_and_each_sentence_once():
    for name, (service, _) in INSTALLED.items():
        opening = service_pages.in_short(service)
        deleted = opening.partition("**Deleted**")[2].partition("\n")[0]
        assert [t.name for t in service.types if t.delete is not None and f"``{t.name}``" not in deleted] == [], name
        for part in opening.split("\n**"):
            sentences = [line.partition("``: ")[2] for line in part.splitlines() if line.startswith("- ")]
            assert len(set(sentences)) == len(sentences), name
