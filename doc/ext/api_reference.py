"""Writes the API reference from the OpenAPI document.

As a Sphinx extension it writes ``api/reference.rst`` below the sources before Sphinx reads them. The text is that of
the document which the API serves at ``/v1/openapi.json``, and the examples are those that the tests run.
"""

from __future__ import annotations

import http
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from generated import write_changed

from cleanup_orchestrator.api import errors, openapi

Schema = dict[str, Any]

URL = "https://cleanup.example.com"
HEADER = """\
=============
API reference
=============

Every call, parameter, field and error of the API, version {version}. This page is generated from the OpenAPI 3.1
document that the API serves at ``/v1/openapi.json``. The examples are those that the tests of the API run, with other
IDs and times. :doc:`v1` is the guide: it explains what the calls do.

- Every path except those of :ref:`versions <tag-versions>` needs a token of Keystone in ``X-Auth-Token``.
- ``OpenStack-API-Version`` asks for a microversion: see :doc:`v1`.
- A field or a parameter that is not on this page is refused.
"""
TITLES = {"versions": "Versions", "brake": "Brake", "orphan-scans": "Orphan scans", "projects": "Force"}


def heading(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}\n"


def table(columns: tuple[str, ...], widths: tuple[int, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table; a cell is one paragraph."""
    lines = [
        ".. list-table::",
        "   :header-rows: 1",
        "   :width: 100%",
        f"   :widths: {' '.join(map(str, widths))}",
        "",
    ]
    for row in [columns, *rows]:
        lines += [f"   {'* -' if number == 0 else '  -'} {cell}".rstrip() for number, cell in enumerate(row)]
    return "\n".join([*lines, ""])


def reference(pointer: str) -> str:
    """Return a link to a schema of the document."""
    name = pointer.rpartition("/")[2]
    return f":ref:`{name} <schema-{name.lower()}>`"


def kind(schema: Schema) -> str:
    """Return the type of a value in words."""
    if "$ref" in schema:
        return reference(schema["$ref"])
    if "anyOf" in schema:
        return " or ".join(kind(each) for each in schema["anyOf"])
    types = schema.get("type", "string")
    names = []
    for name in types if isinstance(types, list) else [types]:
        if name == "array":
            items = schema["items"]
            names.append("array of objects" if "properties" in items else f"array of {kind(items)}")
        elif name == "string":
            names.append({"date-time": "time", "uuid": "UUID"}.get(schema.get("format", ""), "string"))
        else:
            names.append(name)
    return " or ".join(names)


def meaning(schema: Schema) -> str:
    """Return the description of a value, with its limits."""
    said = [schema.get("description", "")]
    values = schema.get("enum") or schema.get("items", {}).get("enum")
    if values and all(f"``{value}``" in said[0] for value in values):
        pass
    elif values and len(values) <= 20:
        said.append(f"One of {', '.join(f'``{value}``' if value else 'empty' for value in values)}.")
    elif values:
        code = set(values) <= set(errors.CODES)
        said.append("A code of :ref:`errors`." if code else "A reason of :doc:`/admin/operations`.")
    if keys := schema.get("x-sort-keys"):
        said.append(f"The keys are {', '.join(f'``{key}``' for key in keys)}.")
    if "default" in schema:
        said.append(f"The default is ``{json.dumps(schema['default']).strip(chr(34))}``.")
    if schema.get("type") != "array" and schema.get("maxLength", 0) and not schema.get("format"):
        said.append(f"At most {schema['maxLength']} characters.")
    if schema.get("maxItems", 0) > 1:
        said.append(f"At most {schema['maxItems']} items.")
    return " ".join(filter(None, said))


def fields(schema: Schema, before: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of each field, also of objects inside."""
    required = schema.get("required", ())
    for name, value in schema.get("properties", {}).items():
        optional = "" if name in required else ", optional"
        yield f"``{before}{name}``", kind(value) + optional, meaning(value)
        if "properties" in value:
            yield from fields(value, f"{before}{name}.")
        elif "properties" in value.get("items", {}):
            yield from fields(value["items"], f"{before}{name}[].")


def block(text: str) -> str:
    return "::\n\n" + "\n".join(f"    {line}".rstrip() for line in text.splitlines()) + "\n"


def shown(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def parameters(operation: Schema) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, place, type and meaning of each parameter and each field of the body."""
    for each in operation["parameters"]:
        if "$ref" in each:  # the header of the microversion, which the top of the page explains
            continue
        said = meaning({**each["schema"], "description": each.get("description", "")})
        place = each["in"] if each.get("required") else f"{each['in']}, optional"
        yield f"``{each['name']}``", place, kind(each["schema"]), said
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for name, type_, said in fields(body):
        type_, _, optional = type_.partition(", ")
        yield name, "body, optional" if optional else "body", type_, said


def call(method: str, path: str, operation: Schema, document: Schema) -> Iterator[str]:
    """Yield the text of one call."""
    yield f".. _operation-{operation['operationId'].replace('_', '-')}:\n"
    yield heading(f"{method.upper()} {path}", "-")
    yield f"{operation['summary']}.\n"
    if rows := list(parameters(operation)):
        yield table(("Name", "In", "Type", "Meaning"), (20, 12, 16, 52), rows)
    good, bad = [], []
    for status, response in operation["responses"].items():
        if "$ref" not in response:
            good.append((status, response))
            continue
        known = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
        codes = known["description"].rpartition(": ")[2].rstrip(".").split(", ")
        bad.append((f"{status} {http.HTTPStatus(int(status)).phrase}", ", ".join(map(code, codes))))
    yield table(("Answer", "Body", "Meaning"), (15, 35, 50), [answer(*each) for each in good])
    yield table(("Error", "Codes"), (25, 75), bad)
    yield from example(operation["operationId"])


def code(name: str) -> str:
    return f":ref:`{name} <{errors.anchor(name)}>`"


def answer(status: str, response: Schema) -> tuple[str, str, str]:
    """Return the row of an answer."""
    content = response.get("content", {}).get("application/json", {}).get("schema", {})
    body = "; ".join(f"``{name}``: {kind(value)}" for name, value in content.get("properties", {}).items())
    said = response["description"]
    if "Location" in response["headers"]:
        said += " The header ``Location`` has its URL."
    return f"{status} {http.HTTPStatus(int(status)).phrase}", body or ("object" if content else "none"), said


def example(name: str) -> Iterator[str]:
    """Yield the example of a call."""
    found = openapi.examples().get(name)
    if found is None:
        return
    sent = f"{found['method']} {found['path']}"
    if "body" in found:
        sent += f"\n{shown(found['body'])}"
    yield block(f"{sent}\n\n{found['status']} {http.HTTPStatus(found['status']).phrase}")
    if "answer" in found:
        yield (
            ".. code-block:: json\n\n" + "\n".join(f"    {line}" for line in shown(found["answer"]).splitlines()) + "\n"
        )


def page() -> str:
    """Return the whole page."""
    document = openapi.document(URL)
    parts = [HEADER.format(version=document["info"]["version"])]
    for tag in document["tags"]:
        title = TITLES.get(tag["name"], tag["name"].capitalize())
        parts += [f".. _tag-{tag['name']}:\n", heading(title, "="), f"{tag['description']}\n"]
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if operation["tags"] == [tag["name"]]:
                    parts += call(method, path, operation, document)
    parts += [heading("Objects", "="), "The objects of the answers. A field is always there if it is not optional.\n"]
    for name, schema in document["components"]["schemas"].items():
        parts += [f".. _schema-{name.lower()}:\n", heading(name, "-")]
        parts += [table(("Field", "Type", "Meaning"), (25, 20, 55), fields(schema))]
    parts += [".. _errors:\n", heading("Errors", "="), "What the code of an :ref:`error <schema-error>` means.\n"]
    for name, (status, about) in errors.CODES.items():
        parts += [
            f".. _{errors.anchor(name)}:\n",
            f"``{name}`` ({status} {http.HTTPStatus(status).phrase})\n   {about}\n",
        ]
    parts += [".. _problems:\n", heading("Problems of errors", "-")]
    parts += ["What the ``problem`` of an :ref:`error <schema-error>` means. Only some errors have one.\n"]
    parts += [f"``{name}``\n   {about}\n" for name, about in errors.PROBLEMS.items()]
    return "\n".join(parts)


def setup(app: Any) -> dict[str, Any]:
    """Connect the extension to Sphinx."""
    app.connect("builder-inited", lambda app: write_changed(Path(app.srcdir) / "api" / "reference.rst", page()))
    return {"parallel_read_safe": True}
