"""The table of all operations: the one source of the routes, the OpenAPI document and the reference.

An operation names its handler, its schemas and its errors. The handler names the schemas again where it checks them; a
test compares them. To add a parameter or a field of a body, add one line to its schema in ``schemas``. To add a field
of an answer, add it in ``views`` and in ``answers``. Each change of the API needs a new microversion: see
``microversions``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from cleanup_orchestrator.api import answers, errors, schemas

Schema = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """The answer of an operation that succeeds."""

    about: str
    schema: Schema | None = None  #: of the JSON; ``None``: there is no body
    location: bool = False  #: whether the header ``Location`` has the URL of the record
    csv: bool = False  #: whether it can also be CSV


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the API."""

    handler: str  #: ``object.method``; ``root`` has the objects
    summary: str
    answers: Mapping[int, Answer]
    errors: tuple[str, ...] = ()  #: codes besides those of :meth:`codes`
    query: Schema = dataclasses.field(default_factory=lambda: schemas.NOTHING)
    body: Schema | None = None  #: ``None``: no body is read
    public: bool = False  #: needs no token, and answers the same for each microversion

    def codes(self) -> dict[int, tuple[str, ...]]:
        """Return the codes of all errors that the operation can answer, by status."""
        found = ["bad_request", "invalid_query", "method_not_allowed", "not_acceptable", "body_too_large"]
        found += ["internal_error"]
        if not self.public:
            found += ["invalid_version", "version_not_supported"]
            found += ["unauthorized", "forbidden", "keystone_unavailable", "store_unavailable"]
        if self.body is not None:
            found += ["invalid_json", "invalid_body", "unsupported_media_type"]
        by_status: dict[int, tuple[str, ...]] = {}
        for code in sorted({*found, *self.errors}, key=lambda code: (errors.CODES[code][0], code)):
            status = errors.CODES[code][0]
            by_status[status] = (*by_status.get(status, ()), code)
        return by_status

    @property
    def name(self) -> str:
        """The id of the operation in the OpenAPI document."""
        return self.handler.replace(".", "_")


