"""The public contract of plugins, version 1: resource types as frozen data.

A plugin is one ``Service`` value behind an entry point of the group ``cleanup_orchestrator.services``; the entry
point's name is the official service type (``network``). It says how to list and delete what a project owns; *when*
that happens, in which order, how often, and whether it may happen at all, is decided elsewhere. So a plugin never
loops until gone, never sleeps, never catches an error to go on: it states, and raises.

What a plugin is handed is a ``ProjectDefinition`` and an ``openstack.connection.Connection``. The connection's
session counts every call and refuses every write during a look, after a cancel, or past the worker's lease. A hook
must not make calls by any other way.

A listing that fails must raise. An empty iterator means: the service was asked, for this project, and has nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit

from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.model import Reason, Token
from cleanup_orchestrator.ordering import EVERYTHING as EVERYTHING

if TYPE_CHECKING:
    from openstack.connection import Connection
    from oslo_config import cfg

CONTRACT_VERSION = 1

#: In ``ResourceType.owner``: the token is scoped into the project, and the service shows nothing else.
SCOPED = "(scoped)"

Row = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectDefinition:
    """Everything a plugin may know of the project under deletion."""

    id: str
    name: str
    domain_id: str
    region: str  #: the region being swept; empty for services that are not regional (identity)
    member_ids: tuple[str, ...] = ()  #: users that had an effective role on the project when first looked
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  #: values of ``Service.options``

    def __post_init__(self) -> None:
        """Refuse an empty id: several services take an empty owner filter for "everybody's"."""
        if not isinstance(self.id, str) or not self.id.strip():
            raise ValueError("a project definition needs a project id")


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """One listed resource."""

    id: str
    name: str
    owner: str | None  #: the owning project's id as the service shows it; ``None`` when it shows none
    data: Row = dataclasses.field(default_factory=dict)  #: the row as listed


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Why a listed resource is not deleted."""

    reason: Reason
    message: str
    blocked_by: tuple[Mapping[str, str], ...] = ()  #: ``{"type", "id", "owner"}`` of what stands in the way


