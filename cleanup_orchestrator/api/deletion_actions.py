"""``/v1/deletions/{id}/{action}``: retry, cancel, restore and approve."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any

import pecan
import webob
from oslo_log import log

from cleanup_orchestrator import store as storage
from cleanup_orchestrator.api import policies, schemas, views
from cleanup_orchestrator.api.deletion import (
    TRIES,
    DeletionHandlers,
    limit_reached,
    under_way,
    user_event,
    with_rank,
)
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.core import approvals, dry_runs, force, plans, transitions
from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import Approval, Deletion, RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.step import Step

LOG = log.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Action:
    """A user's action that moves a deletion to another status."""

    rule: str  #: the policy rule that allows it
    to: Status
    refusal: str  #: the error code if the deletion's status does not allow it
    verb: str  #: the journal's word for it; the event type is ``deletion.<verb>``


RETRY = Action(policies.RETRY, Status.ACCEPTED, "not_retryable", "retried")
CANCEL = Action(policies.CANCEL, Status.CANCELLING, "not_cancellable", "cancelling")
RESTORE = Action(policies.RESTORE, Status.CANCELLING, "not_restorable", "restoring")


#: Returns a deletion after a change, with its journal line, or ``None`` if there is nothing to change. It takes the
#: deletion, its steps, and the database's time.
Change = Callable[[Deletion, Sequence[Step], datetime.datetime], tuple[Deletion, Event] | None]


