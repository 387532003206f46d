"""The JSON Schemas of all bodies and queries.

Unknown fields are refused. The values of a query are arrays, because a parameter can be repeated; ``maxItems`` limits
that. ``operations`` names the schemas of each operation. A parameter or a field is one line: its name, its schema and
what it means. The OpenAPI document and the API reference show the same text.
"""

from __future__ import annotations

import datetime
import json
import re
import urllib.parse
from collections.abc import Collection, Mapping
from typing import Any

import jsonschema
import webob

from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.core.deletion import Mode, Origin, Status
from cleanup_orchestrator.core.orphan_scan import ScanStatus
from cleanup_orchestrator.core.reasons import Reason

# ``$`` also matches before a final newline. The lookahead prevents that.
_END = r"$(?!\n)"

ID = {"type": "string", "minLength": 1, "maxLength": 64, "pattern": f"^[A-Za-z0-9-]+{_END}"}
UUID = {"type": "string", "maxLength": 36, "pattern": f"^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_END}"}
NUMBER = {"type": "string", "maxLength": 18, "pattern": f"^[0-9]+{_END}"}
LIMIT = {"type": "string", "maxLength": 9, "pattern": f"^0*[1-9][0-9]*{_END}"}
TEXT = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": rf"^[^\x00-\x1f\x7f]*{_END}"}
HASH = {"type": "string", "maxLength": 64, "pattern": f"^[0-9a-f]{{64}}{_END}"}
BOOLEAN = {"enum": ["true", "false", "True", "False"]}

#: Columns to sort by. None of them is ever NULL.
SORT_KEYS = (
    "created_at",
    "updated_at",
    "status_at",
    "progress_at",
    "status",
    "mode",
    "project_id",
    "project_name",
    "domain_id",
    "id",
)


def _sort(keys: tuple[str, ...]) -> dict[str, Any]:
    key = rf"({'|'.join(keys)})(:(asc|desc))?"
    return {"type": "string", "maxLength": 255, "pattern": f"^{key}(,{key})*{_END}", "x-sort-keys": list(keys)}


SORT = _sort(SORT_KEYS)

#: One line that is not blank.
REASON = {"type": "string", "minLength": 1, "maxLength": 1000, "pattern": rf"^(?=.*\S)[^\x00-\x1f\x7f]*{_END}"}
SERVICE_TYPE = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": f"^[A-Za-z0-9][A-Za-z0-9_.-]*{_END}"}
REGION = {"type": ["string", "null"], "minLength": 1, "maxLength": 128, "pattern": TEXT["pattern"]}
TIME = {
    "type": "string",
    "maxLength": 27,
    "pattern": r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    rf"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{{1,6}})?Z{_END}",
}
LIEN_SORT_KEYS = ("created_at", "project_id", "origin", "id")
#: A project id as services report it; some contain dashes or underscores.
ORPHANS_PROJECT = {**ID, "pattern": f"^[A-Za-z0-9_-]+{_END}"}
ORPHAN_SCAN_SORT_KEYS = ("created_at", "status_at", "status", "id")
WAIVER_SORT_KEYS = ("created_at", "expires_at", "service_type", "region", "project_id", "id")

#: States of waivers and liens to list: in force, ended, or both.
IN_FORCE, ENDED, ANY = "in_force", "ended", "all"

#: Stands for all statuses that are not final.
LIVE = "live"


