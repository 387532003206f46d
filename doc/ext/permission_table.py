"""Writes the page with what each caller of the API may do by default.

As a Sphinx extension it writes ``reference/permissions.rst`` below the sources before Sphinx reads them. Each cell is
the decision of the policy's enforcer: the table evaluates the default rules, and ignores policy files.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from api_reference import heading, table
from generated import write_changed
from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import opts

from cleanup_orchestrator.api import policies, policy_rules
from cleanup_orchestrator.api.operations import OPERATIONS
from cleanup_orchestrator.core.deletion import Deletion, Mode, Status

HEADER = """\
===============
Who may do what
===============

This page is generated: it evaluates the default policy of this version for each role and scope. :doc:`policy` has the
rules and how to change them. A rule in ``policy.yaml`` changes the answers of the API, and not this page.

The roles imply each other, as ``keystone-manage bootstrap`` sets them up: ``admin`` implies ``manager``, ``manager``
implies ``member``, and ``member`` implies ``reader``. A caller with several roles may do what any of them allows. A
column has each role with the scopes of its token. ``admin`` on any project or domain is an admin of the whole cloud, as
in Keystone. With ``service`` the caller is the user of a service, not the service that passes a user's token on.
"""
LEGEND = """\
The words of the table:

- **all**: for all projects of the cloud.
- **domain**: for projects of the domain that the token is for.
- **own**: for deletions that the same user requested, with any token.
- **–**: never. The API answers 403, or 404 if the caller may see other deletions.

``GET /v1/deletions`` and the searches (``GET /v1/leftovers``, ``GET /v1/events``) answer for the first word of the
cell. Callers with only **own** cannot search, and cannot list before they have requested a deletion. A call that is in
several rows needs more than one rule in some cases: :doc:`policy` says in which.

The API refuses some requests that the policy allows: a user cannot approve a deletion that the same user requested,
retried or forced (:doc:`/admin/plans`), and liens and the never-delete list protect projects also from admins
(:doc:`/admin/holds`).
"""
NEVER, ALL, PUBLIC = "–", "all", "*(no rule)*"

#: The roles that a token has, by the role that is assigned.
ROLES = {
    "admin": ["admin", "manager", "member", "reader"],
    "manager": ["manager", "member", "reader"],
    "member": ["member", "reader"],
    "reader": ["reader"],
    "service": ["service"],
}
DOMAIN, OTHER_DOMAIN = "domain-of-the-token", "other-domain"
#: The identity attributes of a token, by its scope. The project is in the domain, but its token is not for the domain.
SCOPES: dict[str, dict[str, str]] = {
    "system": {"system_scope": "all"},
    "domain": {"domain_id": DOMAIN},
    "project": {"project_id": "project-of-the-token", "project_domain_id": DOMAIN},
}
CALLER, ANOTHER = "caller", "another-user"


@dataclasses.dataclass(frozen=True)
class Caller:
    """A kind of token. No role: the token has no scope. No context: there is no token."""

    role: str
    scope: str
    context: RequestContext | None


def callers() -> list[Caller]:
    """Return each role with each scope, and the callers without a role."""
    found = [
        Caller(role, scope, RequestContext(user_id=CALLER, roles=roles, **attributes))
        for role, roles in ROLES.items()
        for scope, attributes in SCOPES.items()
    ]
    return [*found, Caller("", "no scope", RequestContext(user_id=CALLER)), Caller("", "no token", None)]


def deletion(domain_id: str, user_id: str) -> Deletion:
    """Return a deletion of a project that a user requested."""
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    times = dict.fromkeys(("created_at", "updated_at", "status_at", "progress_at", "wake_at"), now)
    return Deletion("id", "p", "p", domain_id, Mode.CASCADE, False, Status.DELETING, user_id=user_id, **times)


#: What a rule is checked for, besides the whole cloud.
TARGETS = {"domain": deletion(DOMAIN, ANOTHER), "own": deletion(OTHER_DOMAIN, CALLER)}
FOREIGN = deletion(OTHER_DOMAIN, ANOTHER)


def enforcer() -> policies.PolicyEnforcer:
    """Return an enforcer with the default rules."""
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[], default_config_dirs=[])
    opts.set_defaults(conf)
    conf.set_override("policy_file", "no such file", "oslo_policy")
    conf.set_override("policy_dirs", [], "oslo_policy")
    return policies.PolicyEnforcer(policy_rules.enforcer(conf))


def cell(enforcer: policies.PolicyEnforcer, rule: str, caller: Caller) -> str:
    """Return for which targets a rule allows a caller.

    :raises ValueError: if the decisions have no word of the legend
    """
    if caller.context is None:
        return NEVER
    allowed = [name for name, d in TARGETS.items() if enforcer.may_about(caller.context, rule, d)]
    everywhere = {enforcer.may(caller.context, rule), enforcer.may_about(caller.context, rule, FOREIGN)}
    if everywhere == {False}:
        return ", ".join(allowed) or NEVER
    if everywhere == {True} and allowed == [*TARGETS]:
        return ALL
    raise ValueError(f"{rule} for {caller.role}, {caller.scope}: the page has no word for this decision")


def rows() -> Iterator[tuple[str, str, list[str]]]:
    """Yield each rule with its calls, and its cell for each caller; last the calls that need no token."""
    judge, every = enforcer(), callers()
    for rule in policy_rules.list_rules():
        if operations := getattr(rule, "operations", ()):
            calls = ", ".join(f"``{each['method']} {each['path']}``" for each in operations)
            yield f"``{rule.name}``", calls, [cell(judge, rule.name, caller) for caller in every]
    public = [f"``{method} {path}``" for (method, path), operation in OPERATIONS.items() if operation.public]
    yield PUBLIC, ", ".join(public), [ALL] * len(every)


def columns(cells: list[list[str]]) -> dict[tuple[str, ...], list[Caller]]:
    """Return the callers that may do the same, by their cells."""
    found: dict[tuple[str, ...], list[Caller]] = {}
    for number, caller in enumerate(callers()):
        found.setdefault(tuple(row[number] for row in cells), []).append(caller)
    return found


def title(group: list[Caller]) -> str:
    """Return the heading of a column: the roles, each with its scopes."""
    scopes: dict[str, list[str]] = {}
    for caller in group:
        scopes.setdefault(caller.role, []).append(caller.scope)
    alike: dict[tuple[str, ...], list[str]] = {}
    for role, names in scopes.items():
        alike.setdefault(tuple(names), []).append(f"``{role}``" if role else "")
    parts = (
        f"{', '.join(roles)}: {', '.join(names)}" if roles[0] else ", ".join(names) for names, roles in alike.items()
    )
    return "; ".join(parts)


def page() -> str:
    """Return the whole page."""
    found = list(rows())
    grouped = columns([cells for _, _, cells in found])
    widths = (24, 26, *([50 // len(grouped)] * len(grouped)))
    lines = [(rule, calls, *(cells[number] for cells in grouped)) for number, (rule, calls, _) in enumerate(found)]
    names = ("Rule", "Calls", *map(title, grouped.values()))
    return "\n".join([HEADER, heading("Operations", "="), LEGEND, table(names, widths, lines)])


def setup(app: Any) -> dict[str, Any]:
    """Connect the extension to Sphinx."""
    app.connect("builder-inited", lambda app: write_changed(Path(app.srcdir) / "reference" / "permissions.rst", page()))
    return {"parallel_read_safe": True}
