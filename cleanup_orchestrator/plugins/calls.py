"""Declared calls, and how they follow the pages of a list."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from cleanup_orchestrator import compat
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins.values import ProjectDefinition, Resource, Row, fill, quoted, to_row

if TYPE_CHECKING:
    from openstack.connection import Connection

#: How often in a row a list by offset may repeat a page: Manila does so once for each further instance of a share.
_SAME_PAGES = 50

#: Pages without a row in succession after which a list counts as endless.
MAX_EMPTY_PAGES = 100

#: The parameters that a link changes because it leads to the next page.
_PAGING = frozenset({"limit", "marker", "offset"})

#: In :attr:`Rest.key` of a listing: the body itself is the list of rows (Aodh, Gnocchi).
BODY = "(body)"


class Paging(StrEnum):
    """How a :class:`Rest` call follows the pages of a list."""

    NONE = "none"  #: the list has one page. A link to another one is an error, unless the query has a ``limit``
    #: The query of ``<key>_links`` or ``next`` in the body, put over the original query. A page without rows ends the
    #: list only if it has no link: a service may remove rows from a page after it has read the page.
    LINKS = "links"
    #: As ``LINKS``, with a ``limit`` in the query. A full page without a link counts as cut short (Keystone).
    PAGES = "pages"
    OFFSET = "offset"  #: ``limit`` and ``offset``, until a page has no new rows (Barbican)
    MARKER = "marker"  #: ``limit``, and ``Rest.marker`` of the last row as ``marker``


class Sdk:
    """A call of an openstacksdk proxy.

    Example: ``Sdk("network", "ports", project_id="{project_id}")``.

    Positional and keyword arguments are templates for :func:`fill`. As a listing it yields rows. As an action on a
    resource it passes the arguments as declared: ``Sdk("network", "delete_port", "{id}", ignore_missing=False)``.
    """

    def __init__(self, proxy: str, method: str, /, *args: Any, **kwargs: Any) -> None:
        self.proxy, self.method, self.args, self.kwargs = proxy, method, args, kwargs

    def __repr__(self) -> str:
        parts = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"{self.proxy}.{self.method}({', '.join(parts)})"

    def call(self, connection: Connection, project: ProjectDefinition, resource: Resource | None = None) -> Any:
        """Make the call and return what the SDK returns."""
        return self._call(getattr(connection, self.proxy), project, resource)

    def _call(self, proxy: Any, project: ProjectDefinition, resource: Resource | None = None) -> Any:
        method = getattr(proxy, self.method)
        return method(*fill(self.args, project, resource), **fill(self.kwargs, project, resource))

    def rows(self, connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        """Yield every row of a listing. The SDK follows the pages.

        :raises BadAnswer: when a link leads to another list, or too many pages are empty
        """
        from keystoneauth1.adapter import Adapter

        proxy = getattr(connection, self.proxy)
        if isinstance(proxy, Adapter):
            proxy = copy.copy(proxy)  # other threads use the connection's
            proxy.get = _SdkPages(proxy.get, repr(self))
        for item in self._call(proxy, project):
            yield to_row(item)

    def row(self, connection: Connection, project: ProjectDefinition, resource: Resource) -> Row:
        """Return the one row of the answer."""
        return to_row(self.call(connection, project, resource))


class _SdkPages:
    """The ``get`` of a proxy for one listing, which reads the links of each page before openstacksdk does.

    openstacksdk ends a list at a page without rows, and takes any query of a link.
    """

    def __init__(self, get: Callable[..., Any], name: str) -> None:
        self._get, self._name = get, name
        self._own: Mapping[str, Any] | None = None  #: the query of the first page

    def __call__(self, url: str, *, params: Mapping[str, Any] | None = None, **kwargs: Any) -> Any:
        """Return the next page that has rows or no link."""
        query = dict(params or {})
        if self._own is None:
            self._own = query
        for _ in range(MAX_EMPTY_PAGES + 1):
            response = self._get(url, params=query, **kwargs)
            link, empty = _link_of(response)
            if link is None:
                return response
            query = {**query, **_parameters(link, self._own)}
            if not empty:
                return response
        raise BadAnswer(f"{self._name} has no end: {MAX_EMPTY_PAGES} pages in succession are empty")


def _link_of(response: Any) -> tuple[str | None, bool]:
    """Return the link to the next page, and whether the page has no rows."""
    try:
        body = response.json()
    except ValueError:  # openstacksdk refuses it
        return None, False
    lists = (
        {}
        if not isinstance(body, Mapping)
        else {name: rows for name, rows in body.items() if isinstance(rows, list) and not name.endswith("links")}
    )
    return next(filter(None, (_next(body, name) for name in lists)), None), not any(lists.values())


@dataclasses.dataclass(frozen=True)
class Rest:
    """A REST call that the SDK does not have.

    :raises ValueError: when ``paging`` is none of :class:`Paging`. The list would end after its first page, and look
        complete
    """

    service_type: str
    path: str  #: below the API version, which the SDK discovers: ``/containers``; a template for :func:`fill`
    #: Of the collection (listing) or of the object (show) in the body. If the body itself is the list: :data:`BODY`. If
    #: the body itself is the object: empty.
    key: str = ""
    method: str = "GET"
    query: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    body: Any = None
    #: Templates, too: several services take the project from a header.
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    microversion: str | None = None
    paging: Paging = Paging.NONE  #: a plain string is accepted as well
    limit: int = 100  #: rows of a page, where ``paging`` sends a limit
    marker: str = "id"  #: the row's attribute that names the last row of a page
    accept: frozenset[int] = frozenset({200, 201, 202, 204})
    #: The path begins with the API version, and is below the endpoint as the catalog has it. For a service with several
    #: APIs beside each other, of which the discovery would find one.
    from_root: bool = False

    def __post_init__(self) -> None:
        """Convert a plain string to its :class:`Paging`."""
        try:
            object.__setattr__(self, "paging", Paging(self.paging))
        except ValueError:
            known = ", ".join(Paging)
            raise ValueError(f"{self!r}: unknown paging {self.paging!r}; known are {known}") from None

    def __repr__(self) -> str:
        return f"{self.method} {self.path} ({self.service_type})"

    def client(self, connection: Connection) -> Any:
        """Return the connection's client of the service.

        The SDK's own client is preferred, because it knows the API versions of the service.
        """
        from keystoneauth1.adapter import Adapter

        adapter = getattr(connection, self.service_type.replace("-", "_"), None)
        if not isinstance(adapter, Adapter):
            adapter = connection.config.get_session_client(self.service_type)
            compat.bind(adapter, connection)
        return adapter

    def _request(
        self, connection: Connection, path: str, query: Mapping[str, Any], body: Any, headers: Mapping[str, str]
    ) -> Any:
        from openstack import exceptions

        # HTTP clients resolve these, so that the request would address another resource.
        if {".", ".."} & set(path.partition("?")[0].split("/")):
            raise BadAnswer(f"{self!r} has no path for what is named {path!r}")
        adapter = self.client(connection)
        root = {"endpoint_override": adapter.get_endpoint(skip_discovery=True)} if self.from_root else {}
        response = adapter.request(
            path,
            self.method,
            params=dict(query),
            json=body,
            headers=dict(headers),
            microversion=self.microversion,
            raise_exc=False,
            **root,
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
        path = fill(self.path, project, quoted(resource) if resource else None)
        query, body, headers = (fill(part, project, resource) for part in (self.query, self.body, self.headers))
        return self._request(connection, path, query, body, headers)

    def row(self, connection: Connection, project: ProjectDefinition, resource: Resource) -> Row:
        """Return the one object of the answer."""
        body = self.call(connection, project, resource)
        return to_row(body[self.key] if self.key else body)

    def rows(self, connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        """Yield every row of the collection over all pages.

        :raises BadAnswer: when the collection's key is missing, paging does not advance, too many pages are empty, or a
            link leads to another list or is not followed although the list ends
        """
        path = fill(self.path, project)
        query = dict(fill(self.query, project))
        headers = fill(self.headers, project)
        if self.paging in (Paging.OFFSET, Paging.MARKER, Paging.PAGES):
            query["limit"] = self.limit
        if self.paging is Paging.OFFSET:
            query["offset"] = 0
        own = dict(query)
        seen_pages = set()
        before: Any = None
        again = empty = 0
        while True:
            body = self._request(connection, path, query, None, headers)
            page, about = self._page(body)
            link = _next(about, self.key)
            if self.paging not in (Paging.LINKS, Paging.PAGES):
                if link and (not page or "limit" not in query):
                    raise BadAnswer(f"{self!r} has a link to another page, which is not followed")
                link = None
            cut = about.get("truncated") or (self.paging is Paging.PAGES and len(page) == self.limit)
            if cut and not (self.paging is Paging.PAGES and link):
                raise BadAnswer(f"{self!r} was cut short by the service's list limit")
            known = {row["id"] for row in before or () if "id" in row} if self.paging is Paging.OFFSET else set()
            yield from (row for row in page if not known or row.get("id") not in known)
            if self.paging is Paging.NONE or not (page or link):
                return
            empty = 0 if page else empty + 1
            if empty > MAX_EMPTY_PAGES:
                raise BadAnswer(f"{self!r} has no end: {MAX_EMPTY_PAGES} pages in succession are empty")
            again = again + 1 if page and page == before else 0
            if again > (_SAME_PAGES if self.paging is Paging.OFFSET else 0):
                # The service ignores the parameter that asks for the next page.
                raise BadAnswer(f"{self!r} gave the same page twice")
            before = page
            if self.paging is Paging.OFFSET:
                # Manila counts a share once for each of its instances, and shows it once. So the number of rows that a
                # page shows may be too small for the next offset, and never too large: a page may repeat rows.
                query["offset"] += 1 if again else len(page)
            elif self.paging is Paging.MARKER:
                query["marker"] = page[-1][self.marker]
            else:
                if link is None:
                    return
                # A link may name another host, and several services drop the owner filter from it. So only its query
                # is taken, and put over the original one.
                query = {**query, **_parameters(link, own)}
            page_key = tuple(sorted((k, str(v)) for k, v in query.items()))
            if page_key in seen_pages:
                raise BadAnswer(f"{self!r} gave the same page twice")
            seen_pages.add(page_key)

    def _page(self, body: Any) -> tuple[list[Row], Mapping[str, Any]]:
        """Return the rows of a page, and the object around them, which has the links.

        :raises BadAnswer: there is no list of rows
        """
        about = {self.key: body} if self.key == BODY else body
        if not isinstance(about, Mapping) or not isinstance(about.get(self.key), list):
            raise BadAnswer(f"{self!r} answered without {'a list' if self.key == BODY else repr(self.key)}")
        return about[self.key], about


@dataclasses.dataclass(frozen=True)
class Collection:
    """The calls of one collection of a service: its lists, and those of one resource in it.

    See :class:`Rest` for ``headers``, ``microversion`` and ``from_root``, which each call has, and for ``paging``,
    ``limit`` and ``marker``, which the lists have.
    """

    service_type: str
    path: str  #: ``/volumes``; the path of a resource is ``/volumes/{id}``
    key: str = ""  #: of a list in the body, as in ``Rest``; empty: the last part of the path, with underscores
    one: str = ""  #: of a resource in the body, as in ``Rest``
    list_path: str = ""  #: of the lists, where it is another one: ``/volumes/detail``
    query: Mapping[str, Any] = dataclasses.field(default_factory=dict)  #: of each list, behind what selects the rows
    own_query: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"project_id": "{project_id}"})
    all_query: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    microversion: str | None = None
    paging: Paging = Paging.NONE
    limit: int = 100
    marker: str = "id"
    from_root: bool = False

    @property
    def own(self) -> Rest:
        """The list of the project's resources."""
        return self.where(**self.own_query)

    @property
    def all(self) -> Rest:
        """The list of the resources of all projects."""
        return self.where(**self.all_query)

    @property
    def show(self) -> Rest:
        """The call that shows a resource."""
        return self.call("/{id}", key=self.one)

    @property
    def delete(self) -> Rest:
        """The call that deletes a resource."""
        return self.call("/{id}", method="DELETE")

    def where(self, **query: Any) -> Rest:
        """Return the list of the resources that a query selects."""
        return Rest(
            self.service_type,
            self.list_path or self.path,
            key=self.key or self.path.rpartition("/")[2].replace("-", "_"),
            query={**query, **self.query},
            paging=self.paging,
            limit=self.limit,
            marker=self.marker,
            **self._of_service(),
        )

    def call(self, below: str, **declared: Any) -> Rest:
        """Return a call below the path of the collection: ``/{id}/action``.

        :param declared: see :class:`Rest`
        """
        return Rest(self.service_type, self.path + below, **{**self._of_service(), **declared})

    def _of_service(self) -> dict[str, Any]:
        return {"headers": self.headers, "microversion": self.microversion, "from_root": self.from_root}


