"""``openstack project deletion service``: lists services and their plugins."""

from __future__ import annotations

import argparse

from cleanup_orchestrator import shapes
from cleanup_orchestrator.osc import cells, common


class ListService(common.Lister):
    """List the services of the catalog and their plugins."""

    _description = (
        "List every service of the catalog in each region, and how its resources are handled: by a plugin, by the "
        "service itself over the project resources protocol, not at all because the service has no resources of "
        "projects, not at all because an admin waived it, or not at all because it is unsupported. An unsupported "
        "service blocks the deletion of every project."
    )
    _epilog = """
    Examples:

      openstack project deletion service list
      openstack project deletion service list --long
      openstack project deletion service list --project demo

      The services that block deletions:
        openstack project deletion service list -f json | jq '.[] | select(."Answered By" == "unsupported")'
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        common.add_project(parser, "Apply the waivers for this project, too (name or ID)")
        common.add_long(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> common.Table:
        """Return one row for each service in each region."""
        rows = self.client.services(common.project_id(self.app, parsed_args))
        return cells.of_list(shapes.Service, parsed_args, rows)
