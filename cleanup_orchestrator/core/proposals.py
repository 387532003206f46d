"""What users ask of a deletion that is on record: a change of the request, an approval, a retry, a stop, force. Pure.

``apply`` answers a proposal on the same facts to which its change is applied: the store calls it while it locks the
deletion. The API checks the policy first. ``Proposal.seen`` is the deletion that it checked.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from cleanup_orchestrator.core import approvals, force, plans, transitions
from cleanup_orchestrator.core.actions import Applied
from cleanup_orchestrator.core.approvals import Requests
from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import (
    Approval,
    Deletion,
    DeletionView,
    Force,
    RoundPurpose,
    Status,
    UseDecision,
)
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.request_limits import UNLIMITED, RequestLimits
from cleanup_orchestrator.core.step import Step, StepKind, StepState
from cleanup_orchestrator.core.times import utc

#: Says that the deletion is no longer as the policy was checked for it, or that others write it all the time.
TOO_FAST = "the deletion changes too fast at the moment: try again"


class Refused(Exception):
    """A proposal that the deletion does not allow. The API answers with the code."""

    def __init__(self, code: str, text: str = "", **facts: Any) -> None:
        super().__init__(text)
        self.code, self.text = code, text
        self.facts = facts  #: further members of the answer


@dataclasses.dataclass(frozen=True, slots=True)
class Requester:
    """The user who makes a request."""

    user_id: str = ""
    user_name: str = ""
    request_id: str = ""  #: of the API call
    trust_user_ids: tuple[str, ...] = ()  #: trustor and trustee, if the token is one of a trust
    delegated: bool = False  #: whether the token is one of a trust or of OAuth1: another user may hold it
    is_admin: bool = False  #: whether the user may stop the deletions of admins

    def __str__(self) -> str:
        """Return the name for people."""
        return self.user_name or self.user_id or "an unknown user"

    def event(self, type_: str, message: str, data: Mapping[str, Any]) -> Event:
        """Return a journal line of the request. A request to begin, retry or force a deletion has the user's rank."""
        if self.trust_user_ids:
            data = {**data, approvals.TRUST_USER_IDS: list(self.trust_user_ids)}
        if self.is_admin and type_ in approvals.REQUEST_EVENTS:
            data = {**data, approvals.BY_ADMIN: True}
        return Event(type_, message, self.user_id, data, self.request_id)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Proposal:
    """A user's request for a change of one deletion."""

    by: Requester
    seen: Deletion  #: the deletion for which the policy allows the request


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change(_Proposal):
    """Change the date, the reason or the ticket of the request."""

    fields: Mapping[str, Any]  #: by name: the new values of ``CHANGEABLE``, those that are given
    may_change: bool = True  #: whether the policy allows every change, unless the deletion is an admin's
    may_postpone: bool = False  #: whether the policy allows a later date, also of an admin's deletion


