"""``/v1/projects/{id}/force``: lets a stuck deletion abandon what is left."""

from __future__ import annotations

import dataclasses
from typing import Any

import pecan
import webob
from oslo_log import log

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator import store as storage
from cleanup_orchestrator.api import policies, schemas
from cleanup_orchestrator.api.deletion import TRIES, DeletionHandlers, href, user_event, with_rank
from cleanup_orchestrator.api.deletion_actions import changes_too_fast
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.core import force, transitions
from cleanup_orchestrator.core.deletion import Deletion, Force, Mode, Origin, RoundPurpose, Status, UseDecision
from cleanup_orchestrator.core.journal import EventType
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import MOST_BLOCKERS

LOG = log.getLogger(__name__)


class Forcing(DeletionHandlers):
    """The handler."""

    @pecan.expose("json")
    def force(self, req: webob.Request, resp: webob.Response, project_id: str) -> dict[str, Any]:
        """Record that the project's deletion abandons what it cannot delete.

        :raises ApiError: 400 invalid_json, invalid_body; 403 forbidden, project_protected; 409 no_deletion_under_way,
            not_forcible, conflict; 415; 503 force_unavailable
        """
        schemas.check_query(req, schemas.NOTHING)
        self._permitted(req, project_id)
        body = schemas.check_body(req, schemas.FORCE_BODY)
        d = self._forcible(req, project_id)
        reason, wanted = body["reason"].strip(), body.get("types")
        if used := body.get("although_used"):
            if wanted is not None:
                raise schemas.invalid_field("types", "cannot be given with 'although_used', which abandons nothing")
            self._overrule_uses(req, d, reason, used)
        elif wanted is None or self._before(req, d, reason) != set(wanted):
            self._record(req, d, reason, wanted, self._types(d, wanted))
        resp.status = 202
        resp.headers["Location"] = href(req, d.id)
        return self._shown(req, d.id)

    def _permitted(self, req: webob.Request, project_id: str) -> Deletion | None:
        """Return the project's live deletion if the requester may force it, or ``None``.

        :raises ApiError: 403 if the requester may force no deletion
        """
        d: Deletion | None = self._context.store.live(project_id) if schemas.is_project_id(project_id) else None
        if d and self._context.enforcer.may_about(req.context, policies.FORCE, d):
            return d
        if not self._context.enforcer.may_somewhere(req.context, policies.FORCE):
            raise ApiError(403, "forbidden", "only an admin may force a deletion")
        return None

    def _forcible(self, req: webob.Request, project_id: str) -> Deletion:
        """Return the project's live deletion if it can be forced now.

        :raises ApiError: 403; 409
        """
        if (d := self._permitted(req, project_id)) is None:
            text = "no deletion of this project is under way: request one first (POST /v1/deletions, mode cascade), "
            text += "and force it if it cannot continue"
            raise ApiError(409, "no_deletion_under_way", text)
        our_log.about(d.id, d.project_id)
        if not transitions.forcible(d):
            raise ApiError(409, "not_forcible", _why_not(d), deletion_id=d.id, status_now=str(d.status))
        self._refuse_protected(d)
        return d

    def _overrule_uses(self, req: webob.Request, checked: Deletion, reason: str, used: list[str]) -> None:
        """Record that resources are deleted although other projects use them.

        The uses that are on record now are overruled, and no others. The delete may harm projects of other domains. So
        the requester must be allowed to force the deletion of every project.

        :raises ApiError: 400 for a resource that is not left because of such a use; 403; 409
        """
        if not self._context.enforcer.may(req.context, policies.FORCE):
            text = "only an admin of the whole cloud may have deleted what other projects use"
            raise ApiError(403, "forbidden", text)
        for _ in range(TRIES):
            d = self._forcible(req, checked.project_id)
            context = req.context
            now = self._context.store.load(d.id)[2]
            new = Force(reason, (), now, d.attempt, d.round, context.user_id or "", context.user_name or "",
                        context.request_id, abandons=False)  # fmt: skip
            uses = [UseDecision(one, self._users(d, one), new.who) for one in dict.fromkeys(used)]
            if all(set(use.by) <= force.decided_uses(d).get(use.of, frozenset()) for use in uses):
                return
            after = force.with_decisions(d, dataclasses.replace(new, uses=tuple(uses)))
            after = dataclasses.replace(after, retry_now_at=now, wake_at=now, updated_at=now)
            named = "; ".join(f"{use.of}: {', '.join(f'{type_} {id_}' for type_, id_ in use.by)}" for use in uses)
            text = f"{new}: deleted although other projects use it: {named}"
            data = {"reason": reason, "types": [], "although_used": [use.to_dict() for use in uses]}
            event = user_event(req, EventType.DELETION_FORCED, text, data)
            event = with_rank(self._context.enforcer, context, event, d)
            try:
                self._context.store.save(d, after, [], [event])
            except storage.Conflict:
                continue
            LOG.warning("%s", text)
            self._cast(d.id)
            return
        raise changes_too_fast()

    def _users(self, d: Deletion, used: str) -> tuple[tuple[str, str], ...]:
        """Return the type and the id of each resource of other projects that a leftover names as its user.

        :raises ApiError: 400 there is no such leftover, or it does not name all of them
        """
        name, _, id_ = used.partition(":")
        service, _, type_ = name.rpartition(".")
        rows = self._context.store.leftovers(
            d.id, 10, None, {Reason.FOREIGN}, service=service, type=type_, resource_id=id_
        )
        found = dict.fromkeys((b["type"], b["id"]) for row in rows for b in row.leftover.blocked_by)
        if not found:
            text = f"has {used}, which is not left because another project uses it (reason foreign)"
            raise schemas.invalid_field("although_used", text)
        if any(len(row.leftover.blocked_by) >= MOST_BLOCKERS for row in rows):
            text = f"has {used}, which has more users than a leftover names: end some of these uses first"
            raise schemas.invalid_field("although_used", text)
        return tuple(found)

    @staticmethod
    def _before(req: webob.Request, d: Deletion, reason: str) -> set[str] | None:
        """Return the types of an earlier request by the same user with the same reason.

        For these types the force does not start again.
        """
        asked = force.asked(d)
        if asked is None or (asked.user_id, asked.reason) != (req.context.user_id or "", reason):
            return None
        return set(asked.types)

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
            raise schemas.invalid_field("types", text)
        types = tuple(sorted(answer if wanted is None else set(wanted)))
        if refused := [answer[name] for name in types if answer[name]]:
            text = f"{'; '.join(refused)}. Nothing was changed. To keep these, name only the others in 'types'"
            raise ApiError(503, "force_unavailable", text)
        return types

    def _record(
        self,
        req: webob.Request,
        checked: Deletion,
        reason: str,
        wanted: list[str] | None,
        types: tuple[str, ...],
    ) -> None:
        """Store the force; repeat it if an engine or a worker writes at the same time.

        While a worker answered, the deletion may have ended, or another request may have recorded the same force.

        :param checked: the deletion for which a worker has answered that the types can be forced
        :raises ApiError: 403; 409
        """
        for _ in range(TRIES):
            found = self._forcible(req, checked.project_id)
            if (found.id, found.attempt) != (checked.id, checked.attempt):
                text = "the deletion changed during the request: see its leftovers, and force it if it cannot continue"
                raise ApiError(409, "conflict", text, deletion_id=found.id)
            d, steps, now = self._context.store.load(found.id)
            if d.version != found.version:
                continue
            if _repeats(self._before(req, d, reason), wanted, types):
                return
            context = req.context
            who = (context.user_id or "", context.user_name or "", context.request_id)
            asked = Force(reason, types, now, d.attempt, d.round, *who, uses=force.decisions(d))
            after = dataclasses.replace(d, forced=asked, progress_at=now, wake_at=now, updated_at=now)
            # This force tries again what an earlier force abandoned.
            anew = [s for s in steps if s.abandoned or s.unseen or s.forcing]
            cleared = [dataclasses.replace(s, abandoned=0, unseen=False, forcing=False) for s in anew]
            text = f"{asked}: what cannot be deleted is abandoned from now on"
            event = user_event(req, EventType.DELETION_FORCED, text, {"reason": reason, "types": list(types)})
            event = with_rank(self._context.enforcer, context, event, d)
            try:
                self._context.store.save(d, after, cleared, [event])
            except storage.Conflict:
                continue
            LOG.warning("%s", text)
            self._cast(d.id)
            return
        raise changes_too_fast()


