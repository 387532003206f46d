"""``/v1/plans``: shows what a cascade would delete and keep, by its dry run."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pecan
import webob
from oslo_context.context import RequestContext

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator import store as storage
from cleanup_orchestrator.api import inputs, names, plan_views, policies
from cleanup_orchestrator.api.blocking import Blocking
from cleanup_orchestrator.api.context import ApiContext, Query
from cleanup_orchestrator.api.deletion import places
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.api.paging import Paging
from cleanup_orchestrator.core import plans
from cleanup_orchestrator.core.deletion import Deletion, DeletionView, Mode
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.selection import Selection
from cleanup_orchestrator.core.step import Step
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.shapes import queries

_REASONS = {
    queries.DELETE: frozenset({Reason.PRESENT}),
    queries.KEEP: frozenset({Reason.KEPT, Reason.NOT_SELECTED}),
    queries.PROTECT: frozenset(Reason) - {Reason.PRESENT, Reason.KEPT, Reason.NOT_SELECTED, Reason.INFORMATIONAL},
}


class Plans:
    """The handlers. The id of a plan is the id of its dry run."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    @pecan.expose("json")
    def get(self, req: webob.Request, resp: webob.Response, plan_id: str) -> dict[str, Any]:
        """Return a plan: its hash, its order, and the counts of each type.

        :raises ApiError: 403 forbidden; 404 plan_not_found
        """
        d, steps = find(self._context, req.context, plan_id)
        href = f"{req.application_url}/v1/plans/{d.id}"
        shown = plan_views.plan(
            d,
            steps,
            self._context.store.plan_counts(d.id),
            expires_at(self._context, d),
            href,
            self._context.rules.approval_resources,
        )
        return {"plan": Blocking(self._context, req.context).with_blocking_resources(d, shown)}

    @pecan.expose("json")
    def resources(self, req: webob.Request, resp: webob.Response, plan_id: str, query: Query) -> dict[str, Any]:
        """Return a page of the resources of a plan.

        :raises ApiError: 400 invalid_query; 403 forbidden; 404 plan_not_found
        """
        d = find_record(self._context, req.context, plan_id)
        paging = Paging.of(query, self._context)
        reasons = _REASONS[query["action"][0]] if "action" in query else frozenset(Reason) - {Reason.INFORMATIONAL}
        filters = names.resolved({name: query[name][0] for name in ("region", "service", "type") if name in query})
        rows = self._context.store.leftovers(d.id, paging.more, paging.row, reasons, **filters)
        if not rows and not paging.marker:
            names.check(self._context, filters, lambda: places(self._context, d.id))
        shown, links = paging.cut(req, rows, lambda row: row.row)
        blocking = Blocking(self._context, req.context)
        return {
            "resources": [plan_views.planned(row, blocking.shown(d, row.leftover.blocked_by)) for row in shown],
            **links,
        }


def find(context: ApiContext, requester: RequestContext, plan_id: str) -> tuple[DeletionView, tuple[Step, ...]]:
    """Return the dry run of a plan, with its steps, if the requester may see it.

    :raises ApiError: 403 forbidden; 404 plan_not_found: the plan does not exist, or the requester may not see it
    """
    d, steps, _now = context.store.load(find_record(context, requester, plan_id).id)
    return d, steps


def find_record(context: ApiContext, requester: RequestContext, plan_id: str) -> Deletion:
    """Return the dry run of a plan; see :func:`find`."""
    try:
        if not inputs.is_uuid(plan_id):
            raise storage.NotFound(plan_id)
        d: Deletion = context.store.get(plan_id)
    except storage.NotFound:
        visible = False
    else:
        visible = plans.is_plan(d) and context.enforcer.may_about(requester, policies.PLAN_GET, d)
    if visible:
        our_log.about(d.id, d.project_id)
        return d
    if context.enforcer.may_somewhere(requester, policies.PLAN_GET):
        text = "no plan has this id: use the id of a dry run of a cascade that ended as planned"
        raise ApiError(404, "plan_not_found", text)
    text = "only an admin, a reader of the system or of the project's domain, or the user who made it may see a plan"
    raise ApiError(403, "forbidden", text)


def expires_at(context: ApiContext, d: Deletion) -> datetime.datetime:
    """Return the time until which a cascade can be bound to a plan."""
    assert d.finished_at is not None
    return d.finished_at + context.plan_max_age


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """The request for a deletion that follows a plan."""

    project_id: str
    mode: Mode
    plan_hash: str | None  #: the hash that the requester expects; ``None``: any


def bind(context: ApiContext, requester: RequestContext, plan_id: str, asked: Asked) -> tuple[str, Selection]:
    """Check that a deletion can be bound to a plan; return the plan's hash and its selection.

    :raises ApiError: 403 forbidden; 404 plan_not_found; 409 plan_unusable
    """
    d, steps = find(context, requester, plan_id)
    plan_hash = plans.hash_of(steps)
    facts: dict[str, Any] = {"plan_id": plan_id}
    why = ""
    if d.project_id != asked.project_id:
        why = f"it belongs to another project, {d.project_id}"
    elif d.mode is not asked.mode:
        why = f"it is of mode {d.mode}, and the request is of mode {asked.mode}"
        facts["problem"] = "plan_of_other_mode"
    elif missing := plans.incomplete(d, steps):
        why = f"it is incomplete, {missing}"
    elif context.store.now() > (until := expires_at(context, d)):
        why = f"it is from {utc(until - context.plan_max_age)}, which is too old ([deletion] plan_max_age)"
    elif asked.plan_hash not in (None, plan_hash):
        why = f"its hash is {plan_hash}, not the given one"
    if why:
        raise ApiError(409, "plan_unusable", f"plan {plan_id} cannot be used: {why}; make a new dry run", **facts)
    return plan_hash, d.selection
