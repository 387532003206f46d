"""``/v1/projects/{id}/force``: let a deletion that is under way and cannot go on let go of what is left."""

from __future__ import annotations

import dataclasses
from typing import Any

import pecan
import webob
from oslo_log import log

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator import store as storage
from cleanup_orchestrator.api import policies, schemas
from cleanup_orchestrator.api.deletions import TRIES, Deletions
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.core import force, transitions
from cleanup_orchestrator.core.deletion import Deletion, Force, Mode, RoundPurpose, Status

LOG = log.getLogger(__name__)


class Forcing(Deletions):
    """The handler, with the means of those of deletions: what is forced is one of them."""

    @pecan.expose("json")
    def force(self, req: webob.Request, resp: webob.Response, project_id: str) -> dict[str, Any]:
        """Record that the project's deletion lets go of what it cannot delete.

        :raises ApiError: 400 invalid_json, invalid_body; 403 forbidden, project_protected; 409 no_deletion_under_way,
            not_forcible, conflict; 415; 503 force_unavailable
        """
        schemas.check_query(req, schemas.NOTHING)
        self._permitted(req, project_id)
        body = schemas.check_body(req, schemas.FORCE_BODY)
        d = self._forcible(req, project_id)
        reason, wanted = body["reason"].strip(), body.get("types")
        before = self._before(req, d, reason)
        if wanted is None or before != set(wanted):
            types = self._types(d, wanted)
            # "All" is the same words as long as none has come to it; the fewer are left, the fewer "all" is.
            if before is None or wanted is not None or not before.issuperset(types):
                self._record(req, project_id, reason, types)
        resp.status = 202
        resp.headers["Location"] = self._href(req, d.id)
        return self._shown(req, d.id)

    def _permitted(self, req: webob.Request, project_id: str) -> Deletion | None:
        """Return the project's live deletion; ``None``: there is none, or not for this requester.

        :raises ApiError: 403 for who may force nothing
        """
        d = self._w.store.live(project_id) if schemas.is_project_id(project_id) else None
        if d and self._w.enforcer.may(req.context, policies.FORCE, d.domain_id, d.project_id):
            return d
        if not self._w.enforcer.may_somewhere(req.context, policies.FORCE):
            raise ApiError(403, "forbidden", "only an admin may force a deletion")
        return None

    def _forcible(self, req: webob.Request, project_id: str) -> Deletion:
        """Return the project's live deletion, if it can be forced now.

        :raises ApiError: 403; 409
        """
        if (d := self._permitted(req, project_id)) is None:
            text = (
                "no deletion of this project is under way: ask for one first (POST /v1/deletions, mode cascade), and "
            )
            text += "force it once it cannot go on"
            raise ApiError(409, "no_deletion_under_way", text)
        our_log.about(d.id, d.project_id)
        if not transitions.forcible(d):
            raise ApiError(409, "not_forcible", _why_not(d), deletion_id=d.id, status_now=str(d.status))
        self._refuse_protected(d)
        return d

    @staticmethod
    def _before(req: webob.Request, d: Deletion, reason: str) -> set[str] | None:
        """Return the types for which it was asked already, in the same words: for these it does not begin anew."""
        asked = force.asked(d)
        if asked is None or (asked.user_id, asked.reason) != (req.context.user_id or "", reason):
            return None
        return set(asked.types)

    def _types(self, d: Deletion, wanted: list[str] | None) -> tuple[str, ...]:
        """Return the types whose force is to be used.

        :param wanted: none: all of which it may be
        :raises ApiError: 400 for one that has no force, or whose force the operator excluded; 503 when force cannot be
            used on what is left, or nobody can tell
        """
        answer = self._w.engine.force(d.id)
        if answer is None:
            text = "no worker says what force may be used on: see that one runs, of this release, and try again"
            raise ApiError(503, "force_unavailable", f"{text}; nothing was changed")
        if unknown := sorted(set(wanted or ()) - set(answer)):
            known = ", ".join(sorted(answer)) or "none"
            text = f"'types' has {unknown[0]}, on which no force may be used; it may be on: {known}"
            raise ApiError(400, "invalid_body", text, field="types")
        types = tuple(sorted(answer if wanted is None else set(wanted)))
        if refused := [answer[name] for name in types if answer[name]]:
            text = f"{'; '.join(refused)}. Nothing was changed. Name 'types' without these to leave them as they are"
            raise ApiError(503, "force_unavailable", text)
        return types

    def _record(self, req: webob.Request, project_id: str, reason: str, types: tuple[str, ...]) -> None:
        """Write it down, against whatever engines and workers write at the same time.

        :raises ApiError: 403; 409
        """
        for _ in range(TRIES):
            found = self._forcible(req, project_id)
            d, steps, now = self._w.store.load(found.id)
            if d.version != found.version:
                continue
            context = req.context
            who = (context.user_id or "", context.user_name or "", context.request_id)
            asked = Force(reason, types, now, d.attempt, d.round, *who)
            after = dataclasses.replace(d, forced=asked, progress_at=now, wake_at=now, updated_at=now)
            # What an earlier force let go of is tried once more by this one.
            anew = [s for s in steps if s.abandoned or s.unseen or s.forcing]
            cleared = [dataclasses.replace(s, abandoned=0, unseen=False, forcing=False) for s in anew]
            text = f"{asked}: what cannot be deleted is let go of from now on"
            event = self._event(req, "deletion.forced", text, {"reason": reason, "types": list(types)})
            try:
                self._w.store.save(d, after, cleared, [event])
            except storage.Conflict:
                continue
            LOG.warning("%s", text)
            self._cast(d.id)
            return
        raise ApiError(409, "conflict", "the deletion changes too fast at the moment: try again")


def _why_not(d: Deletion) -> str:
    if d.mode is not Mode.CASCADE or d.dry_run:
        text = "it only looks" if d.dry_run else "a report deletes nothing, so there is nothing to force"
        return f"{text}: cancel it, or wait for its end, and ask for a deletion with mode cascade"
    if d.status is Status.CANCELLING:
        return "it is being cancelled: ask for a new deletion when that is over"
    if d.purpose is RoundPurpose.PROJECT_SETTINGS:
        return "the project is being removed: nothing is left to force"
    return f"it is not deleting yet ({d.status}): see its blockers; force it once it is 'deleting' or 'verifying'"
