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
from collections.abc import Iterable, Iterator, Mapping
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
        self,
        project_id: str,
        mode: str = "report",
        dry_run: bool = False,
        include_subtree: bool = False,
        plan_id: str | None = None,
        plan_hash: str | None = None,
    ) -> dict[str, Any]:
        """Ask for the deletion of a project; the same request again returns the one under way.

        :param include_subtree: the projects below get deletions of their own, and go first
        :param plan_id: of a dry run: only what that found is deleted
        :param plan_hash: that its plan must have; none: any
        """
        body = {"project_id": project_id, "mode": mode, "dry_run": dry_run}
        if include_subtree:  # else a server that does not know the word has nothing to refuse
            body["include_subtree"] = True
        body |= {name: value for name, value in (("plan_id", plan_id), ("plan_hash", plan_hash)) if value}
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

    def force_deletion(self, project_id: str, reason: str, types: Iterable[str] | None = None) -> dict[str, Any]:
        """Let the deletion of a project that is under way let go of what it cannot delete.

        :param types: of these, the declared force is used first; none: of all that have one
        """
        body = {"reason": reason} | ({} if types is None else {"types": list(types)})
        return self._one("DELETE", f"/projects/{_quote(project_id)}/force", json=body)

    def approve_deletion(self, deletion_id: str, reason: str) -> dict[str, Any]:
        """Approve a deletion that somebody else asked for, and that waits because it is beyond a limit."""
        return self._one("POST", f"/deletions/{_quote(deletion_id)}/approve", json={"reason": reason})

    def restore_deletion(self, deletion_id: str) -> dict[str, Any]:
        """Give a project back before anything of it is deleted."""
        return self._one("POST", f"/deletions/{_quote(deletion_id)}/restore")

    def get_plan(self, plan_id: str) -> dict[str, Any]:
        """Return the plan that a dry run left, by the dry run's id."""
        return self._one("GET", f"/plans/{_quote(plan_id)}", "plan")

    def plan_resources(self, plan_id: str, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the resources of a plan: those that would go, be kept, or are protected."""
        return self._pages(f"/plans/{_quote(plan_id)}/resources", "resources", limit, filters)

    def services(self, project_id: str | None = None) -> list[dict[str, Any]]:
        """Return every catalog entry and who answers for it: for every project, or for one."""
        query = {"project_id": project_id} if project_id else {}
        return self._list(self._call("GET", "/services", params=query), "services")

    def get_brake(self) -> dict[str, Any]:
        """Return whether the brake is on, who pulled or lifted it last, when and why."""
        return self._brake(self._call("GET", "/brake"))

    def set_brake(self, reason: str) -> dict[str, Any]:
        """Pull the brake: no lock and no delete is begun any more, in the whole cloud."""
        return self._brake(self._call("POST", "/brake", json={"reason": reason}))

    def unset_brake(self) -> None:
        """Lift the brake."""
        self._call("DELETE", "/brake")

    def _brake(self, body: Mapping[str, Any]) -> dict[str, Any]:
        found = body.get("brake")
        if not isinstance(found, dict) or not isinstance(found.get("on"), bool):
            raise _strange(self.root())
        return found

    def create_lien(self, project_id: str, origin: str, reason: str, expires_at: str | None = None) -> dict[str, Any]:
        """Protect a project from its deletion.

        :param origin: on whose behalf, such as ``billing``
        :param expires_at: a time in UTC, such as ``2027-01-31T00:00:00Z``; none: until it is removed
        """
        body = {"project_id": project_id, "origin": origin, "reason": reason}
        body |= {"expires_at": expires_at} if expires_at else {}
        return self._one("POST", "/liens", "lien", json=body)

    def liens(self, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the liens that the filters leave, all pages of them, or the first ``limit``."""
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
    ) -> dict[str, Any]:
        """Record that deletions go on without a service.

        :param expires_at: a time in UTC, such as ``2027-01-31T00:00:00Z``
        :param region: none: in every region
        :param project_id: none: for every project
        """
        body = {"service_type": service_type, "reason": reason, "expires_at": expires_at}
        body |= {name: value for name, value in (("region", region), ("project_id", project_id)) if value}
        return self._one("POST", "/waivers", "waiver", json=body)

    def waivers(self, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the waivers that the filters leave, all pages of them, or the first ``limit``."""
        return self._pages("/waivers", "waivers", limit, filters)

    def get_waiver(self, waiver_id: str) -> dict[str, Any]:
        """Return one waiver, in force or not."""
        return self._one("GET", f"/waivers/{_quote(waiver_id)}", "waiver")

    def delete_waiver(self, waiver_id: str) -> None:
        """Withdraw a waiver."""
        self._call("DELETE", f"/waivers/{_quote(waiver_id)}")

    def create_orphan_scan(self) -> dict[str, Any]:
        """Begin a search through every service for what dead projects left behind."""
        return self._one("POST", "/orphan-scans", "orphan_scan")

    def orphan_scans(self, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the orphan scans that the filters leave, the latest first."""
        return self._pages("/orphan-scans", "orphan_scans", limit, filters)

    def get_orphan_scan(self, scan_id: str) -> dict[str, Any]:
        """Return one orphan scan with its numbers."""
        return self._one("GET", f"/orphan-scans/{_quote(scan_id)}", "orphan_scan")

    def cancel_orphan_scan(self, scan_id: str) -> None:
        """End an orphan scan that is under way."""
        self._call("DELETE", f"/orphan-scans/{_quote(scan_id)}")

    def orphans(self, scan_id: str, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield what an orphan scan found."""
        return self._pages(f"/orphan-scans/{_quote(scan_id)}/orphans", "orphans", limit, filters)

    def orphan_projects(self, scan_id: str, *, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the dead projects that an orphan scan found something of."""
        return self._pages(f"/orphan-scans/{_quote(scan_id)}/projects", "projects", limit, filters)

    def adopt_orphans(self, scan_id: str, project_id: str, dry_run: bool = False) -> dict[str, Any]:
        """Ask for the deletion of what a dead project left behind; return the deletion."""
        body = {"project_id": project_id, "dry_run": dry_run}
        return self._one("POST", f"/orphan-scans/{_quote(scan_id)}/adopt", json=body)

    def _one(self, method: str, path: str, key: str = "deletion", **kwargs: Any) -> dict[str, Any]:
        body = self._call(method, path, **kwargs)
        found = body.get(key)
        if not isinstance(found, dict) or not found.get("id"):
            raise _strange(self.root())
        return found

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
        if response.status_code == 204:
            return {}
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
    client: Proxy = conn.config.get_session_client(SERVICE_TYPE, constructor=Proxy)
    # openstacksdk reads the variable only while no cloud of clouds.yaml is chosen; whoever sets it means it always.
    override = os.environ.get(OVERRIDE_VARIABLE)
    if override:
        client.endpoint_override = override
    client._connection = conn
    return client


DESCRIPTION = service_description.ServiceDescription(SERVICE_TYPE, {"1": Proxy})
