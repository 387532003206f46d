"""The table of all operations.

The table is the one source of the routes, the checks of a request, the OpenAPI document, the operations of the policy
rules, and the reference.

To add a parameter, or a field of a body or an answer, add one line to its shape. Each change of the API needs a new
microversion: see ``microversions``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from cleanup_orchestrator import shapes
from cleanup_orchestrator.api import errors, policies, responses
from cleanup_orchestrator.api.brake import Brakes
from cleanup_orchestrator.api.deletion import SingleDeletion
from cleanup_orchestrator.api.deletion_actions import DeletionActions
from cleanup_orchestrator.api.deletions import Deletions
from cleanup_orchestrator.api.discovery import Discovery
from cleanup_orchestrator.api.force import Forcing
from cleanup_orchestrator.api.liens import Liens
from cleanup_orchestrator.api.orphans import OrphanScans
from cleanup_orchestrator.api.plans import Plans
from cleanup_orchestrator.api.report import Reports
from cleanup_orchestrator.api.responses import Response
from cleanup_orchestrator.api.searches import Searches
from cleanup_orchestrator.api.services import Services
from cleanup_orchestrator.api.waivers import Waivers
from cleanup_orchestrator.shapes import bodies, queries
from cleanup_orchestrator.shapes.base import Input


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """Who may call an operation."""

    name: str  #: of the policy rule; empty: the operation needs no token, and answers the same for each microversion
    also: tuple[str, ...] = ()  #: further policy rules that the handler checks
    refusal: str = ""  #: the text of the 403 of the hook ``Checks``; empty: the handler checks the rule


#: Anyone may call the operation.
PUBLIC = Rule("")


def everywhere(name: str, refusal: str) -> Rule:
    """Return a rule about the whole cloud, which is checked before the handler is called."""
    return Rule(name, refusal=refusal)


def by_handler(name: str, *also: str) -> Rule:
    """Return a rule about what the request concerns, which the handler checks."""
    return Rule(name, also)


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the API.

    The handler is called with the request, the response, the ID of the path, the checked query and the checked body;
    without those that the operation does not have.
    """

    name: str  #: the ID of the operation in the OpenAPI document
    owner: type[Any]  #: the class of the handler
    handler: Callable[..., Any]
    summary: str
    responses: Mapping[int, Response]  #: of the success, by its only status
    errors: tuple[str, ...] = ()  #: codes besides those of :meth:`codes`
    query: type[Input] = bodies.Nothing
    body: type[Input] | None = None  #: ``None``: no body is read
    _: dataclasses.KW_ONLY
    rule: Rule  #: without a default: an operation whose rule is forgotten cannot be declared

    @property
    def public(self) -> bool:
        """Whether the operation needs no token."""
        return self.rule == PUBLIC

    @property
    def success(self) -> int:
        """The status of a success."""
        [status] = self.responses
        return status

    def codes(self) -> dict[int, tuple[str, ...]]:
        """Return the codes of all errors that the operation can answer, by status."""
        codes = ["bad_request", "invalid_query", "method_not_allowed", "not_acceptable", "body_too_large"]
        codes += ["internal_error"]
        if not self.public:
            codes += ["invalid_version", "version_not_supported"]
            codes += ["unauthorized", "forbidden", "keystone_unavailable", "store_unavailable"]
        if self.body is not None:
            codes += ["invalid_json", "invalid_body", "unsupported_media_type"]
        by_status: dict[int, tuple[str, ...]] = {}
        for code in sorted({*codes, *self.errors}, key=lambda code: (errors.CODES[code][0], code)):
            status = errors.CODES[code][0]
            by_status[status] = (*by_status.get(status, ()), code)
        return by_status


