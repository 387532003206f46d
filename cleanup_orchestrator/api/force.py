"""``/v1/projects/{id}/force``: lets a stuck deletion abandon what is left."""

from __future__ import annotations

from typing import Any

import pecan
import webob
from oslo_log import log

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator.api import inputs, policies
from cleanup_orchestrator.api.context import Body
from cleanup_orchestrator.api.deletion import DeletionHandlers, href, requester
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.core import ids
from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.proposals import AbandonLeftovers, OverruleUses, check_forcible, forced_types
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import MAX_BLOCKERS

LOG = log.getLogger(__name__)


class Forcing(DeletionHandlers):
    """The handler."""

    @pecan.expose("json")
    def force(self, req: webob.Request, resp: webob.Response, project_id: str, body: Body) -> dict[str, Any]:
        """Record that the project's deletion abandons what it cannot delete.

        :raises ApiError: 400 invalid_json, invalid_body; 403 forbidden, project_protected; 409 no_deletion_under_way,
            not_forcible, conflict; 415; 503 force_unavailable
        """
        d = self._forcible(req, project_id)
        if (proposal := self._proposal(req, d, body)) and (event := self._propose(req, proposal)):
            LOG.warning("%s", event.message)
        resp.headers["Location"] = href(req, d.id)
        return self._shown(req, d.id)

    def _proposal(self, req: webob.Request, d: Deletion, body: Body) -> AbandonLeftovers | OverruleUses | None:
        """Return the proposal of a request; ``None``: the request repeats an earlier one.

        The uses that are on record now are overruled, and no others. The delete may harm projects of other domains. So
        the requester must be allowed to force the deletion of every project.

        :param d: the live deletion of the project
        :raises ApiError: 400; 403; 409; 503
        """
        reason, wanted = body["reason"].strip(), body.get("types")
        enforcer, context = self._context.enforcer, req.context
        by = requester(enforcer, context, d)
        if used := body.get("although_used"):
            if wanted is not None:
                text = "cannot be given with 'although_used', which abandons nothing"
                raise inputs.invalid_field("types", text, problem="types_with_although_used")
            if not enforcer.may(context, policies.FORCE):
                text = "only an admin of the whole cloud may have deleted what other projects use"
                raise ApiError(403, "forbidden", text)
            return OverruleUses(by=by, seen=d, reason=reason, uses={one: self._users(d, one) for one in used})
        if wanted is not None and forced_types(d, by, reason) == frozenset(wanted):
            return None
        types = self._types(d, wanted)
        # While a worker answered, the deletion may have ended, or another one may have begun.
        d = self._forcible(req, d.project_id, d)
        by, names = requester(enforcer, context, d), None if wanted is None else tuple(wanted)
        return AbandonLeftovers(by=by, seen=d, reason=reason, wanted=names, types=types)

    def _permitted(self, req: webob.Request, project_id: str) -> Deletion | None:
        """Return the project's live deletion if the requester may force it, or ``None``.

        :raises ApiError: 403 if the requester may force no deletion
        """
        d: Deletion | None = self._context.store.live(project_id) if ids.is_id(project_id) else None
        if d and self._context.enforcer.may_about(req.context, policies.FORCE, d):
            return d
        if not self._context.enforcer.may_somewhere(req.context, policies.FORCE):
            raise ApiError(403, "forbidden", "only an admin may force a deletion")
        return None

    def _forcible(self, req: webob.Request, project_id: str, checked: Deletion | None = None) -> Deletion:
        """Return the project's live deletion if it can be forced now.

        :param checked: the deletion for which a worker has answered that the types can be forced
        :raises ApiError: 403; 409
        """
        with self._refusals(req):
            d = check_forcible(self._permitted(req, project_id), checked)
        our_log.about(d.id, d.project_id)
        self._refuse_protected(d)
        return d

    def _users(self, d: Deletion, used: str) -> tuple[tuple[str, str], ...]:
        """Return the type and the id of each resource of other projects that a leftover names as its user.

        :raises ApiError: 400 there is no such leftover, or it does not name all of them
        """
        name, _, id_ = used.partition(":")
        service, _, type_ = name.rpartition(".")
        rows = self._context.store.leftovers(
            d.id, 10, None, {Reason.FOREIGN}, service=service, type=type_, resource_id=id_
        )
        users = dict.fromkeys((b["type"], b["id"]) for row in rows for b in row.leftover.blocked_by)
        if not users:
            text = f"has {used}, which is not left because another project uses it (reason foreign)"
            raise inputs.invalid_field("although_used", text)
        if any(len(row.leftover.blocked_by) >= MAX_BLOCKERS for row in rows):
            text = f"has {used}, which has more users than a leftover names: end some of these uses first"
            raise inputs.invalid_field("although_used", text)
        return tuple(users)

    def _types(self, d: Deletion, wanted: list[str] | None) -> tuple[str, ...]:
        """Return the types whose force is used.

        :param wanted: the types that the request names; ``None``: all types whose force may be used
        :raises ApiError: 400 for a type that has no force, or whose force the operator excluded; 503 if force cannot
            be used on what is left, or if no worker answers
        """
        answer = self._context.engine.force(d.id)
        if answer is None:
            text = (
                "no worker answers which types may be forced: check that a worker of this release runs, and try again"
            )
            raise ApiError(503, "force_unavailable", f"{text}. Nothing was changed")
        if unknown := sorted(set(wanted or ()) - set(answer)):
            known = ", ".join(sorted(answer)) or "none"
            text = f"has {unknown[0]}, which cannot be forced; types that can be: {known}"
            raise inputs.invalid_field("types", text)
        types = tuple(sorted(answer if wanted is None else set(wanted)))
        if refused := [answer[name] for name in types if answer[name]]:
            text = f"{'; '.join(refused)}. Nothing was changed. To keep these, name only the others in 'types'"
            raise ApiError(503, "force_unavailable", text, problem="force_refused", refusals=refused)
        return types
