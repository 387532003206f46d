"""``openstack project deletion``: follow the deletions of projects, and act on them."""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from cleanup_orchestrator.core.deletion import Mode, Origin, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.osc import common, request, wait
from cleanup_orchestrator.osc.client import one_line

Table = tuple[tuple[str, ...], Iterable[Any]]

#: All statuses that are not final.
LIVE = "live"


def add_deletion(parser: argparse.ArgumentParser, many: bool = False) -> None:
    """Add the argument that names a deletion, or several."""
    parser.add_argument(
        "deletions" if many else "deletion",
        metavar="<deletion>",
        nargs="+" if many else None,
        help=f"ID of {'each' if many else 'the'} deletion (see 'openstack project deletion list')",
    )


class DeletionCommand(common.Cleanup):
    """Mixin of the commands about deletions by id: an id that is unknown is answered with the way to find it."""

    def explain(self, exc: BaseException) -> str:
        """Return an error of the command as one line."""
        return common.explain_deletion(exc)


class ListDeletion(common.Lister):
    """List the deletions of projects."""

    _description = (
        "List the deletions of projects: those under way and those that have ended, newest first. A domain manager "
        "sees those of the own domain."
    )
    _epilog = """
    Examples:

      What is under way now:
        openstack project deletion list --status live

      All that ever happened to a project, even if it is gone:
        openstack project deletion list --project demo --long

      What needs somebody, and why:
        openstack project deletion list --attention --long

      The ids of all that failed, for a script:
        openstack project deletion list --status failed -f value -c ID
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--status",
            metavar="<status>",
            action="append",
            choices=[LIVE, *(str(status) for status in Status)],
            help=f"Only deletions in this status, one of {', '.join(Status)}, "
            f"or '{LIVE}' for all that are under way (repeat it for several)",
        )
        parser.add_argument("--mode", choices=[str(mode) for mode in Mode], help="Only deletions in this mode")
        parser.add_argument(
            "--project", metavar="<project>", help="Only deletions of this project (name or ID; it may be gone already)"
        )
        parser.add_argument("--project-domain", metavar="<domain>", help="Domain that the project is in (name or ID)")
        parser.add_argument("--domain", metavar="<domain>", help="Only projects of this domain (name or ID)")
        parser.add_argument(
            "--sort",
            metavar="<key>[:<direction>]",
            help="Let the server sort: keys such as created_at, status or project_name, each with :asc or :desc, "
            "several separated by commas (default: created_at:desc)",
        )
        parser.add_argument(
            "--origin",
            choices=[str(origin) for origin in Origin],
            help="Only deletions that somebody asked for, or only projects that were deleted past us and noticed",
        )
        parser.add_argument(
            "--attention",
            action="store_true",
            help="Only those that need somebody: stalled, failed, with leftovers",
        )
        parser.add_argument("--parent", metavar="<deletion>", help="Only those that this deletion (ID) waits for")
        parser.add_argument("--long", action="store_true", help="List more columns")
        common.add_limit(parser, "deletions")
        parser.add_argument("--marker", metavar="<deletion>", help="List what comes after this deletion (ID)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row for each deletion."""
        columns = {
            "ID": lambda d: d["id"],
            "Project": lambda d: d.get("project_name"),
            "Project ID": lambda d: d.get("project_id"),
            "Mode": lambda d: d.get("mode"),
            "Dry Run": lambda d: d.get("dry_run"),
            "Status": lambda d: d.get("status"),
            "Stalled": lambda d: common.is_true(d, "stalled"),
            "Remaining": lambda d: (d.get("progress") or {}).get("remaining"),
            "Created At": lambda d: d.get("created_at"),
        }
        if parsed_args.long:
            columns |= {
                "Domain ID": lambda d: d.get("domain_id"),
                "Found": lambda d: (d.get("progress") or {}).get("found"),
                "Deleted": lambda d: (d.get("progress") or {}).get("deleted"),
                "Kept": lambda d: (d.get("progress") or {}).get("kept"),
                "Unknown": lambda d: (d.get("progress") or {}).get("unknown"),
                "Attempt": lambda d: d.get("attempt"),
                "Attention": lambda d: d.get("attention"),
                "Reason": lambda d: d.get("reason"),
                "Message": lambda d: d.get("message"),
                "User": lambda d: d.get("user_name"),
                "Origin": lambda d: d.get("origin"),
                "Parent Deletion": lambda d: d.get("parent_deletion_id"),
                "Updated At": lambda d: d.get("updated_at"),
                "Finished At": lambda d: d.get("finished_at"),
            }
        rows = self._deletions(parsed_args)
        return tuple(columns), [tuple(get(d) for get in columns.values()) for d in rows]

    def _deletions(self, parsed_args: argparse.Namespace) -> Iterator[dict[str, Any]]:
        identity = self.app.client_manager.sdk_connection.identity
        filters: dict[str, Any] = {
            "status": parsed_args.status,
            "mode": parsed_args.mode,
            "origin": parsed_args.origin,
            "parent_deletion_id": parsed_args.parent,
            "attention": True if parsed_args.attention else None,
            "sort": parsed_args.sort,
            "marker": parsed_args.marker,
        }
        if parsed_args.domain:
            filters["domain_id"] = common.find_domain(identity, parsed_args.domain)
        project = parsed_args.project
        if not project:
            return self.client.deletions(limit=parsed_args.limit, **filters)
        try:
            filters["project_id"] = common.find_project(identity, project, parsed_args.project_domain)
        except exceptions.CommandError as exc:
            # Most deletions that somebody looks up are of a project that is gone; only our record has its name.
            if not isinstance(exc.__cause__, sdk_exceptions.NotFoundException):
                raise
            if re.fullmatch(r"[0-9a-fA-F-]{32,36}", project):
                filters["project_id"] = project
            else:
                if parsed_args.project_domain:
                    filters["domain_id"] = common.find_domain(identity, parsed_args.project_domain)
                named = (d for d in self.client.deletions(**filters) if d.get("project_name") == project)
                return islice(named, parsed_args.limit)
        return self.client.deletions(limit=parsed_args.limit, **filters)


