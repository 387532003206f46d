"""Common parts of the commands that send a request for each argument."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from cleanup_orchestrator.osc import arguments, common, selection, usage, wait
from cleanup_orchestrator.osc.screen import Screen, command
from cleanup_orchestrator.sdk import one_line

COLUMNS = ("Project", "Project ID", "Deletion ID", "Status")
#: Those of a table. They fit on a terminal.
FEW = ("Project", "Deletion ID", "Status")


def add_wait(parser: Any, until: str, what: str) -> None:
    """Add --wait and --wait-timeout.

    :param what: what the command waits for
    """
    parser.set_defaults(stop_when_blocked=False)
    parser.add_argument("--wait", action="store_true", help=f"Wait until {until}, and show the progress")
    parser.add_argument(
        "--wait-timeout",
        metavar="<seconds>",
        type=common.positive(float),
        help=f"Maximum time to wait; the {what} continues after it (default: no limit)",
    )


def add_wait_options(parser: Any, until: str) -> None:
    """Add --wait, --wait-timeout and --stop-when-blocked."""
    add_wait(parser, until, "deletion")
    parser.add_argument(
        "--stop-when-blocked",
        action="store_true",
        help="Stop waiting, with exit code 3, when something blocks a deletion that only a person can clear",
    )


def add_date(parser: Any) -> Any:
    """Add --at and --delay to a new group that allows one of them, and return the group."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--at",
        metavar="<time>",
        type=arguments.utc,
        help="Begin nothing before this time (UTC, YYYY-MM-DD[THH:MM:SSZ]; a date is its beginning)",
    )
    group.add_argument(
        "--delay",
        metavar="<duration>",
        type=selection.age,
        help="Begin nothing before this time has passed, such as 90d or 12h (units: s, m, h, d, w)",
    )
    return group


def date(parsed_args: argparse.Namespace) -> str | None:
    """Return the date of --at or --delay, as the API takes it; ``None``: none is given."""
    at: str | None = parsed_args.at
    if parsed_args.delay is None:
        return at
    try:
        moment: datetime.datetime = datetime.datetime.now(datetime.timezone.utc) + parsed_args.delay
    except OverflowError as exc:
        raise usage.UsageError("--delay is after the year 9999; nothing was changed") from exc
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def add_said_options(parser: Any) -> None:
    """Add --reason and --ticket."""
    parser.add_argument("--reason", metavar="<text>", type=arguments.given, help="Why; every report has it")
    parser.add_argument(
        "--ticket",
        metavar="<ticket>",
        type=arguments.given,
        help="Reference of the request, such as the number of a change; other commands find the deletions by it",
    )


def add_record_options(parser: Any) -> None:
    """Add --reason, --ticket, --at and --delay."""
    add_said_options(parser)
    add_date(parser)


def said(parsed_args: argparse.Namespace) -> dict[str, str]:
    """Return the reason and the ticket, as the API takes them."""
    texts = {"request_reason": parsed_args.reason, "ticket": parsed_args.ticket}
    return {name: value for name, value in texts.items() if value}


def record(parsed_args: argparse.Namespace) -> dict[str, str]:
    """Return the reason, the ticket and the date, as the API takes them."""
    if (at := date(parsed_args)) is None:
        return said(parsed_args)
    if parsed_args.dry_run:
        raise usage.UsageError("--at and --delay: not with --dry-run, which changes nothing; nothing was deleted")
    return {**said(parsed_args), "not_before": at}


def add_plan_options(parser: Any, plan: str) -> None:
    """Add --dry-run, --plan, --plan-hash and --yes.

    :param plan: the help of --plan
    """
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="Only list what the same request would delete, without any change",
    )
    parser.add_argument("--plan", metavar="<plan>", type=arguments.given, help=plan)
    parser.add_argument(
        "--plan-hash",
        metavar="<hash>",
        type=arguments.given,
        help="Refuse if the plan has another hash ('project deletion plan show')",
    )
    parser.add_argument("--yes", action="store_true", help="Do not ask for confirmation at a terminal")


