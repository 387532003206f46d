"""``/v1/deletions``: records requests for deletions, and lists deletions."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pecan
import webob
from oslo_context.context import RequestContext
from oslo_log import log

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator import store as storage
from cleanup_orchestrator.api import inputs, policies, requests, selections, views
from cleanup_orchestrator.api import plans as api_plans
from cleanup_orchestrator.api.context import Body, Query
from cleanup_orchestrator.api.deletion import (
    NAMED,
    DeletionHandlers,
    changes_too_fast,
    forbidden,
    href,
    limit_reached,
    requester,
    under_way,
)
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.api.paging import Paging
from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound
from cleanup_orchestrator.core import approvals, dry_runs, transitions
from cleanup_orchestrator.core.deletion import DELETING_MODES, Deletion, Mode, Status, accepted
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.core.texts import enumerated
from cleanup_orchestrator.shapes import queries

LOG = log.getLogger(__name__)

#: Parameters of a list that a column of a deletion has to be equal to.
_PLAIN = (
    *("mode", "project_id", "project_name", "domain_id", "user_id", "user_name"),
    *("origin", "parent_deletion_id", "ticket"),
)
#: How often a request is tried that meets deletions which begin or end at the same moment.
TRIES = 10
#: The records of a request with their first journal lines, by project, deepest first.
Wanted = Mapping[str, tuple[Deletion, Event]]

_TIMES = ("created_since", "created_until", "changed_since")


class Deletions(DeletionHandlers):
    """The handlers of the collection."""

    @pecan.expose("json")
    def create(self, req: webob.Request, resp: webob.Response, body: Body) -> dict[str, Any]:
        """Record a request for the deletion of a project.

        If the same deletion is under way, return that one. An admin's request for it is recorded, so that it is the
        admin's deletion. A dry run that is under way ends, unless the request is for a dry run.

        :raises ApiError: 400 invalid_json, invalid_body, project_is_domain; 403 forbidden, project_protected;
            404 project_not_found, plan_not_found; 409 project_has_children, subtree_too_large, project_has_liens,
            deletion_under_way, plan_unusable, conflict; 415; 429 deletion_limit_reached; 503
        """
        mode = Mode(body.get("mode", Mode.REPORT))
        _check_fields(body, mode)
        project = self._project(req.context, body["project_id"])
        our_log.about("-", project.id)
        self._refuse_protected(project)
        own = requests.read(self._context, body)
        selection = selections.read(self._context, body.get("selection", {}))
        below = () if mode is Mode.PURGE else self._context.projects.subtree(project.id)
        if below and not body.get("include_subtree", False):
            raise _has_children(tuple(sorted(child for child, _parent in below)))
        if len(below) > (limit := self._context.max_subtree):
            text = f"there are {len(below)} projects below this one, and [deletion] max_subtree is {limit}"
            text += "; request the deletion of its parts one by one"
            raise ApiError(409, "subtree_too_large", text, projects=len(below), limit=limit)
        plan_hash = ""
        if plan_id := body.get("plan_id", ""):
            asked = api_plans.Asked(project.id, mode, body.get("plan_hash"))
            plan_hash, selection = api_plans.bind(self._context, req.context, plan_id, asked)
        limits = {"plan_id": plan_id, "plan_hash": plan_hash, "selection": selection}
        wanted = self._tree(req, body, project, below, {"mode": mode, **limits, **own})
        if not body.get("dry_run", False):  # a lien that is recorded later holds the deletion before its first delete
            self._refuse_liens(req, wanted)
        root, recorded = self._record(req, project.id, wanted)
        for record, event in recorded.values():
            our_log.about(record.id, record.project_id)
            LOG.info("accepted: %s", event.message)
            self._cast(record.id)
        if not recorded:
            self._cast(root.id)
        our_log.about(root.id, project.id)
        resp.headers["Location"] = href(req, root.id)
        return self._shown(req, root.id)

    def _record(self, req: webob.Request, project_id: str, wanted: Wanted) -> tuple[Deletion, Wanted]:
        """Record the wanted deletions that are not under way, and an admin's request for those that are.

        :returns: the deletion of the requested project, and what was recorded anew
        :raises ApiError: 409 deletion_under_way, conflict; 429 deletion_limit_reached
        """
        for _ in range(TRIES):
            try:
                return self._recorded(req, project_id, wanted)
            except storage.Conflict:  # one that was under way has ended or is being cancelled, or a dry run has begun
                continue
        raise changes_too_fast()

    def _recorded(self, req: webob.Request, project_id: str, wanted: Wanted) -> tuple[Deletion, Wanted]:
        """Do what :meth:`_record` does, once.

        :raises ApiError: 409 deletion_under_way; 429 deletion_limit_reached
        :raises Conflict: when one that was under way has ended or is being cancelled, or a dry run has begun
        """
        root, left, limits = wanted[project_id][0], wanted, self._limits(req)
        again: list[tuple[Deletion, Event]] = []
        while True:
            try:
                if left or again:
                    self._context.store.create_all(tuple(left.values()), TASKS, limits, again)
                return root, left
            except storage.TooManyDeletions as many:
                made = self._context.store.live(project_id)
                if made is None or not _same_request(made, root, True):
                    raise limit_reached(many) from None
            except storage.AlreadyUnderWay as other:
                made = other.existing
                if dry_runs.gives_way(made, root):  # it was requested at this moment
                    raise storage.Conflict(str(other)) from None
                if not _same_request(made, root, made.project_id == project_id):
                    raise under_way(made) from None
            if made.project_id == project_id:
                root, left, again = made, {}, self._again(req, wanted, self._under_way(wanted, made))
            else:  # its parent deletion learns from Keystone when the project is gone
                left, again = _without(left, made.project_id), [*self._again(req, wanted, [made]), *again]

    def _again(self, req: webob.Request, wanted: Wanted, met: Iterable[Deletion]) -> list[tuple[Deletion, Event]]:
        """Return deletions under way that an admin requests again, each with the journal line of the request."""
        repeated = []
        for d in met:
            if self._context.enforcer.may_about(req.context, policies.CANCEL_OF_ADMIN, d):
                _record, event = wanted[d.project_id]
                data = {**event.data, approvals.BY_ADMIN: True}
                repeated.append((d, dataclasses.replace(event, message=f"requested again: {event.message}", data=data)))
        return repeated

    def _under_way(self, wanted: Wanted, root: Deletion) -> list[Deletion]:
        """Return the deletion of a tree, and those of its projects that are under way as wanted but not below it."""
        deletions, page = [root], storage.Page(len(wanted))
        live = {d.project_id: d for d in self._context.store.list(page, live_project_id=list(wanted))}
        covered = {root.id}
        for project_id in reversed(tuple(wanted)):
            d = live.get(project_id)
            if d is None or project_id == root.project_id:
                continue
            if d.parent_deletion_id not in covered:
                if not _same_request(d, root, False):
                    continue
                deletions.append(d)
            covered.add(d.id)
        return deletions

    def _tree(
        self,
        req: webob.Request,
        body: Body,
        project: Project,
        below: Sequence[tuple[str, str]],
        fields: Mapping[str, Any],
    ) -> Wanted:
        """Return the records to create, by project, deepest first.

        Each record names the deletion of its parent project.

        :param fields: the fields of each record that say what is deleted, when and why: the mode, the plan, the
            selection, the date, the reason and the ticket
        :raises ApiError: 400 project_is_domain; 403 if the requester may not delete one of the projects; 409 conflict
        """
        mode, dry_run = fields["mode"], body.get("dry_run", False)
        try:
            members = self._context.projects.below(below) | {project.id: project}
        except ProjectNotFound:  # its domain is not known, so the policy cannot be checked
            raise ApiError(
                409, "conflict", "a project below this one was deleted during the request: try again"
            ) from None
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
                dry_run=dry_run,
                request_id=req.context.request_id,
                user_id=req.context.user_id or "",
                user_name=req.context.user_name or "",
                include_subtree=member.id in upper or (member.id == project.id and body.get("include_subtree", False)),
                parent_deletion_id=above.get(member.id, ""),
                **fields,
            )
            what = f"{mode} deletion of project {member.name} ({member.id})" + (", dry run" if dry_run else "")
            what += f", by plan {record.plan_id}" if record.plan_id else ""
            what += f", of {record.selection}" if record.selection else ""
            data = {"mode": str(mode), "dry_run": dry_run, "project_name": member.name, "user_name": record.user_name}
            data["include_subtree"] = record.include_subtree
            data |= {"plan_id": record.plan_id, "plan_hash": record.plan_hash} if record.plan_id else {}
            data |= {"selection": record.selection.to_dict()} if record.selection else {}
            said, more = requests.said(record)
            by = requester(self._context.enforcer, req.context, record)
            made[member.id] = (record, by.event(EventType.DELETION_ACCEPTED, what + said, data | more))
        return made

    @pecan.expose("json")
    def index(self, req: webob.Request, resp: webob.Response, query: Query) -> dict[str, Any]:
        """Return a page of the deletions that the requester may see.

        :raises ApiError: 400 invalid_query; 403 forbidden
        """
        filters: dict[str, Any] = {k: query[k][0] for k in _PLAIN if k in query}
        for name in ("dry_run", "attention"):
            if name in query:
                filters[name] = query[name][0].lower() == "true"
        if "status" in query:
            live = transitions.LIVE if queries.LIVE in query["status"] else frozenset()
            filters["status"] = sorted({*query["status"], *map(str, live)} - {queries.LIVE})
        refused = forbidden(policies.LIST)
        allowed, domain_id = self._domain(req, refused, filters.get("domain_id"), filters.get("project_id"))
        times = {k: inputs.moment(query[k][0], k, "invalid_query") for k in _TIMES if k in query}
        filters["span"] = storage.Span(**times)
        if domain_id is not None:
            filters["domain_id"] = domain_id
        if not allowed:
            wanted = filters.get("user_id")
            since = self._context.enforcer.reads.ended_since()
            filters["user_id"] = self._requester(req, since)
            filters["span"] = dataclasses.replace(filters["span"], live_or_ended_since=since)
            if wanted not in (None, filters["user_id"]):
                raise refused
        if "changed_since" in query and "sort" not in query:
            query = {**query, "sort": ["updated_at:desc"]}
        paging = Paging.of(query, self._context)
        if paging.marker is not None:
            self._check_marker(req, paging.marker)
        shown, links = paging.cut(req, self._context.store.list(paging.page, **filters), lambda d: d.id)
        readable = self._context.enforcer.readable(req.context)
        return {"deletions": self._listed(shown, f"{req.application_url}/v1/deletions/", readable), **links}

    def _requester(self, req: webob.Request, since: datetime.datetime | None) -> str:
        """Return the id of a requester who may list only the deletions that this user requested.

        A user who may see none gets 403 and not an empty list, which would look as if there were no deletions.

        :param since: when a deletion of the list must have ended, at the earliest
        :raises ApiError: 403 forbidden
        """
        user_id = req.context.user_id or ""
        may = user_id and self._context.enforcer.may(req.context, policies.LIST, user_id=user_id)
        span = storage.Span(live_or_ended_since=since)
        if not may or not self._context.store.list(storage.Page(1), user_id=user_id, span=span):
            raise forbidden(policies.LIST)
        return user_id

    def _listed(self, shown: Sequence[Deletion], url: str, readable: Collection[str]) -> list[dict[str, Any]]:
        """Return the views of a page, with the counts of the latest decisions.

        Only deletions under force need their steps.
        """
        steps = self._context.store.steps_of([d.id for d in shown if d.forced])
        rules = self._context.rules
        return [views.listed_deletion(d, steps.get(d.id, ()), rules, url + d.id, readable) for d in shown]

    def _project(self, requester: RequestContext, project_id: str) -> Project:
        """Return the project if the requester may delete it.

        Other requesters get the same 403 whether the project exists or not.

        :raises ApiError: 400 project_is_domain; 403 forbidden; 404 project_not_found
        """
        enforcer = self._context.enforcer
        try:
            project = self._context.projects.get(project_id)
        except ProjectNotFound:
            if not enforcer.may(requester, policies.CREATE):
                raise forbidden() from None
            raise ApiError(404, "project_not_found", "Keystone has no project with this id") from None
        self._may_delete(requester, project)
        return project

    def _may_delete(self, requester: RequestContext, project: Project) -> None:
        if not self._context.enforcer.may(requester, policies.CREATE, project.domain_id, project.id):
            raise forbidden()
        if project.is_domain:
            raise ApiError(400, "project_is_domain", "this is the id of a domain: delete its projects one by one")

    def _check_marker(self, req: webob.Request, marker: str) -> None:
        try:
            d = self._context.store.get(marker)
            if self._context.enforcer.may_about(req.context, policies.LIST, d):
                return
        except storage.NotFound:
            pass
        raise inputs.invalid_field("marker", "is not the id of a deletion that you can see", "invalid_query")


def _has_children(children: Sequence[str]) -> ApiError:
    named = enumerated(children, NAMED)
    text = f"there are projects below this one: {named}; delete them first, or set include_subtree"
    return ApiError(409, "project_has_children", text, children=list(children))


def _without(wanted: Wanted, project_id: str) -> Wanted:
    """Return the records of a tree without one that is not created.

    The records below it name the deletion above it, so that a cancel of the tree reaches them.
    """
    dropped = wanted[project_id][0]
    kept = {}
    for id_, (record, event) in wanted.items():
        if record.parent_deletion_id == dropped.id:
            record = dataclasses.replace(record, parent_deletion_id=dropped.parent_deletion_id)
        if id_ != project_id:
            kept[id_] = (record, event)
    return kept


def _same_request(made: Deletion, wanted: Deletion, root: bool) -> bool:
    """Return whether a deletion under way is the requested one."""
    tree = not root or made.include_subtree == wanted.include_subtree
    alike = (made.mode, made.dry_run, made.plan_id) == (wanted.mode, wanted.dry_run, wanted.plan_id)
    alike = alike and made.selection == wanted.selection and requests.agree(made, wanted)
    return tree and alike and made.origin is wanted.origin and made.status is not Status.CANCELLING


def _check_fields(body: Body, mode: Mode) -> None:
    """Check that the fields of the body go together.

    :raises ApiError: 400 invalid_body
    """
    if mode is Mode.PURGE and body.get("include_subtree"):
        text = "needs another mode: mode purge covers one project"
        raise inputs.invalid_field("include_subtree", text, problem="purge_without_subtree")
    if mode is not Mode.PURGE and "selection" in body:
        text = "needs mode purge: the other modes remove the project"
        raise inputs.invalid_field("selection", text, problem="selection_without_purge")
    if "plan_id" not in body:
        if "plan_hash" in body:
            raise inputs.invalid_field("plan_hash", "needs 'plan_id'", problem="hash_without_plan")
        return
    if mode not in DELETING_MODES or body.get("dry_run"):
        text = "needs mode cascade or empty, and no dry run"
        raise inputs.invalid_field("plan_id", text, problem="plan_without_deletes")
    if body.get("include_subtree"):
        text = "cannot be combined with include_subtree: a plan covers one project"
        raise inputs.invalid_field("plan_id", text, problem="plan_of_one_project")
    if "selection" in body:
        text = "cannot be combined with plan_id: the plan has the selection"
        raise inputs.invalid_field("selection", text, problem="plan_with_selection")
