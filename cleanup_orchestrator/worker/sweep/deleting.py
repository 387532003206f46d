"""Deletes a project's resources of one type: list, check owner, delete, list.

No single answer is trusted. Each listed object must carry the project's id. It is read again right before its delete if
its service can show it. It counts as deleted only when the second listing no longer has it.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeAlias

from cleanup_orchestrator.core import references
from cleanup_orchestrator.core.reasons import UNKNOWN_TO_SERVICE, Reason
from cleanup_orchestrator.core.step import Leftover, StepResult
from cleanup_orchestrator.core.storable import Ids
from cleanup_orchestrator.errors import (
    BadAnswer,
    CleanupError,
    Failure,
    NoJanitor,
    Stopped,
    WriteRefused,
    WritesWithheld,
    classify,
)
from cleanup_orchestrator.plugins.base import Action, Refused, Resource, Verdict
from cleanup_orchestrator.worker.sweep import uses
from cleanup_orchestrator.worker.sweep.calls import act, describe, show
from cleanup_orchestrator.worker.sweep.context import SweepContext
from cleanup_orchestrator.worker.sweep.exclusions import Exclusions
from cleanup_orchestrator.worker.sweep.item import Accepted, History, Item, Missing, State, Unasked, remedy_of
from cleanup_orchestrator.worker.sweep.listing import (
    CHUNK,
    FindsUsers,
    Listing,
    incomplete,
    informational,
    result_of,
    result_without_deletes,
    unknown,
)
from cleanup_orchestrator.worker.sweep.order import (
    References,
    arranged,
    follows,
    leave_followers,
    leave_needed_in_cycles,
    needed,
    with_cycle_members,
)
from cleanup_orchestrator.worker.sweep.selecting import changed

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Returns a connection with the janitor's token for the project; raises ``NoJanitor`` when there is none.
Janitor: TypeAlias = "Callable[[], Connection]"

#: Receives the resources that are about to be deleted, before the first call. Writes the intent into the journal.
RecordIntent = Callable[[Sequence[Resource]], None]

#: Receives resources that are deleted although others use them, each with what the uses were, before the first call.
RecordHarm = Callable[[Sequence[tuple[Resource, Sequence[Verdict]]]], None]

#: Resources that one sweep deletes at most. These are in memory as listed, with several kilobytes each; of all others
#: only the leftover is.
MAX_DELETED = 3000

#: Returns a function that says which leftover of another type needs a resource.
FindsNeeds: TypeAlias = Callable[[], FindsUsers | None]

#: Seconds after which the uses of a resource are read once more: the deletes before it took long.
FRESH = 5.0

_NONE = Ids()

#: The verdict on what is listed although its service has accepted its delete.
_ACCEPTED = Verdict(Reason.DELETING, "the delete was accepted")

#: The verdict on what only the second listing has.
_CREATED = Verdict(Reason.PRESENT, "it was created meanwhile")


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
    stuck: Ids = _NONE  #: ids of what an ordinary delete has left: the type's ``force`` is used on these
    janitor: Janitor = no_janitor  #: returns the connection that deletes resources of a type with ``user_content``
    needs: FindsNeeds = lambda: None  #: see ``uses.needed_by``
    announced: Ids = _NONE  #: ids of what an earlier attempt has written an intent for into the journal
    history: History = dataclasses.field(default_factory=History)  #: what is known of accepted deletes


def delete(context: SweepContext, options: DeleteOptions = DeleteOptions()) -> StepResult:
    """Delete what the project owns, then list again; the second listing decides.

    If there is much to delete, the sweep deletes a part of it. As long as such a part made progress, the reason of the
    result is ``queued``: the next sweep deletes the rest, and may follow as soon as other steps have run.

    Of a list that is longer than ``most_listed``, the first resources are deleted. What the second listing, which is
    truncated as well, does not contain counts as deleted only if its service accepted the delete. A service that lists
    resources that it does not know makes no progress in this way.
    """
    type_, forced = context.type, options.stuck
    items: dict[str, Item] = {}  # what the first listing found deletable, by id
    excluded: list[Leftover] = []
    batch: list[Item] = []  # what this sweep tries: only these keep their rows
    referred, accepted = References(context), Accepted(context, options.history)
    chance = random.Random(options.attempt)  # noqa: S311
    try:
        first = Listing(context, Exclusions.of(context), options.needs(), options.announced)
        for item in first.items():
            if item.state is State.KEPT:
                continue
            referred.add(item.resource)
            if item.state is State.EXCLUDED:
                excluded.append(item.leftover(remedy_of(context, item.resource, item.verdict)))
                continue
            items[item.id] = item
            accepted.count_failure(item.resource)
            if (verdict := _going(context, item.resource)) and item.id not in forced:
                verdict = accepted.judged(item.resource, verdict)
                item.leave(dataclasses.replace(verdict, remedy=remedy_of(context, item.resource, verdict)))
            elif len(batch) < MAX_DELETED:
                batch.append(item)
                continue
            elif options.attempt > 1 and (place := chance.randrange(len(items))) < MAX_DELETED:
                batch[place], item = item, batch[place]  # reservoir sampling: each is equally likely to be in the batch
            item.forget_row()
    except Exception as error:
        return dataclasses.replace(unknown(error), deletes=accepted.known())
    if type_.delete is None:
        for item in items.values():
            item.leave(Verdict(Reason.REFUSED, "the API offers no delete for it"))
    if not items or type_.delete is None:
        return result_without_deletes(first, [*excluded, *(item.leftover() for item in items.values())])
    order = referred.order(items)
    if order.levels:
        leave_followers(context, order, items, forced)
    referred.leave_needed(context, items, excluded, forced)
    if all(item.state is State.LEFT for item in items.values()):  # a poll: one listing is enough
        # The first leftover of a reason speaks for all: one that is being deleted, and not one that waits for it.
        left = [item.leftover() for item in sorted(items.values(), key=lambda item: bool(item.verdict.blocked_by))]
        return result_without_deletes(first, [*excluded, *left], deletes=accepted.left(left))
    tried = [item for item in batch if item.state is State.NEW]
    if options.attempt > 1:
        chance.shuffle(tried)
    if order.levels:
        tried = arranged(order, tried, items)
    attempt, withheld = _Attempt(first, options, order, accepted, items), None
    if type_.composition.deleted_with:
        for item in items.values():
            if item.state is State.NEW:
                item.leave(Verdict(Reason.IN_USE, f"is deleted with its {' or '.join(type_.composition.deleted_with)}"))
    else:
        try:
            attempt.delete_all(tried)
        except WritesWithheld as error:  # the second listing shows what was deleted until then
            withheld = classify(error)
        except (Stopped, WriteRefused) as error:
            return unknown(error)
    for item in batch:
        item.forget_row()
    return _list_again(attempt, withheld)


def _going(context: SweepContext, resource: Resource) -> Verdict | None:
    """Return a verdict if the service works on the resource's delete already."""
    rule = context.type.deleting
    why = rule(resource, context.project) if rule is not None else None
    return Verdict(Reason.DELETING, why) if why else None


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
    """The delete calls of one sweep. Each sets the state of its item."""

    def __init__(
        self,
        first: Listing,
        options: DeleteOptions,
        order: references.Order,
        accepted: Accepted,
        items: dict[str, Item],
    ) -> None:
        self.first, self.context, self.options = first, first.context, options
        self.order, self.accepted, self.items = order, accepted, items
        self.slow_down: Verdict | None = None  #: a call got no permit in time: no further delete begins
        self._stop: list[CleanupError] = []
        self._until = math.inf  #: monotonic time after which no further delete begins

    def delete_all(self, items: Sequence[Item]) -> None:
        """Delete the resources, and note the outcome of each.

        :raises WritesWithheld: the deletion was cancelled, is on hold, or must not delete for another reason
        :raises Stopped: the lease was lost
        :raises WriteRefused: this sweep must not write
        """
        self._until = time.monotonic() + self.options.seconds
        if self.order.levels:
            referrers = (self.order.referrers.get(item.id, frozenset()) for item in items)
            for id_ in {item.id for item in items} & frozenset().union(*referrers):
                self.items[id_].tried = threading.Event()
        threads = min(self.options.parallel, len(items))
        if threads > 1:
            with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                self._delete_chunks(items, lambda call, each: [pool.submit(call, one) for one in each])
        else:
            self._delete_chunks(items, _call_here)
        if self._stop:
            raise self._stop[0]

    def _delete_chunks(self, items: Sequence[Item], begin: _Begin) -> None:
        """Leave what is used of each chunk, record the intent of the others, then begin their deletes.

        A chunk begins while the deletes of the one before end, so that no thread waits for the slowest of a chunk.
        """
        before: Iterable[Future[None]] = ()
        for start in range(0, len(items), CHUNK):
            if self._is_over():
                break
            asked = time.monotonic()
            chunk = self._without_used(items[start : start + CHUNK], begin)
            if chunk:
                self.options.record_intent([item.resource for item in chunk])
            for item in chunk:
                item.announced = True
            deletes = begin(functools.partial(self._delete, asked), chunk)
            for each in before:
                each.result()
            before = deletes
        for each in before:
            each.result()

    def _without_used(self, chunk: Sequence[Item], begin: _Begin = _call_here) -> Sequence[Item]:
        """Leave what others use of a chunk, and return the rest.

        What is deleted although others use it, as an admin decided, is recorded.

        :raises Stopped: the guard withholds the calls
        :raises WriteRefused: a hook made a write call
        """
        if not self.context.type.used_by and self.context.type.composition.contains is None:
            return chunk
        overruled: uses.Overruled = {}
        used = uses.before_delete(
            self.context,
            [item.resource for item in chunk],
            lambda call, parts: [future.result() for future in begin(call, parts)],
            overruled,
            contents_stay=self.options.stuck if self.context.type.keeps_contents_under_force else (),
        )
        for item in chunk:
            if verdict := used.get(item.id):
                item.leave_early(verdict)
        leave_needed_in_cycles(self.context, self.order, self.items, used)
        if harmed := [(item.resource, overruled[item.id]) for item in chunk if item.id in overruled]:
            self.options.record_harm(harmed)
        return [item for item in chunk if item.state is State.NEW]

    def _is_over(self) -> bool:
        return bool(self._stop or self.slow_down or time.monotonic() >= self._until)

    def _delete(self, asked: float, item: Item) -> None:
        """Delete one resource once what refers to it was tried, unless the sweep is over, and note the outcome.

        Runs in several threads. What refers to a resource is before it in the queue, so that the threads do not wait
        for each other in a cycle.

        :param asked: monotonic time at which its uses were read
        """
        referrers = [self.items[id_] for id_ in self.order.referrers.get(item.id, ())]
        try:
            for referrer in referrers:
                if referrer.tried is not None:
                    referrer.tried.wait()
            self._delete_now(asked, item, referrers)
        finally:
            if item.tried is not None:
                item.tried.set()

    def _delete_now(self, asked: float, item: Item, referrers: Sequence[Item]) -> None:
        """Delete one resource, which ``referrers`` refer to, unless the sweep is over, and note the outcome."""
        if self._is_over():
            return
        forced, moving = item.id in self.options.stuck, next((one for one in referrers if one.moving), None)
        members = (self.items[id_] for id_ in self.order.cycles.get(item.id, ()))  # none of these is waited for
        if verdict := next(filter(None, (needed(self.context, one) for one in (*referrers, *members))), None):
            item.leave(verdict)
            return
        if moving is not None and not forced:
            item.leave(follows(self.context, moving))
            item.moving = True
            return
        try:
            if time.monotonic() - asked > FRESH and not self._without_used([item]):
                return
            verdict = delete_one(self.context, self.first.exclusions, item.resource, forced, self.options.janitor)
        except (Stopped, WriteRefused) as error:
            self._stop.append(error)
            return
        if verdict is None or verdict.accepted:
            self.accepted.count(item.id)
        if verdict is None:
            item.leave(_ACCEPTED, State.ACCEPTED)
            item.moving = self.context.type.deleting is not None and not self.accepted.failed(item.id)
            return
        verdict = self.accepted.judged(item.resource, verdict)
        item.leave(verdict, State.MISSING if isinstance(verdict, Missing) else State.LEFT)
        item.moving = verdict.reason is Reason.DELETING
        if verdict.reason is Reason.RATE_LIMITED:
            self.slow_down = verdict


