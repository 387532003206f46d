"""Lists what a project owns of one type, sorted by what may be done with it.

It changes nothing.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from cleanup_orchestrator.core.plans import digest
from cleanup_orchestrator.core.reasons import ONLY_A_PERSON, UNNAMED, Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, StepResult
from cleanup_orchestrator.errors import BadAnswer, UnreadUse, classify
from cleanup_orchestrator.plugins.base import Resource, Verdict
from cleanup_orchestrator.worker.sweep.calls import describe, is_available, list_available
from cleanup_orchestrator.worker.sweep.context import SweepContext
from cleanup_orchestrator.worker.sweep.exclusions import Exclusions
from cleanup_orchestrator.worker.sweep.item import Item, State, remedy_of

#: Repeated rows that are always accepted: pages shift while the list changes.
MAX_REPEATED = 1000

#: Reasons that say only that a resource is there. Any other reason says more.
_MERELY_THERE = frozenset({Reason.PRESENT, Reason.QUEUED})

#: Reasons whose messages are of single resources, and say nothing of their type.
_WITHOUT_MESSAGE = frozenset({Reason.PRESENT, Reason.NOT_SELECTED})

#: Returns a verdict, by id, on each of the resources that others use.
FindsUsers = Callable[[Sequence[Resource]], Mapping[str, Verdict]]

#: Resources whose users are asked for together.
CHUNK = 100


@dataclasses.dataclass(slots=True)
class Listing:
    """One listing of a type: it yields the items of the project, and counts what it found."""

    context: SweepContext
    exclusions: Exclusions
    find_users: FindsUsers | None = None  #: is asked about what no filter of ``exclusions.listed`` excludes
    announced: Collection[str] = ()  #: ids whose intent is in the journal
    #: The items of an earlier listing, by id. Each that is listed again, and is not excluded by now, keeps its state.
    known: Mapping[str, Item] = dataclasses.field(default_factory=dict)
    deletable: int = 0  #: number of resources that may be deleted
    blocked: int = 0  #: number of the project's resources that must not be deleted
    kept: int = 0  #: number of resources that a ``keep`` rule of the type keeps
    in_use_unplanned: int = 0  #: number of blocked resources that others use, and that are not in the plan either
    foreign: int = 0  #: resources of other projects: the service ignored the owner filter, or has none
    truncated: bool = False  #: whether the project has more resources than were read
    absent: bool = False  #: whether the service says that it lacks the type

    def items(self) -> Iterator[Item]:
        """List page by page, and yield each item of the project once it is known whether it may be deleted.

        Only resources of the project that are not kept count for ``most_listed``; the first one beyond that ends the
        listing. A truncated listing is therefore never empty. Resources of other projects and kept resources are only
        counted: otherwise any user could make a list of all projects too long.

        :raises BadAnswer: the answer is no list, has no end, or has a resource with two owners
        """
        context, exclusions, type_, most = self.context, self.exclusions, self.context.type, self.context.most_listed
        seen: dict[str, bool | None] = {}  # by id: whether it is another project's; none: its owner is not clear
        repeated = 0
        pending: list[Item] = []  # no filter excludes them

        def is_others(resource: Resource) -> bool | None:
            return exclusions.others(resource) or (False if resource.owner == context.project.id else None)

        def begun_again() -> None:
            nonlocal repeated
            repeated -= len(seen)  # the rows so far come once more

        if not is_available(type_, context.connection, context.project):
            self.absent = True
            return
        for resource in list_available(type_, context.connection, context.project, begun_again):
            if resource.id in seen:  # a page repeated while the list was changing
                repeated += 1
                if repeated > MAX_REPEATED + len(seen):
                    raise BadAnswer(f"the list of {type_.name} has no end: it returns the same rows again and again")
                if seen[resource.id] is not is_others(resource):
                    raise BadAnswer(f"the list of {type_.name} has {resource.id} twice, and with two owners")
                continue
            others = is_others(resource)
            if len(seen) < most:
                seen[resource.id] = others
            lost_owner = resource.owner is None and (resource.id in self.known or resource.id in self.announced)
            if others and not lost_owner:
                self.foreign += 1
                if (known := self.known.get(resource.id)) is not None:
                    known.exclude(Verdict(Reason.OWNER_UNKNOWN, "it is another project's by now"))
                continue
            item = self._item(resource)
            if excluded := others:
                item.exclude(
                    Verdict(Reason.OWNER_UNKNOWN, f"it was the project's, and its {type_.owner} is missing by now")
                )
            else:
                excluded = exclusions.apply(item)
            if item.state is State.KEPT:
                self.kept += 1
                yield item
                continue
            if self.deletable + self.blocked + len(pending) >= most:
                self.truncated = True
                break
            seen[resource.id] = others
            if excluded:
                self.blocked += 1
                yield item
                continue
            pending.append(item)
            if len(pending) == CHUNK:
                yield from self._settled(pending)
                pending.clear()
        yield from self._settled(pending)

    def _item(self, resource: Resource) -> Item:
        type_, row = self.context.type, resource.data
        if (item := self.known.get(resource.id)) is None:
            item = Item(resource, None, resource.id in self.announced)
        item.resource, item.size, item.objects = resource, type_.size_of(row), type_.objects_of(row)
        return item

    def _settled(self, items: Sequence[Item]) -> Iterator[Item]:
        """Yield items after the last filters: what others use, then what is not in the plan."""
        find_users, unplanned = self.find_users, self.exclusions.unplanned
        users = find_users([item.resource for item in items]) if find_users is not None and items else {}
        for item in items:
            why = unplanned(item.resource)
            if verdict := users.get(item.id):
                self.in_use_unplanned += bool(why)
            elif why:
                verdict = Verdict(Reason.NOT_PLANNED, why)
            if verdict:
                item.exclude(verdict)
                self.blocked += 1
            else:
                self.deletable += 1
            yield item


def inventory(
    context: SweepContext,
    reason: Reason = Reason.PRESENT,
    each_kept: bool = False,
    find_users: FindsUsers | None = None,
    remark: str = "",
    announced: Collection[str] = (),
) -> StepResult:
    """List what the project owns and change nothing.

    :param reason: reason of the resources that may be deleted
    :param each_kept: whether the result names each kept resource with the reason, for a plan
    :param find_users: see :class:`Listing`
    :param remark: what the message of each resource that may be deleted ends with
    :param announced: see :class:`Listing`
    """
    type_, project = context.type, context.project
    present: list[Leftover] = []
    blocked: list[Leftover] = []
    kept: list[Leftover] = []
    try:
        listing = Listing(context, Exclusions.of(context), find_users, announced)
        for item in listing.items():
            resource = item.resource
            if item.state is State.KEPT:
                if each_kept and len(kept) < context.most_listed:
                    kept.append(item.leftover())
            elif item.state is State.EXCLUDED:
                blocked.append(item.leftover(remedy_of(context, resource, item.verdict)))
            else:
                said = "; ".join(filter(None, (describe(type_, project, resource), remark)))
                remedy = type_.remedy_for(reason, project, resource)
                present.append(
                    Leftover(item.id, item.name, reason, said, size=item.size, objects=item.objects, remedy=remedy)
                )
    except Exception as error:  # every failed listing is "unknown", whatever the error
        return unknown(error)
    ids_digest = digest(leftover.id for leftover in present)
    return result_without_deletes(listing, [*blocked, *present], digest=ids_digest, kept_resources=tuple(kept))


def _telling(leftover: Leftover) -> tuple[bool, bool, bool, bool, Reason]:
    """Return the sort key of a leftover's reason: the lowest says most about what has to be done."""
    reason = leftover.reason
    aside = reason is Reason.NOT_SELECTED
    return aside, reason in _MERELY_THERE, reason is Reason.DELETING, reason not in ONLY_A_PERSON, reason


