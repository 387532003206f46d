"""Swift: the account of a project, requests about it, and the pages of its lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from cleanup_orchestrator.plugins.base import LITERAL_PATH, BadAnswer, ProjectDefinition, Row, exceptions

if TYPE_CHECKING:
    from openstack.connection import Connection
    from requests import Response

#: Names in one page and in one bulk delete. Swift accepts 10,000, but deletes two at a time: a call would take minutes,
#: during which a cancel has no effect.
PAGE = 1000
#: HTTP clients and proxies resolve these in a path, whatever the encoding: the request then addresses another resource.
#: A container of that name is read with a path that is sent unchanged (``LITERAL_PATH``). If a proxy resolves it
#: anyway, the account or the list of API versions is read. A delete never has such a path: a bulk delete has the names
#: in its body.
DOTS = frozenset({".", ".."})
NO_RESELLER = (
    "a token for the project can no longer be obtained, and others can access its account in Swift only with the role "
    "ResellerAdmin: give it to the orchestrator's user"
)


UNREADABLE = (
    "Swift answers 503 to a token of the project, because a name in it is not Latin-1; others can access its account "
    "only with the role ResellerAdmin: give it to the orchestrator's user"
)


def cannot_read_token(connection: Connection, project: ProjectDefinition) -> bool:
    """Return whether Swift fails to read the project's token.

    Its proxy passes the headers with the names of project, domain and user on to its storage servers, and answers 503
    if one is not Latin-1. The Ceph Object Gateway does not. Swift accepts other calls with such a token: a user can
    create containers, so that the account may be not empty.

    The token that is used instead, as for a project that is gone, is that of a reseller admin, which reaches all
    accounts. The project's token cannot reach another account, whatever a URL names. So these calls rely on their URL:
    each begins with :func:`account_url_by_id`, which puts the project's id in the place of the own one and refuses an
    endpoint without the latter. The names of containers and objects are one quoted part of the path. A name with a part
    ``..``, which a proxy could resolve to another account, is deleted in the body of a bulk delete, or not at all. The
    deletes make Swift act on nothing that users wrote: versioning and container sync are switched off before, with the
    same token, and segments and links are plain objects.
    """
    return bool(connection.object_store.head(account_url(connection, project)).status_code == 503)


def account_url(connection: Connection, project: ProjectDefinition) -> str:
    """Return the URL of the project's account.

    If the project is gone, or its token cannot be read, the URL is derived from the account of the orchestrator.

    :raises BadAnswer: when it is not certain that it is the project's
    """
    if project.without_token:
        return account_url_by_id(connection, project)
    scope = connection.session.get_project_id()
    if scope != project.id:
        raise BadAnswer(f"the token is scoped into project {scope}, not into {project.id}")
    url = str(connection.object_store.get_endpoint() or "").rstrip("/")
    account = unquote(urlsplit(url).path).rpartition("/")[2]
    if account.endswith(project.id):
        return url
    if project.options.get("account_in_url", True):
        raise BadAnswer(
            f"the object-store endpoint {url or '(none)'} does not end in the project's id; if that is a Ceph Object "
            "Gateway without accounts in its URLs, set account_in_url to false"
        )
    if not url or re.search(r"[0-9a-f]{32}", url):
        raise BadAnswer(f"the object-store endpoint {url or '(none)'} names an account that is not the project's")
    return url


def account_url_by_id(connection: Connection, project: ProjectDefinition) -> str:
    """Return the URL of the project's account, seen from the orchestrator's own."""
    own = str(connection.session.get_project_id() or "")
    url = str(connection.object_store.get_endpoint() or "").rstrip("/")
    if not own or not url.endswith(own):
        raise BadAnswer(f"the object-store endpoint {url or '(none)'} does not end in the own project's id")
    return url.removesuffix(own) + project.id


def has_dots(name: str) -> bool:
    """Return whether a name has a part that a proxy could resolve in a path, also after it decodes the name twice."""
    return not DOTS.isdisjoint(re.split(r"[/\\]", unquote(unquote(name))))


def quote_name(name: str) -> str:
    """Return a name as one part of a path."""
    return quote(name, safe="")


def send(connection: Connection, method: str, account: str, container: str = "", **options: Any) -> Response:
    """Read an account or one of its containers, or change its headers.

    :param container: the name of the container; empty: the account itself
    """
    if container not in DOTS:
        url = f"{account}/{quote_name(container)}" if container else account
        answer: Response = connection.object_store.request(url, method, **options)
        return answer
    query = urlencode(options.pop("params", {}))
    path = f"{urlsplit(account).path}/{container}" + (f"?{query}" if query else "")
    headers = {**options.pop("headers", {}), LITERAL_PATH: path}
    answer = connection.object_store.request(account, method, headers=headers, **options)
    return answer


def list_pages(connection: Connection, account: str, container: str = "", **query: str) -> Iterator[list[Row]]:
    """Yield the pages of a listing, with the last name as the marker.

    Deletes in between do not shift a page. A short page may be followed by another one (sharded containers). Only an
    empty page is the end.
    """
    marker: dict[str, str] = {}
    while True:
        params = {"format": "json", "limit": PAGE, **query, **marker}
        response = send(connection, "GET", account, container, params=params)
        exceptions.raise_from_response(response)
        if response.status_code == 204:
            return
        page = decode_json(response)
        if not isinstance(page, list) or not all(isinstance(row, Mapping) and row.get("name") for row in page):
            raise BadAnswer(f"GET {response.url} answered no list of names")
        if not page:
            return
        yield page
        following = {"marker": page[-1]["name"]}
        if "versions" in query:
            following["version_marker"] = page[-1]["version_id"]
        if following == marker:
            raise BadAnswer(f"GET {response.url} gave the same page twice")
        marker = following


def decode_json(response: Response) -> Any:
    """Return the decoded body.

    :raises BadAnswer: when it is not JSON
    """
    try:
        return response.json()
    except ValueError as error:
        raise BadAnswer(f"{response.request.method} {response.url} answered no JSON") from error


FRESH = "the token is scoped into the project, or the account's URL is made from the project's id"
NO_ACCOUNTS = "Swift has no list of accounts: each is found by its project's id alone"
