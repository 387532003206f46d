"""``openstack project deletion lien``: protects projects from deletion."""

from __future__ import annotations

import argparse

from cleanup_orchestrator import shapes
from cleanup_orchestrator.osc import arguments, cells, common, expiring
from cleanup_orchestrator.osc.common import Table


class CreateLien(common.ShowOne):
    """Protect a project from deletion."""

    _description = (
        "Protect a project from deletion. A request to delete it is refused. A deletion under way stops before its "
        "next delete, and continues when the lien has ended. It can be cancelled meanwhile."
    )
    _epilog = """
    Examples:

      openstack project deletion lien create demo --origin legal --reason "court order 08/15"

      For 30 days:
        openstack project deletion lien create demo --origin billing --days 30 --reason "the last invoice is open"
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("project", metavar="<project>", help="Project to protect (name or ID)")
        common.add_project_domain(parser)
        parser.add_argument(
            "--origin", metavar="<origin>", required=True, help="Requester of the protection, such as billing"
        )
        parser.add_argument("--reason", metavar="<reason>", required=True, help="Reason (shown by each refusal)")
        arguments.add_until(parser.add_mutually_exclusive_group())
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Record the lien and return it."""
        until = arguments.until(parsed_args)
        project_id = common.project_id(self.app, parsed_args)
        return cells.details(
            shapes.Lien, self.client.create_lien(project_id or "", parsed_args.origin, parsed_args.reason, until)
        )


class ListLien(expiring.List):
    """List liens."""

    noun, ended, shape = "lien", "removed", shapes.Lien
    _description = "List the liens in force: the projects that are protected from deletion."
    _epilog = """
    Examples:

      openstack project deletion lien list --project demo

      All liens, also expired and removed ones:
        openstack project deletion lien list --all --origin billing
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        common.add_project(parser, "Only liens on this project (name or ID)")
        parser.add_argument("--origin", metavar="<origin>", help="Only liens of this origin")
        self.add_listing(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row for each lien."""
        return self.rows(
            self.client.liens,
            parsed_args,
            project_id=common.project_id(self.app, parsed_args),
            origin=parsed_args.origin,
        )


class ShowLien(expiring.Show):
    """Show one lien."""

    noun, shape = "lien", shapes.Lien
    _description = "Show a lien, in force or ended."
    _epilog = """
    Examples:

      openstack project deletion lien show 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11
    """


class DeleteLien(expiring.Delete):
    """Remove liens."""

    noun, end, ended = "lien", "remove", "removed"
    _description = "Remove liens. The deletions that they held continue. The records stay."
    _epilog = """
    Examples:

      openstack project deletion lien delete 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11
    """
