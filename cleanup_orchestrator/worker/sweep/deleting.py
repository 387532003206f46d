"""Deletes a project's resources of one type: list, check owner, delete, list.

No single answer is trusted. Each listed object must carry the project's id. It is read again right before its delete if
its service can show it. It counts as deleted only when the second listing does not have it any more.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import math
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeAlias

from cleanup_orchestrator.core import references
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, StepResult
from cleanup_orchestrator.errors import BadAnswer, CleanupError, NoJanitor, OnHold, Stopped, WriteRefused, classify
from cleanup_orchestrator.plugins.base import Resource, Verdict
from cleanup_orchestrator.worker.sweep import uses
from cleanup_orchestrator.worker.sweep.accepted import Accepted, History
from cleanup_orchestrator.worker.sweep.calls import describe
from cleanup_orchestrator.worker.sweep.context import SweepContext
from cleanup_orchestrator.worker.sweep.exclusions import Exclusions
from cleanup_orchestrator.worker.sweep.listing import (
    CHUNK,
    FindsUsers,
    Listing,
    incomplete,
    informational,
    remedy_of,
    result_of,
    scan,
    unknown,
)
from cleanup_orchestrator.worker.sweep.one_delete import Janitor, Missing, delete_one
from cleanup_orchestrator.worker.sweep.order import References, arranged, follows, waiting, with_cycle_members

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Receives the resources that are about to be deleted, before the first call. Writes the intent into the journal.
RecordIntent = Callable[[Sequence[Resource]], None]

#: Receives resources that are deleted although others use them, each with what the uses were, before the first call.
RecordHarm = Callable[[Sequence[tuple[Resource, Sequence[Verdict]]]], None]

#: Resources that one sweep deletes at most. These are in memory as listed, with several kilobytes each; of all others
#: only the leftover is.
MOST_DELETED = 3000

#: Returns a function that says which leftover of another type needs a resource.
FindsNeeds: TypeAlias = Callable[[], FindsUsers | None]

#: Seconds after which the uses of a resource are read once more: the deletes before it took long.
FRESH = 5.0

#: Why a resource is left that was not tried.
_QUEUED = "it is queued"


def no_janitor() -> Connection:
    """Raise the error of a sweep without a janitor.

    :raises NoJanitor: always
    """
    raise NoJanitor("this sweep has no janitor")


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How a sweep deletes."""

    record_intent: RecordIntent = lambda _resources: None
    record_harm: RecordHarm = lambda _resources: None
    parallel: int = 8  #: delete calls at once
    seconds: float = math.inf  #: after which no further delete begins, counted from the end of the first listing
    attempt: int = 1  #: later attempts use another order, so that refused resources do not block the others forever
    stuck: Collection[str] = ()  #: ids that an ordinary delete has left: the type's ``force`` is used on these
    janitor: Janitor = no_janitor  #: returns the connection that deletes resources of a type with ``acts_on``
    needs: FindsNeeds = lambda: None  #: see ``uses.needed_by``
    announced: Collection[str] = ()  #: ids whose intent an earlier attempt has written into the journal
    history: History = dataclasses.field(default_factory=History)  #: what is known of accepted deletes


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
    referred, accepted = References(context), Accepted(context, options.history)
    chance = random.Random(options.attempt)  # noqa: S311

    def collect(resource: Resource) -> None:
        announced, size = resource.id in options.announced, type_.size_of(resource.data)
        found[resource.id] = Leftover(
            resource.id, resource.name, Reason.QUEUED, _QUEUED, announced=announced, size=size
        )
        referred.add(resource)
        accepted.count_failure(resource)
        if (verdict := _going(context, resource)) and resource.id not in options.stuck:
            verdict = accepted.judged(resource, verdict)
            going[resource.id] = dataclasses.replace(verdict, remedy=remedy_of(context, resource, verdict))
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
        moving = [id_ for id_, verdict in going.items() if verdict.reason is Reason.DELETING]
        behind = waiting(context, order, moving, found)
        going.update((id_, why) for id_, why in behind.items() if id_ not in options.stuck and id_ not in going)
    if needed := referred.needed(context, found, first.blocked):
        going.update((id_, verdict) for id_, verdict in needed.items() if id_ not in options.stuck)
    if going:
        batch = [resource for resource in batch if resource.id not in going]
    if len(going) == len(found):  # a poll: one listing is enough
        said = [
            dataclasses.replace(
                found[id_], reason=why.reason, message=why.message, blocked_by=why.blocked_by, remedy=why.remedy
            )
            for id_, why in going.items()
        ]
        result = _without_deletes(context, first, said, options.announced)
        return dataclasses.replace(result, deletes=accepted.left(said))
    if options.attempt > 1:
        chance.shuffle(batch)
    if order.levels:
        tried = {resource.id for resource in batch}
        batch = arranged(order, batch, [id_ for id_ in found if id_ not in tried and id_ not in going])
    attempt, on_hold = _Attempt(context, exclusions, options, needs, order, accepted), ""
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


