"""``openstack project deletion brake``: stop every deletion of the cloud, and let them go on."""

from __future__ import annotations

import argparse
from typing import Any

from osc_lib.command import command

from cleanup_orchestrator.osc import common
from cleanup_orchestrator.osc.common import Table


class SetBrake(common.ShowOne):
    """Pull the brake."""

    _description = (
        "Stop every deletion of the cloud: from now on no worker begins to lock a project or to delete anything, until "
        "the brake is lifted. Calls that are under way cannot be taken back. Reports, dry runs and cancels go on."
    )
    _epilog = """
    Examples:

      openstack project deletion brake set --reason "the storage misbehaves, ticket 4711"
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--reason", metavar="<reason>", required=True, help="Why; each deletion shows it")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Pull it and return it."""
        return _shown(self.client.set_brake(parsed_args.reason))


class UnsetBrake(common.Cleanup, command.Command):
    """Lift the brake."""

    _description = "Let deletions go on, as far as no lien holds them and the hours allow it."
    _epilog = """
    Examples:

      openstack project deletion brake unset
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Lift it."""
        self.client.unset_brake()


class ShowBrake(common.ShowOne):
    """Show whether the brake is on."""

    _description = "Show whether the brake is on, and who pulled or lifted it last, when and why."
    _epilog = """
    Examples:

      openstack project deletion brake show
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return its fields."""
        return _shown(self.client.get_brake())


def _shown(brake: dict[str, Any]) -> Table:
    return tuple(brake), list(brake.values())
