"""The JSON Schemas of all answers, as ``views`` and the handlers make them.

``NAMED`` has the schemas that occur more than once or that a client needs by name. The OpenAPI document refers to them.
The functional tests check each answer of the API against these schemas, and that it has no other field.
"""

from __future__ import annotations

from cleanup_orchestrator.api import errors
from cleanup_orchestrator.api.shapes import Schema, list_of, null_or, number, record, text, time, truth, uuid, word
from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import DELETING_MODES, Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.orphan_scan import ScanStatus
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepState

# ---------------------------------------------------------------------------------------------------------- for many
LINK = record(rel=text("Kind of the link."), href=text("URL."))
SELF = {"type": "array", "items": LINK, "description": "One link with ``rel`` ``self``: the URL of the record."}
NEXT = {
    "type": "array",
    "items": LINK,
    "description": "One link with ``rel`` ``next``: the URL of the next page. Absent on the last page.",
}

_PLACE = {
    "region": text("Region of the catalog entry. Empty: the entry has no region."),
    "service": text("Official service type, such as ``network``."),
}
_TYPE = {**_PLACE, "type": text("Resource type, such as ``port``. Empty: an unsupported service.")}
_SIZE = number("Size in bytes, as its service lists it. ``null``: the service does not say.", null=True)
_WHO = {
    "user_id": text("ID of the user who made the request."),
    "user_name": text("Name of that user."),
    "request_id": text("ID of that request."),
}

# ----------------------------------------------------------------------------------------------------------- versions
VERSION = record(
    id=text("ID of the version."),
    status=word(["CURRENT"], "Status of the version."),
    links=SELF,
    min_version=text("The lowest microversion that the API serves."),
    max_version=text("The highest microversion that the API serves."),
)

# ---------------------------------------------------------------------------------------------------- holds of admins
LIEN = record(
    ("reason", "created_at", "user_id", "user_name", "request_id", "deleted_at", "deleted_by", "state", "links"),
    id=uuid("ID of the lien."),
    project_id=text("ID of the protected project."),
    origin=text("The department or system that needs the lien."),
    reason=text("Why. Only for callers who may read liens."),
    created_at=time("When the lien was recorded."),
    expires_at=time("When the lien ends. ``null``: it is in force until it is removed.", null=True),
    user_id=text("ID of the user who recorded the lien. Empty: a plugin raised it."),
    user_name=text("Name of that user."),
    request_id=text("ID of the request. For a plugin lien: of the request for the deletion."),
    deleted_at=time("When the lien was removed. ``null``: it was not removed.", null=True),
    deleted_by=text("ID of the user who removed the lien, or ``plugin``. Empty: it was not removed."),
    state=word(["in_force", "expired", "removed"], "State of the lien. Only in the answers of ``/v1/liens``."),
    links=SELF,
)
WAIVER = record(
    (
        "reason", "created_at", "user_id", "request_id", "deleted_at", "deleted_by", "state", "links", "not_listed",
    ),
    id=uuid("ID of the waiver."),
    service_type=text("Official type of the waived service."),
    region=text("Only in this region. ``null``: in every region.", null=True),
    project_id=text("Only for deletions of this project. ``null``: for deletions of every project.", null=True),
    reason=text("Why. Only for callers who may read waivers."),
    created_at=time("When the waiver was recorded."),
    expires_at=time("When the waiver ends."),
    user_id=text("ID of the user who recorded the waiver."),
    user_name=text("Name of that user."),
    request_id=text("ID of the request. Absent in a deletion."),
    deleted_at=time("When the waiver was withdrawn. ``null``: it was not. Absent in a deletion.", null=True),
    deleted_by=text("ID of the user who withdrew it. Empty: it was not withdrawn. Absent in a deletion."),
    state=word(["in_force", "expired", "withdrawn"], "State of the waiver. Only in the answers of ``/v1/waivers``."),
    links=SELF,
    not_listed=list_of(record(**_PLACE), "Only in a deletion: the catalog entries that were skipped because of it."),
)  # fmt: skip
BRAKE = record(
    ("reason", "since", "user_id", "user_name", "request_id"),
    on=truth("Whether the brake is on."),
    reason=text("The reason with which the brake was set last. Empty: it was never set."),
    since=time("When the brake was set or lifted last. ``null``: it was never set.", null=True),
    user_id=text("ID of the user who set or lifted the brake last. Empty: it was never set."),
    user_name=text("Name of that user."),
    request_id=text("ID of that request."),
)

