"""Finds deletions by the name or id of their project, and the filters for projects and users.

The records of the API have also the projects that Keystone no longer has.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from cleanup_orchestrator.osc import common
from cleanup_orchestrator.sdk import ApiError, Proxy, one_line
from cleanup_orchestrator.sdk.text import DELETION_ID, KEYSTONE_ID

T = TypeVar("T")

#: Stands for all statuses that are not final.
LIVE = "live"

#: Deletions of one name to read at most. Older ones do not matter.
_MANY = 1000


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Which deletion of a project is meant."""

    #: Refuse a name that only the records have, unless the project still has it or is gone.
    changes: bool = False
    #: The latest deletion in this status. Without it: the live deletion, or else the latest one.
    status: str = ""
    noun: str = "deletion"


TO_READ = Wanted()
TO_CHANGE = Wanted(changes=True)
WITH_PLAN = Wanted(status="planned", noun="dry run with a plan")


def on_deletion(
    client: Proxy, identity: Any, text: str, domain: str | None, call: Callable[[str], T], wanted: Wanted = TO_READ
) -> T:
    """Return what a call returns for a deletion.

    :param text: id of the deletion, or name or id of its project
    :param domain: name or id of the project's domain; then the text is a project
    :raises osc_lib.exceptions.CommandError: if there is no such deletion, or several projects have the name
    """
    if DELETION_ID.fullmatch(text) and not domain:
        try:
            return call(text)
        except ApiError as exc:
            if wanted.status or exc.code != "deletion_not_found":
                raise
    return call(find_deletion(client, identity, text, domain, wanted))


def find_deletion(client: Proxy, identity: Any, text: str, domain: str | None, wanted: Wanted = TO_READ) -> str:
    """Return the id of the deletion of a project that is meant.

    A project that Keystone has takes precedence over an earlier or renamed project of the same name.

    :raises osc_lib.exceptions.CommandError: if there is no deletion, several projects have the name, or the project was
        renamed
    """
    scope = _scope(identity, domain)
    if KEYSTONE_ID.fullmatch(text) and (deletion_id := _meant(client, wanted, project_id=text, **scope)):
        return deletion_id
    listed = _in_keystone(identity.projects, text, scope)
    known = {project.id: project.domain_id for project in listed or ()}
    if len(known) > 1:
        raise _ambiguous("project", text, known)
    for project_id in known:
        if deletion_id := _meant(client, wanted, project_id=project_id):
            return deletion_id
        recorded = _domains(_recorded(client, text, scope, wanted))
        others = f"; other projects had this name, give the ID of one: {_named(recorded)}" if recorded else ""
        raise common.command_error(f"project '{one_line(text)}' ({one_line(project_id)}) has no {wanted.noun}{others}")
    if not (rows := _recorded(client, text, scope, wanted)):
        if wanted.status and _recorded(client, text, scope, TO_READ):
            raise common.command_error(f"no project with the name '{one_line(text)}' has a {wanted.noun}")
        raise _unknown("project", text, domain, wanted)
    live = [] if wanted.status else list(client.deletions(project_name=text, status=LIVE, limit=2, **scope))
    recorded = _domains(rows)
    if len(set(recorded.values())) > 1 or len(live) > 1:
        raise _ambiguous("project", text, recorded)
    meant = (live or rows)[0]
    if wanted.changes:
        _check_name(identity, str(meant["project_id"]), text, listed is not None)
    return str(meant["id"])


def _recorded(client: Proxy, text: str, scope: Mapping[str, str], wanted: Wanted) -> list[Mapping[str, Any]]:
    """Return the deletions whose project had a name when it was recorded, the latest first."""
    return list(client.deletions(project_name=text, limit=_MANY, **scope, **_in_status(wanted)))


def _in_status(wanted: Wanted) -> dict[str, str]:
    return {"status": wanted.status} if wanted.status else {}


