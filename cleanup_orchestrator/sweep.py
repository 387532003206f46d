"""One attempt at a step: list → owner → delete → list again. A shell around a declared ``ResourceType``.

It trusts nothing: each listed object must carry the project's id, is read again right before its delete where its
service can show it, and counts as gone only when the second listing no longer has it.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Callable, Sequence
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


@dataclasses.dataclass(slots=True)
class _Listing:
    """What a listing found, sorted by what may be done with it."""

    ours: list[Resource] = dataclasses.field(default_factory=list)  #: may be deleted
    left: list[Leftover] = dataclasses.field(default_factory=list)  #: must not be deleted
    kept: int = 0
    others: int = 0  #: another project's: the service ignored the owner filter, or there is none


def look(
    type_: ResourceType, connection: Connection, project: ProjectDefinition, reason: Reason = Reason.PRESENT
) -> Sweep:
    """List what the project owns and touch nothing."""
    try:
        listing = _list(type_, connection, project)
    except Exception as error:  # every failed listing is "unknown", whatever went wrong in it
        return _unknown(error)
    left = [*listing.left, *(Leftover(r.id, r.name, reason, _described(type_, r, project)) for r in listing.ours)]
    return _result(listing, left)


def delete(
    type_: ResourceType,
    connection: Connection,
    project: ProjectDefinition,
    intend: Intend = lambda _: None,
    parallel: int = 4,
) -> Sweep:
    """Delete what the project owns, then list again; the second listing is the truth.

    :param parallel: delete calls at once
    """
    try:
        first = _list(type_, connection, project)
    except Exception as error:
        return _unknown(error)
    if not first.ours or type_.delete is None:
        left = [
            *first.left,
            *(Leftover(r.id, r.name, Reason.REFUSED, "it cannot be deleted by API") for r in first.ours),
        ]
        return _result(first, left)
    refusals: dict[str, Verdict] = {}
    if not type_.dragged_by:
        intend(first.ours)
        try:
            refusals = _delete_all(type_, connection, project, first.ours, parallel)
        except (Stopped, WriteRefused) as error:
            return _unknown(error)
    try:
        second = _list(type_, connection, project)
    except Exception as error:
        return _unknown(error, found=len(first.ours) + len(first.left))
    left = list(second.left)
    for resource in second.ours:
        accepted = Verdict(
            Reason.IN_USE if type_.dragged_by else Reason.DELETING,
            f"goes with its {' or '.join(type_.dragged_by)}" if type_.dragged_by else "the delete was accepted",
        )
        verdict = refusals.get(resource.id, accepted)
        left.append(Leftover(resource.id, resource.name, verdict.reason, verdict.message, verdict.blocked_by))
    remaining = {leftover.id for leftover in left}
    gone = tuple((r.id, r.name) for r in first.ours if r.id not in remaining)
    return dataclasses.replace(_result(first, left), deleted=gone, kept=second.kept)


def _result(listing: _Listing, left: Sequence[Leftover]) -> Sweep:
    # What is merely there says less than any other reason.
    worst = min(left, key=lambda leftover: (leftover.reason is Reason.PRESENT, leftover.reason), default=None)
    return Sweep(
        outcome=Outcome.LEFTOVERS if left else Outcome.CLEAR,
        reason=str(worst.reason) if worst else "",
        message=worst.message if worst and worst.reason is not Reason.PRESENT else "",
        found=len(listing.ours) + len(listing.left),
        kept=listing.kept,
        leftovers=tuple(left),
        facts={"others_ignored": listing.others} if listing.others else {},
    )


def _unknown(error: BaseException, found: int = 0) -> Sweep:
    failure = classify(error)
    return Sweep(outcome=Outcome.UNKNOWN, reason=str(failure.reason), message=failure.message, found=found)


def _list(type_: ResourceType, connection: Connection, project: ProjectDefinition) -> _Listing:
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
            listing.ours.append(resource)
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
    parallel: int,
) -> dict[str, Verdict]:
    """Delete each; return the refusals by id. Stops at the first cancel or lost lease."""
    refusals: dict[str, Verdict] = {}
    stop: list[CleanupError] = []

    def one(resource: Resource) -> None:
        if stop:
            return
        try:
            verdict = _delete_one(type_, connection, project, resource)
        except (Stopped, WriteRefused) as error:
            stop.append(error)
            return
        if verdict is not None:
            refusals[resource.id] = verdict

    if parallel <= 1 or len(resources) == 1:
        for resource in resources:
            one(resource)
    else:
        with concurrent.futures.ThreadPoolExecutor(min(parallel, len(resources))) as pool:
            list(pool.map(one, resources))
    if stop:
        raise stop[0]
    return refusals


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
