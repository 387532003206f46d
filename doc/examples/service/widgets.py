"""The widget store: a small service that speaks the project resources protocol.

Projects own widgets, the parts of widgets, orders of widgets, notes, and rules. ``api`` is the service's own REST API.
``PROVIDER`` is all that the protocol needs. ``application`` returns the WSGI application with both. The module needs
only Python and ``cleanup_orchestrator.protocol``. ``wsgi.py`` adds the configuration and keystonemiddleware.
"""

import contextlib
import dataclasses
import datetime
import json
import re
import sqlite3
import time
import uuid

from cleanup_orchestrator import protocol
from cleanup_orchestrator.protocol import (
    InUse,
    NotFound,
    Outcome,
    Page,
    Resource,
    ResourceType,
    State,
    Unavailable,
    UnknownMarker,
    User,
)


@dataclasses.dataclass
class Settings:
    """The settings of the process."""

    database: str = ""  #: path of the SQLite file
    cancel_seconds: float = 0.0  #: for which the cancellation of an order takes


SETTINGS = Settings()

UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SCHEMA = """
CREATE TABLE IF NOT EXISTS resource (
    id TEXT PRIMARY KEY, project_id TEXT NOT NULL, type TEXT NOT NULL, name TEXT NOT NULL, created_at TEXT NOT NULL,
    widget_id TEXT,        -- of a part or an order
    target TEXT,           -- of a rule: the project that gets a note
    locked INTEGER NOT NULL DEFAULT 0,
    gone_at REAL);         -- of an order under cancellation: when it is gone
CREATE TABLE IF NOT EXISTS drain (project_id TEXT PRIMARY KEY);
"""


@contextlib.contextmanager
def transaction():
    """Yield a connection with a write transaction; an error rolls it back.

    :raises Unavailable: if the database does not answer
    """
    try:
        connection = sqlite3.connect(SETTINGS.database, timeout=10, isolation_level=None)
        connection.row_factory = sqlite3.Row
        with contextlib.closing(connection), connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM resource WHERE gone_at <= ?", (time.time(),))
            yield connection
    except sqlite3.OperationalError as error:
        raise Unavailable("The database of the widget store does not answer.") from error


# ------------------------------------------------------------------------------------------------------ the protocol

CAPABILITIES = protocol.Capabilities(
    "widget-store",
    (
        ResourceType("widget", "A widget", after=("order",)),
        ResourceType("part", "A part of a widget", deleted_with=("widget",), delete=False),
        ResourceType("order", "An order of a widget, also of another project's widget"),
        ResourceType("note", "A note", delete_all=True),
        ResourceType("rule", "A rule", acts_on="its target: the project that gets a note when the rule is deleted"),
    ),
    drain=True,
)


def list_(project_id, type_, limit, marker):
    """Return a page of the project's resources; the marker is the ID of the last row of the page before.

    The row of the marker may be gone. So the page begins at the next larger ID, and skips no row.
    """
    if marker is not None and not UUID.fullmatch(marker):
        raise UnknownMarker
    with transaction() as connection:
        rows = connection.execute(
            "SELECT * FROM resource WHERE project_id = ? AND type = ? AND id > ? ORDER BY id LIMIT ?",
            (project_id, type_, marker or "", limit + 1),
        ).fetchall()
        resources = tuple(resource(connection, row) for row in rows[:limit])
    return Page(resources, resources[-1].id if len(rows) > limit else None)


def show(project_id, type_, id_):
    """Return a resource of the project, or None."""
    with transaction() as connection:
        row = find(connection, project_id, type_, id_)
        return None if row is None else resource(connection, row)


def delete(project_id, type_, id_):
    """Delete a resource of the project. The cancellation of an order takes a while."""
    with transaction() as connection:
        row = find(connection, project_id, type_, id_)
        if row is None:
            raise NotFound
        if orders := resource(connection, row).used_by:
            raise InUse(f"Orders of the widget: {len(orders)}. Delete them first.")
        if type_ == "order":
            gone_at = time.time() + SETTINGS.cancel_seconds
            connection.execute("UPDATE resource SET gone_at = ? WHERE id = ?", (gone_at, id_))
            return Outcome.ACCEPTED
        connection.execute("DELETE FROM resource WHERE id = ? OR (type = 'part' AND widget_id = ?)", (id_, id_))
        return Outcome.GONE


def delete_all(project_id, type_):
    """Delete all notes of the project, except locked ones."""
    with transaction() as connection:
        connection.execute("DELETE FROM resource WHERE project_id = ? AND type = ? AND NOT locked", (project_id, type_))
    return Outcome.GONE