def _domains(deletions: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the domain of each project that the deletions have, by the id of the project."""
    domains: dict[str, str] = {}
    for deletion in deletions:
        domains.setdefault(deletion["project_id"], deletion.get("domain_id") or "")
    return domains


def _check_name(identity: Any, project_id: str, text: str, listed: bool) -> None:
    """Refuse a recorded name if Keystone has the project under another name, or does not tell.

    By default Keystone lets admins, readers of the domain, and users with a token of the project read a project. If
    the project does not exist, only admins and readers of the system get 404. The others get 403.

    :param listed: whether Keystone lists projects for this user, and none has the name
    :raises osc_lib.exceptions.CommandError: the project has another name, or its name cannot be read
    """
    give = "give the ID of the deletion or of the project"
    name, id_ = one_line(text), one_line(project_id)
    unknown = f"Keystone does not tell whether project '{name}' ({id_}) still has this name: {give}"
    try:
        now = identity.get_project(project_id).name
    except sdk_exceptions.NotFoundException as exc:
        if not listed:  # another project can have the name
            raise common.command_error(unknown, exc) from exc
        return
    except sdk_exceptions.ForbiddenException as exc:
        raise common.command_error(unknown, exc) from exc
    if now != text:
        raise common.command_error(f"project '{name}' is now '{one_line(now)}' ({id_}): {give}")


def project_filter(client: Proxy, identity: Any, text: str, domain: str | None) -> dict[str, str]:
    """Return the filter for the deletions of a project, also of one that no longer exists.

    :raises osc_lib.exceptions.CommandError: if neither the records nor Keystone know the project
    """
    scope = _scope(identity, domain)
    if KEYSTONE_ID.fullmatch(text) and _first(client, project_id=text, **scope):
        return {"project_id": text, **scope}
    if _first(client, project_name=text, **scope):
        return {"project_name": text, **scope}
    return {"project_id": _one(identity.find_project, identity.projects, "project", text, scope, domain), **scope}


def user_filter(client: Proxy, identity: Any, text: str, domain: str | None) -> dict[str, str]:
    """Return the filter for the deletions that a user requested, also of one that no longer exists.

    :raises osc_lib.exceptions.CommandError: if neither the records nor Keystone know the user
    """
    scope = _scope(identity, domain)
    if not scope and KEYSTONE_ID.fullmatch(text) and _first(client, user_id=text):
        return {"user_id": text}
    if not scope and _first(client, user_name=text):
        return {"user_name": text}
    return {"user_id": _one(identity.find_user, identity.users, "user", text, scope, domain)}


def _scope(identity: Any, domain: str | None) -> dict[str, str]:
    """Return the filter for a domain. A domain that no longer exists can only be named by its id."""
    if not domain:
        return {}
    try:
        return {"domain_id": common.find_domain(identity, domain)}
    except exceptions.CommandError:
        if not re.fullmatch("[0-9a-f]{32}", domain):
            raise
        return {"domain_id": domain}


def _first(client: Proxy, **filters: str) -> dict[str, Any]:
    """Return the latest deletion that matches, or nothing."""
    return next(client.deletions(limit=1, **filters), {})


def _meant(client: Proxy, wanted: Wanted, **filters: str) -> str:
    """Return the id of the deletion that is meant, among those that match."""
    deletion = {} if wanted.status else _first(client, status=LIVE, **filters)
    deletion = deletion or _first(client, **filters, **_in_status(wanted))
    return str(deletion.get("id") or "")


def label(identity: Any, kind: str, id_: str) -> str:
    """Return the name and the id of a project, user, group or role; only the id if Keystone does not tell the name."""
    get = getattr(identity, f"get_{kind}", None) if kind in ("project", "user", "group", "role") else None
    try:
        return f"{one_line(get(id_).name)} ({one_line(id_)})" if get else one_line(id_)
    except sdk_exceptions.SDKException:
        return one_line(id_)


def _in_keystone(read: Callable[..., Iterable[Any]], text: str, scope: Mapping[str, str]) -> list[Any] | None:
    """Return the projects or users with a name, or ``None`` if the user may not list them."""
    try:
        return list(read(name=text, **scope))
    except sdk_exceptions.ForbiddenException:
        return None


def _one(
    find: Callable[..., Any],
    read: Callable[..., Iterable[Any]],
    noun: str,
    text: str,
    scope: Mapping[str, str],
    domain: str | None,
) -> str:
    """Return the id of a project or user that Keystone has.

    :raises osc_lib.exceptions.CommandError: if none or several have the name
    """
    try:
        return str(find(text, ignore_missing=False, **scope).id)
    except (sdk_exceptions.ForbiddenException, sdk_exceptions.NotFoundException) as exc:
        raise _unknown(noun, text, domain) from exc
    except sdk_exceptions.DuplicateResource as exc:
        known = {each.id: each.domain_id for each in _in_keystone(read, text, scope) or ()}
        raise _ambiguous(noun, text, known) from exc


def _unknown(noun: str, text: str, domain: str | None, wanted: Wanted = TO_READ) -> exceptions.CommandError:
    where = f" in the domain '{one_line(domain)}'" if domain else ""
    kind = "no deletion and no project" if noun == "project" else f"no {noun}"
    return common.command_error(
        f"{kind} has the name or ID '{one_line(text)}'{where}. List the deletions with: {common.LIST}"
        + (f" --status {wanted.status}" if wanted.status else "")
    )


def _ambiguous(noun: str, text: str, domains: Mapping[str, str]) -> exceptions.CommandError:
    """Return the error for a name of several projects or users.

    :param domains: the domain of each, by id
    """
    return common.command_error(
        f"more than one {noun} has the name '{one_line(text)}': give the ID of one, or --{noun}-domain: "
        f"{_named(domains)}"
    )


def _named(domains: Mapping[str, str]) -> str:
    return ", ".join(f"{one_line(id_)} (domain {one_line(domain)})" for id_, domain in sorted(domains.items()))