def _may_be_others(verdict: Verdict) -> bool:
    """Whether a resource belonged to another project right before its delete, or may have, or is listed as such."""
    return verdict.reason is Reason.OWNER_UNKNOWN or isinstance(verdict, Unasked)


def _list_again(attempt: _Attempt, withheld: Failure | None) -> StepResult:
    """List again after the deletes and return the result of the sweep.

    What the second listing has is removed from the items, so that a long list is not in memory several times.

    :param withheld: why the deletes ended early, if the deletion no longer allowed them
    """
    context, first, items, accepted = attempt.context, attempt.first, attempt.items, attempt.accepted
    type_, count = context.type, len(items)
    part = any(item.state is State.NEW for item in items.values())
    excluded: list[Leftover] = []
    there: list[Leftover] = []
    refused: set[str] = set()
    second = Listing(context, first.exclusions, first.find_users, first.announced, items)
    try:
        for item in second.items():
            is_new = items.pop(item.id, None) is None
            if item.state is State.KEPT:
                continue
            if item.state in (State.ACCEPTED, State.MISSING):
                if item.state is State.MISSING and accepted.was_asked_before(item.id):  # the list may lag behind
                    item.verdict = Verdict(Reason.DELETING, f"the delete was accepted; {item.verdict.message}")
                item.verdict = accepted.judged(item.resource, item.verdict)
            elif item.state is State.NEW and is_new and not part:
                item.verdict = _CREATED
            elif item.state is State.LEFT:
                refused.add(item.id)
            leftover = item.leftover(remedy_of(context, item.resource, item.verdict))
            if item.state is State.EXCLUDED:
                excluded.append(leftover)
                continue
            if type_.informational:
                leftover = dataclasses.replace(leftover, message=describe(type_, context.project, item.resource))
            there.append(leftover)
        if second.absent:
            raise BadAnswer("its service said that it lacks the type, after it had listed it")
    except Exception as error:
        return dataclasses.replace(unknown(error, found=count + first.blocked), deletes=accepted.known())
    if attempt.order.cycles:
        there = with_cycle_members(context, attempt.order, there, refused)
    left = [*excluded, *there]
    if second.truncated:  # what was not read is gone only if its service accepted the delete
        items = {id_: item for id_, item in items.items() if item.state is State.ACCEPTED}
    gone = tuple((id_, item.name) for id_, item in items.items() if not _may_be_others(item.verdict))
    result = dataclasses.replace(
        result_of(first, left),
        deleted=gone,
        kept=second.kept,
        in_use_unplanned=second.in_use_unplanned,
        deletes=accepted.left(left),
    )
    if second.truncated:
        result = incomplete(context, result)
    if withheld is not None and left:
        return dataclasses.replace(result, reason=str(withheld.reason), message=withheld.message)
    if type_.informational:
        return informational(result)
    if attempt.slow_down is not None and left:
        return dataclasses.replace(result, reason=str(Reason.RATE_LIMITED), message=attempt.slow_down.message)
    if (part or second.truncated) and gone and left:
        at_least = "at least " if second.truncated else ""
        message = f"{len(gone)} deleted, {at_least}{len(left)} queued for the next sweep"
        return dataclasses.replace(result, reason=str(Reason.QUEUED), message=message)
    return result


