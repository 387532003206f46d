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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit

from cleanup_orchestrator.core.dependencies import EVERYTHING as EVERYTHING
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import LITERAL_PATH as LITERAL_PATH
from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.errors import BadAnswer

if TYPE_CHECKING:
    from openstack.connection import Connection
    from oslo_config import cfg

CONTRACT_VERSION = 1

#: In ``ResourceType.owner``: the token is scoped into the project, and the service shows nothing else.
SCOPED = "(scoped)"

#: An id that no service gives to anything. A check that asks for what needs a write may do that to this one alone.
NOTHING = "00000000-0000-0000-0000-000000000000"

#: In ``ResourceType.properties``: they stand in the row itself, beside its attributes.
ROW = "(row)"

#: How often in a row a list by offset may answer the same page: once for each further instance of one share, in Manila.
_SAME_PAGES = 50

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
    gone: bool = False  #: Keystone does not know it any more: nobody gets a token for it

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

    def __post_init__(self) -> None:
        """Refuse what the report could not show."""
        object.__setattr__(self, "reason", Reason(self.reason))
        object.__setattr__(self, "message", str(self.message))


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


def _quoted(resource: Resource) -> Resource:
    """Return a resource to fill into a path: users choose some of its values, and a slash would lead elsewhere."""
    data = {key: quote(str(value), safe="") for key, value in resource.data.items()}
    return dataclasses.replace(resource, id=quote(resource.id, safe=""), data=data)


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
    one); ``pages`` (the same to who sends a ``limit``, Keystone: a full page without a link is taken for a cut one);
    ``offset`` (``limit``/``offset`` until a page comes short of new rows, Barbican); ``marker`` (id of the last row).
    """

    service_type: str
    path: str  #: below the API version, which the SDK discovers: ``/containers``; a template for :func:`fill`
    key: str = ""  #: of the collection (listing) or of the object (show) in the body; empty: the body itself
    method: str = "GET"
    query: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )  #: templates too: several services scope by them
    microversion: str | None = None
    paging: str = "none"
    limit: int = 100
    accept: frozenset[int] = frozenset({200, 201, 202, 204})

    def __repr__(self) -> str:
        return f"{self.method} {self.path} ({self.service_type})"

    def client(self, connection: Connection) -> Any:
        """Return the connection's client of the service: the SDK's, where it has one, for it knows the versions."""
        from keystoneauth1.adapter import Adapter

        adapter = getattr(connection, self.service_type.replace("-", "_"), None)
        if not isinstance(adapter, Adapter):
            adapter = connection.config.get_session_client(self.service_type)
            adapter._connection = connection  # without it the SDK's client refuses to work
        return adapter

    def _request(
        self, connection: Connection, path: str, query: Mapping[str, Any], body: Any, headers: Mapping[str, str]
    ) -> Any:
        from openstack import exceptions

        if {".", ".."} & set(path.partition("?")[0].split("/")):  # HTTP clients resolve these: another place is asked
            raise BadAnswer(f"{self!r} has no path for what is named {path!r}")
        adapter = self.client(connection)
        response = adapter.request(
            path,
            self.method,
            params=dict(query),
            json=body,
            headers=dict(headers),
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
        path = fill(self.path, project, _quoted(resource) if resource else None)
        query, body, headers = (fill(part, project, resource) for part in (self.query, self.body, self.headers))
        return self._request(connection, path, query, body, headers)

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
        headers = fill(self.headers, project)
        if self.paging in ("offset", "marker", "pages"):
            query["limit"] = self.limit
        if self.paging == "offset":
            query["offset"] = 0
        seen_pages = set()
        before: Any = None
        again = 0
        while True:
            body = self._request(connection, path, query, None, headers)
            if not isinstance(body, Mapping) or not isinstance(body.get(self.key), list):
                raise BadAnswer(f"{self!r} answered without {self.key!r}")
            page = body[self.key]
            link = self._next(body) if self.paging in ("links", "pages") else None
            cut = body.get("truncated") or (self.paging == "pages" and len(page) == self.limit)
            if cut and not (self.paging == "pages" and link):
                raise BadAnswer(f"{self!r} was cut short by the service's list limit")
            known = {row["id"] for row in before or () if "id" in row} if self.paging == "offset" else set()
            yield from (row for row in page if not known or row.get("id") not in known)
            if self.paging == "none" or not page:
                return
            again = again + 1 if page == before else 0
            if again > (_SAME_PAGES if self.paging == "offset" else 0):
                # The service does not know the parameter that should have brought the next one.
                raise BadAnswer(f"{self!r} gave the same page twice")
            before = page
            if self.paging == "offset":
                # Manila counts a share once for each of its instances, and shows it once: what is shown moves the
                # offset too little, never too far. So rows of the page before come once more, or all of them do.
                query["offset"] += 1 if again else len(page)
            elif self.paging == "marker":
                query["marker"] = page[-1]["id"]
            else:
                if link is None:
                    return
                # Only its query, over ours: a link may name another host, and several services drop our filter from it.
                query = {**query, **dict(parse_qsl(urlsplit(link).query))}
            page_key = tuple(sorted((k, str(v)) for k, v in query.items()))
            if page_key in seen_pages:
                raise BadAnswer(f"{self!r} gave the same page twice")
            seen_pages.add(page_key)

    def _next(self, body: Mapping[str, Any]) -> str | None:
        links = body.get(f"{self.key}_links") or body.get("links") or ()
        if isinstance(links, Mapping):  # Keystone's
            following = links.get("next")
            return str(following) if following else None
        for link in links:
            if isinstance(link, Mapping) and link.get("rel") == "next":
                return str(link["href"])
        following = body.get("next")
        return str(following) if following else None


def knows_microversion(adapter: Any, microversion: str) -> bool:
    """Whether a service's API has a microversion, in its own words.

    :raises BadAnswer: it does not say; keystoneauth passes over a version document that cannot be read, and a service
        that is asked through a proxy would look like an old one
    """
    data = adapter.get_endpoint_data()
    if data is None or not data.max_microversion:
        raise BadAnswer(f"{adapter.service_type} does not tell which microversions it knows")
    return tuple(data.max_microversion) >= tuple(int(part) for part in microversion.split("."))


#: How a type is listed: a declared call, or a named hook that yields rows.
Listing = Sdk | Rest | Callable[["Connection", ProjectDefinition], Iterable[Row]]
#: What is done to one resource: a declared call, or a named hook. A hook raises :class:`Refused` to explain a refusal.
Action = Sdk | Rest | Callable[["Connection", ProjectDefinition, Resource], Any]
#: A named rule over a listed resource; ``None`` means that it does not apply.
Rule = Callable[[Resource, ProjectDefinition], "str | None"]
#: The same with calls of its own, for what the row alone cannot tell.
Explain = Callable[["Connection", ProjectDefinition, Resource], "Verdict | None"]
#: Called with the type's connection, the one that the delete was made with, project, resource, and the error that the
#: delete raised. True: the delete is made once more.
Unblock = Callable[["Connection", "Connection", ProjectDefinition, Resource, Exception], bool]


MOST_BLOCKERS = 50  #: named in one verdict; the report is for people


def blocking_verdict(
    project: ProjectDefinition,
    blockers: Iterable[Mapping[str, str]],
    say: Callable[[bool, Sequence[Mapping[str, str]]], str],
) -> Verdict | None:
    """Return who is in the way: foreign ones alone if there are any, else the project's own; ``None`` if nobody.

    :param say: makes the sentence, of whether these are foreign, and of all of them
    """
    found = list(blockers)
    foreign = [blocker for blocker in found if blocker["owner"] != project.id]
    named = foreign or found
    if not named:
        return None
    more = f" ({len(named) - MOST_BLOCKERS} more)" if len(named) > MOST_BLOCKERS else ""
    reason = Reason.FOREIGN if foreign else Reason.IN_USE
    return Verdict(reason, say(bool(foreign), named) + more, tuple(named[:MOST_BLOCKERS]))


class Run(StrEnum):
    """Whether a resource runs."""

    ON = "on"  #: it does, and nothing is being done to it
    OFF = "off"  #: it does not, as after :attr:`Halt.stop`, and nothing is being done to it
    BUSY = "busy"  #: something is being done to it that will end: what it is then is not known yet
    OTHER = "other"  #: none of these; it is left as it is


@dataclasses.dataclass(frozen=True)
class Halt:
    """How what runs is stopped for the recovery window, and started again when its project is given back.

    A type that has it has a ``show``, too: it is read again right before each of the two.
    """

    state: Callable[[Row], Run]  #: of a row as listed or shown
    stop: Action  #: of what is ``ON``; from when it is accepted until it is ``OFF``, it is ``BUSY``
    start: Action  #: of what is ``OFF``


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
    deleted_with: tuple[str, ...] = ()  #: types whose delete takes this one along; it is listed, never called for
    keep: tuple[
        Rule, ...
    ] = ()  #: a sentence when it is not the user's, or goes with its parent: neither deleted nor left
    protect: tuple[Rule, ...] = ()  #: a sentence when it must not be deleted: always a leftover
    prepare: tuple[Action, ...] = ()  #: idempotent breakers before the delete: clear routes, detach, unprotect
    explain: Explain | None = None  #: asked after a refused delete: who stands in the way
    used: Explain | None = (
        None  #: asked of each in a look, where the type is in ``[protection] lien_types``: who else uses it, as far as
        #: the row does not show it. It only reads
    )
    force: Action | None = (
        None  #: instead of ``prepare`` and ``delete``, and only in a deletion under force, for one that these left:
        #: reset its state, force its delete, abandon it. What they refuse for others' sake, it refuses as well
    )
    may_force: Callable[[Connection, ProjectDefinition], None] | None = (
        None  #: asked before force is taken: raises :class:`Refused` where ``force`` is switched off or forbidden. It
        #: changes nothing: a write it may only try on :data:`NOTHING`
    )
    halt: Halt | None = (
        None  #: how it is stopped while its project can still be had back, where the operator wants that
    )
    by_hand: str = ""  #: how a person gets rid of one that was let go of; a template for :func:`fill`, id alone
    describe: Rule | None = None  #: what the report says of it besides its name: how much a container holds
    tags: str = ""  #: the row's attribute with its tags, a list (maybe empty) of strings, where the service has tags
    properties: str = ""  #: the row's attribute with the keys and values that its owner put on it, or :data:`ROW`
    part_of: tuple[tuple[str, str], ...] = ()  #: (type, this row's attribute with that one's id): it goes with that
    token: Token = Token.ADMIN
    token_if_gone: Token | None = (
        None  #: once the project is gone, the calls are made with this one, and ``ProjectDefinition.gone`` tells the
        #: hooks; ``None``: as ever. Only where the service tells with that token, too, what is the project's
    )
    acts_on: str = (
        ""  #: what users of the project wrote that its service acts on, with the token that asks, when one is deleted:
        #: a template, a workflow, a hook. ``delete`` and ``force`` are then called with the janitor's token, which can
        #: do what a member of the project can. Once the project is gone, there is no such token: they are called with
        #: that of the type, see ``ProjectDefinition.gone``, and must not let the service act on it
    )
    acts_on_if: Callable[[Resource], bool] | None = (
        None  #: of which resources that holds, by the row as ``show`` gives it; ``None``: of each
    )
    unblock: Unblock | None = (
        None  #: asked after a delete was refused: removes what refused it, as far as that is the project's
    )
    project_setting: bool = False  #: quota rows and the like: no leftover, removed right before the project
    informational: bool = (
        False  #: of project settings only: a user owns it and it merely names the project, so that anybody may
    )
    #: make one, with no role on the project. A report names each, with ``describe``; it never is a leftover, keeps no
    #: inventory from being empty, and nothing waits for it. Only for what is worth nothing without the project
    available: Callable[[Connection, ProjectDefinition], bool] | None = (
        None  #: False: the service lacks it, on its word; anything but True or False is no answer
    )
    proof: Rest | None = None  #: asked before a list is believed; see :attr:`Service.proof`, where it is declared
    unfiltered: str = ""  #: why the list call carries no owner filter, where it does not
    all_projects: Listing | str = ""  #: how those of every project are listed; see :meth:`everyones`
    note: str = ""  #: for the documentation: a trap that this declaration avoids
    source: str = ""  #: which service call, and where its behaviour was read

    def all_projects_view(self) -> ResourceType | None:
        """Return the type with the list of all projects in place of its own; ``None``: it has none.

        ``all_projects`` is listed page by page with an admin's token, whatever ``token`` says, and each row shows its
        owner. The project that it is given does not exist. A sentence in its place says why there is no such list.
        """
        if isinstance(self.all_projects, str):
            return None
        return dataclasses.replace(self, list=self.all_projects, token=Token.ADMIN)

    def for_missing_project(self, gone: bool) -> ResourceType:
        """Return the type with the token that its calls are made with; of a project that is gone it may be another."""
        if not gone or self.token_if_gone is None:
            return self
        return dataclasses.replace(self, token=self.token_if_gone)

    def resource(self, row: Row, project: ProjectDefinition) -> Resource:
        """Read id, name and owner out of a listed row.

        :raises BadAnswer: when the row has no id
        """
        identity = pick(row, self.id)
        if not identity:
            raise BadAnswer(f"a {self.name} was listed without {self.id!r}")
        owner = project.id if self.owner == SCOPED else pick(row, self.owner)
        return Resource(str(identity), str(pick(row, self.title) or ""), str(owner) if owner else None, row)

    def remedy(self, identity: str, project: ProjectDefinition) -> str:
        """Return how a person gets rid of a resource that was let go of."""
        if self.by_hand:
            return str(fill(self.by_hand, project, Resource(identity, "", None)))
        one, call = Resource(identity, "", None), self.delete
        if isinstance(call, Rest) and "{row" not in call.path:
            return f"as an admin: {dataclasses.replace(call, path=fill(call.path, project, one))!r}"
        if isinstance(call, Sdk) and "{row" not in repr(call):
            filled = Sdk(call.proxy, call.method, *fill(call.args, project, one), **fill(call.kwargs, project, one))
            return f"as an admin, with openstacksdk: {filled!r}"
        return f"as an admin, with the calls of: {self.source}"


@dataclasses.dataclass(frozen=True)
class Service:
    """A plugin: one service and every type that a project may own there."""

    service_type: str  #: official, as os-service-types has it: ``key-manager``
    types: tuple[ResourceType, ...]
    regional: bool = True  #: swept in every region of the catalog; identity is swept once
    after: tuple[str, ...] = ()  #: other services' types that each type here (project settings aside) waits for
    options: tuple[cfg.Opt, ...] = ()  #: registered in the group ``[service_<type with underscores>]``
    roles: str = ""  #: for the documentation: which roles the orchestrator needs there
    proof: Rest | None = (
        None  #: what the service answers to admins only, for each of its types: asked before a list is believed, which
        #: anybody else would get as well, cut down to his own. Not with a token of the project, to which its list shows
        #: the project's. ``None``: no list here needs it, or a type has its own
    )

    def __post_init__(self) -> None:
        """Hand the proof on to each type that has none."""
        if self.proof is not None:
            types = (dataclasses.replace(t, proof=self.proof) if t.proof is None else t for t in self.types)
            object.__setattr__(self, "types", tuple(types))


def pick(row: Row, path: str) -> Any:
    """Return the value at a dotted path, ``None`` when any part is missing."""
    value: Any = row
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value
