"""``/v1/deletions/{id}``: shows one deletion, its leftovers and its journal."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pecan
import webob
from oslo_context.context import RequestContext

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator import store as storage
from cleanup_orchestrator.api import inputs, names, plan_views, policies, views
from cleanup_orchestrator.api.blocking import Blocking
from cleanup_orchestrator.api.context import ApiContext, Query, tell_engine
from cleanup_orchestrator.api.errors import CODES, ApiError
from cleanup_orchestrator.api.paging import Paging
from cleanup_orchestrator.cloud.projects import Project
from cleanup_orchestrator.core import messages
from cleanup_orchestrator.core.deletion import Deletion, DeletionView, RoundPurpose, Status
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.proposals import TOO_FAST, Proposal, Refused, Requester
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.request_limits import UNLIMITED, RequestLimits
from cleanup_orchestrator.core.step import StepView
from cleanup_orchestrator.core.texts import enumerated
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.drain import base as drain

T = TypeVar("T")

#: Rules that show the role assignments that the drain removed.
_SHOW_GRANTS = (policies.RESTORE, policies.CANCEL, policies.GRANTS_GET)
#: Items that an error text names; further ones are counted. A member of the error object has all of them.
NAMED = 50


class DeletionHandlers:
    """The base of all handlers of deletions. ``request.context`` has the requester."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    def _get(self, req: webob.Request, rule: str, deletion_id: str) -> Deletion:
        """Return a deletion if the policy allows the rule for it.

        A requester who is allowed in no domain gets 403 for every id. A requester who is allowed in some domains gets
        404 for the deletions of the others.

        :raises ApiError: 403 forbidden; 404 deletion_not_found
        """
        d = self._find(req, rule, deletion_id, self._context.store.get)
        self._allow(req, rule, d)
        return d

    def _find(self, req: webob.Request, rule: str, deletion_id: str, read: Callable[[str], T]) -> T:
        """Return what ``read`` returns for an id; see :meth:`_get`."""
        try:
            if not inputs.is_uuid(deletion_id):
                raise storage.NotFound(deletion_id)
            return read(deletion_id)
        except storage.NotFound:
            raise self._refused(req, rule) from None

    def _allow(self, req: webob.Request, rule: str, d: Deletion) -> None:
        """Check that the policy allows the rule for a deletion; see :meth:`_get`."""
        if not self._context.enforcer.may_about(req.context, rule, d):
            raise self._refused(req, rule)
        our_log.about(d.id, d.project_id)

    def _refused(self, req: webob.Request, rule: str) -> ApiError:
        if self._context.enforcer.may_somewhere(req.context, rule):
            return ApiError(404, "deletion_not_found", "no deletion has this id; GET /v1/deletions lists them")
        return forbidden(rule)

    def _domain(
        self, req: webob.Request, refused: ApiError, domain_id: str | None, project_id: str | None = None
    ) -> tuple[bool, str | None]:
        """Return whether the requester may list the deletions of a domain, and the domain that limits the list.

        No domain: the list has all domains.

        :param refused: is raised for another domain than that of the token
        :param domain_id: the domain that the requester wants
        :param project_id: the project that the requester wants
        """
        enforcer, own = self._context.enforcer, req.context.domain_id
        if enforcer.may(req.context, policies.LIST, domain_id, project_id):
            return True, domain_id
        if not own or not enforcer.may(req.context, policies.LIST, own):
            return False, domain_id
        if domain_id:
            raise refused
        return True, str(own)

    def _refuse_protected(self, about: Project | Deletion) -> None:
        """Check that the configuration does not protect the project.

        :raises ApiError: 403 project_protected
        """
        if text := self._why_protected(about):
            project_id = about.id if isinstance(about, Project) else about.project_id
            raise ApiError(403, "project_protected", text, project_id=project_id)

    def _why_protected(self, about: Project | Deletion) -> str:
        """Return why the configuration protects the project; empty: it does not."""
        project_id, name = (
            (about.id, about.name) if isinstance(about, Project) else (about.project_id, about.project_name)
        )
        why = self._context.protection().why(project_id, name)
        return f"{name} ({project_id}): {why}" if why else ""

    def _limits(self, req: webob.Request) -> RequestLimits:
        """Return the limits for the requester: none for a user who may request the deletion of every project."""
        return UNLIMITED if self._context.enforcer.may(req.context, policies.CREATE) else self._context.limits

    def _refuse_liens(self, req: webob.Request, project_ids: Iterable[str]) -> None:
        """Check that no lien on the projects is in force.

        :raises ApiError: 409 project_has_liens
        """
        if liens := self._context.store.liens_in_force(tuple(project_ids)):
            raise _has_liens(liens, self._context.enforcer.readable(req.context))

    def _propose(self, req: webob.Request, proposal: Proposal) -> Event | None:
        """Apply a proposal to its deletion, have an engine process it, and return the journal line.

        ``None``: nothing was written, because there is nothing to change.

        :raises ApiError: 403; 404; 409; 429
        """
        with self._refusals(req):
            if (decided := self._context.store.propose(proposal)) is None:
                return None
            self._cast(proposal.seen.id)
            return decided.applied.events[0]

    @contextlib.contextmanager
    def _refusals(self, req: webob.Request) -> Iterator[None]:
        """Answer the refusals of a proposal."""
        try:
            yield
        except Refused as refused:
            if refused.code == "project_has_liens":
                raise _has_liens(refused.facts["liens"], self._context.enforcer.readable(req.context)) from None
            raise ApiError(CODES[refused.code][0], refused.code, refused.text, **refused.facts) from None
        except storage.TooManyDeletions as many:
            raise limit_reached(many) from None
        except storage.AlreadyUnderWay as other:
            raise under_way(other.existing) from None
        except storage.Conflict:
            raise changes_too_fast() from None

    def _shown(self, req: webob.Request, deletion_id: str) -> dict[str, Any]:
        return shown(self._context, req, *self._context.store.shown(deletion_id))

    def _cast(self, deletion_id: str) -> None:
        tell_engine(self._context.engine.decide, deletion_id)


