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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from openstack.connection import Connection

from cleanup_orchestrator.core.plans import digest
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, StepResult, Token
from cleanup_orchestrator.errors import (
    BadAnswer,
    CleanupError,
    Failure,
    NoJanitor,
    OnHold,
    Stopped,
    WriteRefused,
    classify,
)
from cleanup_orchestrator.plugins import admin
from cleanup_orchestrator.plugins.base import (
    Action,
    ProjectDefinition,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Run,
    Sdk,
    Verdict,
    pick,
    to_row,
)
from cleanup_orchestrator.worker.sweep.keep_marks import SET_BY, KeepMarks

#: Told the ids that are about to be deleted, before the first call: the intent goes into the journal.
RecordIntent = Callable[[Sequence[Resource]], None]

#: Returns a connection with the janitor's token for the project; raises when there is none.
Janitor = Callable[[], Connection]


def no_janitor() -> Connection:
    """Raise: there is no janitor.

    :raises NoJanitor: always
    """
    raise NoJanitor("there is no janitor here")


#: Resources that one sweep deletes at most. So many are in memory as they were listed; of all others, id and name.
MOST = 5000

#: Resources of one type and project that a listing has in memory, by default; see ``[worker] most_listed``.
LISTED = 500_000

#: Rows of one listing, whosever, after which it counts as one without an end.
ROWS = 10_000_000

#: Rows that may come again without more ado: pages shift while the list changes.
_AGAIN = 1000

#: Resources between two journal lines of what is about to be deleted.
_CHUNK = 100

NO_MARKS = KeepMarks()

#: What a leftover's reason says least with: it is there.
_MERELY_THERE = frozenset({Reason.PRESENT, Reason.QUEUED})


#: Of a resource that is not there any more when its delete comes; no leftover ever has it.
_MISSING = Verdict(Reason.PRESENT, "gone already")


@dataclasses.dataclass(slots=True)
class _Listing:
    """What a listing found, sorted by what may be done with it."""

    ours: int = 0  #: may be deleted
    left: list[Leftover] = dataclasses.field(default_factory=list)  #: must not be deleted
    kept: int = 0
    watched: set[str] = dataclasses.field(default_factory=set)  #: ids of those kept that were asked about
    kept_resources: list[Leftover] | None = None  #: those that are kept, where somebody wants to know
    others: int = 0  #: another project's: the service ignored the owner filter, or there is none
    cut: bool = False  #: there is more of the project's than was read


@dataclasses.dataclass(slots=True)
class _Attempt:
    """What became of the deletes."""

    tried: set[str] = dataclasses.field(default_factory=set)  #: ids
    missing: set[str] = dataclasses.field(default_factory=set)  #: ids of those of which the service knew nothing
    refused: dict[str, Verdict] = dataclasses.field(default_factory=dict)  #: by id
    slow_down: Verdict | None = None  #: there was no turn for a call in time: no more of them now


#: Says why a resource must not be deleted, if so.
Forbids = Callable[[Resource], "str | None"]
#: Says who else uses a resource, if somebody does.
Asks = Callable[[Resource], "Verdict | None"]


@dataclasses.dataclass(frozen=True, slots=True)
class RelatedType:
    """A type whose resources go along with those that are swept, or take them along: ``part_of``, ``deleted_with``."""

    name: str  #: for people: ``subnet``, or ``compute.server`` of another service
    type: ResourceType
    project: ProjectDefinition  #: with the options of its service
    whole: bool  #: whether it takes them along; else it goes along
    attribute: str  #: of the part: the whole's id; empty: not declared, so that any may belong to any
    planned: Collection[str] | None = None  #: ids that the deletion's plan has of it; none: it is bound to no plan


def listed(type_: ResourceType, connection: Connection, project: ProjectDefinition) -> Iterator[Resource]:
    """Yield what is listed of a type, whosever, page by page; nothing where the service says that it lacks it.

    :raises Exception: when it cannot be listed
    """
    if type_.available is not None and not _available(type_, connection, project):
        return
    for row in _rows(type_, connection, project):
        yield type_.resource(row, project)