_LIENS = "only an admin may record or end liens; a reader of the system may see them"
_WAIVERS = "only an admin may record or end waivers; a reader of the system may see them"
_BRAKE = "only an admin may set or lift the brake; a reader of the system may see it"
_SCANS = "only an admin may do this; a reader of the system may only read"
_RECORDED = "The deletion is recorded, or the same one is already under way."
_ENDED = {204: Response("The record is ended, or was ended before.")}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("GET", "/"): Operation(
        "root_versions", Discovery, Discovery.versions,
        "List the versions of the API",
        {200: responses.every("The versions.", responses.Version)},
        rule=PUBLIC,
    ),
    ("GET", "/v1"): Operation(
        "root_version", Discovery, Discovery.version,
        "Show version 1 of the API",
        {200: responses.one("The version.", responses.Version)},
        rule=PUBLIC,
    ),
    ("GET", "/v1/openapi.json"): Operation(
        "root_openapi", Discovery, Discovery.openapi,
        "Get the OpenAPI document of the API",
        {200: Response("An OpenAPI 3.1 document.", responses.Form.OTHER)},
        rule=PUBLIC,
    ),
    ("GET", "/v1/deletions"): Operation(
        "deletions_index", Deletions, Deletions.index,
        "List deletions",
        {200: responses.page("A page of the deletions that the caller may see.", shapes.Deletion)},
        query=queries.DeletionsQuery,
        rule=by_handler(policies.LIST),
    ),
    ("POST", "/v1/deletions"): Operation(
        "deletions_create", Deletions, Deletions.create,
        "Request the deletion of a project",
        {202: responses.one(_RECORDED, shapes.Deletion, location=True)},
        (
            "project_is_domain", "project_protected", "project_not_found", "plan_not_found", "deletion_under_way",
            "project_has_children", "subtree_too_large", "project_has_liens", "plan_unusable", "conflict",
            "deletion_limit_reached",
        ),
        body=bodies.CreateBody,
        rule=by_handler(policies.CREATE),
    ),
    ("GET", "/v1/deletions/{id}"): Operation(
        "deletion_get", SingleDeletion, SingleDeletion.get,
        "Show a deletion",
        {200: responses.one("The deletion.", shapes.Deletion)},
        ("deletion_not_found",),
        rule=by_handler(policies.GET, policies.GRANTS_GET),
    ),
    ("PATCH", "/v1/deletions/{id}"): Operation(
        "actions_change", DeletionActions, DeletionActions.change,
        "Change the date, the reason or the ticket of a deletion and of those below it",
        {200: responses.one("The deletion with the new values.", shapes.Deletion)},
        ("deletion_not_found", "not_changeable", "conflict"),
        body=bodies.SetBody,
        rule=by_handler(policies.SET, policies.POSTPONE, policies.CANCEL_OF_ADMIN),
    ),
    ("GET", "/v1/deletions/{id}/leftovers"): Operation(
        "deletion_leftovers", SingleDeletion, SingleDeletion.leftovers,
        "List the leftovers of a deletion",
        {200: responses.page("A page of the resources that are left.", shapes.Leftover)},
        ("deletion_not_found",),
        query=queries.LeftoversQuery,
        rule=by_handler(policies.GET),
    ),
    ("GET", "/v1/leftovers"): Operation(
        "searches_leftovers", Searches, Searches.leftovers,
        "List what the latest deletion of each project left",
        {200: responses.page("A page of the leftovers.", shapes.ProjectLeftover)},
        query=queries.AllLeftoversQuery,
        rule=by_handler(policies.LIST),
    ),
    ("GET", "/v1/deletions/{id}/events"): Operation(
        "deletion_events", SingleDeletion, SingleDeletion.events,
        "List the journal of a deletion",
        {200: responses.page("A page of the journal, oldest first.", shapes.Event)},
        ("deletion_not_found",),
        query=queries.EventsQuery,
        rule=by_handler(policies.GET),
    ),
    ("GET", "/v1/deletions/{id}/report"): Operation(
        "reports_report", Reports, Reports.report,
        "Get the report of a deletion, with its journal and its signature",
        {200: responses.itself("The report.", shapes.SignedReport)},
        ("deletion_not_found",),
        rule=by_handler(policies.REPORT, policies.GRANTS_GET),
    ),
    ("GET", "/v1/events"): Operation(
        "searches_events", Searches, Searches.events,
        "List the journal entries of all deletions that name a resource",
        {200: responses.page("A page of the entries, oldest first.", shapes.ProjectEvent)},
        query=queries.AllEventsQuery,
        rule=by_handler(policies.LIST),
    ),
    ("POST", "/v1/deletions/{id}/retry"): Operation(
        "actions_retry", DeletionActions, DeletionActions.retry,
        "Begin a new attempt of a deletion, or try again at once what waits",
        {202: responses.one("The new attempt has begun, or the waiting times have ended.", shapes.Deletion)},
        (
            "project_protected", "deletion_not_found", "not_retryable", "deletion_under_way", "project_has_liens",
            "conflict", "deletion_limit_reached",
        ),
        body=bodies.Nothing,
        rule=by_handler(policies.RETRY),
    ),
    ("POST", "/v1/deletions/{id}/cancel"): Operation(
        "actions_cancel", DeletionActions, DeletionActions.cancel,
        "Stop a deletion and undo its lock",
        {202: responses.one("The deletion is being cancelled.", shapes.Deletion)},
        ("deletion_not_found", "not_cancellable", "conflict"),
        body=bodies.Nothing,
        rule=by_handler(policies.CANCEL, policies.CANCEL_OF_ADMIN),
    ),
    ("POST", "/v1/deletions/{id}/restore"): Operation(
        "actions_restore", DeletionActions, DeletionActions.restore,
        "Stop a deletion before its first delete",
        {202: responses.one("The deletion is being cancelled.", shapes.Deletion)},
        ("deletion_not_found", "not_restorable", "conflict"),
        body=bodies.Nothing,
        rule=by_handler(policies.RESTORE, policies.CANCEL_OF_ADMIN),
    ),
    ("POST", "/v1/deletions/{id}/approve"): Operation(
        "actions_approve", DeletionActions, DeletionActions.approve,
        "Approve that a deletion exceeds a limit",
        {202: responses.one("The deletion continues.", shapes.Deletion)},
        ("self_approval", "delegated_approval", "deletion_not_found", "not_awaiting_approval", "conflict"),
        body=bodies.ApproveBody,
        rule=by_handler(policies.APPROVE),
    ),
    ("GET", "/v1/plans/{id}"): Operation(
        "plans_get", Plans, Plans.get,
        "Show a plan",
        {200: responses.one("The plan.", shapes.Plan)},
        ("plan_not_found",),
        rule=by_handler(policies.PLAN_GET),
    ),
    ("GET", "/v1/plans/{id}/resources"): Operation(
        "plans_resources", Plans, Plans.resources,
        "List the resources of a plan",
        {200: responses.page("A page of the resources.", shapes.PlannedResource)},
        ("plan_not_found",),
        query=queries.PlanResourcesQuery,
        rule=by_handler(policies.PLAN_GET),
    ),
    ("DELETE", "/v1/projects/{id}/force"): Operation(
        "forcing_force", Forcing, Forcing.force,
        "Let the deletion of a project abandon what it cannot delete",
        {202: responses.one("The force is recorded.", shapes.Deletion, location=True)},
        ("project_protected", "no_deletion_under_way", "not_forcible", "conflict", "force_unavailable"),
        body=bodies.ForceBody,
        rule=by_handler(policies.FORCE),
    ),
    ("GET", "/v1/services"): Operation(
        "services_index", Services, Services.index,
        "List the services of the catalog and what handles them",
        {200: responses.every("All services.", shapes.Service)},
        query=queries.ServicesQuery,
        rule=by_handler(policies.SERVICES),
    ),
    ("GET", "/v1/liens"): Operation(
        "liens_index", Liens, Liens.index,
        "List liens",
        {200: responses.page("A page of liens.", shapes.Lien)},
        query=queries.LiensQuery,
        rule=everywhere(policies.LIEN_LIST, _LIENS),
    ),
    ("POST", "/v1/liens"): Operation(
        "liens_create", Liens, Liens.create,
        "Protect a project by a lien",
        {201: responses.one("The lien is in force.", shapes.Lien, location=True)},
        body=bodies.LienBody,
        rule=everywhere(policies.LIEN_CREATE, _LIENS),
    ),
    ("GET", "/v1/liens/{id}"): Operation(
        "liens_get", Liens, Liens.get,
        "Show a lien",
        {200: responses.one("The lien.", shapes.Lien)},
        ("lien_not_found",),
        rule=everywhere(policies.LIEN_GET, _LIENS),
    ),
    ("DELETE", "/v1/liens/{id}"): Operation(
        "liens_delete", Liens, Liens.delete, "Remove a lien", _ENDED, ("lien_not_found",),
        rule=everywhere(policies.LIEN_DELETE, _LIENS),
    ),
    ("GET", "/v1/brake"): Operation(
        "brakes_get", Brakes, Brakes.get, "Show the brake", {200: responses.one("The brake.", shapes.Brake)},
        rule=everywhere(policies.BRAKE_GET, _BRAKE),
    ),
    ("POST", "/v1/brake"): Operation(
        "brakes_set", Brakes, Brakes.set,
        "Set the brake, which stops all deletions",
        {200: responses.one("The brake is set.", shapes.Brake)},
        body=bodies.BrakeBody,
        rule=everywhere(policies.BRAKE_SET, _BRAKE),
    ),
    ("DELETE", "/v1/brake"): Operation(
        "brakes_lift", Brakes, Brakes.lift, "Lift the brake", {204: Response("The brake is not set.")},
        rule=everywhere(policies.BRAKE_LIFT, _BRAKE),
    ),
    ("GET", "/v1/waivers"): Operation(
        "waivers_index", Waivers, Waivers.index,
        "List waivers",
        {200: responses.page("A page of waivers.", shapes.Waiver)},
        query=queries.WaiversQuery,
        rule=everywhere(policies.WAIVER_LIST, _WAIVERS),
    ),
    ("POST", "/v1/waivers"): Operation(
        "waivers_create", Waivers, Waivers.create,
        "Let deletions skip a service",
        {201: responses.one("The waiver is in force.", shapes.Waiver, location=True)},
        ("not_waivable", "not_in_catalog"),
        body=bodies.WaiverBody,
        rule=everywhere(policies.WAIVER_CREATE, _WAIVERS),
    ),
    ("GET", "/v1/waivers/{id}"): Operation(
        "waivers_get", Waivers, Waivers.get,
        "Show a waiver",
        {200: responses.one("The waiver.", shapes.Waiver)},
        ("waiver_not_found",),
        rule=everywhere(policies.WAIVER_GET, _WAIVERS),
    ),
    ("DELETE", "/v1/waivers/{id}"): Operation(
        "waivers_delete", Waivers, Waivers.delete, "Withdraw a waiver", _ENDED, ("waiver_not_found",),
        rule=everywhere(policies.WAIVER_DELETE, _WAIVERS),
    ),
    ("GET", "/v1/orphan-scans"): Operation(
        "scans_index", OrphanScans, OrphanScans.index,
        "List orphan scans",
        {200: responses.page("A page of orphan scans.", shapes.OrphanScan)},
        query=queries.OrphanScansQuery,
        rule=everywhere(policies.ORPHAN_SCAN_LIST, _SCANS),
    ),
    ("POST", "/v1/orphan-scans"): Operation(
        "scans_create", OrphanScans, OrphanScans.create,
        "Begin an orphan scan",
        {202: responses.one("The scan is recorded.", shapes.OrphanScan, location=True)},
        ("orphan_scan_under_way",),
        body=bodies.OrphanScanBody,
        rule=everywhere(policies.ORPHAN_SCAN_CREATE, _SCANS),
    ),
    ("GET", "/v1/orphan-scans/{id}"): Operation(
        "scans_get", OrphanScans, OrphanScans.get,
        "Show an orphan scan",
        {200: responses.one("The scan.", shapes.OrphanScan)},
        ("orphan_scan_not_found",),
        rule=everywhere(policies.ORPHAN_SCAN_GET, _SCANS),
    ),
    ("DELETE", "/v1/orphan-scans/{id}"): Operation(
        "scans_cancel", OrphanScans, OrphanScans.cancel,
        "Cancel an orphan scan",
        {204: Response("The scan is cancelled, or was cancelled before.")},
        ("orphan_scan_not_found", "orphan_scan_ended"),
        rule=everywhere(policies.ORPHAN_SCAN_CANCEL, _SCANS),
    ),
    ("GET", "/v1/orphan-scans/{id}/orphans"): Operation(
        "scans_orphans", OrphanScans, OrphanScans.orphans,
        "List the orphans that a scan found",
        {200: responses.page("A page of orphans; as CSV, all orphans.", shapes.Orphan, csv=True)},
        ("orphan_scan_not_found",),
        query=queries.OrphansQuery,
        rule=everywhere(policies.ORPHAN_SCAN_GET, _SCANS),
    ),
    ("GET", "/v1/orphan-scans/{id}/projects"): Operation(
        "scans_projects", OrphanScans, OrphanScans.projects,
        "List the projects of the orphans that a scan found",
        {200: responses.page("A page of projects.", shapes.OrphanProject)},
        ("orphan_scan_not_found",),
        query=queries.OrphanProjectsQuery,
        rule=everywhere(policies.ORPHAN_SCAN_GET, _SCANS),
    ),
    ("POST", "/v1/orphan-scans/{id}/adopt"): Operation(
        "scans_adopt", OrphanScans, OrphanScans.adopt,
        "Delete the orphans of one project",
        {202: responses.one(_RECORDED, shapes.Deletion, location=True)},
        (
            "project_protected", "orphan_scan_not_found", "orphan_project_not_found", "orphan_scan_under_way",
            "project_known", "deletion_under_way",
        ),
        body=bodies.AdoptBody,
        rule=everywhere(policies.ORPHAN_SCAN_ADOPT, _SCANS),
    ),
}  # fmt: skip
