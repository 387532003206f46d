"""``openstack project delete --async``: extends the stock command."""

from __future__ import annotations

import argparse
from typing import Any

from cliff import command as cliff_command
from openstackclient.identity.v3 import project as stock

from cleanup_orchestrator.core.words import Mode
from cleanup_orchestrator.osc import common, confirm, lookup, project_file, request, usage, wait
from cleanup_orchestrator.sdk import ApiError, one_line


class DeleteProject(request.Requesting, stock.DeleteProject):
    """Delete projects; with ``--async`` through cleanup-orchestrator."""

    begins = True

    _description = (
        f"{stock.DeleteProject._description} "
        "With --async cleanup-orchestrator deletes the project: it removes the project only if no service has "
        "resources of it. With --cascade it deletes the resources first. Without --cascade it changes no resource, "
        "and reports the resources that exist."
    )
    _epilog = """
    Examples:

      Report the resources of a project; remove the project only if it has none:
        openstack project delete --async --wait demo

      Delete the resources, then the project, and wait:
        openstack project delete --async --cascade --wait demo

      List what would be deleted, without any change:
        openstack project delete --async --cascade --dry-run --wait demo

      Delete a project and all projects below it, lowest first:
        openstack project delete --async --cascade --include-subtree --wait demo

      Delete only the resources that a dry run found:
        openstack project delete --async --cascade --plan 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11 --wait demo

      Wait until the project is gone, or until something blocks the deletion that a person has to clear:
        openstack project delete --async --cascade --wait --stop-when-blocked demo

      Start the deletion of two projects and print the ids of the deletions:
        openstack project delete --async --cascade -f value -c "Deletion ID" demo test

      Delete at a date; until then everything goes on as before:
        openstack project delete --async --cascade --at 2027-01-31 --reason "contract ended" --ticket CHG-4711 demo

      Delete the projects of a file, such as the output of 'openstack project list -f csv':
        openstack project delete --async --cascade --from-file projects.csv --ticket CHG-4711

    The file of --from-file has one project in each line, or is CSV with titles: 'id' or 'project', and 'domain', 'at',
    'reason' and 'ticket', which take precedence over the options. The same request again returns the deletion under
    way, unless it has a date: to continue an interrupted --wait, repeat the command.

    At a terminal --cascade says what will be lost, and asks. --yes skips the question. Without a terminal there is
    none. With --wait the exit code is 0 only if all deletions ended as deleted (with --dry-run: planned), 3 after
    --stop-when-blocked, 4 if a dry run could not list everything, 130 after Ctrl-C, and 1 otherwise. Neither Ctrl-C
    nor --wait-timeout stops a deletion. 'openstack project deletion cancel' stops it.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the stock parser with the options added."""
        parser = super().get_parser(prog_name)
        for action in parser._actions:
            if action.dest == "projects":
                action.nargs = "*"  # with --from-file, none is named
        group = parser.add_argument_group(
            "asynchronous deletion", "these options, and the output options above, need --async"
        )
        group.add_argument(
            "--async",
            dest="asynchronous",
            action="store_true",
            help="Delete the project(s) through cleanup-orchestrator, in the background",
        )
        group.add_argument(
            "--cascade",
            action="store_true",
            help="Delete all resources of the project (default: only report them)",
        )
        group.add_argument(
            "--include-subtree",
            action="store_true",
            help="Also delete all projects below, each by a deletion of its own (default: refuse if there are any)",
        )
        group.add_argument(
            "--from-file",
            metavar="<file>",
            help="Delete the projects that this file lists ('-': the standard input), instead of naming them",
        )
        request.add_record_options(group)
        request.add_plan_options(group, "Delete only what this dry run (ID) of the same project found")
        request.add_wait_options(group, "the deletion has ended")
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the stock command unless ``--async`` was given."""
        if bool(parsed_args.projects) is (parsed_args.from_file is not None):
            text = "name the projects to delete, or list them in a file with --async and --from-file, and not both"
            return self.refuse(usage.UsageError(f"{text}; nothing was deleted"))
        if parsed_args.asynchronous:
            return super().run(parsed_args)
        # Without --async the stock delete would run at once. Refuse the options first.
        given = {
            "--cascade": parsed_args.cascade,
            "--dry-run": parsed_args.dry_run,
            "--include-subtree": parsed_args.include_subtree,
            "--from-file": parsed_args.from_file is not None,
            "--reason": parsed_args.reason,
            "--ticket": parsed_args.ticket,
            "--at": parsed_args.at,
            "--delay": parsed_args.delay,
            "--plan": parsed_args.plan,
            "--plan-hash": parsed_args.plan_hash,
            "--yes": parsed_args.yes,
            "--wait": parsed_args.wait,
            "--wait-timeout": parsed_args.wait_timeout is not None,
            "--stop-when-blocked": parsed_args.stop_when_blocked,
            "--format": parsed_args.formatter != self.formatter_default,
            "--column": parsed_args.columns,
        }
        options = ", ".join(option for option, value in given.items() if value)
        if options:
            return self.refuse(usage.UsageError(f"{options}: only with --async; nothing was deleted"))
        # The run of the lister is not called: the stock command has no output.
        code: int = cliff_command.Command.run(self, parsed_args)
        return code

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Request the deletion of each project."""
        if not parsed_args.asynchronous:
            # explicitly, because the lister comes before the stock class
            return stock.DeleteProject.take_action(self, parsed_args)
        request.check_wait_options(parsed_args)
        identity = self.app.client_manager.sdk_connection.identity
        mode = Mode.CASCADE if parsed_args.cascade else Mode.REPORT
        request.check_plan_options(parsed_args)
        plan, plan_hash = parsed_args.plan, parsed_args.plan_hash
        entries = self._entries(parsed_args)
        if plan and (mode is not Mode.CASCADE or len(entries) > 1 or parsed_args.include_subtree):
            text = "--plan needs --cascade, and exactly one project without --include-subtree; nothing was deleted"
            raise usage.UsageError(text)

        record = request.record(parsed_args)
        asks = mode is Mode.CASCADE and not parsed_args.dry_run and confirm.needed(parsed_args.yes)
        if asks and parsed_args.from_file is not None:
            confirm.ask(
                confirm.of_many([*entries], record), "Delete all of them?", "not confirmed, so nothing was deleted"
            )

        def ask(project: str) -> dict[str, Any]:
            entry = entries[project]
            project_id = common.find_project(identity, entry.project, entry.domain or parsed_args.domain)
            if asks and parsed_args.from_file is None:
                subtree = parsed_args.include_subtree
                lost = confirm.of_cascade(self.client, identity, project, project_id, plan, subtree)
                confirm.ask(lost, "Delete?", "not confirmed, so not deleted")
            try:
                return self.client.create_deletion(
                    project_id,
                    str(mode),
                    parsed_args.dry_run,
                    parsed_args.include_subtree,
                    plan,
                    plan_hash,
                    None,
                    **{**record, **dict(entry.record)},
                )
            except ApiError as exc:
                if children := exc.body.get("children"):
                    named = [lookup.label(identity, "project", str(id_)) for id_ in children[: confirm.NAMED]]
                    exc.body = {**exc.body, "children": [*named, *children[confirm.NAMED :]]}
                raise

        return self.request_all([*entries], ask, "Cannot delete project", wait.deleted, parsed_args)

    def _entries(self, parsed_args: argparse.Namespace) -> dict[str, project_file.Entry]:
        """Return the projects to delete, by what names each in messages."""
        if parsed_args.from_file is None:
            return {project: project_file.Entry(project) for project in parsed_args.projects}
        entries, ignored = project_file.read(parsed_args.from_file)
        if ignored:
            self.log.warning("columns of the file that are not used: %s", ", ".join(map(one_line, ignored)))
        named: dict[str, project_file.Entry] = {}
        for entry in entries:
            name = f"{entry.project} in domain {entry.domain}" if entry.domain else entry.project
            if named.setdefault(name, entry) != entry:
                text = f"the file names {one_line(name)} twice, with different values"
                raise usage.UsageError(f"{text}; nothing was deleted")
        return named