# ------------------------------------------------------------------------------------------------------------- errors
ERROR = record(
    (
        "field", "path", "line", "column", "limit", "min_version", "max_version", "project_id", "projects", "children",
        "deletion_id", "status_now", "liens", "plan_id", "orphan_scan_id", "point_of_no_return_at",
    ),
    status={"type": "integer", "minimum": 400, "maximum": 599, "description": "The HTTP status."},
    code=word(errors.CODES, "Code of the error. It does not change between releases."),
    title=text("The phrase of the HTTP status."),
    detail=text("Text for a person: what is wrong, and what to do."),
    request_id=text("ID of the request. The log of the API has it, too."),
    links={"type": "array", "items": LINK, "description": "One link with ``rel`` ``help``: explains the code."},
    field=text("Name of the field or the parameter that is wrong."),
    path=text("JSON path of the invalid part of the body."),
    line={"type": "integer", "minimum": 1, "description": "Line at which the body is not JSON, from 1."},
    column={"type": "integer", "minimum": 1, "description": "Column at which the body is not JSON, from 1."},
    limit=number("The limit that is exceeded: bytes of a body, projects of a tree, or deletions."),
    min_version=text("The lowest microversion that the API serves."),
    max_version=text("The highest microversion that the API serves."),
    project_id=text("ID of the project."),
    projects=number("Number of projects below the project."),
    children=list_of({"type": "string"}, "IDs of all projects below the project."),
    deletion_id=uuid("ID of the deletion that conflicts with the request."),
    status_now=word([*Status, *ScanStatus], "Present status of the deletion or the orphan scan."),
    liens=list_of(LIEN, "With ``project_has_liens``: the liens in force."),
    plan_id=uuid("ID of the plan."),
    orphan_scan_id=uuid("ID of the orphan scan."),
    point_of_no_return_at=time("When deletes began or can begin.", null=True),
)  # fmt: skip
ERRORS = record(errors={"type": "array", "items": ERROR, "minItems": 1, "maxItems": 1, "description": "One error."})