class ShowDeletion(DeletionCommand, common.ShowOne):
    """Show one deletion."""

    _description = "Show how a deletion stands: what blocks it and what would clear that, and what was found where."
    _epilog = """
    Examples:

      openstack project deletion show 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

      Only what blocks it, for a script:
        openstack project deletion show 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11 -f json -c blockers

    A table leaves out the types that were empty; '-f json' and '-f yaml' have all of them.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_deletion(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return the fields of the deletion, what a person needs first on top."""
        deletion = self.client.get_deletion(parsed_args.deletion)
        formats: dict[str, Any] = {
            "conditions": common.Conditions,
            "blockers": common.Blockers,
            "liens": common.Liens,
            "waivers": common.Waivers,
            "approvals": common.Approvals,
            "grants_removed": common.Grants,
            "forced": common.Forced,
            "progress": common.Progress,
            "counts": common.Counts,
        }
        first = "id project_name project_id domain_id mode dry_run status reason message conditions blockers forced"
        first += " liens waivers approvals point_of_no_return_at progress"
        names = [name for name in first.split() if name in deletion]
        # Whatever a newer server has besides is shown as well.
        names += [name for name in deletion if name not in names and name not in ("links", "counts")]
        names += ["counts"] if "counts" in deletion else []
        values = [deletion[n] if n not in formats or deletion[n] is None else formats[n](deletion[n]) for n in names]
        return tuple(names), values


