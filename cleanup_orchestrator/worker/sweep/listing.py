"""Lists what a project owns of one type, sorted by what may be done with it.

It changes nothing.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from cleanup_orchestrator.core.plans import digest
from cleanup_orchestrator.core.reasons import ONLY_A_PERSON, UNNAMED, Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, StepResult
from cleanup_orchestrator.errors import BadAnswer, UnreadUse, classify
from cleanup_orchestrator.plugins import endings
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource, ResourceType, Verdict
from cleanup_orchestrator.worker.sweep.calls import describe, is_available, list_available
from cleanup_orchestrator.worker.sweep.context import SweepContext
from cleanup_orchestrator.worker.sweep.exclusions import Exclusions

#: Rows of one listing, of any owner, after which it counts as endless.
MOST_ROWS = 10_000_000

#: Repeated rows that are always accepted: pages shift while the list changes.
MOST_REPEATED = 1000

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
    """What one listing found, sorted by what may be done with it."""

    deletable: int = 0  #: number of resources that may be deleted
    blocked: list[Leftover] = dataclasses.field(default_factory=list)  #: the project's, and must not be deleted
    kept: int = 0  #: number of resources that a ``keep`` rule of the type keeps
    kept_watched: set[str] = dataclasses.field(default_factory=set)  #: ids in ``watch`` that are kept
    kept_resources: list[Leftover] | None = None  #: the kept resources, if the caller wants them
    in_use_unplanned: int = 0  #: number of blocked resources that others use, and that are not in the plan either
    foreign: int = 0  #: resources of other projects: the service ignored the owner filter, or has none
    truncated: bool = False  #: whether the project has more resources than were read
    absent: bool = False  #: whether the service says that it lacks the type


def inventory(
    context: SweepContext,
    reason: Reason = Reason.PRESENT,
    each_kept: bool = False,
    find_users: FindsUsers | None = None,
    remark: str = "",
) -> StepResult:
    """List what the project owns and change nothing.

    :param reason: reason of the resources that may be deleted
    :param each_kept: whether the result names each kept resource with the reason, for a plan
    :param find_users: see :func:`scan`
    :param remark: what the message of each resource that may be deleted ends with
    """
    type_, project = context.type, context.project
    present: list[Leftover] = []

    def note(resource: Resource) -> None:
        said, size = describe(type_, project, resource), type_.size_of(resource.data)
        said = "; ".join(filter(None, (said, remark)))
        remedy = type_.remedy_for(reason, project, resource)
        present.append(Leftover(resource.id, resource.name, reason, said, size=size, remedy=remedy))

    try:
        exclusions = Exclusions.of(context)
        kept: list[Leftover] | None = [] if each_kept else None
        listing = scan(context, exclusions, note, kept_resources=kept, find_users=find_users)
    except Exception as error:  # every failed listing is "unknown", whatever the error
        return unknown(error)
    result = result_of(listing, [*listing.blocked, *present])
    kept_resources = tuple(listing.kept_resources or ())
    result = dataclasses.replace(
        result,
        digest=digest(leftover.id for leftover in present),
        kept_resources=kept_resources,
    )
    if listing.truncated:
        result = incomplete(context, result)
    return informational(result) if type_.informational else result


def scan(
    context: SweepContext,
    exclusions: Exclusions,
    take: Callable[[Resource], None],
    *,
    kept_resources: list[Leftover] | None = None,
    find_users: FindsUsers | None = None,
    watch: Collection[str] = (),
    note_blocked: Callable[[Resource], None] = lambda _resource: None,
) -> Listing:
    """List page by page and pass each resource that may be deleted to ``take``.

    Only resources of the project that are not kept count for ``most_listed``; the first one beyond that ends the
    listing. A truncated listing is therefore never empty. Resources of other projects and kept resources are only
    counted: otherwise any user could make a list of all projects too long.

    :param kept_resources: receives each kept resource, with the reason
    :param find_users: is asked about the resources that nothing else protects
    :param watch: ids for which the listing records whether they are kept
    :param note_blocked: is called with each resource of the project that must not be deleted
    :raises BadAnswer: the answer is no list, or has no end
    """
    type_, project, most = context.type, context.project, context.most_listed
    listing = Listing(kept_resources=kept_resources)
    seen: set[str] = set()
    repeated = 0
    pending: list[tuple[Resource, str | None]] = []  # not protected, each with why it is not planned

    def block(resource: Resource, verdict: Verdict) -> None:
        said, remedy = (verdict.reason, verdict.message, verdict.blocked_by), remedy_of(context, resource, verdict)
        size = type_.size_of(resource.data)
        listing.blocked.append(Leftover(resource.id, resource.name, *said, size=size, remedy=remedy))
        note_blocked(resource)

    def settle() -> None:
        asked = [resource for resource, _unplanned in pending]
        users = find_users(asked) if find_users is not None and asked else {}
        for resource, unplanned in pending:
            if verdict := users.get(resource.id):
                block(resource, verdict)
                listing.in_use_unplanned += bool(unplanned)
            elif unplanned:
                block(resource, Verdict(Reason.NOT_PLANNED, unplanned))
            else:
                listing.deletable += 1
                take(resource)
        pending.clear()

    def begun_again() -> None:
        nonlocal repeated
        repeated -= len(seen)  # the rows so far come once more

    if not is_available(type_, context.connection, project):
        listing.absent = True
        return listing
    for number, resource in enumerate(list_available(type_, context.connection, project, begun_again)):
        if number >= MOST_ROWS:
            raise BadAnswer(f"the list of {type_.name} has no end: it has more than {MOST_ROWS} rows")
        if resource.id in seen:  # a page repeated while the list was changing
            repeated += 1
            if repeated > MOST_REPEATED + len(seen):
                raise BadAnswer(f"the list of {type_.name} has no end: it returns the same rows again and again")
            continue
        if len(seen) < most:
            seen.add(resource.id)
        verdict: Verdict | None = None
        if resource.owner != project.id:
            if not (stray := _stray(type_, resource, project)):
                listing.foreign += 1
                continue
            aside = exclusions.unselected(resource)
            verdict = Verdict(Reason.NOT_SELECTED, aside) if aside else Verdict(Reason.OWNER_UNKNOWN, stray)
        elif kept := next((why for why in (rule(resource, project) for rule in type_.keep) if why), None):
            listing.kept += 1
            if resource.id in watch:
                listing.kept_watched.add(resource.id)
            if kept_resources is not None and len(kept_resources) < most:
                size = type_.size_of(resource.data)
                kept_resources.append(Leftover(resource.id, resource.name, Reason.KEPT, str(kept), size=size))
            continue
        elif why := exclusions.unselected(resource):
            verdict = Verdict(Reason.NOT_SELECTED, why)
        elif why := exclusions.protected(resource):
            verdict = Verdict(Reason.PROTECTED, why)
        if listing.deletable + len(listing.blocked) + len(pending) >= most:
            listing.truncated = True
            break
        seen.add(resource.id)
        if verdict is not None:
            block(resource, verdict)
            continue
        pending.append((resource, exclusions.unplanned(resource)))
        if find_users is None or len(pending) == CHUNK:
            settle()
    settle()
    return listing


def _stray(type_: ResourceType, resource: Resource, project: ProjectDefinition) -> str:
    """Return why a resource may be the project's, although it does not name it.

    Empty: it is another project's.
    """
    if resource.owner is None:  # a shared listing contains rows that belong to no project
        return "" if type_.unfiltered else f"its {type_.owner} is missing: protected"
    if _letters(resource.owner) == _letters(project.id):  # the same id in another spelling
        return f"its {type_.owner} is {resource.owner}, and the project's id is {project.id}: protected"
    return ""


def _letters(id_: str) -> str:
    """Return an id without what its spellings differ in: hyphens, and the case of letters."""
    return id_.replace("-", "").lower()


def _telling(leftover: Leftover) -> tuple[bool, bool, bool, bool, Reason]:
    """Return the sort key of a leftover's reason: the lowest says most about what has to be done."""
    reason = leftover.reason
    aside = reason is Reason.NOT_SELECTED
    return aside, reason in _MERELY_THERE, reason is Reason.DELETING, reason not in ONLY_A_PERSON, reason


def remedy_of(context: SweepContext, resource: Resource, verdict: Verdict) -> str:
    """Return what a person can do about a verdict, by the hook or the type; empty: see its reason."""
    known = verdict.remedy or context.type.remedy_for(verdict.reason, context.project, resource)
    if known or verdict.reason is not Reason.FOREIGN:
        return known
    return endings.remedy(context.name, context.type, context.project.id, verdict.blocked_by, resource)


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
        found=listing.deletable + len(listing.blocked),
        kept=listing.kept,
        in_use_unplanned=listing.in_use_unplanned,
        facts={"others_ignored": listing.foreign} if listing.foreign else {},
        absent=listing.absent,
    )
    return with_leftovers(result, left)


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