# ---------------------------------------------------------------------------------------------------------- deletions
BLOCKING = record(
    type=text("Resource type. Empty: unknown."),
    id=text("ID. Empty: unknown."),
    name=text("Name. Empty: unknown, or the caller may not see the project."),
    project_id=text("ID of its project. ``null``: unknown, or the caller may not see it.", null=True),
    project_name=text(
        "Name of its project. ``another project``: the caller may not see it. ``null``: unknown.", null=True
    ),
)
BLOCKER = record(
    region=text("Region. Empty: a task of the whole deletion, or a service without a region."),
    service=text("Service type. Empty: a task of the whole deletion."),
    type=text("Resource type, ``unsupported`` (a service without a plugin), or the name of a task."),
    reason=text("Code of the reason."),
    message=text("The same as text."),
    remedy=text("How to clear it."),
    blocked_by=list_of(BLOCKING, "At most 10 resources that block its leftovers."),
)
CONDITION = record(
    type=word(ConditionType, "Type of the condition. Each type occurs at most once."),
    status=truth("Whether the condition is true."),
    reason=text("Code of the reason."),
    message=text("The same as text."),
    last_transition_at=time("When ``status`` changed last."),
)
PROGRESS = record(
    steps=number("Number of resource types (per region) in the present round."),
    steps_done=number("Number of these types that are finished in this round."),
    found=number("Number of resources that were ever found, also deleted ones."),
    deleted=number(
        "Number of resources that the lists of the project no longer have after a delete round, in all attempts. A "
        "resource whose owner changed between two rounds counts, too.",
    ),
    remaining=number("Number of leftovers in the latest list of each type in this attempt."),
    abandoned=number("Number of these leftovers that force abandoned."),
    kept=number("Number of resources that are not the user's, or that are deleted with their parent."),
    unknown=number("Number of types whose result is unknown."),
    calls=number("Number of API calls of the deletion, in all attempts."),
    round=number("Number of the present round. It grows over all attempts."),
    purpose=word(RoundPurpose, "Purpose of the present round. Empty: between rounds."),
)
COUNT = record(
    **_TYPE,
    found=number("As in ``progress``, for this type."),
    deleted=number("As in ``progress``, for this type."),
    remaining=number("As in ``progress``, for this type."),
    abandoned=number("As in ``progress``, for this type."),
    kept=number("As in ``progress``, for this type."),
    unplanned=number("Number of those in ``remaining`` that the plan does not list for deletion. They stay."),
    unselected=number("Number of those in ``remaining`` that the request does not select. They stay."),
    calls=number("As in ``progress``, for this type."),
    outcome=word(Outcome, "Result of the type. Empty: it was not listed in this attempt."),
    state=word(StepState, "Whether the type is idle, sent to the workers, running, or done."),
    reason=text("Code of the result."),
    message=text("The result as text, or what the type waits for."),
)
FORCED = record(
    reason=text("Reason that the admin gave."),
    types=list_of({"type": "string"}, "Types whose forced delete is used, as ``service.type``."),
    at=time("When the force was requested."),
    **_WHO,
    abandoned=number("Number of abandoned resources."),
    unseen=list_of(
        record(**_TYPE, reason=text("Code of the reason."), message=text("The same as text.")),
        "Types that were abandoned although they could not be listed.",
    ),
)
APPROVAL = record(
    needed=text("The limit that is exceeded: ``too_many_resources`` or ``too_many_deletions``."),
    reason=text("Reason that the approver gave."),
    resources=number("Number of resources that the approval covers; 0 with ``too_many_deletions``."),
    hash=text("Hash of the resources that were found then; empty with ``too_many_deletions``."),
    at=time("When the deletion was approved."),
    **_WHO,
)
_DETAIL = {
    "children": list_of(
        record(
            deletion_id=uuid("ID of the deletion."),
            project_id=text("ID of its project."),
            project_name=text("Name of its project. Empty: not known."),
            status=word(Status, "Its status."),
            attention=text("Its ``attention``."),
        ),
        "In a tree: the deletions that this deletion waits for. Absent in lists.",
    ),
    "liens": list_of(LIEN, "The liens in force on the project. Absent in lists."),
    "waivers": list_of(WAIVER, "The waivers that the deletion used when it read the catalog last. Absent in lists."),
    "approvals": list_of(APPROVAL, "The approvals of this attempt. Absent in lists."),
    "counts": list_of(COUNT, "One object for each type in each region. Absent in lists."),
    "blockers": list_of(BLOCKER, "Everything that prevents the deletion from continuing. Absent in lists."),
    "grants_removed": list_of(
        record(
            actor=word(["user", "group"], "Whether the role was assigned to a user or a group."),
            actor_id=text("ID of the user or the group."),
            role_id=text("ID of the role."),
        ),
        "The role assignments that the lock removed and that are not restored yet. ``null``: the caller may not "
        "see them. Absent in lists and in the answer of an adoption.",
        null=True,
    ),
}
SELECTION = record(
    services=list_of({"type": "string"}, "Service types whose resources are selected."),
    types=list_of({"type": "string"}, "Resource types that are selected as well. Without both: all types."),
    tags=list_of({"type": "string"}, "Tags that a resource must have."),
    created_before=time("The time before which a resource must have been created. ``null``: any time.", null=True),
)
DELETION = record(
    tuple(_DETAIL),
    id=uuid("ID of the deletion."),
    project_id=text("ID of the project."),
    project_name=text("Name of the project in Keystone, or its last known name."),
    domain_id=text("ID of the domain of the project."),
    mode=word(Mode, "Whether resources are only reported, or deleted, and whether the project stays."),
    dry_run=truth("Whether the deletion is a dry run."),
    include_subtree=truth("Whether the deletion waits for the deletions of projects below."),
    parent_deletion_id=text("In a tree: ID of the deletion that waits for this one. Empty: none."),
    origin=word(Origin, "Whether a caller requested it, Keystone announced it, or an admin adopted orphans."),
    status=word(Status, "Status of the deletion."),
    reason=text("Code of why the deletion entered the status. Empty until the first change."),
    message=text("What the deletion does now, or how it ended."),
    attention=text("The action that the deletion needs from a person. Empty: none."),
    attempt={"type": "integer", "minimum": 1, "description": "Number of the attempt. Each retry adds 1."},
    cancellable=truth("Whether ``cancel`` is accepted now."),
    retryable=truth("Whether the status allows ``retry``."),
    restorable=truth("Whether ``restore`` is accepted now."),
    plan_id=text("ID of the plan that the deletion is bound to. Empty: none."),
    plan_hash=text("Hash of that plan. Empty: no plan."),
    selection=SELECTION,
    point_of_no_return_at=time("When deletes began or can begin. ``null``: not known yet.", null=True),
    **_WHO,
    created_at=time("When the deletion was recorded."),
    updated_at=time("When the record changed last."),
    status_at=time("When the deletion entered its status."),
    progress_at=time("When the deletion made progress last."),
    finished_at=time("When the deletion ended. ``null``: it is under way.", null=True),
    drained_at=time("When the lock took effect in this attempt. ``null``: there is no lock.", null=True),
    project_gone_at=time("When the orchestrator saw that another client had deleted the project.", null=True),
    settle_until=time("Until this time no empty list counts as final.", null=True),
    conditions=list_of(CONDITION, "What is true about the deletion beside its status."),
    forced=null_or(FORCED, "The force that an admin requested. ``null``: none in this attempt."),
    progress=PROGRESS,
    links=SELF,
    **_DETAIL,
)
LEFTOVER = record(
    **_TYPE,
    id=text("ID of the resource in its service. In Swift: the name of the container."),
    name=text("Name of the resource in its service."),
    size=_SIZE,
    reason=word(Reason, "Code of why the resource is left."),
    message=text("The same as text, often the answer of the service."),
    remedy=text("What to do."),
    abandoned=truth("Whether force abandoned the resource."),
    owner=text("ID of the project that the resource belongs to. ``null``: unknown, or not recorded.", null=True),
    blocked_by=list_of(BLOCKING, "The resources that block the delete."),
)
_PROJECT = {name: DELETION["properties"][name] for name in ("project_id", "project_name", "domain_id")}
_PROJECT["deletion_id"] = uuid("ID of the deletion.")
PROJECT_LEFTOVER = record(**_PROJECT, **LEFTOVER["properties"])
EVENT = record(
    id=number("Number of the entry, which is also its marker. Later entries have greater numbers."),
    at=time("When the entry was recorded."),
    type=text("Type of the entry, such as ``deletion.accepted``."),
    message=text("The entry as text."),
    actor=text("ID of the user, or name of the worker. Empty: an engine."),
    request_id=text("ID of the request that caused the entry. Empty: no request."),
    data={"type": "object", "description": "Details. The fields depend on ``type``."},
)
PROJECT_EVENT = record(**_PROJECT, **EVENT["properties"])