def look(
    type_: ResourceType,
    connection: Connection,
    project: ProjectDefinition,
    reason: Reason = Reason.PRESENT,
    marks: KeepMarks = NO_MARKS,
    kin: Sequence[RelatedType] = (),
    most: int = LISTED,
    planned: Collection[str] | None = None,
    each_kept: bool = False,
    ask: bool = False,
) -> StepResult:
    """List what the project owns and touch nothing.

    :param kin: types whose keep marks count for this one, too
    :param most: resources; of a longer list no more is read, and the result says so
    :param planned: ids in the deletion's plan, all others are unplanned; none: it is bound to no plan
    :param each_kept: whether to say of each resource that is kept why, for a plan
    :param ask: whether to ask of each who else uses it, as far as its type can tell
    """
    present: list[Leftover] = []

    def note(resource: Resource) -> None:
        present.append(Leftover(resource.id, resource.name, reason, _described(type_, resource, project)))

    def used(resource: Resource) -> Verdict | None:
        return type_.used(connection, project, resource) if type_.used is not None and ask else None

    try:
        forbids = _forbids(type_, connection, project, marks, kin)
        unplanned = _unplanned(type_, connection, project, planned, kin)
        spare: list[Leftover] | None = [] if each_kept else None
        listing = _list(type_, connection, project, forbids, unplanned, note, most, spare, used)
    except Exception as error:  # every failed listing is "unknown", whatever went wrong in it
        return _unknown(error)
    result = _result(listing, [*listing.left, *present])
    kept_resources = tuple(listing.kept_resources or ())
    result = dataclasses.replace(
        result, digest=digest(leftover.id for leftover in present), kept_resources=kept_resources
    )
    if listing.cut:
        result = _more(result)
    return _for_the_report(result) if type_.informational else result


