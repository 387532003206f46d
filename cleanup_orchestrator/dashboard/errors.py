"""Says the errors of the API in the words of the panels: pages and labels, no fields and no calls."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator import sdk

#: By problem or code of an error: its text. See ``sdk.ApiError.said``. No page makes the calls that get the others.
TEXTS = {
    "deletion_not_found": _("No deletion has this ID. The panel Project Deletions lists them."),
    "lien_not_found": _("No lien has this ID. The panel Liens lists them."),
    "waiver_not_found": _("No waiver has this ID. The panel Waivers lists them."),
    "orphan_scan_not_found": _("No orphan scan has this ID. The panel Orphans lists them."),
    "orphan_project_not_found": _("This scan found no orphan of the project. The page of the scan lists the projects."),
    "project_has_children": _(
        "There are projects below this one: {children}. Delete them first, or choose “Also the projects below”."
    ),
    "removable_liens": _(
        "Protected by {liens}. Ask the origin of the lien to have it removed. The panel Liens removes it."
    ),
    "no_deletion_under_way": _(
        "No deletion of this project is under way. Request a cascade first, and force it if it cannot continue."
    ),
    "purge_keeps_project": _("The project stays, with what cannot be deleted. There is nothing to force."),
    "dry_run_deletes_nothing": _("A dry run deletes nothing. There is nothing to force. Request a cascade."),
    "report_deletes_nothing": _("A report deletes nothing. There is nothing to force. Request a cascade."),
    "force_refused": _("{refusals}. Nothing was changed. To keep these, mark only the other types."),
    "plan_of_one_project": _("A plan covers one project, and not the projects below."),
    "unknown_field": _("{name}: this release of the API does not know it."),
    "unknown_name": _("{name}: nothing that is known has this name. The panel Services lists the names."),
    "service_not_in_catalog": _("The catalog has no such service. It has {known}."),
    "region_not_in_catalog": _("The catalog has no such region. It has {known}."),
    "service_not_in_region": _("The catalog does not have the service in this region, only in {known}."),
}


def _label(field: str) -> str:
    return field.replace("_", " ").capitalize()


def spoken(error: sdk.ApiError) -> str:
    """Return an error of the API in the words of the panels."""
    return error.said(TEXTS, _label)
