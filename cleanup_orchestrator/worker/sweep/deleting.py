"""Deletes a project's resources of one type: list, check owner, delete, list.

No single answer is trusted. Each listed object must carry the project's id. It is read again right before its delete if
its service can show it. It counts as deleted only when the second listing does not have it any more.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import math
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeAlias

from cleanup_orchestrator.core import references
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, StepResult
from cleanup_orchestrator.errors import CleanupError, Failure, NoJanitor, OnHold, Stopped, WriteRefused, classify
from cleanup_orchestrator.plugins.base import Action, Refused, Resource, Verdict
from cleanup_orchestrator.worker.sweep.calls import act, describe, show
from cleanup_orchestrator.worker.sweep.context import SweepContext
from cleanup_orchestrator.worker.sweep.exclusions import Exclusions
from cleanup_orchestrator.worker.sweep.listing import (
    FindsUsers,
    Listing,
    incomplete,
    informational,
    result_of,
    scan,
    unknown,
)
from cleanup_orchestrator.worker.sweep.order import References, arranged, follows, waiting, with_cycle_members
from cleanup_orchestrator.worker.sweep.selecting import changed

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Receives the resources that are about to be deleted, before the first call. Writes the intent into the journal.
RecordIntent = Callable[[Sequence[Resource]], None]

#: Returns a connection with the janitor's token for the project; raises ``NoJanitor`` when there is none.
Janitor: TypeAlias = "Callable[[], Connection]"

#: Resources that one sweep deletes at most. These are in memory as listed, with several kilobytes each; of all others
#: only the leftover is.
MOST_DELETED = 3000

#: Returns a function that says which leftover of another type needs a resource.
FindsNeeds: TypeAlias = Callable[[], FindsUsers]

#: Resources whose intent is recorded together, right before their deletes.
_CHUNK = 100

#: Why a resource is left that was not tried.
_QUEUED = "it is queued"

#: Verdict on a resource that is gone when its delete is made. No leftover ever has it.
_MISSING = Verdict(Reason.PRESENT, "gone already")


def no_janitor() -> Connection:
    """Raise the error of a sweep without a janitor.

    :raises NoJanitor: always
    """
    raise NoJanitor("this sweep has no janitor")


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How a sweep deletes."""

    record_intent: RecordIntent = lambda _resources: None
    parallel: int = 8  #: delete calls at once
    seconds: float = math.inf  #: after which no further delete begins, counted from the end of the first listing
    attempt: int = 1  #: later attempts use another order, so that refused resources do not block the others forever
    stuck: Collection[str] = ()  #: ids that an ordinary delete has left: the type's ``force`` is used on these
    janitor: Janitor = no_janitor  #: returns the connection that deletes resources of a type with ``acts_on``
    needs: FindsNeeds = lambda: lambda _resource: None  #: see ``worker.sweep.needed``
    announced: Collection[str] = ()  #: ids whose intent an earlier attempt has written into the journal