class SingleDeletion(DeletionHandlers):
    """The handlers that show one deletion."""

    @pecan.expose("json")
    def get(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Return one deletion with counts and blockers.

        :raises ApiError: 403 forbidden; 404 deletion_not_found
        """
        d, steps = self._find(req, policies.GET, deletion_id, self._context.store.shown)
        self._allow(req, policies.GET, d)
        return shown(self._context, req, d, steps)

    @pecan.expose("json")
    def leftovers(self, req: webob.Request, resp: webob.Response, deletion_id: str, query: Query) -> dict[str, Any]:
        """Return a page of the resources that still exist.

        :raises ApiError: 400 invalid_query; 403 forbidden; 404 deletion_not_found
        """
        d = self._find(req, policies.GET, deletion_id, self._context.store.get)
        paging, filters = self._part(req, d, query)
        reasons = [{Reason(filters.pop("reason"))}] if "reason" in filters else []
        if reasons == [{Reason.KEPT}] and not d.dry_run:
            text = "only a dry run records which resources it keeps; 'counts' of the deletion has their number"
            raise ApiError(400, "invalid_query", text, field="reason", problem="kept_not_recorded")
        filters = names.resolved(filters)
        steps = self._context.store.steps(d.id) if d.purpose is RoundPurpose.DELETE else ()
        leftovers = self._context.store.leftovers(deletion_id, paging.more, paging.row, *reasons, **filters)
        if not leftovers and not paging.marker:
            names.check(self._context, filters, lambda: places(self._context, deletion_id))
        rows, links = paging.cut(req, leftovers, lambda row: row.row)
        waits, behind = messages.waits(d, steps), messages.behind(d, steps)
        blocking = Blocking(self._context, req.context)
        left = [views.leftover(row, d, waits, behind, blocking.shown(d, row.leftover.blocked_by)) for row in rows]
        return {"leftovers": left, **links}

    @pecan.expose("json")
    def events(self, req: webob.Request, resp: webob.Response, deletion_id: str, query: Query) -> dict[str, Any]:
        """Return a page of the journal, oldest first.

        :raises ApiError: 400 invalid_query; 403 forbidden; 404 deletion_not_found
        """
        view: Callable[[Any], dict[str, Any]] = functools.partial(
            views.event, readable=self._context.enforcer.readable(req.context)
        )
        d = self._find(req, policies.GET, deletion_id, self._context.store.get)
        paging, filters = self._part(req, d, query)
        events = self._context.store.events(deletion_id, paging.more, paging.row, **filters)
        rows, links = paging.cut(req, events, lambda row: row.row)
        return {"events": [view(row) for row in rows], **links}

    def _part(self, req: webob.Request, d: Deletion, query: Query) -> tuple[Paging, dict[str, Any]]:
        """Check access to the deletion; return the page and the filters of a query."""
        self._allow(req, policies.GET, d)
        return Paging.of(query, self._context), filters_of(query)


def shown(context: ApiContext, req: webob.Request, d: DeletionView, steps: Sequence[StepView]) -> dict[str, Any]:
    """Return the answer with one deletion, as the requester may see it."""
    enforcer, grants = context.enforcer, None
    if any(enforcer.may_about(req.context, rule, d) for rule in _SHOW_GRANTS):
        changes = context.store.changes(d.id) if d.has_changes else ()
        grants = [each for each in changes if each.type == drain.GRANT_REMOVED]
    view = views.deletion(d, steps, context.rules, href(req, d.id), enforcer.readable(req.context), grants)
    if d.status in (Status.LEFTOVERS, Status.PLANNED) and d.profile.requested and not d.profile.deletes:
        view["summary"] = plan_views.summary(
            d, steps, context.store.plan_counts(d.id), context.rules.approval_resources
        )
    return {"deletion": Blocking(context, req.context).with_blocking_resources(d, view)}


def places(context: ApiContext, deletion_id: str) -> Iterator[messages.Place]:
    """Return (region, service, type) of a deletion's steps."""
    return ((step.region, step.service, step.type) for step in context.store.steps(deletion_id))


def filters_of(query: Query) -> dict[str, Any]:
    """Return the filters of the query of a numbered list."""
    return {
        name: values[0].lower() == "true" if name == "abandoned" else values[0]
        for name, values in query.items()
        if name not in ("limit", "marker")
    }


def href(req: webob.Request, deletion_id: str) -> str:
    """Return the URL of a deletion."""
    return f"{req.application_url}/v1/deletions/{deletion_id}"


def requester(enforcer: policies.PolicyEnforcer, context: RequestContext, d: Deletion) -> Requester:
    """Return the requester of a change of a deletion, with the rank."""
    return Requester(
        context.user_id or "",
        context.user_name or "",
        context.request_id,
        tuple(context.trust_user_ids),
        context.delegated,
        is_admin=enforcer.may_about(context, policies.CANCEL_OF_ADMIN, d),
    )


def forbidden(rule: str = "") -> ApiError:
    """Return the 403 that names who is allowed by default."""
    domain = "of the project's domain with a token of that domain"
    if rule == policies.APPROVE:
        who = "an admin"
    elif rule in (policies.GET, policies.LIST):
        who = f"an admin, a reader of the system, a reader or manager {domain}, or the user who requested the deletion"
    else:
        who = f"an admin, or a manager {domain},"
    return ApiError(403, "forbidden", f"only {who} may do this")


def under_way(existing: Deletion) -> ApiError:
    """Return the 409 for a request that conflicts with a deletion under way."""
    if existing.status is Status.CANCELLING:
        text = "is being cancelled: repeat the request when that has ended"
    else:
        how = f"{existing.mode}{', dry run' if existing.dry_run else ''}"
        how += f", not before {utc(existing.not_before)}" if existing.not_before else ""
        how += f", ticket '{existing.ticket}'" if existing.ticket else ""
        text = f"({how}) is under way: follow it, or cancel it first"
    text = f"deletion {existing.id} of project {existing.project_id} {text}"
    return ApiError(409, "deletion_under_way", text, deletion_id=existing.id)


def changes_too_fast() -> ApiError:
    """Return the 409 for a change that conflicted with another change at each try."""
    return ApiError(409, "conflict", TOO_FAST)


def limit_reached(many: storage.TooManyDeletions) -> ApiError:
    """Return the 429 for a request above a limit."""
    wait = {"Retry-After": str(math.ceil(many.wait.total_seconds()))}
    return ApiError(429, "deletion_limit_reached", str(many), wait, limit=many.exceeded.limit)


def _has_liens(liens: Sequence[Lien], readable: Collection[str]) -> ApiError:
    named = enumerated([one.explained if "lien" in readable else str(one) for one in liens], NAMED, "; ")
    facts: dict[str, Any] = {"liens": [views.hold(lien, readable) for lien in liens]}
    if "lien" in readable:
        facts["problem"] = "removable_liens"
        text = f"protected by {named}. Ask the origin of the lien to have it removed: DELETE /v1/liens/{{id}}"
    else:
        who = ", ".join(sorted({one.origin for one in liens[:NAMED]}))
        text = f"protected by {named}. Only an admin can read the reason and remove it: ask {who}, or an admin"
    return ApiError(409, "project_has_liens", text, **facts)