#: The fields of a deletion that a user can change.
CHANGEABLE = ("not_before", "request_reason", "ticket")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Approve(_Proposal):
    """Approve that the deletion exceeds a limit."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Retry(_Proposal):
    """Begin a new attempt; of a live deletion, end its waiting times."""

    protected: str = ""  #: why the project is never deleted; empty: it may be deleted
    limits: RequestLimits = UNLIMITED  #: the store checks them if the deletion becomes live again


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stop(_Proposal):
    """Cancel the deletion."""

    restore: bool = False  #: only before anything is deleted

    @property
    def refusal(self) -> str:
        """The code of the refusal by a deletion whose status does not allow it."""
        return "not_restorable" if self.restore else "not_cancellable"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AbandonLeftovers(_Proposal):
    """Abandon by force what cannot be deleted."""

    reason: str
    wanted: tuple[str, ...] | None  #: the types that the request names; ``None``: all that can be forced
    types: tuple[str, ...]  #: the types whose force is used


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OverruleUses(_Proposal):
    """Delete resources although other projects use them: by these uses, and no others."""

    reason: str
    uses: Mapping[str, tuple[tuple[str, str], ...]]  #: the (type, id) of each user, by resource


Proposal = Change | Approve | Retry | Stop | AbandonLeftovers | OverruleUses


def apply(
    proposal: Proposal, deletion: DeletionView, steps: Sequence[Step], now: datetime.datetime, requests: Requests
) -> Applied | None:
    """Return what a proposal makes of a deletion, with one journal line; ``None``: there is nothing to change.

    :param steps: all of the deletion
    :param requests: of the deletion and those above it
    :raises Refused: the deletion does not allow it
    """
    seen = proposal.seen
    if (deletion.domain_id, deletion.project_name) != (seen.domain_id, seen.project_name):
        raise Refused("conflict", TOO_FAST)  # the policy and the never-delete list were checked for another one
    match proposal:
        case Change():
            return _change(proposal, deletion, steps, now, requests)
        case Approve():
            return _approve(proposal, deletion, steps, now, requests)
        case Retry():
            return _retry(proposal, deletion, now)
        case Stop():
            return _stop(proposal, deletion, steps, now, requests)
        case AbandonLeftovers():
            return _abandon_leftovers(proposal, deletion, steps, now)
        case OverruleUses():
            return _overrule_uses(proposal, deletion, now)


def _applied(deletion: Deletion, event: Event, steps: tuple[Step, ...] = ()) -> Applied:
    return Applied(deletion, steps, (event,), casts=(), decide_again=False)


# -- change
def _change(
    proposal: Change, d: Deletion, steps: Sequence[Step], now: datetime.datetime, requests: Requests
) -> Applied | None:
    if not transitions.retries_in_place(d):
        text = f"{_named(d)} is {d.status}: only one that is under way can be changed"
        raise Refused("not_changeable", text, status_now=str(d.status))
    fields = proposal.fields
    postpones = fields.keys() == {"not_before"} and fields["not_before"] >= d.begins_at
    if not (proposal.may_postpone and postpones):
        if not proposal.may_change:
            raise Refused("forbidden", "you may only move the date of this deletion to a later one")
        if requests.of_admin and not proposal.by.is_admin:
            raise Refused("forbidden", _OF_ADMIN.format(deletion=_named(d), verb="change it"))
    new = {name: value for name, value in fields.items() if value != getattr(d, name)}
    if not new:
        return None
    if "not_before" in new:
        _check_begin(d, steps)
        # A date that has passed meanwhile would count before cascades that have begun without counting this one. An
        # approval was given for the day of the old date.
        new |= {"not_before": max(new["not_before"], now), "approvals": ()}
    names = sorted(new.keys() & _CHANGED.keys())
    was = {name: getattr(d, name) for name in names}
    text = ", ".join(f"{_CHANGED[name]} {_said(new[name])} instead of {_said(was[name])}" for name in names)
    data = {name: {"from": _stored(was[name]), "to": _stored(new[name])} for name in names}
    after = dataclasses.replace(d, **new, updated_at=now, wake_at=now)
    return _applied(after, proposal.by.event(EventType.DELETION_CHANGED, f"changed by {proposal.by}: {text}", data))


_OF_ADMIN = "an admin has requested, retried or forced {deletion}, or one above it: only an admin may {verb}"
_CHANGED = {"not_before": "it begins at", "request_reason": "its reason is", "ticket": "its ticket is"}


def _check_begin(d: Deletion, steps: Sequence[Step]) -> None:
    """Check that a deletion has not begun.

    :raises Refused: if it has, or if it is a dry run, which has no date
    """
    facts = {"status_now": str(d.status)}
    if d.dry_run:
        raise Refused("not_changeable", f"{_named(d)} is a dry run, which has no date", **facts)
    survey = next(step for step in steps if step.kind is StepKind.SURVEY)
    # An earlier attempt counts on the day of its date: a later date would take it out of that count.
    if d.status is not Status.ACCEPTED or d.attempt > 1 or survey.round >= d.since_round:
        text = (
            f"{_named(d)} has begun, so its date can no longer be changed: cancel it, and request it with another date"
        )
        raise Refused("not_changeable", text, **facts)


def _named(d: Deletion) -> str:
    return f"deletion {d.id} of project {d.project_id}"


def _stored(value: Any) -> Any:
    return utc(value) if isinstance(value, datetime.datetime) else value


def _said(value: Any) -> str:
    return f"'{_stored(value)}'" if value else "none"


# -- approve
def _approve(
    proposal: Approve, d: Deletion, steps: Sequence[Step], now: datetime.datetime, requests: Requests
) -> Applied | None:
    by, asked = proposal.by, d.condition(ConditionType.APPROVAL)
    if asked is None or not transitions.retries_in_place(d):
        text = f"the deletion does not wait for an approval (it is {d.status})"
        raise Refused("not_awaiting_approval", text, status_now=str(d.status))
    if by.delegated:  # the token names one user, and another user may hold it
        text = "a token of a trust or of OAuth1 cannot approve a deletion: log in as the approving user"
        raise Refused("delegated_approval", text)
    if not by.user_id or by.user_id in requests.user_ids:
        text = "a user who requested, retried or forced a deletion cannot approve it: ask another user"
        raise Refused("self_approval", text)
    counted = asked.reason == approvals.TOO_MANY_RESOURCES
    given = Approval(
        needed=asked.reason,
        reason=proposal.reason,
        at=now,
        resources=approvals.affected_count(d, steps) if counted else 0,
        hash=plans.hash_of(steps) if counted else "",
        user_id=by.user_id,
        user_name=by.user_name,
        request_id=by.request_id,
    )
    # The engine has not decided since: a second request would only repeat the journal line.
    if (given.needed, given.resources, given.hash) in ((a.needed, a.resources, a.hash) for a in d.approvals):
        return None
    text = f"approved by {by} ({given.needed}, {given.resources} resources): {given.reason}"
    # progress_at: the time of waiting for the approval does not count as standstill.
    after = dataclasses.replace(d, approvals=(*d.approvals, given), updated_at=now, progress_at=now, wake_at=now)
    return _applied(after, by.event(EventType.DELETION_APPROVED, text, given.to_dict()))


# -- retry
def _retry(proposal: Retry, d: DeletionView, now: datetime.datetime) -> Applied | None:
    if transitions.retries_in_place(d):
        return _try_now(proposal, d, now)
    applied = _moved(proposal, d, Status.ACCEPTED, "retried", now)
    if applied is None:
        if d.status is Status.CANCELLING:
            text = "the deletion is being cancelled: wait for its end, then make a new request"
        else:
            text = f"the deletion has ended for good ({d.status}): make a new request"
        raise Refused("not_retryable", text, status_now=str(d.status))
    if proposal.protected:
        raise Refused("project_protected", proposal.protected, project_id=d.project_id)
    if d.liens and not d.dry_run:
        raise Refused("project_has_liens", liens=d.liens)
    return applied


def _try_now(proposal: Retry, d: Deletion, now: datetime.datetime) -> Applied | None:
    """Have the steps of a live deletion not wait for their next try.

    This asks for nothing that the deletion would not do later, so that the user may still approve it. It is no
    progress: otherwise one retry after the other would keep it from being stalled, and force from being used.
    """
    if d.not_before is not None and now < d.not_before and d.status is Status.ACCEPTED:
        text = f"the deletion begins at {utc(d.not_before)}: set its date to an earlier time to have it begin earlier"
        raise Refused("not_retryable", text, status_now=str(d.status))
    if transitions.retried_lately(d, now):
        return None
    text = f"retried by {proposal.by}: everything that waits for its next try is tried at once"
    after = dataclasses.replace(d, retry_now_at=now, updated_at=now, wake_at=now)
    return _applied(after, proposal.by.event(EventType.DELETION_RETRIED_NOW, text, {}))


# -- stop
def _stop(proposal: Stop, d: Deletion, steps: Sequence[Step], now: datetime.datetime, requests: Requests) -> Applied:
    if d.status in transitions.LIVE and requests.of_admin and not proposal.by.is_admin:
        raise Refused("forbidden", _OF_ADMIN.format(deletion=_named(d), verb="stop it. Ask an admin to cancel it"))
    restore, verb = proposal.restore, "restoring" if proposal.restore else "cancelling"
    applied = _moved(proposal, d, Status.CANCELLING, verb, now)
    if applied is not None and _is_being_removed(steps, now):
        raise Refused(proposal.refusal, _REMOVED, status_now=str(d.status))
    if applied is None or (restore and not transitions.restorable(d)):
        passed = utc(d.point_of_no_return_at) if d.point_of_no_return_at else None
        facts = {"point_of_no_return_at": passed} if restore else {}
        raise Refused(proposal.refusal, _why_not_stopped(d), **facts, status_now=str(d.status))
    return applied


_REMOVED = "the project is being removed: the deletion can no longer be stopped"


def _is_being_removed(steps: Sequence[Step], now: datetime.datetime) -> bool:
    """Whether a worker may be sending the delete of the project.

    It may be, though the round is no longer one that removes: what voids the lock does not wait for it.
    """
    removes = (s for s in steps if s.kind is StepKind.REMOVE and s.state is StepState.RUNNING)
    return any(s.lease_until is not None and s.lease_until > now for s in removes)


def is_stopped(d: Deletion, restore: bool) -> bool:
    """Return whether a deletion has already reached what a request to stop it asks for.

    It is stopped, the project still exists, and, for a restore, nothing was deleted.
    """
    if d.status is Status.DELETED or transitions.retries_in_place(d):
        return False
    return not restore or d.point_of_no_return_at is None


def _why_not_stopped(d: Deletion) -> str:
    if transitions.cancellable(d):
        since = utc(d.point_of_no_return_at or d.status_at)
        return f"the point of no return was passed at {since}: a cancel stops it, and what is deleted stays deleted"
    if d.status is Status.CANCELLING:
        return "the deletion is being cancelled already"
    if d.purpose is RoundPurpose.PROJECT_SETTINGS:
        return _REMOVED
    return f"the deletion has ended ({d.status}): there is nothing to cancel"


def _moved(proposal: Proposal, d: Deletion, to: Status, verb: str, now: datetime.datetime) -> Applied | None:
    """Return a deletion after a user's move; ``None``: its status does not allow the move."""
    message = f"{verb} by {proposal.by}" + ("; force is withdrawn" if force.asked(d) else "")
    try:
        after = transitions.move(d, to, transitions.By.USER, now, verb, message)
    except transitions.IllegalMove:
        return None
    backwards = to is Status.ACCEPTED
    data = {"from": str(d.status), "to": str(to), "attempt": after.attempt, "backwards": backwards}
    return _applied(after, proposal.by.event(f"deletion.{verb}", message, data))


