"""Deletions, and what they consist of."""

from __future__ import annotations

from cleanup_orchestrator.core.words import ConditionType, Mode, Origin, Outcome, RoundPurpose, Status, StepState
from cleanup_orchestrator.shapes.base import (
    REQUEST_ID,
    SELF,
    USER_ID,
    USER_NAME,
    Link,
    Shape,
    field,
    quiet,
    time,
    uuid,
    word,
)
from cleanup_orchestrator.shapes.holds import Lien, Waiver
from cleanup_orchestrator.shapes.places import TypeInRegion


class BlockingResource(Shape):
    """A resource that blocks the delete of another one."""

    type: str = field("Resource type. Empty: unknown.")
    id: str = field("ID. Empty: unknown.")
    name: str = field("Name. Empty: unknown, or the caller may not see the project.")
    project_id: str | None = field("ID of its project. ``null``: unknown, or the caller may not see it.")
    project_name: str | None = field(
        "Name of its project. ``another project``: the caller may not see it. ``null``: unknown.",
    )


class BlockedResource(Shape):
    """A resource that a deletion cannot delete."""

    id: str = field("ID of the resource in its service. In Swift: the name of the container.")
    name: str = field("Name of the resource in its service.")


class Blocker(Shape):
    """What prevents a deletion from continuing."""

    region: str = field("Region. Empty: a task of the whole deletion, or a service without a region.")
    service: str = field("Service type. Empty: a task of the whole deletion.")
    type: str = field(
        "Resource type, ``unsupported`` (a service without a plugin), or a task of the whole deletion: ``survey``, "
        "``access``, ``drain``, ``close``, ``release`` or ``remove``.",
    )
    reason: str = field("Code of the reason.")
    message: str = field("The same as text.")
    remedy: str = field("How to clear it.")
    commands: list[str] = field(
        "The commands of the remedies of ``resources`` that can be copied, or that of ``remedy``: without one that "
        "deletes or gives up something. Words in capitals stand for a value.",
    )
    number: int = field("Number of resources that it is about. 0: it is not about resources, or they are not known.")
    resources: list[BlockedResource] = field("The first of these resources, at most 10.")
    blocked_by: list[BlockingResource] = field("Resources that block one or more of its leftovers, at most 10.")


class Condition(Shape):
    """What is true about a deletion beside its status."""

    type: str = word(ConditionType, "Type of the condition. Each type occurs at most once.")
    status: bool = field("Whether the condition is true.")
    reason: str = field("Code of the reason.")
    message: str = field("The same as text.")
    last_transition_at: str = time("When ``status`` changed last.")


class Progress(Shape):
    """The counts of a deletion."""

    steps: int = field("Number of resource types (per region) in the present round.")
    steps_done: int = field(
        "Number of these types that an inventory has listed, that a delete round has found empty, or that force "
        "abandoned. Between rounds: of those that have a result in this attempt.",
    )
    found: int = field("Number of resources that were ever found, also deleted ones.")
    deleted: int = field(
        "Number of resources that the lists of the project no longer have after a delete round, in all attempts. A "
        "resource whose owner changed between two rounds counts, too.",
    )
    remaining: int = field("Number of leftovers in the latest list of each type in this attempt.")
    abandoned: int = field("Number of these leftovers that force abandoned.")
    kept: int = field(
        "Number of resources that are not the user's, or that are deleted with their parent, in this attempt."
    )
    unknown: int = field("Number of types whose result in this attempt is unknown.")
    calls: int = field("Number of API calls of the deletion, in all attempts.")
    round: int = field("Number of the present round. It grows over all attempts.")
    purpose: str = word(RoundPurpose, "Purpose of the present round. Empty: between rounds.")


class Count(TypeInRegion):
    """The counts of one resource type in one region."""

    found: int = field("As in ``progress``, for this type.")
    deleted: int = field("As in ``progress``, for this type.")
    remaining: int = field("As in ``progress``, for this type.")
    abandoned: int = field("As in ``progress``, for this type.")
    kept: int = field("As in ``progress``, for this type.")
    unplanned: int = field("Number of those in ``remaining`` that the plan does not list for deletion. They stay.")
    unselected: int = field("Number of those in ``remaining`` that the request does not select. They stay.")
    calls: int = field("As in ``progress``, for this type.")
    outcome: str = word(
        Outcome, "Result of the type. ``clear``: nothing is left. Empty: it was not listed in this attempt."
    )
    state: str = word(StepState, "``idle``, ``dispatched`` (sent to the workers), ``running`` or ``done``.")
    reason: str = field(
        "Code of the result. ``waived``: the type is not listed, and its numbers are from an earlier inventory, if "
        "there was one.",
    )
    message: str = field(
        "The result as text. Of a type that this delete round has not tried yet: what it waits for, such as ``waits "
        "for network.port``.",
    )