def check_plan_options(parsed_args: argparse.Namespace) -> None:
    """Refuse the hash of a plan without a plan."""
    if parsed_args.plan_hash and not parsed_args.plan:
        raise usage.UsageError("--plan-hash needs --plan; nothing was deleted")


def check_wait_options(parsed_args: argparse.Namespace) -> None:
    """Refuse the options of a wait without ``--wait``."""
    given = {
        "--wait-timeout": parsed_args.wait_timeout is not None,
        "--stop-when-blocked": parsed_args.stop_when_blocked,
    }
    for option, value in given.items():
        if value and not parsed_args.wait:
            raise usage.UsageError(f"{option} needs --wait")


def _row(deletion: Mapping[str, Any]) -> dict[str, Any]:
    return {"Project ID": deletion.get("project_id"), "Deletion ID": deletion["id"], "Status": deletion.get("status")}


def _how_to_follow(deletions: list[dict[str, Any]]) -> list[str]:
    """Return the lines after a request without ``--wait``."""
    if len(deletions) > 1:
        live = command(f"{common.LIST} --status live")
        return [f"The {len(deletions)} deletions go on in the background. See them with: {live}"]
    what = "dry run" if deletions[0].get("dry_run") else "deletion"
    follow = command(common.FOLLOW, id=deletions[0]["id"])
    return [f"The {what} goes on in the background. Follow it with: {follow}"]


class Following(common.Cleanup):
    """A command that requests deletions, and can wait for their end."""

    patience: ClassVar[float] = 0.0  #: see ``wait.WaitOptions``
    begins: ClassVar[bool] = False  #: whether the command begins deletions, so that it says how to follow them

    def followed(
        self,
        rows: list[dict[str, Any]],
        wanted: Callable[[Mapping[str, Any]], bool],
        parsed_args: argparse.Namespace,
    ) -> list[dict[str, Any]]:
        """Wait for deletions if requested, and return them; without a wait, say how to follow them."""
        quiet = self.app.options.verbose_level < 1
        if parsed_args.wait and rows:
            stop, timeout = parsed_args.stop_when_blocked, parsed_args.wait_timeout
            options = wait.WaitOptions(wanted, timeout, quiet, stop, self.patience)
            rows, code = wait.Waiter(self.client, sys.stderr, options).wait(rows)
            # A failed request says more than a dry run that could not list everything.
            self.code = self.code if self.code and code == wait.INCOMPLETE else code or self.code
        elif self.begins and not quiet and any(not wait.ended(row) for row in rows):
            Screen(sys.stderr).say(_how_to_follow(rows))
        return rows


class Requesting(Following, common.Lister):
    """A command that sends a request for each argument and continues after errors.

    The output lists only the requested deletions. Errors and progress go to the error output.
    """

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """List the requested deletions, if there are any."""
        rows = list(data)
        return super().produce_output(parsed_args, column_names, rows) if rows else 0

    def request_all(
        self,
        arguments: list[str],
        request: Callable[[str], dict[str, Any]],
        what: str,
        wanted: Callable[[Mapping[str, Any]], bool],
        parsed_args: argparse.Namespace,
    ) -> common.Table:
        """Send a request for each argument, wait if requested, and return the table."""
        deletions: dict[str, dict[str, Any]] = {}
        failed = code = 0
        for argument in arguments:
            try:
                deletion = request(argument)
            except (sdk_exceptions.SDKException, exceptions.CommandError) as exc:
                failed += 1
                code = max(code, usage.exit_code(exc))
                self.log.error("%s '%s': %s", what, one_line(argument), common.explain(exc, self.find_id))
                self.log.debug("", exc_info=True)
            else:
                # The same project given twice is one deletion.
                deletions[deletion["id"]] = deletion
        if failed:
            self.code = code
            if len(arguments) > 1:
                self.log.error("%s of %s requests failed", failed, len(arguments))
        rows = self.followed(list(deletions.values()), wanted, parsed_args)
        table = parsed_args.formatter == "table" and not parsed_args.columns
        heads = FEW if table else COLUMNS
        shown = ({"Project": common.label(d) if table else d.get("project_name"), **_row(d)} for d in rows)
        return heads, [tuple(row[head] for head in heads) for row in shown]
