"""Says the errors of the API in the words of the command line: options and commands, no fields and no calls."""

from __future__ import annotations

from cleanup_orchestrator.sdk import ApiError

_DELETE = "openstack project delete --async"
_PURGE = "openstack project purge"
_COMMAND = "openstack project deletion"
_LATER = "a waiver for what the catalog will have later needs --not-yet"

#: By criterion of a selection: the option.
SELECTING = {
    "services": "--service",
    "types": "--type",
    "skip": "--skip",
    "tags": "--tag",
    "not_tags": "--not-tag",
    "names": "--name",
    "not_names": "--not-name",
    "created_before": "--created-before",
    "updated_before": "--updated-before",
}
#: The options of a selection, for messages.
SELECTING_NAMES = (
    f"{', '.join(option for name, option in SELECTING.items() if name != 'updated_before')}, --older-than, "
    "--updated-before and --not-updated-for"
)
#: By problem or code of an error: its text. See ``sdk.ApiError.said``.
TEXTS = {
    "deletion_not_found": f"no deletion has this id; '{_COMMAND} list' lists them",
    "lien_not_found": f"no lien has this id; '{_COMMAND} lien list' lists them",
    "waiver_not_found": f"no waiver has this id; '{_COMMAND} waiver list' lists them",
    "orphan_scan_not_found": "no orphan scan has this id; 'openstack project orphan scan list' lists them",
    "orphan_project_not_found": "this scan found no orphan of the project; "
    "'openstack project orphan project list' lists the projects",
    "project_has_children": "there are projects below this one: {children}; delete them first, or use "
    "--include-subtree",
    "removable_liens": "protected by {liens}. Ask the origin of the lien to have it removed: "
    f"'{_COMMAND} lien delete'",
    "no_deletion_under_way": "no deletion of this project is under way: request one first "
    f"('{_DELETE} --cascade'), and force it if it cannot continue",
    "purge_keeps_project": "a purge keeps the project with what cannot be deleted, so there is nothing to force",
    "dry_run_deletes_nothing": "a dry run deletes nothing, so there is nothing to force: cancel the deletion or wait "
    "for its end, and request one with --cascade",
    "report_deletes_nothing": "a deletion without --cascade deletes nothing, so there is nothing to force: cancel the "
    "deletion or wait for its end, and request one with --cascade",
    "force_refused": "{refusals}. Nothing was changed. To keep these, name only the others with --type",
    "types_with_although_used": "--type cannot be given with --although-used, which abandons nothing",
    "purge_without_subtree": f"--include-subtree cannot be used with '{_PURGE}', which covers one project",
    "selection_without_purge": f"only '{_PURGE}' can select resources: other deletions remove the project",
    "plan_without_deletes": f"--plan needs '{_PURGE}' or --cascade, without --dry-run",
    "hash_without_plan": "--plan-hash needs --plan",
    "plan_of_one_project": "--plan cannot be combined with --include-subtree: a plan covers one project",
    "plan_of_other_mode": f"plan {{plan_id}} cannot be used: '{_PURGE}' needs the plan of a purge, and --cascade that "
    "of a cascade; make a new dry run",
    "plan_with_selection": f"{SELECTING_NAMES} cannot be combined with --plan: the plan has the selection",
    "kept_not_recorded": f"only a dry run records which resources it keeps; '{_COMMAND} show' has their number",
    "unknown_field": "this release of the API does not know {name}",
    "unknown_name": f"{{name}} names nothing that is known; '{_COMMAND} service list' lists the names",
    "other_service": "--type names another service than --service",
    "service_not_in_catalog": f"the catalog has no such service; it has {{known}}; {_LATER}",
    "region_not_in_catalog": f"the catalog has no such region; it has {{known}}; {_LATER}",
    "service_not_in_region": f"the catalog does not have the service in this region, only in {{known}}; {_LATER}",
}

#: By field or parameter of the API: the option or the argument. For the others the name is that of the option.
_OPTIONS = {
    **SELECTING,
    "allow_unknown": "--not-yet",
    "not_before": "--at",
    "request_reason": "--reason",
    "created_since": "--since",
    "created_until": "--until",
    "domain_id": "--domain",
    "parent_deletion_id": "--parent",
    "plan_id": "--plan",
    "project_id": "<project>",
    "project_name": "<project>",
    "resource_id": "--resource",
    "selection": "--service, --type or --skip",
    "service_type": "<service-type>",
    "state": "--ended",
    "user_id": "--user",
    "user_name": "--user",
}


def option(field: str) -> str:
    """Return what a user gives for a field or a parameter of the API."""
    return _OPTIONS.get(field, f"--{field.replace('_', '-')}")


def spoken(error: ApiError) -> str:
    """Return an error of the API in the words of the command line."""
    return error.said(TEXTS, option)
