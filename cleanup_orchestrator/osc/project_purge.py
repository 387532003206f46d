"""``openstack project purge``: deletes resources of projects, and keeps the projects."""

from __future__ import annotations

import argparse
from typing import Any

from cleanup_orchestrator.core.words import Mode
from cleanup_orchestrator.osc import common, confirm, request, selection, usage, wait, words


class PurgeProject(request.Requesting):
    """Delete the resources of projects, and keep the projects."""

    begins = True

    _description = (
        "Delete the resources of projects through cleanup-orchestrator, and keep the projects: all resources, or only "
        "those that the options select. A project is locked until its resources are proven gone. Then it is given back "
        "to its users. Projects below it, quotas and other settings of the project stay as they are."
    )
    _epilog = """
    Examples:

      List what would be deleted, without any change:
        openstack project purge --dry-run --wait demo

      Delete all resources of a project, and wait:
        openstack project purge --wait demo

      Delete only servers and volumes that are older than 30 days:
        openstack project purge --type compute.server --service cinder --older-than 30d --wait demo

      Delete everything with both tags:
        openstack project purge --tag test --tag temporary --wait demo

      Delete what was not changed for 90 days, but no images, nothing named prod-..., and nothing with the tag keep:
        openstack project purge --not-updated-for 90d --skip image --not-name 'prod-*' --not-tag keep --wait demo

      Delete only the resources that a dry run found; the plan has the selection:
        openstack project purge --plan 0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11 --wait demo

    A resource must meet each criterion. One whose service does not show its tags, its name or its times is not selected
    by them, and stays. So does what contains a resource that is skipped or excluded, and what unselected resources may
    need. At a terminal the command says what will be lost, and asks.
    --yes skips the question. Without a terminal there is none. With --wait the exit code is 0 only if all deletions
    ended as purged (with --dry-run: planned), 3 after --stop-when-blocked, 4 if a dry run could not list everything,
    130 after Ctrl-C, and 1 otherwise. Neither Ctrl-C nor --wait-timeout stops a deletion. 'openstack project deletion
    cancel' stops it.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("projects", metavar="<project>", nargs="+", help="Project(s) to purge (name or ID)")
        parser.add_argument("--domain", metavar="<domain>", help="Domain that the projects are in (name or ID)")
        selection.add_options(parser.add_argument_group("selection", "without these options, everything is selected"))
        request.add_record_options(parser)
        request.add_plan_options(
            parser, "Delete only what this dry run (ID) of the same project found, with its selection"
        )
        parser.add_argument(
            "--async",
            action="store_true",
            dest="asynchronous",
            help="Accepted without effect: the command always works through cleanup-orchestrator, in the background",
        )
        parser.add_argument(
            "--keep-project", action="store_true", help="Accepted without effect: the command always keeps the project"
        )
        request.add_wait_options(parser, "the deletion has ended")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> common.Table:
        """Request the deletion of what is selected in each project."""
        request.check_wait_options(parsed_args)
        identity = self.app.client_manager.sdk_connection.identity
        wanted, plan, plan_hash = selection.read(parsed_args), parsed_args.plan, parsed_args.plan_hash
        _check(parsed_args, bool(wanted))
        record = request.record(parsed_args)

        def ask(project: str) -> dict[str, Any]:
            project_id = common.find_project(identity, project, parsed_args.domain)
            if not parsed_args.dry_run and confirm.needed(parsed_args.yes):
                lost = confirm.of_purge(self.client, project, project_id, plan, wanted)
                confirm.ask(lost, "Delete?", "not confirmed, so not deleted")
            return self.client.create_deletion(
                project_id, str(Mode.PURGE), parsed_args.dry_run, False, plan, plan_hash, wanted, **record
            )

        return self.request_all(parsed_args.projects, ask, "Cannot purge project", wait.deleted, parsed_args)


def _check(parsed_args: argparse.Namespace, selected: bool) -> None:
    """Refuse options that do not go together.

    :param selected: whether an option selects resources
    """
    request.check_plan_options(parsed_args)
    if not parsed_args.plan:
        return
    if selected:
        text = f"{words.SELECTING_NAMES}: not with --plan, which has its own selection"
        raise usage.UsageError(f"{text}; nothing was deleted")
    if parsed_args.dry_run or len(parsed_args.projects) > 1:
        raise usage.UsageError("--plan needs exactly one project, and no --dry-run; nothing was deleted")