class ListDeletionLeftover(DeletionCommand, common.Lister):
    """List what is still there of a project."""

    _description = (
        "List the resources of the project that are still there (after a dry run: those that would be deleted), why, "
        "and what to do about each."
    )
    _epilog = """
    Examples:

      openstack project deletion leftovers 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

      Only ports that something still uses, with what uses them:
        openstack project deletion leftovers --type port --reason in_use --long 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

    Types that could not be listed have no rows here; 'openstack project deletion show' names them.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_deletion(parser)
        parser.add_argument("--region", metavar="<region>", help="Only what is in this region")
        parser.add_argument("--service", metavar="<type>", help="Only resources of this service, such as 'network'")
        parser.add_argument("--type", metavar="<type>", help="Only resources of this type, such as 'port'")
        parser.add_argument(
            "--reason", metavar="<reason>", help=f"Only with this reason, such as {Reason.IN_USE} or {Reason.PROTECTED}"
        )
        parser.add_argument(
            "--abandoned", action="store_true", help="Only what was let go of by force ('project deletion force')"
        )
        parser.add_argument("--long", action="store_true", help="List the message and what keeps the resource as well")
        common.add_limit(parser, "leftovers")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row for each resource."""
        names = ["region", "service", "type", "id", "name", "reason", "remedy"]
        heads = ["Region", "Service", "Type", "ID", "Name", "Reason", "Remedy"]
        if parsed_args.long:
            names += ["message", "blocked_by", "abandoned", "owner"]
            heads += ["Message", "Blocked By", "Abandoned", "Owner"]
        filters = {name: getattr(parsed_args, name) for name in ("region", "service", "type", "reason")}
        if parsed_args.abandoned:  # else a server that does not know the word has nothing to refuse
            filters["abandoned"] = "true"
        rows = self.client.leftovers(parsed_args.deletion, limit=parsed_args.limit, **filters)
        return tuple(heads), [
            tuple(common.References(row.get(n) or []) if n == "blocked_by" else row.get(n) for n in names)
            for row in rows
        ]


class ListDeletionEvent(DeletionCommand, common.Lister):
    """List the journal of a deletion."""

    _description = "List what happened in a deletion, oldest first: who asked, what was found, deleted, kept, and when."
    _epilog = """
    Examples:

      openstack project deletion events 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

      Everything that was deleted, with its id:
        openstack project deletion events --type resource.deleted --long 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11 -f json

      Follow a deletion until it has ended:
        openstack project deletion events --follow 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

    --follow prints a line for each event ('-f json': an object), and ends with 0 if the deletion ended as deleted (a
    dry run: as planned), 130 after Ctrl-C, and 1 otherwise. The deletion goes on without it.
    """

    _code = 0

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_deletion(parser)
        parser.add_argument("--type", metavar="<type>", help="Only events of this type, such as 'resource.deleted'")
        parser.add_argument("--follow", action="store_true", help="Go on printing new events until the deletion ends")
        parser.add_argument("--long", action="store_true", help="List the request id and the data of each event")
        common.add_limit(parser, "events")
        parser.add_argument("--marker", metavar="<event>", help="List what comes after this event (ID)")
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        super().run(parsed_args)
        return self._code

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Write the table, or, with ``--follow``, each row as it comes."""
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
            self._code = 130
            sys.stderr.write("Stopped following; the deletion goes on by itself.\n")
        return 0

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row for each event, or all events as they come."""
        if parsed_args.follow:
            if parsed_args.formatter not in ("table", "json") or parsed_args.columns or parsed_args.limit:
                raise exceptions.CommandError("--follow goes with no other output than '-f json', and not with --limit")
            return (), self._follow(parsed_args)
        filters = {"type": parsed_args.type, "marker": parsed_args.marker}
        names = ["id", "at", "type", "message", "actor"]
        heads = ["ID", "At", "Type", "Message", "Actor"]
        if parsed_args.long:
            names += ["request_id", "data"]
            heads += ["Request ID", "Data"]
        rows = self.client.events(parsed_args.deletion, limit=parsed_args.limit, **filters)
        return tuple(heads), [
            tuple(common.Fields(row.get(n) or {}) if n == "data" else row.get(n) for n in names) for row in rows
        ]

    def _follow(self, parsed_args: argparse.Namespace) -> Iterator[dict[str, Any]]:
        marker, pause = parsed_args.marker, wait.POLL_FAST
        while True:
            # In this order: what was written before the end was seen is not missed.
            deletion = self.client.get_deletion(parsed_args.deletion)
            told = marker
            for event in self.client.events(parsed_args.deletion, type=parsed_args.type, marker=marker):
                marker = event["id"]
                yield event
            if wait.ended(deletion):
                self._code = 0 if wait.deleted(deletion) else 1
                return
            pause = wait.POLL_FAST if marker != told else min(pause * 1.5, wait.POLL_SLOW)
            time.sleep(pause)


