"""What delete, retry and cancel have in common: ask for each argument, report each, wait if told to."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from cleanup_orchestrator.osc import common, wait
from cleanup_orchestrator.osc.client import one_line

COLUMNS = ("Project", "Project ID", "Deletion ID", "Status")


def add_wait_options(parser: Any, until: str) -> None:
    """Add --wait and --wait-timeout."""
    parser.add_argument("--wait", action="store_true", help=f"Wait until {until}, showing the progress")
    parser.add_argument(
        "--wait-timeout",
        metavar="<seconds>",
        type=common.positive(float),
        help="Wait no longer than that; the deletion itself goes on (default: no limit)",
    )


def check_wait_options(parsed_args: argparse.Namespace) -> None:
    """Refuse a limit to a waiting that was not asked for."""
    if parsed_args.wait_timeout is not None and not parsed_args.wait:
        raise exceptions.CommandError("--wait-timeout needs --wait")


class Requesting(common.Lister):
    """A command whose arguments are requests of their own: what fails for one does not hide the others.

    The output lists the deletions that were asked for and nothing else; errors and progress go to the error output.
    """

    _code = 0

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command and return its exit code."""
        self._code = 0
        super().run(parsed_args)
        return self._code

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """List what was asked for, unless there is nothing."""
        rows = list(data)
        return super().produce_output(parsed_args, column_names, rows) if rows else 0

    def request_all(
        self,
        arguments: list[str],
        request: Callable[[str], dict[str, Any]],
        what: str,
        wanted: Callable[[Mapping[str, Any]], bool],
        parsed_args: argparse.Namespace,
    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        """Ask for each argument, wait if told to, and return the table."""
        deletions: dict[str, dict[str, Any]] = {}
        failed = 0
        for argument in arguments:
            try:
                deletion = request(argument)
            except (sdk_exceptions.SDKException, exceptions.CommandError) as exc:
                failed += 1
                self.log.error("%s '%s': %s", what, one_line(argument), self.explain(exc))
                self.log.debug("", exc_info=True)
            else:
                # The same project twice is one deletion.
                deletions[deletion["id"]] = deletion
        if failed:
            self._code = 1
            if len(arguments) > 1:
                self.log.error("%s of %s requests failed", failed, len(arguments))
        rows = list(deletions.values())
        if parsed_args.wait and rows:
            quiet = self.app.options.verbose_level < 1
            waiter = wait.Waiter(self.client, sys.stderr, wanted, parsed_args.wait_timeout, quiet)
            rows, code = waiter.wait(rows)
            self._code = code or self._code
        return COLUMNS, [(d.get("project_name"), d.get("project_id"), d["id"], d.get("status")) for d in rows]