# -------------------------------------------------------------------------------------------------------------- plans
PLAN = record(
    id=uuid("ID of the plan, which is the ID of its dry run."),
    project_id=text("ID of the project."),
    project_name=text("Name of the project."),
    domain_id=text("ID of the domain of the project."),
    mode=word(sorted(DELETING_MODES), "Mode of the dry run, and of the deletions that can be bound to it."),
    selection=SELECTION,
    created_at=time("When the dry run ended."),
    expires_at=time("Until when a cascade can be requested with the plan."),
    user_id=text("ID of the user who requested the dry run."),
    user_name=text("Name of that user."),
    hash=text("Hash of the resources that would be deleted."),
    complete=truth("Whether ``unknown`` is empty."),
    unknown=list_of({"type": "string"}, "Types and services that could not be listed, as ``service.type@region``."),
    delete=number("Number of resources to delete."),
    keep=number("Number of resources to keep."),
    protect=number("Number of resources that would block the cascade."),
    order=list_of(
        {"type": "array", "items": {"type": "string"}},
        "Types with resources to delete. The types of one array are deleted in parallel, after those of earlier ones.",
    ),
    with_project=list_of({"type": "string"}, "Types of project settings, which are deleted with the project."),
    types=list_of(
        record(
            **_TYPE,
            delete=number("Number of resources to delete."),
            keep=number("Number of resources to keep."),
            protect=number("Number of resources that would block the cascade."),
            size=number("Sum of the known sizes of the resources to delete. ``null``: none is known.", null=True),
            known=truth("Whether the type was listed."),
            waived=truth("Whether a waiver excludes the type."),
            reason=text("Code of the result."),
            message=text("The result as text."),
            digest=text("SHA-256 of the sorted IDs to delete. Empty: the type was not listed."),
        ),
        "One object for each type in each region.",
    ),
    blockers=list_of(BLOCKER, "What would prevent the end of a cascade."),
    links=SELF,
)
PLANNED = record(
    action=word(["delete", "keep", "protect"], "What a cascade does with the resource."),
    **_TYPE,
    id=text("ID of the resource in its service."),
    name=text("Name of the resource in its service."),
    size=_SIZE,
    reason=word(Reason, "Code of the reason."),
    message=text("The same as text."),
    blocked_by=list_of(BLOCKING, "The resources that will block the delete."),
)

