"""Swift: accounts, containers and objects. Objects are only names here."""

from __future__ import annotations

import bisect
import email.utils
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from tests.emulated.http import Request, Response
from tests.emulated.service import Call, Refusal, Service
from tests.emulated.state import Touch

STAMP = "1767225600.00000"  #: when everything was made
WRITTEN = "2026-01-01T00:00:00.000000"
POLICY = {"storage_policy": "Policy-0"}
LISTING_LIMIT = BULK_LIMIT = 10000
DELETED = Refusal(410, "Recently deleted")
ALLOWED = frozenset({"admin", "member", "swiftoperator", "ResellerAdmin"})


@dataclass(slots=True)
class Container:
    """A container; `versions` only where they are enabled: (name, version id), a delete marker where it ends so."""

    names: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)  #: X-Versions-Enabled and the like
    versions: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Account:
    """A project's store."""

    containers: dict[str, Container] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    deleted: bool = False


class ObjectStore(Service):
    """Swift."""

    type = "object-store"
    version = "v1"

    def __init__(self, cloud: Any, region: str) -> None:
        super().__init__(cloud, region)
        self.accounts: dict[str, Account] = {}  #: by project

    @property
    def endpoint(self) -> str:
        """The URL in the catalog."""
        return f"{self.url}/v1/AUTH_%(project_id)s"

    def versions(self, request: Request) -> Response:
        if request.parts[-1] != "info":
            raise Refusal(404, "The resource could not be found.")
        bulk = {"max_deletes_per_request": BULK_LIMIT, "max_failed_deletes": 1000}
        limits = {"container_listing_limit": LISTING_LIMIT, "account_listing_limit": LISTING_LIMIT}
        return Response(200, {"swift": {"version": "2.38.3", **limits}, "bulk_delete": bulk, "object_versioning": {}})

    def error(self, refusal: Refusal) -> Response:
        text = f"<html><h1>{refusal.status}</h1><p>{refusal.message}</p></html>"
        return Response(refusal.status, text.encode(), type="text/html; charset=UTF-8")

    def left(self, project: str) -> dict[str, int]:
        """Return what a project has here."""
        account = self.accounts.get(project)
        if account is None or account.deleted:
            return {}
        found = {
            "object-store.container": len(account.containers),
            "object-store.object": sum(len(c.names) or len(c.versions) for c in account.containers.values()),
            "object-store.account_metadata": len(account.metadata),
        }
        return {name: count for name, count in found.items() if count}

    def answer(self, call: Call) -> Response:
        # Names contain slashes, so the undecoded path is used.
        path = call.request.path.split("/v1/", 1)[1]
        names = [unquote_to_bytes(part).decode(errors="replace") for part in path.split("/", 2)]
        account_name, container, name = (*names, "", "")[:3]
        project = account_name.removeprefix("AUTH_")
        own = project == call.token.project and call.token.roles & ALLOWED
        if not own and "ResellerAdmin" not in call.token.roles:
            raise Refusal(403, "Access was denied to this resource.")
        scope = self.cloud.identity.projects.get(call.token.project)
        reads = call.request.method in ("GET", "HEAD") or name
        if scope is not None and reads and any(ord(each) > 255 for each in scope.name):
            # The proxy passes a header with the name on to the storage servers. As with the real one, a POST and the
            # PUT of a container succeed.
            raise Refusal(503, "The server is currently unavailable. Please try again at a later time.")
        response = self._answer(call, project, container, name)
        response.headers["Date"] = email.utils.formatdate(usegmt=True)
        return response

    def _answer(self, call: Call, project: str, container: str, name: str) -> Response:
        method = call.request.method
        account = self.accounts.get(project)
        if account is None:
            account = Account()
            if container or method not in ("GET", "HEAD"):
                self.accounts[project] = account
        if account.deleted:
            raise DELETED
        if not container:
            return self._account(call, project, account, method)
        if container not in account.containers:
            raise Refusal(404, "The resource could not be found.")
        if name:
            return self._object(call, project, account, container, name, method)
        return self._container(call, project, account, container, method)

    def _account(self, call: Call, project: str, account: Account, method: str) -> Response:
        request = call.request
        headers = {f"X-Account-Meta-{key}": value for key, value in account.metadata.items()}
        headers |= {"X-Account-Container-Count": str(len(account.containers)), "X-Timestamp": STAMP}
        if project not in self.accounts:  # made up, as of now
            headers["X-Timestamp"] = f"{self.cloud.now():.5f}"
        if method == "HEAD":
            return Response(204, headers=headers)
        if method == "GET":
            rows = [
                {"name": n, "count": len(c.names), "bytes": len(c.names), "last_modified": WRITTEN, **POLICY}
                for n, c in sorted(account.containers.items())
            ]
            return Response(200, self._page(request, rows), headers)
        if method == "POST" and request.first("bulk-delete"):
            return self._bulk(call, project, account)
        if method == "POST":
            for header, value in request.headers.items():
                if header.startswith("x-account-meta-"):
                    account.metadata[header.removeprefix("x-account-meta-").title()] = value
                elif header.startswith("x-remove-account-meta-"):
                    account.metadata.pop(header.removeprefix("x-remove-account-meta-").title(), None)
            call.touched.append(Touch("changed", "object-store.account", project, project))
            return Response(204)
        if method == "DELETE":
            if "ResellerAdmin" not in call.token.roles:
                raise Refusal(403, "Access was denied to this resource.")
            self.accounts[project] = Account(deleted=True)
            call.touched.append(Touch("deleted", "object-store.account", project, project))
            return Response(204)
        raise Refusal(405, "The method is not allowed for this resource.")

    def _container(self, call: Call, project: str, account: Account, name: str, method: str) -> Response:
        container, request = account.containers[name], call.request
        numbers = dict.fromkeys(("X-Container-Object-Count", "X-Container-Bytes-Used"), str(len(container.names)))
        headers = {**numbers, "X-Timestamp": STAMP, **container.headers}
        if method == "HEAD":
            return Response(204, headers=headers)
        if method == "GET":
            return Response(200, self._listing(request, container), headers)
        if method == "POST":
            for header, value in request.headers.items():
                if header == "x-versions-enabled":
                    container.headers["X-Versions-Enabled"] = value.title()
                elif header.startswith("x-remove-"):
                    wanted = header.replace("x-remove-", "x-", 1)
                    container.headers = {k: v for k, v in container.headers.items() if k.lower() != wanted}
            call.touched.append(Touch("changed", "object-store.container", name, project))
            return Response(204)
        if method == "DELETE":
            if container.names or container.versions:
                raise Refusal(409, "There was a conflict when trying to complete your request.")
            del account.containers[name]
            call.touched.append(Touch("deleted", "object-store.container", name, project))
            return Response(204)
        raise Refusal(405, "The method is not allowed for this resource.")

    def _page(self, request: Request, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        marker, limit = request.first("marker"), int(request.first("limit") or LISTING_LIMIT)
        return [row for row in rows if row["name"] > marker][:limit]

    def _listing(self, request: Request, container: Container) -> list[dict[str, Any]]:
        marker, limit = request.first("marker"), min(int(request.first("limit") or LISTING_LIMIT), LISTING_LIMIT)
        common = {"bytes": 1, "hash": "9dd4e461268c8034f5c8564e155c67a6", "content_type": "application/octet-stream"}
        common["last_modified"] = WRITTEN
        if not request.first("versions"):
            start = bisect.bisect_right(container.names, marker) if marker else 0
            return [{"name": name, **common} for name in container.names[start : start + limit]]
        rows: list[dict[str, Any]] = []
        newest = ""
        for name, version in sorted(container.versions, key=lambda v: (v[0], -float(v[1]))):
            latest, newest = name != newest, name
            behind = (name, -float(version)) > (marker, -float(request.first("version_marker") or "inf"))
            if not marker or behind:
                rows.append({"name": name, **common, "is_latest": latest, "version_id": version})
        return rows[:limit]

    def _object(
        self, call: Call, project: str, account: Account, container_name: str, name: str, method: str
    ) -> Response:
        if method != "DELETE":
            raise Refusal(405, "The method is not allowed for this resource.")
        if not self._delete_object(account, container_name, name, call.request.first("version-id")):
            raise Refusal(404, "The resource could not be found.")
        call.touched.append(Touch("deleted", "object-store.object", f"{container_name}/{name}", project))
        return Response(204)

    def _delete_object(self, account: Account, container_name: str, name: str, version: str = "") -> bool:
        container = account.containers[container_name]
        if version:
            if (name, version) not in container.versions:
                return False
            container.versions.remove((name, version))
            if any(other == name for other, _ in container.versions):
                return True
        at = bisect.bisect_left(container.names, name)
        if at == len(container.names) or container.names[at] != name:
            return bool(version)
        archive = account.containers.get(container.headers.get("X-Versions-Location", ""))
        old = [n for n in archive.names if f"{len(name):03x}{name}/" in n] if archive else []
        if archive and old:  # the legacy kind brings the last version back
            archive.names.remove(old[-1])
            return True
        if container.headers.get("X-Versions-Enabled") == "True" and not version:
            container.versions.append((name, f"{self.cloud.now():.5f}"))  # a delete marker
        del container.names[at]
        return True

    def _bulk(self, call: Call, project: str, account: Account) -> Response:
        deleted = missing = 0
        errors = []
        for line in call.request.body.split(b"\n"):
            if not line:
                continue
            container, _, name = unquote_to_bytes(line).decode(errors="replace").lstrip("/").partition("/")
            if container in account.containers and name and self._delete_object(account, container, name):
                deleted += 1
                call.touched.append(Touch("deleted", "object-store.object", f"{container}/{name}", project))
            elif container in account.containers and not name:
                if account.containers[container].names:
                    errors.append([quote(container), "409 Conflict"])
                    continue
                del account.containers[container]
                deleted += 1
                call.touched.append(Touch("deleted", "object-store.container", container, project))
            else:
                missing += 1
        status = "400 Bad Request" if errors else "200 OK"
        body = {"Response Status": status, "Response Body": "", "Number Deleted": deleted}
        return Response(200, {**body, "Number Not Found": missing, "Errors": errors})
