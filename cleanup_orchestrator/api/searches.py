"""``/v1/leftovers`` and ``/v1/events``: finds resources in the records of all deletions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pecan
import webob

from cleanup_orchestrator.api import names, views
from cleanup_orchestrator.api.blocking import Blocking
from cleanup_orchestrator.api.context import Query
from cleanup_orchestrator.api.deletion import DeletionHandlers, filters_of
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.api.paging import Paging
from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.store import Page, ProjectEvent, ProjectLeftover


class Searches(DeletionHandlers):
    """The handlers, for users who may list the deletions of a domain, and not for users who only requested some."""

    @pecan.expose("json")
    def leftovers(self, req: webob.Request, resp: webob.Response, query: Query) -> dict[str, Any]:
        """Return a page of what the latest deletion of each project left.

        :raises ApiError: 400 invalid_query; 403 forbidden
        """
        filters = names.resolved(filters_of(query))
        domain_id = self._searched(req, filters.pop("domain_id", None))
        paging = Paging.of(query, self._context)
        leftovers = self._context.store.leftovers_of_all_projects(paging.more, paging.row, domain_id, **filters)
        if not leftovers and not paging.marker:
            names.check(self._context, filters, self._context.store.step_places)
        rows, links = paging.cut(req, leftovers, lambda each: each.row.row)
        wanted = sorted({row.deletion_id for row in rows})
        deletions = {d.id: d for d in self._context.store.list(Page(len(wanted)), id=wanted)} if wanted else {}
        # A deletion that was purged meanwhile is missing.
        there = [(row, deletions[row.deletion_id]) for row in rows if row.deletion_id in deletions]
        blocking = Blocking(self._context, req.context)
        shown = [_leftover(row, d, blocking.shown(d, row.row.leftover.blocked_by)) for row, d in there]
        return {"leftovers": shown, **links}

    @pecan.expose("json")
    def events(self, req: webob.Request, resp: webob.Response, query: Query) -> dict[str, Any]:
        """Return a page of the journal entries of all deletions that name a resource, oldest first.

        :raises ApiError: 400 invalid_query; 403 forbidden
        """
        filters = filters_of(query)
        domain_id = self._searched(req, filters.pop("domain_id", None))
        paging = Paging.of(query, self._context)
        wanted = filters.pop("resource_id")
        events = self._context.store.events_of_resource(wanted, paging.more, paging.row, domain_id, **filters)
        rows, links = paging.cut(req, events, lambda each: each.row.row)
        readable = self._context.enforcer.readable(req.context)
        return {"events": [_event(row, readable) for row in rows], **links}

    def _searched(self, req: webob.Request, domain_id: str | None) -> str | None:
        """Return the domain that a search is limited to; ``None``: it finds the records of all domains.

        :raises ApiError: 403 forbidden
        """
        who = "an admin, a reader of the system, or a reader or manager of a domain with a token of that domain"
        refused = ApiError(403, "forbidden", f"only {who} may search the records of all deletions")
        allowed, domain_id = self._domain(req, refused, domain_id)
        if not allowed:
            raise refused
        return domain_id


def _leftover(leftover: ProjectLeftover, d: Deletion, blocked_by: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a leftover of a deletion, with its project.

    The message does not say what the type waits for: that needs all steps of the deletion.
    """
    return {**_project(leftover), **views.leftover(leftover.row, d, {}, None, blocked_by)}


def _event(event: ProjectEvent, readable: Collection[str]) -> dict[str, Any]:
    """Return a journal entry of a deletion, with its project."""
    return {**_project(event), **views.event(event.row, readable)}


def _project(result: ProjectLeftover | ProjectEvent) -> dict[str, Any]:
    """Return the deletion and the project of a result of a search."""
    return {name: getattr(result, name) for name in ("deletion_id", "project_id", "project_name", "domain_id")}