# ----------------------------------------------------------------------------------------------------------- services
SERVICE = record(
    region=text("Region of the endpoints in Keystone. Empty: they have no region."),
    service_type=text("Official type of the service; for a second service of the type, with its name or ID."),
    name=text("Name of the service in Keystone."),
    answered_by=word(["plugin", "protocol", "nothing_to_own", "waived", "unsupported"], "What handles the service."),
    types=list_of({"type": "string"}, "The resource types of the plugin, or those that the service itself declares."),
    message=text("Why neither a plugin nor the service itself lists its resources, or what is wrong with that."),
    waiver_id=uuid("ID of the waiver. ``null``: not waived.", null=True),
    protocol_url=text(
        "Where the service answers over the project resources protocol. Empty: it never did, or only an admin sees it."
    ),
    protocol_read_at=time("When the service last said which types it has. ``null``: it never did.", null=True),
)

# ------------------------------------------------------------------------------------------------------- orphan scans
_SCAN_NUMBERS = {
    "listed": number("Rows of the first read, of all owners."),
    "owner_unknown": number("Rows of these without an owner, or whose owner cannot be a project."),
    "too_young": number("Rows of unknown projects that are younger than ``min_age``."),
    "undecided": number("Projects about which Keystone gave no clear answer."),
    "candidates": number("Resources of unknown projects at the first read."),
    "orphans": number("Candidates that the second read confirmed."),
    "calls": number("API calls."),
}
_SCAN_DETAIL = {
    "counts": {**record(**_SCAN_NUMBERS), "description": "Sums of ``coverage``. Absent in lists."},
    "coverage": list_of(
        record(
            **_TYPE,
            project_setting=truth("Whether the type is a project setting."),
            read=number("The read of its latest result. 0: none."),
            state=word(StepState, "Whether the part is idle, sent to the workers, running, or done."),
            outcome=word(Outcome, "Result of the type. Empty: not read yet."),
            reason=text("Code of why the result is unknown."),
            message=text("The same as text."),
            **_SCAN_NUMBERS,
        ),
        "One object for each type in each region that the scan lists. Absent in lists.",
    ),
    "not_covered": list_of(
        record(**_TYPE, reason=text("Why the scan cannot list the type.")),
        "The types that a scan cannot list. Absent in lists.",
    ),
}
ORPHAN_SCAN = record(
    tuple(_SCAN_DETAIL),
    id=uuid("ID of the scan."),
    status=word(ScanStatus, "Status of the scan."),
    message=text("Why the scan has this status."),
    scheduled=truth("Whether the schedule started the scan."),
    read={"type": "integer", "minimum": 1, "maximum": 2, "description": "The present read."},
    min_age=number("Seconds. Younger resources are skipped."),
    reread_after=number("Seconds between the end of the first read and the second read."),
    user_id=text("ID of the user who started the scan. Empty: the schedule."),
    user_name=text("Name of that user."),
    request_id=text("ID of that request."),
    created_at=time("When the scan was recorded."),
    status_at=time("When the scan entered its status."),
    reread_at=time("When the second read may begin. ``null``: not known, or not needed.", null=True),
    finished_at=time("When the scan ended. ``null``: it has not ended.", null=True),
    links=SELF,
    **_SCAN_DETAIL,
)
ORPHAN = record(
    project_id=text("The owner of the resource in its service."),
    **_TYPE,
    id=text("ID of the resource in its service."),
    name=text("Name of the resource in its service."),
    project_setting=truth("Whether the resource is a project setting."),
    created_at=time("When the resource was created. ``null``: its service does not say.", null=True),
    age_known=truth("Whether ``created_at`` is known."),
    first_seen_at=time("When the first read found the resource."),
    last_seen_at=time("When the second read found the resource."),
)
_TYPE_COUNT = record(type=text("Type, as ``service.type``."), count=number("Number of orphans of the type."))
ORPHAN_PROJECT = record(
    project_id=text("ID of the project."),
    project_name=text("Name of the project in its latest recorded deletion. ``null``: there is none.", null=True),
    domain_id=text("ID of its domain from the same source.", null=True),
    deletion_id=uuid("ID of that deletion.", null=True),
    orphans=number("Number of orphans, without project settings."),
    counts=list_of(_TYPE_COUNT, "Number of orphans of each type, without project settings."),
    project_settings=list_of(_TYPE_COUNT, "The same for project settings."),
)

