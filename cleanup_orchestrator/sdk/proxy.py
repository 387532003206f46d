"""The calls of version 1 of the project-cleanup API, as a proxy of openstacksdk."""

from __future__ import annotations

import os
import re
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from keystoneauth1 import exceptions as ksa_exceptions
from openstack import exceptions as sdk_exceptions
from openstack import proxy, resource, service_description, utils

from cleanup_orchestrator.sdk import errors, success
from cleanup_orchestrator.sdk.base import CleanupResource
from cleanup_orchestrator.sdk.deletions import Deletion
from cleanup_orchestrator.sdk.evidence import SignedReport
from cleanup_orchestrator.sdk.holds import Brake, Lien, Service, Waiver
from cleanup_orchestrator.sdk.orphans import Orphan, OrphanProject, OrphanScan
from cleanup_orchestrator.sdk.paths import flat, id_of, next_query, path_of
from cleanup_orchestrator.sdk.reports import Event, Leftover, Plan, PlannedResource, ProjectEvent, ProjectLeftover
from cleanup_orchestrator.sdk.text import DELETION_ID, KEYSTONE_ID, one_line

R = TypeVar("R", bound=CleanupResource)

SERVICE_TYPE = "project-cleanup"
OVERRIDE_VARIABLE = "OS_PROJECT_CLEANUP_ENDPOINT_OVERRIDE"

#: Timeout of a call in seconds. Every call is short: the workers do the long work.
CALL_TIMEOUT = 60

#: Items to request at a time; the server may return fewer.
PAGE = 1000

#: Seconds without an answer of the API after which a wait ends. The deletion continues.
GIVE_UP = 300.0


