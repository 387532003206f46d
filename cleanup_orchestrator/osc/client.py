"""The client of the project-cleanup API: an openstacksdk proxy that returns dicts.

Example::

    conn = openstack.connect(cloud="mycloud")
    cleanup = client.from_connection(conn)
    deletion = cleanup.create_deletion(project_id, mode="report")

``conn.add_service(client.DESCRIPTION)`` works, too, and adds ``conn.project_cleanup``.
"""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import requests
from keystoneauth1 import exceptions as ksa_exceptions
from openstack import exceptions as sdk_exceptions
from openstack import proxy, service_description

SERVICE_TYPE = "project-cleanup"
OVERRIDE_VARIABLE = "OS_PROJECT_CLEANUP_ENDPOINT_OVERRIDE"

#: Timeout of a call in seconds. Every call is short: the workers do the long work.
CALL_TIMEOUT = 60

#: Items to request at a time; the server may return fewer.
PAGE = 1000


def one_line(text: Any) -> str:
    """Return a text of a server as one printable line.

    Names and messages can contain any characters, also terminal escape codes.
    """
    return "".join(c if c.isprintable() else "?" for c in " ".join(str(text).split()))


class EndpointMissing(sdk_exceptions.EndpointNotFound):
    """The endpoint of the API is not known."""


class Unreachable(sdk_exceptions.SDKException):
    """No usable answer arrived.

    Whether the call had an effect is not known. All calls can be repeated.
    """


class LoginLost(sdk_exceptions.SDKException):
    """Keystone refuses a token."""


