"""``/v1/orphan-scans``: searches for resources of dead projects."""

from __future__ import annotations

import csv
import dataclasses
import io
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pecan
import webob
from oslo_log import log

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator import shapes
from cleanup_orchestrator import store as storage
from cleanup_orchestrator.api import deletion, inputs, names, requests, views
from cleanup_orchestrator.api.context import ApiContext, Body, Query, tell_engine
from cleanup_orchestrator.api.deletion import requester, under_way
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.api.paging import Paging
from cleanup_orchestrator.core.deletion import Deletion, Mode, Origin, Status, accepted
from cleanup_orchestrator.core.journal import EventType
from cleanup_orchestrator.core.orphan_scan import SCANNING, Orphan, OrphanScan, ScanStatus, counted, counts
from cleanup_orchestrator.core.step import TASKS, Step, StepKind
from cleanup_orchestrator.shapes.render import render, render_listed

LOG = log.getLogger(__name__)

#: Characters that begin a formula in a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
#: Rows that the export reads at a time.
_EXPORT_PAGE = 1000


class OrphanScans:
    """The handlers.

    A scan finds resources of all domains. Therefore domain managers have no access by default.
    """

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    @pecan.expose("json")
    def create(self, req: webob.Request, resp: webob.Response, body: Body) -> dict[str, Any]:
        """Start a scan.

        A younger age than the operator's is refused: a resource may be older than Keystone's answer about its project.

        :raises ApiError: 400 invalid_json, invalid_body; 403 forbidden; 409 orphan_scan_under_way; 415
        """
        who = {"user_id": req.context.user_id or "", "user_name": req.context.user_name or ""}
        wanted = self._context.scan(request_id=req.context.request_id, **who)
        if (min_age := body.get("min_age", wanted.min_age)) < wanted.min_age:
            text = f"must be at least {wanted.min_age}, which the operator set ([orphans] min_age)"
            raise inputs.invalid_field("min_age", text)
        try:
            scan = self._context.store.create_orphan_scan(dataclasses.replace(wanted, min_age=min_age))
        except storage.ScanUnderWay as other:
            text = f"orphan scan {other.scan_id} is under way: follow it, or cancel it first"
            raise ApiError(409, "orphan_scan_under_way", text, orphan_scan_id=other.scan_id) from None
        assert scan is not None
        LOG.info("orphan scan %s: requested by %s (%s)", scan.id, scan.user_name, scan.user_id)
        tell_engine(self._context.engine.decide, scan.id)
        resp.headers["Location"] = _href(req, scan.id)
        return self._shown(req, scan.id)

    @pecan.expose("json")
    def index(self, req: webob.Request, resp: webob.Response, query: Query) -> dict[str, Any]:
        """Return a page of scans, latest first.

        :raises ApiError: 400 invalid_query; 403 forbidden
        """
        paging = Paging.of(query, self._context)
        filters = {"status": query["status"][0]} if "status" in query else {}
        try:
            scans = self._context.store.orphan_scans(paging.page, **filters)
        except storage.NotFound:
            raise inputs.invalid_field("marker", "is not the id of an orphan scan", "invalid_query") from None
        shown, links = paging.cut(req, scans, lambda scan: scan.id)
        return {
            "orphan_scans": [render_listed(shapes.OrphanScan, scan, links=_links(req, scan)) for scan in shown],
            **links,
        }

    @pecan.expose("json")
    def get(self, req: webob.Request, resp: webob.Response, scan_id: str) -> dict[str, Any]:
        """Return one scan with its counts and its coverage.

        :raises ApiError: 403 forbidden; 404 orphan_scan_not_found
        """
        return self._shown(req, scan_id)

    @pecan.expose(content_type="application/json")
    def cancel(self, req: webob.Request, resp: webob.Response, scan_id: str) -> None:
        """Cancel a scan that is under way. The record stays.

        :raises ApiError: 403 forbidden; 404 orphan_scan_not_found; 409 orphan_scan_ended
        """
        scan, _steps = self._find(scan_id)
        message = f"cancelled by {req.context.user_name or req.context.user_id or 'an unknown user'}"
        if scan.status in SCANNING:
            scan = self._context.store.cancel_orphan_scan(scan_id, message)
            LOG.info("orphan scan %s: %s", scan_id, message)
        if scan.status is not ScanStatus.CANCELLED:
            text = f"the scan has ended ({scan.status}): there is nothing to cancel"
            raise ApiError(409, "orphan_scan_ended", text, status_now=str(scan.status))

    # ------------------------------------------------------------------------------------------------- what was found
    @pecan.expose(content_type="text/csv")
    @pecan.expose("json")
    def orphans(self, req: webob.Request, resp: webob.Response, scan_id: str, query: Query) -> webob.Response:
        """Return a page of the orphans; as CSV, all orphans.

        :raises ApiError: 400 invalid_query; 403 forbidden; 404 orphan_scan_not_found
        """
        _scan, steps = self._find(scan_id)
        wanted: tuple[str, ...] = ("project_id", "region", "service", "type")
        filters = names.resolved({name: query[name][0] for name in wanted if name in query})
        resp.vary = ("Accept",)
        if query.get("format", ["csv" if _wants_csv(req) else "json"])[0] == "csv":
            if filters.keys() - {"project_id"} and not self._context.store.orphans(scan_id, 1, None, **filters):
                self._check_names(filters, steps)
            resp.content_type, resp.charset = "text/csv", "UTF-8"
            resp.headers["Content-Disposition"] = f'attachment; filename="orphans-{scan_id}.csv"'
            resp.app_iter = self._export(scan_id, filters)
            return resp
        paging = Paging.of(query, self._context)
        rows = self._context.store.orphans(scan_id, paging.more, paging.row, **filters)
        if not rows and not paging.marker:
            self._check_names(filters, steps)
        shown, links = paging.cut(req, rows, lambda row: row.row)
        resp.content_type, resp.charset = "application/json", "UTF-8"
        resp.json_body = {"orphans": [_orphan(row.orphan) for row in shown], **links}
        return resp

    def _check_names(self, filters: Mapping[str, str], steps: Sequence[Step]) -> None:
        names.check(self._context, filters, lambda: ((s.region, s.service, s.type) for s in steps))

    def _export(self, scan_id: str, filters: Mapping[str, str]) -> Iterator[bytes]:
        """Yield all rows as CSV. Reads one page at a time to limit the memory."""
        yield _csv([tuple(shapes.Orphan.fields)])
        marker: int | None = None
        while rows := self._context.store.orphans(scan_id, _EXPORT_PAGE, marker, **filters):
            yield _csv([[_cell(value) for value in _orphan(row.orphan).values()] for row in rows])
            marker = rows[-1].row

    @pecan.expose("json")
    def projects(self, req: webob.Request, resp: webob.Response, scan_id: str, query: Query) -> dict[str, Any]:
        """Return a page of the dead projects, with the counts of their orphans.

        :raises ApiError: 400 invalid_query; 403 forbidden; 404 orphan_scan_not_found
        """
        self._find(scan_id)
        paging = Paging.of(query, self._context)
        given = {name: query[name][0] for name in ("marker", "project_id") if name in query}
        projects = self._context.store.orphan_projects(scan_id, paging.more, **given)
        shown, links = paging.cut(req, projects, lambda project: project.project_id)
        return {"projects": [_project(project) for project in shown], **links}

    # ----------------------------------------------------------------------------------------------------- adoption
    @pecan.expose("json")
    def adopt(self, req: webob.Request, resp: webob.Response, scan_id: str, body: Body) -> dict[str, Any]:
        """Record a request for the deletion of a dead project's orphans.

        If the same deletion is under way, return that one.

        :raises ApiError: 400 invalid_json, invalid_body; 403 forbidden, project_protected; 404 orphan_scan_not_found,
            orphan_project_not_found; 409 orphan_scan_under_way, project_known, deletion_under_way; 415; 503
        """
        project_id, dry_run = body["project_id"], body.get("dry_run", False)
        latest = self._adoptable(scan_id, project_id)
        name = latest.project_name if latest else ""
        record = accepted(
            id=str(uuid.uuid4()),
            project_id=project_id,
            project_name=name,
            domain_id=latest.domain_id if latest else "",
            mode=Mode.CASCADE,
            dry_run=dry_run,
            origin=Origin.ADOPTED,
            member_ids=latest.member_ids if latest else (),
            request_id=req.context.request_id,
            user_id=req.context.user_id or "",
            user_name=req.context.user_name or "",
            **requests.read(self._context, body),
        )
        text = f"deletion of what project {name or '?'} ({project_id}) left behind, found by orphan scan {scan_id}"
        data = {"orphan_scan_id": scan_id, "dry_run": dry_run, "project_name": name, "user_name": record.user_name}
        by = requester(self._context.enforcer, req.context, record)
        said, more = requests.said(record)
        event = by.event(EventType.DELETION_ADOPTED, text + (", dry run" if dry_run else "") + said, data | more)
        try:
            record = self._context.store.create(record, TASKS, event)
            LOG.warning("adopted by %s (%s): %s", record.user_name, record.user_id, event.message)
        except storage.AlreadyUnderWay as other:
            record = _same_deletion(other.existing, record)
        our_log.about(record.id, project_id)
        tell_engine(self._context.engine.decide, record.id)
        resp.headers["Location"] = deletion.href(req, record.id)
        return deletion.shown(self._context, req, *self._context.store.shown(record.id))

    def _adoptable(self, scan_id: str, project_id: str) -> Deletion | None:
        """Check that a project can be adopted; return its latest deletion, if any.

        :raises ApiError: 403 project_protected; 404 orphan_scan_not_found, orphan_project_not_found;
            409 orphan_scan_under_way, project_known
        """
        scan, _steps = self._find(scan_id)
        if scan.status in SCANNING:
            text = "the scan is under way: adopt its orphans when it has ended"
            raise ApiError(409, "orphan_scan_under_way", text, orphan_scan_id=scan.id)
        if not self._context.store.orphan_projects(scan_id, 1, project_id=project_id):
            text = "this scan found no orphan of the project; GET /v1/orphan-scans/{id}/projects lists the projects"
            raise ApiError(404, "orphan_project_not_found", text)
        our_log.about("-", project_id)
        before = self._context.store.list(storage.Page(1), project_id=project_id)
        latest: Deletion | None = before[0] if before else None
        protection, name = self._context.protection(), latest.project_name if latest else ""
        if why := protection.why(project_id, name):
            raise ApiError(403, "project_protected", f"{name} ({project_id}): {why}", project_id=project_id)
        if self._context.projects.knows(project_id, protection.own_project_id()):
            text = f"Keystone knows project {project_id}, so its resources are no orphans: request an ordinary deletion"
            raise ApiError(409, "project_known", text, project_id=project_id)
        return latest

    # ------------------------------------------------------------------------------------------------------- helpers

    def _find(self, scan_id: str) -> tuple[OrphanScan, Sequence[Step]]:
        try:
            if not inputs.is_uuid(scan_id):
                raise storage.NotFound(scan_id)
            scan, steps = self._context.store.orphan_scan(scan_id)
        except storage.NotFound:
            text = "no orphan scan has this id; GET /v1/orphan-scans lists them"
            raise ApiError(404, "orphan_scan_not_found", text) from None
        return scan, steps

    def _shown(self, req: webob.Request, scan_id: str) -> dict[str, Any]:
        scan, steps = self._find(scan_id)
        coverage = [_coverage(step) for step in steps if step.kind is StepKind.SCAN]
        detail = {"counts": counted(steps), "coverage": coverage, "not_covered": scan.not_covered}
        return {"orphan_scan": render(shapes.OrphanScan, scan, links=_links(req, scan), **detail)}


