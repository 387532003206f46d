"""Says what a command destroys, and asks for confirmation at a terminal.

Without a terminal there is no question, as in other commands of ``openstack``: scripts go on as before.
"""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
import itertools
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from cleanup_orchestrator.core.words import DELETING_MODES, Mode, Outcome, Status
from cleanup_orchestrator.osc import common, lookup, overview, selection
from cleanup_orchestrator.osc.screen import Screen, command, plain, unbroken
from cleanup_orchestrator.sdk import Proxy, one_line

#: Names that a question has at most.
NAMED = 20


def needed(yes: bool) -> bool:
    """Return whether to ask: at a terminal, and without ``--yes``.

    :raises osc_lib.exceptions.CommandError: the user could not see the question
    """
    if yes or not sys.stdin.isatty():
        return False
    if not _is_seen():
        raise exceptions.CommandError(
            "the question of this command could not be seen, because the error output is no terminal: add --yes, or do "
            "not redirect it; nothing was changed"
        )
    return True


def _is_seen() -> bool:
    """Whether the error output, which has the question, is a terminal."""
    return sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask a question and return whether the answer is yes."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # Ctrl-D: the next line would follow the question
        sys.stderr.write("\n")
    return answer.strip().lower() in ("y", "yes")


def ask(lines: Sequence[str], question: str, refusal: str) -> None:
    """Print what will be lost, and ask. Without lines nothing is lost: return without a question.

    :raises osc_lib.exceptions.CommandError: the refusal, if the answer is no
    """
    if not lines:
        return
    Screen(sys.stderr).say(lines)
    if not agreed(question):
        raise exceptions.CommandError(refusal)


def of_cascade(
    client: Proxy, identity: Any, project: str, project_id: str, plan_id: str | None, subtree: bool
) -> list[str]:
    """Return what the cascade of a project destroys, as far as it is known.

    Empty: a cascade of the project is under way; the same request returns that deletion, and others are refused.

    :param project: the project as the user named it
    :param plan_id: the dry run that the cascade is bound to
    """
    under_way = client.deletions(project_id=project_id, status=lookup.LIVE, mode=str(Mode.CASCADE), dry_run="false")
    if next(under_way, None):
        return []
    what = "the resources that the plan names" if plan_id else "all its resources"
    lines = [f"Project {_label(project, project_id)} and {what} will be deleted. Deleted resources cannot be restored."]
    if subtree:
        below = _below(identity, project_id)
        lines.append(f"  Also all projects below it, with all their resources{': ' if below else ''}{below}")
    dry_run = command("openstack project delete --async --cascade --dry-run --wait {project}", project=project_id)
    plan = _plan(client, project_id, plan_id, Mode.CASCADE)
    if plan_id:
        return lines + _found(client, project_id, _of_plan(plan) if plan else None, plan_id, dry_run)
    found = _latest(client, project_id, plan, cascade=True)
    alone = ["  That is this project alone, without those below it."] if subtree and found else []
    return lines + _found(client, project_id, found, None, dry_run) + alone


def of_many(projects: Sequence[str], record: Mapping[str, str]) -> list[str]:
    """Return what the cascades of the projects of a file destroy.

    :param record: what the request says about itself; lines of the file can say something else
    """
    number = f"{len(projects)} project{'' if len(projects) == 1 else 's'}"
    lines = [f"{number} and all their resources will be deleted. Deleted resources cannot be restored."]
    words = {"not_before": "not before", "ticket": "ticket:", "request_reason": "reason:"}
    lines += [f"  {words[name]} {one_line(value)}" for name, value in record.items()]
    return [*lines, f"  {_list([one_line(each) for each in projects])}"]


