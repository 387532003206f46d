"""The lines about a deletion that has ended: its result, what is left, and the next command."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import prettytable

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.words import DELETING_MODES, Mode, Origin, Outcome, Status
from cleanup_orchestrator.osc import common, overview, tables
from cleanup_orchestrator.osc.screen import command, unbroken
from cleanup_orchestrator.sdk import one_line

#: Maximum length of a message whose details are in a table below it.
MESSAGE_WIDTH = 100
#: Indentation of the lines below the first one.
_INDENT = "    "


def is_incomplete(deletion: Mapping[str, Any]) -> bool:
    """Return whether a dry run ended without a list of everything."""
    return deletion.get("status") == Status.PLANNED and bool(common.condition(deletion, "plan_complete", False))


def lines(deletion: Mapping[str, Any], good: bool, elapsed: str, before: int = 0, room: int = 0) -> list[str]:
    """Return the lines about the end of a deletion.

    :param good: whether it ended as requested
    :param elapsed: how long the wait took
    :param before: number of resources that were found before the first delete; 0: not known
    :param room: columns of the terminal; 0: the table may have any width
    """
    status, known = deletion.get("status"), {"id": one_line(deletion["id"])}
    planned = status == Status.PLANNED and deletion.get("mode") in DELETING_MODES
    told = [f"{common.label(deletion)}: {one_line(status)} after {elapsed}; {_numbers(deletion)}"]
    table = []
    if status in (Status.LEFTOVERS, Status.PLANNED, Status.PURGED):
        table = left_table(deletion, planned, room)
    if planned and deletion.get("summary"):
        told.append(f"{_INDENT}{one_line(deletion['summary'])}")
        told += [f"{_INDENT}{line}" for line in overview.lines(_present(deletion))]
    elif message := one_line(deletion.get("message") or deletion.get("reason") or ""):
        # The table has the details of a long message.
        text = textwrap.shorten(message, MESSAGE_WIDTH, placeholder=" …", break_on_hyphens=False) if table else message
        told.append(f"{_INDENT}{text}")
    told += [f"{_INDENT}{line}" for line in _explained(deletion, before)]
    told += table
    if incomplete := common.condition(deletion, "plan_complete", False):
        told.append(f"{_INDENT}INCOMPLETE: {one_line(incomplete.get('message') or '')}")
    if status in (Status.LEFTOVERS, Status.FAILED):
        told += [f"  {line}" for line in common.blocker_lines(deletion.get("blockers") or ())]
    if status in (Status.LEFTOVERS, Status.PLANNED) or (status == Status.PURGED and table):
        told.append(f"{_INDENT}List all resources with: {command(common.LEFTOVERS, **known)}")
        if planned:
            told.append(f"{_INDENT}See the plan with: {command(common.PLAN, **known)}")
    elif not good:
        told.append(f"{_INDENT}See more with: {command(common.SHOW, **known)}")
    return [*told, *(f"{_INDENT}{line}" for line in _next_steps(deletion, good))]


def _numbers(deletion: Mapping[str, Any]) -> str:
    text = common.progress_text({**(deletion.get("progress") or {}), "steps": 0})
    unselected = sum(row.get("unselected") or 0 for row in deletion.get("counts") or ())
    return f"{text}, not selected {unselected}" if unselected else text


def _present(deletion: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of resources of each type that a cascade would delete, as far as the counts tell."""
    rows = deletion.get("counts") or ()
    return overview.numbers([row for row in rows if row.get("reason") in (None, "", Reason.PRESENT)], "remaining")


def _explained(deletion: Mapping[str, Any], before: int) -> list[str]:
    """Return what the numbers mean that seem to contradict others."""
    progress, told = deletion.get("progress") or {}, []
    if kept := progress.get("kept"):
        told.append(
            f"kept {kept}: what a service made or owns, and what is deleted together with another resource. These "
            "are not deleted one by one."
        )
    found = progress.get("found") or 0
    if before and found > before and deletion.get("status") in (Status.DELETED, Status.LEFTOVERS, Status.PURGED):
        told.append(
            f"found {found}: {found - before} more than when the deletes began. Project settings, such as quotas, "
            "count only when they are deleted, and resources can appear during the deletion."
        )
    return told


