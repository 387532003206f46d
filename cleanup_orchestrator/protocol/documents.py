"""The documents of the project resources protocol, version 1, as values.

Both sides use them: the WSGI application of a service, and the orchestrator. The module needs the standard library
alone, so that a service that imports it imports nothing else. ``schemas`` has the same documents as JSON Schema.
"""

from __future__ import annotations

import dataclasses
import graphlib
from collections.abc import Mapping
from typing import Any

from cleanup_orchestrator.core.enums import StrEnum

#: Name and version in the capabilities. A minor version only adds optional fields; a client ignores unknown ones.
PROTOCOL, VERSION = "project-resources", "1.0"

#: Where the protocol is below the endpoint that a service has in Keystone's catalog.
PATH = "project-resources/v1"

#: The largest ``limit`` of a page, in rows; also the limit of a request that names none.
MAX_ROWS = 1000

#: The longest texts, in characters.
LONGEST_TEXT, LONGEST_DETAIL = 1024, 8192
LONGEST_ID, LONGEST_PROJECT_ID, LONGEST_NAME = 255, 64, 64
LONGEST_TIME, LONGEST_MARKER = 64, 1024
#: The most entries of a list in a resource.
MAX_TAGS, MAX_USERS = 1000, 100

#: Names of types, and types of services, as regular expressions without :data:`LONGEST_NAME`.
TYPE_PATTERN, SERVICE_PATTERN = "[a-z][a-z0-9_]*", "[a-z0-9][a-z0-9-]*"

#: The role in a token that may use the protocol, unless the service is configured otherwise.
ROLE = "service"


class State(StrEnum):
    """Whether a service works on the delete of a resource."""

    PRESENT = "present"
    DELETING = "deleting"  #: the delete was accepted, and is under way


class ProblemType(StrEnum):
    """The ``type`` of a problem document; the HTTP status that goes with it is in :data:`STATUS`."""

    BAD_REQUEST = "urn:project-resources:bad-request"  #: a malformed id, limit or marker
    NOT_AUTHENTICATED = "urn:project-resources:not-authenticated"  #: no valid token
    FORBIDDEN = "urn:project-resources:forbidden"  #: the token lacks the role
    UNKNOWN_TYPE = "urn:project-resources:unknown-type"  #: the capabilities do not have this type
    NOT_FOUND = "urn:project-resources:not-found"  #: the project has no such resource: it is gone, or another project's
    NOT_SUPPORTED = "urn:project-resources:not-supported"  #: the capabilities do not offer this call
    IN_USE = "urn:project-resources:in-use"  #: the delete is refused for now: something uses the resource
    PROTECTED = "urn:project-resources:protected"  #: the delete is refused until a person changes something
    UNAVAILABLE = "urn:project-resources:unavailable"  #: a backend did not answer: what the project owns is unknown
    INTERNAL = "urn:project-resources:internal"  #: a defect of the service


STATUS: Mapping[ProblemType, int] = {
    ProblemType.BAD_REQUEST: 400,
    ProblemType.NOT_AUTHENTICATED: 401,
    ProblemType.FORBIDDEN: 403,
    ProblemType.UNKNOWN_TYPE: 404,
    ProblemType.NOT_FOUND: 404,
    ProblemType.NOT_SUPPORTED: 405,
    ProblemType.IN_USE: 409,
    ProblemType.PROTECTED: 409,
    ProblemType.UNAVAILABLE: 503,
    ProblemType.INTERNAL: 500,
}


@dataclasses.dataclass(frozen=True)
class ResourceType:
    """A type of resource that projects own in the service."""

    name: str  #: singular, lower case letters, digits and underscores: ``volume_snapshot``
    description: str = ""  #: what it is, for the operator
    #: Types that must be gone before: ``name`` of the same service, or ``service-type.name`` of another one.
    after: tuple[str, ...] = ()
    #: Types of the same service whose delete removes these resources, too. They are listed, and never deleted.
    deleted_with: tuple[str, ...] = ()
    delete: bool = True  #: false: no call deletes it; an operator does
    delete_all: bool = False  #: whether one call deletes all resources of this type that a project owns
    #: What users wrote that the service acts on when one is deleted: a workflow, a hook, an address. Empty: nothing.
    #: These resources are deleted with a token of the project, with the role of a member.
    acts_on: str = ""
    project_setting: bool = False  #: a quota and the like: no resource; it is deleted right before the project


