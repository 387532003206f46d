"""The documents of the project resources protocol as JSON Schema (2020-12), for clients, checks and the manual."""

from __future__ import annotations

from typing import Any

from cleanup_orchestrator.protocol.documents import PROTOCOL, ProblemType, State

_LONGEST_ID = 255  #: characters
_TEXT = {"type": "string", "maxLength": 1024}
_NAME = {"type": "string", "pattern": "^[a-z][a-z0-9_]*$", "maxLength": 64}
_SERVICE = {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]*$", "maxLength": 64}
_FULL_NAME = {"type": "string", "pattern": r"^([a-z0-9][a-z0-9-]*\.)?[a-z][a-z0-9_]*$", "maxLength": 129}
_ID = {"type": "string", "minLength": 1, "maxLength": _LONGEST_ID}
_PROJECT_ID = {"type": "string", "minLength": 1, "maxLength": 64}

TYPE: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": _NAME,
        "description": _TEXT,
        "after": {"type": "array", "items": _FULL_NAME, "maxItems": 100},
        "deleted_with": {"type": "array", "items": _NAME, "maxItems": 100},
        "delete": {"type": "boolean"},
        "delete_all": {"type": "boolean"},
        "acts_on": _TEXT,
        "project_setting": {"type": "boolean"},
    },
}
CAPABILITIES: dict[str, Any] = {
    "type": "object",
    "required": ["protocol", "version", "service_type", "types"],
    "properties": {
        "protocol": {"const": PROTOCOL},
        "version": {"type": "string", "pattern": r"^1\.[0-9]+$"},
        "service_type": _SERVICE,
        "drain": {"type": "boolean"},
        "types": {"type": "array", "items": TYPE, "maxItems": 100},
    },
}
USER: dict[str, Any] = {
    "type": "object",
    "required": ["type", "id", "project_id"],
    "properties": {"type": _FULL_NAME, "id": _ID, "project_id": {"type": "string", "maxLength": 64}, "name": _TEXT},
}
RESOURCE: dict[str, Any] = {
    "type": "object",
    "required": ["id", "project_id"],
    "properties": {
        "id": _ID,
        "project_id": _PROJECT_ID,
        "name": _TEXT,
        "state": {"enum": [str(state) for state in State]},
        "description": _TEXT,
        "keep": _TEXT,
        "protected": _TEXT,
        "created_at": {"type": "string", "maxLength": 64},
        "tags": {"type": "array", "items": _TEXT, "maxItems": 1000},
        "part_of": {"type": "object", "propertyNames": _NAME, "additionalProperties": _ID},
        "used_by": {"type": "array", "items": USER, "maxItems": 100},
    },
}
PAGE: dict[str, Any] = {
    "type": "object",
    # ``next`` is required, so that a truncated or foreign answer is not read as the end of the list.
    "required": ["project_id", "type", "resources", "next"],
    "properties": {
        "project_id": _PROJECT_ID,
        "type": _NAME,
        "resources": {"type": "array", "items": RESOURCE},
        "next": {"type": ["string", "null"], "minLength": 1, "maxLength": 1024},
    },
}
DRAIN: dict[str, Any] = {
    "type": "object",
    "required": ["project_id", "drained"],
    "properties": {"project_id": _PROJECT_ID, "drained": {"type": "boolean"}},
}
PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["type", "status", "detail", "request_id"],
    "properties": {
        "type": {"enum": [str(type_) for type_ in ProblemType]},
        "title": _TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "maxLength": 8192},
        "request_id": _TEXT,
    },
}
