"""The documents of the project resources protocol as JSON Schema (2020-12), for clients, checks and the manual."""

from __future__ import annotations

from typing import Any

from cleanup_orchestrator.protocol import documents
from cleanup_orchestrator.protocol.documents import PROTOCOL, SERVICE_PATTERN, TYPE_PATTERN, ProblemType, State

Schema = dict[str, Any]

# ``$`` also matches before a final newline. The lookahead prevents that.
_END = r"$(?!\n)"

_TEXT = {"type": "string", "maxLength": documents.LONGEST_TEXT}
_NAME = {"type": "string", "pattern": f"^{TYPE_PATTERN}{_END}", "maxLength": documents.LONGEST_NAME}
_SERVICE = {"type": "string", "pattern": f"^{SERVICE_PATTERN}{_END}", "maxLength": documents.LONGEST_NAME}
_FULL_NAME = {
    "type": "string",
    "pattern": rf"^({SERVICE_PATTERN}\.)?{TYPE_PATTERN}{_END}",
    "maxLength": 2 * documents.LONGEST_NAME + 1,
}
_ID = {"type": "string", "minLength": 1, "maxLength": documents.LONGEST_ID}
_PROJECT_ID = {"type": "string", "minLength": 1, "maxLength": documents.LONGEST_PROJECT_ID}
MARKER = {"type": "string", "minLength": 1, "maxLength": documents.LONGEST_MARKER}


def _about(schema: Schema, description: str) -> Schema:
    """Return the schema of a field with its description, which the OpenAPI document shows."""
    return {**schema, "description": description}


def _strings(item: Schema, most: int, description: str) -> Schema:
    return {"type": "array", "items": item, "maxItems": most, "description": description}


_BOOLEAN: Schema = {"type": "boolean"}
_OWNER = _about(_PROJECT_ID, "The project that owns it, by the service's own record.")

TYPE: Schema = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": _about(_NAME, "Name, singular."),
        "description": _about(_TEXT, "What it is, for the operator."),
        "after": _strings(
            _FULL_NAME, 100, "Types that must be gone before: of the same service, or ``service-type.name``."
        ),
        "deleted_with": _strings(_NAME, 100, "Types of the same service whose delete also removes these resources."),
        "delete": _about(_BOOLEAN, "Whether a call can delete a resource. The default is true."),
        "delete_all": _about(_BOOLEAN, "Whether one call deletes all resources of a project. The default is false."),
        "acts_on": _about(_TEXT, "What users wrote that the service acts on during a delete. Empty: nothing."),
        "project_setting": _about(
            _BOOLEAN, "A setting of the project, such as a quota. It is deleted right before the project."
        ),
    },
}
CAPABILITIES: Schema = {
    "type": "object",
    "required": ["protocol", "version", "service_type", "types"],
    "properties": {
        "protocol": _about({"const": PROTOCOL}, "Name of the protocol."),
        "version": _about({"type": "string", "pattern": rf"^1\.[0-9]+{_END}"}, "Version of the protocol."),
        "service_type": _about(_SERVICE, "Type of the service in Keystone's catalog."),
        "drain": _about(_BOOLEAN, "Whether the service can refuse new resources of a project."),
        "types": {
            "type": "array",
            "items": TYPE,
            "maxItems": 100,
            "description": "All types that a project can own in the service.",
        },
    },
}
USER: Schema = {
    "type": "object",
    "required": ["type", "id", "project_id"],
    "properties": {
        "type": _about(_FULL_NAME, "Type, as ``service-type.name``."),
        "id": _about(_ID, "ID."),
        "project_id": _about(
            {"type": "string", "maxLength": documents.LONGEST_PROJECT_ID}, "The project that owns it. Empty: unknown."
        ),
        "name": _about(_TEXT, "Name."),
    },
}
RESOURCE: Schema = {
    "type": "object",
    "required": ["id", "project_id"],
    "properties": {
        "id": _about(_ID, "ID. It never changes, and no other resource ever gets it."),
        "project_id": _OWNER,
        "name": _about(_TEXT, "Name."),
        "state": _about(
            {"enum": [str(state) for state in State]}, "``deleting``: the delete was accepted and is under way."
        ),
        "description": _about(_TEXT, "What the report says besides the name."),
        "keep": _about(_TEXT, "Why it is neither deleted nor reported: it is not the user's, or goes with its parent."),
        "protected": _about(_TEXT, "Why it must not be deleted. Empty: it may be."),
        "created_at": _about(
            {"type": "string", "maxLength": documents.LONGEST_TIME},
            "ISO 8601, UTC. Empty: unknown. If something that is no type of its own is deleted with the resource, the "
            "time of the youngest.",
        ),
        "tags": _strings(_TEXT, documents.MAX_TAGS, "The tags that users gave it. They can have keep marks."),
        "part_of": _about(
            {"type": "object", "propertyNames": _NAME, "additionalProperties": _ID},
            "ID of the parent, by the parent's type.",
        ),
        "used_by": {
            "type": "array",
            "items": USER,
            "maxItems": documents.MAX_USERS,
            "description": "What refuses its delete, as far as the service knows.",
        },
    },
}
PAGE: Schema = {
    "type": "object",
    # ``next`` is required, so that a truncated or foreign answer is not read as the end of the list.
    "required": ["project_id", "type", "resources", "next"],
    "properties": {
        "project_id": _about(_PROJECT_ID, "The project of the path."),
        "type": _about(_NAME, "The type of the path."),
        "resources": {"type": "array", "items": RESOURCE, "description": "At most ``limit`` rows."},
        "next": _about(
            {**MARKER, "type": ["string", "null"]},
            "The ``marker`` of the next page. Null: the list is complete.",
        ),
    },
}
DRAIN: Schema = {
    "type": "object",
    "required": ["project_id", "drained"],
    "properties": {
        "project_id": _about(_PROJECT_ID, "The project of the path."),
        "drained": _about(_BOOLEAN, "Whether the service refuses to create anything for the project."),
    },
}
PROBLEM: Schema = {
    "type": "object",
    "required": ["type", "status", "detail", "request_id"],
    "properties": {
        "type": _about({"enum": [str(type_) for type_ in ProblemType]}, "What is wrong."),
        "title": _about(_TEXT, "The type in words."),
        "status": _about({"type": "integer", "minimum": 400, "maximum": 599}, "The HTTP status."),
        "detail": _about(
            {"type": "string", "maxLength": documents.LONGEST_DETAIL},
            "What is wrong and what would clear it, for a person.",
        ),
        "request_id": _about(_TEXT, "ID by which the service's log has the request."),
    },
}
