"""``openstack project deletion``: lists and shows deletions, leftovers and events."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from cleanup_orchestrator import shapes
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.words import Outcome
from cleanup_orchestrator.osc import arguments, cells, common, deletion_filters, lookup, selection, usage, wait
from cleanup_orchestrator.osc.common import Table
from cleanup_orchestrator.osc.screen import Screen, unbroken
from cleanup_orchestrator.sdk import one_line

T = TypeVar("T")


def add_deletion(parser: argparse.ArgumentParser, many: bool = False, optional: bool = False) -> None:
    """Add the argument that names a deletion, or several, and --project-domain."""
    parser.add_argument(
        "deletions" if many else "deletion",
        metavar="<project>",
        nargs="*" if many else "?" if optional else None,
        help=f"Project of {'each' if many else 'the'} deletion (name or ID): its deletion under way, or else its "
        "latest one; or the ID of a deletion",
    )
    common.add_project_domain(parser)


class DeletionCommand(common.Cleanup):
    """Base of the commands that take deletions, by their ids or by their projects."""

    find_id = common.FIND_DELETION
    wanted: ClassVar[lookup.Wanted] = lookup.TO_READ  #: which deletion of a project the command takes

    def on_deletion(self, parsed_args: argparse.Namespace, text: str, call: Callable[[str], T]) -> T:
        """Return what a call returns for the deletion that an argument names."""
        identity = self.app.client_manager.sdk_connection.identity
        return lookup.on_deletion(self.client, identity, text, parsed_args.project_domain, call, self.wanted)


class ListDeletion(common.Lister):
    """List the deletions of projects."""

    _description = (
        "List the deletions of projects, under way and ended, newest first. A domain manager sees the deletions of "
        "the manager's own domain."
    )
    _epilog = """
    Examples:

      Deletions under way:
        openstack project deletion list --status live

      All deletions of a project, also if the project no longer exists:
        openstack project deletion list --project demo --long

      What alice requested in a night:
        openstack project deletion list --user alice --since 2026-11-21T18:00:00Z --until 2026-11-22T06:00:00Z

      Deletions that need an operator, with the reason:
        openstack project deletion list --attention

      What was requested with a ticket, with the dates:
        openstack project deletion list --ticket CHG-4711 --long

      The ids of failed deletions, for a script:
        openstack project deletion list --status failed -f value -c ID
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        deletion_filters.add(parser)
        common.add_project_domain(parser)
        parser.add_argument(
            "--sort",
            metavar="<key>[:<direction>]",
            help="Sort by these keys, such as created_at, status or project_name, each with :asc or :desc, separated "
            "by commas (default: created_at:desc)",
        )
        common.add_long(parser)
        common.add_limit(parser, "deletions")
        parser.add_argument("--marker", metavar="<deletion>", help="List the deletions after this one (ID)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row for each deletion."""
        identity = self.app.client_manager.sdk_connection.identity
        page = {"sort": parsed_args.sort, "marker": parsed_args.marker}
        rows = list(deletion_filters.deletions(self.client, identity, parsed_args, parsed_args.limit, **page))
        if parsed_args.attention and not rows:
            some = deletion_filters.given(parsed_args, attention=False) or parsed_args.marker
            sys.stderr.write("None of these deletions needs you.\n" if some else "No deletion needs you.\n")
        return cells.of_list(shapes.Deletion, parsed_args, rows)


class ShowDeletion(DeletionCommand, common.ShowOne):
    """Show one deletion."""

    _description = "Show a deletion: its status, its blockers with their remedies, and the resources of each type."
    _epilog = """
    Examples:

      The deletion of a project that is under way, or else the latest one:
        openstack project deletion show demo

      An earlier deletion, by its ID:
        openstack project deletion show 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

      Only the blockers, for a script:
        openstack project deletion show 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11 -f json -c blockers

    A table has what a person needs: it leaves out empty fields, conditions that are not true, and types without
    resources. '-f json' and '-f yaml' have everything, and '-c' shows any field.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_deletion(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return the fields of the deletion, the most important first."""
        deletion = self.on_deletion(parsed_args, parsed_args.deletion, self.client.get_deletion)
        first = (
            "id project_name project_id domain_id mode selection dry_run ticket request_reason not_before status "
            "summary attention message conditions blockers children"
        )
        first += " forced liens waivers approvals point_of_no_return_at progress"
        names = [name for name in first.split() if name in deletion]
        # Fields of a newer server are shown as well.
        names += [name for name in deletion if name not in names and name not in ("links", "counts")]
        names += ["counts"] if "counts" in deletion else []
        if parsed_args.formatter == "table" and not parsed_args.columns:
            names = [n for n in names if n != "selection" or selection.text(deletion[n])]
            quiet = {name for name, each in shapes.Deletion.fields.items() if each.field.quiet}
            names = [n for n in names if n not in quiet and deletion[n] not in (None, "", [], {}, False)]
        return cells.details(shapes.Deletion, deletion, names)


def unknown_lines(deletion: Mapping[str, Any], filters: Mapping[str, str | None]) -> list[str]:
    """Return lines that name the types of a deletion that could not be listed, why, and what to do about each.

    :param filters: the place of what is wanted: ``region``, ``service`` and ``type``, as far as they are given
    """
    blockers = {_place(row): row for row in deletion.get("blockers") or ()}
    lines = []
    for row in deletion.get("counts") or ():
        if row.get("outcome") != Outcome.UNKNOWN or not _is_wanted(row, filters):
            continue
        blocker = blockers.get(_place(row), {})
        lines += common.blocker_lines([{**row, "remedy": blocker.get("remedy")}])
    return ["Unknown, because they could not be listed:", *(f"  {line}" for line in lines)] if lines else []


def people(deletion: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the users that a deletion has on record, by their ids."""
    records = [deletion, deletion.get("forced") or {}]
    for name in ("approvals", "liens", "waivers"):
        records += deletion.get(name) or ()
    return {row["user_id"]: row["user_name"] for row in records if row.get("user_id") and row.get("user_name")}


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row.get("region"), row.get("service"), row.get("type")


def _is_wanted(row: Mapping[str, Any], filters: Mapping[str, str | None]) -> bool:
    """Whether the filters may be about the type of a row. The server knows the aliases of services."""
    named = {"region": (row["region"],), "type": (row["type"], "", f"{row['service']}.{row['type']}")}
    return all(not filters.get(name) or not values[0] or filters[name] in values for name, values in named.items())


#: Remedies of leftovers that follow a table at most, and commands of each.
_REMEDIES, _COMMANDS = 5, 3


def remedy_lines(leftovers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return lines with what to do about leftovers: each remedy once, with its first commands."""
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for row in leftovers:
        if remedy := one_line(row.get("remedy") or ""):
            alike.setdefault(remedy, []).append(row)
    lines = ["What to do:"] if alike else []
    for remedy, group in list(alike.items())[:_REMEDIES]:
        reasons = ", ".join(dict.fromkeys(one_line(row.get("reason")) for row in group))
        lines.append(f"  {len(group)} {reasons}: {remedy}")
        commands = [*dict.fromkeys(one_line(each) for row in group for each in row.get("commands") or ())]
        lines += [f"      {unbroken(each)}" for each in commands[:_COMMANDS]]
        if len(commands) > _COMMANDS:
            lines.append(f"      and {len(commands) - _COMMANDS} more commands: see them with --long")
    if len(alike) > _REMEDIES:
        lines.append(f"  and {len(alike) - _REMEDIES} more remedies: see them with --long")
    return lines


class ListDeletionLeftover(DeletionCommand, common.Lister):
    """List the leftovers of a deletion."""

    _after: Sequence[str] = ()

    _description = (
        "List the resources of the project that still exist (after a dry run: the resources to delete), with the "
        "reason and the remedy of each. With --all: what the latest deletion of each project left, except dry runs and "
        "cancelled deletions."
    )
    _epilog = """
    Examples:

      openstack project deletion leftovers demo

      Only ports in use, with the resources that use them:
        openstack project deletion leftovers --type network.port --reason in_use demo

      The volumes of all projects that could not be deleted:
        openstack project deletion leftovers --all --service cinder --reason error

    Types that could not be listed have no rows: what they hold is unknown. They are named on the standard error, with
    the reason and the remedy of each.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_deletion(parser, optional=True)
        parser.add_argument("--all", action="store_true", help="List what the deletions of all projects left")
        arguments.add_place(parser)
        parser.add_argument(
            "--reason", metavar="<reason>", help=f"Only with this reason, such as {Reason.IN_USE} or {Reason.PROTECTED}"
        )
        parser.add_argument(
            "--abandoned", action="store_true", help="Only resources that 'project deletion force' abandoned"
        )
        common.add_long(parser)
        common.add_limit(parser, "leftovers")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row for each resource."""
        if parsed_args.all == bool(parsed_args.deletion):
            raise usage.UsageError("give a project, the ID of a deletion, or --all")
        filters = {name: getattr(parsed_args, name) for name in ("region", "service", "type", "reason")}
        if parsed_args.abandoned:
            filters["abandoned"] = "true"
        if parsed_args.all:
            rows = list(self.client.all_leftovers(limit=parsed_args.limit, **filters))
        else:
            lines, rows = self.on_deletion(
                parsed_args,
                parsed_args.deletion,
                lambda id_: (
                    unknown_lines(self.client.get_deletion(id_), filters),
                    list(self.client.leftovers(id_, limit=parsed_args.limit, **filters)),
                ),
            )
            Screen(sys.stderr).say(lines)
        if parsed_args.formatter == "table" and not parsed_args.columns and not parsed_args.long:
            self._after = remedy_lines(rows)
        return cells.of_list(shapes.ProjectLeftover if parsed_args.all else shapes.Leftover, parsed_args, rows)

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Write the table, and what to do."""
        code = super().produce_output(parsed_args, column_names, data)
        Screen(sys.stderr).say(self._after)
        return code


class ListDeletionEvent(DeletionCommand, common.Lister):
    """List the journal of a deletion."""

    _description = (
        "List the events of a deletion, oldest first: requests, findings, deleted and kept resources. With --resource "
        "and without a deletion: the events of all deletions that name the resource."
    )
    _epilog = """
    Examples:

      openstack project deletion events demo

      All deleted resources, with their ids:
        openstack project deletion events --type resource.deleted --long demo -f json

      The deletion that deleted a resource:
        openstack project deletion events --resource 7d0c6a51-3f0e-4c6e-9a3f-0d1f1c0c8f5e

      Follow a deletion until it ends:
        openstack project deletion events --follow demo

    --follow prints a line for each event ('-f json': an object). The exit code is 0 if the deletion ended as deleted
    (a purge: as purged, a dry run: as planned), 130 after Ctrl-C, and 1 otherwise. Ctrl-C does not stop the deletion.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_deletion(parser, optional=True)
        parser.add_argument("--type", metavar="<type>", help="Only events of this type, such as 'resource.deleted'")
        parser.add_argument("--resource", metavar="<resource>", help="Only events that name this resource (ID)")
        parser.add_argument("--follow", action="store_true", help="Print new events until the deletion ends")
        common.add_long(parser)
        common.add_limit(parser, "events")
        parser.add_argument("--marker", metavar="<event>", help="List the events after this one (ID)")
        return parser

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Write the table, or, with ``--follow``, each event when it arrives."""
        if not parsed_args.follow:
            return super().produce_output(parsed_args, column_names, data)
        as_json = parsed_args.formatter == "json"
        try:
            for event in data:
                if as_json:
                    line = json.dumps(event)
                else:
                    line = "  ".join(one_line(event.get(name) or "") for name in ("at", "type", "message"))
                self.app.stdout.write(f"{line}\n")
                self.app.stdout.flush()
        except KeyboardInterrupt:
            self.code = 130
            sys.stderr.write("Stopped following; the deletion continues.\n")
        return 0

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row for each event, or an iterator that follows the events."""
        if not parsed_args.deletion and (parsed_args.follow or not parsed_args.resource):
            raise usage.UsageError("give a project, the ID of a deletion, or --resource without --follow")
        if parsed_args.follow:
            if parsed_args.formatter not in ("table", "json") or parsed_args.columns or parsed_args.limit:
                raise usage.UsageError("--follow needs the default output or '-f json', without -c and --limit")
            return (), self._follow(parsed_args)
        filters = {"type": parsed_args.type, "marker": parsed_args.marker, "resource_id": parsed_args.resource}
        if parsed_args.deletion:
            rows: list[Any] = self.on_deletion(
                parsed_args,
                parsed_args.deletion,
                lambda id_: list(self.client.events(id_, limit=parsed_args.limit, **filters)),
            )
            if rows and parsed_args.formatter == "table":
                names = people(self.on_deletion(parsed_args, parsed_args.deletion, self.client.get_deletion))
                rows = [{**row, "actor": names.get(row.get("actor")) or row.get("actor")} for row in rows]
        else:
            rows = list(self.client.resource_events(limit=parsed_args.limit, **filters))
        return cells.of_list(shapes.Event if parsed_args.deletion else shapes.ProjectEvent, parsed_args, rows)

    def _follow(self, parsed_args: argparse.Namespace) -> Iterator[dict[str, Any]]:
        marker, pause = parsed_args.marker, wait.POLL_FAST
        deletion = self.on_deletion(parsed_args, parsed_args.deletion, self.client.get_deletion)
        filters = {"type": parsed_args.type, "resource_id": parsed_args.resource}
        while True:
            # The deletion is read before its events, so no event before its end is missed.
            told = marker
            for event in self.client.events(deletion["id"], marker=marker, **filters):
                marker = event["id"]
                yield event
            if wait.ended(deletion):
                self.code = 0 if wait.deleted(deletion) else 1
                return
            pause = wait.POLL_FAST if marker != told else min(pause * 1.5, wait.POLL_SLOW)
            time.sleep(pause)
            deletion = self.client.get_deletion(deletion["id"])