#: The schemas with a name in the OpenAPI document.
NAMED: dict[str, Schema] = {
    "Approval": APPROVAL,
    "Blocker": BLOCKER,
    "BlockingResource": BLOCKING,
    "Brake": BRAKE,
    "Condition": CONDITION,
    "Count": COUNT,
    "Deletion": DELETION,
    "Error": ERROR,
    "Errors": ERRORS,
    "Event": EVENT,
    "Force": FORCED,
    "Leftover": LEFTOVER,
    "Lien": LIEN,
    "Link": LINK,
    "Orphan": ORPHAN,
    "OrphanProject": ORPHAN_PROJECT,
    "OrphanScan": ORPHAN_SCAN,
    "Plan": PLAN,
    "PlannedResource": PLANNED,
    "Progress": PROGRESS,
    "Selection": SELECTION,
    "Service": SERVICE,
    "Version": VERSION,
    "Waiver": WAIVER,
}


def one(name: str, schema: Schema) -> Schema:
    """Return the schema of an answer with one record."""
    return record(**{name: schema})


def every(name: str, schema: Schema) -> Schema:
    """Return the schema of an answer with all records."""
    return record(**{name: {"type": "array", "items": schema}})


def many(name: str, schema: Schema) -> Schema:
    """Return the schema of an answer with a page of records."""
    return record(("links",), **{name: {"type": "array", "items": schema}, "links": NEXT})