class DeletionActions(DeletionHandlers):
    """The handlers that change one deletion."""

    @pecan.expose("json")
    def retry(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Start a new attempt; of a deletion under way, try again at once what waits for its next try.

        :raises ApiError: 400; 403 forbidden, project_protected; 404 deletion_not_found; 409 not_retryable,
            project_has_liens, deletion_under_way, conflict; 429 deletion_limit_reached
        """
        schemas.check_query(req, schemas.NOTHING)
        schemas.check_body(req, schemas.NO_BODY)
        self._move(req, deletion_id, RETRY)
        resp.status = 202
        return self._shown(req, deletion_id)

    @pecan.expose("json")
    def cancel(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Stop the deletion and those below it, and undo the drain.

        Deleted resources stay deleted.

        :raises ApiError: 400; 403 forbidden; 404 deletion_not_found; 409 not_cancellable, conflict
        """
        return self._stop(req, resp, deletion_id, CANCEL)

    @pecan.expose("json")
    def restore(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Cancel the deletion, only before the point of no return.

        :raises ApiError: 400; 403 forbidden; 404 deletion_not_found; 409 not_restorable, conflict
        """
        return self._stop(req, resp, deletion_id, RESTORE)

    @pecan.expose("json")
    def approve(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Approve a deletion that exceeds a limit.

        Users who requested, retried or forced the deletion cannot approve it.

        :raises ApiError: 400; 403 forbidden, self_approval, delegated_approval; 404 deletion_not_found;
            409 not_awaiting_approval, conflict
        """
        schemas.check_query(req, schemas.NOTHING)
        reason = schemas.check_body(req, schemas.APPROVE_BODY)["reason"].strip()

        def approved(d: Deletion, steps: Sequence[Step], now: datetime.datetime) -> tuple[Deletion, Event]:
            after = self._approved(req, d, steps, reason, now)
            given = after.approvals[-1]
            text = f"approved by {_who(req)} ({given.needed}, {given.resources} resources): {reason}"
            return after, user_event(req, EventType.DELETION_APPROVED, text, given.to_dict())

        if event := self._changed(req, policies.APPROVE, deletion_id, approved):
            LOG.warning("%s", event.message)
        resp.status = 202
        return self._shown(req, deletion_id)

    def _approved(
        self, req: webob.Request, d: Deletion, steps: Sequence[Step], reason: str, now: datetime.datetime
    ) -> Deletion:
        """Return the deletion with the approval that it waits for.

        :raises ApiError: 403 self_approval, delegated_approval; 409 not_awaiting_approval
        """
        asked = d.condition(ConditionType.APPROVAL)
        if asked is None or d.status not in transitions.LIVE or d.status is Status.CANCELLING:
            text = f"the deletion does not wait for an approval (it is {d.status})"
            raise ApiError(409, "not_awaiting_approval", text, status_now=str(d.status))
        if req.context.delegated:  # the token names one user, and another user may hold it
            text = "a token of a trust or of OAuth1 cannot approve a deletion: log in as the approving user"
            raise ApiError(403, "delegated_approval", text)
        if not req.context.user_id or req.context.user_id in self._context.store.askers(d):
            text = "a user who requested, retried or forced a deletion cannot approve it: ask another user"
            raise ApiError(403, "self_approval", text)
        counted = asked.reason == approvals.TOO_MANY_RESOURCES
        given = Approval(
            needed=asked.reason,
            reason=reason,
            at=now,
            resources=approvals.to_go(d, steps) if counted else 0,
            hash=plans.hash_of(steps) if counted else "",
            user_id=req.context.user_id,
            user_name=req.context.user_name or "",
            request_id=req.context.request_id,
        )
        # progress_at: the time of waiting for the approval does not count as standstill.
        return dataclasses.replace(d, approvals=(*d.approvals, given), updated_at=now, progress_at=now, wake_at=now)

    def _stop(self, req: webob.Request, resp: webob.Response, deletion_id: str, action: Action) -> dict[str, Any]:
        """Stop the deletions below one, then the deletion itself.

        In this order the request can be repeated if it breaks off. For a deletion that is stopped already, stop what
        still runs below it.

        :raises ApiError: 400; 403; 404; 409
        """
        schemas.check_query(req, schemas.NOTHING)
        schemas.check_body(req, schemas.NO_BODY)
        d, _steps, now = self._load(req, action.rule, deletion_id)
        self._refuse_overruling(req, d)
        if d.status not in (Status.CANCELLING, Status.CANCELLED) or not _is_stopped(d, action):
            _moved(d, action, now)
        stopped = self._stop_below(req, deletion_id, action)
        try:
            self._move(req, deletion_id, action)
        except ApiError as refused:
            # It was stopped before, or ended meanwhile because nothing below it is left to wait for.
            if refused.code != action.refusal or not stopped:
                raise
            if not _is_stopped(self._context.store.get(deletion_id), action):
                raise
        resp.status = 202
        return self._shown(req, deletion_id)

    def _stop_below(self, req: webob.Request, deletion_id: str, action: Action) -> bool:
        """Stop the deletions below one, deepest first; return whether any was stopped.

        Skips those that can no longer be cancelled.

        :raises ApiError: 403; 404; 409 conflict
        """
        waiting, live, stopped = [deletion_id], [], False
        while waiting:
            for child in self._context.store.load(waiting.pop(0))[0].children:
                waiting.append(child.deletion_id)
                if child.status in transitions.LIVE:
                    live.append(child.deletion_id)
        for child_id in live:  # before any is stopped
            self._refuse_overruling(req, self._context.store.get(child_id))
        cancel = dataclasses.replace(action, refusal=CANCEL.refusal)
        for child_id in reversed(live):
            try:
                self._move(req, child_id, cancel)
                stopped = True
            except ApiError as refused:
                if refused.code != cancel.refusal:
                    raise
        return stopped

    def _move(self, req: webob.Request, deletion_id: str, action: Action) -> None:
        """Apply a user's action.

        :raises ApiError: 403; 404; 409
        """

        def moved(d: Deletion, _steps: Sequence[Step], now: datetime.datetime) -> tuple[Deletion, Event] | None:
            if action is RETRY and transitions.hurried(d):
                return None if transitions.hurried_lately(d, now) else _tried_now(req, d, now)
            return self._moved(req, d, action, now)

        if event := self._changed(req, action.rule, deletion_id, moved):
            LOG.info("%s", event.message)

    def _changed(self, req: webob.Request, rule: str, deletion_id: str, make: Change) -> Event | None:
        """Save what ``make`` returns, have an engine look at it, and return the journal line.

        If ``make`` returns ``None``, nothing is written, and there is no line. If an engine or a worker writes at the
        same time, it is made anew, with all checks.

        :raises ApiError: 403; 404; 409
        """
        for _ in range(TRIES):
            d, steps, now = self._load(req, rule, deletion_id)
            if (made := make(d, steps, now)) is None:
                return None
            after, event = made
            try:
                self._context.store.save(d, after, (), [event])
            except storage.Conflict:
                continue
            except storage.AlreadyUnderWay as other:
                if dry_runs.gives_way(other.existing, after):  # it was requested at this moment
                    continue
                raise under_way(other.existing) from None
            self._cast(deletion_id)
            return event
        raise changes_too_fast()

    def _refuse_more(self, req: webob.Request, d: Deletion) -> None:
        """Check that one more deletion may be under way. Nothing is recorded anew, so no daily limit counts.

        :raises ApiError: 429 deletion_limit_reached
        """
        limits = dataclasses.replace(self._limits(req), daily_per_requester=0, daily_per_domain=0)
        try:
            self._context.store.check_requests(d, limits)
        except storage.TooManyDeletions as many:
            raise limit_reached(many) from None

    def _moved(self, req: webob.Request, d: Deletion, action: Action, now: datetime.datetime) -> tuple[Deletion, Event]:
        """Return a deletion after a user's move, with its journal line.

        :raises ApiError: 403; 409; 429
        """
        message = f"{action.verb} by {_who(req)}" + ("; force is withdrawn" if force.asked(d) else "")
        after = _moved(d, action, now, message)
        backwards = action.to is Status.ACCEPTED
        if backwards:
            self._refuse_protected(d)
            if not d.dry_run:
                self._refuse_liens(req, [d.project_id])
            self._refuse_more(req, d)
        else:
            self._refuse_overruling(req, d)
        data = {"from": str(d.status), "to": str(action.to), "attempt": after.attempt, "backwards": backwards}
        event = user_event(req, f"deletion.{action.verb}", message, data)
        return after, with_rank(self._context.enforcer, req.context, event, d) if backwards else event

    def _refuse_overruling(self, req: webob.Request, d: Deletion) -> None:
        """Check that the requester may stop a deletion that an admin has requested, retried or forced.

        :raises ApiError: 403 forbidden
        """
        if self._context.enforcer.may_about(req.context, policies.CANCEL_OF_ADMIN, d):
            return
        if self._context.store.of_admin(d):
            text = (
                f"an admin has requested, retried or forced deletion {d.id} of project {d.project_id}, or one above "
                "it: only an admin may stop it. Ask an admin to cancel it"
            )
            raise ApiError(403, "forbidden", text)


def _who(req: webob.Request) -> str:
    return str(req.context.user_name or req.context.user_id or "an unknown user")


def _tried_now(req: webob.Request, d: Deletion, now: datetime.datetime) -> tuple[Deletion, Event]:
    """Return a deletion under way whose steps do not wait for their next try, with its journal line.

    This asks for nothing that the deletion would not do later, so that the user may still approve it. It is no
    progress: otherwise one retry after the other would keep it from being stalled, and force from being used.
    """
    after = dataclasses.replace(d, retry_now_at=now, updated_at=now, wake_at=now)
    text = f"retried by {_who(req)}: everything that waits for its next try is tried at once"
    return after, user_event(req, EventType.DELETION_RETRIED_NOW, text, {})


def changes_too_fast() -> ApiError:
    """Return the 409 for a change that could not be saved in ``TRIES`` attempts."""
    return ApiError(409, "conflict", "the deletion changes too fast at the moment: try again")


def _moved(d: Deletion, action: Action, now: datetime.datetime, message: str = "") -> Deletion:
    """Return a deletion after a user's action.

    :raises ApiError: 409
    """
    if action.refusal == RESTORE.refusal and not transitions.restorable(d):
        since = views.time(d.point_of_no_return_at)
        raise ApiError(409, action.refusal, _not_restorable(d), point_of_no_return_at=since, status_now=str(d.status))
    try:
        return transitions.move(d, action.to, transitions.By.USER, now, action.verb, message)
    except transitions.IllegalMove:
        raise ApiError(409, action.refusal, _why_not(d, action.to), status_now=str(d.status)) from None


def _is_stopped(d: Deletion, action: Action) -> bool:
    """Return whether the deletion has already reached what the action asks for.

    It is stopped, the project still exists, and, for a restore, nothing was deleted.
    """
    if d.status is Status.DELETED or (d.status in transitions.LIVE and d.status is not Status.CANCELLING):
        return False
    return action.refusal == CANCEL.refusal or d.point_of_no_return_at is None


def _not_restorable(d: Deletion) -> str:
    if transitions.cancellable(d):
        since = views.time(d.point_of_no_return_at or d.status_at)
        return f"the point of no return was passed at {since}: a cancel stops it, and what is deleted stays deleted"
    return _why_not(d, Status.CANCELLING)


def _why_not(d: Deletion, to: Status) -> str:
    if to is Status.CANCELLING:
        if d.status is Status.CANCELLING:
            return "the deletion is being cancelled already"
        if d.purpose is RoundPurpose.PROJECT_SETTINGS:
            return "the project is being removed: the deletion can no longer be stopped"
        return f"the deletion has ended ({d.status}): there is nothing to cancel"
    if d.status is Status.CANCELLING:
        return "the deletion is being cancelled: wait for its end, then make a new request"
    return f"the deletion has ended for good ({d.status}): make a new request"
