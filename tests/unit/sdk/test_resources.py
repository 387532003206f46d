"""The resources of the SDK have the fields of the shapes, with their types."""

import copy
import importlib
import inspect
import json
import re

import pytest

from cleanup_orchestrator import sdk
from cleanup_orchestrator.sdk import deletions, evidence, holds, orphans, places, reports
from cleanup_orchestrator.shapes import schema
from cleanup_orchestrator.shapes.base import item_type
from tests import sdk_source
from tests.support.cases import each_case

CLASSES = {
    name: each
    for module in (places, deletions, evidence, holds, orphans, reports)
    for name, each in vars(module).items()
    if isinstance(each, type) and each.__module__ == module.__name__
}
SHAPES = {each.__name__: each for module in sdk_source.MODULES.values() for each in sdk_source.shapes_of(module)}
SCHEMAS = {name: schema.schema(shape) for name, shape in SHAPES.items()}
SIMPLE = {str: str, int: int, bool: bool}


def typed(field):
    """Return the type of the value of an attribute, and that of its items if these are resources or simple."""
    item = item_type(field.kind)
    if item is not None:
        return list, SIMPLE.get(item) or CLASSES.get(getattr(item, "__name__", ""))
    return SIMPLE.get(field.kind) or CLASSES.get(getattr(field.kind, "__name__", ""), dict), None


def example(schema, newer=True):
    """Return an object with every field of a schema, and with one that no schema has."""
    if "anyOf" in schema:
        schema = schema["anyOf"][0]
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    if kind == "object":
        fields = {name: example(value, newer) for name, value in schema.get("properties", {}).items()}
        return fields | ({"of_a_newer_server": {"x": [1]}} if newer else {})
    if kind == "array":
        return [example(schema["items"], newer)]
    if kind == "string":
        return schema["enum"][0] if "enum" in schema else "text"
    return {"integer": 7, "boolean": True}[kind]


@each_case("name", sdk_source.MODULES)
def test_the_resources_are_those_of_the_shapes(name):
    assert (sdk_source.SDK / f"{name}.py").read_text() == sdk_source.source(name), "run python -m tests.sdk_source"


@each_case("name", SCHEMAS)
def test_a_resource_is_a_mapping_of_what_the_server_sent(name):
    sent = example(SCHEMAS[name])
    made = CLASSES[name].received(copy.deepcopy(sent))
    assert json.loads(json.dumps(made)) == sent
    assert list(made) == list(made.keys()) == list(sent)
    assert dict(made) == {**made} == dict(made.items()) == sent
    assert [made[field] for field in made] == list(made.values()) == list(sent.values())
    assert "location" not in made and made.get("location", "none") == "none"


@each_case("name", SCHEMAS)
def test_the_attributes_of_a_resource_are_typed(name):
    made = CLASSES[name].received(example(SCHEMAS[name]))
    for field, each in SHAPES[name].fields.items():
        kind, items = typed(each)
        value = getattr(made, field)
        assert isinstance(value, kind), field
        assert items is None or [type(each) for each in value] == [items], field
    assert made.of_a_newer_server == {"x": [1]}
    assert made.to_dict()["of_a_newer_server"] == {"x": [1]}


@each_case("name", SCHEMAS)
def test_an_older_server_sends_less(name):
    made = CLASSES[name].received({})
    assert len(made) == 0 and json.dumps(made) == "{}"
    for field in SHAPES[name].fields:
        assert getattr(made, field) is None
        assert field not in made
    with pytest.raises(AttributeError):
        made.nonsense  # noqa: B018
    with pytest.raises(KeyError):
        made["nonsense"]


def test_what_is_null_is_none():
    made = deletions.Deletion.received({"id": "x", "finished_at": None, "forced": None, "grants_removed": None})
    assert (made.finished_at, made.forced, made.grants_removed) == (None, None, None)
    assert made["forced"] is None and "forced" in made


def test_a_field_with_the_name_of_a_parameter_does_no_harm():
    sent = {"id": "x", "connection": 1, "self": 2, "_synchronized": 3, "microversion": 4}
    assert dict(deletions.Deletion.received(sent)) == sent


def test_to_dict_has_all_attributes_as_in_openstacksdk():
    made = deletions.Deletion.received({"id": "x", "progress": {"found": 3}})
    told = made.to_dict()
    assert (told["id"], told["progress"]["found"], told["plan_id"]) == ("x", 3, None)
    assert set(SHAPES["Deletion"].fields) <= set(told)


def test_the_package_exports_what_the_proxy_returns():
    source = inspect.getsource(importlib.import_module("cleanup_orchestrator.sdk.proxy"))
    returned = set(re.findall(r"-> (?:Iterator\[)?([A-Z]\w+)", source)) - {"Any", "Iterator", "None", "Proxy", "R"}
    assert {"Deletion", "Leftover", "Event", "Brake"} <= returned <= set(CLASSES)
    assert returned <= set(sdk.__all__)
    assert all(getattr(sdk, name) is CLASSES[name] for name in returned)
