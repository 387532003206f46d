"""``openstack project deletion service``: who answers for which service of the catalog."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from cleanup_orchestrator.osc import common


class ListService(common.Lister):
    """List every catalog entry and who answers for it when a project is deleted."""

    _description = (
        "List every service of the catalog, for each region, and who answers for what a project owns there: a plugin, "
        "nobody because it owns nothing, nobody because an admin waived it, or nobody. A service that nobody answers "
        "for keeps every project from being deleted."
    )
    _epilog = """
    Examples:

      openstack project deletion service list
      openstack project deletion service list --long
      openstack project deletion service list --project demo

      What keeps projects from being deleted:
        openstack project deletion service list -f json | jq '.[] | select(."Answered By" == "nobody")'
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--project",
            metavar="<project>",
            help="as this project's deletion sees it, with waivers for it alone (name or ID)",
        )
        parser.add_argument("--project-domain", metavar="<domain>", help="domain that the project is in (name or ID)")
        parser.add_argument("--long", action="store_true", help="also show every resource type that is looked for")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        """Return one row for each service in each region."""
        columns = ("Region", "Service Type", "Name", "Answered By", "Message")
        fields = ("region", "service_type", "name", "answered_by", "message")
        project_id = None
        if parsed_args.project:
            identity = self.app.client_manager.sdk_connection.identity
            project_id = common.find_project(identity, parsed_args.project, parsed_args.project_domain)
        services = list(self.client.services(project_id))
        rows = [tuple(service.get(field) for field in fields) for service in services]
        if not parsed_args.long:
            return columns, rows
        types = [common.Words(service.get("types") or []) for service in services]
        return (*columns, "Types"), [(*row, column) for row, column in zip(rows, types, strict=True)]