def _same_deletion(existing: Deletion, wanted: Deletion) -> Deletion:
    """Return the deletion under way if it is the requested one.

    :raises ApiError: 409 deletion_under_way
    """
    alike = (existing.origin, existing.dry_run) == (wanted.origin, wanted.dry_run)
    if alike and requests.agree(existing, wanted) and existing.status is not Status.CANCELLING:
        return existing
    raise under_way(existing)


def _wants_csv(req: webob.Request) -> bool:
    offers = req.accept.acceptable_offers(["application/json", "text/csv"])
    return bool(offers) and offers[0][0] == "text/csv"


def _href(req: webob.Request, scan_id: str) -> str:
    return f"{req.application_url}/v1/orphan-scans/{scan_id}"


def _links(req: webob.Request, scan: OrphanScan) -> list[dict[str, str]]:
    return views.self_link(_href(req, scan.id))


def _coverage(step: Step) -> dict[str, Any]:
    return render(shapes.ScannedType, step, read=step.round, **counts(step))


def _orphan(orphan: Orphan) -> dict[str, Any]:
    return render(shapes.Orphan, orphan, id=orphan.resource_id, age_known=orphan.created_at is not None)


def _project(project: Any) -> dict[str, Any]:
    return render(
        shapes.OrphanProject,
        project,
        project_name=project.name,
        orphans=sum(project.counts.values()),
        counts=_counts(project.counts),
        project_settings=_counts(project.project_setting),
    )


def _counts(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"type": name, "count": counts[name]} for name in sorted(counts)]


def _cell(value: Any) -> str:
    """Return a value as a cell that no spreadsheet runs as a formula.

    Users choose the names of resources.
    """
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    text = str(value)
    return "'" + text if text.startswith(_FORMULA) else text


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue().encode("utf-8", "replace")