#: Reasons of deletes that do not end by themselves, beside which others may.
_NOT_MOVING = (Reason.STUCK, Reason.ERROR)


def _others(worst: Leftover, left: Sequence[Leftover]) -> str:
    """Return how many leftovers are stuck, or are still being deleted, if the most telling reason does not say so."""
    counts = collections.Counter(one.reason for one in left)
    stuck = counts[Reason.STUCK] if worst.reason is not Reason.STUCK else 0
    moving = counts[Reason.DELETING] if worst.reason in _NOT_MOVING or stuck else 0
    said = [f"{stuck} no longer move in their delete"] if stuck else []
    return "; ".join(said + ([f"{moving} more are being deleted"] if moving else []))


def with_leftovers(result: StepResult, left: Sequence[Leftover]) -> StepResult:
    """Return a result with these leftovers, and with the most telling reason of them."""
    worst = min(left, key=_telling, default=None)
    if worst is not None:
        unnamed = worst.reason is Reason.IN_USE and not worst.blocked_by
        result = dataclasses.replace(result, remedy=worst.remedy or (UNNAMED if unnamed else ""))
        if others := _others(worst, left):
            worst = dataclasses.replace(worst, message=f"{worst.message}; {others}" if worst.message else others)
    return dataclasses.replace(
        result,
        outcome=Outcome.LEFTOVERS if left else Outcome.CLEAR,
        reason=str(worst.reason) if worst else "",
        message=worst.message if worst and worst.reason not in _WITHOUT_MESSAGE else "",
        leftovers=tuple(left),
    )


