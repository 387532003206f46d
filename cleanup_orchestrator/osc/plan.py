"""``openstack project deletion plan``: shows the plans of dry runs."""

from __future__ import annotations

import argparse

from cleanup_orchestrator import shapes
from cleanup_orchestrator.osc import arguments, cells, common, lookup
from cleanup_orchestrator.osc.common import Table
from cleanup_orchestrator.osc.deletion import DeletionCommand


class PlanCommand(DeletionCommand):
    """Base of the commands that take a plan, by the id of its dry run or by its project."""

    wanted = lookup.WITH_PLAN
    find_id = f"Find the dry run with: {common.LIST} --status planned"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "plan", metavar="<project>", help="Project (name or ID): its latest dry run; or the ID of a dry run"
        )
        common.add_project_domain(parser)
        return parser


class ShowPlan(PlanCommand, common.ShowOne):
    """Show the plan of a dry run."""

    _description = (
        "Show the plan of a dry run: the number of resources to delete, their order, the resources to keep, the types "
        "that could not be listed, and a hash of the resources to delete. A deletion by this plan deletes nothing else."
    )
    _epilog = """
    Examples:

      The plan of the latest dry run of a project:
        openstack project deletion plan show demo

      Only its hash:
        openstack project deletion plan show -f value -c hash 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return the fields of the plan."""
        plan = self.on_deletion(parsed_args, parsed_args.plan, self.client.get_plan)
        first = [name for name in ("id", "project_name", "summary") if name in plan]
        names = first + [name for name in plan if name not in (*first, "links")]
        if parsed_args.formatter == "table" and not parsed_args.columns:
            names = [name for name in names if plan[name] not in (None, "", [], {})]
        return cells.details(shapes.Plan, plan, names)


class ListPlanResource(PlanCommand, common.Lister):
    """List the resources of a plan."""

    _description = "List the resources of a plan, with the action for each (delete, keep or protect) and the reason."
    _epilog = """
    Examples:

      The resources to delete:
        openstack project deletion plan resources --action delete demo

      All ports of an earlier dry run:
        openstack project deletion plan resources --type port 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

    Types that could not be listed have no rows. 'openstack project deletion plan show' names them.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--action", choices=["delete", "keep", "protect"], help="Only resources with this action")
        arguments.add_place(parser)
        common.add_long(parser)
        common.add_limit(parser, "resources")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row for each resource."""
        filters = {name: getattr(parsed_args, name) for name in ("action", "region", "service", "type")}
        rows = self.on_deletion(
            parsed_args,
            parsed_args.plan,
            lambda id_: list(self.client.plan_resources(id_, limit=parsed_args.limit, **filters)),
        )
        return cells.of_list(shapes.PlannedResource, parsed_args, rows)