def delete(
    type_: ResourceType,
    connection: Connection,
    project: ProjectDefinition,
    record_intent: RecordIntent = lambda _: None,
    parallel: int = 4,
    seconds: float = math.inf,
    attempt: int = 1,
    marks: KeepMarks = NO_MARKS,
    kin: Sequence[RelatedType] = (),
    most: int = LISTED,
    stuck: Collection[str] = (),
    planned: Collection[str] | None = None,
    janitor: Janitor = no_janitor,
) -> StepResult:
    """Delete what the project owns, then list again; the second listing is the truth.

    Where there is much, it does a part of it. As long as that made something go, its reason is ``queued``: the rest is
    for the next sweep, which may follow as soon as others had their turn. Of a list that is longer than ``most`` the
    first ones are deleted; what the second listing, as short, does not have any more is taken for gone if its service
    accepted the delete. A service that lists what it does not know makes no progress so.

    :param parallel: delete calls at once
    :param seconds: after which no further delete is begun, counted from the end of the first listing
    :param attempt: a later one takes them in another order: what refuses must not stand before the rest for ever
    :param marks: what keeps a resource, as listed and as read again right before its delete
    :param kin: types whose keep marks count for this one, too
    :param most: resources; of a longer list no more is read, and the result says so
    :param stuck: ids of what an ordinary delete has left: under force, its type's ``force`` is tried on these
    :param planned: ids in the deletion's plan: no other is deleted; none: it is bound to no plan
    :param janitor: returns the connection with which a type that has ``acts_on`` is deleted
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
        forbids = _forbids(type_, connection, project, marks, kin)
        unplanned = _unplanned(type_, connection, project, planned, kin)
        first = _list(type_, connection, project, forbids, unplanned, collect, most)
    except Exception as error:
        return _unknown(error)
    if not names or type_.delete is None:
        left = [
            *first.left,
            *(Leftover(i, n, Reason.REFUSED, "it cannot be deleted by API") for i, n in names.items()),
        ]
        result = _more(_result(first, left)) if first.cut else _result(first, left)
        return _for_the_report(result) if type_.informational else result
    if attempt > 1:
        chance.shuffle(batch)
    attempted, held = _Attempt(), ""
    if type_.deleted_with:
        attempted.tried.update(names)
    else:
        try:
            until = time.monotonic() + seconds
            _delete_all(
                type_, connection, project, forbids, batch, record_intent, parallel, until, attempted, stuck, janitor
            )
        except OnHold as error:  # what went until then is to be known: it is listed again
            held = classify(error).message
        except (Stopped, WriteRefused) as error:
            return _unknown(error)
    part = len(attempted.tried) < len(names)
    batch.clear()
    accepted = Verdict(
        Reason.IN_USE if type_.deleted_with else Reason.DELETING,
        f"goes with its {' or '.join(type_.deleted_with)}" if type_.deleted_with else "the delete was accepted",
    )
    untried = Verdict(Reason.QUEUED, "its turn comes") if part else Verdict(Reason.PRESENT, "it came meanwhile")
    there: list[Leftover] = []

    def still_there(resource: Resource) -> None:
        verdict = attempted.refused.get(resource.id) or (accepted if resource.id in attempted.tried else untried)
        said = _described(type_, resource, project) if type_.informational else verdict.message
        there.append(Leftover(resource.id, resource.name, verdict.reason, said, verdict.blocked_by))

    try:
        second = _list(type_, connection, project, forbids, unplanned, still_there, most, watch=names)
    except Exception as error:
        return _unknown(error, found=len(names) + len(first.left))
    left = [*second.left, *there]
    remaining = {leftover.id for leftover in left} | second.watched
    known: Collection[str] = names  # ids of which absence from the second listing says that they are gone
    if second.cut:
        known = () if type_.deleted_with else attempted.tried - attempted.missing - attempted.refused.keys()
    gone = tuple((i, n) for i, n in names.items() if i in known and i not in remaining)
    result = dataclasses.replace(_result(first, left), deleted=gone, kept=second.kept)
    if second.cut:
        result = _more(result)
    if held and left:
        return dataclasses.replace(result, reason=str(Reason.ON_HOLD), message=held)
    if type_.informational:
        return _for_the_report(result)
    if attempted.slow_down is not None and left:
        return dataclasses.replace(result, reason=str(Reason.RATE_LIMITED), message=attempted.slow_down.message)
    if (part or second.cut) and gone and left:
        at_least = "at least " if second.cut else ""
        message = f"{len(gone)} gone, {at_least}{len(left)} to go: others had their turn"
        return dataclasses.replace(result, reason=str(Reason.QUEUED), message=message)
    return result


def halt(
    type_: ResourceType,
    connection: Connection,
    project: ProjectDefinition,
    record: Callable[[Resource], None],
    marks: KeepMarks = NO_MARKS,
    kin: Sequence[RelatedType] = (),
    most: int = LISTED,
    planned: Collection[str] | None = None,
) -> StepResult:
    """Stop what runs of the project, but for what a deletion would not delete; then list again.

    Clear only if nothing of it runs any more: what is busy may run again, and what was refused does. Its leftovers are
    none of the report's, so the message alone names them.

    :param record: writes down what is about to be stopped; raises when it must not be
    """
    running: list[Resource] = []
    refused: dict[str, Verdict] = {}
    stopped: list[tuple[str, str]] = []

    def collect(resource: Resource) -> None:
        if _run(type_, resource.data) in (Run.ON, Run.BUSY):
            running.append(resource)

    def listing() -> None:
        running.clear()
        if _list(type_, connection, project, forbids, unplanned, collect, most).cut:
            raise BadAnswer(f"there are more than {most} of {type_.name}, and whether the others run is not known")

    try:
        forbids = _forbids(type_, connection, project, marks, kin)
        unplanned = _unplanned(type_, connection, project, planned, kin)
        listing()
        found = len(running)
        for resource in tuple(running):
            try:
                if _run(type_, resource.data) is Run.ON and _stop(
                    type_, connection, project, forbids, resource, record
                ):
                    stopped.append((resource.id, resource.name))
            except (Stopped, WriteRefused):
                raise
            except Refused as error:
                refused[resource.id] = error.verdict
            except Exception as error:
                failure = classify(error)
                if failure.status not in (404, 410):  # else it is gone, or the listing tells
                    refused[resource.id] = Verdict(failure.reason, failure.message)
        listing()
    except Exception as error:
        return dataclasses.replace(_unknown(error), facts={"stopped": stopped})
    waits = Verdict(Reason.IN_USE, "something is being done to it: it may run afterwards")
    left = [(one, refused.get(one.id, waits)) for one in running]
    said = [f"{one.id} ({one.name}): {verdict.message}" for one, verdict in left[:10]]
    more = [f"and {len(left) - 10} more"] if len(left) > 10 else []
    return StepResult(
        Outcome.UNKNOWN if left else Outcome.CLEAR,
        str(min(verdict.reason for _, verdict in left)) if left else "",
        f"not stopped yet: {'; '.join([*said, *more])}" if left else "",
        found=found,
        facts={"stopped": stopped},
    )


def start(type_: ResourceType, connection: Connection, project: ProjectDefinition, id_: str) -> str:
    """Start what :func:`halt` stopped, and return a sentence; what somebody else has seen to is left as it is.

    :raises CleanupError: it cannot be started now; the message names it
    """
    what, halt_, show = f"{type_.name} {id_}", type_.halt, type_.show
    if halt_ is None or show is None:
        raise CleanupError(f"{what} was stopped, and its plugin does not say any more how it is started")
    try:
        try:
            current = type_.resource(_row(show, connection, project, Resource(id_, "", project.id)), project)
        except Exception as error:
            if classify(error).status not in (404, 410):
                raise
            if any(one.id == id_ for one in listed(type_, connection, project)):  # whoever answered, it is not gone
                raise
            return f"{what} is gone"
        what += f" ({current.name})"
        if current.id != id_ or current.owner != project.id:
            return f"{what} belongs to {current.owner or 'nobody'} by now: left alone"
        run = _run(type_, current.data)
        if run is Run.BUSY:
            raise CleanupError("something is being done to it")
        if run is not Run.OFF:
            return f"{what} is not stopped any more: left as it is"
        _act(halt_.start, connection, project, current)
    except Stopped:
        raise
    except Exception as error:
        raise CleanupError(f"{what} is stopped, and not started: {classify(error).message}") from error
    return f"started {what}"


def _stop(
    type_: ResourceType,
    connection: Connection,
    project: ProjectDefinition,
    forbids: Forbids,
    resource: Resource,
    record: Callable[[Resource], None],
) -> bool:
    """Stop one resource that was listed as running, if it still is and still is the project's; whether it was told."""
    if type_.show is None:
        raise BadAnswer(f"a {type_.name} cannot be read again, so it is not stopped")
    current = type_.resource(_row(type_.show, connection, project, resource), project)
    if current.id != resource.id or current.owner != project.id:
        return False
    if forbids(current) or _run(type_, current.data) is not Run.ON:
        return False
    record(current)
    assert type_.halt is not None
    _act(type_.halt.stop, connection, project, current)
    return True