# -- force
def _abandon_leftovers(
    proposal: AbandonLeftovers, d: Deletion, steps: Sequence[Step], now: datetime.datetime
) -> Applied | None:
    check_forcible(d, proposal.seen)
    by, types = proposal.by, proposal.types
    before = forced_types(d, by, proposal.reason)
    if before is not None and (before.issuperset(types) if proposal.wanted is None else before == set(types)):
        return None  # a request for all types repeats an earlier one as long as it adds no type
    asked = dataclasses.replace(_force(proposal, d, now), types=types, uses=force.decisions(d))
    after = dataclasses.replace(d, forced=asked, progress_at=now, wake_at=now, updated_at=now)
    # This force tries again what an earlier force abandoned.
    anew = [s for s in steps if s.abandoned or s.unseen or s.forcing]
    cleared = tuple(dataclasses.replace(s, abandoned=0, unseen=False, forcing=False) for s in anew)
    text = f"{asked}: what cannot be deleted is abandoned from now on"
    data = {"reason": asked.reason, "types": list(types)}
    return _applied(after, by.event(EventType.DELETION_FORCED, text, data), cleared)


def _overrule_uses(proposal: OverruleUses, d: Deletion, now: datetime.datetime) -> Applied | None:
    check_forcible(d, proposal.seen)
    new = dataclasses.replace(_force(proposal, d, now), abandons=False)
    uses = tuple(UseDecision(of, by, new.who) for of, by in proposal.uses.items())
    decided = force.decided_uses(d)
    if all(set(use.by) <= decided.get(use.of, frozenset()) for use in uses):
        return None
    after = force.with_decisions(d, dataclasses.replace(new, uses=uses))
    after = dataclasses.replace(after, retry_now_at=now, wake_at=now, updated_at=now)
    named = "; ".join(f"{use.of}: {', '.join(f'{type_} {id_}' for type_, id_ in use.by)}" for use in uses)
    text = f"{new}: deleted although other projects use it: {named}"
    data = {"reason": new.reason, "types": [], "although_used": [use.to_dict() for use in uses]}
    return _applied(after, proposal.by.event(EventType.DELETION_FORCED, text, data))


