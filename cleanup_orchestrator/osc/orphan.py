"""``openstack project orphan``: finds and deletes the resources of dead projects."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from osc_lib.command import command

from cleanup_orchestrator import shapes
from cleanup_orchestrator.osc import cells, common, request, scan_wait, selection, wait
from cleanup_orchestrator.osc.common import Table
from cleanup_orchestrator.osc.screen import Screen

SCAN_CREATE = "openstack project orphan scan create"


def _shown(scan: Mapping[str, Any]) -> Table:
    names, values = cells.details(shapes.OrphanScan, scan, [name for name in scan if name not in ("links", "counts")])
    counts = scan.get("counts") or {}
    return (*names, *counts), (*values, *counts.values())


def _cell(value: Any) -> Any:
    """Return a value that no spreadsheet runs as a formula. Users choose names."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _latest(client: Any) -> str:
    """Return the id of the latest scan that ended with a result."""
    for scan in client.orphan_scans():
        if scan.get("status") in ("completed", "incomplete"):
            return str(scan["id"])
    raise common.command_error(f"no orphan scan has ended yet; start one with: {SCAN_CREATE}")


def _add_scan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scan", metavar="<scan>", help="ID of the scan (default: the latest one that has ended)")


class CreateScan(common.ShowOne):
    """Start an orphan scan."""

    _description = (
        "Search all services of all regions for resources whose project Keystone does not know. A scan only reads. It "
        "lists each type twice, some minutes apart, and reports only what it found both times. Only one scan can run "
        "at a time."
    )
    _epilog = """
    Examples:

      Wait for the end, and show the progress:
        openstack project orphan scan create --wait

      Skip what is younger than a week:
        openstack project orphan scan create --min-age 7d --wait

      Print only its id, to follow it with "project orphan scan show":
        openstack project orphan scan create -f value -c id

    With --wait the exit code is 0 if the scan ended as completed, 4 if it ended as incomplete, 130 after Ctrl-C, and 1
    otherwise. Neither Ctrl-C nor --wait-timeout stops a scan.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--min-age",
            metavar="<age>",
            type=selection.age,
            help="Skip younger resources, such as 2h or 7d (units: s, m, h, d, w; default, and lowest value: that of "
            "the operator)",
        )
        request.add_wait(parser, "the scan has ended", "scan")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Start the scan and return it."""
        request.check_wait_options(parsed_args)
        age = parsed_args.min_age
        scan: Mapping[str, Any] = self.client.create_orphan_scan(int(age.total_seconds()) if age else None)
        if parsed_args.wait:
            quiet, timeout = self.app.options.verbose_level < 1, parsed_args.wait_timeout
            scan, self.code = scan_wait.until_ended(self.client, scan, Screen(sys.stderr), timeout, quiet)
        return _shown(scan)


class ListScan(common.Lister):
    """List orphan scans."""

    _description = "List orphan scans, latest first."
    _epilog = """
    Examples:

      openstack project orphan scan list --limit 5
      openstack project orphan scan list --status incomplete
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--status", metavar="<status>", help="Only scans with this status, such as completed")
        common.add_long(parser)
        common.add_limit(parser, "scans")
        parser.add_argument("--marker", metavar="<scan>", help="List the scans after this one (ID)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row for each scan."""
        filters = {"status": parsed_args.status, "marker": parsed_args.marker}
        rows = self.client.orphan_scans(limit=parsed_args.limit, **filters)
        return cells.of_list(shapes.OrphanScan, parsed_args, rows)


class ShowScan(common.ShowOne):
    """Show one orphan scan."""

    _description = (
        "Show an orphan scan: its status, its counts, the types that could not be listed, and those not covered."
    )
    _epilog = """
    Examples:

      openstack project orphan scan show 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11
      openstack project orphan scan show 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11 -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("scan", metavar="<scan>", help="ID of the scan")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return the fields of the scan."""
        return _shown(self.client.get_orphan_scan(parsed_args.scan))


