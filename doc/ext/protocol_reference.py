"""Writes the OpenAPI document of the project resources protocol, and a page with its calls and objects.

As a Sphinx extension it writes ``protocol/openapi.json`` and ``protocol/reference.rst`` below the sources before Sphinx
reads them.
"""

from __future__ import annotations

import http
import json
from pathlib import Path
from typing import Any

from api_reference import fields, heading, table
from generated import write_changed

from cleanup_orchestrator.protocol import openapi
from cleanup_orchestrator.protocol.documents import STATUS

HEADER = """\
=================
Calls and objects
=================

This page is generated from the :download:`OpenAPI 3.1 document <openapi.json>` of the protocol. :doc:`index` explains
the protocol. An optional field can be missing, and a client ignores a field that it does not know.
"""


def page() -> str:
    """Return the whole page."""
    document = openapi.document()
    calls = []
    for (method, path), call in openapi.CALLS.items():
        answers = ", ".join(f"{status}{f' :ref:`{name} <schema-{name.lower()}>`' if name else ''}"
                            for status, (_, name) in call.answers.items())  # fmt: skip
        calls.append((f"``{method} {{base}}{path}``", call.summary, answers, ", ".join(map(short, call.problems))))
    problems = [(f"``{type_}``", f"{status} {http.HTTPStatus(status).phrase}") for type_, status in STATUS.items()]
    parts = [
        HEADER,
        heading("Calls", "="),
        table(("Call", "What it does", "Answer", "Problems"), (35, 30, 15, 20), calls),
    ]
    parts += ["Every call can also have the problems ``bad-request``, ``not-authenticated``, ``forbidden``, "]
    parts[-1] += "``internal`` and ``unavailable``.\n"
    parts += [heading("Problems", "="), table(("Type", "Status"), (60, 40), problems), heading("Objects", "=")]
    for name, schema in document["components"]["schemas"].items():
        parts += [f".. _schema-{name.lower()}:\n", heading(name, "-")]
        parts += [table(("Field", "Type", "Meaning"), (25, 20, 55), fields(schema))]
    return "\n".join(parts)


def short(type_: str) -> str:
    return f"``{type_.rpartition(':')[2]}``"


def write(folder: Path) -> None:
    """Write both files, unless they are there already."""
    files = {"openapi.json": json.dumps(openapi.document(), indent=1) + "\n", "reference.rst": page()}
    for name, text in files.items():
        write_changed(folder / name, text)


def setup(app: Any) -> dict[str, Any]:
    """Connect the extension to Sphinx."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "protocol"))
    return {"parallel_read_safe": True}