class Refused(Exception):
    """A hook's word that this resource cannot be deleted now, with the reason that the report shows."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


def fill(value: Any, project: ProjectDefinition, resource: Resource | None = None) -> Any:
    """Fill ``{project_id}``, ``{id}`` and ``{row[key]}`` into strings, and into the strings of dicts and lists."""
    if isinstance(value, str):
        return value.format(
            project_id=project.id,
            id=resource.id if resource else "",
            row=resource.data if resource else {},
        )
    if isinstance(value, Mapping):
        return {k: fill(v, project, resource) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [fill(v, project, resource) for v in value]
    return value


def to_row(value: Any) -> Row:
    """Return an SDK resource, or a mapping, as a plain dict."""
    if hasattr(value, "to_dict"):
        return value.to_dict(computed=False, original_names=False)  # type: ignore[no-any-return]
    if isinstance(value, Mapping):
        return value
    raise BadAnswer(f"expected an object, got {type(value).__name__}")


class Sdk:
    """A call of an openstacksdk proxy: ``Sdk("network", "ports", project_id="{project_id}")``.

    Positional and keyword arguments are templates for :func:`fill`. As a listing it yields rows; as an action on a
    resource it passes what is written; a delete reads ``Sdk("network", "delete_port", "{id}", ignore_missing=False)``.
    """

    def __init__(self, proxy: str, method: str, /, *args: Any, **kwargs: Any) -> None:
        self.proxy, self.method, self.args, self.kwargs = proxy, method, args, kwargs

    def __repr__(self) -> str:
        parts = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"{self.proxy}.{self.method}({', '.join(parts)})"

    def call(self, connection: Connection, project: ProjectDefinition, resource: Resource | None = None) -> Any:
        """Make the call and return what the SDK returns."""
        method = getattr(getattr(connection, self.proxy), self.method)
        return method(*fill(self.args, project, resource), **fill(self.kwargs, project, resource))

    def rows(self, connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        """Yield every row of a listing; the SDK follows the pages."""
        for item in self.call(connection, project):
            yield to_row(item)

    def row(self, connection: Connection, project: ProjectDefinition, resource: Resource) -> Row:
        """Return the one row that the call answers."""
        return to_row(self.call(connection, project, resource))


@dataclasses.dataclass(frozen=True)
class Rest:
    """A REST call that the SDK does not have.

    ``paging``: ``none``; ``links`` (the query of ``<key>_links`` or ``next`` in the body, put over the original
    one); ``offset`` (``limit``/``offset`` until a page comes short of new rows, Barbican); ``marker`` (id of the
    last row).
    """

    service_type: str
    path: str  #: below the API version, which the SDK discovers: ``/containers``; a template for :func:`fill`
    key: str = ""  #: of the collection (listing) or of the object (show) in the body; empty: the body itself
    method: str = "GET"
    query: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    microversion: str | None = None
    paging: str = "none"
    limit: int = 100
    accept: frozenset[int] = frozenset({200, 201, 202, 204})

    def __repr__(self) -> str:
        return f"{self.method} {self.path} ({self.service_type})"

    def _request(self, connection: Connection, path: str, query: Mapping[str, Any], body: Any) -> Any:
        from keystoneauth1.adapter import Adapter
        from openstack import exceptions

        adapter = getattr(connection, self.service_type.replace("-", "_"), None)  # the SDK's: it knows the versions
        if not isinstance(adapter, Adapter):
            adapter = connection.config.get_session_client(self.service_type)
            adapter._connection = connection  # without it the SDK's client refuses to work
        response = adapter.request(
            path,
            self.method,
            params=dict(query),
            json=body,
            headers=dict(self.headers),
            microversion=self.microversion,
            raise_exc=False,
        )
        if response.status_code not in self.accept:
            exceptions.raise_from_response(response)
            raise BadAnswer(f"{self!r} answered {response.status_code}")
        if not response.content:
            return {}
        try:
            return response.json()
        except ValueError as error:
            raise BadAnswer(f"{self!r} answered no JSON") from error

    def call(self, connection: Connection, project: ProjectDefinition, resource: Resource | None = None) -> Any:
        """Make one call and return the decoded body."""
        path = fill(
            self.path, project, dataclasses.replace(resource, id=quote(resource.id, safe="")) if resource else None
        )
        return self._request(connection, path, fill(self.query, project, resource), fill(self.body, project, resource))

    def row(self, connection: Connection, project: ProjectDefinition, resource: Resource) -> Row:
        """Return the one object that the call answers."""
        body = self.call(connection, project, resource)
        return to_row(body[self.key] if self.key else body)

    def rows(self, connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        """Yield every row of the collection over all pages.

        :raises BadAnswer: when the collection's key is missing or paging does not advance
        """
        path = fill(self.path, project)
        query = dict(fill(self.query, project))
        if self.paging in ("offset", "marker"):
            query["limit"] = self.limit
        if self.paging == "offset":
            query["offset"] = 0
        seen_pages = set()
        while True:
            body = self._request(connection, path, query, None)
            if not isinstance(body, Mapping) or not isinstance(body.get(self.key), list):
                raise BadAnswer(f"{self!r} answered without {self.key!r}")
            if body.get("truncated"):
                raise BadAnswer(f"{self!r} was cut short by the service's list limit")
            page = body[self.key]
            yield from page
            if self.paging == "none" or not page:
                return
            if self.paging == "offset":
                query["offset"] += len(page)
            elif self.paging == "marker":
                query["marker"] = page[-1]["id"]
            else:
                link = self._next(body)
                if link is None:
                    return
                # Only its query, over ours: a link may name another host, and several services drop our filter from it.
                query = {**query, **dict(parse_qsl(urlsplit(link).query))}
            page_key = tuple(sorted((k, str(v)) for k, v in query.items()))
            if page_key in seen_pages:
                raise BadAnswer(f"{self!r} gave the same page twice")
            seen_pages.add(page_key)

    def _next(self, body: Mapping[str, Any]) -> str | None:
        for link in body.get(f"{self.key}_links") or body.get("links") or ():
            if isinstance(link, Mapping) and link.get("rel") == "next":
                return str(link["href"])
        following = body.get("next")
        return str(following) if following else None


#: How a type is listed: a declared call, or a named hook that yields rows.
Listing = Sdk | Rest | Callable[["Connection", ProjectDefinition], Iterable[Row]]
#: What is done to one resource: a declared call, or a named hook. A hook raises :class:`Refused` to explain a refusal.
Action = Sdk | Rest | Callable[["Connection", ProjectDefinition, Resource], Any]
#: A named rule over a listed resource; ``None`` means that it does not apply.
Rule = Callable[[Resource, ProjectDefinition], "str | None"]
#: The same with calls of its own, for what the row alone cannot tell.
Explain = Callable[["Connection", ProjectDefinition, Resource], "Verdict | None"]


@dataclasses.dataclass(frozen=True)
class ResourceType:
    """One kind of thing that a project owns in one service."""

    name: str  #: singular, the SDK's word: ``security_group``
    list: Listing  #: every one that the project owns, over all pages; more is allowed, the owner is compared anyway
    delete: Action | None  #: by immutable id; ``None``: it cannot be deleted by API (it is then kept or a leftover)
    owner: str = "project_id"  #: the row's attribute (dotted path) with the owning project's id, or :data:`SCOPED`
    id: str = "id"  #: the row's attribute with the immutable id
    title: str = "name"  #: the row's attribute that a person knows it by
    show: Action | None = None  #: reads it again, for the owner check right before the delete; see ``fresh``
    fresh: str = ""  #: with no ``show``: why the listing, or the scope, is proof enough of the owner
    after: tuple[str, ...] = ()  #: types confirmed gone first: ``port``, ``compute.server``, or :data:`EVERYTHING`
    dragged_by: tuple[str, ...] = ()  #: types whose delete takes this one along; it is listed, never called for
    keep: tuple[
        Rule, ...
    ] = ()  #: a sentence when it is not the user's, or goes with its parent: neither deleted nor left
    protect: tuple[Rule, ...] = ()  #: a sentence when it must not be deleted: always a leftover
    prepare: tuple[Action, ...] = ()  #: idempotent breakers before the delete: clear routes, detach, unprotect
    explain: Explain | None = None  #: asked after a refused delete: who stands in the way
    describe: Rule | None = None  #: what the report says of it besides its name: how much a container holds
    token: Token = Token.ADMIN
    residue: bool = False  #: quota rows and the like: no leftover, removed right before the project
    available: Callable[[Connection, ProjectDefinition], bool] | None = (
        None  #: False: the service lacks it, on its word
    )
    unfiltered: str = ""  #: why the list call carries no owner filter, where it does not
    note: str = ""  #: for the documentation: a trap that this declaration avoids
    source: str = ""  #: which service call, and where its behaviour was read

    def resource(self, row: Row, project: ProjectDefinition) -> Resource:
        """Read id, name and owner out of a listed row.

        :raises BadAnswer: when the row has no id
        """
        identity = pick(row, self.id)
        if not identity:
            raise BadAnswer(f"a {self.name} was listed without {self.id!r}")
        owner = project.id if self.owner == SCOPED else pick(row, self.owner)
        return Resource(str(identity), str(pick(row, self.title) or ""), str(owner) if owner else None, row)


@dataclasses.dataclass(frozen=True)
class Service:
    """A plugin: one service and every type that a project may own there."""

    service_type: str  #: official, as os-service-types has it: ``key-manager``
    types: tuple[ResourceType, ...]
    regional: bool = True  #: swept in every region of the catalog; identity is swept once
    options: tuple[cfg.Opt, ...] = ()  #: registered in the group ``[service_<type with underscores>]``
    roles: str = ""  #: for the documentation: which roles the orchestrator needs there


def pick(row: Row, path: str) -> Any:
    """Return the value at a dotted path, ``None`` when any part is missing."""
    value: Any = row
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value