class CancelScan(common.Cleanup, command.Command):
    """Cancel an orphan scan."""

    _description = "Cancel an orphan scan that is under way. The record stays."
    _epilog = """
    Examples:

      openstack project orphan scan cancel 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("scan", metavar="<scan>", help="ID of the scan")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Cancel the scan."""
        self.client.cancel_orphan_scan(parsed_args.scan)


class ListOrphan(common.Lister):
    """List the resources of dead projects."""

    _description = "List the resources of dead projects that an orphan scan found."
    _epilog = """
    Examples:

      The orphans of the latest scan, for a spreadsheet:
        openstack project orphan list -f csv | tee orphans.csv

      The orphans of one project, without its quotas and default security groups:
        openstack project orphan list --project 0123456789abcdef0123456789abcdef --no-project-settings
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        _add_scan(parser)
        parser.add_argument("--project", metavar="<project>", help="Only orphans of this project (ID)")
        parser.add_argument("--region", metavar="<region>", help="Only orphans in this region")
        parser.add_argument("--service", metavar="<service-type>", help="Only orphans of this service, such as network")
        parser.add_argument("--type", metavar="<type>", help="Only orphans of this type, such as port")
        parser.add_argument(
            "--no-project-settings",
            action="store_true",
            help="Without project settings, such as quotas and default security groups",
        )
        common.add_long(parser)
        common.add_limit(parser, "orphans")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row for each resource."""
        filters = {name: getattr(parsed_args, name) for name in ("region", "service", "type")}
        scan_id = parsed_args.scan or _latest(self.client)
        rows = self.client.orphans(scan_id, limit=parsed_args.limit, project_id=parsed_args.project, **filters)
        wanted = (row for row in rows if not (parsed_args.no_project_settings and row.get("project_setting")))
        # The ids of the project and of a resource do not fit on one line.
        few = ("type", "id", "name") if parsed_args.project else ()
        heads, shown = cells.of_list(shapes.Orphan, parsed_args, wanted, few)
        return heads, (tuple(map(_cell, row)) for row in shown) if parsed_args.formatter == "csv" else shown


class ListOrphanProject(common.Lister):
    """List dead projects and the counts of their orphans."""

    _description = (
        "List the dead projects that still own resources. The name and the domain come from the latest recorded "
        "deletion of the project, if there is one."
    )
    _epilog = """
    Examples:

      openstack project orphan project list
      openstack project orphan project list --scan 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11 -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        _add_scan(parser)
        common.add_long(parser)
        common.add_limit(parser, "projects")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row for each project."""
        rows = self.client.orphan_projects(parsed_args.scan or _latest(self.client), limit=parsed_args.limit)
        return cells.of_list(shapes.OrphanProject, parsed_args, rows)


class AdoptOrphan(request.Following, common.ShowOne):
    """Delete the resources of a dead project."""

    begins = True
    _description = (
        "Delete the resources of a dead project. This is an ordinary deletion with inventory, order, checks and "
        "journal. It stops at once, without a write, if Keystone knows the project again. Resources that only a token "
        "of the project can list are named at its end, and stay."
    )
    _epilog = """
    Examples:

      List what would be deleted:
        openstack project orphan adopt 0123456789abcdef0123456789abcdef --dry-run

      Delete it, and wait for the end:
        openstack project orphan adopt 0123456789abcdef0123456789abcdef --wait

    With --wait the exit codes are those of 'openstack project delete --async --wait'.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("project", metavar="<project>", help="ID of the dead project")
        _add_scan(parser)
        parser.add_argument("--dry-run", action="store_true", help="Only list what would be deleted")
        request.add_said_options(parser)
        request.add_wait_options(parser, "the deletion has ended")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Request the deletion and return it."""
        request.check_wait_options(parsed_args)
        scan_id = parsed_args.scan or _latest(self.client)
        adopted: dict[str, Any] = self.client.adopt_orphans(
            scan_id, parsed_args.project, parsed_args.dry_run, **request.said(parsed_args)
        )
        (deletion,) = self.followed([adopted], wait.deleted, parsed_args)
        hidden = ("links", "counts", "blockers", "children", "waivers")
        return cells.details(shapes.Deletion, deletion, [name for name in deletion if name not in hidden])