def delete(context: SweepContext, options: DeleteOptions = DeleteOptions()) -> StepResult:
    """Delete what the project owns, then list again; the second listing decides.

    If there is much to delete, the sweep deletes a part of it. As long as such a part made progress, the reason of the
    result is ``queued``: the next sweep deletes the rest, and may follow as soon as other steps have run.

    Of a list that is longer than ``most_listed``, the first resources are deleted. What the second listing, which is
    truncated as well, does not contain counts as deleted only if its service accepted the delete. A service that lists
    resources that it does not know makes no progress in this way.
    """
    type_ = context.type
    #: What the first listing found deletable, by id, as it is reported if it is not tried.
    found: dict[str, Leftover] = {}
    batch: list[Resource] = []
    going: dict[str, Verdict] = {}
    referred = References(context)
    chance = random.Random(options.attempt)  # noqa: S311

    def collect(resource: Resource) -> None:
        announced, size = resource.id in options.announced, type_.size_of(resource.data)
        found[resource.id] = Leftover(
            resource.id, resource.name, Reason.QUEUED, _QUEUED, announced=announced, size=size
        )
        referred.add(resource)
        if (verdict := _going(context, resource)) and resource.id not in options.stuck:
            going[resource.id] = verdict
        elif len(batch) < MOST_DELETED:
            batch.append(resource)
        elif options.attempt > 1 and (place := chance.randrange(len(found))) < MOST_DELETED:
            batch[place] = resource  # reservoir sampling: each resource is equally likely to be in the batch

    try:
        exclusions = Exclusions.of(context)
        needs = options.needs()
        first = scan(context, exclusions, collect, find_users=needs, note_blocked=referred.add)
    except Exception as error:
        return unknown(error)
    if not found or type_.delete is None:
        return _nothing_to_delete(context, first, found.values(), options.announced)
    order = referred.order(found)
    if order.levels and going:
        behind = waiting(context, order, going, found)
        going.update((id_, verdict) for id_, verdict in behind.items() if id_ not in options.stuck)
    if needed := referred.needed(context, found, first.blocked):
        going.update((id_, verdict) for id_, verdict in needed.items() if id_ not in options.stuck)
    if going:
        batch = [resource for resource in batch if resource.id not in going]
    if len(going) == len(found):  # a poll: one listing is enough
        said = [
            dataclasses.replace(found[id_], reason=why.reason, message=why.message, blocked_by=why.blocked_by)
            for id_, why in going.items()
        ]
        return _without_deletes(context, first, said, options.announced)
    if options.attempt > 1:
        chance.shuffle(batch)
    if order.levels:
        tried = {resource.id for resource in batch}
        batch = arranged(order, batch, [id_ for id_ in found if id_ not in tried and id_ not in going])
    attempt, on_hold = _Attempt(context, exclusions, options, needs, order), ""
    attempt.tried.update(going)
    attempt.refused.update(going)
    if type_.deleted_with:
        attempt.tried.update(found)
    else:
        try:
            attempt.delete_all(batch)
        except OnHold as error:  # the second listing shows what was deleted until then
            on_hold = classify(error).message
        except (Stopped, WriteRefused) as error:
            return unknown(error)
    batch.clear()
    return _list_again(attempt, first, found, on_hold)


def _announce(leftovers: Iterable[Leftover], announced: Collection[str]) -> list[Leftover]:
    """Return leftovers that are not tried, each with whether its intent is in the journal."""
    return [dataclasses.replace(one, announced=True) if one.id in announced else one for one in leftovers]


def _nothing_to_delete(
    context: SweepContext, first: Listing, found: Iterable[Leftover], announced: Collection[str]
) -> StepResult:
    """Return the result of a sweep that may not delete anything."""
    text = "the API offers no delete for it"
    said = (dataclasses.replace(one, reason=Reason.REFUSED, message=text) for one in found)
    return _without_deletes(context, first, said, announced)


def _going(context: SweepContext, resource: Resource) -> Verdict | None:
    """Return a verdict if the service works on the resource's delete already."""
    rule = context.type.deleting
    why = rule(resource, context.project) if rule is not None else None
    return Verdict(Reason.DELETING, why) if why else None


def _without_deletes(
    context: SweepContext, first: Listing, left: Iterable[Leftover], announced: Collection[str]
) -> StepResult:
    """Return the result of a sweep that makes no delete call."""
    result = result_of(first, _announce([*first.blocked, *left], announced))
    if first.truncated:
        result = incomplete(context, result)
    return informational(result) if context.type.informational else result


