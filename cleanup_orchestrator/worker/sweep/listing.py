"""Lists what a project owns of one type, sorted by what may be done with it.

It changes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

from cleanup_orchestrator.core.plans import digest
from cleanup_orchestrator.core.reasons import ONLY_A_PERSON, Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, StepResult
from cleanup_orchestrator.errors import BadAnswer, classify
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource, ResourceType, Verdict
from cleanup_orchestrator.worker.sweep.calls import describe, list_resources
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

#: Returns who else uses a resource; ``None`` if no other user is known.
FindsUsers = Callable[[Resource], Verdict | None]


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


def inventory(
    context: SweepContext, reason: Reason = Reason.PRESENT, each_kept: bool = False, find_users: bool = False
) -> StepResult:
    """List what the project owns and change nothing.

    :param reason: reason of the resources that may be deleted
    :param each_kept: whether the result names each kept resource with the reason, for a plan
    :param find_users: whether to ask for each resource who else uses it, if its type can tell
    """
    type_, project = context.type, context.project
    present: list[Leftover] = []

    def note(resource: Resource) -> None:
        said, size = describe(type_, project, resource), type_.size_of(resource.data)
        present.append(Leftover(resource.id, resource.name, reason, said, size=size))

    def used(resource: Resource) -> Verdict | None:
        return type_.used(context.connection, project, resource) if type_.used is not None and find_users else None

    try:
        exclusions = Exclusions.of(context)
        kept: list[Leftover] | None = [] if each_kept else None
        listing = scan(context, exclusions, note, kept_resources=kept, find_users=used)
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
    find_users: FindsUsers = lambda _resource: None,
    watch: Collection[str] = (),
    note_blocked: Callable[[Resource], None] = lambda _resource: None,
) -> Listing:
    """List page by page and pass each resource that may be deleted to ``take``.

    Only resources of the project that are not kept count for ``most_listed``; the first one beyond that ends the
    listing. A truncated listing is therefore never empty. Resources of other projects and kept resources are only
    counted: otherwise any user could make a list of all projects too long.

    :param kept_resources: receives each kept resource, with the reason
    :param find_users: is asked about each resource that nothing else protects
    :param watch: ids for which the listing records whether they are kept
    :param note_blocked: is called with each resource of the project that must not be deleted
    :raises BadAnswer: the answer is no list, or has no end
    """
    type_, project, most = context.type, context.project, context.most_listed
    listing = Listing(kept_resources=kept_resources)
    seen: set[str] = set()
    repeated = 0
    for number, resource in enumerate(list_resources(type_, context.connection, project)):
        if number >= MOST_ROWS:
            raise BadAnswer(f"the list of {type_.name} has no end: it has more than {MOST_ROWS} rows")
        if resource.id in seen:  # a page repeated while the list was changing
            repeated += 1
            if repeated > MOST_REPEATED + len(seen):
                raise BadAnswer(f"the list of {type_.name} has no end: it returns the same rows again and again")
            continue
        if len(seen) < most:
            seen.add(resource.id)
        verdict: Verdict | None
        unplanned: str | None = None
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
        else:
            unplanned = exclusions.unplanned(resource)
            verdict = find_users(resource) or (Verdict(Reason.NOT_PLANNED, unplanned) if unplanned else None)
        if listing.deletable + len(listing.blocked) >= most:
            listing.truncated = True
            break
        seen.add(resource.id)
        if verdict is not None:
            said = (verdict.reason, verdict.message, verdict.blocked_by)
            listing.blocked.append(Leftover(resource.id, resource.name, *said, size=type_.size_of(resource.data)))
            note_blocked(resource)
            listing.in_use_unplanned += bool(unplanned) and verdict.reason is not Reason.NOT_PLANNED
        else:
            listing.deletable += 1
            take(resource)
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


def with_leftovers(result: StepResult, left: Sequence[Leftover]) -> StepResult:
    """Return a result with these leftovers, and with the most telling reason of them."""
    worst = min(left, key=_telling, default=None)
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
    failure = classify(error)
    return StepResult(outcome=Outcome.UNKNOWN, reason=str(failure.reason), message=failure.message, found=found)
