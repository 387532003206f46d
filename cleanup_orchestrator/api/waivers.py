"""``/v1/waivers``: lets deletions skip a service, until a time and for a reason."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection, Sequence
from typing import Any

import pecan
import webob

from cleanup_orchestrator.api import inputs
from cleanup_orchestrator.api.context import Body
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.api.expiring import Expiring
from cleanup_orchestrator.cloud.catalog import NEVER_WAIVED, by_any_name
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.store import Page


class Waivers(Expiring[Waiver]):
    """The handlers.

    A waiver concerns services of the whole cloud. Therefore only admins manage waivers by default.
    """

    noun, ended = "waiver", "withdrawn"

    @pecan.expose("json")
    def create(self, req: webob.Request, resp: webob.Response, body: Body) -> dict[str, Any]:
        """Record a waiver.

        Each deletion applies it when it next reads the catalog.

        :raises ApiError: 400 invalid_json, invalid_body, not_waivable, not_in_catalog; 403 forbidden; 415; 503
            keystone_unavailable
        """
        service_type = by_any_name(body["service_type"])
        if service_type in NEVER_WAIVED:
            text = f"{service_type} cannot be waived: the deletion of a project needs Keystone"
            raise ApiError(400, "not_waivable", text, field="service_type")
        waiver = Waiver(
            id=str(uuid.uuid4()),
            service_type=service_type,
            region=body.get("region") or "",
            project_id=body.get("project_id") or "",
            reason=body["reason"].strip(),
            created_at=self._context.store.now(),
            expires_at=inputs.moment(body["expires_at"], "expires_at"),
            user_id=req.context.user_id or "",
            user_name=req.context.user_name or "",
            request_id=req.context.request_id,
        )
        self._check(waiver)
        if not body.get("allow_unknown", False):
            self._check_names(waiver)
        waiver = self._context.store.add_waiver(waiver)
        self._log.warning("waived by %s (%s): %s", waiver.user_name, waiver.user_id, waiver.explained)
        return self._made(req, resp, waiver)

    def _page(
        self, page: Page, in_force: bool | None, filters: dict[str, str]
    ) -> tuple[Sequence[Waiver], datetime.datetime]:
        if "service_type" in filters:
            filters = {**filters, "service_type": by_any_name(filters["service_type"])}
        waivers, now = self._context.store.waivers(page, in_force, **filters)
        return waivers, now

    def _one(self, id_: str) -> tuple[Waiver, datetime.datetime]:
        waiver, now = self._context.store.waiver(id_)
        return waiver, now

    def _not_found(self) -> ApiError:
        return ApiError(404, "waiver_not_found", "no waiver has this id; GET /v1/waivers lists them")

    def _end(self, id_: str, user_id: str) -> Waiver:
        """Withdraw a waiver. A deletion under way inventories the service again."""
        ended: Waiver = self._context.store.withdraw_waiver(id_, user_id)
        return ended

    def _check(self, waiver: Waiver) -> None:
        if waiver.expires_at <= waiver.created_at:
            now = utc(waiver.created_at)
            raise inputs.invalid_field("expires_at", f"must be later than now, which is {now}")
        if waiver.expires_at - waiver.created_at > self._context.waiver_limit:
            days = self._context.waiver_limit.days
            text = f"may be at most {days} days from now ([catalog] waiver_limit): renew it before it ends"
            raise inputs.invalid_field("expires_at", text)

    def _check_names(self, waiver: Waiver) -> None:
        """Check that the catalog has the service in the region: a waiver with a typo would never apply.

        A service that left the catalog after a deletion had begun counts, too: it blocks that deletion.

        :raises ApiError: 400 not_in_catalog
        """
        entries = {(entry.region, entry.service_type) for entry in self._context.catalog_status(())}
        if any(waiver.covers(service, region) for region, service in entries):
            return
        entries |= self._context.store.live_places()
        services, regions = {service for _, service in entries}, {region for region, _ in entries} - {""}
        if waiver.service_type not in services:
            raise _not_in_catalog("service_type", "service_not_in_catalog", "has no such service; it has", services)
        if not waiver.region or (waiver.region, waiver.service_type) in entries:
            return
        if waiver.region in regions:
            has = {region for region, service in entries if service == waiver.service_type}
            text = "does not have the service in this region, only in"
            raise _not_in_catalog("region", "service_not_in_region", text, has)
        raise _not_in_catalog("region", "region_not_in_catalog", "has no such region; it has", regions)


def _not_in_catalog(field: str, problem: str, lacks: str, known: Collection[str]) -> ApiError:
    names = sorted(known)
    text = f"the catalog {lacks} {', '.join(names)}; a waiver for what the catalog will have later needs allow_unknown"
    return ApiError(400, "not_in_catalog", text, field=field, problem=problem, known=names)