class _Attempt:
    """The delete calls of one sweep, and what became of them."""

    def __init__(
        self,
        context: SweepContext,
        exclusions: Exclusions,
        options: DeleteOptions,
        needs: FindsUsers,
        order: references.Order,
    ) -> None:
        self.context, self.exclusions, self.options, self.needs = context, exclusions, options, needs
        self.tried: set[str] = set()  #: ids
        self.announced: set[str] = set(options.announced)  #: ids whose intent is in the journal
        self.missing: set[str] = set()  #: ids that the service did not know when the delete was made
        self.refused: dict[str, Verdict] = {}  #: by id
        self.order = order
        self._moving: dict[str, str] = {}  #: name by id of what is still there, as its service is deleting it
        self._answered: dict[str, threading.Event] = {}  #: by id of what refers to others: set once it was tried
        self.slow_down: Verdict | None = None  #: a call got no permit in time: no further delete begins
        self._stop: list[CleanupError] = []
        self._until = math.inf  #: monotonic time after which no further delete begins

    def delete_all(self, resources: Sequence[Resource]) -> None:
        """Delete the resources, and note the outcome of each.

        :raises Stopped: the deletion was cancelled, or the lease was lost
        :raises OnHold: writes are on hold for now
        :raises WriteRefused: this sweep must not write
        """
        self._until = time.monotonic() + self.options.seconds
        if self.order.levels:
            batch = {resource.id for resource in resources}
            referrers = (self.order.referrers.get(resource.id, frozenset()) for resource in resources)
            self._answered = {id_: threading.Event() for id_ in batch & frozenset().union(*referrers)}
        threads = min(self.options.parallel, len(resources))
        if threads > 1:
            with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                self._delete_chunks(resources, lambda chunk: [pool.submit(self._delete, one) for one in chunk])
        else:
            self._delete_chunks(resources, self._delete_here)
        if self._stop:
            raise self._stop[0]

    def _delete_chunks(
        self, resources: Sequence[Resource], begin: Callable[[Sequence[Resource]], Iterable[Future[None]]]
    ) -> None:
        """Record the intent of each chunk, then begin its deletes.

        A chunk begins while the deletes of the one before end, so that no thread waits for the slowest of a chunk.
        """
        before: Iterable[Future[None]] = ()
        for start in range(0, len(resources), _CHUNK):
            if self._is_over():
                break
            chunk = resources[start : start + _CHUNK]
            self.options.record_intent(chunk)
            self.announced.update(resource.id for resource in chunk)
            deletes = begin(chunk)
            for each in before:
                each.result()
            before = deletes
        for each in before:
            each.result()

    def _delete_here(self, chunk: Sequence[Resource]) -> Iterable[Future[None]]:
        """Delete a chunk in this thread."""
        for resource in chunk:
            self._delete(resource)
        return ()

    def _is_over(self) -> bool:
        return bool(self._stop or self.slow_down or time.monotonic() >= self._until)

    def _delete(self, resource: Resource) -> None:
        """Delete one resource once what refers to it was tried, unless the sweep is over, and note the outcome.

        Runs in several threads. What refers to a resource is before it in the queue, so that the threads do not wait
        for each other in a cycle.
        """
        try:
            for referrer in self.order.referrers.get(resource.id, ()):
                if referrer in self._answered:
                    self._answered[referrer].wait()
            self._delete_now(resource)
        finally:
            if resource.id in self._answered:
                self._answered[resource.id].set()

    def _delete_now(self, resource: Resource) -> None:
        """Delete one resource, unless the sweep is over, and note the outcome."""
        if self._is_over():
            return
        self.tried.add(resource.id)
        forced = resource.id in self.options.stuck
        moving = next((id_ for id_ in self.order.referrers.get(resource.id, ()) if id_ in self._moving), None)
        if moving is not None and not forced:
            self.refused[resource.id] = follows(self.context, moving, self._moving[moving])
            self._moving[resource.id] = resource.name
            return
        try:
            verdict = _delete_one(self.context, self.exclusions, resource, forced, self.options.janitor)
        except (Stopped, WriteRefused) as error:
            self.tried.discard(resource.id)
            self._stop.append(error)
            return
        asynchronous = self.context.type.deleting is not None
        if (verdict is None and asynchronous) or (verdict is not None and verdict.reason is Reason.DELETING):
            self._moving[resource.id] = resource.name
        if verdict is _MISSING:
            self.missing.add(resource.id)
        elif verdict is not None:
            self.refused[resource.id] = verdict
            if verdict.reason is Reason.RATE_LIMITED:
                self.slow_down = verdict