class RetryDeletion(DeletionCommand, request.Requesting):
    """Try deletions again."""

    _description = (
        "Start a new attempt at deletions that ended with leftovers or failed, once what kept them is cleared. Mode "
        "and dry run stay as they were asked for."
    )
    _epilog = """
    Examples:

      openstack project deletion retry --wait 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

    With --wait the exit code is 0 only if every deletion ended as deleted (a dry run: as planned).
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_deletion(parser, many=True)
        request.add_wait_options(parser, "the deletion has ended")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Ask for each."""
        request.check_wait_options(parsed_args)
        return self.request_all(
            parsed_args.deletions, self.client.retry_deletion, "Cannot retry deletion", wait.deleted, parsed_args
        )


class ForceDeletion(request.Requesting):
    """Force the deletion of a project."""

    _description = (
        "Let the deletion of a project that is under way and cannot go on let go of what is left: stuck resources are "
        "deleted by force where their type can be, what remains then is abandoned and reported with its ID, and the "
        "project goes. For admins, and the last resort: what is abandoned stays behind, without a project."
    )
    _epilog = """
    Examples:

      Force it, and wait until the project is gone:
        openstack project deletion force --wait --reason "storage burnt down, ticket 4711" demo

      Use the force of volumes only, and leave all else that is stuck as it is:
        openstack project deletion force --type block-storage.volume --reason "ticket 4711" demo

    Before, 'openstack project deletion show' says what keeps it. Afterwards, 'openstack project deletion leftovers
    --abandoned --long' says what it left behind, with the remedy. A cancel withdraws it, until the project itself is
    being removed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("project", metavar="<project>", help="Project whose deletion to force (name or ID)")
        parser.add_argument("--project-domain", metavar="<domain>", help="Domain that the project is in (name or ID)")
        parser.add_argument(
            "--reason", metavar="<text>", required=True, help="Why: it is on every report of this deletion for good"
        )
        types = parser.add_mutually_exclusive_group()
        types.add_argument(
            "--type",
            metavar="<service.type>",
            action="append",
            help="Use the force of this resource type only, such as orchestration.stack (repeat it for several; "
            "default: of all types that have one)",
        )
        types.add_argument(
            "--no-type", action="store_true", help="Use no type's force: only let go of what cannot be deleted"
        )
        request.add_wait_options(parser, "the project is gone")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Ask for it."""
        request.check_wait_options(parsed_args)
        identity = self.app.client_manager.sdk_connection.identity

        def force(project: str) -> dict[str, Any]:
            project_id = common.find_project(identity, project, parsed_args.project_domain)
            types = [] if parsed_args.no_type else parsed_args.type
            return self.client.force_deletion(project_id, parsed_args.reason, types)

        return self.request_all(
            [parsed_args.project], force, "Cannot force the deletion of project", wait.deleted, parsed_args
        )


class CancelDeletion(DeletionCommand, request.Requesting):
    """Cancel deletions."""

    _description = (
        "Cancel deletions: nothing more is deleted, and what was changed to lock the project is undone. Resources "
        "that are deleted already stay deleted."
    )
    _epilog = """
    Examples:

      openstack project deletion cancel --wait 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

    With --wait the exit code is 0 only if every deletion ended as cancelled.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_deletion(parser, many=True)
        request.add_wait_options(parser, "the project is usable again")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Ask for each."""
        request.check_wait_options(parsed_args)
        return self.request_all(
            parsed_args.deletions, self.client.cancel_deletion, "Cannot cancel deletion", wait.cancelled, parsed_args
        )