def _repeats(before: set[str] | None, wanted: list[str] | None, types: tuple[str, ...]) -> bool:
    """Return whether a request repeats an earlier one of the same user with the same reason.

    A request for all types is a repetition as long as no new type is affected.

    :param before: the types of the earlier request; ``None``: there is none
    """
    if before is None:
        return False
    return before.issuperset(types) if wanted is None else before == set(types)


def _why_not(d: Deletion) -> str:
    if d.mode is not Mode.CASCADE or d.dry_run:
        if d.mode is Mode.EMPTY and not d.dry_run:
            return "mode empty keeps the project with what cannot be deleted, so there is nothing to force"
        text = "a dry run" if d.dry_run else "mode report"
        text += " deletes nothing, so there is nothing to force"
        return f"{text}: cancel the deletion or wait for its end, and request one with mode cascade"
    if d.origin is not Origin.REQUEST:
        return "an adopted deletion cannot be forced: see its blockers, and delete what blocks it by hand"
    if d.status is Status.CANCELLING:
        return "the deletion is being cancelled: request a new one when that has ended"
    if d.purpose is RoundPurpose.PROJECT_SETTINGS:
        return "the project is being removed: nothing is left to force"
    return f"the deletion deletes nothing yet ({d.status}): see its blockers; force it in status deleting or verifying"
