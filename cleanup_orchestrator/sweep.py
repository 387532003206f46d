"""One attempt at a step: list → owner → delete → list again. A shell around a declared ``ResourceType``.

It trusts nothing: each listed object must carry the project's id, is read again right before its delete where its
service can show it, and counts as gone only when the second listing no longer has it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from openstack.connection import Connection

from cleanup_orchestrator.errors import CleanupError, Failure, Stopped, WriteRefused, classify
from cleanup_orchestrator.model import Leftover, Outcome, Reason, Sweep
from cleanup_orchestrator.plugins.base import (
    Action,
    ProjectDefinition,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Sdk,
    Verdict,
    to_row,
)

#: Told the ids that are about to be deleted, before the first call: the intent goes into the journal.
Intend = Callable[[Sequence[Resource]], None]


#: Resources that one sweep deletes at most. So many are in memory as they were listed; of all others, id and name.
MOST = 5000

#: Resources between two journal lines of what is about to be deleted.
_CHUNK = 100

#: What a leftover's reason says least with: it is there.
_MERELY_THERE = frozenset({Reason.PRESENT, Reason.QUEUED})


@dataclasses.dataclass(slots=True)
class _Listing:
    """What a listing found, sorted by what may be done with it."""

    ours: int = 0  #: may be deleted
    left: list[Leftover] = dataclasses.field(default_factory=list)  #: must not be deleted
    kept: int = 0
    others: int = 0  #: another project's: the service ignored the owner filter, or there is none


@dataclasses.dataclass(slots=True)
class _Attempt:
    """What became of the deletes."""

    tried: set[str] = dataclasses.field(default_factory=set)  #: ids
    refused: dict[str, Verdict] = dataclasses.field(default_factory=dict)  #: by id
    slow_down: Verdict | None = None  #: there was no turn for a call in time: no more of them now


def look(
    type_: ResourceType, connection: Connection, project: ProjectDefinition, reason: Reason = Reason.PRESENT
) -> Sweep:
    """List what the project owns and touch nothing."""
    present: list[Leftover] = []

    def note(resource: Resource) -> None:
        present.append(Leftover(resource.id, resource.name, reason, _described(type_, resource, project)))

    try:
        listing = _list(type_, connection, project, note)
    except Exception as error:  # every failed listing is "unknown", whatever went wrong in it
        return _unknown(error)
    return _result(listing, [*listing.left, *present])


def delete(
    type_: ResourceType,
    connection: Connection,
    project: ProjectDefinition,
    intend: Intend = lambda _: None,
    parallel: int = 4,
    seconds: float = math.inf,
    attempt: int = 1,
) -> Sweep:
    """Delete what the project owns, then list again; the second listing is the truth.

    Where there is much, it does a part of it. As long as that made something go, its reason is ``queued``: the rest is
    for the next sweep, which may follow as soon as others had their turn.

    :param parallel: delete calls at once
    :param seconds: after which no further delete is begun, counted from the end of the first listing
    :param attempt: a later one takes them in another order: what refuses must not stand before the rest for ever
    """
    names: dict[str, str] = {}
    batch: list[Resource] = []
    chance = random.Random(attempt)  # noqa: S311

    def collect(resource: Resource) -> None:
        names[resource.id] = resource.name
        if len(batch) < MOST:
            batch.append(resource)
        elif attempt > 1 and (place := chance.randrange(len(names))) < MOST:  # each is as likely to be among them
            batch[place] = resource

    try:
        first = _list(type_, connection, project, collect)
    except Exception as error:
        return _unknown(error)
    if not names or type_.delete is None:
        left = [
            *first.left,
            *(Leftover(i, n, Reason.REFUSED, "it cannot be deleted by API") for i, n in names.items()),
        ]
        return _result(first, left)
    if attempt > 1:
        chance.shuffle(batch)
    attempted = _Attempt()
    if type_.dragged_by:
        attempted.tried.update(names)
    else:
        try:
            _delete_all(type_, connection, project, batch, intend, parallel, time.monotonic() + seconds, attempted)
        except (Stopped, WriteRefused) as error:
            return _unknown(error)
    cut = len(attempted.tried) < len(names)
    batch.clear()
    accepted = Verdict(
        Reason.IN_USE if type_.dragged_by else Reason.DELETING,
        f"goes with its {' or '.join(type_.dragged_by)}" if type_.dragged_by else "the delete was accepted",
    )
    untried = Verdict(Reason.QUEUED, "its turn comes") if cut else Verdict(Reason.PRESENT, "it came meanwhile")
    there: list[Leftover] = []

    def still_there(resource: Resource) -> None:
        verdict = attempted.refused.get(resource.id) or (accepted if resource.id in attempted.tried else untried)
        there.append(Leftover(resource.id, resource.name, verdict.reason, verdict.message, verdict.blocked_by))

    try:
        second = _list(type_, connection, project, still_there)
    except Exception as error:
        return _unknown(error, found=len(names) + len(first.left))
    left = [*second.left, *there]
    remaining = {leftover.id for leftover in left}
    gone = tuple((i, n) for i, n in names.items() if i not in remaining)
    result = dataclasses.replace(_result(first, left), deleted=gone, kept=second.kept)
    if attempted.slow_down is not None and left:
        return dataclasses.replace(result, reason=str(Reason.RATE_LIMITED), message=attempted.slow_down.message)
    if cut and gone and left:
        message = f"{len(gone)} gone, {len(left)} to go: others had their turn"
        return dataclasses.replace(result, reason=str(Reason.QUEUED), message=message)
    return result


def _result(listing: _Listing, left: Sequence[Leftover]) -> Sweep:
    # What is merely there says less than any other reason.
    worst = min(left, key=lambda leftover: (leftover.reason in _MERELY_THERE, leftover.reason), default=None)
    return Sweep(
        outcome=Outcome.LEFTOVERS if left else Outcome.CLEAR,
        reason=str(worst.reason) if worst else "",
        message=worst.message if worst and worst.reason is not Reason.PRESENT else "",
        found=listing.ours + len(listing.left),
        kept=listing.kept,
        leftovers=tuple(left),
        facts={"others_ignored": listing.others} if listing.others else {},
    )


def _unknown(error: BaseException, found: int = 0) -> Sweep:
    failure = classify(error)
    return Sweep(outcome=Outcome.UNKNOWN, reason=str(failure.reason), message=failure.message, found=found)


def _list(
    type_: ResourceType, connection: Connection, project: ProjectDefinition, take: Callable[[Resource], None]
) -> _Listing:
    """List page by page, and hand over each resource that may be deleted: here none is kept."""
    listing = _Listing()
    if type_.available is not None and not type_.available(connection, project):
        return listing
    rows = (
        type_.list.rows(connection, project) if isinstance(type_.list, Sdk | Rest) else type_.list(connection, project)
    )
    seen: set[str] = set()
    for row in rows:
        resource = type_.resource(row, project)
        if resource.id in seen:  # a page repeated while the list was changing
            continue
        seen.add(resource.id)
        if resource.owner is None:
            if type_.unfiltered:  # a shared listing holds ownerless rows that are nobody's business
                listing.others += 1
            else:
                message = f"its {type_.owner} is missing: protected"
                listing.left.append(Leftover(resource.id, resource.name, Reason.OWNER_UNKNOWN, message))
        elif resource.owner != project.id:
            if resource.owner.replace("-", "") == project.id.replace("-", ""):  # the same id, spelt otherwise
                message = f"its {type_.owner} is {resource.owner}, and the project's id is {project.id}: protected"
                listing.left.append(Leftover(resource.id, resource.name, Reason.OWNER_UNKNOWN, message))
                continue
            listing.others += 1
        elif any(rule(resource, project) for rule in type_.keep):
            listing.kept += 1
        elif why := _forbidden(type_, resource, project):
            listing.left.append(Leftover(resource.id, resource.name, Reason.PROTECTED, why))
        else:
            listing.ours += 1
            take(resource)
    return listing


def _forbidden(type_: ResourceType, resource: Resource, project: ProjectDefinition) -> str | None:
    """Return why a resource must not be deleted, if so."""
    return next((why for why in (rule(resource, project) for rule in type_.protect) if why), None)


def _described(type_: ResourceType, resource: Resource, project: ProjectDefinition) -> str:
    return (type_.describe(resource, project) or "") if type_.describe else ""


def _delete_all(
    type_: ResourceType,
    connection: Connection,
    project: ProjectDefinition,
    resources: Sequence[Resource],
    intend: Intend,
    parallel: int,
    until: float,
    attempt: _Attempt,
) -> None:
    """Delete one after the other; write down in ``attempt`` what becomes of them.

    :param until: the time (monotonic) after which no further one is begun
    :raises Stopped: at the first cancel or lost lease
    """
    stop: list[CleanupError] = []

    def one(resource: Resource) -> None:
        if stop or attempt.slow_down or time.monotonic() >= until:
            return
        attempt.tried.add(resource.id)
        try:
            verdict = _delete_one(type_, connection, project, resource)
        except (Stopped, WriteRefused) as error:
            stop.append(error)
            return
        if verdict is not None:
            attempt.refused[resource.id] = verdict
            if verdict.reason is Reason.RATE_LIMITED:
                attempt.slow_down = verdict

    with contextlib.ExitStack() as stack:
        run: Callable[..., Iterable[None]] = map
        if (threads := min(parallel, len(resources))) > 1:
            run = stack.enter_context(concurrent.futures.ThreadPoolExecutor(threads)).map
        for begin in range(0, len(resources), _CHUNK):
            if stop or attempt.slow_down or time.monotonic() >= until:
                break
            chunk = resources[begin : begin + _CHUNK]
            intend(chunk)
            list(run(one, chunk))
    if stop:
        raise stop[0]


def _delete_one(
    type_: ResourceType, connection: Connection, project: ProjectDefinition, resource: Resource
) -> Verdict | None:
    """Delete one resource; ``None`` means accepted, or gone already."""
    called: Action | None = type_.show
    try:
        if type_.show is not None:
            current = type_.resource(_row(type_.show, connection, project, resource), project)
            if current.id != resource.id or current.owner != project.id:
                owner = current.owner or "nobody"
                return Verdict(Reason.OWNER_UNKNOWN, f"it belonged to {owner} right before its delete: left alone")
            # It may have been shared, or taken into use by its service, since it was listed.
            if why := _forbidden(type_, current, project):
                return Verdict(Reason.PROTECTED, why)
        for action in (*type_.prepare, type_.delete):
            assert action is not None
            called = action
            if isinstance(action, Sdk | Rest):
                action.call(connection, project, resource)
            else:
                action(connection, project, resource)
    except (Stopped, WriteRefused):
        raise
    except Refused as refused:
        return refused.verdict
    except Exception as error:
        failure = classify(error)
        if failure.status in (404, 410) and called in (type_.show, type_.delete):
            return (
                None  # gone already; the second listing will tell. Of a breaker, it would say nothing of the resource
            )
        return _explain(type_, connection, project, resource, failure)
    return None


def _explain(
    type_: ResourceType, connection: Connection, project: ProjectDefinition, resource: Resource, failure: Failure
) -> Verdict:
    """Return why a delete was refused, with the ones that stand in the way where the type can tell."""
    if type_.explain is not None:
        try:
            verdict = type_.explain(connection, project, resource)
        except (Stopped, WriteRefused):
            raise
        except Exception as error:
            return Verdict(failure.reason, f"{failure.message} (and why could not be read: {classify(error).message})")
        if verdict is not None:
            return verdict
    return Verdict(failure.reason, failure.message)


def _row(action: Action, connection: Connection, project: ProjectDefinition, resource: Resource) -> Any:
    if isinstance(action, Sdk | Rest):
        return action.row(connection, project, resource)
    return to_row(action(connection, project, resource))
