"""``/v1/deletions``: ask for deletions, follow them, retry and cancel them."""

from __future__ import annotations

import dataclasses
import functools
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pecan
import webob
from oslo_log import log

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator import store as storage
from cleanup_orchestrator.api import plans as api_plans
from cleanup_orchestrator.api import policies, schemas, views
from cleanup_orchestrator.api.context import ApiContext, tell_engine
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.api.paging import Paging
from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound
from cleanup_orchestrator.core import approvals, force, plans, transitions
from cleanup_orchestrator.core.deletion import Approval, Deletion, Mode, RoundPurpose, Status, accepted
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS, Step
from cleanup_orchestrator.drain import base as drain

LOG = log.getLogger(__name__)

#: So many times a user's move is tried against an engine that writes at the same time.
TRIES = 10
#: Of very many children the sentence names the first; the member ``children`` has them all.
_NAMED = 50


class Deletions:
    """The handlers; who is asking is ``request.context``."""

    def __init__(self, wiring: ApiContext) -> None:
        self._w = wiring

    # ------------------------------------------------------------------------------------------------- one and many
    @pecan.expose("json")
    def create(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Record a request for the deletion of a project, or return the same one that is under way.

        :raises ApiError: 400 invalid_json, invalid_body, project_is_domain; 403 forbidden, project_protected;
            404 project_not_found, plan_not_found; 409 project_has_children, subtree_too_large, project_has_liens,
            deletion_under_way, plan_unusable, conflict; 415; 503
        """
        schemas.check_query(req, schemas.NOTHING)
        body = schemas.check_body(req, schemas.CREATE_BODY)
        _check_plan(body)
        project = self._project(req.context, body["project_id"])
        our_log.about("-", project.id)
        self._refuse_protected(project)
        below = self._w.projects.subtree(project.id)
        if below and not body.get("include_subtree", False):
            raise _has_children(tuple(sorted(child for child, _parent in below)))
        if len(below) > (limit := self._w.max_subtree):
            text = f"there are {len(below)} projects below this one, and [deletion] max_subtree is {limit}"
            text += "; ask for the deletion of its parts, one by one"
            raise ApiError(409, "subtree_too_large", text, projects=len(below), limit=limit)
        plan_hash = ""
        if plan_id := body.get("plan_id", ""):
            plan_hash = api_plans.bind(self._w, req.context, plan_id, body.get("plan_hash"), project.id)
        wanted = self._tree(req, body, project, below, plan_id, plan_hash)
        if not body.get("dry_run", False):  # one that comes after this holds the deletion, and so loses nothing
            self._refuse_liens(req, wanted)
        root = wanted[project.id][0]
        while wanted:
            try:
                self._w.store.create_all(tuple(wanted.values()), TASKS)
                break
            except storage.AlreadyUnderWay as under_way:
                made = under_way.existing
                if not _same_request(made, root, made.project_id == project.id):
                    raise self._under_way(made) from None
                if made.project_id == project.id:
                    root, wanted = made, {}
                else:  # it goes on as it is; Keystone tells the one above when the project is gone
                    del wanted[made.project_id]
        for record, event in wanted.values():
            our_log.about(record.id, record.project_id)
            LOG.info("accepted: %s", event.message)
            self._cast(record.id)
        if not wanted:
            self._cast(root.id)
        our_log.about(root.id, project.id)
        resp.status = 202
        resp.headers["Location"] = self._href(req, root.id)
        return self._shown(req, root.id)

    def _tree(
        self,
        req: webob.Request,
        body: Mapping[str, Any],
        project: Project,
        below: Sequence[tuple[str, str]],
        plan_id: str,
        plan_hash: str,
    ) -> dict[str, tuple[Deletion, Event]]:
        """Return the records to make, by project, the deepest first: each is known to the one above it.

        :raises ApiError: 403 when one of the projects may not be deleted
        """
        mode, dry_run = Mode(body.get("mode", Mode.REPORT)), body.get("dry_run", False)
        try:
            members = self._w.projects.below(below) | {project.id: project}
        except ProjectNotFound:  # it is not known of which domain it was
            raise ApiError(409, "conflict", "a project below this one went at this moment: try again") from None
        for member in members.values():
            self._may_delete(req.context, member)
        for member in members.values():
            self._refuse_protected(member)
        ids = {project_id: str(uuid.uuid4()) for project_id in members}
        above = {child: ids[parent] for child, parent in below}
        upper = {parent for _child, parent in below}
        made = {}
        for member in members.values():
            record = accepted(
                id=ids[member.id],
                project_id=member.id,
                project_name=member.name,
                domain_id=member.domain_id,
                mode=mode,
                dry_run=dry_run,
                request_id=req.context.request_id,
                user_id=req.context.user_id or "",
                user_name=req.context.user_name or "",
                include_subtree=member.id in upper or (member.id == project.id and body.get("include_subtree", False)),
                parent_deletion_id=above.get(member.id, ""),
                plan_id=plan_id,
                plan_hash=plan_hash,
            )
            what = f"{mode} deletion of project {member.name} ({member.id})" + (", dry run" if dry_run else "")
            what += f", by plan {plan_id}" if plan_id else ""
            data = {"mode": str(mode), "dry_run": dry_run, "project_name": member.name, "user_name": record.user_name}
            data["include_subtree"] = record.include_subtree
            data |= {"plan_id": plan_id, "plan_hash": plan_hash} if plan_id else {}
            made[member.id] = (record, self._event(req, "deletion.accepted", what, data))
        return made

    @pecan.expose("json")
    def index(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Return a page of the deletions that the requester may see.

        :raises ApiError: 400 invalid_query; 403 forbidden
        """
        query = schemas.check_query(req, schemas.LIST_QUERY)
        plain = ("mode", "project_id", "domain_id", "origin", "parent_deletion_id")
        filters: dict[str, Any] = {k: query[k][0] for k in plain if k in query}
        for name in ("dry_run", "attention"):
            if name in query:
                filters[name] = query[name][0].lower() == "true"
        if "status" in query:
            live = transitions.LIVE if schemas.LIVE in query["status"] else frozenset()
            filters["status"] = sorted({*query["status"], *map(str, live)} - {schemas.LIVE})
        domain_id = filters.get("domain_id")
        if not self._w.enforcer.may(req.context, policies.LIST, domain_id, filters.get("project_id")):
            own = req.context.domain_id
            if domain_id or not own or not self._w.enforcer.may(req.context, policies.LIST, own):
                raise _forbidden()
            filters["domain_id"] = own
        paging = Paging.of(query, self._w)
        if paging.marker is not None:
            self._check_marker(req, paging.marker)
        shown, links = paging.cut(req, self._w.store.list(paging.page, **filters), lambda d: d.id)
        steps = self._w.store.steps_of([d.id for d in shown])
        readable = self._w.enforcer.readable(req.context)
        return {
            "deletions": [
                views.deletion(d, steps.get(d.id, ()), self._w.rules, self._href(req, d.id), readable, detail=False)
                for d in shown
            ],
            **links,
        }

    @pecan.expose("json")
    def get(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Return one deletion with counts and blockers.

        :raises ApiError: 403 forbidden; 404 deletion_not_found
        """
        schemas.check_query(req, schemas.NOTHING)
        d, steps, _ = self._load(req, policies.GET, deletion_id)
        return self._view(req, d, steps)

    @pecan.expose("json")
    def leftovers(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Return a page of what is still there.

        :raises ApiError: 400 invalid_query; 403 forbidden; 404 deletion_not_found
        """
        query = schemas.check_query(req, schemas.LEFTOVERS_QUERY)
        return self._part(req, deletion_id, query, "leftovers", self._w.store.leftovers, views.leftover)

    @pecan.expose("json")
    def events(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Return a page of the journal, oldest first.

        :raises ApiError: 400 invalid_query; 403 forbidden; 404 deletion_not_found
        """
        query = schemas.check_query(req, schemas.EVENTS_QUERY)
        view = functools.partial(views.event, readable=self._w.enforcer.readable(req.context))
        return self._part(req, deletion_id, query, "events", self._w.store.events, view)

    # ------------------------------------------------------------------------------------------------------- actions
    @pecan.expose("json")
    def retry(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Start a new attempt.

        :raises ApiError: 400; 403 forbidden, project_protected; 404 deletion_not_found; 409 not_retryable,
            project_has_liens, deletion_under_way
        """
        schemas.check_query(req, schemas.NOTHING)
        schemas.check_body(req, schemas.NO_BODY)
        self._move(req, deletion_id, policies.RETRY, Status.ACCEPTED, "not_retryable", "retried")
        resp.status = 202
        return self._shown(req, deletion_id)

    @pecan.expose("json")
    def cancel(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Stop it, after those below it, and undo what the drain changed; what is deleted stays deleted.

        :raises ApiError: 400; 403 forbidden; 404 deletion_not_found; 409 not_cancellable, conflict
        """
        return self._stop(req, resp, deletion_id, policies.CANCEL, "not_cancellable", "cancelling")

    @pecan.expose("json")
    def restore(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Give the project back before anything of it is deleted: a cancel that comes before the point of no return.

        :raises ApiError: 400; 403 forbidden; 404 deletion_not_found; 409 not_restorable, conflict
        """
        return self._stop(req, resp, deletion_id, policies.RESTORE, "not_restorable", "restoring")

    @pecan.expose("json")
    def approve(self, req: webob.Request, resp: webob.Response, deletion_id: str) -> dict[str, Any]:
        """Approve what a deletion waits for: that it is beyond a limit. Users who asked for it may not.

        :raises ApiError: 400; 403 forbidden, self_approval, delegated_approval; 404 deletion_not_found;
            409 not_awaiting_approval, conflict
        """
        schemas.check_query(req, schemas.NOTHING)
        reason = schemas.check_body(req, schemas.APPROVE_BODY)["reason"].strip()
        for _ in range(TRIES):
            d, steps, now = self._load(req, policies.APPROVE, deletion_id)
            after = self._approved(req, d, steps, reason, now)
            given = after.approvals[-1]
            who = req.context.user_name or req.context.user_id
            text = f"approved by {who} ({given.needed}, {given.resources} resources): {reason}"
            try:
                self._w.store.save(d, after, (), [self._event(req, "deletion.approved", text, given.to_dict())])
                break
            except storage.Conflict:
                continue
        else:
            raise ApiError(409, "conflict", "the deletion changes too fast at the moment: try again")
        LOG.warning("%s", text)
        self._cast(deletion_id)
        resp.status = 202
        return self._shown(req, deletion_id)

    def _approved(self, req: webob.Request, d: Deletion, steps: Sequence[Step], reason: str, now: Any) -> Deletion:
        """Return a deletion with the approval that it waits for.

        :raises ApiError: 403 self_approval, delegated_approval; 409 not_awaiting_approval
        """
        asked = next((c for c in d.conditions if c.type == "approval" and c.status), None)
        if asked is None or d.status not in transitions.LIVE or d.status is Status.CANCELLING:
            text = f"it waits for no approval (it is {d.status})"
            raise ApiError(409, "not_awaiting_approval", text, status_now=str(d.status))
        if req.context.delegated:  # it names a user, and another one may hold it
            text = "a token of a trust or of OAuth1 cannot approve a deletion: log in as the user who approves"
            raise ApiError(403, "delegated_approval", text)
        if not req.context.user_id or req.context.user_id in self._w.store.askers(d):
            text = "a user who asked for a deletion, retried or forced it cannot approve it: another user has to"
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
        # It has not stood still: it waited for this.
        return dataclasses.replace(d, approvals=(*d.approvals, given), updated_at=now, progress_at=now, wake_at=now)

    def _stop(
        self, req: webob.Request, resp: webob.Response, deletion_id: str, rule: str, refusal: str, verb: str
    ) -> dict[str, Any]:
        """Stop a deletion, after those below it: whoever dies over it leaves one that can be asked again.

        One that is stopped already is asked again for what still goes on below it.

        :raises ApiError: 400; 403; 404; 409
        """
        schemas.check_query(req, schemas.NOTHING)
        schemas.check_body(req, schemas.NO_BODY)
        d, _steps, now = self._load(req, rule, deletion_id)
        if d.status not in (Status.CANCELLING, Status.CANCELLED) or not _is_stopped(d, refusal):
            _moved(d, Status.CANCELLING, now, refusal, verb)
        stopped = self._stop_below(req, deletion_id, rule, verb)
        try:
            self._move(req, deletion_id, rule, Status.CANCELLING, refusal, verb)
        except ApiError as refused:
            # It was stopped before, or came to rest meanwhile, as there is nothing below it to wait for any more.
            if refused.code != refusal or not stopped or not _is_stopped(self._w.store.get(deletion_id), refusal):
                raise
        resp.status = 202
        return self._shown(req, deletion_id)

    def _stop_below(self, req: webob.Request, deletion_id: str, rule: str, verb: str) -> bool:
        """Stop the deletions below one, the deepest first, as far as they still can be. Return whether any was.

        :raises ApiError: 403; 404; 409 conflict
        """
        waiting, live, stopped = [deletion_id], [], False
        while waiting:
            for child in self._w.store.load(waiting.pop(0))[0].children:
                waiting.append(child.deletion_id)
                if child.status in transitions.LIVE:
                    live.append(child.deletion_id)
        for child_id in reversed(live):
            try:
                self._move(req, child_id, rule, Status.CANCELLING, "not_cancellable", verb)
                stopped = True
            except ApiError as refused:
                if refused.code != "not_cancellable":  # it is gone, or going: too late for that one
                    raise
        return stopped

    def _move(self, req: webob.Request, deletion_id: str, rule: str, to: Status, refusal: str, verb: str) -> None:
        """Make a user's move against whatever engines and workers write at the same time.

        :raises ApiError: 403; 404; 409
        """
        for _ in range(TRIES):
            d, _steps, now = self._load(req, rule, deletion_id)
            who = req.context.user_name or req.context.user_id or "somebody"
            message = f"{verb} by {who}" + ("; force is withdrawn" if force.asked(d) else "")
            after = _moved(d, to, now, refusal, verb, message)
            if to is Status.ACCEPTED:
                self._refuse_protected(d)
                if not d.dry_run:
                    self._refuse_liens(req, [d.project_id])
            backwards = to is Status.ACCEPTED
            data = {"from": str(d.status), "to": str(to), "attempt": after.attempt, "backwards": backwards}
            try:
                self._w.store.save(d, after, (), [self._event(req, f"deletion.{verb}", message, data)])
                break
            except storage.Conflict:
                continue  # an engine or a worker wrote meanwhile: look again whether the move is still legal
            except storage.AlreadyUnderWay as other:
                raise self._under_way(other.existing) from None
        else:
            raise ApiError(409, "conflict", "the deletion changes too fast at the moment: try again")
        LOG.info("%s", message)
        self._cast(deletion_id)

    # ------------------------------------------------------------------------------------------------------- helpers
    def _project(self, context: Any, project_id: str) -> Project:
        """Return the project if the requester may delete it; to others it makes no difference whether it exists."""
        enforcer = self._w.enforcer
        try:
            project = self._w.projects.get(project_id)
        except ProjectNotFound:
            if not enforcer.may(context, policies.CREATE):
                raise _forbidden() from None
            raise ApiError(404, "project_not_found", "Keystone has no project with this id") from None
        self._may_delete(context, project)
        return project

    def _may_delete(self, context: Any, project: Project) -> None:
        if not self._w.enforcer.may(context, policies.CREATE, project.domain_id, project.id):
            raise _forbidden()
        if project.is_domain:
            raise ApiError(400, "project_is_domain", "this is a domain's id: delete the projects in it, one by one")

    def _refuse_protected(self, about: Project | Deletion) -> None:
        project_id, name = (
            (about.id, about.name) if isinstance(about, Project) else (about.project_id, about.project_name)
        )
        if why := self._w.protection().why(project_id, name):
            raise ApiError(403, "project_protected", f"{name} ({project_id}): {why}", project_id=project_id)

    def _refuse_liens(self, req: webob.Request, project_ids: Iterable[str]) -> None:
        if liens := self._w.store.liens_in_force(tuple(project_ids)):
            raise _has_liens(liens, self._w.enforcer.readable(req.context))

    def _load(self, req: webob.Request, rule: str, deletion_id: str) -> tuple[Deletion, Sequence[Step], Any]:
        """Return a deletion with steps and time if the requester may do this to it.

        Who may do it in no domain at all learns nothing from the answer; who may in some sees the others' as missing.
        """
        try:
            if not schemas.is_uuid(deletion_id):
                raise storage.NotFound(deletion_id)
            d, steps, now = self._w.store.load(deletion_id)
        except storage.NotFound:
            found = False
        else:
            found = self._w.enforcer.may(req.context, rule, d.domain_id, d.project_id)
        if found:
            our_log.about(d.id, d.project_id)
            return d, steps, now
        if self._w.enforcer.may_somewhere(req.context, rule):
            raise ApiError(404, "deletion_not_found", "no deletion has this id; GET /v1/deletions lists them")
        raise _forbidden(rule)

    def _check_marker(self, req: webob.Request, marker: str) -> None:
        try:
            d = self._w.store.get(marker)
            if self._w.enforcer.may(req.context, policies.LIST, d.domain_id, d.project_id):
                return
        except storage.NotFound:
            pass
        raise ApiError(400, "invalid_query", "'marker' is not the id of a deletion that you can see", field="marker")

    def _part(
        self, req: webob.Request, deletion_id: str, query: Mapping[str, list[str]], key: str, read: Any, view: Any
    ) -> dict[str, Any]:
        d, _steps, _now = self._load(req, policies.GET, deletion_id)
        paging = Paging.of(query, self._w)
        filters: dict[str, Any] = {
            name: values[0].lower() == "true" if name == "abandoned" else values[0]
            for name, values in query.items()
            if name not in ("limit", "marker")
        }
        rows, links = paging.cut(req, read(d.id, paging.more, paging.row, **filters), lambda row: row.row)
        return {key: [view(row) for row in rows], **links}

    def _shown(self, req: webob.Request, deletion_id: str) -> dict[str, Any]:
        d, steps, _ = self._w.store.load(deletion_id)
        return self._view(req, d, steps)

    def _view(self, req: webob.Request, d: Deletion, steps: Sequence[Step]) -> dict[str, Any]:
        enforcer = self._w.enforcer
        shown = views.deletion(d, steps, self._w.rules, self._href(req, d.id), enforcer.readable(req.context))
        shown["grants_removed"] = None
        if any(
            enforcer.may(req.context, rule, d.domain_id, d.project_id) for rule in (policies.RESTORE, policies.CANCEL)
        ):
            changes = self._w.store.changes(d.id) if d.holding else ()
            shown["grants_removed"] = [views.grant(each) for each in changes if each.type == drain.GRANT_REMOVED]
        return {"deletion": shown}

    def _cast(self, deletion_id: str) -> None:
        tell_engine(self._w.engine, deletion_id)

    @staticmethod
    def _event(req: webob.Request, type_: str, message: str, data: Mapping[str, Any]) -> Event:
        actor, lent = req.context.user_id or "", req.context.trust_user_ids
        if lent:
            data = {**data, approvals.TRUST_USER_IDS: list(lent)}
        return Event(type_, message, actor=actor, data=data, request_id=req.context.request_id)

    @staticmethod
    def _href(req: webob.Request, deletion_id: str) -> str:
        return f"{req.application_url}/v1/deletions/{deletion_id}"

    @staticmethod
    def _under_way(existing: Deletion) -> ApiError:
        if existing.status is Status.CANCELLING:
            text = "is being cancelled: ask again when that is over"
        else:
            how = f"{existing.mode}{', dry run' if existing.dry_run else ''}"
            text = f"({how}) is under way: follow it, or cancel it first"
        text = f"deletion {existing.id} of project {existing.project_id} {text}"
        return ApiError(409, "deletion_under_way", text, deletion_id=existing.id)


def _forbidden(rule: str = "") -> ApiError:
    managers = "" if rule == policies.APPROVE else ", or a manager of the project's domain with a token of that domain,"
    return ApiError(403, "forbidden", f"only an admin{managers} may do this")


def _has_children(children: Sequence[str]) -> ApiError:
    named = ", ".join(children[:_NAMED])
    more = f" and {len(children) - _NAMED} more" if len(children) > _NAMED else ""
    text = f"there are projects below this one: {named}{more}; delete them first, or ask with include_subtree"
    return ApiError(409, "project_has_children", text, children=list(children))


def _has_liens(liens: Sequence[Lien], readable: Collection[str]) -> ApiError:
    named = "; ".join(one.explained if "lien" in readable else str(one) for one in liens[:_NAMED])
    more = f"; and {len(liens) - _NAMED} more" if len(liens) > _NAMED else ""
    text = f"protected by {named}{more}. Let who asked for it have it removed: DELETE /v1/liens/{{id}}"
    if "lien" not in readable:
        who = ", ".join(sorted({one.origin for one in liens[:_NAMED]}))
        text = f"protected by {named}{more}. Only an admin may read why, and remove it: ask {who}, or an admin"
    return ApiError(409, "project_has_liens", text, liens=[views.lien(lien, readable) for lien in liens])


def _same_request(made: Deletion, wanted: Deletion, root: bool) -> bool:
    """Whether a deletion that is under way is what is asked for."""
    tree = not root or made.include_subtree == wanted.include_subtree
    alike = (made.mode, made.dry_run, made.plan_id) == (wanted.mode, wanted.dry_run, wanted.plan_id)
    return tree and alike and made.status is not Status.CANCELLING


def _moved(d: Deletion, to: Status, now: Any, refusal: str, verb: str, message: str = "") -> Deletion:
    """Return a deletion after a user's move.

    :raises ApiError: 409
    """
    if refusal == "not_restorable" and not transitions.restorable(d):
        raise ApiError(409, refusal, _gone_too_far(d), **_point(d), status_now=str(d.status))
    try:
        return transitions.move(d, to, transitions.By.USER, now, verb, message)
    except transitions.IllegalMove:
        raise ApiError(409, refusal, _why_not(d, to), status_now=str(d.status)) from None


def _is_stopped(d: Deletion, refusal: str) -> bool:
    """Whether it goes on no more, the project is not gone, and, where it is to be restored, nothing was deleted."""
    if d.status is Status.DELETED or (d.status in transitions.LIVE and d.status is not Status.CANCELLING):
        return False
    return refusal == "not_cancellable" or d.point_of_no_return_at is None


def _gone_too_far(d: Deletion) -> str:
    if transitions.cancellable(d):
        since = views.time(d.point_of_no_return_at or d.status_at)
        return f"the point of no return is passed since {since}: a cancel stops it, and what is deleted stays deleted"
    return _why_not(d, Status.CANCELLING)


def _point(d: Deletion) -> dict[str, Any]:
    return {"point_of_no_return_at": views.time(d.point_of_no_return_at)}


def _check_plan(body: Mapping[str, Any]) -> None:
    """Refuse what a plan does not go with.

    :raises ApiError: 400 invalid_body
    """
    if "plan_id" not in body:
        if "plan_hash" in body:
            raise ApiError(400, "invalid_body", "'plan_hash' needs 'plan_id'", field="plan_hash")
        return
    if body.get("mode") != Mode.CASCADE or body.get("dry_run"):
        raise ApiError(400, "invalid_body", "'plan_id' is for a cascade that is no dry run", field="plan_id")
    if body.get("include_subtree"):
        text = "'plan_id' goes not with include_subtree: a plan is of one project"
        raise ApiError(400, "invalid_body", text, field="plan_id")


def _why_not(d: Deletion, to: Status) -> str:
    if to is Status.CANCELLING:
        if d.status is Status.CANCELLING:
            return "it is being cancelled already"
        if d.purpose is RoundPurpose.PROJECT_SETTINGS:
            return "the project is being removed: this cannot be stopped any more"
        return f"it has ended ({d.status}): there is nothing to cancel"
    if d.status in transitions.LIVE:
        return f"it is under way ({d.status}): follow it, or cancel it"
    return f"it has ended for good ({d.status}): make a new request"