def delete_one(
    context: SweepContext, exclusions: Exclusions, resource: Resource, forced: bool, janitor: Janitor
) -> Verdict | None:
    """Delete one resource; return why not.

    :returns: ``None``: the delete was accepted; a :class:`Missing`: its service does not know it
    :raises Stopped: the guard withholds the write
    :raises WriteRefused: the guard refuses the write
    """
    type_, connection, project = context.type, context.connection, context.project
    called: Action | None = type_.show
    last, prepare = (type_.force.act, ()) if forced and type_.force is not None else (type_.delete, type_.prepare)
    assert last is not None
    current = resource
    try:
        if type_.show is not None:
            current = show(type_, connection, project, resource)
            if current.id != resource.id or current.owner is None:
                said = f"another resource, {current.id}" if current.id != resource.id else "no owner of it"
                return Unasked(Reason.BAD_ANSWER, f"right before its delete, its service showed {said}: not deleted")
            if current.owner != project.id:
                text = "it belonged to another project right before its delete: not deleted"
                return Verdict(Reason.OWNER_UNKNOWN, text)
            # It may have been shared, marked, or taken into use by its service, since it was listed.
            if why := exclusions.protected(current):
                return Verdict(Reason.PROTECTED, why)
        called = None
        if verdict := changed(context, resource.data, current):
            return verdict
        deleting = connection
        if not project.gone and type_.acts_on_user_content(current):
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
            what = "be shown" if called is type_.show else "be deleted"
            text = f"its service lists it, but answers {failure.status} when it is to {what}: {failure.message}"
            return Missing(Reason.REFUSED, text, remedy=UNKNOWN_TO_SERVICE)
        if called is type_.show:  # no delete was tried, so that nothing refused one
            return Verdict(failure.reason, f"it could not be read right before its delete: {failure.message}")
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
