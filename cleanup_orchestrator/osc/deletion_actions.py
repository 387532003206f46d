"""``openstack project deletion``: changes, retries, forces, cancels, approves and restores."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from osc_lib import exceptions

from cleanup_orchestrator.osc import arguments, common, confirm, deletion_filters, lookup, many, request, usage, wait
from cleanup_orchestrator.osc.common import Table
from cleanup_orchestrator.osc.deletion import DeletionCommand, add_deletion
from cleanup_orchestrator.osc.screen import Screen
from cleanup_orchestrator.sdk import one_line


class ActOnDeletions(DeletionCommand, request.Requesting):
    """Base of the commands that change each of the deletions that they take."""

    wanted = lookup.TO_CHANGE
    verb: ClassVar[str]
    until: ClassVar[str] = ""  #: what --wait waits for; empty: there is no wait
    takes_below: ClassVar[bool] = False  #: whether the change of a deletion is also one of those below it

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        add_deletion(parser, many=True)
        many.add_options(parser)
        if self.until:
            request.add_wait_options(parser, self.until)
        else:
            parser.set_defaults(wait=False, wait_timeout=None, stop_when_blocked=False)
        return parser

    def act(
        self,
        parsed_args: argparse.Namespace,
        call: Callable[[str], dict[str, Any]],
        wanted: Callable[[Mapping[str, Any]], bool] = wait.deleted,
    ) -> Table:
        """Request the change of each deletion.

        :param call: takes the id of a deletion
        :param wanted: whether a deletion ended as requested
        """
        request.check_wait_options(parsed_args)

        def request_one(text: str) -> dict[str, Any]:
            return self.on_deletion(parsed_args, text, call)

        chosen = self._matching(parsed_args) if many.check(parsed_args) else parsed_args.deletions
        return self.request_all(chosen, request_one, f"Cannot {self.verb} deletion", wanted, parsed_args)

    def fits(self, deletion: Mapping[str, Any]) -> bool:
        """Whether the change is possible now. The API decides."""
        return not deletion.get("finished_at")

    def _matching(self, parsed_args: argparse.Namespace) -> list[str]:
        """Return the ids of the deletions that the options select, after a preview and a question."""
        identity = self.app.client_manager.sdk_connection.identity
        rows = list(deletion_filters.deletions(self.client, identity, parsed_args, dry_run="false"))
        covered = {str(row["id"]) for row in rows if self.takes_below and self.fits(row)}
        alone = [row for row in rows if row.get("parent_deletion_id") not in covered]
        return many.choose(alone, self.fits, self.verb, parsed_args)


class RetryDeletion(ActOnDeletions):
    """Retry deletions."""

    verb = "retry"
    patience = wait.RETRY_PATIENCE
    until = "the deletion has ended"

    _description = (
        "Start a new attempt of deletions that ended with leftovers or failed. Clear the blockers first. Mode and dry "
        "run stay as requested. Deletions under way try again at once what waits for its next try."
    )
    _epilog = """
    Examples:

      A blocker was cleared: go on now, and wait for the end:
        openstack project deletion retry --wait demo

    With --wait the exit code is 0 only if all deletions ended as deleted (a purge: as purged, a dry run: as
    planned).
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Retry each deletion."""
        return self.act(parsed_args, self.client.retry_deletion)

    def fits(self, deletion: Mapping[str, Any]) -> bool:
        """Whether the deletion can be retried now."""
        return bool(deletion.get("retryable"))


class SetDeletion(ActOnDeletions):
    """Change the date, the reason or the ticket of deletions."""

    verb = "change"
    takes_below = True

    _description = (
        "Change the date, the reason or the ticket of deletions under way, and of those below them. The date can be "
        "changed until a deletion begins."
    )
    _epilog = """
    Examples:

      Two more weeks:
        openstack project deletion set --delay 14d demo

      Not before a date:
        openstack project deletion set --at 2027-01-31 demo

      Begin now, instead of at the date:
        openstack project deletion set --now demo

      Move the date of all deletions of a ticket; the command says which, and asks:
        openstack project deletion set --ticket CHG-4711 --at 2027-02-28
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        request.add_date(parser).add_argument("--now", action="store_true", help="Begin now")
        parser.add_argument("--reason", metavar="<text>", type=arguments.given, help="New reason of the request")
        parser.add_argument("--new-ticket", metavar="<ticket>", type=arguments.given, help="New ticket")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Change each deletion."""
        new = {"request_reason": parsed_args.reason, "ticket": parsed_args.new_ticket}
        changes = {name: value for name, value in new.items() if value}
        if parsed_args.now or (at := request.date(parsed_args)):
            changes["not_before"] = None if parsed_args.now else at
        if not changes:
            raise usage.UsageError("nothing to change: give --at, --delay, --now, --reason or --new-ticket")
        return self.act(parsed_args, lambda id_: self.client.set_deletion(id_, **changes))


class ForceDeletion(request.Requesting):
    """Force the deletion of a project."""

    _description = (
        "Let the stuck deletion of a project abandon what it cannot delete. Stuck resources are deleted by force if "
        "their type allows it. The others are abandoned and reported with their IDs. Then the project is deleted. "
        "Only for admins, as a last resort: abandoned resources stay in the cloud, without a project."
    )
    _epilog = """
    Examples:

      Force the deletion, and wait until the project is gone:
        openstack project deletion force --wait --reason "storage lost, ticket 4711" demo

      Delete only volumes by force, and abandon all other stuck resources:
        openstack project deletion force --type block-storage.volume --reason "ticket 4711" demo

      Delete a port although a floating IP of another project uses it, and abandon nothing:
        openstack project deletion force --although-used network.port:PORT --reason "ticket 4711" demo

    At a terminal the command says what will be abandoned, and asks. --yes skips the question. Without a terminal
    there is none. First read the blockers with 'openstack project deletion show'. Afterwards 'openstack project
    deletion leftovers --abandoned --long' lists the abandoned resources with their remedies. A cancel withdraws the
    force, until the project itself is being removed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("project", metavar="<project>", help="Project whose deletion to force (name or ID)")
        common.add_project_domain(parser)
        parser.add_argument(
            "--reason", metavar="<text>", required=True, help="Reason (shown by every report of this deletion)"
        )
        types = parser.add_mutually_exclusive_group()
        types.add_argument(
            "--type",
            metavar="<service.type>",
            action="append",
            help="Delete only this resource type by force, such as orchestration.stack (can be repeated; default: all "
            "types that can be forced)",
        )
        types.add_argument(
            "--no-type", action="store_true", help="Delete no type by force: only abandon what cannot be deleted"
        )
        types.add_argument(
            "--although-used",
            metavar="<service.type:id>",
            action="append",
            help="Abandon nothing, and delete this resource of the project although other projects use it, which the "
            "delete harms (can be repeated). The leftovers name these uses. Any other use keeps the resource",
        )
        parser.add_argument("--yes", action="store_true", help="Do not ask for confirmation at a terminal")
        request.add_wait_options(parser, "the project is gone")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Request the force."""
        request.check_wait_options(parsed_args)
        identity = self.app.client_manager.sdk_connection.identity

        def force(project: str) -> dict[str, Any]:
            project_id = common.find_project(identity, project, parsed_args.project_domain)
            if confirm.needed(parsed_args.yes):
                lost = confirm.of_force(self.client, project, project_id, parsed_args.although_used or ())
                confirm.ask(lost, "Force?", "not confirmed, so not forced")
            types = [] if parsed_args.no_type else parsed_args.type
            used = parsed_args.although_used or ()
            return self.client.force_deletion(project_id, parsed_args.reason, types, used)

        return self.request_all(
            [parsed_args.project], force, "Cannot force the deletion of project", wait.deleted, parsed_args
        )


class CancelDeletion(ActOnDeletions):
    """Cancel deletions."""

    verb = "cancel"
    takes_below = True
    until = "the project is usable again"

    _description = (
        "Cancel deletions: stop deleting resources, and undo the lock of the project. Resources that are already "
        "deleted stay deleted."
    )
    _epilog = """
    Examples:

      openstack project deletion cancel --wait demo

      All deletions that were requested with a ticket; the command says which, and asks:
        openstack project deletion cancel --ticket CHG-4711

    With --wait the exit code is 0 only if all deletions ended as cancelled.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Cancel each deletion."""
        return self.act(parsed_args, self.client.cancel_deletion, wait.cancelled)

    def fits(self, deletion: Mapping[str, Any]) -> bool:
        """Whether the deletion can be cancelled now."""
        return bool(deletion.get("cancellable"))


class ApproveDeletion(ActOnDeletions):
    """Approve deletions that exceed a limit."""

    verb = "approve"

    _description = (
        "Approve deletions of another user that wait because they exceed a limit of the operator: too many resources "
        "in one deletion, or too many deletions in a day. Only for admins. A user who requested, retried or forced a "
        "deletion cannot approve it."
    )
    _epilog = """
    Examples:

      openstack project deletion approve --reason "ticket 4711" demo

    The approval covers the number of resources found so far ('openstack project deletion show' has the counts). If
    more are found later, the deletion needs another approval.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--reason", metavar="<reason>", required=True, help="Reason (stored in the journal)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Approve each deletion."""

        def approve(deletion_id: str) -> dict[str, Any]:
            return self.client.approve_deletion(deletion_id, parsed_args.reason)

        return self.act(parsed_args, approve)

    def fits(self, deletion: Mapping[str, Any]) -> bool:
        """Whether the deletion waits for an approval."""
        return common.is_true(deletion, "approval")


class RestoreDeletion(ActOnDeletions):
    """Restore projects before anything of them is deleted."""

    verb = "restore"
    takes_below = True
    until = "the project is usable again"

    _description = (
        "Restore projects: stop their deletions before the point of no return, and undo their locks. After that point "
        "only 'openstack project deletion cancel' stops a deletion, and deleted resources stay deleted. The command "
        "first lists the role assignments that it restores, on the error output. At a terminal it asks for "
        "confirmation: an admin may have wanted to remove one of them meanwhile."
    )
    _epilog = """
    Examples:

      openstack project deletion restore --wait demo

      Without confirmation at a terminal:
        openstack project deletion restore --yes demo

    A project can be restored until point_of_no_return_at of 'openstack project deletion show'. With --wait the exit
    code is 0 only if all deletions ended as cancelled.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Restore each project."""

        def restore(deletion_id: str) -> dict[str, Any]:
            if (lines := self._restored_grants(deletion_id)) and not self._confirmed(lines, parsed_args.yes):
                raise exceptions.CommandError("not confirmed, so not restored")
            return self.client.restore_deletion(deletion_id)

        return self.act(parsed_args, restore, wait.cancelled)

    def fits(self, deletion: Mapping[str, Any]) -> bool:
        """Whether the project can be restored now."""
        return bool(deletion.get("restorable"))

    def _restored_grants(self, deletion_id: str) -> list[str]:
        """Return a line for each role assignment that a restore gives back.

        The role assignments of the projects below are included.
        """
        lines, waiting, seen = [], [deletion_id], set()
        identity = self.app.client_manager.sdk_connection.identity
        name = functools.cache(functools.partial(lookup.label, identity))
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

    @staticmethod
    def _confirmed(lines: list[str], yes: bool) -> bool:
        """Print the role assignments to restore; ask for confirmation at a terminal."""
        noun = "role assignment" if len(lines) == 1 else "role assignments"
        Screen(sys.stderr).say([f"Restoring gives back {len(lines)} {noun}:", *lines])
        return not confirm.needed(yes) or confirm.agreed("Restore?")
