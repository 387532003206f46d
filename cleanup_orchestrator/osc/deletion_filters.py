"""The options that select deletions, and what they select."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from cleanup_orchestrator.core.words import Mode, Origin, Status
from cleanup_orchestrator.osc import arguments, common, lookup
from cleanup_orchestrator.sdk import Proxy

#: By attribute of the parsed arguments: the filter of the API. The others need a look-up.
_SAME = {
    "status": "status",
    "mode": "mode",
    "origin": "origin",
    "ticket": "ticket",
    "parent": "parent_deletion_id",
    "since": "created_since",
    "until": "created_until",
    "changed_since": "changed_since",
}
_NAMES = (*_SAME, "project", "user", "domain")


def add(parser: Any) -> None:
    """Add the options."""
    parser.add_argument(
        "--status",
        metavar="<status>",
        action="append",
        choices=[lookup.LIVE, *(str(status) for status in Status)],
        help=f"Only deletions in this status, one of {', '.join(Status)}, "
        f"or '{lookup.LIVE}' for all that are under way (can be repeated)",
    )
    parser.add_argument("--mode", choices=[str(mode) for mode in Mode], help="Only deletions in this mode")
    parser.add_argument(
        "--project",
        metavar="<project>",
        type=arguments.given,
        help="Only deletions of this project (name or ID; also of a project that no longer exists)",
    )
    parser.add_argument(
        "--user", metavar="<user>", type=arguments.given, help="Only deletions that this user requested (name or ID)"
    )
    parser.add_argument("--user-domain", metavar="<domain>", help="Domain that the user is in (name or ID)")
    parser.add_argument(
        "--ticket", metavar="<ticket>", type=arguments.given, help="Only deletions that were requested with this ticket"
    )
    for name, text in (
        ("--since", "Only deletions that were requested at this time or later"),
        ("--until", "Only deletions that were requested before this time"),
        ("--changed-since", "Only deletions that changed at this time or later, the latest change first"),
    ):
        parser.add_argument(name, metavar="<time>", type=arguments.utc, help=f"{text} (UTC, YYYY-MM-DD[THH:MM:SSZ])")
    parser.add_argument(
        "--domain",
        metavar="<domain>",
        type=arguments.given,
        help="Only deletions of projects of this domain (name or ID)",
    )
    parser.add_argument("--origin", choices=[str(origin) for origin in Origin], help="Only deletions of this origin")
    parser.add_argument(
        "--attention",
        action="store_true",
        help="Only deletions that need a person: blocked, stalled, failed, with leftovers, waiting for an "
        "approval, or on hold by a lien or the brake",
    )
    parser.add_argument(
        "--parent", metavar="<deletion>", type=arguments.given, help="Only child deletions of this deletion (ID)"
    )


def given(parsed_args: argparse.Namespace, attention: bool = True) -> bool:
    """Return whether an option selects deletions.

    :param attention: whether ``--attention`` counts
    """
    return any(getattr(parsed_args, name) for name in _NAMES) or (attention and parsed_args.attention)


def deletions(
    client: Proxy, identity: Any, parsed_args: argparse.Namespace, limit: int | None = None, **more: Any
) -> Iterator[dict[str, Any]]:
    """Yield the deletions that the options select.

    :param more: further parameters of the API
    """
    wanted = {name: getattr(parsed_args, option) for option, name in _SAME.items()}
    wanted["attention"] = True if parsed_args.attention else None
    if parsed_args.domain:
        wanted["domain_id"] = common.find_domain(identity, parsed_args.domain)
    if parsed_args.project:
        wanted |= lookup.project_filter(client, identity, parsed_args.project, parsed_args.project_domain)
    if parsed_args.user:
        wanted |= lookup.user_filter(client, identity, parsed_args.user, parsed_args.user_domain)
    return client.deletions(limit=limit, **wanted, **more)