def delete_acting(project_id, type_, id_, caller):
    """Delete a rule, and do what it says if the caller may: write a note into the project that its author named.

    With the rights of the service every user could write into every project.
    """
    with transaction() as connection:
        row = find(connection, project_id, type_, id_)
        if row is None:
            raise NotFound
        allowed = "member" in caller.roles and row["target"] == caller.project_id
        if allowed and not is_drained_in(connection, row["target"]):
            insert(connection, row["target"], "note", f"the rule {row['name']} is gone")
        connection.execute("DELETE FROM resource WHERE id = ?", (id_,))
    return Outcome.GONE


def drain(project_id):
    """Refuse to create anything for the project from now on."""
    with transaction() as connection:
        connection.execute("INSERT OR IGNORE INTO drain VALUES (?)", (project_id,))


def undrain(project_id):
    """End the drain."""
    with transaction() as connection:
        connection.execute("DELETE FROM drain WHERE project_id = ?", (project_id,))


def is_drained(project_id):
    """Return whether the project is drained."""
    with transaction() as connection:
        return is_drained_in(connection, project_id)


PROVIDER = protocol.Provider(
    CAPABILITIES, list_, show, delete, delete_all, delete_acting, drain=drain, undrain=undrain, is_drained=is_drained
)


# ------------------------------------------------------------------------------------------------------------ storage


def find(connection, project_id, type_, id_):
    """Return the row of a resource of the project, or None."""
    sql = "SELECT * FROM resource WHERE project_id = ? AND type = ? AND id = ?"
    return connection.execute(sql, (project_id, type_, id_)).fetchone()


def resource(connection, row):
    """Return a row as the protocol shows it."""
    orders = connection.execute(
        "SELECT * FROM resource WHERE type = 'order' AND widget_id = ? ORDER BY id", (row["id"],)
    )
    return Resource(
        row["id"],
        row["project_id"],
        row["name"],
        State.PRESENT if row["gone_at"] is None else State.DELETING,
        protected="It is locked. An administrator of the widget store can unlock it." if row["locked"] else "",
        created_at=row["created_at"],
        part_of={"widget": row["widget_id"]} if row["type"] == "part" else {},
        used_by=tuple(User("widget-store.order", order["id"], order["project_id"], order["name"]) for order in orders),
    )


def insert(connection, project_id, type_, name, widget_id=None, target=None, locked=False):
    """Store a resource; return its ID."""
    id_, now = str(uuid.uuid4()), datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    row = (id_, project_id, type_, name, now, widget_id, target, locked, None)
    connection.execute("INSERT INTO resource VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    return id_


def is_drained_in(connection, project_id):
    """Return whether the project is drained."""
    return connection.execute("SELECT 1 FROM drain WHERE project_id = ?", (project_id,)).fetchone() is not None


# ------------------------------------------------------------------------------------------------ the service's own API


def api(environ, start_response):
    """Answer ``GET /{type}s`` and ``POST /{type}s`` for the project of the token."""
    token = environ["keystone.token_info"]["token"]
    project_id, roles = token.get("project", {}).get("id"), [role["name"] for role in token.get("roles", ())]
    types = {f"/{type_.name}s": type_.name for type_ in CAPABILITIES.types}
    type_ = types.get(environ["PATH_INFO"])
    if project_id is None or "member" not in roles:
        status, answer = "403 Forbidden", {"error": "the token needs the role member on a project"}
    elif type_ is None:
        status, answer = "404 Not Found", {"error": "no such path"}
    elif environ["REQUEST_METHOD"] == "GET":
        rows = list_(project_id, type_, 1000, None).resources
        status, answer = "200 OK", {f"{type_}s": [row.to_dict() for row in rows]}
    elif environ["REQUEST_METHOD"] == "POST":
        body = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        status, answer = create(project_id, type_, body)
    else:
        status, answer = "405 Method Not Allowed", {"error": "no such call"}
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


def create(project_id, type_, body):
    """Create a resource, unless the project is drained."""
    name, widget_id, target = (body.get(key) for key in ("name", "widget_id", "target"))
    with transaction() as connection:
        if is_drained_in(connection, project_id):
            return "403 Forbidden", {"error": "the project is under deletion"}
        if type_ in ("part", "order"):
            sql = "SELECT * FROM resource WHERE id = ? AND type = 'widget'"
            widget = connection.execute(sql, (widget_id,)).fetchone()
            if widget is None or (type_ == "part" and widget["project_id"] != project_id):
                return "400 Bad Request", {"error": "no such widget"}
        id_ = insert(connection, project_id, type_, str(name or ""), widget_id, target, bool(body.get("locked")))
        return "201 Created", {type_: resource(connection, find(connection, project_id, type_, id_)).to_dict()}


def application(database, cancel_seconds):
    """Return the WSGI application, for keystonemiddleware's filter to be put in front.

    :param database: path of the SQLite file
    """
    SETTINGS.database, SETTINGS.cancel_seconds = database, cancel_seconds
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.executescript(SCHEMA)
    return protocol.mounted(protocol.app(PROVIDER), beside=api)
