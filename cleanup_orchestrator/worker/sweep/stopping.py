"""Stops running resources for the recovery window; a restore starts them again."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.core.texts import enumerated
from cleanup_orchestrator.errors import BadAnswer, CleanupError, Stopped, WriteRefused, classify
from cleanup_orchestrator.plugins.base import Refused, Resource, Run, Verdict
from cleanup_orchestrator.worker.sweep import uses
from cleanup_orchestrator.worker.sweep.calls import act, list_resources, run_state, show
from cleanup_orchestrator.worker.sweep.context import SweepContext
from cleanup_orchestrator.worker.sweep.exclusions import Exclusions
from cleanup_orchestrator.worker.sweep.item import Item, State
from cleanup_orchestrator.worker.sweep.listing import Listing, unknown
from cleanup_orchestrator.worker.sweep.selecting import changed

#: Resources that are named in one message.
_NAMED = 10

#: Records a resource that is about to be stopped; raises when it must not be stopped.
Record = Callable[[Resource], None]


def halt(context: SweepContext, record: Record) -> StepResult:
    """Stop the running resources that a deletion would delete, then list again.

    The result is clear only if none of them still runs. A resource in transition may run again, and a resource whose
    stop was refused does run. These resources are no leftovers of the report; only the message names them.
    """
    type_ = context.type
    stopped: list[tuple[str, str]] = []
    try:
        exclusions = Exclusions.of(context)
        items = _running(context, exclusions, ())
        for item in items:
            try:
                if run_state(type_, item.resource.data) is Run.ON and _stop(context, exclusions, item.resource, record):
                    stopped.append((item.id, item.name))
            except (Stopped, WriteRefused):
                raise
            except Refused as error:
                item.leave(error.verdict)
            except Exception as error:
                failure = classify(error)
                if failure.status not in (404, 410):  # otherwise it is gone, or the second listing shows it
                    item.leave(Verdict(failure.reason, failure.message))
        running = _running(context, exclusions, items)
    except Exception as error:
        return dataclasses.replace(unknown(error), stopped=tuple(stopped))
    for item in running:
        if item.state is State.NEW:
            item.leave(Verdict(Reason.IN_USE, "it is in transition, and may run afterwards"))
    said = [f"{item.id} ({item.name}): {item.verdict.message}" for item in running]
    return StepResult(
        Outcome.UNKNOWN if running else Outcome.CLEAR,
        str(min(item.verdict.reason for item in running)) if running else "",
        f"not stopped yet: {enumerated(said, _NAMED, '; ')}" if running else "",
        found=len(items),
        stopped=tuple(stopped),
    )


def _running(context: SweepContext, exclusions: Exclusions, known: Iterable[Item]) -> list[Item]:
    """Return the items to delete that run or are in transition, without those that other projects use.

    :param known: those of the listing before
    :raises BadAnswer: the listing was truncated: whether the others run is not known
    """
    find_users = functools.partial(uses.foreseen, context)
    listing = Listing(context, exclusions, find_users, known={item.id: item for item in known})
    running = [
        item
        for item in listing.items()
        if item.state in (State.NEW, State.LEFT) and run_state(context.type, item.resource.data) in (Run.ON, Run.BUSY)
    ]
    if listing.truncated:
        raise BadAnswer(
            f"there are more than {context.most_listed} of {context.type.name}, and whether the others run is not known"
        )
    return running


def _stop(context: SweepContext, exclusions: Exclusions, resource: Resource, record: Record) -> bool:
    """Stop a resource listed as running; return whether the call was made.

    The call is made only if the resource still runs, still belongs to the project, and is still selected.
    """
    type_, connection, project = context.type, context.connection, context.project
    if type_.show is None:
        raise BadAnswer(f"a {type_.name} cannot be read again, so it is not stopped")
    current = show(type_, connection, project, resource)
    if current.id != resource.id or current.owner != project.id:
        return False
    if exclusions.protected(current) or changed(context, resource.data, current):
        return False
    if run_state(type_, current.data) is not Run.ON:
        return False
    record(current)
    assert type_.halt is not None
    act(type_.halt.stop, connection, project, current)
    return True


def start(context: SweepContext, id_: str) -> str:
    """Start a resource that :func:`halt` stopped, and return a sentence.

    Nothing is changed if it is no longer stopped.

    :raises CleanupError: it cannot be started now; the message names it
    """
    type_, connection, project = context.type, context.connection, context.project
    what, halt_ = f"{type_.name} {id_}", type_.halt
    if halt_ is None or type_.show is None:
        raise CleanupError(f"{what} was stopped, and its plugin no longer declares how to start it")
    try:
        try:
            current = show(type_, connection, project, Resource(id_, "", project.id))
        except Exception as error:
            if classify(error).status not in (404, 410):
                raise
            if any(one.id == id_ for one in list_resources(type_, connection, project)):  # the 404 was wrong
                raise
            return f"{what} is gone"
        if current.id != id_ or current.owner != project.id:
            owner = "another project" if current.owner else "no project"
            return f"{what} belongs to {owner} now: not started"
        what += f" ({current.name})"
        run = run_state(type_, current.data)
        if run is Run.BUSY:
            raise CleanupError("it is in transition")
        if run is not Run.OFF:
            return f"{what} is no longer stopped: not changed"
        act(halt_.start, connection, project, current)
    except Stopped:
        raise
    except Exception as error:
        raise CleanupError(f"{what} is stopped, and not started: {classify(error).message}") from error
    return f"started {what}"