def _run(type_: ResourceType, row: Row) -> Run:
    assert type_.halt is not None
    return Run(type_.halt.state(row))


def _more(result: StepResult) -> StepResult:
    """Return the result of a list that was not read to its end: there is more than it has, so that it has no digest."""
    text = f"at least {len(result.leftovers)}, and there are more: the list is longer than [worker] most_listed"
    message = f"{text}; {result.message}" if result.message else text
    return dataclasses.replace(result, message=message, digest="", more=True)


def _result(listing: _Listing, left: Sequence[Leftover]) -> StepResult:
    # What is merely there says less than any other reason.
    worst = min(left, key=lambda leftover: (leftover.reason in _MERELY_THERE, leftover.reason), default=None)
    return StepResult(
        outcome=Outcome.LEFTOVERS if left else Outcome.CLEAR,
        reason=str(worst.reason) if worst else "",
        message=worst.message if worst and worst.reason is not Reason.PRESENT else "",
        found=listing.ours + len(listing.left),
        kept=listing.kept,
        leftovers=tuple(left),
        facts={"others_ignored": listing.others} if listing.others else {},
    )


def _for_the_report(result: StepResult) -> StepResult:
    """Return the result of an informational type: what is there is named, and nothing is left over."""
    named = tuple(dataclasses.replace(one, reason=Reason.INFORMATIONAL) for one in result.leftovers)
    said = (*result.kept_resources, *named)
    return dataclasses.replace(result, outcome=Outcome.CLEAR, reason="", message="", leftovers=(), kept_resources=said)