def _next(body: Mapping[str, Any], key: str) -> str | None:
    """Return the link to the next page of a collection."""
    links = body.get(f"{key}_links") or body.get("links") or ()
    if isinstance(links, Mapping):  # Keystone
        following = links.get("next")
        return str(following) if following else None
    for link in links:
        if isinstance(link, Mapping) and link.get("rel") == "next":
            return str(link["href"])
    following = body.get("next")
    return str(following) if following else None


def in_catalog(connection: Connection, service_type: str) -> bool:
    """Return whether the catalog has a service in the region of the connection."""
    return connection.config.get_session_endpoint(service_type) is not None


def _parameters(link: str, own: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """Return the query of a link; a parameter that it has more than once is a list.

    :param own: the query of the first page. A link may leave out parameters of it
    :raises BadAnswer: the link changes one of them. Its page is of another list: of another project, or without the
        rows of all projects
    """
    in_link = parse_qs(urlsplit(link).query)
    for name in own.keys() & in_link.keys() - _PAGING:
        if own[name] is not None and _texts(own[name]) != _texts(in_link[name]):
            raise BadAnswer(f"the link to the next page has {name}={','.join(in_link[name])}, asked for {own[name]}")
    return {name: values[0] if len(values) == 1 else values for name, values in in_link.items()}


def _texts(value: Any) -> set[str]:
    """Return the values of a parameter as they are sent; services write a boolean in several ways."""
    texts = {str(each) for each in (value if isinstance(value, list | tuple | set | frozenset) else (value,))}
    return {text.lower() if text.lower() in ("true", "false") else text for text in texts}


def knows_microversion(adapter: Any, microversion: str) -> bool:
    """Return whether the version document of a service lists a microversion.

    :raises BadAnswer: when the document names no microversion. keystoneauth skips a version document that it cannot
        read, so that a service behind a proxy would look like an old release
    """
    data = adapter.get_endpoint_data()
    if data is None or not data.max_microversion:
        raise BadAnswer(f"{adapter.service_type} does not say which microversions it supports")
    return tuple(data.max_microversion) >= tuple(int(part) for part in microversion.split("."))