@dataclasses.dataclass(frozen=True)
class Capabilities:
    """What a service declares: ``GET {base}``."""

    service_type: str  #: its type in Keystone's catalog
    types: tuple[ResourceType, ...]
    drain: bool = False  #: whether it can refuse new resources of a project

    def own_after(self, type_: ResourceType) -> tuple[str, ...]:
        """Return the types of the same service that must be gone before a type."""
        own = f"{self.service_type}."
        return tuple(name.removeprefix(own) for name in type_.after if name.startswith(own) or "." not in name)

    def in_order(self) -> list[ResourceType]:
        """Return the types so that what must be gone before comes first.

        :raises graphlib.CycleError: there is no such order
        """
        types = {type_.name: type_ for type_ in self.types}
        graph = {name: [other for other in self.own_after(type_) if other in types] for name, type_ in types.items()}
        return [types[name] for name in graphlib.TopologicalSorter(graph).static_order()]

    def to_dict(self) -> dict[str, Any]:
        """Return the document."""
        types = [_plain(dataclasses.asdict(type_)) for type_ in self.types]
        own = {"service_type": self.service_type, "drain": self.drain, "types": types}
        return {"protocol": PROTOCOL, "version": VERSION, **own}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Capabilities:
        """Return the capabilities of a document that ``schemas`` accepts; unknown fields are ignored."""
        return cls(
            document["service_type"],
            tuple(_known(ResourceType, type_) for type_ in document["types"]),
            document.get("drain", False),
        )


@dataclasses.dataclass(frozen=True)
class User:
    """Something that uses a resource, so that its delete is refused."""

    type: str  #: ``service-type.name``
    id: str
    project_id: str  #: the project that owns it; empty: the service does not know
    name: str = ""


@dataclasses.dataclass(frozen=True)
class Resource:
    """One resource of a project, as a list and a show return it."""

    id: str  #: immutable; never used again for another resource
    project_id: str  #: the project that owns it, as the service's own record says
    name: str = ""
    state: State = State.PRESENT
    description: str = ""  #: what the report says of it besides its name: how much it holds
    keep: str = ""  #: why it is not the user's, or goes with its parent: neither deleted nor reported as left
    protected: str = ""  #: why it must not be deleted: shared with others, locked
    #: ISO 8601, UTC; empty: unknown. If something that is no type is deleted with it, the time of the youngest.
    created_at: str = ""
    tags: tuple[str, ...] = ()
    part_of: Mapping[str, str] = dataclasses.field(default_factory=dict)  #: id of its parent, by the parent's type
    used_by: tuple[User, ...] = ()  #: what refuses its delete, as far as the service knows

    def to_dict(self) -> dict[str, Any]:
        """Return the document."""
        return _plain(dataclasses.asdict(self))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Resource:
        """Return the resource of a document that ``schemas`` accepts; unknown fields are ignored."""
        resource: Resource = _known(cls, document)
        users = tuple(_known(User, user) for user in document.get("used_by", ()))
        return dataclasses.replace(resource, state=State(resource.state), used_by=users)


@dataclasses.dataclass(frozen=True)
class Page:
    """A part of the list of one type of one project."""

    resources: tuple[Resource, ...] = ()
    next: str | None = None  #: the ``marker`` of the next page, opaque to the client; ``None``: the list is complete

    def to_dict(self, project_id: str, type_: str) -> dict[str, Any]:
        """Return the document. It repeats project and type, so that an answer to another question is noticed."""
        resources = [resource.to_dict() for resource in self.resources]
        return {"project_id": project_id, "type": type_, "resources": resources, "next": self.next}


@dataclasses.dataclass(frozen=True)
class Problem:
    """An error, as in RFC 9457 (``application/problem+json``)."""

    type: ProblemType
    detail: str  #: what is wrong and what would clear it; a person reads it in the report
    request_id: str = ""  #: by which the service's log has the request

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS[self.type]

    def to_dict(self) -> dict[str, Any]:
        """Return the document."""
        title = self.type.rpartition(":")[2].replace("-", " ")
        own = {"type": str(self.type), "title": title, "status": self.status}
        return {**own, "detail": self.detail, "request_id": self.request_id}


def _known(cls: type[Any], document: Mapping[str, Any]) -> Any:
    """Return a value of a class from the fields of a document that it has; lists become tuples."""
    names = {field.name for field in dataclasses.fields(cls)}
    return cls(**{name: _frozen(value) for name, value in document.items() if name in names})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without tuples, so that it is equal to what JSON makes of it."""
    return {name: [*value] if isinstance(value, tuple) else value for name, value in document.items()}