def _unknown(error: BaseException, found: int = 0) -> StepResult:
    failure = classify(error)
    return StepResult(outcome=Outcome.UNKNOWN, reason=str(failure.reason), message=failure.message, found=found)


def _list(
    type_: ResourceType,
    connection: Connection,
    project: ProjectDefinition,
    forbids: Forbids,
    unplanned: Forbids,
    take: Callable[[Resource], None],
    most: int,
    kept_resources: list[Leftover] | None = None,
    asks: Asks = lambda _resource: None,
    watch: Collection[str] = (),
) -> _Listing:
    """List page by page, and hand over each resource that may be deleted: here none is kept, nor a newcomer.

    Only what is the project's, and not kept, counts for ``most``: with the first row beyond that, it ends. It is never
    empty then. What is others', or kept, is merely counted: else anybody could make a list of all projects too long.

    :param spared: gets each resource that is kept, with the reason
    :param asks: who else uses a resource that nothing else protects
    :param watch: ids of which it is to be known whether they are kept
    :raises BadAnswer: what came is no listing, or one without an end
    """
    listing = _Listing(kept_resources=kept_resources)
    if type_.available is not None and not _available(type_, connection, project):
        return listing
    seen: set[str] = set()
    again = 0
    for number, row in enumerate(_rows(type_, connection, project)):
        resource = type_.resource(row, project)
        if number >= ROWS:
            raise BadAnswer(f"the list of {type_.name} comes to no end: it has more than {ROWS} rows")
        if resource.id in seen:  # a page repeated while the list was changing
            again += 1
            if again > _AGAIN + len(seen):
                raise BadAnswer(f"the list of {type_.name} comes to no end: it gives the same rows again and again")
            continue
        if len(seen) < most:
            seen.add(resource.id)
        verdict: Verdict | None
        if resource.owner != project.id:
            if not (stray := _stray(type_, resource, project)):
                listing.others += 1
                continue
            verdict = Verdict(Reason.OWNER_UNKNOWN, stray)
        elif kept := next((why for why in (rule(resource, project) for rule in type_.keep) if why), None):
            listing.kept += 1
            if resource.id in watch:
                listing.watched.add(resource.id)
            if kept_resources is not None and len(kept_resources) < most:
                kept_resources.append(Leftover(resource.id, resource.name, Reason.KEPT, str(kept)))
            continue
        elif why := forbids(resource):
            verdict = Verdict(Reason.PROTECTED, why)
        elif (verdict := asks(resource)) is None and (why := unplanned(resource)):
            verdict = Verdict(Reason.NOT_PLANNED, why)
        if listing.ours + len(listing.left) >= most:
            listing.cut = True
            break
        seen.add(resource.id)
        if verdict is not None:
            said = (verdict.reason, verdict.message, verdict.blocked_by)
            listing.left.append(Leftover(resource.id, resource.name, *said))
        else:
            listing.ours += 1
            take(resource)
    return listing


def _stray(type_: ResourceType, resource: Resource, project: ProjectDefinition) -> str:
    """Say why a resource that does not name the project may be its own all the same; empty: it is another's."""
    if resource.owner is None:  # a shared listing holds ownerless rows that are nobody's business
        return "" if type_.unfiltered else f"its {type_.owner} is missing: protected"
    if resource.owner.replace("-", "") == project.id.replace("-", ""):  # the same id, spelt otherwise
        return f"its {type_.owner} is {resource.owner}, and the project's id is {project.id}: protected"
    return ""


