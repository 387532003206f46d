"""A change of all deletions that options select: the options, and the preview of what the change touches."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from osc_lib import exceptions

from cleanup_orchestrator.osc import common, confirm, deletion_filters, usage
from cleanup_orchestrator.osc.screen import Screen
from cleanup_orchestrator.sdk import one_line

Row = Mapping[str, Any]


def add_options(parser: Any) -> None:
    """Add the options that select deletions, --preview and --yes."""
    group = parser.add_argument_group(
        "all deletions that match", "instead of naming each deletion; every option narrows what is changed"
    )
    deletion_filters.add(group)
    group.add_argument("--preview", action="store_true", help="Only say which deletions match; change nothing")
    parser.add_argument("--yes", action="store_true", help="Do not ask for confirmation at a terminal")


def check(parsed_args: argparse.Namespace) -> bool:
    """Return whether options select the deletions.

    :raises UsageError: if the arguments name deletions as well, or nothing does
    """
    selected = deletion_filters.given(parsed_args)
    if bool(parsed_args.deletions) is selected:
        text = "give the deletions by name, or options that select them (such as --ticket), and not both"
        raise usage.UsageError(f"{text}; nothing was changed")
    if parsed_args.preview and not selected:
        raise usage.UsageError("--preview needs options that select deletions, such as --ticket")
    return selected


def choose(rows: Iterable[Row], fits: Callable[[Row], bool], verb: str, parsed_args: argparse.Namespace) -> list[str]:
    """Say which deletions a change touches, ask, and return their ids.

    :param rows: the deletions that match
    :param fits: whether the change is possible now
    :param verb: what is done, such as ``cancel``
    :raises osc_lib.exceptions.CommandError: if the answer is no, or nothing can be asked
    """
    matching = list(rows)
    fitting = [row for row in matching if fits(row)]
    Screen(sys.stderr).say(_preview(fitting, len(matching) - len(fitting), verb))
    if parsed_args.preview or not fitting:
        return []
    if not parsed_args.yes and not confirm.needed(False):
        text = (
            f"--yes is needed to {verb} the deletions that options select without a terminal; see them with --preview"
        )
        raise exceptions.CommandError(f"{text}; nothing was changed")
    if not parsed_args.yes and not confirm.agreed(f"{verb.capitalize()} {_deletions(len(fitting))}?"):
        raise exceptions.CommandError("not confirmed, so nothing was changed")
    return [str(row["id"]) for row in fitting]


def _preview(fitting: Sequence[Row], others: int, verb: str) -> list[str]:
    counts = Counter(one_line(row.get("status")) for row in fitting)
    by_status = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
    lines = [f"{_deletions(len(fitting))} to {verb}{f': {by_status}' if by_status else ''}"]
    for row in fitting[: confirm.NAMED]:
        lines.append(f"  {common.label(row)} ({one_line(row.get('project_id'))}): {one_line(row.get('status'))}")
    if len(fitting) > confirm.NAMED:
        lines.append(f"  and {len(fitting) - confirm.NAMED} more")
    if others:
        lines.append(f"{_deletions(others)} more match{'es' if others == 1 else ''}, and cannot be changed so now")
    return lines


def _deletions(number: int) -> str:
    return f"{number} deletion{'' if number == 1 else 's'}"