class Proxy(proxy.Proxy):
    """The calls of version 1.

    A call takes a record, or its id. A call that lists is a generator: it requests pages as they are needed, and
    ``limit`` is the number of records at most. ``filters`` are the parameters of the API with the same names; a list
    repeats the parameter, and ``None`` or an empty text is no filter.

    All calls raise exceptions of openstacksdk: see :mod:`cleanup_orchestrator.sdk.errors`.
    """

    # No discovery at ``/``: version 1 is below the registered endpoint, and its links can name an internal host.
    skip_discovery = True

    #: Timeout of each call of this proxy, in seconds.
    call_timeout: float = CALL_TIMEOUT

    _root: str | None = None
    answered_at: str = ""  #: when the API last answered, by its clock, as in HTTP

    def root(self) -> str:
        """Return the URL of version 1 of the API."""
        if self._root is None:
            try:
                endpoint = self.get_endpoint(skip_discovery=True)
            except ksa_exceptions.EndpointNotFound:
                endpoint = None
            except ksa_exceptions.ClientException as exc:
                raise errors.of_login(exc) from exc
            if not endpoint:
                where = f" in region {self.region_name}" if self.region_name else ""
                raise errors.EndpointMissing(
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
        project_id: str | resource.Resource,
        mode: str = "report",
        dry_run: bool = False,
        include_subtree: bool = False,
        plan_id: str | Deletion | Plan | None = None,
        plan_hash: str | None = None,
        selection: Mapping[str, Any] | None = None,
        **record: str,
    ) -> Deletion:
        """Request the deletion of a project.

        If the same deletion is under way, return that one.

        :param project_id: id of the project, or the project
        :param mode: ``report``: list what the project owns, or delete the project if it owns nothing; ``cascade``:
            delete the project and everything in it; ``purge``: delete what is selected, and keep the project
        :param dry_run: only list what the same request would find; nothing is deleted or locked
        :param include_subtree: also delete the projects below, each by a deletion of its own, before this one
        :param plan_id: id of a dry run: delete only what it found
        :param plan_hash: the expected hash of the plan; ``None``: any
        :param selection: in mode ``purge``: what to delete, such as ``{"services": ["compute"], "tags": ["old"]}``. The
            fields are those of :class:`~cleanup_orchestrator.sdk.deletions.Selection`. ``None``: everything, or what
            the plan has
        :param record: what the request says about itself: ``request_reason``, ``ticket``, and ``not_before``: a time in
            UTC, such as ``2027-01-31T00:00:00Z``, before which nothing of the deletion begins
        """
        body: dict[str, Any] = {"project_id": id_of(project_id), "mode": mode, "dry_run": dry_run}
        if include_subtree:
            body["include_subtree"] = True
        if selection:
            body["selection"] = dict(selection)
        body |= {name: value for name, value in (("plan_id", id_of(plan_id)), ("plan_hash", plan_hash)) if value}
        body |= record
        return self._one(Deletion, "POST", "/deletions", json=body)

    def deletions(self, *, limit: int | None = None, **filters: Any) -> Iterator[Deletion]:
        """Yield the deletions that match the filters, or the first ``limit`` of them."""
        return self._pages(Deletion, "/deletions", limit, filters)

    def get_deletion(self, deletion_id: str | Deletion) -> Deletion:
        """Return one deletion with its counts and blockers."""
        return self._one(Deletion, "GET", f"/deletions/{path_of(deletion_id)}")

    def find_deletion(self, deletion_or_project_id: Any, ignore_missing: bool = False) -> Deletion | None:
        """Return a deletion by its id or by the id of its project.

        Of a project it is the deletion under way, or else the latest one. A name is not accepted: another project can
        have had it. Find the project first, with ``conn.identity.find_project``.

        :param deletion_or_project_id: id of the deletion or of the project, or the project
        :param ignore_missing: return ``None`` if there is no such deletion
        :raises openstack.exceptions.NotFoundException: if there is no such deletion
        """
        wanted = id_of(deletion_or_project_id)
        if DELETION_ID.fullmatch(wanted or ""):
            try:
                return self.get_deletion(wanted)
            except sdk_exceptions.NotFoundException:
                pass
        if KEYSTONE_ID.fullmatch(wanted or ""):  # an empty filter would find deletions of other projects
            for query in ({"status": "live"}, {}):
                for found in self.deletions(project_id=wanted, limit=1, **query):
                    return self.get_deletion(found)
        if ignore_missing:
            return None
        raise sdk_exceptions.NotFoundException(
            f"no deletion, and no project with a deletion, has the id '{one_line(wanted)}'"
        )

    def wait_for_deletion(
        self,
        deletion_id: str | Deletion,
        status: str | Iterable[str] | None = None,
        interval: float = 2,
        wait: float | None = None,
        callback: Callable[[Deletion], Any] | None = None,
    ) -> Deletion:
        """Wait for the end of a deletion, and return it.

        If the API does not answer for some time, the wait goes on: the deletion does as well.

        :param status: the status, or one of the statuses, to wait for; ``None``: that of a success, which is
            ``deleted``, ``purged`` in mode ``purge``, or ``planned`` for a dry run
        :param interval: seconds between two requests
        :param wait: seconds to wait at most; ``None``: no limit. The deletion continues after them.
        :param callback: called with the deletion after each request. If it raises an exception, the wait ends.
        :raises openstack.exceptions.ResourceTimeout: if the deletion has no such status in time
        :raises openstack.exceptions.ResourceFailure: if the deletion ends in another status, such as ``leftovers``
        """
        id_ = id_of(deletion_id)
        wanted = {status} if isinstance(status, str) else set(status or ())
        silent_since: float | None = None
        late = f"Timeout waiting for the end of deletion {one_line(id_)}, which continues"
        for _ in utils.iterate_timeout(wait, late, interval):
            try:
                found = self.get_deletion(id_)
            except sdk_exceptions.SDKException as exc:
                silent_since = time.monotonic() if silent_since is None else silent_since
                if not errors.temporary(exc) or time.monotonic() - silent_since > GIVE_UP:
                    raise
                continue
            silent_since = None
            if callback:
                callback(found)
            if found.status in (wanted or {success.status(found)}):
                return found
            if found.finished_at:
                raise sdk_exceptions.ResourceFailure(
                    f"Deletion {one_line(id_)} of project {one_line(found.project_name or found.project_id)} ended in "
                    f"status {one_line(found.status)}: {one_line(found.message or found.reason or '')}"
                )
        raise sdk_exceptions.ResourceTimeout(late)

    def leftovers(self, deletion_id: str | Deletion, *, limit: int | None = None, **filters: Any) -> Iterator[Leftover]:
        """Yield the resources that still exist."""
        return self._pages(Leftover, f"/deletions/{path_of(deletion_id)}/leftovers", limit, filters)

    def events(self, deletion_id: str | Deletion, *, limit: int | None = None, **filters: Any) -> Iterator[Event]:
        """Yield the journal of a deletion, oldest first."""
        return self._pages(Event, f"/deletions/{path_of(deletion_id)}/events", limit, filters)

    def all_leftovers(self, *, limit: int | None = None, **filters: Any) -> Iterator[ProjectLeftover]:
        """Yield what the latest deletion of each project left."""
        return self._pages(ProjectLeftover, "/leftovers", limit, filters)

    def resource_events(self, resource_id: str, *, limit: int | None = None, **filters: Any) -> Iterator[ProjectEvent]:
        """Yield the journal entries of all deletions that name a resource, oldest first."""
        return self._pages(ProjectEvent, "/events", limit, {"resource_id": resource_id, **filters})

    def set_deletion(self, deletion_id: str | Deletion, **changes: str | None) -> Deletion:
        """Change the request of a deletion under way, and of those below it.

        :param changes: new values of ``request_reason``, ``ticket`` and ``not_before``: a time in UTC, such as
            ``2027-01-31T00:00:00Z``; ``None``: now
        """
        return self._one(Deletion, "PATCH", f"/deletions/{path_of(deletion_id)}", json=changes)

    def retry_deletion(self, deletion_id: str | Deletion) -> Deletion:
        """Start a new attempt of a deletion that ended with leftovers or failed.

        Of a deletion under way, try again at once what waits for its next try.
        """
        return self._one(Deletion, "POST", f"/deletions/{path_of(deletion_id)}/retry")

    def cancel_deletion(self, deletion_id: str | Deletion) -> Deletion:
        """Stop a deletion and undo its lock."""
        return self._one(Deletion, "POST", f"/deletions/{path_of(deletion_id)}/cancel")

    def deletion_report(self, deletion_id: str | Deletion) -> SignedReport:
        """Return the report of a deletion, with its whole journal and its signature.

        ``dict(report.items())`` is what the API sent. Check it with ``cleanup-orchestrator-manage report verify``.
        """
        body = self._call("GET", f"/deletions/{path_of(deletion_id)}/report")
        if not isinstance(body.get("report"), dict) or not isinstance(body.get("journal"), list):
            raise _unexpected(self.root())
        return SignedReport.received(body)

    def force_deletion(
        self,
        project_id: str | resource.Resource,
        reason: str,
        types: Iterable[str] | None = None,
        although_used: Iterable[str] = (),
    ) -> Deletion:
        """Let the deletion of a project abandon what it cannot delete.

        :param types: the types to delete by force first; ``None``: all types that can be forced
        :param although_used: resources, each as ``service.type:id``, to delete although other projects use them.
            Nothing is abandoned then
        """
        body: dict[str, object] = {"reason": reason} | ({} if types is None else {"types": list(types)})
        if used := list(although_used):
            body["although_used"] = used
        return self._one(Deletion, "DELETE", f"/projects/{path_of(project_id)}/force", json=body)

    def approve_deletion(self, deletion_id: str | Deletion, reason: str) -> Deletion:
        """Approve a deletion of another user that exceeds a limit."""
        return self._one(Deletion, "POST", f"/deletions/{path_of(deletion_id)}/approve", json={"reason": reason})

    def restore_deletion(self, deletion_id: str | Deletion) -> Deletion:
        """Restore a project before anything of it is deleted."""
        return self._one(Deletion, "POST", f"/deletions/{path_of(deletion_id)}/restore")

    def get_plan(self, plan_id: str | Deletion | Plan) -> Plan:
        """Return the plan of a dry run, by the id of the dry run."""
        return self._one(Plan, "GET", f"/plans/{path_of(plan_id)}")

    def plan_resources(
        self, plan_id: str | Deletion | Plan, *, limit: int | None = None, **filters: Any
    ) -> Iterator[PlannedResource]:
        """Yield the resources of a plan: to delete, to keep, or protected."""
        return self._pages(PlannedResource, f"/plans/{path_of(plan_id)}/resources", limit, filters)

    def services(self, project_id: str | resource.Resource | None = None) -> Iterator[Service]:
        """Yield the catalog entries and their plugins, for all projects or for one."""
        query = {"project_id": id_of(project_id)} if project_id else {}
        yield from self._list(Service, self._call("GET", "/services", params=query))

    def get_brake(self) -> Brake:
        """Return the brake: whether it is set, and its last change."""
        return self._brake(self._call("GET", "/brake"))

    def set_brake(self, reason: str) -> Brake:
        """Set the brake: no worker begins another lock or delete."""
        return self._brake(self._call("POST", "/brake", json={"reason": reason}))

    def lift_brake(self) -> None:
        """Lift the brake."""
        self._call("DELETE", "/brake")

    def _brake(self, body: Mapping[str, Any]) -> Brake:
        found = body.get("brake")
        if not isinstance(found, dict) or not isinstance(found.get("on"), bool):
            raise _unexpected(self.root())
        return Brake.received(found)

    def create_lien(
        self, project_id: str | resource.Resource, origin: str, reason: str, expires_at: str | None = None
    ) -> Lien:
        """Protect a project from deletion.

        :param origin: the requester of the protection, such as ``billing``
        :param expires_at: a time in UTC, such as ``2027-01-31T00:00:00Z``; ``None``: until the lien is removed
        """
        body = {"project_id": id_of(project_id), "origin": origin, "reason": reason}
        body |= {"expires_at": expires_at} if expires_at else {}
        return self._one(Lien, "POST", "/liens", json=body)

    def liens(self, *, limit: int | None = None, **filters: Any) -> Iterator[Lien]:
        """Yield the liens that match the filters, or the first ``limit`` of them."""
        return self._pages(Lien, "/liens", limit, filters)

    def get_lien(self, lien_id: str | Lien) -> Lien:
        """Return one lien, in force or not."""
        return self._one(Lien, "GET", f"/liens/{path_of(lien_id)}")

    def delete_lien(self, lien_id: str | Lien) -> None:
        """Remove a lien."""
        self._call("DELETE", f"/liens/{path_of(lien_id)}")

    def create_waiver(
        self,
        service_type: str,
        reason: str,
        expires_at: str,
        region: str | None = None,
        project_id: str | resource.Resource | None = None,
        allow_unknown: bool = False,
    ) -> Waiver:
        """Let deletions skip a service.

        :param expires_at: a time in UTC, such as ``2027-01-31T00:00:00Z``
        :param region: ``None``: all regions
        :param project_id: ``None``: all projects
        :param allow_unknown: whether the catalog need not have the service in the region
        """
        body: dict[str, Any] = {"service_type": service_type, "reason": reason, "expires_at": expires_at}
        body |= {"allow_unknown": True} if allow_unknown else {}
        body |= {name: value for name, value in (("region", region), ("project_id", id_of(project_id))) if value}
        return self._one(Waiver, "POST", "/waivers", json=body)

    def waivers(self, *, limit: int | None = None, **filters: Any) -> Iterator[Waiver]:
        """Yield the waivers that match the filters, or the first ``limit`` of them."""
        return self._pages(Waiver, "/waivers", limit, filters)

    def get_waiver(self, waiver_id: str | Waiver) -> Waiver:
        """Return one waiver, in force or not."""
        return self._one(Waiver, "GET", f"/waivers/{path_of(waiver_id)}")

    def delete_waiver(self, waiver_id: str | Waiver) -> None:
        """Withdraw a waiver."""
        self._call("DELETE", f"/waivers/{path_of(waiver_id)}")

    def create_orphan_scan(self, min_age: int | None = None) -> OrphanScan:
        """Start a scan of all services for resources of dead projects.

        :param min_age: seconds; younger resources are skipped. ``None``: as the operator configured
        """
        body = {} if min_age is None else {"min_age": min_age}
        return self._one(OrphanScan, "POST", "/orphan-scans", json=body)

    def orphan_scans(self, *, limit: int | None = None, **filters: Any) -> Iterator[OrphanScan]:
        """Yield the orphan scans that match the filters, latest first."""
        return self._pages(OrphanScan, "/orphan-scans", limit, filters)

    def get_orphan_scan(self, scan_id: str | OrphanScan) -> OrphanScan:
        """Return one orphan scan with its counts."""
        return self._one(OrphanScan, "GET", f"/orphan-scans/{path_of(scan_id)}")

    def cancel_orphan_scan(self, scan_id: str | OrphanScan) -> None:
        """Cancel an orphan scan that is under way."""
        self._call("DELETE", f"/orphan-scans/{path_of(scan_id)}")

    def orphans(self, scan_id: str | OrphanScan, *, limit: int | None = None, **filters: Any) -> Iterator[Orphan]:
        """Yield the orphans that a scan found."""
        return self._pages(Orphan, f"/orphan-scans/{path_of(scan_id)}/orphans", limit, filters)

    def orphan_projects(
        self, scan_id: str | OrphanScan, *, limit: int | None = None, **filters: Any
    ) -> Iterator[OrphanProject]:
        """Yield the dead projects of which a scan found orphans."""
        return self._pages(OrphanProject, f"/orphan-scans/{path_of(scan_id)}/projects", limit, filters)

    def adopt_orphans(
        self, scan_id: str | OrphanScan, project_id: str | resource.Resource, dry_run: bool = False, **record: str
    ) -> Deletion:
        """Request the deletion of a dead project's orphans; return the deletion.

        :param record: what the request says about itself: ``request_reason`` and ``ticket``
        """
        body = {"project_id": id_of(project_id), "dry_run": dry_run, **record}
        return self._one(Deletion, "POST", f"/orphan-scans/{path_of(scan_id)}/adopt", json=body)

    def page(
        self, kind: type[R], path: str, *, limit: int, marker: str | None = None, **filters: Any
    ) -> tuple[list[R], str]:
        """Return one page of a list, and the marker of the next page; an empty text: there is none.

        For programs that show a page at a time. The records of leftovers, events, plans and orphans do not have their
        markers.

        :param kind: class of the records
        :param path: path of the list in the API, such as ``/deletions/ID/leftovers``
        :param limit: records of the page at most; the server may return fewer
        :param marker: of the page; ``None``: the first one
        """
        wanted = {**filters, "limit": min(limit, PAGE), "marker": marker}
        body = self._call("GET", path, params=[(n, v) for n, v in flat(wanted) if v not in (None, "")])
        following = dict(urllib.parse.parse_qsl(next_query(body)))
        return self._list(kind, body), following.get("marker", "")

    def _one(self, kind: type[R], method: str, path: str, **kwargs: Any) -> R:
        found = self._call(method, path, **kwargs).get(kind.resource_key)
        if not isinstance(found, dict) or not found.get("id"):
            raise _unexpected(self.root())
        return kind.received(found)

    def _list(self, kind: type[R], body: Mapping[str, Any]) -> list[R]:
        items = body.get(kind.resources_key)
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise _unexpected(self.root())
        return [kind.received(item) for item in items]

    def _pages(self, kind: type[R], path: str, limit: int | None, filters: Mapping[str, Any]) -> Iterator[R]:
        query: Any = [(name, value) for name, value in flat(filters) if value not in (None, "")]
        if limit:
            query.append(("limit", min(limit, PAGE)))
        given = 0
        seen = set()
        while True:
            body = self._call("GET", path, params=query)
            items = self._list(kind, body)
            for item in items:
                yield item
                given += 1
                if limit and given >= limit:
                    return
            mark = next_query(body)
            if not mark or not items or mark in seen:
                return
            seen.add(mark)
            query = urllib.parse.parse_qsl(mark, keep_blank_values=True)

    def _call(self, method: str, path: str, **kwargs: Any) -> dict[str, Any]:
        root = self.root()
        kwargs |= {"headers": {"Accept": "application/json"}, "timeout": self.call_timeout}
        try:
            # No retry by the SDK: older releases retry, and print a line about it.
            response = self.request(f"{root}{path}", method, connect_retries=0, **kwargs)
        except ksa_exceptions.SSLError as exc:
            raise errors.Unreachable(f"the TLS connection to {root} failed: {errors.cause(exc)}") from exc
        except ksa_exceptions.ConnectionError as exc:
            raise errors.Unreachable(f"no answer from {root}: {errors.cause(exc)}") from exc
        except ksa_exceptions.ClientException as exc:
            # The proxy raises for no status of the API: getting a token failed.
            raise errors.of_login(exc) from exc
        self.answered_at = response.headers.get("Date", "")
        if response.status_code >= 400:
            raise errors.from_response(response)
        if response.status_code == 204:
            return {}
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise _unexpected(root)
        return body


def _unexpected(root: str) -> errors.Unreachable:
    return errors.Unreachable(
        f"{root} does not answer like the project-cleanup API: check the endpoint in the catalog or {OVERRIDE_VARIABLE}"
    )


def from_connection(conn: Any) -> Proxy:
    """Return the proxy for an ``openstack.connection.Connection``, without a change of the connection."""
    found: Proxy = conn.config.get_session_client(SERVICE_TYPE, constructor=Proxy)
    # openstacksdk reads the variable only without a cloud of clouds.yaml. Here it always takes effect.
    override = os.environ.get(OVERRIDE_VARIABLE)
    if override:
        found.endpoint_override = override
    found._connection = conn
    return found


class Description(service_description.ServiceDescription):
    """The description of the service, for ``conn.add_service``."""

    def _make_proxy(self, instance: Any) -> Any:
        # The base makes a proxy that requests no versions, but it may not read the variable.
        given = os.environ.get(OVERRIDE_VARIABLE) and instance.config.has_service(SERVICE_TYPE)
        return from_connection(instance) if given else super()._make_proxy(instance)
