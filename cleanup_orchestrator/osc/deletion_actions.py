"""``openstack project deletion``: retries, forces, cancels, approves and restores."""

from __future__ import annotations

import argparse
import functools
import sys
from typing import Any

from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from cleanup_orchestrator.osc import common, request, wait
from cleanup_orchestrator.osc.client import one_line
from cleanup_orchestrator.osc.common import Table
from cleanup_orchestrator.osc.deletion import DeletionCommand, add_deletion


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