def _about(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return a schema that says what the value means."""
    return {**schema, "description": text}


#: By id of a schema: its validator.
_VALIDATORS: dict[int, Any] = {}


def _body(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    _VALIDATORS[id(schema)] = jsonschema.Draft202012Validator(schema)
    return schema


def _query(
    several: Mapping[str, Any] | None = None, required: tuple[str, ...] = (), **properties: Any
) -> dict[str, Any]:
    arrays = {name: {"type": "array", "maxItems": 1, "items": item} for name, item in properties.items()}
    arrays |= {name: {"type": "array", "maxItems": 20, "items": item} for name, item in (several or {}).items()}
    return _body(required, **arrays)


#: A resource type of a service: ``block-storage.volume``.
TYPE_NAME = {"type": "string", "maxLength": 255, "pattern": rf"^[a-z0-9-]+\.[a-z0-9_]+{_END}"}
#: A resource of a type.
USED = {"type": "string", "maxLength": 800, "pattern": rf"^[a-z0-9-]+\.[a-z0-9_]+:[^\x00-\x1f]+{_END}"}

NOTHING = _query()
NO_BODY = _body()

_LIMIT = _about(LIMIT, "Maximum number of items on the page. A value above ``[api] max_limit`` is reduced to it.")
_MARKER = "The last item of the previous page. Use the link ``next``, which has it."
_ROW = _about(NUMBER, _MARKER)
_SORT = "``key:asc`` or ``key:desc``, separated by commas; without a direction ``asc``."
_ONLY = "Only items with this value."
_WHY = _about(REASON, "Why. One line that is not blank.")
#: Names in a list of resources; see ``names``.
_PLACE: dict[str, Any] = {
    "region": _about(TEXT, "Only resources in this region."),
    "service": _about(
        TEXT, "Only resources of this service: its type, an alias of it, or the name of the OpenStack project."
    ),
    "type": _about(TEXT, "Only resources of this type: its name, or ``service.type`` such as ``network.port``."),
}


def _leftovers(reasons: Collection[Reason], **more: Any) -> dict[str, Any]:
    """Return the schema of a query for leftovers."""
    return _query(
        **_PLACE,
        reason=_about({"enum": [str(reason) for reason in reasons]}, "Only leftovers with this reason."),
        abandoned=_about(BOOLEAN, "``true``: only resources that force abandoned. ``false``: only the others."),
        **more,
        limit=_LIMIT,
        marker=_ROW,
    )


#: The criteria of ``core.selection.Selection``.
SELECTION = {
    "type": "object",
    "properties": {
        "services": _about(
            {"type": "array", "minItems": 1, "maxItems": 100, "items": SERVICE_TYPE},
            "Types of services, aliases of them, or names of OpenStack projects. All their resources are selected.",
        ),
        "types": _about(
            {"type": "array", "minItems": 1, "maxItems": 200, "items": TYPE_NAME},
            "Resource types such as ``compute.server``.",
        ),
        "tags": _about(
            {"type": "array", "minItems": 1, "maxItems": 50, "items": TEXT}, "A resource must have all of these tags."
        ),
        "created_before": _about(
            {**TIME, "type": ["string", "null"]}, "A resource must have been created before this time."
        ),
    },
    "additionalProperties": False,
}
CREATE_BODY = _body(
    ("project_id",),
    project_id=_about(ID, "The project to delete."),
    mode=_about(
        {"enum": [str(mode) for mode in Mode], "default": "report"},
        "``report``: list the resources, and remove the project only if it has none. ``cascade``: delete them first. "
        "``empty``: delete them, and keep the project.",
    ),
    dry_run=_about({"type": "boolean", "default": False}, "Only list, and write nothing to any service."),
    include_subtree=_about({"type": "boolean", "default": False}, "Also delete every project below this project."),
    plan_id=_about(UUID, "The plan that limits what is deleted. ``mode`` must be that of the plan."),
    plan_hash=_about(HASH, "The hash that the plan must have. It needs ``plan_id``."),
    selection=_about(
        SELECTION,
        "What is deleted, only with ``mode`` ``empty``. Absent: everything. A resource must meet each criterion: its "
        "type must be in ``types``, or its service in ``services``.",
    ),
)
APPROVE_BODY = _body(("reason",), reason=_WHY)
#: Actions of a plan.
DELETE, KEEP, PROTECT = "delete", "keep", "protect"
PLAN_RESOURCES_QUERY = _query(
    action=_about({"enum": [DELETE, KEEP, PROTECT]}, "Only resources with this action."),
    **_PLACE,
    limit=_LIMIT,
    marker=_ROW,
)
FORCE_BODY = _body(
    ("reason",),
    reason=_WHY,
    types=_about(
        {"type": ["array", "null"], "maxItems": 200, "items": TYPE_NAME},
        "The types whose forced delete is used. Absent or ``null``: all that may be used.",
    ),
    although_used=_about(
        {"type": "array", "minItems": 1, "maxItems": 50, "items": USED},
        "Resources of the project that are deleted although other projects use them, each as ``service.type:id``. "
        "Nothing is abandoned then. Only the uses that its leftover names are overruled.",
    ),
)
LIST_QUERY = _query(
    {"status": _about({"enum": [*(str(status) for status in Status), LIVE]}, "Only deletions in one of the statuses.")},
    mode=_about({"enum": [str(mode) for mode in Mode]}, _ONLY),
    dry_run=_about(BOOLEAN, _ONLY),
    attention=_about(BOOLEAN, "``true``: only deletions that need an action of a person. ``false``: only the others."),
    project_id=_about(ID, "Only deletions of this project."),
    domain_id=_about(ID, "Only deletions of projects of this domain."),
    project_name=_about(TEXT, "Only deletions of projects that had this name when the deletion was requested."),
    user_id=_about(ID, "Only deletions that this user requested."),
    user_name=_about(TEXT, "Only deletions that a user of this name requested."),
    origin=_about({"enum": [str(origin) for origin in Origin]}, _ONLY),
    parent_deletion_id=_about(UUID, "Only the children of this deletion."),
    created_since=_about(TIME, "Only deletions that were requested at this time or later."),
    created_until=_about(TIME, "Only deletions that were requested before this time."),
    changed_since=_about(TIME, "Only deletions that changed at this time or later, the latest change first."),
    limit=_LIMIT,
    marker=_about(UUID, _MARKER),
    sort=_about(SORT, _SORT),
)
LEFTOVERS_QUERY = _leftovers(tuple(Reason))
ALL_LEFTOVERS_QUERY = _leftovers(
    [reason for reason in Reason if reason is not Reason.KEPT],
    domain_id=_about(ID, "Only leftovers of projects of this domain."),
)
BRAKE_BODY = _body(("reason",), reason=_WHY)
ORIGIN = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": rf"^(?=.*\S)[^\x00-\x1f\x7f]*{_END}"}
LIEN_BODY = _body(
    ("project_id", "origin", "reason"),
    project_id=_about(ID, "The project to protect."),
    origin=_about(ORIGIN, "The department or system that needs the lien, such as ``billing``."),
    reason=_WHY,
    expires_at=_about({**TIME, "type": ["string", "null"]}, "When the lien ends. Absent or ``null``: never."),
)
LIENS_QUERY = _query(
    project_id=_about(ID, "Only liens on this project."),
    origin=_about(TEXT, _ONLY),
    state=_about({"enum": [IN_FORCE, ENDED, ANY], "default": IN_FORCE}, "Only liens in force, ended, or all."),
    limit=_LIMIT,
    marker=_about(UUID, _MARKER),
    sort=_about(_sort(LIEN_SORT_KEYS), _SORT),
)
WAIVER_BODY = _body(
    ("service_type", "reason", "expires_at"),
    service_type=_about(SERVICE_TYPE, "The type of the service, an alias of it, or the name of the OpenStack project."),
    region=_about(REGION, "Only in this region. Absent or ``null``: in every region."),
    project_id=_about({**ID, "type": ["string", "null"]}, "Only for this project. Absent or ``null``: for every one."),
    reason=_WHY,
    expires_at=_about(TIME, "When the waiver ends: at most ``[catalog] waiver_limit`` days from now."),
    allow_unknown=_about(
        {"type": "boolean", "default": False}, "``true``: the catalog need not have the service in the region."
    ),
)
WAIVERS_QUERY = _query(
    service_type=_about(SERVICE_TYPE, "Only waivers of this service, by any of its names."),
    region=_about(TEXT, "Only waivers for this region."),
    project_id=_about(ID, "Only waivers for this project."),
    state=_about({"enum": [IN_FORCE, ENDED, ANY], "default": IN_FORCE}, "Only waivers in force, ended, or all."),
    limit=_LIMIT,
    marker=_about(UUID, _MARKER),
    sort=_about(_sort(WAIVER_SORT_KEYS), _SORT),
)
ADOPT_BODY = _body(
    ("project_id",),
    project_id=_about(ORPHANS_PROJECT, "The project whose orphans are deleted."),
    dry_run=_about({"type": "boolean", "default": False}, "Only list, and write nothing to any service."),
)
ORPHAN_SCANS_QUERY = _query(
    status=_about({"enum": [str(status) for status in ScanStatus]}, "Only scans in this status."),
    limit=_LIMIT,
    marker=_about(UUID, _MARKER),
    sort=_about(_sort(ORPHAN_SCAN_SORT_KEYS), _SORT),
)
ORPHANS_QUERY = _query(
    project_id=_about(ORPHANS_PROJECT, "Only orphans of this project."),
    **_PLACE,
    format=_about({"enum": ["json", "csv"]}, "Without it: CSV if ``Accept`` is ``text/csv``, otherwise JSON."),
    limit=_LIMIT,
    marker=_ROW,
)
ORPHAN_PROJECTS_QUERY = _query(
    project_id=_about(ORPHANS_PROJECT, "Only this project."),
    limit=_LIMIT,
    marker=_about(ORPHANS_PROJECT, _MARKER),
)
SERVICES_QUERY = _query(project_id=_about(ID, "Answer as for a deletion of this project."))
#: An id as services have it: for Swift the name of a container.
RESOURCE_ID = {"type": "string", "minLength": 1, "maxLength": 512, "pattern": rf"^[^\x00]*{_END}"}
_EVENTS: dict[str, Any] = {
    "type": _about(TEXT, "Only entries of this type."),
    "resource_id": _about(RESOURCE_ID, "Only entries that name the resource with this ID."),
    "limit": _LIMIT,
    "marker": _ROW,
}
EVENTS_QUERY = _query(**_EVENTS)
ALL_EVENTS_QUERY = _query(
    required=("resource_id",), domain_id=_about(ID, "Only entries of projects of this domain."), **_EVENTS
)

#: By pattern: how a text of this form is described to the client.
_EXPECTED = {
    **dict.fromkeys((ID["pattern"], UUID["pattern"], ORPHANS_PROJECT["pattern"]), "is not an id"),
    HASH["pattern"]: "is not the hash of a plan: 64 digits, 0 to f",
    LIMIT["pattern"]: "must be a whole number, at least 1",
    NUMBER["pattern"]: "is not a marker of this API",
    TIME["pattern"]: "must be a time in UTC such as 2027-01-31T00:00:00Z",
    TYPE_NAME["pattern"]: "must be a list of resource types such as orchestration.stack",
    SERVICE_TYPE["pattern"]: "is not a service type such as dns, or an alias such as volumev3",
}


def _refuse(schema: dict[str, Any], value: Any, code: str) -> None:
    """Raise for the first violation.

    The text never repeats a value of the request: it can be long or secret.

    :raises ApiError: 400
    """
    order = lambda e: (e.validator != "additionalProperties", [str(p) for p in e.absolute_path], e.message)  # noqa: E731
    errors = sorted(_VALIDATORS[id(schema)].iter_errors(value), key=order)
    if not errors:
        return
    error = errors[0]
    names = [part for part in error.absolute_path if isinstance(part, str)]
    field, path = names[-1] if names else "", error.json_path
    match error.validator:
        case "additionalProperties":
            known = error.schema["properties"]
            field = sorted(name for name in error.instance if name not in known)[0][:64]
            path = error.json_path + _path(field).removeprefix("$")
            expected = f"is unknown; known are: {', '.join(known) or 'none'}"
        case "required":
            field = next(name for name in error.validator_value if name not in value)
            path, expected = _path(field), "is required"
        case "type":
            kinds = error.validator_value
            expected = f"must be of type {kinds if isinstance(kinds, str) else ' or '.join(kinds)}"
        case "enum":
            expected = f"must be one of {', '.join(error.validator_value)}"
        case "maxLength":
            expected = f"may have at most {error.validator_value} characters"
        case "minLength":
            expected = "must not be empty"
        case "minItems":
            expected = "must not have an empty list: it would select everything; leave the criterion out for that"
        case "maxItems":
            expected = "may be given only once" if error.validator_value == 1 else "has too many items"
        case _ if field == "sort":
            keys = ", ".join(error.schema["x-sort-keys"])
            expected = f"must be key:asc or key:desc, separated by commas; keys are {keys}"
        case _:
            expected = _EXPECTED.get(error.schema["pattern"], "contains characters that are not allowed")
    if not field:
        raise ApiError(400, code, "the body must be a JSON object", path=path)
    raise invalid_field(field, expected, code, path)


def invalid_field(field: str, expected: str, code: str = "invalid_body", path: str = "") -> ApiError:
    """Return the error for a field of the body; with ``invalid_query`` for a parameter of the query, without a path.

    :param expected: follows the name in the text
    :param path: JSON path of the invalid part of the body; empty: the field
    """
    where: dict[str, Any] = {"path": path or _path(field)} if code == "invalid_body" else {}
    return ApiError(400, code, f"'{field}' {expected}", field=field, **where)


def _path(name: str) -> str:
    """Return the JSON path of a field of the body."""
    return f"$.{name}" if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else f"$[{json.dumps(name)}]"


def check_query(request: webob.Request, schema: dict[str, Any]) -> dict[str, list[str]]:
    """Return the parameters of the query, each with its values.

    :raises ApiError: 400 ``invalid_query``
    """
    try:
        pairs = urllib.parse.parse_qsl(
            request.query_string, keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except (UnicodeDecodeError, UnicodeEncodeError):
        raise ApiError(400, "invalid_query", "the query must be percent-encoded UTF-8") from None
    except ValueError:
        raise ApiError(400, "invalid_query", "the query has too many parameters") from None
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    _refuse(schema, values, "invalid_query")
    return values


def check_body(request: webob.Request, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the object in the body.

    An operation without fields also accepts an empty body.

    :raises ApiError: 400 ``invalid_json``, 400 ``invalid_body``, 415 ``unsupported_media_type``
    """
    raw = request.body
    if not raw.strip() and not schema["properties"]:
        return {}
    if request.content_type.lower() != "application/json" and (raw or request.content_type):
        raise ApiError(415, "unsupported_media_type", "send the body as application/json")
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise _invalid_json(raw, error) from None
    _refuse(schema, value, "invalid_body")
    assert isinstance(value, dict)
    for field, given in value.items():
        if not _encodable(given):
            raise invalid_field(field, "contains an unpaired surrogate (\\ud800 to \\udfff): send the pair, or UTF-8")
    return value


def _invalid_json(raw: bytes, error: Exception) -> ApiError:
    """Return the error for a body that is not JSON, with its position if the parser gives one."""
    text = "the body must be JSON in UTF-8, without duplicate names"
    at: dict[str, Any] = {}
    if isinstance(error, UnicodeDecodeError):
        before = raw[: error.start].decode("utf-8")
        at = {"line": before.count("\n") + 1, "column": len(before) - before.rfind("\n")}
    elif isinstance(error, json.JSONDecodeError):
        at = {"line": error.lineno, "column": error.colno}
    if at:
        text += f"; the first error is at line {at['line']}, column {at['column']}"
    return ApiError(400, "invalid_json", text, **at)


def _encodable(value: Any) -> bool:
    """Return whether all text in a value can be encoded as UTF-8.

    The escapes of JSON can name surrogates, which cannot be encoded.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate name")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def moment(text: str, field: str, code: str = "invalid_body") -> datetime.datetime:
    """Return the time of a text that matches :data:`TIME`: UTC, naive.

    :raises ApiError: 400 with the code if the date does not exist
    """
    try:
        return datetime.datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        raise invalid_field(field, "is a time that does not exist", code) from None


def is_uuid(text: str) -> bool:
    """Return whether a text has the form of an id of a deletion, waiver or lien.

    No other text is used in a query of the database.
    """
    return re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text) is not None


def is_project_id(text: str) -> bool:
    """Return whether a text has the form of a project id.

    No other text is used in a query of the database.
    """
    return re.fullmatch("[A-Za-z0-9-]{1,64}", text) is not None