def _forbids(
    type_: ResourceType,
    connection: Connection,
    project: ProjectDefinition,
    marks: KeepMarks,
    kin: Sequence[RelatedType],
) -> Forbids:
    """Return what says why a resource must not be deleted: its type's rules, its keep mark, or one of its kin.

    A delete takes along what is part of the resource, so a mark on the part keeps the whole; and a part that is taken
    out of a marked whole is not kept either. The kin are listed once for a sweep.

    :raises Exception: when they cannot be listed: unknown is not unmarked
    """
    by_part: dict[str, str] = {}  # id of a whole with a marked part; empty: any may have it
    wholes: list[tuple[str, dict[str, str]]] = []  # attribute with the whole's id, and the marked ones
    for one in kin:
        if not marks.may_be_on(one.type):
            continue
        if one.type.token is not type_.token:
            by_part[""] = f"whether its {one.name} bears a keep mark cannot be seen with the same token"
            continue
        marked = _marked(one, connection, marks)
        if one.whole:
            wholes.append((one.attribute, {r.id: f"its {one.name} {r.id} is kept: {why}" for r, why in marked}))
            continue
        for resource, why in marked:
            text = f"its {one.name} {resource.id}, which would go with it, is kept: {why}"
            by_part[_id(resource, one.attribute)] = text

    def forbids(resource: Resource) -> str | None:
        if why := next((str(why) for why in (rule(resource, project) for rule in type_.protect) if why), None):
            return why
        if why := marks.why(type_, resource.data):
            return f"{why}: {SET_BY}"
        for attribute, kept in wholes:
            id_ = _id(resource, attribute)
            if id_ in kept or (kept and not id_):
                return kept.get(id_) or next(iter(kept.values()))
        return by_part.get(resource.id) or by_part.get("")

    return forbids


def _unplanned(
    type_: ResourceType,
    connection: Connection,
    project: ProjectDefinition,
    planned: Collection[str] | None,
    kin: Sequence[RelatedType],
) -> Forbids:
    """Return what says why a resource is not in the deletion's plan: it came later, or a part of it did.

    :param planned: ids; none: the deletion is bound to no plan, and nothing is outside of it
    :raises Exception: when the parts cannot be listed: unknown is not planned
    """
    if planned is None:
        return lambda _resource: None
    by_part: dict[str, str] = {}  # id of a whole with a part that came later; empty: any may have it
    for one in kin:
        if one.whole or one.type.project_setting:
            continue
        if one.type.token is not type_.token:
            by_part[""] = f"whether its {one.name} is in the plan cannot be seen with the same token"
            continue
        for resource in _unplanned_related(one, connection):
            text = f"its {one.name} {resource.id}, which would go with it, is not in the plan"
            by_part[_id(resource, one.attribute)] = text

    def unplanned(resource: Resource) -> str | None:
        if resource.id not in planned:
            return "it is not in the plan: it came later, or was not to be deleted then"
        return by_part.get(resource.id) or by_part.get("")

    return unplanned


def _unplanned_related(kin: RelatedType, connection: Connection) -> list[Resource]:
    """Return the project's resources of another type that would be deleted, and are not in the plan."""
    type_, project = kin.type, kin.project
    if type_.available is not None and not _available(type_, connection, project):
        return []
    resources = (type_.resource(row, project) for row in _rows(type_, connection, project))
    ours = (resource for resource in resources if resource.owner == project.id)
    new = (resource for resource in ours if resource.id not in (kin.planned or ()))
    return [resource for resource in new if not any(rule(resource, project) for rule in type_.keep)]


def _id(resource: Resource, attribute: str) -> str:
    return str(pick(resource.data, attribute) or "") if attribute else ""


def _marked(kin: RelatedType, connection: Connection, marks: KeepMarks) -> list[tuple[Resource, str]]:
    """Return the marked resources of another type with their marks, whosever they are."""
    type_, project = kin.type, kin.project
    if type_.available is not None and not _available(type_, connection, project):
        return []
    resources = (type_.resource(row, project) for row in _rows(type_, connection, project))
    return [(resource, why) for resource in resources if (why := marks.why(type_, resource.data))]


def _available(type_: ResourceType, connection: Connection, project: ProjectDefinition) -> bool:
    """Return the service's word whether it has such resources at all.

    :raises BadAnswer: a hook that forgot its answer has not said that there is nothing
    """
    assert type_.available is not None
    available = type_.available(connection, project)
    if not isinstance(available, bool):
        raise BadAnswer(f"whether {type_.name} is there was answered with {type(available).__name__}")
    return available


