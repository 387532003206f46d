"""``openstack project deletion summary``: sums up the deletions that options select."""

from __future__ import annotations

import argparse
import datetime
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from osc_lib.cli import format_columns

from cleanup_orchestrator.osc import cells, common, confirm, deletion_filters, overview
from cleanup_orchestrator.sdk import one_line

_HOUR = datetime.timedelta(hours=1)


class NeedingPerson(cells.Rows):
    """Deletions that need a person: the first ones in a table, all in JSON."""

    def human_readable(self) -> str:
        """Return a line for each of the first deletions."""
        rows = self._value or ()
        more = len(rows) - confirm.NAMED
        return "\n".join([*map(self.line, rows[: confirm.NAMED]), *([f"and {more} more"] if more > 0 else [])])

    def line(self, row: Mapping[str, Any]) -> str:
        """Return one deletion, and what a person does about it."""
        return f"{common.label(row)} ({one_line(row.get('id'))}): {one_line(row.get('attention_message'))}"


class SummarizeDeletions(common.ShowOne):
    """Sum up deletions."""

    _description = (
        "Sum up the deletions that the options select: how many have each status, which of them need a person, which "
        "wait for their date, and how long the others may still take, by the number that ended in the last hour. Dry "
        "runs do not count."
    )
    _epilog = """
    Examples:

      How far the deletions of a change are:
        openstack project deletion summary --ticket CHG-4711

      The deletions of a domain, for a script:
        openstack project deletion summary --domain research -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        deletion_filters.add(parser)
        common.add_project_domain(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> common.Table:
        """Return the numbers."""
        identity = self.app.client_manager.sdk_connection.identity
        rows = deletion_filters.deletions(self.client, identity, parsed_args, dry_run="false")
        found = summed_up(rows, confirm.now(self.client))
        shown = {
            **found,
            "statuses": format_columns.DictColumn(found["statuses"]),
            "need_person": NeedingPerson(found["need_person"]),
        }
        return tuple(shown), tuple(shown.values())


def summed_up(rows: Iterable[Mapping[str, Any]], now: datetime.datetime | None) -> dict[str, Any]:
    """Return the numbers of deletions.

    :param now: the time by the clock of the API; ``None``: it is not known
    """
    counted, statuses, need_person, dates = 0, Counter[str](), list[Mapping[str, Any]](), list[str]()
    moving = ended_lately = 0
    for row in rows:
        counted += 1
        statuses[one_line(row.get("status"))] += 1
        ended = row.get("finished_at")
        if row.get("attention"):
            names = ("id", "project_name", "project_id", "status", "attention", "attention_message")
            need_person.append({name: row.get(name) for name in names})
        elif common.is_true(row, "scheduled"):
            dates.append(str(row.get("not_before")))
        elif not ended:
            moving += 1
        if ended and now and overview.is_before((now - _HOUR).isoformat(), ended):
            ended_lately += 1
    return {
        "deletions": counted,
        "statuses": dict(sorted(statuses.items())),
        "need_person": need_person,
        "scheduled": len(dates),
        "first_date": min(dates, default=None),
        "last_date": max(dates, default=None),
        "under_way": moving,
        "ended_in_last_hour": ended_lately,
        "time_left": _time_left(moving, ended_lately),
    }


def _time_left(moving: int, hourly: int) -> str:
    """Return in words how long the deletions under way may still take.

    :param moving: those under way that wait neither for a person nor for a date
    :param hourly: how many ended in the last hour
    """
    if not moving:
        return "none is under way"
    if not hourly:
        return "not known: none ended in the last hour"
    minutes = math.ceil(moving * 60 / hourly)
    return f"about {minutes} minute{'' if minutes == 1 else 's'}, if as many end in each hour as in the last one"
