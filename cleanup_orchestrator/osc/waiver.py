"""``openstack project deletion waiver``: lets deletions skip a service."""

from __future__ import annotations

import argparse

from cleanup_orchestrator import shapes
from cleanup_orchestrator.osc import arguments, cells, common, expiring
from cleanup_orchestrator.osc.common import Table


class CreateWaiver(common.ShowOne):
    """Let deletions skip a service."""

    _description = (
        "Let deletions skip a service until a time. Deletions neither list nor delete its resources. The resources of "
        "the project in this service stay behind, and every report that relies on the waiver says so. Use it for a "
        "service that is gone for good, not for one that is being repaired."
    )
    _epilog = """
    Examples:

      The DNS of one region is retired:
        openstack project deletion waiver create dns --region RegionTwo --days 30 --reason "retired, ticket 4711"

      The block storage is lost, and one project has to be deleted:
        openstack project deletion waiver create block-storage --project demo --days 1 --reason "array lost"

      Until a time:
        openstack project deletion waiver create dns --expires-at 2027-01-31T00:00:00Z --reason "retired"
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("service", metavar="<service-type>", help="Type of the service, such as dns, or an alias")
        parser.add_argument("--region", metavar="<region>", help="Only in this region (default: in all regions)")
        common.add_project(parser, "Only for the deletion of this project (name or ID; default: of all projects)")
        parser.add_argument("--reason", metavar="<reason>", required=True, help="Reason (shown by every report)")
        parser.add_argument(
            "--not-yet", action="store_true", help="The catalog does not have the service or the region yet"
        )
        arguments.add_until(parser.add_mutually_exclusive_group(required=True))
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Record the waiver and return it."""
        until = arguments.until(parsed_args)
        project_id = common.project_id(self.app, parsed_args)
        waiver = self.client.create_waiver(
            parsed_args.service,
            parsed_args.reason,
            until or "",
            region=parsed_args.region,
            project_id=project_id,
            allow_unknown=parsed_args.not_yet,
        )
        return cells.details(shapes.Waiver, waiver)


class ListWaiver(expiring.List):
    """List waivers."""

    noun, ended, shape = "waiver", "withdrawn", shapes.Waiver
    _description = "List the waivers in force: the services that deletions skip."
    _epilog = """
    Examples:

      openstack project deletion waiver list

      All waivers, also expired and withdrawn ones:
        openstack project deletion waiver list --all --service dns
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--service", metavar="<service-type>", help="Only waivers of this service")
        parser.add_argument("--region", metavar="<region>", help="Only waivers for this region")
        common.add_project(parser, "Only waivers for this project (name or ID)")
        self.add_listing(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row for each waiver."""
        return self.rows(
            self.client.waivers,
            parsed_args,
            service_type=parsed_args.service,
            region=parsed_args.region,
            project_id=common.project_id(self.app, parsed_args),
        )


class ShowWaiver(expiring.Show):
    """Show one waiver."""

    noun, shape = "waiver", shapes.Waiver
    _description = "Show a waiver, in force or ended."
    _epilog = """
    Examples:

      openstack project deletion waiver show 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11
    """


class DeleteWaiver(expiring.Delete):
    """Withdraw waivers."""

    noun, end, ended = "waiver", "withdraw", "withdrawn"
    _description = "Withdraw waivers. Deletions under way list the service again. The records stay."
    _epilog = """
    Examples:

      openstack project deletion waiver delete 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11
    """
