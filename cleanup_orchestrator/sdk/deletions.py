"""Deletions, and what they consist of.

Written by ``python -m tests.sdk_source`` from the shapes of the API: change these, and write it anew.
"""

from __future__ import annotations

from typing import Any

from openstack import resource

from cleanup_orchestrator.sdk.base import CleanupResource
from cleanup_orchestrator.sdk.holds import Lien, Waiver
from cleanup_orchestrator.sdk.places import TypeInRegion


class BlockingResource(CleanupResource):
    """A resource that blocks the delete of another one."""

    #: Resource type. Empty: unknown.
    type: str = resource.Body("type", type=str)
    #: ID. Empty: unknown.
    id: str = resource.Body("id", type=str)
    #: Name. Empty: unknown, or the caller may not see the project.
    name: str = resource.Body("name", type=str)
    #: ID of its project. ``null``: unknown, or the caller may not see it.
    project_id: str | None = resource.Body("project_id", type=str)
    #: Name of its project. ``another project``: the caller may not see it. ``null``: unknown.
    project_name: str | None = resource.Body("project_name", type=str)


class BlockedResource(CleanupResource):
    """A resource that a deletion cannot delete."""

    #: ID of the resource in its service. In Swift: the name of the container.
    id: str = resource.Body("id", type=str)
    #: Name of the resource in its service.
    name: str = resource.Body("name", type=str)


class Blocker(CleanupResource):
    """What prevents a deletion from continuing."""

    #: Region. Empty: a task of the whole deletion, or a service without a region.
    region: str = resource.Body("region", type=str)
    #: Service type. Empty: a task of the whole deletion.
    service: str = resource.Body("service", type=str)
    #: Resource type, ``unsupported`` (a service without a plugin), or a task of the whole deletion: ``survey``,
    #: ``access``, ``drain``, ``close``, ``release`` or ``remove``.
    type: str = resource.Body("type", type=str)
    #: Code of the reason.
    reason: str = resource.Body("reason", type=str)
    #: The same as text.
    message: str = resource.Body("message", type=str)
    #: How to clear it.
    remedy: str = resource.Body("remedy", type=str)
    #: The commands of the remedies of ``resources`` that can be copied, or that of ``remedy``: without one that deletes
    #: or gives up something. Words in capitals stand for a value.
    commands: list[str] = resource.Body("commands", type=list, list_type=str)
    #: Number of resources that it is about. 0: it is not about resources, or they are not known.
    number: int = resource.Body("number", type=int)
    #: The first of these resources, at most 10.
    resources: list[BlockedResource] = resource.Body("resources", type=list, list_type=BlockedResource)
    #: Resources that block one or more of its leftovers, at most 10.
    blocked_by: list[BlockingResource] = resource.Body("blocked_by", type=list, list_type=BlockingResource)


class Condition(CleanupResource):
    """What is true about a deletion beside its status."""

    #: Type of the condition. Each type occurs at most once.
    type: str = resource.Body("type", type=str)
    #: Whether the condition is true.
    status: bool = resource.Body("status", type=bool)
    #: Code of the reason.
    reason: str = resource.Body("reason", type=str)
    #: The same as text.
    message: str = resource.Body("message", type=str)
    #: When ``status`` changed last.
    last_transition_at: str = resource.Body("last_transition_at", type=str)


class Progress(CleanupResource):
    """The counts of a deletion."""

    #: Number of resource types (per region) in the present round.
    steps: int = resource.Body("steps", type=int)
    #: Number of these types that an inventory has listed, that a delete round has found empty, or that force abandoned.
    #: Between rounds: of those that have a result in this attempt.
    steps_done: int = resource.Body("steps_done", type=int)
    #: Number of resources that were ever found, also deleted ones.
    found: int = resource.Body("found", type=int)
    #: Number of resources that the lists of the project no longer have after a delete round, in all attempts. A
    #: resource whose owner changed between two rounds counts, too.
    deleted: int = resource.Body("deleted", type=int)
    #: Number of leftovers in the latest list of each type in this attempt.
    remaining: int = resource.Body("remaining", type=int)
    #: Number of these leftovers that force abandoned.
    abandoned: int = resource.Body("abandoned", type=int)
    #: Number of resources that are not the user's, or that are deleted with their parent, in this attempt.
    kept: int = resource.Body("kept", type=int)
    #: Number of types whose result in this attempt is unknown.
    unknown: int = resource.Body("unknown", type=int)
    #: Number of API calls of the deletion, in all attempts.
    calls: int = resource.Body("calls", type=int)
    #: Number of the present round. It grows over all attempts.
    round: int = resource.Body("round", type=int)
    #: Purpose of the present round. Empty: between rounds.
    purpose: str = resource.Body("purpose", type=str)