class UnseenType(TypeInRegion):
    """A type that was abandoned although it could not be listed."""

    reason: str = field("Code of the reason.")
    message: str = field("The same as text.")


class Force(Shape):
    """The force of a deletion."""

    reason: str = field("Reason that the admin gave.")
    types: list[str] = field("Types whose forced delete is used, as ``service.type``.")
    at: str = time("When the force was requested.")
    user_id: str = USER_ID
    user_name: str = USER_NAME
    request_id: str = REQUEST_ID
    abandoned: int = field("Number of abandoned resources. The leftovers name them.")
    unseen: list[UnseenType] = field("Types that were abandoned although they could not be listed.")


class Approval(Shape):
    """An approval of a deletion that exceeds a limit."""

    needed: str = field("The limit that is exceeded: ``too_many_resources`` or ``too_many_deletions``.")
    reason: str = field("Reason that the approver gave.")
    resources: int = field(
        "Number of resources that were found then: the approval covers no more. 0 with ``too_many_deletions``."
    )
    hash: str = field("Hash, as of a plan, of the resources that were found then; empty with ``too_many_deletions``.")
    at: str = time("When the deletion was approved.")
    user_id: str = USER_ID
    user_name: str = USER_NAME
    request_id: str = REQUEST_ID


class ChildDeletion(Shape):
    """The deletion of a project below, for which a deletion waits."""

    deletion_id: str = uuid("ID of the deletion.")
    project_id: str = field("ID of its project.")
    project_name: str = field("Name of its project. Empty: not known.")
    status: str = word(Status, "Its status.")
    attention: list[str] = field("Its ``attention``.")
    attention_message: str = field("The same as text.")


class Grant(Shape):
    """A role assignment that the lock removed."""

    actor: str = word(["user", "group"], "Whether the role was assigned to a user or a group.")
    actor_id: str = field("ID of the user or the group.")
    role_id: str = field("ID of the role.")


class Selection(Shape):
    """What a deletion that keeps its project deletes. Without a criterion: everything."""

    services: list[str] = field("Official types of the services whose resources are selected.")
    types: list[str] = field("Resource types that are selected as well. Without both: all types.")
    skip: list[str] = field("Services and resource types that are never selected.")
    tags: list[str] = field("Tags that a resource must have.")
    not_tags: list[str] = field("Tags that a resource must not have.")
    names: list[str] = field("Patterns of which the name of a resource must match one.")
    not_names: list[str] = field("Patterns of which the name of a resource must match none.")
    created_before: str | None = time(
        "The time before which a resource must have been created. One of unknown age is not selected. ``null``: any "
        "time.",
    )
    updated_before: str | None = time(
        "The time before which the last change of a resource must have been. One whose service does not show it is not "
        "selected. ``null``: any time.",
    )


