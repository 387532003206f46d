"""The queries of requests. Unknown parameters are refused. A value is the text of one parameter of the URL."""

from __future__ import annotations

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.words import Mode, Origin, ScanStatus, Status
from cleanup_orchestrator.shapes import forms
from cleanup_orchestrator.shapes.base import Input, given

#: Columns to sort by. None of them is ever NULL.
SORT_KEYS = (
    "created_at",
    "updated_at",
    "status_at",
    "progress_at",
    "status",
    "mode",
    "project_id",
    "project_name",
    "domain_id",
    "id",
)
LIEN_SORT_KEYS = ("created_at", "project_id", "origin", "id")
WAIVER_SORT_KEYS = ("created_at", "expires_at", "service_type", "region", "project_id", "id")
ORPHAN_SCAN_SORT_KEYS = ("created_at", "status_at", "status", "id")

#: States of waivers and liens to list: in force, ended, or both.
IN_FORCE, ENDED, ANY = "in_force", "ended", "all"
#: Stands for all statuses that are not final.
LIVE = "live"
#: Actions of a plan.
DELETE, KEEP, PROTECT = "delete", "keep", "protect"

_STATE = forms.one_of((IN_FORCE, ENDED, ANY), default=IN_FORCE)
_NEXT = "The last item of the previous page. Use the link ``next``, which has it."
_ONLY = "Only items with this value."
_SORT = (
    "``key:asc`` or ``key:desc``, separated by commas; without a direction ``asc``. Each key can occur once. Without "
    "it ``created_at:desc``."
)

_LIMIT = given(
    forms.LIMIT,
    "Maximum number of items on the page, at least 1; without it 100. A value above ``[api] max_limit`` is reduced to "
    "it.",
)
_ROW = given(forms.NUMBER, _NEXT)
_RECORD = given(forms.UUID, _NEXT)


class InPlace(Input):
    """Where the resources of a list are. The names are resolved by ``api.names``."""

    region: str = given(forms.TEXT, "Only resources in this region.")
    service: str = given(
        forms.TEXT, "Only resources of this service: its type, an alias of it, or the name of the OpenStack project."
    )
    type: str = given(
        forms.TEXT, "Only resources of this type: its name, or ``service.type`` such as ``network.port``."
    )


_ABANDONED = given(forms.BOOLEAN, "``true``: only resources that force abandoned. ``false``: only the others.")
_REASON = "Only leftovers with this reason."


class LeftoversQuery(InPlace):
    """A list of the leftovers of a deletion."""

    reason: str = given(
        forms.one_of(Reason), f"{_REASON} ``kept``: what a dry run would keep; other deletions do not record that."
    )
    abandoned: str = _ABANDONED
    limit: str = _LIMIT
    marker: str = _ROW


class AllLeftoversQuery(InPlace):
    """A search for leftovers."""

    reason: str = given(forms.one_of(each for each in Reason if each is not Reason.KEPT), _REASON)
    abandoned: str = _ABANDONED
    domain_id: str = given(forms.ID, "Only leftovers of projects of this domain.")
    limit: str = _LIMIT
    marker: str = _ROW


class PlanAction(Input):
    """What a plan does with the resources of a list."""

    action: str = given(forms.one_of((DELETE, KEEP, PROTECT)), "Only resources with this action.")


class PlanResourcesQuery(PlanAction, InPlace):
    """A list of the resources of a plan."""

    limit: str = _LIMIT
    marker: str = _ROW


