"""What capabilities must be, and what a value of a provider must be before the application sends it.

A value that is not so is a defect of the service. It becomes an error, and never a shorter list.
"""

from __future__ import annotations

import dataclasses
import graphlib
import re
from collections.abc import Collection, Iterable, Iterator

from cleanup_orchestrator.protocol import documents
from cleanup_orchestrator.protocol.documents import (
    MAX_ROWS,
    SERVICE_PATTERN,
    TYPE_PATTERN,
    Capabilities,
    Page,
    Resource,
    ResourceType,
    State,
    User,
)

_PROJECT_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{documents.LONGEST_PROJECT_ID}}}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Defect(Exception):
    """A function of the provider broke a rule of the protocol."""


def is_type_name(text: str) -> bool:
    """Return whether a text is a name of a type."""
    return len(text) <= documents.LONGEST_NAME and re.fullmatch(TYPE_PATTERN, text) is not None


def is_service_type(text: str) -> bool:
    """Return whether a text is a type of a service."""
    return len(text) <= documents.LONGEST_NAME and re.fullmatch(SERVICE_PATTERN, text) is not None


def is_full_name(text: str) -> bool:
    """Return whether a text is a name of a type, with the type of another service or without."""
    *service, name = text.split(".")
    return len(service) <= 1 and all(map(is_service_type, service)) and is_type_name(name)


def is_project_id(text: str) -> bool:
    """Return whether a text is an ID of a project, as Keystone forms it."""
    return _PROJECT_ID.fullmatch(text) is not None


def is_id(value: object) -> bool:
    """Return whether a value is an ID that can be a segment of a path.

    No part between slashes is empty, ``.`` or ``..``: a proxy that decodes and resolves the path would make another
    path of it, such as the one of the whole type.
    """
    if not isinstance(value, str) or not 0 < len(value) <= documents.LONGEST_ID or _CONTROL.search(value):
        return False
    return _is_unicode(value) and not {"", ".", ".."} & {*value.split("/")}


def contradictions(capabilities: Capabilities) -> Iterator[str]:
    """Yield what is wrong with capabilities whose fields have the form that the schema requires.

    A provider with such capabilities does not start, the conformance test reports them, and the orchestrator does not
    use them: deletions would wait forever, or the service would act on what users wrote with its own rights.
    """
    names = [type_.name for type_ in capabilities.types]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        yield f"two types have the name {repeated[0]}"
    for type_ in capabilities.types:
        wrong = _contradictions(type_, capabilities.own_after(type_), names)
        yield from (f"{type_.name}: {problem}" for problem in wrong)
    try:
        capabilities.in_order()
    except graphlib.CycleError as error:
        yield f"after has a circle: {', '.join(error.args[1])}"
    if never := _never_deleted(capabilities.types):
        yield f"deleted_with leads to no type that is deleted: {', '.join(never)}"


def _contradictions(type_: ResourceType, own_after: Collection[str], names: Collection[str]) -> Iterator[str]:
    for field, others in (("after", own_after), ("deleted_with", type_.deleted_with)):
        if unknown := sorted({*others}.difference(names)):
            yield f"{field} names unknown types: {', '.join(unknown)}"
    if type_.name in type_.deleted_with:
        yield "it is deleted with itself"
    if type_.acts_on and type_.delete_all:
        yield "acts_on and delete_all exclude each other: one call would act on what users wrote, without their token"
    if type_.delete_all and not type_.delete:
        yield "delete_all without delete: no call deletes it"


def _never_deleted(types: Collection[ResourceType]) -> list[str]:
    """Return the types that are deleted only with each other, or with a project setting, which is deleted last."""
    settings = {type_.name for type_ in types if type_.project_setting}
    wholes = {type_.name: {*type_.deleted_with} - (set() if type_.project_setting else settings) for type_ in types}
    deleted = {type_.name for type_ in types if not type_.deleted_with}
    while more := {name for name, with_ in wholes.items() if with_ & deleted} - deleted:
        deleted |= more
    return sorted(wholes.keys() - deleted)


def page(result: Page, project_id: str, limit: int, marker: str | None) -> Page:
    """Return a page of a list, with texts that are not too long.

    :raises Defect: if it has another project's resource, too many rows, a row twice, or leads nowhere
    """
    _need(isinstance(result, Page), f"list returned {type(result).__name__} instead of Page")
    _need(len(result.resources) <= min(limit, MAX_ROWS), f"list returned {len(result.resources)} rows, limit {limit}")
    rows = tuple(resource(row, project_id) for row in result.resources)
    _need(len({row.id for row in rows}) == len(rows), "list returned an id twice in a page")
    if result.next is not None:
        _need(isinstance(result.next, str) and 0 < len(result.next) <= documents.LONGEST_MARKER, "next is no marker")
        _need(result.next != marker, "next is the marker of the same page")
    return Page(rows, result.next)


def resource(row: Resource, project_id: str) -> Resource:
    """Return a resource with texts that are not too long.

    A long name must not make the list unreadable. What decides about the resource is never shortened.

    :raises Defect: if it belongs to another project, or is not as the protocol defines it
    """
    _need(isinstance(row, Resource), f"a row is {type(row).__name__} instead of Resource")
    _need(is_id(row.id), f"the id {row.id!r} is malformed")
    about = f"resource {row.id}"
    _need(row.project_id == project_id, f"{about} belongs to project {row.project_id!r}, and not to {project_id!r}")
    _need(row.state in {*State}, f"{about} has the state {row.state!r}")
    _need(len(_string(row.created_at)) <= documents.LONGEST_TIME, f"{about}: created_at is too long")
    tags, longest = documents.MAX_TAGS, documents.LONGEST_TEXT
    _need(len(_strings(row.tags)) <= tags, f"{about} has more than {tags} tags")
    _need(all(len(tag) <= longest for tag in row.tags), f"{about} has a tag of more than {longest} characters")
    for parent, id_ in row.part_of.items():
        _need(is_type_name(parent) and is_id(id_), f"{about}: wrong part_of")
    return dataclasses.replace(
        row,
        name=_text(row.name),
        description=_text(row.description),
        keep=_text(row.keep),
        protected=_text(row.protected),
        tags=tuple(row.tags),
        part_of=dict(row.part_of),
        used_by=tuple(_user(user, about) for user in row.used_by[: documents.MAX_USERS]),
    )


def _user(user: User, about: str) -> User:
    right = is_full_name(user.type) and 0 < len(_string(user.id)) <= documents.LONGEST_ID
    _need(right and len(_string(user.project_id)) <= documents.LONGEST_PROJECT_ID, f"{about}: wrong used_by")
    return dataclasses.replace(user, name=_text(user.name))


def _need(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Defect(otherwise)


def _text(value: object) -> str:
    return _string(value)[: documents.LONGEST_TEXT].encode(errors="replace").decode()


def _strings(values: Iterable[object]) -> tuple[str, ...]:
    if isinstance(values, str):  # its letters would be the strings
        raise Defect(f"{values!r} is not a list of strings")
    return tuple(_string(value) for value in values)


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise Defect(f"{value!r} is not a string")
    return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # an unpaired surrogate
        return False
    return True
