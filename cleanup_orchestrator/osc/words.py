"""Says the errors of the API in the words of the command line: options and commands, no fields and no paths."""

from __future__ import annotations

import re

_DELETE = "openstack project delete --async"
_PURGE = "openstack project purge"
_COMMAND = "openstack project deletion"

#: By call of the API: the command.
COMMANDS = {
    "DELETE /v1/liens/{id}": f"{_COMMAND} lien delete",
    "GET /v1/deletions": f"{_COMMAND} list",
    "GET /v1/liens": f"{_COMMAND} lien list",
    "GET /v1/orphan-scans": "openstack project orphan scan list",
    "GET /v1/orphan-scans/{id}/projects": "openstack project orphan project list",
    "GET /v1/services": f"{_COMMAND} service list",
    "GET /v1/waivers": f"{_COMMAND} waiver list",
    "POST /v1/deletions": f"{_DELETE}",
}

#: By field or parameter of the API: the option or the argument. For the others the name is that of the option.
OPTIONS = {
    "allow_unknown": "--not-yet",
    "created_since": "--since",
    "created_until": "--until",
    "domain_id": "--domain",
    "parent_deletion_id": "--parent",
    "plan_id": "--plan",
    "project_id": "<project>",
    "project_name": "<project>",
    "resource_id": "--resource",
    "service_type": "<service-type>",
    "state": "--ended",
    "types": "--type",
    "user_id": "--user",
    "user_name": "--user",
}

#: Phrases of the API, and what a user of the command line does.
_PHRASES = (
    ("set include_subtree", "use --include-subtree"),
    ("include_subtree", "--include-subtree"),
    ("needs allow_unknown", "needs --not-yet"),
    ("needs mode cascade or empty, and no dry run", f"needs '{_PURGE}' or --cascade, without --dry-run"),
    ("needs mode empty: the other modes remove the project", f"needs '{_PURGE}': other deletions remove the project"),
    ("needs another mode: mode empty covers one project", f"cannot be used with '{_PURGE}', which covers one project"),
    ("mode empty keeps the project", "a purge keeps the project"),
    ("of mode cascade", "of a cascade"),
    ("of mode empty", "of a purge"),
    ("of mode report", "of a report"),
    ("'selection' names no service", "--service or --type names no service"),
    ("'selection' names no resource type", "--type names no resource type"),
    ("'selection'", "what --service, --type, --tag, --created-before or --older-than selects"),
    ("with plan_id:", "with --plan:"),
    ("(POST /v1/deletions, mode cascade)", f"('{_DELETE} --cascade')"),
    ("'counts' of the deletion has their number", f"'{_COMMAND} show' has their number"),
    ("request one with mode cascade", "request one with --cascade"),
    ("mode report deletes nothing", "a deletion without --cascade deletes nothing"),
    ("key:asc or key:desc", "<key>:asc or <key>:desc"),
)
_CALL = re.compile(r"(?:GET|POST|DELETE) /v1(?:/(?:[a-z-]+|\{id\}))*")
_NAME = re.compile(r"'(limit|marker|origin|reason|region|service|sort|state|status|type|types|[a-z]+(?:_[a-z]+)+)'")


def spoken(text: str) -> str:
    """Return the text of an error of the API in the words of the command line."""
    for phrase, words in _PHRASES:
        text = text.replace(phrase, words)
    text = _CALL.sub(lambda found: f"'{COMMANDS.get(found[0], _COMMAND)}'", text)
    return _NAME.sub(lambda found: OPTIONS.get(found[1], f"--{found[1].replace('_', '-')}"), text)
