"""The example service of the manual in this process, without keystonemiddleware, and the examples of the manual."""

import contextlib
import functools
import importlib.util
import json
import pathlib
import re
import sqlite3

from cleanup_orchestrator import protocol
from tests.unit.protocol.caller import Client

ROOT = pathlib.Path(__file__).parents[3]
PAGE = ROOT / "doc" / "source" / "protocol" / "index.rst"
MINE, OTHER = "6f70656e737461636b2d6578616d706c", "6f70656e737461636b2d6f7468657273"
WHEEL, SPARE = "0b8f9bb2-8fd4-4f5c-9a55-5c1c1f6f2a01", "4c2d7e9a-1d5b-4c0e-8a61-9f3b2e7d6c03"
ORDER, RIM = "6a1a3a0e-54d5-4f8e-8d0a-0c7b8f1e2d02", "c0ffee00-7f0e-4d4c-9e0b-2b1a3c4d5e04"
#: The rows of the examples: the columns of the table ``resource``.
ROWS = [
    (WHEEL, MINE, "widget", "wheel", "2026-03-02T08:00:00Z", None, None, 0, None),
    (SPARE, MINE, "widget", "spare wheel", "2026-03-02T08:05:00Z", None, None, 1, None),
    (RIM, MINE, "part", "rim", "2026-03-02T08:10:00Z", WHEEL, None, 0, None),
    (ORDER, MINE, "order", "first order", "2026-03-02T09:00:00Z", WHEEL, None, 0, None),
    ("e5b7a1d0-3c2f-4e6d-8b9a-0a1b2c3d4e05", MINE, "note", "remember", "2026-03-02T09:30:00Z", None, None, 0, None),
]
REQUEST_ID = "req-7d3b2f0e-58a4-4a57-9c1e-6f0f6f2b8d11"
_BLOCK = re.compile(r"^::\n\n    (GET|PUT|DELETE) (\S+)\n\n    (\d{3}) ([\w ]+)\n((?:    .*\n)*)", re.M)


@functools.cache
def module():
    """The module of the example service."""
    path = ROOT / "doc" / "examples" / "service" / "widgets.py"
    spec = importlib.util.spec_from_file_location("widgets_example", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def configured(folder, rows, cancel_seconds):
    """Return the module, with a new database with these rows."""
    widgets, database = module(), folder / "widgets.sqlite"
    widgets.application(str(database), cancel_seconds)
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.executemany("INSERT INTO resource VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    return widgets


def service(folder):
    """Return a client of the service with the rows of the examples."""
    widgets = configured(folder, ROWS, cancel_seconds=3600)
    both = protocol.mounted(protocol.app(widgets.PROVIDER), beside=widgets.api)
    return Client(both, more={"openstack.request_id": REQUEST_ID})


def examples():
    """Return method, path, status, phrase and document of each example of the page, in their order."""
    return [
        (method, path, int(status), phrase, json.loads(body) if body else None)
        for method, path, status, phrase, body in _BLOCK.findall(PAGE.read_text())
    ]
