"""The options that select what ``openstack project purge`` deletes, and a selection in words."""

from __future__ import annotations

import argparse
import datetime
import re
import shlex
from collections.abc import Mapping
from typing import Any

from cleanup_orchestrator.osc import arguments, usage
from cleanup_orchestrator.sdk import one_line

#: Seconds of each unit of an age.
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
#: By criterion of the API: the option.
_OPTIONS = {"services": "--service", "types": "--type", "tags": "--tag", "created_before": "--created-before"}


def age(text: str) -> datetime.timedelta:
    """Return an argparse value for an age such as ``30d`` or ``12h``."""
    match = re.fullmatch("([0-9]{1,9})([smhdw])", text)
    try:
        if not match or not int(match[1]):
            raise ValueError(text)
        return datetime.timedelta(seconds=int(match[1]) * _UNITS[match[2]])
    except (ValueError, OverflowError) as exc:
        message = f"{text!r} is not an age such as 30d: give a whole number and one of s, m, h, d, w"
        raise argparse.ArgumentTypeError(message) from exc


def add_options(parser: Any) -> None:
    """Add the options of a selection."""
    for option, metavar, text in (
        ("--service", "<service>", "Resources of this service, such as 'network' or 'neutron'"),
        ("--type", "<service.type>", "Resources of this type, such as 'compute.server'; in addition to --service"),
    ):
        parser.add_argument(
            option, metavar=metavar, type=arguments.given, action="append", help=f"{text} (can be repeated)"
        )
    parser.add_argument(
        "--tag",
        metavar="<tag>",
        type=arguments.given,
        action="append",
        help="Only resources with this tag (can be repeated: a resource must have all of the tags)",
    )
    ages = parser.add_mutually_exclusive_group()
    ages.add_argument(
        "--created-before",
        metavar="<time>",
        type=arguments.utc,
        help="Only resources that were created before this time (UTC, YYYY-MM-DD[THH:MM:SSZ])",
    )
    ages.add_argument(
        "--older-than",
        metavar="<age>",
        type=age,
        help="Only resources that are older than this, by the clock of this machine, such as 30d or 12h (units: s, m, "
        "h, d, w). The request has the time, so that the same command later is another request",
    )


def read(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return the selection of the options, as the API takes it; empty: everything."""
    before = parsed_args.created_before
    if parsed_args.older_than:
        try:
            moment = datetime.datetime.now(datetime.timezone.utc) - parsed_args.older_than
        except OverflowError as exc:
            raise usage.UsageError("--older-than is before the year 1; nothing was deleted") from exc
        before = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    given = {
        "services": parsed_args.service,
        "types": parsed_args.type,
        "tags": parsed_args.tag,
        "created_before": before,
    }
    return {name: value for name, value in given.items() if value}


def options(selection: Mapping[str, Any]) -> str:
    """Return the options that select the same, for a command that a user can copy."""
    parts = []
    for name, option in _OPTIONS.items():
        values = selection.get(name) or ()
        for value in [values] if isinstance(values, str) else values:
            parts += [option, shlex.quote(one_line(value))]
    return " ".join(parts)


def text(selection: Mapping[str, Any] | None) -> str:
    """Return a selection in words; empty: everything is selected."""
    criteria = selection or {}
    names = {name: ", ".join(map(one_line, criteria.get(name) or ())) for name in ("services", "types")}
    parts = [f"{name} {listed}" for name, listed in names.items() if listed]
    parts = [" and ".join(parts)] if parts else []
    if tags := criteria.get("tags"):
        parts.append(f"with the tag{'s' if len(tags) > 1 else ''} {' and '.join(map(one_line, tags))}")
    if before := criteria.get("created_before"):
        parts.append(f"created before {one_line(before)}")
    return ", ".join(parts)