class Count(TypeInRegion):
    """The counts of one resource type in one region."""

    #: As in ``progress``, for this type.
    found: int = resource.Body("found", type=int)
    #: As in ``progress``, for this type.
    deleted: int = resource.Body("deleted", type=int)
    #: As in ``progress``, for this type.
    remaining: int = resource.Body("remaining", type=int)
    #: As in ``progress``, for this type.
    abandoned: int = resource.Body("abandoned", type=int)
    #: As in ``progress``, for this type.
    kept: int = resource.Body("kept", type=int)
    #: Number of those in ``remaining`` that the plan does not list for deletion. They stay.
    unplanned: int = resource.Body("unplanned", type=int)
    #: Number of those in ``remaining`` that the request does not select. They stay.
    unselected: int = resource.Body("unselected", type=int)
    #: As in ``progress``, for this type.
    calls: int = resource.Body("calls", type=int)
    #: Result of the type. ``clear``: nothing is left. Empty: it was not listed in this attempt.
    outcome: str = resource.Body("outcome", type=str)
    #: ``idle``, ``dispatched`` (sent to the workers), ``running`` or ``done``.
    state: str = resource.Body("state", type=str)
    #: Code of the result. ``waived``: the type is not listed, and its numbers are from an earlier inventory, if there
    #: was one.
    reason: str = resource.Body("reason", type=str)
    #: The result as text. Of a type that this delete round has not tried yet: what it waits for, such as ``waits for
    #: network.port``.
    message: str = resource.Body("message", type=str)


class UnseenType(TypeInRegion):
    """A type that was abandoned although it could not be listed."""

    #: Code of the reason.
    reason: str = resource.Body("reason", type=str)
    #: The same as text.
    message: str = resource.Body("message", type=str)


class Force(CleanupResource):
    """The force of a deletion."""

    #: Reason that the admin gave.
    reason: str = resource.Body("reason", type=str)
    #: Types whose forced delete is used, as ``service.type``.
    types: list[str] = resource.Body("types", type=list, list_type=str)
    #: When the force was requested.
    at: str = resource.Body("at", type=str)
    #: ID of the user who made the request.
    user_id: str = resource.Body("user_id", type=str)
    #: Name of that user.
    user_name: str = resource.Body("user_name", type=str)
    #: ID of that request.
    request_id: str = resource.Body("request_id", type=str)
    #: Number of abandoned resources. The leftovers name them.
    abandoned: int = resource.Body("abandoned", type=int)
    #: Types that were abandoned although they could not be listed.
    unseen: list[UnseenType] = resource.Body("unseen", type=list, list_type=UnseenType)


class Approval(CleanupResource):
    """An approval of a deletion that exceeds a limit."""

    #: The limit that is exceeded: ``too_many_resources`` or ``too_many_deletions``.
    needed: str = resource.Body("needed", type=str)
    #: Reason that the approver gave.
    reason: str = resource.Body("reason", type=str)
    #: Number of resources that were found then: the approval covers no more. 0 with ``too_many_deletions``.
    resources: int = resource.Body("resources", type=int)
    #: Hash, as of a plan, of the resources that were found then; empty with ``too_many_deletions``.
    hash: str = resource.Body("hash", type=str)
    #: When the deletion was approved.
    at: str = resource.Body("at", type=str)
    #: ID of the user who made the request.
    user_id: str = resource.Body("user_id", type=str)
    #: Name of that user.
    user_name: str = resource.Body("user_name", type=str)
    #: ID of that request.
    request_id: str = resource.Body("request_id", type=str)


class ChildDeletion(CleanupResource):
    """The deletion of a project below, for which a deletion waits."""

    #: ID of the deletion.
    deletion_id: str = resource.Body("deletion_id", type=str)
    #: ID of its project.
    project_id: str = resource.Body("project_id", type=str)
    #: Name of its project. Empty: not known.
    project_name: str = resource.Body("project_name", type=str)
    #: Its status.
    status: str = resource.Body("status", type=str)
    #: Its ``attention``.
    attention: list[str] = resource.Body("attention", type=list, list_type=str)
    #: The same as text.
    attention_message: str = resource.Body("attention_message", type=str)


class Grant(CleanupResource):
    """A role assignment that the lock removed."""

    #: Whether the role was assigned to a user or a group.
    actor: str = resource.Body("actor", type=str)
    #: ID of the user or the group.
    actor_id: str = resource.Body("actor_id", type=str)
    #: ID of the role.
    role_id: str = resource.Body("role_id", type=str)