def result_of(listing: Listing, left: Sequence[Leftover]) -> StepResult:
    """Return the result of a listing, with the most telling reason of its leftovers."""
    result = StepResult(
        outcome=Outcome.CLEAR,
        found=listing.deletable + listing.blocked,
        kept=listing.kept,
        in_use_unplanned=listing.in_use_unplanned,
        others_ignored=listing.foreign,
        absent=listing.absent,
    )
    return with_leftovers(result, left)


def result_without_deletes(listing: Listing, left: Sequence[Leftover], **values: Any) -> StepResult:
    """Return the result of a sweep that made no delete call.

    :param values: further fields of the result
    """
    result = dataclasses.replace(result_of(listing, left), **values)
    if listing.truncated:
        result = incomplete(listing.context, result)
    return informational(result) if listing.context.type.informational else result


def incomplete(context: SweepContext, result: StepResult) -> StepResult:
    """Return the result of a truncated listing: incomplete, and without a digest.

    If nothing that was read is selected, the result is unknown: what was not read may be selected.
    """
    aside = all(leftover.reason is Reason.NOT_SELECTED for leftover in result.leftovers)
    if aside and context.type_selected:
        text = f"the list is longer than [worker] most_listed, {context.most_listed}, and what was read is not selected"
        reason = str(Reason.BAD_ANSWER)
        return dataclasses.replace(
            result, outcome=Outcome.UNKNOWN, reason=reason, message=text, leftovers=(), digest=""
        )
    text = f"at least {len(result.leftovers)}, and there are more: the list is longer than [worker] most_listed"
    message = f"{text}; {result.message}" if result.message else text
    return dataclasses.replace(result, message=message, digest="", more=True)


def informational(result: StepResult) -> StepResult:
    """Return the result of an informational type, which never has leftovers."""
    named = tuple(dataclasses.replace(one, reason=Reason.INFORMATIONAL) for one in result.leftovers)
    said = (*result.kept_resources, *named)
    return dataclasses.replace(
        result, outcome=Outcome.CLEAR, reason="", message="", leftovers=(), in_use_unplanned=0, kept_resources=said
    )


def unknown(error: BaseException, found: int = 0) -> StepResult:
    """Return the result of a sweep that failed: what the project owns is not known."""
    remedy = error.remedy if isinstance(error, UnreadUse) else ""
    failure = classify(error)
    return StepResult(
        outcome=Outcome.UNKNOWN, reason=str(failure.reason), message=failure.message, found=found, remedy=remedy
    )