class Deletion(
    Shape,
    one="deletion",
    many="deletions",
    columns="id project_name status attention",
    wide="project_id mode dry_run progress.remaining created_at domain_id progress.found progress.deleted "
    "progress.kept progress.unknown attempt reason message attention_message user_name origin selection "
    "ticket request_reason not_before parent_deletion_id updated_at finished_at",
):
    """The deletion of a project: the request and its record."""

    id: str = uuid("ID of the deletion.")
    project_id: str = field("ID of the project.")
    project_name: str = field(
        "Name of the project in Keystone, read at the request and each time the catalog is read. Of a project that was "
        "unknown at the request: the name in its latest earlier deletion, or empty.",
        label="Project",
    )
    domain_id: str = field("ID of the domain of the project, from the same source.", quiet=True)
    mode: str = word(Mode, "Whether resources are only reported, or deleted, and whether the project stays.")
    dry_run: bool = field("Whether the deletion is a dry run.")
    include_subtree: bool = field(
        "Whether the deletion waits for the deletions of projects below. In a tree this is true for each project that "
        "has projects below it.",
        quiet=True,
    )
    request_reason: str = field(
        "Why the deletion was requested, as the requester or a later change says. Empty: not given.",
    )
    ticket: str = field("Reference of the requester, such as the number of a change. Empty: none.")
    not_before: str | None = time(
        "The date of the deletion: nothing of it begins earlier. ``null``: it began at its request."
    )
    parent_deletion_id: str = field(
        "In a tree: ID of the deletion that waits for this one. Empty: none.", label="Parent Deletion"
    )
    origin: str = word(
        Origin,
        "``request``: a caller requested it. ``noticed``: Keystone announced that the project was deleted without the "
        "orchestrator; only its leftovers are searched, and nothing is written. ``adopted``: an admin adopted orphans.",
        quiet=True,
    )
    status: str = word(Status, "Status of the deletion.")
    reason: str = field(
        "Code of why the deletion entered the status, such as ``cascade``, ``leftovers`` or ``retried``; it can be the "
        "reason of a blocker. Empty until the first change.",
        quiet=True,
    )
    message: str = field(
        "What the deletion does now and what it waits for, or how it ended: text for a person, which may change "
        "between releases.",
    )
    attention: list[str] = field(
        "Every cause for which the deletion needs a person now: ``stalled``, ``approval``, ``lien``, ``brake``, "
        "``blocked``, ``leftovers`` or ``failed``. Empty: it needs no person. A dry run needs none, and a deletion "
        "whose project has a later one needs none.",
    )
    attention_message: str = field("What a person does about it. Empty: nothing.")
    attempt: int = field(
        "Number of the attempt, from 1. Each retry of a deletion that has ended adds 1.", minimum=1, quiet=True
    )
    cancellable: bool = field("Whether ``cancel`` is accepted now.", quiet=True)
    retryable: bool = field(
        "Whether the status allows ``retry``: the deletion is under way and not being cancelled, or it ended in "
        "``leftovers`` or ``failed``.",
        quiet=True,
    )
    restorable: bool = field(
        "Whether ``restore`` is accepted now: in ``accepted``, ``draining``, ``inventory`` and ``recoverable``.",
        quiet=True,
    )
    forcible: bool = field("Whether the deletion can be forced now.", quiet=True)
    plan_id: str = field("ID of the plan that the deletion is bound to. Empty: none, it deletes what it finds.")
    plan_hash: str = field("Hash of that plan. Empty: no plan.", quiet=True)
    selection: Selection = field(
        "What is deleted in mode ``purge``. Empty arrays and ``null`` are no criteria: without one, everything is.",
    )
    point_of_no_return_at: str | None = time(
        "Before the first delete of this attempt: nothing is deleted earlier. Then: when deletes began. ``null``: no "
        "recovery window is open, and deletes have not begun.",
    )
    user_id: str = field(
        "ID of the user who made the request. With the origin ``noticed`` this, the name and the request are empty.",
        quiet=True,
    )
    user_name: str = USER_NAME
    request_id: str = quiet(REQUEST_ID)
    created_at: str = time("When the deletion was recorded.")
    updated_at: str = time("When the record changed last.", quiet=True)
    status_at: str = time("When the deletion entered its status.", quiet=True)
    progress_at: str = time("When the deletion made progress last. ``stalled`` counts from this time.", quiet=True)
    finished_at: str | None = time("When the deletion ended. ``null``: it is under way.")
    drained_at: str | None = time(
        "When the lock took effect in this attempt. ``null``: it has not, or it was undone: at the end of a deletion "
        "whose project stays, or by another client.",
        quiet=True,
    )
    project_gone_at: str | None = time(
        "When the orchestrator saw that Keystone no longer knows the project, which this deletion had not removed.",
    )
    settle_until: str | None = time(
        "Until this time services can accept cached tokens from before the lock, and no empty list counts as final: "
        "``[drain] token_cache_time`` seconds after the later of ``drained_at`` and ``project_gone_at``. ``null``: "
        "both are ``null``.",
        quiet=True,
    )
    conditions: list[Condition] = field("What is true about the deletion beside its status.")
    forced: Force | None = field(
        "The force that an admin requested. ``null``: none in this attempt, or a cancel withdrew it."
    )
    progress: Progress = field(
        "How far the deletion is. ``steps`` and ``steps_done`` begin again with each round. In a list the numbers are "
        "those of the latest decision.",
    )
    links: list[Link] = SELF
    summary: str = field(
        "What a cascade of the project (or the purge, of a dry run in mode ``purge``) would delete by what this "
        "deletion found, and what blocks it, as one sentence. Empty if it did not end in ``planned`` or ``leftovers``.",
        detail=True,
    )
    children: list[ChildDeletion] = field(
        "In a tree: the deletions that this deletion waits for.",
        detail=True,
    )
    liens: list[Lien] = field(
        "The liens in force on the project now. They hold the deletion, unless it is a dry run or has the origin "
        "``noticed``.",
        detail=True,
    )
    waivers: list[Waiver] = field(
        "The waivers that the deletion used when it read the catalog last, as they were then. They stay when the "
        "waivers have ended and the project is removed.",
        detail=True,
    )
    approvals: list[Approval] = field("The approvals of this attempt.", detail=True)
    counts: list[Count] = field("One object for each type in each region, by region, service and type.", detail=True)
    blockers: list[Blocker] = field(
        "Everything that prevents the deletion from continuing. What only a person can clear is there from the first "
        "list that finds it until one that does not. A project below is no blocker while it is being deleted.",
        detail=True,
    )
    grants_removed: list[Grant] | None = field(
        "The role assignments on the project that the lock removed and that are not restored yet; each undo of the "
        "lock restores them. Deletions of projects below have their own. ``null``: the caller may neither restore nor "
        "cancel the deletion, nor see them by ``cleanup:deletions:get_grants``.",
        detail=True,
    )