def _force(proposal: AbandonLeftovers | OverruleUses, d: Deletion, now: datetime.datetime) -> Force:
    by = proposal.by
    return Force(proposal.reason, (), now, d.attempt, d.round, by.user_id, by.user_name, by.request_id)


def forced_types(d: Deletion, by: Requester, reason: str) -> frozenset[str] | None:
    """Return the types of an earlier request for force by the same user with the same reason.

    For these types the force does not start again.
    """
    asked = force.asked(d)
    if asked is None or (asked.user_id, asked.reason) != (by.user_id, reason):
        return None
    return frozenset(asked.types)


def check_forcible(d: Deletion | None, seen: Deletion | None = None) -> Deletion:
    """Return the live deletion of a project, if force is accepted for it.

    :param d: the deletion; ``None``: the project has none that the user may force
    :param seen: the deletion about which services were asked
    :raises Refused: force is not accepted
    """
    if d is None or d.status not in transitions.LIVE:
        text = "no deletion of this project is under way: request one first (POST /v1/deletions, mode cascade), "
        text += "and force it if it cannot continue"
        raise Refused("no_deletion_under_way", text)
    if not transitions.forcible(d):
        text, problem = _why_not_forced(d)
        facts = {"problem": problem} if problem else {}
        raise Refused("not_forcible", text, deletion_id=d.id, status_now=str(d.status), **facts)
    if seen is not None and (d.id, d.attempt) != (seen.id, seen.attempt):
        text = "the deletion changed during the request: see its leftovers, and force it if it cannot continue"
        raise Refused("conflict", text, deletion_id=d.id)
    return d


def _why_not_forced(d: Deletion) -> tuple[str, str]:
    """Return the text, and the problem if the text is in the words of the API (``api.errors.PROBLEMS``)."""
    if not d.profile.insists:
        if d.profile.keeps_project and not d.dry_run:
            text = "mode purge keeps the project with what cannot be deleted, so there is nothing to force"
            return text, "purge_keeps_project"
        text, problem = "mode report", "report_deletes_nothing"
        if d.dry_run:
            text, problem = "a dry run", "dry_run_deletes_nothing"
        text += " deletes nothing, so there is nothing to force"
        return f"{text}: cancel the deletion or wait for its end, and request one with mode cascade", problem
    if not d.profile.requested:
        return "an adopted deletion cannot be forced: see its blockers, and delete what blocks it by hand", ""
    if d.status is Status.CANCELLING:
        return "the deletion is being cancelled: request a new one when that has ended", ""
    if d.purpose is RoundPurpose.PROJECT_SETTINGS:
        return "the project is being removed: nothing is left to force", ""
    text = f"the deletion deletes nothing yet ({d.status}): see its blockers; force it in status deleting or verifying"
    return text, ""
