"""Finds out what needs the resources of a sweep: other projects, and the leftovers of other types.

See ``ResourceType.used_by``, ``contains`` and ``needed_by``.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from cleanup_orchestrator.core import storable
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.errors import Stopped, UnreadUse, WriteRefused, classify
from cleanup_orchestrator.plugins import endings
from cleanup_orchestrator.plugins.base import (
    MAX_BLOCKERS,
    FindsUses,
    NeededBy,
    OneByOne,
    ProjectDefinition,
    Resource,
    Use,
    Verdict,
    blocker,
    exceptions,
    in_catalog,
)
from cleanup_orchestrator.worker.sweep.calls import show
from cleanup_orchestrator.worker.sweep.context import OtherType, SweepContext
from cleanup_orchestrator.worker.sweep.listing import FindsUsers

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Leftovers of one type that a rule is asked about at most: it may make a call for each.
MAX_NEEDING = 200

#: The reasons of verdicts that other projects, or the operator, decide. A plan names only these: what the project's own
#: resources use is deleted before.
OF_OTHERS = frozenset({Reason.FOREIGN, Reason.PROTECTED})

_Verdicts: TypeAlias = "Mapping[str, Verdict]"
_Part: TypeAlias = "Sequence[Resource]"
_Hook: TypeAlias = "tuple[Use | None, FindsUses]"  # ``None``: the use of what is deleted with a resource
#: Verdicts that do not count, because an admin has decided so, by the id of the resource that is deleted.
Overruled: TypeAlias = "dict[str, list[Verdict]]"
#: Makes a call for each of these parts of the resources, maybe several at once, and returns the results.
Spread: TypeAlias = "Callable[[Callable[[_Part], _Verdicts], Iterable[_Part]], Iterable[_Verdicts]]"


def before_delete(
    context: SweepContext,
    resources: Sequence[Resource],
    spread: Spread = map,
    overruled: Overruled | None = None,
    contents_stay: Collection[str] = (),
) -> dict[str, Verdict]:
    """Return a verdict, by id, on each resource that must not be deleted because it is used.

    If a use cannot be read, each resource that was asked about gets a verdict.

    :param spread: makes the calls for single resources
    :param overruled: receives the verdicts that do not count, because an admin has decided so
    :param contents_stay: ids of resources whose delete leaves what they contain
    :raises Stopped: the guard withholds the calls
    :raises WriteRefused: a hook made a write call
    """

    def unread(verdict: Verdict, part: _Part) -> _Verdicts:
        return {resource.id: verdict for resource in part}

    overruled = {} if overruled is None else overruled
    hooks: list[_Hook] = [(use, use.find) for use in _uses(context) if use.find is not None]
    hooks += _inside(context, overruled, contents_stay=contents_stay)
    verdicts = _found(context, resources, hooks, overruled, unread, spread)
    for id_ in overruled.keys() & verdicts.keys():  # it is left all the same
        del overruled[id_]
    return verdicts


def _is_overruled(context: SweepContext, id_: str, verdict: Verdict) -> bool:
    """Whether an admin has decided that a resource is deleted although it is used as a verdict says.

    The decision is about the users that the admin was shown. A user that is not among them, and a verdict that does not
    name all users, keep the resource.
    """
    decided = context.decided_uses.get(f"{context.name}:{storable.resource_id(id_)}")
    if not decided or verdict.reason is not Reason.FOREIGN:
        return False
    users = {(user.get("type", ""), user.get("id", "")) for user in verdict.blocked_by}
    return 0 < len(verdict.blocked_by) < MAX_BLOCKERS and users <= decided


def _unread(context: SweepContext, use: Use | None, error: Exception) -> Verdict:
    """Return the verdict on resources of which a use cannot be read.

    The remedy of its reason would be about the service of the resource. Another one does not answer.
    """
    failure, by = classify(error), use.by if use is not None else ()
    users = f" ({', '.join(by)})" if by else ""
    remedy = "an operator makes the call that the message names work: the delete is tried again automatically"
    if by:
        entries = ",".join(f"{context.name}:{name}" for name in by)
        remedy += (
            f". To delete it without this check, also where it harms others: [protection] ignored_uses = {entries}"
        )
    text = f"whether other projects use it could not be read{users}: {failure.message}"
    return Verdict(failure.reason, text, remedy=remedy)


def foreseen(context: SweepContext, resources: Sequence[Resource]) -> dict[str, Verdict]:
    """Return a verdict, by id, on each resource that a cascade would leave because of other projects.

    :raises UnreadUse: a use cannot be read
    :raises Stopped: the guard withholds the calls
    :raises WriteRefused: a hook made a write call
    """

    def unread(verdict: Verdict, _part: _Part) -> _Verdicts:
        raise UnreadUse(verdict.message, verdict.reason, verdict.remedy)

    hooks = [*_foreseeing(context, plan=True), *_inside(context, {}, plan=True)]
    return _found(context, resources, hooks, {}, unread)


def may_refuse(context: SweepContext) -> str:
    """Return what a plan says of a resource of which its service alone knows whether others use it.

    Empty: a plan looks for all uses for which the service refuses the delete.
    """
    unseen = [by for use in _uses(context) if not (use.find or use.foresee or use.unseen) for by in use.by]
    named = ", ".join(dict.fromkeys(unseen))
    return f"may be refused: its service decides, if another project's {named} uses it" if named else ""


def _foreseeing(context: SweepContext, plan: bool) -> Iterator[_Hook]:
    asked = (use for use in _uses(context) if use.planned or not plan)
    return ((use, _of_others(hook)) for use in asked if (hook := use.foresee or use.find) is not None)


def _of_others(hook: FindsUses) -> FindsUses:
    """Return a hook without the verdicts on what the project itself uses, which must not hide those of other hooks."""

    def find(connection: Connection, project: ProjectDefinition, resources: Sequence[Resource]) -> _Verdicts:
        verdicts = hook(connection, project, resources)
        return {id_: verdict for id_, verdict in verdicts.items() if verdict.reason in OF_OTHERS}

    return find


def _uses(context: SweepContext) -> Iterator[Use]:
    """Yield the uses of the type that ``[protection] ignored_uses`` does not name."""
    for use in context.type.used_by or ():
        if not {f"{context.name}:{name}" for name in use.by} <= context.ignored_uses:
            yield use


def _found(
    context: SweepContext,
    resources: Sequence[Resource],
    hooks: Iterable[_Hook],
    overruled: Overruled,
    unread: Callable[[Verdict, _Part], _Verdicts] | None = None,
    spread: Spread = map,
) -> dict[str, Verdict]:
    """Return the first verdict on each resource that counts.

    :param overruled: receives those that do not
    :param unread: is called with the verdict on resources of which a use cannot be read; ``None``: the error is raised
    """

    def ask(use: Use | None, hook: FindsUses, part: _Part) -> _Verdicts:
        try:
            return hook(context.connection, context.project, part)
        except (Stopped, WriteRefused):
            raise
        except Exception as error:
            if unread is None:
                raise
            return unread(_unread(context, use, error), part)

    by_id: dict[str, Verdict] = {}

    def note(verdicts: _Verdicts) -> None:
        for id_, verdict in verdicts.items():
            if _is_overruled(context, id_, verdict):
                overruled.setdefault(id_, []).append(verdict)
            else:
                by_id[id_] = verdict

    for use, hook in hooks:
        rest = [resource for resource in resources if resource.id not in by_id]
        if isinstance(hook, OneByOne):
            for one in spread(functools.partial(ask, use, hook), [[resource] for resource in rest]):
                note(one)
        elif rest:
            note(ask(use, hook, rest))
    return by_id


def _inside(
    context: SweepContext, overruled: Overruled, plan: bool = False, contents_stay: Collection[str] = ()
) -> Iterator[_Hook]:
    """Yield the hook that finds the uses of what is deleted with a resource; see ``ResourceType.contains``.

    What an admin has decided about the whole holds for each of these.
    """
    contains = context.type.composition.contains
    if contains is None:
        return

    def check(_connection: object, _project: object, whole: Resource) -> Verdict | None:
        """Return the verdict on the first contained resource that has one."""
        if whole.id in contents_stay:
            return None
        ids: dict[str, list[str]] = collections.defaultdict(list)
        for name, id_ in dict.fromkeys(contains(context.connection, context.project, whole)):
            ids[name].append(id_)
        for name, some in ids.items():
            other = context.find_type(name)
            ignored: Overruled = {}
            by_id = _of_other(context, whole, other, some, ignored, plan) if other is not None else {}
            for verdicts in ignored.values():
                overruled.setdefault(whole.id, []).extend(verdicts)
            for id_, verdict in by_id.items():
                return dataclasses.replace(verdict, message=f"it contains {name} {id_}: {verdict.message}")
        return None

    yield None, OneByOne(check)


def _of_other(
    context: SweepContext, whole: Resource, other: OtherType, ids: Sequence[str], overruled: Overruled, plan: bool
) -> dict[str, Verdict]:
    """Return verdicts on resources of another type: what protects or marks them, and what other projects use.

    What the project's own resources use is deleted with the whole. What is another project's is left out: the whole is
    deleted with a token that cannot delete it.
    """
    type_ = other.type
    name = f"{context.name}:{storable.resource_id(whole.id)}"
    decided = context.decided_uses.get(name, frozenset())
    sweep = SweepContext(
        type_,
        other.connection,
        other.project,
        name=other.name,
        ignored_uses=context.ignored_uses,
        decided_uses={f"{other.name}:{storable.resource_id(id_)}": decided for id_ in ids},
    )
    hooks = list(_foreseeing(sweep, plan))
    if not type_.protect and not hooks and not context.keep_marks.may_be_on(type_):
        return {}
    if not in_catalog(other.connection, other.name.rpartition(".")[0]):  # nothing can delete there
        return {}
    resources = []
    verdicts: dict[str, Verdict] = {}
    for id_ in ids:
        resource = Resource(id_, "", other.project.id)
        if type_.show is not None:
            try:
                resource = show(type_, other.connection, other.project, resource)
            except (exceptions.NotFoundException, exceptions.BadRequestException):  # it is gone, or no id of this type
                continue
        if resource.owner != other.project.id:
            continue
        resources.append(resource)
        why = next(filter(None, (rule(resource, other.project) for rule in type_.protect)), None)
        if why := why or context.keep_marks.why(type_, resource.data):
            verdicts[id_] = Verdict(Reason.PROTECTED, why)
    rest = {resource.id: resource for resource in resources if resource.id not in verdicts}
    for id_, verdict in _found(sweep, list(rest.values()), hooks, overruled).items():
        what = (other.name, type_, other.project.id, verdict.blocked_by, rest[id_], name)
        verdicts[id_] = dataclasses.replace(verdict, remedy=verdict.remedy or endings.remedy(*what))
    return verdicts


def needed_by(
    rules: Mapping[str, NeededBy],
    connection: Connection,
    project: ProjectDefinition,
    left: Mapping[str, Collection[str] | None],
) -> FindsUsers:
    """Return a function that says which leftover needs a resource.

    :param rules: the rules of the swept type, by the full name of the other type
    :param left: the ids of the leftovers, by the full name of their type; ``None``: they are not known, so that each
        resource counts as needed
    :raises Exception: a rule failed: what is needed is not known
    """
    checks = []
    for name, ids in left.items():
        if ids is None:
            verdict = Verdict(Reason.IN_USE, f"{name} may need it: its leftovers are not known")
            return lambda resources: {resource.id: verdict for resource in resources}
        if ids:
            checks.append((name, rules[name](connection, project, ids)))

    def users(resources: Sequence[Resource]) -> dict[str, Verdict]:
        verdicts: dict[str, Verdict] = {}
        for resource, (name, needs) in itertools.product(resources, checks):
            if resource.id not in verdicts and (id_ := needs(resource)):
                text = f"{name} {id_} may need it, and is still there"
                verdicts[resource.id] = Verdict(Reason.IN_USE, text, (blocker(name, id_, project.id),))
        return verdicts

    return users