def _rows(type_: ResourceType, connection: Connection, project: ProjectDefinition) -> Iterable[Row]:
    """Return what is listed of a type.

    :raises BadAnswer: it can be walked over, but is no listing: an empty one would look like nothing
    """
    # With a token of the project its list shows the project's, whoever asks; and that token proves nothing of ours.
    if type_.proof is not None and type_.token is Token.ADMIN:
        admin.prove(type_.proof, connection, project)
    rows = (
        type_.list.rows(connection, project) if isinstance(type_.list, Sdk | Rest) else type_.list(connection, project)
    )
    if isinstance(rows, str | bytes | Mapping):
        raise BadAnswer(f"expected rows of {type_.name}, got {type(rows).__name__}")
    return rows


def _described(type_: ResourceType, resource: Resource, project: ProjectDefinition) -> str:
    return str(type_.describe(resource, project) or "") if type_.describe else ""


def _delete_all(
    type_: ResourceType,
    connection: Connection,
    project: ProjectDefinition,
    forbids: Forbids,
    resources: Sequence[Resource],
    record_intent: RecordIntent,
    parallel: int,
    until: float,
    attempt: _Attempt,
    stuck: Collection[str],
    janitor: Janitor,
) -> None:
    """Delete one after the other; write down in ``attempt`` what becomes of them.

    :param until: the time (monotonic) after which no further one is begun
    :raises Stopped: at the first cancel or lost lease; Held: at the first that is withheld for now
    """
    stop: list[CleanupError] = []

    def one(resource: Resource) -> None:
        if stop or attempt.slow_down or time.monotonic() >= until:
            return
        attempt.tried.add(resource.id)
        try:
            verdict = _delete_one(type_, connection, project, forbids, resource, resource.id in stuck, janitor)
        except (Stopped, WriteRefused) as error:
            attempt.tried.discard(resource.id)
            stop.append(error)
            return
        if verdict is _MISSING:
            attempt.missing.add(resource.id)
        elif verdict is not None:
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
            record_intent(chunk)
            list(run(one, chunk))
    if stop:
        raise stop[0]


def _delete_one(
    type_: ResourceType,
    connection: Connection,
    project: ProjectDefinition,
    forbids: Forbids,
    resource: Resource,
    forced: bool,
    janitor: Janitor,
) -> Verdict | None:
    """Delete one resource; ``None`` means accepted, :data:`_MISSING` that its service does not know it."""
    called: Action | None = type_.show
    last = type_.force if forced and type_.force is not None else type_.delete
    prepare = () if last is type_.force else type_.prepare
    assert last is not None
    current = resource
    try:
        if type_.show is not None:
            current = type_.resource(_row(type_.show, connection, project, resource), project)
            if current.id != resource.id or current.owner != project.id:
                owner = current.owner or "nobody"
                return Verdict(Reason.OWNER_UNKNOWN, f"it belonged to {owner} right before its delete: left alone")
            # It may have been shared, marked, or taken into use by its service, since it was listed.
            if why := forbids(current):
                return Verdict(Reason.PROTECTED, why)
        deleting = connection
        if type_.acts_on and not project.gone and (type_.acts_on_if is None or type_.acts_on_if(current)):
            called = None
            deleting = janitor()  # before anything is changed: without it, nothing can be done for this resource
        for action in prepare:
            called = action
            _act(action, connection, project, resource)
        called = last
        try:
            _act(last, deleting, project, resource)
        except (Stopped, WriteRefused, Refused):
            raise
        except Exception as error:
            if type_.unblock is None or not type_.unblock(connection, deleting, project, resource, error):
                raise
            _act(last, deleting, project, resource)
    except (Stopped, WriteRefused):
        raise
    except Refused as refused:
        return refused.verdict
    except Exception as error:
        failure = classify(error)
        if called is None:
            return Verdict(failure.reason, failure.message)
        if failure.status in (404, 410) and called in (type_.show, last):
            return _MISSING  # the second listing will tell. Of a breaker, it would say nothing of the resource
        return _explain(type_, connection, project, resource, failure)
    return None


def _act(action: Action, connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    if isinstance(action, Sdk | Rest):
        action.call(connection, project, resource)
    else:
        action(connection, project, resource)


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