class DeletionsQuery(Input):
    """A list of deletions."""

    mode: str = given(forms.one_of(Mode), _ONLY)
    dry_run: str = given(forms.BOOLEAN, _ONLY)
    attention: str = given(
        forms.BOOLEAN,
        "``true``: only deletions that need an action of a person. ``false``: only the others. One that ended in "
        "``leftovers`` or ``failed`` needs none if the project has a later deletion that is no dry run.",
    )
    project_id: str = given(forms.ID, "Only deletions of this project.")
    domain_id: str = given(forms.ID, "Only deletions of projects of this domain.")
    project_name: str = given(
        forms.TEXT,
        "Only deletions whose ``project_name`` is this one. Projects of several domains can have it.",
    )
    user_id: str = given(forms.ID, "Only deletions that this user requested.")
    user_name: str = given(forms.TEXT, "Only deletions that a user of this name requested.")
    ticket: str = given(forms.TICKET, _ONLY)
    origin: str = given(forms.one_of(Origin), _ONLY)
    parent_deletion_id: str = given(forms.UUID, "Only the children of this deletion.")
    created_since: str = given(forms.TIME, "Only deletions that were requested at this time or later.")
    created_until: str = given(forms.TIME, "Only deletions that were requested before this time.")
    changed_since: str = given(
        forms.TIME,
        "Only deletions that changed at this time or later; without ``sort`` the latest change first.",
    )
    limit: str = _LIMIT
    marker: str = _RECORD
    sort: str = given(forms.sort(SORT_KEYS), _SORT)
    status: list[str] = given(
        forms.one_of([*Status, LIVE]),
        "Only deletions in one of the statuses. ``live``: all statuses of a deletion under way.",
    )


class LiensQuery(Input):
    """A list of liens."""

    project_id: str = given(forms.ID, "Only liens on this project.")
    origin: str = given(forms.TEXT, _ONLY)
    state: str = given(_STATE, "Only liens in force, ended (expired or removed), or all.")
    limit: str = _LIMIT
    marker: str = _RECORD
    sort: str = given(forms.sort(LIEN_SORT_KEYS), _SORT)


class WaiversQuery(Input):
    """A list of waivers."""

    service_type: str = given(forms.SERVICE_TYPE, "Only waivers of this service, by any of its names.")
    region: str = given(forms.TEXT, "Only waivers for this region, without those for every region.")
    project_id: str = given(forms.ID, "Only waivers for this project, without those for every project.")
    state: str = given(_STATE, "Only waivers in force, ended (expired or withdrawn), or all.")
    limit: str = _LIMIT
    marker: str = _RECORD
    sort: str = given(forms.sort(WAIVER_SORT_KEYS), _SORT)


class OrphanScansQuery(Input):
    """A list of orphan scans."""

    status: str = given(forms.one_of(ScanStatus), "Only scans in this status.")
    limit: str = _LIMIT
    marker: str = _RECORD
    sort: str = given(forms.sort(ORPHAN_SCAN_SORT_KEYS), _SORT)


class OfProject(Input):
    """The project of the orphans of a list."""

    project_id: str = given(forms.ID, "Only orphans of this project.")


class OrphansQuery(OfProject, InPlace):
    """A list of orphans."""

    format: str = given(
        forms.one_of(("json", "csv")),
        "Without it: CSV if ``Accept`` is ``text/csv``, otherwise JSON. CSV has all items, without pages.",
    )
    limit: str = _LIMIT
    marker: str = _ROW


class OrphanProjectsQuery(Input):
    """A list of the projects of orphans."""

    project_id: str = given(forms.ID, "Only this project.")
    limit: str = _LIMIT
    marker: str = given(forms.ID, _NEXT)


class ServicesQuery(Input):
    """The list of services."""

    project_id: str = given(
        forms.ID, "Answer as for a deletion of this project. Without it, waivers for one project are not applied."
    )


_OF_RESOURCE = "Only entries that name the resource with this ID. In Swift: the name of the container."


class EventsQuery(Input):
    """A list of the journal of a deletion."""

    type: str = given(forms.TEXT, "Only entries of this type.")
    resource_id: str = given(forms.RESOURCE_ID, _OF_RESOURCE)
    limit: str = _LIMIT
    marker: str = _ROW


class AllEventsQuery(Input):
    """A search for journal entries."""

    domain_id: str = given(forms.ID, "Only entries of projects of this domain.")
    type: str = given(forms.TEXT, "Only entries of this type.")
    resource_id: str = given(forms.RESOURCE_ID, _OF_RESOURCE, required=True)
    limit: str = _LIMIT
    marker: str = _ROW
