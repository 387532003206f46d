"""The client of the project-cleanup API: an openstacksdk proxy that speaks in plain dicts.

In a program::

    conn = openstack.connect(cloud="mycloud")
    cleanup = client.from_connection(conn)
    deletion = cleanup.create_deletion(project_id, mode="report")

``conn.add_service(client.DESCRIPTION)`` works as well, and gives ``conn.project_cleanup``.
"""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

import requests
from keystoneauth1 import exceptions as ksa_exceptions
from openstack import exceptions as sdk_exceptions
from openstack import proxy, service_description

SERVICE_TYPE = "project-cleanup"
OVERRIDE_VARIABLE = "OS_PROJECT_CLEANUP_ENDPOINT_OVERRIDE"

#: Seconds without an answer after which a call is given up. Every call is short: long work goes on in the workers.
CALL_TIMEOUT = 60

#: The most that is asked for at once; the server may give less.
PAGE = 1000


def one_line(text: Any) -> str:
    """Return what a server said as one printable line: names and messages may hold anything, escape codes included."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(str(text).split()))


class EndpointMissing(sdk_exceptions.EndpointNotFound):
    """Nothing says where the API is."""


class Unreachable(sdk_exceptions.SDKException):
    """No usable answer came; whether the call had an effect is not known. All calls may be repeated."""


class LoginLost(sdk_exceptions.SDKException):
    """Keystone gives no token (any more)."""


class ApiError(sdk_exceptions.HttpException):
    """An error that the API, or something in front of it, answered with.

    ``code`` is the API's stable code, or empty when the answer did not come from the API itself; ``body`` is the whole
    first error, with whatever else it names (``deletion_id``).
    """

    def __init__(self, response: requests.Response) -> None:
        self.body = _first_error(response)
        self.code = str(self.body.get("code") or "") if "status" in self.body else ""
        self.detail = one_line(self.body.get("detail") or self.body.get("message") or "") or _plain_text(response)
        request_id = response.headers.get("x-openstack-request-id") or self.body.get("request_id") or ""
        facts = [f"HTTP {response.status_code}", self.code, str(request_id)]
        message = f"{self.detail.rstrip('.')} ({', '.join(one_line(f) for f in facts if f)})"
        super().__init__(message, response=response)

    @property
    def deletion_id(self) -> str:
        """The id of the deletion that stands in the way, if one does."""
        return one_line(self.body.get("deletion_id") or "")

    @property
    def temporary(self) -> bool:
        """Whether the same call may do better in a moment."""
        return self.status_code in (408, 429) or (self.status_code or 0) >= 500

    def __str__(self) -> str:
        return self.message


def _first_error(response: requests.Response) -> Mapping[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    if not isinstance(body, dict):
        return {}
    errors = body.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        return errors[0]
    # keystonemiddleware and most proxies: {"error": {"code": 401, "title": …, "message": …}}
    error = body.get("error")
    return error if isinstance(error, dict) else {}


def _plain_text(response: requests.Response) -> str:
    """What a web server or load balancer says in HTML or plain text, shortened."""
    kind = response.headers.get("content-type", "")
    text = re.sub(r"(?s)<(script|style|head)\b.*?</\1>|<[^>]*>", " ", response.text) if "text" in kind else ""
    text = one_line(text)[:200]
    host = urllib.parse.urlsplit(response.url or "").netloc
    reason = one_line(response.reason or "")
    return f"{host} answered {text or reason or 'with an error'}"


class Proxy(proxy.Proxy):
    """The calls of version 1. Whatever goes wrong is one of the exceptions above."""

    # The SDK must not ask ``/`` first: version 1 is below whatever was registered, and links may name an inner host.
    skip_discovery = True

    _root: str | None = None

    def root(self) -> str:
        """Return the URL that version 1 of the API stands at."""
        if self._root is None:
            try:
                endpoint = self.get_endpoint(skip_discovery=True)
            except ksa_exceptions.EndpointNotFound:
                endpoint = None
            except ksa_exceptions.ClientException as exc:
                raise _login_error(exc) from exc
            if not endpoint:
                where = f" in region {self.region_name}" if self.region_name else ""
                raise EndpointMissing(
                    f"the catalog has no {self.interface or 'public'} endpoint of type {SERVICE_TYPE}{where}: "
                    f"register one ('openstack service create {SERVICE_TYPE}', then 'openstack endpoint create'), "
                    f"or set {OVERRIDE_VARIABLE} to its URL"
                )
            # An endpoint may be registered with its version or without.
            endpoint = endpoint.rstrip("/")
            self._root = endpoint if re.search(r"/v1(\.\d+)?$", endpoint) else f"{endpoint}/v1"
        return self._root

    def create_deletion(
        self, project_id: str, mode: str = "report", dry_run: bool = False, include_subtree: bool = False
    ) -> dict[str, Any]:
        """Ask for the deletion of a project; the same request again returns the one under way.

        :param include_subtree: the projects below get deletions of their own, and go first
        """
        body = {"project_id": project_id, "mode": mode, "dry_run": dry_run}
        if include_subtree:  # else a server that does not know the word has nothing to refuse
            body["include_subtree"] = True
        return self._one("POST", "/deletions", json=body)

    def deletions(self, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the deletions that the filters leave, all pages of them, or the first ``limit``."""
        return self._pages("/deletions", "deletions", limit, filters)

    def get_deletion(self, deletion_id: str) -> dict[str, Any]:
        """Return one deletion with its counts and blockers."""
        return self._one("GET", f"/deletions/{_quote(deletion_id)}")

    def leftovers(self, deletion_id: str, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield what is still there."""
        return self._pages(f"/deletions/{_quote(deletion_id)}/leftovers", "leftovers", limit, filters)

    def events(self, deletion_id: str, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the journal of a deletion, oldest first."""
        return self._pages(f"/deletions/{_quote(deletion_id)}/events", "events", limit, filters)

    def retry_deletion(self, deletion_id: str) -> dict[str, Any]:
        """Start a new attempt at a deletion that ended with leftovers or failed."""
        return self._one("POST", f"/deletions/{_quote(deletion_id)}/retry")

    def cancel_deletion(self, deletion_id: str) -> dict[str, Any]:
        """Stop a deletion and undo what the drain changed."""
        return self._one("POST", f"/deletions/{_quote(deletion_id)}/cancel")

    def services(self) -> list[dict[str, Any]]:
        """Return every catalog entry and who answers for it."""
        return self._list(self._call("GET", "/services"), "services")

    def _one(self, method: str, path: str, **kwargs: Any) -> dict[str, Any]:
        body = self._call(method, path, **kwargs)
        deletion = body.get("deletion")
        if not isinstance(deletion, dict) or not deletion.get("id"):
            raise _strange(self.root())
        return deletion

    def _list(self, body: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        items = body.get(key)
        if not isinstance(items, list):
            raise _strange(self.root())
        return items

    def _pages(self, path: str, key: str, limit: int | None, filters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        query: Any = [(name, value) for name, value in _flat(filters) if value not in (None, "")]
        if limit:
            query.append(("limit", min(limit, PAGE)))
        given = 0
        seen = set()
        while True:
            body = self._call("GET", path, params=query)
            items = self._list(body, key)
            for item in items:
                yield item
                given += 1
                if limit and given >= limit:
                    return
            links = body.get("links") or []
            following = next((link.get("href") for link in links if link.get("rel") == "next"), None)
            # Only its query is used: behind a proxy the link may name an inner host, and the token must not go to
            # any other place than the endpoint.
            mark = urllib.parse.urlsplit(following or "").query
            if not mark or not items or mark in seen:
                return
            seen.add(mark)
            query = urllib.parse.parse_qsl(mark, keep_blank_values=True)

    def _call(self, method: str, path: str, **kwargs: Any) -> dict[str, Any]:
        root = self.root()
        kwargs |= {"headers": {"Accept": "application/json"}, "timeout": CALL_TIMEOUT}
        try:
            # No silent second try: older SDKs make one, and print a line of their own about it.
            response = self.request(f"{root}{path}", method, connect_retries=0, **kwargs)
        except ksa_exceptions.SSLError as exc:
            raise Unreachable(f"{root} cannot be trusted: {_cause(exc)}") from exc
        except ksa_exceptions.ConnectionError as exc:
            raise Unreachable(f"no answer from {root}: {_cause(exc)}") from exc
        except ksa_exceptions.ClientException as exc:
            # The proxy itself raises for no status: this is about getting a token.
            raise _login_error(exc) from exc
        if response.status_code >= 400:
            raise ApiError(response)
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise _strange(root)
        return body


def _login_error(exc: ksa_exceptions.ClientException) -> sdk_exceptions.SDKException:
    if isinstance(exc, ksa_exceptions.ConnectionError):
        return Unreachable(f"no answer from Keystone: {_cause(exc)}")
    if isinstance(exc, ksa_exceptions.HttpError) and (exc.http_status or 0) >= 500:
        return Unreachable(f"Keystone gives no token at the moment: {one_line(exc)}")
    return LoginLost(f"Keystone gives no token: {one_line(exc)}")


def _strange(root: str) -> Unreachable:
    return Unreachable(
        f"{root} does not answer like the project-cleanup API: check the endpoint in the catalog or {OVERRIDE_VARIABLE}"
    )


def _cause(exc: BaseException) -> str:
    """The innermost reason of requests' nested connection errors: the only part that helps."""
    text = one_line(exc)
    found = re.search(r"(\[(?:Errno|SSL)[^\]]*\][^)\"']*)", text)
    if found:
        return found.group(1).strip()
    return "it took too long" if "timed out" in text.lower() else text[:200]


def _quote(part: str) -> str:
    return urllib.parse.quote(part, safe="")


def _flat(filters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in filters.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            yield name, one


def from_connection(conn: Any) -> Proxy:
    """Return the client for an ``openstack.connection.Connection``."""
    client = conn.config.get_session_client(SERVICE_TYPE, constructor=Proxy)
    # openstacksdk reads the variable only while no cloud of clouds.yaml is chosen; whoever sets it means it always.
    override = os.environ.get(OVERRIDE_VARIABLE)
    if override:
        client.endpoint_override = override
    client._connection = conn
    return client


DESCRIPTION = service_description.ServiceDescription(SERVICE_TYPE, {"1": Proxy})
