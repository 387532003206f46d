"""``openstack project deletion brake``: stops all deletions of the cloud."""

from __future__ import annotations

import argparse

from osc_lib.command import command

from cleanup_orchestrator import shapes
from cleanup_orchestrator.osc import cells, common
from cleanup_orchestrator.osc.common import Table


class SetBrake(common.ShowOne):
    """Set the brake."""

    _description = (
        "Stop all deletions of the cloud: no worker locks a project or deletes a resource until the brake is lifted. "
        "Calls that are under way are not stopped. Reports, dry runs and cancels continue."
    )
    _epilog = """
    Examples:

      openstack project deletion brake set --reason "storage errors, ticket 4711"
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--reason", metavar="<reason>", required=True, help="Reason (shown by each deletion)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Set the brake and return it."""
        return cells.details(shapes.Brake, self.client.set_brake(parsed_args.reason))


class LiftBrake(common.Cleanup, command.Command):
    """Lift the brake."""

    _description = "Lift the brake: deletions continue, unless a lien or a delete window holds them."
    _epilog = """
    Examples:

      openstack project deletion brake lift
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Lift the brake."""
        self.client.lift_brake()


class ShowBrake(common.ShowOne):
    """Show whether the brake is set."""

    _description = "Show whether the brake is set, and who set or lifted it last, when and why."
    _epilog = """
    Examples:

      openstack project deletion brake show
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return the fields of the brake."""
        return cells.details(shapes.Brake, self.client.get_brake())