class ApproveDeletion(DeletionCommand, request.Requesting):
    """Approve deletions that are beyond a limit."""

    _description = (
        "Approve deletions that another user asked for, and that wait because they are beyond an operator's limit: "
        "more resources in one deletion, or more deletions in a day, than go without a second person's word. For "
        "admins. A user who asked for a deletion, retried it or forced it cannot approve it."
    )
    _epilog = """
    Examples:

      openstack project deletion approve --reason "ticket 4711" 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

    It covers as many resources as were found by now ('openstack project deletion show' has the counts). If more are
    found later, it asks again.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_deletion(parser, many=True)
        parser.add_argument("--reason", metavar="<reason>", required=True, help="Why; it is in the journal")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Approve each."""
        parsed_args.wait = False

        def approve(deletion_id: str) -> dict[str, Any]:
            return self.client.approve_deletion(deletion_id, parsed_args.reason)

        return self.request_all(parsed_args.deletions, approve, "Cannot approve deletion", wait.deleted, parsed_args)


class RestoreDeletion(DeletionCommand, request.Requesting):
    """Give projects back before anything of them is deleted."""

    _description = (
        "Give projects back as they were: stop their deletions before the point of no return, and undo what was done "
        "to lock them. After that only 'openstack project deletion cancel' stops a deletion, and what is deleted stays "
        "deleted. The role assignments that come back with it are listed first, on the error output, and at a terminal "
        "you are asked: an admin may have meant to take one of them away meanwhile."
    )
    _epilog = """
    Examples:

      openstack project deletion restore --wait 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

    The same without being asked at a terminal:
        openstack project deletion restore --yes 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11

    Until when it can be restored is the point_of_no_return_at of 'openstack project deletion show'. With --wait the
    exit code is 0 only if every deletion ended as cancelled.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_deletion(parser, many=True)
        parser.add_argument("--yes", action="store_true", help="Do not ask, at a terminal either")
        request.add_wait_options(parser, "the project is usable again")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Ask for each."""
        request.check_wait_options(parsed_args)

        def restore(deletion_id: str) -> dict[str, Any]:
            if (lines := self._coming_back(deletion_id)) and not self._agreed(lines, parsed_args.yes):
                raise exceptions.CommandError("not restored")
            return self.client.restore_deletion(deletion_id)

        return self.request_all(parsed_args.deletions, restore, "Cannot restore deletion", wait.cancelled, parsed_args)

    def _coming_back(self, deletion_id: str) -> list[str]:
        """Return a line for each role assignment that comes back, those of the projects below included."""
        lines, waiting, seen = [], [deletion_id], set()
        name = functools.cache(self._name)
        while waiting:
            deletion = self.client.get_deletion(waiting.pop(0))
            seen.add(deletion["id"])
            project = one_line(deletion.get("project_name") or deletion.get("project_id") or "")
            for row in deletion.get("grants_removed") or ():
                who = f"{one_line(row['actor'])} {name(row['actor'], row['actor_id'])}"
                lines.append(f"  project {project}: {who}, role {name('role', row['role_id'])}")
            below = (child["deletion_id"] for child in deletion.get("children") or ())
            waiting += [each for each in below if each not in seen]
        return lines

    def _name(self, kind: str, id_: str) -> str:
        """Return the name and the id of a user, group or role; the id alone where Keystone does not tell."""
        identity = self.app.client_manager.sdk_connection.identity
        get = {"user": identity.get_user, "group": identity.get_group, "role": identity.get_role}.get(kind)
        try:
            return f"{one_line(get(id_).name)} ({one_line(id_)})" if get else one_line(id_)
        except sdk_exceptions.SDKException:
            return one_line(id_)

    @staticmethod
    def _agreed(lines: list[str], yes: bool) -> bool:
        """Say which role assignments come back; ask whether they shall, where somebody sits at a terminal."""
        noun = "role assignment comes" if len(lines) == 1 else "role assignments come"
        sys.stderr.write("\n".join([f"{len(lines)} {noun} back, as they were before the lock:", *lines, ""]))
        if yes or not sys.stdin.isatty():
            return True
        sys.stderr.write("Restore? [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")