def _list_again(attempt: _Attempt, first: Listing, found: dict[str, Leftover], on_hold: str) -> StepResult:
    """List again after the deletes and return the result of the sweep.

    :param found: what the first listing found deletable, by id. What the second listing has is removed from it, so that
        a long list is not in memory several times
    :param on_hold: why the deletes ended early, if a hold ended them
    """
    context, type_ = attempt.context, attempt.context.type
    count = len(found)
    part = len(attempt.tried) < count
    accepted = Verdict(
        Reason.IN_USE if type_.deleted_with else Reason.DELETING,
        f"is deleted with its {' or '.join(type_.deleted_with)}" if type_.deleted_with else "the delete was accepted",
    )
    untried = Verdict(Reason.QUEUED, _QUEUED) if part else Verdict(Reason.PRESENT, "it was created meanwhile")
    there: list[Leftover] = []

    def still_there(resource: Resource) -> None:
        before = found.pop(resource.id, None)
        verdict = attempt.refused.get(resource.id) or (accepted if resource.id in attempt.tried else untried)
        announced, size = resource.id in attempt.announced, type_.size_of(resource.data)
        same = before is not None and (before.name, before.announced, before.size) == (resource.name, announced, size)
        if part and verdict is untried and before and same and not type_.informational:
            there.append(before)
            return
        said = describe(type_, context.project, resource) if type_.informational else verdict.message
        of_verdict = (verdict.reason, said, verdict.blocked_by)
        there.append(Leftover(resource.id, resource.name, *of_verdict, announced=announced, size=size))

    try:
        second = scan(context, attempt.exclusions, still_there, watch=found, find_users=attempt.needs)
    except Exception as error:
        return unknown(error, found=count + len(first.blocked))
    if attempt.order.cycles:
        there = with_cycle_members(context, attempt.order, there, attempt.refused)
    left = [*_announce(second.blocked, attempt.announced), *there]
    for id_ in (*(one.id for one in second.blocked), *second.kept_watched):
        found.pop(id_, None)
    known: Collection[str] = found  # ids whose absence from the second listing means that they are gone
    if second.truncated:
        known = () if type_.deleted_with else attempt.tried - attempt.missing - attempt.refused.keys()
    gone = tuple((id_, one.name) for id_, one in found.items() if id_ in known)
    unplanned = second.in_use_unplanned
    result = dataclasses.replace(result_of(first, left), deleted=gone, kept=second.kept, in_use_unplanned=unplanned)
    if second.truncated:
        result = incomplete(context, result)
    if on_hold and left:
        return dataclasses.replace(result, reason=str(Reason.ON_HOLD), message=on_hold)
    if type_.informational:
        return informational(result)
    if attempt.slow_down is not None and left:
        return dataclasses.replace(result, reason=str(Reason.RATE_LIMITED), message=attempt.slow_down.message)
    if (part or second.truncated) and gone and left:
        at_least = "at least " if second.truncated else ""
        message = f"{len(gone)} deleted, {at_least}{len(left)} queued for the next sweep"
        return dataclasses.replace(result, reason=str(Reason.QUEUED), message=message)
    return result


def _delete_one(
    context: SweepContext, exclusions: Exclusions, resource: Resource, forced: bool, janitor: Janitor
) -> Verdict | None:
    """Delete one resource; return why not.

    :returns: ``None``: the delete was accepted; :data:`_MISSING`: its service does not know it
    :raises Stopped: the guard withholds the write
    :raises WriteRefused: the guard refuses the write
    """
    type_, connection, project = context.type, context.connection, context.project
    called: Action | None = type_.show
    last = type_.force if forced and type_.force is not None else type_.delete
    prepare = () if last is type_.force else type_.prepare
    assert last is not None
    current = resource
    try:
        if type_.show is not None:
            current = show(type_, connection, project, resource)
            if current.id != resource.id or current.owner != project.id:
                owner = "another project" if current.owner else "no project"
                return Verdict(Reason.OWNER_UNKNOWN, f"it belonged to {owner} right before its delete: not deleted")
            # It may have been shared, marked, or taken into use by its service, since it was listed.
            if why := exclusions.protected(current):
                return Verdict(Reason.PROTECTED, why)
        called = None
        if verdict := changed(context, resource.data, current):
            return verdict
        deleting = connection
        if type_.acts_on and not project.gone and (type_.acts_on_if is None or type_.acts_on_if(current)):
            called = None
            deleting = janitor()  # before anything is changed: without it, this resource cannot be deleted
        for action in prepare:
            called = action
            act(action, connection, project, resource)
        called = last
        try:
            act(last, deleting, project, resource)
        except (Stopped, WriteRefused, Refused):
            raise
        except Exception as error:
            if type_.unblock is None or not type_.unblock(connection, deleting, project, resource, error):
                raise
            act(last, deleting, project, resource)
    except (Stopped, WriteRefused):
        raise
    except Refused as refused:
        return refused.verdict
    except Exception as error:
        failure = classify(error)
        if called is None:
            return Verdict(failure.reason, failure.message)
        # A 404 of a preparing call says nothing about the resource. Otherwise the second listing decides.
        if failure.status in (404, 410) and called in (type_.show, last):
            return _MISSING
        return _explain(context, resource, failure)
    return None


def _explain(context: SweepContext, resource: Resource, failure: Failure) -> Verdict:
    """Return why a delete was refused, with the blocking resources if known."""
    explain = context.type.explain
    if explain is not None:
        try:
            verdict = explain(context.connection, context.project, resource)
        except (Stopped, WriteRefused):
            raise
        except Exception as error:
            message = f"{failure.message} (the cause could not be read: {classify(error).message})"
            return Verdict(failure.reason, message)
        if verdict is not None:
            return verdict
    return Verdict(failure.reason, failure.message)
