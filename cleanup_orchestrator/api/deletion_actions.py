"""``/v1/deletions/{id}`` and ``/v1/deletions/{id}/{action}``: changes of one deletion."""

from __future__ import annotations

import dataclasses
from typing import Any

import pecan
import webob
from oslo_log import log

from cleanup_orchestrator.api import policies, requests
from cleanup_orchestrator.api.context import Body
from cleanup_orchestrator.api.deletion import DeletionHandlers, requester
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.deletion import Deletion, Status
from cleanup_orchestrator.core.proposals import Approve, Change, Retry, Stop, is_stopped

LOG = log.getLogger(__name__)


class DeletionActions(DeletionHandlers):
    """The handlers that change one deletion."""

    @pecan.expose("json")
    def change(self, req: webob.Request, resp: webob.Response, deletion_id: str, body: Body) -> dict[str, Any]:
        """Change the date, the reason or the ticket of a deletion, and of those below it.

        :raises ApiError: 400; 403 forbidden; 404 deletion_not_found; 409 not_changeable, conflict
        """
        below = self._live_below(deletion_id) if self._changed(req, deletion_id, body, only_check=True) else []
        for child_id in below:  # before any is changed
            self._changed(req, child_id, body, only_check=True)
        for each in (*reversed(below), deletion_id):
            self._changed(req, each, body)
        return self._shown(req, deletion_id)

    def _changed(self, req: webob.Request, deletion_id: str, body: Body, only_check: bool = False) -> Deletion:
        """Change one deletion, and return it as the policy saw it.

        :param only_check: do not change it
        :raises ApiError: 400; 403; 404; 409
        """
        d = self._find(req, policies.SET, deletion_id, self._context.store.get)
        allowed = {r for r in (policies.SET, policies.POSTPONE) if self._context.enforcer.may_about(req.context, r, d)}
        if not allowed:
            raise self._refused(req, policies.SET)
        fields: dict[str, Any] = dict(requests.texts(body))
        if "not_before" in body:
            now = self._context.store.now()
            fields["not_before"] = requests.date(self._context, body["not_before"], d.created_at, now)
        may = {"may_change": policies.SET in allowed, "may_postpone": policies.POSTPONE in allowed}
        change = Change(by=requester(self._context.enforcer, req.context, d), seen=d, fields=fields, **may)
        if only_check:
            with self._refusals(req):
                self._context.store.consider(change)
        elif event := self._propose(req, change):
            LOG.info("%s", event.message)
        return d

    @pecan.expose("json")
    def retry(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Start a new attempt; if the deletion is under way, let its waiting steps try again at once.

        :raises ApiError: 400; 403 forbidden, project_protected; 404 deletion_not_found; 409 not_retryable,
            project_has_liens, deletion_under_way, conflict; 429 deletion_limit_reached
        """
        d = self._get(req, policies.RETRY, deletion_id)
        by = requester(self._context.enforcer, req.context, d)
        # Nothing is recorded anew, so no daily limit counts.
        limits = dataclasses.replace(self._limits(req), daily_per_requester=0, daily_per_domain=0)
        if event := self._propose(req, Retry(by=by, seen=d, protected=self._why_protected(d), limits=limits)):
            LOG.info("%s", event.message)
        return self._shown(req, deletion_id)

    @pecan.expose("json")
    def cancel(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Stop the deletion and those below it, and undo the drain.

        Deleted resources stay deleted.

        :raises ApiError: 400; 403 forbidden; 404 deletion_not_found; 409 not_cancellable, conflict
        """
        return self._stop(req, deletion_id)

    @pecan.expose("json")
    def restore(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Cancel the deletion, only before the point of no return.

        :raises ApiError: 400; 403 forbidden; 404 deletion_not_found; 409 not_restorable, conflict
        """
        return self._stop(req, deletion_id, restore=True)

    @pecan.expose("json")
    def approve(self, req: webob.Request, resp: webob.Response, deletion_id: str, body: Body) -> dict[str, Any]:
        """Approve a deletion that exceeds a limit.

        Users who requested, retried or forced the deletion cannot approve it.

        :raises ApiError: 400; 403 forbidden, self_approval, delegated_approval; 404 deletion_not_found;
            409 not_awaiting_approval, conflict
        """
        reason = body["reason"].strip()
        d = self._get(req, policies.APPROVE, deletion_id)
        by = requester(self._context.enforcer, req.context, d)
        if event := self._propose(req, Approve(by=by, seen=d, reason=reason)):
            LOG.warning("%s", event.message)
        return self._shown(req, deletion_id)

    def _stop(self, req: webob.Request, deletion_id: str, restore: bool = False) -> dict[str, Any]:
        """Stop the deletions below one, then the deletion itself.

        This order allows a repeat of a request that broke off: if the deletion is stopped already, the deletions below
        it are stopped that still run.

        :raises ApiError: 400; 403; 404; 409
        """
        rule = policies.RESTORE if restore else policies.CANCEL
        if refused := self._try_stop(req, rule, deletion_id, restore, only_check=True):
            d = self._context.store.get(deletion_id)
            if d.status not in (Status.CANCELLING, Status.CANCELLED) or not is_stopped(d, restore):
                raise refused
        stopped = self._stop_below(req, rule, deletion_id)
        refused = self._try_stop(req, rule, deletion_id, restore)
        # It was stopped before, or ended meanwhile because nothing below it is left to wait for.
        if refused and not (stopped and is_stopped(self._context.store.get(deletion_id), restore)):
            raise refused
        return self._shown(req, deletion_id)

    def _stop_below(self, req: webob.Request, rule: str, deletion_id: str) -> bool:
        """Stop the deletions below one, deepest first; return whether any was stopped.

        Skips those that can no longer be cancelled.

        :param rule: the rule of the request
        :raises ApiError: 403; 404; 409 conflict
        """
        live = self._live_below(deletion_id)
        for child_id in live:  # before any is stopped
            self._try_stop(req, rule, child_id, only_check=True)
        return None in [self._try_stop(req, rule, child_id) for child_id in reversed(live)]

    def _live_below(self, deletion_id: str) -> list[str]:
        """Return the ids of the live deletions below one, those above first."""
        waiting, live = [deletion_id], []
        while waiting:
            for child in self._context.store.load(waiting.pop(0))[0].children:
                waiting.append(child.deletion_id)
                if child.status in transitions.LIVE:
                    live.append(child.deletion_id)
        return live

    def _try_stop(
        self, req: webob.Request, rule: str, deletion_id: str, restore: bool = False, only_check: bool = False
    ) -> ApiError | None:
        """Stop a deletion; return why its status does not allow it.

        :param rule: the rule of the request
        :param only_check: do not stop it
        :raises ApiError: 403 forbidden; 404 deletion_not_found; 409 conflict
        """
        d = self._get(req, rule, deletion_id)
        stop = Stop(by=requester(self._context.enforcer, req.context, d), seen=d, restore=restore)
        try:
            if only_check:
                with self._refusals(req):
                    self._context.store.consider(stop)
            elif event := self._propose(req, stop):
                LOG.info("%s", event.message)
        except ApiError as refused:
            if refused.code == stop.refusal:
                return refused
            raise
        return None