class ApiError(sdk_exceptions.HttpException):
    """An error answer of the API, or of a proxy in front of it.

    ``code`` is the stable code of the API, or empty if the answer is not from the API. ``body`` is the whole first
    error, with its other members such as ``deletion_id``.
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
        """The id of the conflicting deletion, or an empty text."""
        return one_line(self.body.get("deletion_id") or "")

    @property
    def temporary(self) -> bool:
        """Whether the same call can succeed later."""
        return self.status_code in (408, 429) or (self.status_code or 0) >= 500

    def __str__(self) -> str:
        return str(self.message)


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
    """Return the shortened text of an answer in HTML or plain text."""
    kind = response.headers.get("content-type", "")
    text = re.sub(r"(?s)<(script|style|head)\b.*?</\1>|<[^>]*>", " ", response.text) if "text" in kind else ""
    text = one_line(text)[:200]
    host = urllib.parse.urlsplit(response.url or "").netloc
    reason = one_line(response.reason or "")
    return f"{host} answered {text or reason or 'with an error'}"


class Proxy(proxy.Proxy):
    """The calls of version 1. They raise only the exceptions above."""

    # No discovery at ``/``: version 1 is below the registered endpoint, and its links can name an internal host.
    skip_discovery = True

    _root: str | None = None

    def root(self) -> str:
        """Return the URL of version 1 of the API."""
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
            # An endpoint can be registered with or without its version.
            endpoint = endpoint.rstrip("/")
            self._root = endpoint if re.search(r"/v1(\.\d+)?$", endpoint) else f"{endpoint}/v1"
        return self._root

    def create_deletion(
        self,
        project_id: str,
        mode: str = "report",
        dry_run: bool = False,
        include_subtree: bool = False,
        plan_id: str | None = None,
        plan_hash: str | None = None,
    ) -> dict[str, Any]:
        """Request the deletion of a project.

        If the same deletion is under way, return that one.

        :param include_subtree: also delete the projects below, each by a deletion of its own, before this one
        :param plan_id: id of a dry run: delete only what it found
        :param plan_hash: the expected hash of the plan; ``None``: any
        """
        body = {"project_id": project_id, "mode": mode, "dry_run": dry_run}
        if include_subtree:  # an older server refuses the unknown field
            body["include_subtree"] = True
        body |= {name: value for name, value in (("plan_id", plan_id), ("plan_hash", plan_hash)) if value}
        return self._one("POST", "/deletions", json=body)

    def deletions(self, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the deletions that match the filters, or the first ``limit`` of them."""
        return self._pages("/deletions", "deletions", limit, filters)

    def get_deletion(self, deletion_id: str) -> dict[str, Any]:
        """Return one deletion with its counts and blockers."""
        return self._one("GET", f"/deletions/{_quote(deletion_id)}")

    def leftovers(self, deletion_id: str, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the resources that still exist."""
        return self._pages(f"/deletions/{_quote(deletion_id)}/leftovers", "leftovers", limit, filters)

    def events(self, deletion_id: str, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the journal of a deletion, oldest first."""
        return self._pages(f"/deletions/{_quote(deletion_id)}/events", "events", limit, filters)

    def all_leftovers(self, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield what the latest deletion of each project left."""
        return self._pages("/leftovers", "leftovers", limit, filters)

    def resource_events(
        self, resource_id: str, *, limit: int | None = None, **filters: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield the journal entries of all deletions that name a resource, oldest first."""
        return self._pages("/events", "events", limit, {"resource_id": resource_id, **filters})

    def retry_deletion(self, deletion_id: str) -> dict[str, Any]:
        """Start a new attempt of a deletion that ended with leftovers or failed."""
        return self._one("POST", f"/deletions/{_quote(deletion_id)}/retry")

    def cancel_deletion(self, deletion_id: str) -> dict[str, Any]:
        """Stop a deletion and undo its drain."""
        return self._one("POST", f"/deletions/{_quote(deletion_id)}/cancel")

    def force_deletion(self, project_id: str, reason: str, types: Iterable[str] | None = None) -> dict[str, Any]:
        """Let the deletion of a project abandon what it cannot delete.

        :param types: the types to delete by force first; ``None``: all types that can be forced
        """
        body = {"reason": reason} | ({} if types is None else {"types": list(types)})
        return self._one("DELETE", f"/projects/{_quote(project_id)}/force", json=body)

    def approve_deletion(self, deletion_id: str, reason: str) -> dict[str, Any]:
        """Approve a deletion of another user that exceeds a limit."""
        return self._one("POST", f"/deletions/{_quote(deletion_id)}/approve", json={"reason": reason})

    def restore_deletion(self, deletion_id: str) -> dict[str, Any]:
        """Restore a project before anything of it is deleted."""
        return self._one("POST", f"/deletions/{_quote(deletion_id)}/restore")

    def get_plan(self, plan_id: str) -> dict[str, Any]:
        """Return the plan of a dry run, by the id of the dry run."""
        return self._one("GET", f"/plans/{_quote(plan_id)}", "plan")

    def plan_resources(self, plan_id: str, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the resources of a plan: to delete, to keep, or protected."""
        return self._pages(f"/plans/{_quote(plan_id)}/resources", "resources", limit, filters)

    def services(self, project_id: str | None = None) -> list[dict[str, Any]]:
        """Return the catalog entries and their plugins, for all projects or for one."""
        query = {"project_id": project_id} if project_id else {}
        return self._list(self._call("GET", "/services", params=query), "services")

    def get_brake(self) -> dict[str, Any]:
        """Return the brake: whether it is on, and its last change."""
        return self._brake(self._call("GET", "/brake"))

    def set_brake(self, reason: str) -> dict[str, Any]:
        """Pull the brake: no worker begins another lock or delete."""
        return self._brake(self._call("POST", "/brake", json={"reason": reason}))

    def unset_brake(self) -> None:
        """Lift the brake."""
        self._call("DELETE", "/brake")

    def _brake(self, body: Mapping[str, Any]) -> dict[str, Any]:
        found = body.get("brake")
        if not isinstance(found, dict) or not isinstance(found.get("on"), bool):
            raise _unexpected(self.root())
        return found

    def create_lien(self, project_id: str, origin: str, reason: str, expires_at: str | None = None) -> dict[str, Any]:
        """Protect a project from deletion.

        :param origin: the requester of the protection, such as ``billing``
        :param expires_at: a time in UTC, such as ``2027-01-31T00:00:00Z``; ``None``: until the lien is removed
        """
        body = {"project_id": project_id, "origin": origin, "reason": reason}
        body |= {"expires_at": expires_at} if expires_at else {}
        return self._one("POST", "/liens", "lien", json=body)

    def liens(self, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the liens that match the filters, or the first ``limit`` of them."""
        return self._pages("/liens", "liens", limit, filters)

    def get_lien(self, lien_id: str) -> dict[str, Any]:
        """Return one lien, in force or not."""
        return self._one("GET", f"/liens/{_quote(lien_id)}", "lien")

    def delete_lien(self, lien_id: str) -> None:
        """Remove a lien."""
        self._call("DELETE", f"/liens/{_quote(lien_id)}")

    def create_waiver(
        self,
        service_type: str,
        reason: str,
        expires_at: str,
        region: str | None = None,
        project_id: str | None = None,
        allow_unknown: bool = False,
    ) -> dict[str, Any]:
        """Let deletions skip a service.

        :param expires_at: a time in UTC, such as ``2027-01-31T00:00:00Z``
        :param region: ``None``: all regions
        :param project_id: ``None``: all projects
        :param allow_unknown: whether the catalog need not have the service in the region
        """
        body: dict[str, Any] = {"service_type": service_type, "reason": reason, "expires_at": expires_at}
        body |= {"allow_unknown": True} if allow_unknown else {}
        body |= {name: value for name, value in (("region", region), ("project_id", project_id)) if value}
        return self._one("POST", "/waivers", "waiver", json=body)

    def waivers(self, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the waivers that match the filters, or the first ``limit`` of them."""
        return self._pages("/waivers", "waivers", limit, filters)

    def get_waiver(self, waiver_id: str) -> dict[str, Any]:
        """Return one waiver, in force or not."""
        return self._one("GET", f"/waivers/{_quote(waiver_id)}", "waiver")

    def delete_waiver(self, waiver_id: str) -> None:
        """Withdraw a waiver."""
        self._call("DELETE", f"/waivers/{_quote(waiver_id)}")

    def create_orphan_scan(self) -> dict[str, Any]:
        """Start a scan of all services for resources of dead projects."""
        return self._one("POST", "/orphan-scans", "orphan_scan")

    def orphan_scans(self, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the orphan scans that match the filters, latest first."""
        return self._pages("/orphan-scans", "orphan_scans", limit, filters)

    def get_orphan_scan(self, scan_id: str) -> dict[str, Any]:
        """Return one orphan scan with its counts."""
        return self._one("GET", f"/orphan-scans/{_quote(scan_id)}", "orphan_scan")

    def cancel_orphan_scan(self, scan_id: str) -> None:
        """Cancel an orphan scan that is under way."""
        self._call("DELETE", f"/orphan-scans/{_quote(scan_id)}")

    def orphans(self, scan_id: str, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the orphans that a scan found."""
        return self._pages(f"/orphan-scans/{_quote(scan_id)}/orphans", "orphans", limit, filters)

    def orphan_projects(self, scan_id: str, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the dead projects of which a scan found orphans."""
        return self._pages(f"/orphan-scans/{_quote(scan_id)}/projects", "projects", limit, filters)

    def adopt_orphans(self, scan_id: str, project_id: str, dry_run: bool = False) -> dict[str, Any]:
        """Request the deletion of a dead project's orphans; return the deletion."""
        body = {"project_id": project_id, "dry_run": dry_run}
        return self._one("POST", f"/orphan-scans/{_quote(scan_id)}/adopt", json=body)

    def _one(self, method: str, path: str, key: str = "deletion", **kwargs: Any) -> dict[str, Any]:
        body = self._call(method, path, **kwargs)
        found = body.get(key)
        if not isinstance(found, dict) or not found.get("id"):
            raise _unexpected(self.root())
        return found

    def _list(self, body: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        items = body.get(key)
        if not isinstance(items, list):
            raise _unexpected(self.root())
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
            # Only the query of the link is used: behind a proxy the link can name an internal host, and the token
            # must be sent only to the endpoint.
            mark = urllib.parse.urlsplit(following or "").query
            if not mark or not items or mark in seen:
                return
            seen.add(mark)
            query = urllib.parse.parse_qsl(mark, keep_blank_values=True)

    def _call(self, method: str, path: str, **kwargs: Any) -> dict[str, Any]:
        root = self.root()
        kwargs |= {"headers": {"Accept": "application/json"}, "timeout": CALL_TIMEOUT}
        try:
            # No retry by the SDK: older releases retry, and print a line about it.
            response = self.request(f"{root}{path}", method, connect_retries=0, **kwargs)
        except ksa_exceptions.SSLError as exc:
            raise Unreachable(f"the TLS connection to {root} failed: {_cause(exc)}") from exc
        except ksa_exceptions.ConnectionError as exc:
            raise Unreachable(f"no answer from {root}: {_cause(exc)}") from exc
        except ksa_exceptions.ClientException as exc:
            # The proxy raises for no status of the API: getting a token failed.
            raise _login_error(exc) from exc
        if response.status_code >= 400:
            raise ApiError(response)
        if response.status_code == 204:
            return {}
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise _unexpected(root)
        return body


def _login_error(exc: ksa_exceptions.ClientException) -> sdk_exceptions.SDKException:
    if isinstance(exc, ksa_exceptions.ConnectionError):
        return Unreachable(f"no answer from Keystone: {_cause(exc)}")
    if isinstance(exc, ksa_exceptions.HttpError) and (exc.http_status or 0) >= 500:
        return Unreachable(f"Keystone gives no token at the moment: {one_line(exc)}")
    return LoginLost(f"Keystone gives no token: {one_line(exc)}")


def _unexpected(root: str) -> Unreachable:
    return Unreachable(
        f"{root} does not answer like the project-cleanup API: check the endpoint in the catalog or {OVERRIDE_VARIABLE}"
    )


def _cause(exc: BaseException) -> str:
    """Return the innermost reason of a nested connection error of requests."""
    text = one_line(exc)
    found = re.search(r"(\[(?:Errno|SSL)[^\]]*\][^)\"']*)", text)
    if found:
        return found.group(1).strip()
    return "the connection timed out" if "timed out" in text.lower() else text[:200]


def _quote(part: str) -> str:
    return urllib.parse.quote(part, safe="")


def _flat(filters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in filters.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            yield name, one


def from_connection(conn: Any) -> Proxy:
    """Return the client for an ``openstack.connection.Connection``."""
    client: Proxy = conn.config.get_session_client(SERVICE_TYPE, constructor=Proxy)
    # openstacksdk reads the variable only without a cloud of clouds.yaml. Here it always takes effect.
    override = os.environ.get(OVERRIDE_VARIABLE)
    if override:
        client.endpoint_override = override
    client._connection = conn
    return client


DESCRIPTION = service_description.ServiceDescription(SERVICE_TYPE, {"1": Proxy})