def _next_steps(deletion: Mapping[str, Any], good: bool) -> list[str]:
    """Return what the user can do next, each with its command."""
    status, mode = deletion.get("status"), deletion.get("mode")
    project = one_line(deletion.get("project_id") or "")
    adopt = command("openstack project orphan adopt --wait {project}", project=project)
    if deletion.get("origin") == Origin.ADOPTED and status == Status.PLANNED and good:
        return [f"Delete what can be listed then with: {adopt}"]
    if status == Status.PLANNED and good and not is_incomplete(deletion):
        by_mode = {
            Mode.CASCADE: ("Delete these and the project with", "openstack project delete --async --cascade"),
            Mode.PURGE: ("Delete these and keep the project with", "openstack project purge"),
        }
        if deletion.get("include_subtree"):  # a plan covers one project
            return [f"Delete these, the projects below, and the project with: {_cascade(deletion)}"]
        bound = {"id": one_line(deletion["id"]), "project": project}
        return [
            f"{text}: {command(f'{call} --wait --plan {{id}} {{project}}', **bound)}"
            for known, (text, call) in by_mode.items()
            if known == mode
        ]
    told = []
    if status == Status.LEFTOVERS and deletion.get("origin") == Origin.NOTICED:
        # Keystone does not know the project, so that no cascade can be requested.
        told.append(f"Delete them, if an orphan scan finds them, with: {adopt}")
    elif status == Status.LEFTOVERS and mode == Mode.REPORT and not deletion.get("dry_run"):
        told += [f"With --cascade: {one_line(deletion['summary'])}"] if deletion.get("summary") else []
        below = ", the projects below," if deletion.get("include_subtree") else ""
        told.append(f"Delete them{below} and the project with: {_cascade(deletion)}")
    if not good and deletion.get("retryable"):
        retry = command(common.RETRY, id=one_line(deletion["id"]))
        if deletion.get("blockers"):
            told.append(f"Clear the blockers, then retry with: {retry}")
        elif told:
            told.append(f"Or delete them yourself, then retry with: {retry}")
        else:
            told.append(f"When that is cleared, retry with: {retry}")
    return told


def _cascade(deletion: Mapping[str, Any]) -> str:
    """Return the command that requests a cascade of the project of a deletion, and of the same projects below."""
    below = " --include-subtree" if deletion.get("include_subtree") else ""
    call = f"openstack project delete --async --cascade{below} --wait {{project}}"
    return command(call, project=one_line(deletion.get("project_id") or ""))


def left_table(deletion: Mapping[str, Any], planned: bool, room: int = 0) -> list[str]:
    """Return a table of the resources left of each type.

    :param planned: whether the deletion is a dry run of a mode that deletes those that are merely present
    :param room: columns of the terminal; 0: any width
    """
    rows, selected = [], True
    for row in deletion.get("counts") or ():
        unknown = row.get("outcome") == Outcome.UNKNOWN
        remaining = row.get("remaining") or 0
        if not unknown and not remaining:
            continue
        kept = planned and row.get("reason") not in (None, "", Reason.PRESENT)
        why = one_line(row.get("message") or row.get("reason") or "not listed") if unknown or kept else ""
        if unselected := row.get("unselected") or 0:
            selected = False
            other = "" if row.get("reason") == Reason.NOT_SELECTED else why
            why = f"{unselected} not selected" + (f"; {other}" if other else "")
        # An unknown number is not shown as 0.
        names = [one_line(row.get(key) or "") for key in ("region", "service", "type")]
        rows.append([*names, "?" if unknown and not remaining else remaining, why])
    if not rows:
        return []
    head = ["Region", "Service", "Type", "Found" if planned else "Left"]
    head.append("Not known because" if selected and not planned else "Not known, or not all deleted, because")
    wide = len(head) if any(row[-1] for row in rows) else len(head) - 1
    head, rows = head[:wide], [row[:wide] for row in sorted(rows, key=lambda r: r[:3])]
    if room:
        head[4:] = ["Why"] * len(head[4:])
        rows = tables.shortened(head, rows, room - 2)
    table = prettytable.PrettyTable(head)
    table.align = "l"
    table.align[head[3]] = "r"
    for row in rows:
        table.add_row(row)
    return [unbroken(f"  {line}") for line in table.get_string().splitlines()]