class Selection(CleanupResource):
    """What a deletion that keeps its project deletes. Without a criterion: everything."""

    #: Official types of the services whose resources are selected.
    services: list[str] = resource.Body("services", type=list, list_type=str)
    #: Resource types that are selected as well. Without both: all types.
    types: list[str] = resource.Body("types", type=list, list_type=str)
    #: Services and resource types that are never selected.
    skip: list[str] = resource.Body("skip", type=list, list_type=str)
    #: Tags that a resource must have.
    tags: list[str] = resource.Body("tags", type=list, list_type=str)
    #: Tags that a resource must not have.
    not_tags: list[str] = resource.Body("not_tags", type=list, list_type=str)
    #: Patterns of which the name of a resource must match one.
    names: list[str] = resource.Body("names", type=list, list_type=str)
    #: Patterns of which the name of a resource must match none.
    not_names: list[str] = resource.Body("not_names", type=list, list_type=str)
    #: The time before which a resource must have been created. One of unknown age is not selected. ``null``: any time.
    created_before: str | None = resource.Body("created_before", type=str)
    #: The time before which the last change of a resource must have been. One whose service does not show it is not
    #: selected. ``null``: any time.
    updated_before: str | None = resource.Body("updated_before", type=str)


class Deletion(CleanupResource):
    """The deletion of a project: the request and its record."""

    resource_key = "deletion"
    resources_key = "deletions"

    #: ID of the deletion.
    id: str = resource.Body("id", type=str)
    #: ID of the project.
    project_id: str = resource.Body("project_id", type=str)
    #: Name of the project in Keystone, read at the request and each time the catalog is read. Of a project that was
    #: unknown at the request: the name in its latest earlier deletion, or empty.
    project_name: str = resource.Body("project_name", type=str)
    #: ID of the domain of the project, from the same source.
    domain_id: str = resource.Body("domain_id", type=str)
    #: Whether resources are only reported, or deleted, and whether the project stays.
    mode: str = resource.Body("mode", type=str)
    #: Whether the deletion is a dry run.
    dry_run: bool = resource.Body("dry_run", type=bool)
    #: Whether the deletion waits for the deletions of projects below. In a tree this is true for each project that has
    #: projects below it.
    include_subtree: bool = resource.Body("include_subtree", type=bool)
    #: Why the deletion was requested, as the requester or a later change says. Empty: not given.
    request_reason: str = resource.Body("request_reason", type=str)
    #: Reference of the requester, such as the number of a change. Empty: none.
    ticket: str = resource.Body("ticket", type=str)
    #: The date of the deletion: nothing of it begins earlier. ``null``: it began at its request.
    not_before: str | None = resource.Body("not_before", type=str)
    #: In a tree: ID of the deletion that waits for this one. Empty: none.
    parent_deletion_id: str = resource.Body("parent_deletion_id", type=str)
    #: ``request``: a caller requested it. ``noticed``: Keystone announced that the project was deleted without the
    #: orchestrator; only its leftovers are searched, and nothing is written. ``adopted``: an admin adopted orphans.
    origin: str = resource.Body("origin", type=str)
    #: Status of the deletion.
    status: str = resource.Body("status", type=str)
    #: Code of why the deletion entered the status, such as ``cascade``, ``leftovers`` or ``retried``; it can be the
    #: reason of a blocker. Empty until the first change.
    reason: str = resource.Body("reason", type=str)
    #: What the deletion does now and what it waits for, or how it ended: text for a person, which may change between
    #: releases.
    message: str = resource.Body("message", type=str)
    #: Every cause for which the deletion needs a person now: ``stalled``, ``approval``, ``lien``, ``brake``,
    #: ``blocked``, ``leftovers`` or ``failed``. Empty: it needs no person. A dry run needs none, and a deletion whose
    #: project has a later one needs none.
    attention: list[str] = resource.Body("attention", type=list, list_type=str)
    #: What a person does about it. Empty: nothing.
    attention_message: str = resource.Body("attention_message", type=str)
    #: Number of the attempt, from 1. Each retry of a deletion that has ended adds 1.
    attempt: int = resource.Body("attempt", type=int)
    #: Whether ``cancel`` is accepted now.
    cancellable: bool = resource.Body("cancellable", type=bool)
    #: Whether the status allows ``retry``: the deletion is under way and not being cancelled, or it ended in
    #: ``leftovers`` or ``failed``.
    retryable: bool = resource.Body("retryable", type=bool)
    #: Whether ``restore`` is accepted now: in ``accepted``, ``draining``, ``inventory`` and ``recoverable``.
    restorable: bool = resource.Body("restorable", type=bool)
    #: Whether the deletion can be forced now.
    forcible: bool = resource.Body("forcible", type=bool)
    #: ID of the plan that the deletion is bound to. Empty: none, it deletes what it finds.
    plan_id: str = resource.Body("plan_id", type=str)
    #: Hash of that plan. Empty: no plan.
    plan_hash: str = resource.Body("plan_hash", type=str)
    #: What is deleted in mode ``purge``. Empty arrays and ``null`` are no criteria: without one, everything is.
    selection: Selection = resource.Body("selection", type=Selection)
    #: Before the first delete of this attempt: nothing is deleted earlier. Then: when deletes began. ``null``: no
    #: recovery window is open, and deletes have not begun.
    point_of_no_return_at: str | None = resource.Body("point_of_no_return_at", type=str)
    #: ID of the user who made the request. With the origin ``noticed`` this, the name and the request are empty.
    user_id: str = resource.Body("user_id", type=str)
    #: Name of that user.
    user_name: str = resource.Body("user_name", type=str)
    #: ID of that request.
    request_id: str = resource.Body("request_id", type=str)
    #: When the deletion was recorded.
    created_at: str = resource.Body("created_at", type=str)
    #: When the record changed last.
    updated_at: str = resource.Body("updated_at", type=str)
    #: When the deletion entered its status.
    status_at: str = resource.Body("status_at", type=str)
    #: When the deletion made progress last. ``stalled`` counts from this time.
    progress_at: str = resource.Body("progress_at", type=str)
    #: When the deletion ended. ``null``: it is under way.
    finished_at: str | None = resource.Body("finished_at", type=str)
    #: When the lock took effect in this attempt. ``null``: it has not, or it was undone: at the end of a deletion whose
    #: project stays, or by another client.
    drained_at: str | None = resource.Body("drained_at", type=str)
    #: When the orchestrator saw that Keystone no longer knows the project, which this deletion had not removed.
    project_gone_at: str | None = resource.Body("project_gone_at", type=str)
    #: Until this time services can accept cached tokens from before the lock, and no empty list counts as final:
    #: ``[drain] token_cache_time`` seconds after the later of ``drained_at`` and ``project_gone_at``. ``null``: both
    #: are ``null``.
    settle_until: str | None = resource.Body("settle_until", type=str)
    #: What is true about the deletion beside its status.
    conditions: list[Condition] = resource.Body("conditions", type=list, list_type=Condition)
    #: The force that an admin requested. ``null``: none in this attempt, or a cancel withdrew it.
    forced: Force | None = resource.Body("forced", type=Force)
    #: How far the deletion is. ``steps`` and ``steps_done`` begin again with each round. In a list the numbers are
    #: those of the latest decision.
    progress: Progress = resource.Body("progress", type=Progress)
    #: One link with ``rel`` ``self``: the URL of the record.
    links: list[dict[str, Any]] = resource.Body("links", type=list)
    #: What a cascade of the project (or the purge, of a dry run in mode ``purge``) would delete by what this deletion
    #: found, and what blocks it, as one sentence. Empty if it did not end in ``planned`` or ``leftovers``. Absent in
    #: lists.
    summary: str = resource.Body("summary", type=str)
    #: In a tree: the deletions that this deletion waits for. Absent in lists.
    children: list[ChildDeletion] = resource.Body("children", type=list, list_type=ChildDeletion)
    #: The liens in force on the project now. They hold the deletion, unless it is a dry run or has the origin
    #: ``noticed``. Absent in lists.
    liens: list[Lien] = resource.Body("liens", type=list, list_type=Lien)
    #: The waivers that the deletion used when it read the catalog last, as they were then. They stay when the waivers
    #: have ended and the project is removed. Absent in lists.
    waivers: list[Waiver] = resource.Body("waivers", type=list, list_type=Waiver)
    #: The approvals of this attempt. Absent in lists.
    approvals: list[Approval] = resource.Body("approvals", type=list, list_type=Approval)
    #: One object for each type in each region, by region, service and type. Absent in lists.
    counts: list[Count] = resource.Body("counts", type=list, list_type=Count)
    #: Everything that prevents the deletion from continuing. What only a person can clear is there from the first list
    #: that finds it until one that does not. A project below is no blocker while it is being deleted. Absent in lists.
    blockers: list[Blocker] = resource.Body("blockers", type=list, list_type=Blocker)
    #: The role assignments on the project that the lock removed and that are not restored yet; each undo of the lock
    #: restores them. Deletions of projects below have their own. ``null``: the caller may neither restore nor cancel
    #: the deletion, nor see them by ``cleanup:deletions:get_grants``. Absent in lists.
    grants_removed: list[Grant] | None = resource.Body("grants_removed", type=list, list_type=Grant)
