"""``openstack project deletion waiver``: go on without a service, on the record, and take that back."""

from __future__ import annotations

import argparse

from cleanup_orchestrator.osc import common, expiring
from cleanup_orchestrator.osc.common import Table

_COLUMNS = {
    "ID": "id",
    "Service Type": "service_type",
    "Region": "region",
    "Project ID": "project_id",
    "State": "state",
    "Expires At": "expires_at",
    "User": "user_name",
    "Reason": "reason",
}


class CreateWaiver(common.ShowOne):
    """Let deletions go on without a service."""

    _description = (
        "Record that deletions go on without a service, until a time and for a reason. Nothing of it is looked at or "
        "deleted, and nothing waits for it: what it holds for the project stays behind, unseen, and every report that "
        "rests on the waiver says so. For a service that is gone for good, and not for one that is being mended."
    )
    _epilog = """
    Examples:

      The DNS of one region is retired:
        openstack project deletion waiver create dns --region RegionTwo --days 30 --reason "retired, ticket 4711"

      The block storage is dead, and one project has to go all the same:
        openstack project deletion waiver create block-storage --project demo --days 1 --reason "array burnt down"

      Until a certain time:
        openstack project deletion waiver create dns --expires-at 2027-01-31T00:00:00Z --reason "retired"
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "service", metavar="<service-type>", help="Type of the service, such as dns; an alias of it will do"
        )
        parser.add_argument("--region", metavar="<region>", help="In this region only (default: in every region)")
        common.add_project(parser, "For the deletion of this project only (name or ID; default: of every project)")
        parser.add_argument("--reason", metavar="<reason>", required=True, help="Why; it is in every report")
        until = parser.add_mutually_exclusive_group(required=True)
        common.add_until(until)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Record it and return it."""
        until = common.until(parsed_args)
        project_id = common.project_id(self.app, parsed_args)
        waiver = self.client.create_waiver(
            parsed_args.service, parsed_args.reason, until or "", region=parsed_args.region, project_id=project_id
        )
        return expiring.shown(waiver)


class ListWaiver(expiring.List):
    """List waivers."""

    noun, ended, columns = "waiver", "withdrawn", _COLUMNS
    _description = "List the waivers that are in force: the services that deletions go on without."
    _epilog = """
    Examples:

      openstack project deletion waiver list

      All that ever were, also expired and withdrawn ones:
        openstack project deletion waiver list --all --service dns
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--service", metavar="<service-type>", help="Only waivers of this service")
        parser.add_argument("--region", metavar="<region>", help="Only waivers for this region alone")
        common.add_project(parser, "Only waivers for this project alone (name or ID)")
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


class ShowWaiver(common.ShowOne):
    """Show one waiver."""

    _description = "Show a waiver: what is waived, by whom, why, and until when. Those that have ended stay on record."
    _epilog = """
    Examples:

      openstack project deletion waiver show 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("waiver", metavar="<waiver>", help="ID of the waiver")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return the fields of the waiver."""
        return expiring.shown(self.client.get_waiver(parsed_args.waiver))


class DeleteWaiver(expiring.Delete):
    """Withdraw waivers."""

    noun, end, ended = "waiver", "withdraw", "withdrawn"
    _description = (
        "Withdraw waivers. Deletions under way look at the service again, or are blocked by it again. The records stay."
    )
    _epilog = """
    Examples:

      openstack project deletion waiver delete 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Withdraw each."""
        self.each(self.client.delete_waiver, parsed_args.ids)