#: Begins a call with each of these arguments.
_Begin: TypeAlias = "Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Future[Any]]]"


def _call_here(call: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterable[Future[Any]]:
    """Make the calls in this thread."""
    futures = []
    for one in arguments:
        future: Future[Any] = Future()
        future.set_result(call(one))
        futures.append(future)
    return futures


class _Attempt:
    """The delete calls of one sweep, and what became of them."""

    def __init__(
        self,
        context: SweepContext,
        exclusions: Exclusions,
        options: DeleteOptions,
        needs: FindsUsers | None,
        order: references.Order,
        accepted: Accepted,
    ) -> None:
        self.accepted = accepted
        self.context, self.exclusions, self.options, self.needs = context, exclusions, options, needs
        self.tried: set[str] = set()  #: ids
        self.announced: set[str] = set(options.announced)  #: ids whose intent is in the journal
        self.missing: dict[str, Verdict] = {}  #: by id, of what the service did not know when the delete was made
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
                self._delete_chunks(resources, lambda call, each: [pool.submit(call, one) for one in each])
        else:
            self._delete_chunks(resources, _call_here)
        if self._stop:
            raise self._stop[0]

    def _delete_chunks(self, resources: Sequence[Resource], begin: _Begin) -> None:
        """Refuse what is used of each chunk, record the intent of the others, then begin their deletes.

        A chunk begins while the deletes of the one before end, so that no thread waits for the slowest of a chunk.
        """
        before: Iterable[Future[None]] = ()
        for start in range(0, len(resources), CHUNK):
            if self._is_over():
                break
            asked = time.monotonic()
            chunk = self._without_used(resources[start : start + CHUNK], begin)
            if chunk:
                self.options.record_intent(chunk)
            self.announced.update(resource.id for resource in chunk)
            deletes = begin(functools.partial(self._delete, asked), chunk)
            for each in before:
                each.result()
            before = deletes
        for each in before:
            each.result()

    def _without_used(self, chunk: Sequence[Resource], begin: _Begin = _call_here) -> Sequence[Resource]:
        """Return a chunk without what others use, which counts as tried and refused.

        What is deleted although others use it, as an admin decided, is recorded.

        :raises Stopped: the guard withholds the calls
        :raises WriteRefused: a hook made a write call
        """
        if not self.context.type.used_by and self.context.type.contains is None:
            return chunk
        overruled: uses.Overruled = {}
        forced = self.options.stuck if self.context.type.force_keeps_contents else ()
        used = uses.before_delete(
            self.context,
            chunk,
            lambda call, parts: [future.result() for future in begin(call, parts)],
            overruled,
            contents_stay=forced,
        )
        self.refused.update(used)
        self.tried.update(used)
        for id_ in used.keys() & self._answered.keys():
            self._answered[id_].set()
        if harmed := [(resource, overruled[resource.id]) for resource in chunk if resource.id in overruled]:
            self.options.record_harm(harmed)
        return [resource for resource in chunk if resource.id not in used]

    def _is_over(self) -> bool:
        return bool(self._stop or self.slow_down or time.monotonic() >= self._until)

    def _delete(self, asked: float, resource: Resource) -> None:
        """Delete one resource once what refers to it was tried, unless the sweep is over, and note the outcome.

        Runs in several threads. What refers to a resource is before it in the queue, so that the threads do not wait
        for each other in a cycle.

        :param asked: monotonic time at which its uses were read
        """
        try:
            for referrer in self.order.referrers.get(resource.id, ()):
                if referrer in self._answered:
                    self._answered[referrer].wait()
            self._delete_now(asked, resource)
        finally:
            if resource.id in self._answered:
                self._answered[resource.id].set()

    def _delete_now(self, asked: float, resource: Resource) -> None:
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
            if time.monotonic() - asked > FRESH and not self._without_used([resource]):
                return
            verdict = delete_one(self.context, self.exclusions, resource, forced, self.options.janitor)
        except (Stopped, WriteRefused) as error:
            self.tried.discard(resource.id)
            self._stop.append(error)
            return
        if verdict is None or verdict.accepted:
            self.accepted.count(resource.id)
        asynchronous = self.context.type.deleting is not None and not self.accepted.failed(resource.id)
        if verdict is not None:
            verdict = self.accepted.judged(resource, verdict)
        if (verdict is None and asynchronous) or (verdict is not None and verdict.reason is Reason.DELETING):
            self._moving[resource.id] = resource.name
        if isinstance(verdict, Missing):
            self.missing[resource.id] = verdict
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
        verdict = attempt.refused.get(resource.id)
        if verdict is None and resource.id in attempt.tried:
            verdict = attempt.accepted.judged(resource, _unanswered(attempt, resource) or accepted)
        verdict = verdict or untried
        announced, size = resource.id in attempt.announced, type_.size_of(resource.data)
        same = before is not None and (before.name, before.announced, before.size) == (resource.name, announced, size)
        if part and verdict is untried and before and same and not type_.informational:
            there.append(before)
            return
        said = describe(type_, context.project, resource) if type_.informational else verdict.message
        of_verdict = (verdict.reason, said, verdict.blocked_by)
        remedy = remedy_of(context, resource, verdict)
        there.append(Leftover(resource.id, resource.name, *of_verdict, announced=announced, size=size, remedy=remedy))

    try:
        second = scan(context, attempt.exclusions, still_there, watch=found, find_users=attempt.needs)
        if second.absent:
            raise BadAnswer("its service said that it lacks the type, after it had listed it")
    except Exception as error:
        return unknown(error, found=count + len(first.blocked))
    if attempt.order.cycles:
        there = with_cycle_members(context, attempt.order, there, attempt.refused)
    left = [*_announce(second.blocked, attempt.announced), *there]
    for id_ in (*(one.id for one in second.blocked), *second.kept_watched):
        found.pop(id_, None)
    known: Collection[str] = found  # ids whose absence from the second listing means that they are gone
    if second.truncated:
        known = () if type_.deleted_with else attempt.tried - attempt.missing.keys() - attempt.refused.keys()
    gone = tuple((id_, one.name) for id_, one in found.items() if id_ in known)
    unplanned = second.in_use_unplanned
    result = dataclasses.replace(result_of(first, left), deleted=gone, kept=second.kept, in_use_unplanned=unplanned)
    result = dataclasses.replace(result, deletes=attempt.accepted.left(left))
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


def _unanswered(attempt: _Attempt, resource: Resource) -> Verdict | None:
    """Return the verdict on a listed resource that its service did not know when its delete was made, if it is one.

    A list may lag behind a delete that was accepted before. Without one, the resource is there, and no call reaches it.
    """
    missing = attempt.missing.get(resource.id)
    if missing is None or not attempt.accepted.was_asked_before(resource.id):
        return missing
    return Verdict(Reason.DELETING, f"the delete was accepted; {missing.message}")