def of_purge(
    client: Proxy, project: str, project_id: str, plan_id: str | None, selected: Mapping[str, Any]
) -> list[str]:
    """Return what the purge of a project destroys, as far as it is known.

    Empty: a purge of the project is under way; the same request returns that deletion, and others are refused.

    :param project: the project as the user named it
    :param plan_id: the dry run that the purge is bound to
    :param selected: the selection of the request; empty: everything, or what the plan has
    """
    under_way = client.deletions(project_id=project_id, status=lookup.LIVE, mode=str(Mode.PURGE), dry_run="false")
    if next(under_way, None):
        return []
    name, plan = _label(project, project_id), _plan(client, project_id, plan_id, Mode.PURGE)
    if plan_id:
        what = f"The resources of project {name} that the plan names"
    elif selected:
        what = f"Of project {name}, only this is selected: {selection.text(selected)}. These resources"
    else:
        what = f"Nothing is selected. So ALL resources of project {name}"
    lines = [f"{what} will be deleted. Deleted resources cannot be restored. The project stays."]
    if plan_id and plan and (words := selection.text(plan.get("selection"))):
        lines.append(f"  The plan selects: {words}")
    if not plan_id and plan and not selection.alike(plan.get("selection") or {}, selected):
        plan = None
    options = selection.options(selected)
    ending = command("--dry-run --wait {project}", project=project_id)
    dry_run = unbroken(f"openstack project purge {options}{' ' if options else ''}{plain(ending)}")
    if plan_id or selected:
        # A report does not say which of the resources a selection has.
        return lines + _found(client, project_id, _of_plan(plan) if plan else None, plan_id, dry_run)
    return lines + _found(client, project_id, _latest(client, project_id, plan, cascade=False), None, dry_run)


def _found(client: Proxy, project_id: str, found: Found | None, plan_id: str | None, dry_run: str) -> list[str]:
    """Return what a dry run or a report found in a project.

    :param found: ``None``: there is none
    :param plan_id: the dry run that the request is bound to
    :param dry_run: the command that makes a dry run
    """
    if found is None and plan_id:
        return [f"  The plan {one_line(plan_id)} could not be read, so what it has is not known."]
    if found is None:
        return ["  What it has is not known yet.", f"  List it first with: {dry_run}"]
    number, services = sum(found.numbers.values()), overview.services(found.numbers)
    counted = f"{number} resource{'' if number == 1 else 's'} in {services} service{'' if services == 1 else 's'}"
    what = found.summary or (counted if number else "nothing")
    at, ago = one_line(found.at), overview.ago(found.at, now(client))
    lines = [f"  As of {ago} ({found.kind} of {at}): {what}" if ago else f"  As of {at} ({found.kind}): {what}"]
    lines += [f"    {line}" for line in overview.lines(found.numbers)]
    if not found.complete:
        lines.append("  It could not list everything, so there can be more.")
    lines += _later(client, project_id, found)
    if not plan_id:
        lines.append("  The project can have changed since then: what exists now is deleted.")
    return lines


def _later(client: Proxy, project_id: str, found: Found) -> list[str]:
    """Return a line about a cascade or a purge that has worked on a project since something was found in it."""
    try:
        changed = list(client.deletions(project_id=project_id, changed_since=found.at, dry_run="false", limit=NAMED))
    except sdk_exceptions.SDKException:
        return []  # the request itself reports the error
    deleting = (
        row
        for row in changed
        if row.get("mode") in DELETING_MODES and not overview.is_before(row.get("updated_at"), found.at)
    )
    return [
        f"  OUT OF DATE: a {one_line(row.get('mode'))} of the project has been at work since then "
        f"({one_line(row.get('status'))}, {one_line(row.get('updated_at'))}). "
        f"See it with: {command(common.SHOW, id=row['id'])}"
        for row in itertools.islice(deleting, 1)
    ]


def now(client: Proxy) -> datetime.datetime | None:
    """Return the time by the clock of the server, which dates its records; ``None``: it does not tell."""
    try:
        moment = email.utils.parsedate_to_datetime(client.answered_at)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)


@dataclasses.dataclass(frozen=True)
class Found:
    """What a dry run or a report found in a project."""

    kind: str
    at: Any  #: when it ended
    numbers: Counter[str]  #: the resources to delete of each type
    complete: bool
    summary: str = ""  #: the same in one line, by the server


