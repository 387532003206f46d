"""``openstack project deletion plan``: shows the plans of dry runs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from osc_lib.cli import format_columns

from cleanup_orchestrator.osc import arguments, common, selection, sizes
from cleanup_orchestrator.osc.common import Table
from cleanup_orchestrator.sdk import one_line


class Types(common.Rows):
    """The types of a plan; a table leaves out empty types."""

    def human_readable(self) -> str:
        """Return a line for each type that is not empty or is unknown."""
        rows = self._value or ()
        shown = [row for row in rows if not row.get("known") or any(row.get(k) for k in ("delete", "keep", "protect"))]
        other = len(rows) - len(shown)
        return "\n".join([*map(self.line, shown), *([f"{other} other: nothing found"] if other else [])])

    def line(self, row: Mapping[str, Any]) -> str:
        """Return the counts of one type in one region."""
        name = common.type_name(row)
        if row.get("waived"):
            return f"{name}: waived ({one_line(row.get('message') or '')})"
        if not row.get("known"):
            return f"{name}: not known ({one_line(row.get('message') or row.get('reason') or '')})"
        numbers = {word: f"{word} {row[word]}" for word in ("delete", "keep", "protect") if row.get(word)}
        if "delete" in numbers and row.get("size") is not None:
            numbers["delete"] += f" ({sizes.text(row['size'])})"
        return f"{name}: " + ", ".join(numbers.values())


class Order(format_columns.ListColumn):
    """The order of a plan: a line for each level in a table, the lists in JSON."""

    def human_readable(self) -> str:
        """Return the types of each level."""
        return "\n".join(", ".join(one_line(name) for name in level) for level in self._value or ())


class PlanCommand(common.Cleanup):
    """Base of the commands that take the id of a plan."""

    find_id = f"Find the dry run with: {common.LIST} --status planned"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("plan", metavar="<plan>", help="ID of the dry run")
        return parser


class ShowPlan(PlanCommand, common.ShowOne):
    """Show the plan of a dry run."""

    _description = (
        "Show the plan of a dry run: the number of resources to delete, their order, the resources to keep, the types "
        "that could not be listed, and a hash of the resources to delete. A deletion by this plan deletes nothing else."
    )
    _epilog = """
    Examples:

      The whole plan:
        openstack project deletion plan show 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

      Only its hash:
        openstack project deletion plan show -f value -c hash 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return the fields of the plan."""
        plan = self.client.get_plan(parsed_args.plan)
        formats: dict[str, Any] = {"order": Order, "types": Types, "blockers": common.Blockers}
        formats["selection"] = selection.Selected
        names = [name for name in plan if name != "links"]
        return tuple(names), [formats[n](plan[n]) if n in formats else plan[n] for n in names]


class ListPlanResource(PlanCommand, common.Lister):
    """List the resources of a plan."""

    _description = "List the resources of a plan, with the action for each (delete, keep or protect) and the reason."
    _epilog = """
    Examples:

      The resources to delete:
        openstack project deletion plan resources --action delete 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

      All ports:
        openstack project deletion plan resources --type port 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

    Types that could not be listed have no rows. 'openstack project deletion plan show' names them.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--action", choices=["delete", "keep", "protect"], help="Only resources with this action")
        arguments.add_place(parser)
        common.add_limit(parser, "resources")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row for each resource."""
        names = ("action", "region", "service", "type", "id", "name", "size", "reason", "message")
        filters = {name: getattr(parsed_args, name) for name in ("action", "region", "service", "type")}
        rows = self.client.plan_resources(parsed_args.plan, limit=parsed_args.limit, **filters)
        heads = tuple("ID" if name == "id" else name.capitalize() for name in names)
        return heads, [tuple(sizes.Size(row.get(n)) if n == "size" else row.get(n) for n in names) for row in rows]
