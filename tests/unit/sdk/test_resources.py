"""The resources of the SDK have the fields of the API's answers, with their types and descriptions."""

import copy
import importlib
import inspect
import json
import re

import pytest
from openstack import resource

from cleanup_orchestrator import sdk
from cleanup_orchestrator.api import answers
from cleanup_orchestrator.sdk import base, deletions, holds, orphans, reports
from tests.support.cases import each_case

MODULES = (deletions, holds, orphans, reports)
CLASSES = {
    name: each
    for module in MODULES
    for name, each in vars(module).items()
    if isinstance(each, type) and each.__module__ == module.__name__
}
#: Named schemas that no call of the proxy returns: parts of answers that the proxy reads itself.
NOT_RESOURCES = {"Error", "Errors", "Link", "Version"}
#: Resources whose schema has no name.
UNNAMED = {
    "ChildDeletion": answers.DELETION["properties"]["children"]["items"],
    "Grant": answers.DELETION["properties"]["grants_removed"]["items"],
    "UnseenType": answers.FORCED["properties"]["unseen"]["items"],
    "ProjectLeftover": answers.PROJECT_LEFTOVER,
    "ProjectEvent": answers.PROJECT_EVENT,
    "PlannedType": answers.PLAN["properties"]["types"]["items"],
    "SkippedService": answers.WAIVER["properties"]["not_listed"]["items"],
    "ScanCounts": answers.ORPHAN_SCAN["properties"]["counts"],
    "ScannedType": answers.ORPHAN_SCAN["properties"]["coverage"]["items"],
    "NotCoveredType": answers.ORPHAN_SCAN["properties"]["not_covered"]["items"],
    "TypeCount": answers.ORPHAN_PROJECT["properties"]["counts"]["items"],
}
SCHEMAS = {name: schema for name, schema in answers.NAMED.items() if name not in NOT_RESOURCES} | UNNAMED
SIMPLE = {"string": str, "integer": int, "boolean": bool}


def own(cls):
    """Return the attributes of a class, by name. The base class of openstacksdk adds ``id`` and ``name`` to each."""
    found = {}
    for each in cls.__mro__:
        if each not in resource.Resource.__mro__:
            for name, value in vars(each).items():
                if isinstance(value, type(resource.Body("x"))):
                    found.setdefault(name, value)
    return found


def typed(schema):
    """Return the type of an attribute and that of its items, as a schema has them."""
    if "anyOf" in schema:
        schema = schema["anyOf"][0]
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    if kind in SIMPLE:
        return SIMPLE[kind], None
    if kind == "array":
        item = typed(schema["items"])[0]
        return list, None if item in (dict, list) else item
    for name, known in SCHEMAS.items():
        if known["properties"] == schema.get("properties"):
            return CLASSES[name], None
    return dict, None


def comments(cls):
    """Return the comment above each attribute, by the name of the attribute."""
    found = {}
    for each in reversed(cls.__mro__):
        if each.__module__.startswith("cleanup_orchestrator.sdk"):
            for lines, name in re.findall(r"((?:^    #: .*\n)+)    (\w+): .*Body\(", inspect.getsource(each), re.M):
                found[name] = " ".join(line.strip().removeprefix("#: ") for line in lines.splitlines())
    return found


def example(schema, newer=True):
    """Return an object with every field of a schema, and with one that no schema has."""
    if "anyOf" in schema:
        schema = schema["anyOf"][0]
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    match kind:
        case "object":
            fields = {name: example(value, newer) for name, value in schema.get("properties", {}).items()}
            return fields | ({"of_a_newer_server": {"x": [1]}} if newer else {})
        case "array":
            return [example(schema["items"], newer)]
        case "string":
            return schema["enum"][0] if "enum" in schema else "text"
    return {"integer": 7, "boolean": True}[kind]


def test_every_schema_has_its_resource():
    assert set(CLASSES) == set(SCHEMAS)


@each_case("name", SCHEMAS)
def test_a_resource_has_the_fields_of_the_answer(name):
    fields = SCHEMAS[name]["properties"]
    attributes = own(CLASSES[name])
    assert set(attributes) == set(fields)
    assert {attribute: body.name for attribute, body in attributes.items()} == {field: field for field in fields}
    assert {n: (body.type, body.list_type) for n, body in attributes.items()} == {
        n: typed(schema) for n, schema in fields.items()
    }


@each_case("name", SCHEMAS)
def test_the_comments_are_the_descriptions_of_the_api(name):
    told = comments(CLASSES[name])
    described = {
        n: schema["description"] for n, schema in SCHEMAS[name]["properties"].items() if "description" in schema
    }
    assert {n: told.get(n) for n in described} == described
    assert set(told) == set(SCHEMAS[name]["properties"])


def test_a_missing_field_and_a_wrong_type_are_seen():
    class Wrong(base.CleanupResource):
        origin = resource.Body("origin", type=int)

    assert set(own(Wrong)) == {"origin"}
    assert (own(Wrong)["origin"].type, None) != typed(answers.LIEN["properties"]["origin"])


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
    for field, schema in SCHEMAS[name]["properties"].items():
        kind, items = typed(schema)
        value = getattr(made, field)
        assert isinstance(value, kind), field
        assert items is None or [type(each) for each in value] == [items], field
    assert made.of_a_newer_server == {"x": [1]}
    assert made.to_dict()["of_a_newer_server"] == {"x": [1]}


@each_case("name", SCHEMAS)
def test_an_older_server_sends_less(name):
    made = CLASSES[name].received({})
    assert len(made) == 0 and json.dumps(made) == "{}"
    for field in SCHEMAS[name]["properties"]:
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
    assert set(answers.DELETION["properties"]) <= set(told)


def test_the_package_exports_what_the_proxy_returns():
    source = inspect.getsource(importlib.import_module("cleanup_orchestrator.sdk.proxy"))
    returned = set(re.findall(r"-> (?:Iterator\[)?([A-Z]\w+)", source)) - {"Any", "Iterator", "None", "Proxy", "R"}
    assert {"Deletion", "Leftover", "Event", "Brake"} <= returned <= set(CLASSES)
    assert returned <= set(sdk.__all__)
    assert all(getattr(sdk, name) is CLASSES[name] for name in returned)