def _of_plan(plan: Mapping[str, Any]) -> Found:
    numbers = overview.numbers(plan.get("types") or (), "delete")
    summary = one_line(plan.get("summary") or "")
    return Found("dry run", plan.get("created_at"), numbers, bool(plan.get("complete", True)), summary)


def _latest(client: Proxy, project_id: str, plan: Mapping[str, Any] | None, cascade: bool) -> Found | None:
    """Return what the given plan of a project has, or what its latest report found, if the report is newer."""
    known = _of_plan(plan) if plan else None
    try:
        wanted = {"project_id": project_id, "status": str(Status.LEFTOVERS), "mode": str(Mode.REPORT)}
        report = next(client.deletions(limit=1, **wanted), None)
        if report is None or (known and overview.is_before(report.get("finished_at"), known.at)):
            return known
        deletion = client.get_deletion(report["id"])
    except sdk_exceptions.SDKException:
        return known  # the request itself reports the error
    counts = deletion.get("counts") or ()
    complete = all(row.get("outcome") != Outcome.UNKNOWN for row in counts)
    # The sentence of the server is about a cascade.
    summary = one_line(deletion.get("summary") or "") if cascade else ""
    return Found("report", deletion.get("finished_at"), overview.numbers(counts, "remaining"), complete, summary)


def of_force(client: Proxy, project: str, project_id: str, although_used: Iterable[str] = ()) -> list[str]:
    """Return what the force of a project's deletion gives up, or harms, as far as it is known."""
    if although_used:
        named = _list([one_line(each) for each in although_used])
        return [
            f"The deletion of project {_label(project, project_id)} will delete these resources although other "
            f"projects use them, and will harm those projects as the leftovers say: {named}"
        ]
    lines = [
        f"The deletion of project {_label(project, project_id)} will abandon what it cannot delete. Abandoned "
        "resources stay in the cloud without a project, and the project is deleted."
    ]
    live = next(client.deletions(project_id=project_id, status=lookup.LIVE, limit=1), None)
    if live is None:
        return lines  # the API refuses the force, and says why
    counts = client.get_deletion(live["id"]).get("counts") or ()
    remaining = [f"{row['remaining']} {common.type_name(row)}" for row in counts if row.get("remaining")]
    unknown = [common.type_name(row) for row in counts if row.get("outcome") == Outcome.UNKNOWN]
    if remaining:
        lines.append(f"  Not deleted yet: {_list(remaining)}")
    if unknown:
        lines.append(f"  Could not be listed, and will be abandoned unseen: {_list(unknown)}")
    return lines


def _label(project: str, project_id: str) -> str:
    return one_line(project) if project == project_id else f"{one_line(project)} ({one_line(project_id)})"


def _plan(client: Proxy, project_id: str, plan_id: str | None, mode: Mode) -> Mapping[str, Any] | None:
    """Return the plan that a request is bound to, or else that of the project's latest dry run in a mode."""
    try:
        if plan_id is None:
            wanted = {"project_id": project_id, "status": str(Status.PLANNED), "mode": str(mode)}
            if (latest := next(client.deletions(limit=1, **wanted), None)) is None:
                return None
            plan_id = str(latest["id"])
        return client.get_plan(plan_id)
    except sdk_exceptions.SDKException:
        return None  # the request itself reports the error


def _below(identity: Any, project_id: str) -> str:
    """Return the names of the projects below one, as far as the user may list them.

    Each project needs a call. With more names than the question has, the others are not looked up.
    """
    names, waiting, more = dict[str, str](), [project_id], ""
    try:
        while waiting and len(names) <= NAMED:
            children = [child for child in identity.projects(parent_id=waiting.pop(0)) if child.id not in names]
            names |= {child.id: one_line(child.name) for child in children}
            waiting += [child.id for child in children]
    except sdk_exceptions.SDKException:
        more = " and possibly more"
    if len(names) > NAMED:
        more = " and more"
    return f"{', '.join(sorted([*names.values()][:NAMED]))}{more}" if names else ""


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
