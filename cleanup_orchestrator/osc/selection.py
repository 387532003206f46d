"""The options that select what ``openstack project purge`` deletes, and a selection in words."""

from __future__ import annotations

import argparse
import datetime
import re
import shlex
from collections.abc import Mapping
from typing import Any

from cleanup_orchestrator.osc import arguments, usage
from cleanup_orchestrator.osc.words import SELECTING as OPTIONS
from cleanup_orchestrator.sdk import one_line

#: Seconds of each unit of an age.
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
#: The options that can be repeated: criterion, placeholder, and help.
_LISTS = (
    ("services", "<service>", "Resources of this service, such as 'network' or 'neutron' (can be repeated)"),
    (
        "types",
        "<service.type>",
        "Resources of this type, such as 'compute.server'; in addition to --service (can be repeated)",
    ),
    (
        "skip",
        "<service or service.type>",
        "Never resources of this service or this type, nor what contains one, whatever --service and --type say (can "
        "be repeated)",
    ),
    ("tags", "<tag>", "Only resources with this tag (can be repeated: a resource must have all of the tags)"),
    (
        "not_tags",
        "<tag>",
        "Only resources without this tag, and never those whose service shows no tags (can be repeated)",
    ),
    (
        "names",
        "<pattern>",
        "Only resources with a name that matches this pattern as a whole: *, ? and [..] in quotes, upper and lower "
        "case differ (can be repeated: one of the patterns must match)",
    ),
    (
        "not_names",
        "<pattern>",
        "Only resources with a name that does not match this pattern, and never those whose service shows no name "
        "(can be repeated)",
    ),
)
#: The pairs of options of which one is a time and the other an age: criterion, option of the age, and what is compared.
_TIMES = (
    ("created_before", "--older-than", "were created", "are older"),
    ("updated_before", "--not-updated-for", "were changed last", "were not changed for longer"),
)


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
    for name, metavar, text in _LISTS:
        option = OPTIONS[name]
        parser.add_argument(
            option, dest=name, metavar=metavar, type=arguments.given, action="append", help=text.replace("%", "%%")
        )
    for name, option, were, older in _TIMES:
        either = parser.add_mutually_exclusive_group()
        either.add_argument(
            OPTIONS[name],
            metavar="<time>",
            type=arguments.utc,
            help=f"Only resources that {were} before this time (UTC, YYYY-MM-DD[THH:MM:SSZ])",
        )
        either.add_argument(
            option,
            metavar="<age>",
            type=age,
            help=f"Only resources that {older} than this, by the clock of this machine, such as 30d or 12h (units: s, "
            "m, h, d, w). The request has the time, so that the same command later is another request",
        )


def read(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return the selection of the options, as the API takes it; empty: everything."""
    given = {name: getattr(parsed_args, name) for name in OPTIONS}
    for name, option, *_words in _TIMES:
        if not_for := getattr(parsed_args, option.lstrip("-").replace("-", "_")):
            try:
                moment = datetime.datetime.now(datetime.timezone.utc) - not_for
            except OverflowError as exc:
                raise usage.UsageError(f"{option} is before the year 1; nothing was deleted") from exc
            given[name] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {name: value for name, value in given.items() if value}


def alike(planned: Mapping[str, Any], selected: Mapping[str, Any]) -> bool:
    """Return whether a dry run selected what a request selects, by the names that the user gave.

    The times can differ: an age is counted from the moment of the command.
    """
    times = {name for name, *_words in _TIMES}
    same = all(sorted(planned.get(name) or ()) == sorted(selected.get(name) or ()) for name in OPTIONS.keys() - times)
    return same and all(bool(planned.get(name)) is bool(selected.get(name)) for name in times)


def options(selection: Mapping[str, Any]) -> str:
    """Return the options that select the same, for a command that a user can copy."""
    parts = []
    for name, option in OPTIONS.items():
        values = selection.get(name) or ()
        for value in map(one_line, [values] if isinstance(values, str) else values):
            parts += [shlex.quote(f"{option}={value}")] if value.startswith("-") else [option, shlex.quote(value)]
    return " ".join(parts)


def text(selection: Mapping[str, Any] | None) -> str:
    """Return a selection in words; empty: everything is selected."""
    criteria = selection or {}
    lists = {name: [one_line(value) for value in criteria.get(name) or ()] for name, *_help in _LISTS}
    kinds = " and ".join(f"{name} {', '.join(lists[name])}" for name in ("services", "types") if lists[name])
    if lists["skip"]:
        kinds = f"{kinds or 'all types'} except {', '.join(lists['skip'])}"
    parts = [kinds] if kinds else []
    for name, words, and_ in (("tags", "with", "and"), ("not_tags", "without", "or")):
        if tags := lists[name]:
            parts.append(f"{words} the tag{'s' if len(tags) > 1 else ''} {f' {and_} '.join(tags)}")
    for name, words in (("names", "named"), ("not_names", "not named")):
        if lists[name]:
            parts.append(f"{words} {' or '.join(lists[name])}")
    for name, words in (("created_before", "created"), ("updated_before", "changed last")):
        if before := criteria.get(name):
            parts.append(f"{words} before {one_line(before)}")
    return ", ".join(parts)