_DELETION = answers.one("deletion", answers.DELETION)
_SCAN = answers.one("orphan_scan", answers.ORPHAN_SCAN)
_LIEN = answers.one("lien", answers.LIEN)
_WAIVER = answers.one("waiver", answers.WAIVER)
_BRAKE = answers.one("brake", answers.BRAKE)
_ENDED = {204: Answer("The record is ended, or was ended before.")}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("GET", "/"): Operation(
        "root.versions",
        "List the versions of the API",
        {200: Answer("The versions.", answers.every("versions", answers.VERSION))},
        public=True,
    ),
    ("GET", "/v1"): Operation(
        "root.version",
        "Show version 1 of the API",
        {200: Answer("The version.", answers.one("version", answers.VERSION))},
        public=True,
    ),
    ("GET", "/v1/openapi.json"): Operation(
        "root.openapi",
        "Get the OpenAPI document of the API",
        {200: Answer("An OpenAPI 3.1 document.", {"type": "object"})},
        public=True,
    ),
    ("GET", "/v1/deletions"): Operation(
        "deletions.index",
        "List deletions",
        {200: Answer("A page of the deletions that the caller may see.", answers.many("deletions", answers.DELETION))},
        query=schemas.LIST_QUERY,
    ),
    ("POST", "/v1/deletions"): Operation(
        "deletions.create",
        "Request the deletion of a project",
        {202: Answer("The deletion is recorded, or the same one is already under way.", _DELETION, location=True)},
        (
            "project_is_domain", "project_protected", "project_not_found", "plan_not_found", "deletion_under_way",
            "project_has_children", "subtree_too_large", "project_has_liens", "plan_unusable", "conflict",
            "deletion_limit_reached",
        ),
        body=schemas.CREATE_BODY,
    ),
    ("GET", "/v1/deletions/{id}"): Operation(
        "deletion.get",
        "Show a deletion",
        {200: Answer("The deletion.", _DELETION)},
        ("deletion_not_found",),
    ),
    ("GET", "/v1/deletions/{id}/leftovers"): Operation(
        "deletion.leftovers",
        "List the leftovers of a deletion",
        {200: Answer("A page of the resources that are left.", answers.many("leftovers", answers.LEFTOVER))},
        ("deletion_not_found",),
        query=schemas.LEFTOVERS_QUERY,
    ),
    ("GET", "/v1/leftovers"): Operation(
        "searches.leftovers",
        "List what the latest deletion of each project left",
        {200: Answer("A page of the leftovers.", answers.many("leftovers", answers.PROJECT_LEFTOVER))},
        query=schemas.ALL_LEFTOVERS_QUERY,
    ),
    ("GET", "/v1/deletions/{id}/events"): Operation(
        "deletion.events",
        "List the journal of a deletion",
        {200: Answer("A page of the journal, oldest first.", answers.many("events", answers.EVENT))},
        ("deletion_not_found",),
        query=schemas.EVENTS_QUERY,
    ),
    ("GET", "/v1/events"): Operation(
        "searches.events",
        "List the journal entries of all deletions that name a resource",
        {200: Answer("A page of the entries, oldest first.", answers.many("events", answers.PROJECT_EVENT))},
        query=schemas.ALL_EVENTS_QUERY,
    ),
    ("POST", "/v1/deletions/{id}/retry"): Operation(
        "actions.retry",
        "Begin a new attempt of a deletion, or try again at once what waits",
        {202: Answer("The new attempt has begun, or the waiting times have ended.", _DELETION)},
        (
            "project_protected", "deletion_not_found", "not_retryable", "deletion_under_way", "project_has_liens",
            "conflict", "deletion_limit_reached",
        ),
        body=schemas.NO_BODY,
    ),
    ("POST", "/v1/deletions/{id}/cancel"): Operation(
        "actions.cancel",
        "Stop a deletion and undo its lock",
        {202: Answer("The deletion is being cancelled.", _DELETION)},
        ("deletion_not_found", "not_cancellable", "conflict"),
        body=schemas.NO_BODY,
    ),
    ("POST", "/v1/deletions/{id}/restore"): Operation(
        "actions.restore",
        "Stop a deletion before its first delete",
        {202: Answer("The deletion is being cancelled.", _DELETION)},
        ("deletion_not_found", "not_restorable", "not_cancellable", "conflict"),
        body=schemas.NO_BODY,
    ),
    ("POST", "/v1/deletions/{id}/approve"): Operation(
        "actions.approve",
        "Approve that a deletion exceeds a limit",
        {202: Answer("The deletion continues.", _DELETION)},
        ("self_approval", "delegated_approval", "deletion_not_found", "not_awaiting_approval", "conflict"),
        body=schemas.APPROVE_BODY,
    ),
    ("GET", "/v1/plans/{id}"): Operation(
        "plans.get",
        "Show a plan",
        {200: Answer("The plan.", answers.one("plan", answers.PLAN))},
        ("plan_not_found",),
    ),
    ("GET", "/v1/plans/{id}/resources"): Operation(
        "plans.resources",
        "List the resources of a plan",
        {200: Answer("A page of the resources.", answers.many("resources", answers.PLANNED))},
        ("plan_not_found",),
        query=schemas.PLAN_RESOURCES_QUERY,
    ),
    ("DELETE", "/v1/projects/{id}/force"): Operation(
        "forcing.force",
        "Let the deletion of a project abandon what it cannot delete",
        {202: Answer("The force is recorded.", _DELETION, location=True)},
        ("project_protected", "no_deletion_under_way", "not_forcible", "conflict", "force_unavailable"),
        body=schemas.FORCE_BODY,
    ),
    ("GET", "/v1/services"): Operation(
        "services.index",
        "List the services of the catalog and what handles them",
        {200: Answer("All services.", answers.every("services", answers.SERVICE))},
        query=schemas.SERVICES_QUERY,
    ),
    ("GET", "/v1/liens"): Operation(
        "liens.index",
        "List liens",
        {200: Answer("A page of liens.", answers.many("liens", answers.LIEN))},
        query=schemas.LIENS_QUERY,
    ),
    ("POST", "/v1/liens"): Operation(
        "liens.create",
        "Protect a project by a lien",
        {201: Answer("The lien is in force.", _LIEN, location=True)},
        body=schemas.LIEN_BODY,
    ),
    ("GET", "/v1/liens/{id}"): Operation(
        "liens.get", "Show a lien", {200: Answer("The lien.", _LIEN)}, ("lien_not_found",)
    ),
    ("DELETE", "/v1/liens/{id}"): Operation("liens.delete", "Remove a lien", _ENDED, ("lien_not_found",)),
    ("GET", "/v1/brake"): Operation("brakes.get", "Show the brake", {200: Answer("The brake.", _BRAKE)}),
    ("POST", "/v1/brake"): Operation(
        "brakes.pull",
        "Set the brake, which stops all deletions",
        {200: Answer("The brake is on.", _BRAKE)},
        body=schemas.BRAKE_BODY,
    ),
    ("DELETE", "/v1/brake"): Operation("brakes.lift", "Lift the brake", {204: Answer("The brake is off.")}),
    ("GET", "/v1/waivers"): Operation(
        "waivers.index",
        "List waivers",
        {200: Answer("A page of waivers.", answers.many("waivers", answers.WAIVER))},
        query=schemas.WAIVERS_QUERY,
    ),
    ("POST", "/v1/waivers"): Operation(
        "waivers.create",
        "Let deletions skip a service",
        {201: Answer("The waiver is in force.", _WAIVER, location=True)},
        ("not_waivable", "not_in_catalog"),
        body=schemas.WAIVER_BODY,
    ),
    ("GET", "/v1/waivers/{id}"): Operation(
        "waivers.get", "Show a waiver", {200: Answer("The waiver.", _WAIVER)}, ("waiver_not_found",)
    ),
    ("DELETE", "/v1/waivers/{id}"): Operation("waivers.delete", "Withdraw a waiver", _ENDED, ("waiver_not_found",)),
    ("GET", "/v1/orphan-scans"): Operation(
        "scans.index",
        "List orphan scans",
        {200: Answer("A page of orphan scans.", answers.many("orphan_scans", answers.ORPHAN_SCAN))},
        query=schemas.ORPHAN_SCANS_QUERY,
    ),
    ("POST", "/v1/orphan-scans"): Operation(
        "scans.create",
        "Begin an orphan scan",
        {202: Answer("The scan is recorded.", _SCAN, location=True)},
        ("orphan_scan_under_way",),
        body=schemas.NO_BODY,
    ),
    ("GET", "/v1/orphan-scans/{id}"): Operation(
        "scans.get", "Show an orphan scan", {200: Answer("The scan.", _SCAN)}, ("orphan_scan_not_found",)
    ),
    ("DELETE", "/v1/orphan-scans/{id}"): Operation(
        "scans.cancel",
        "Cancel an orphan scan",
        {204: Answer("The scan is cancelled, or was cancelled before.")},
        ("orphan_scan_not_found", "orphan_scan_ended"),
    ),
    ("GET", "/v1/orphan-scans/{id}/orphans"): Operation(
        "scans.orphans",
        "List the orphans that a scan found",
        {200: Answer("A page of orphans; as CSV, all orphans.", answers.many("orphans", answers.ORPHAN), csv=True)},
        ("orphan_scan_not_found",),
        query=schemas.ORPHANS_QUERY,
    ),
    ("GET", "/v1/orphan-scans/{id}/projects"): Operation(
        "scans.projects",
        "List the projects of the orphans that a scan found",
        {200: Answer("A page of projects.", answers.many("projects", answers.ORPHAN_PROJECT))},
        ("orphan_scan_not_found",),
        query=schemas.ORPHAN_PROJECTS_QUERY,
    ),
    ("POST", "/v1/orphan-scans/{id}/adopt"): Operation(
        "scans.adopt",
        "Delete the orphans of one project",
        {202: Answer("The deletion is recorded, or the same one is already under way.", _DELETION, location=True)},
        (
            "project_protected", "orphan_scan_not_found", "orphan_project_not_found", "orphan_scan_under_way",
            "project_known", "deletion_under_way",
        ),
        body=schemas.ADOPT_BODY,
    ),
}  # fmt: skip
