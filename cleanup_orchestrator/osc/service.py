"""``openstack project deletion service``: who answers for which service of the catalog."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from osc_lib.cli import format_columns

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

      What keeps projects from being deleted:
        openstack project deletion service list -f json | jq '.[] | select(."Answered By" == "nobody")'
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        """Return one row for each service in each region."""
        return (
            ("Region", "Service Type", "Name", "Answered By", "Types", "Message"),
            [
                (
                    row.get("region"),
                    row.get("service_type"),
                    row.get("name"),
                    row.get("answered_by"),
                    format_columns.ListColumn(row.get("types") or []),
                    row.get("message"),
                )
                for row in self.client.services()
            ],
        )
