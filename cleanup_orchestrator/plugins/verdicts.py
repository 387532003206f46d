"""Verdicts that several plugins return: what blocks a delete, and its owner."""

from __future__ import annotations

import collections
import datetime
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import MAX_BLOCKERS as MAX_BLOCKERS
from cleanup_orchestrator.plugins.values import ProjectDefinition, Refused, Resource, Verdict

if TYPE_CHECKING:
    from openstack.connection import Connection


#: Types that create resources in other services for the project. While one exists, it recreates what is deleted, or
#: fails because it is gone. In ``Service.after`` and ``ResourceType.after``.
CONTROLLERS = ("orchestration.stack", "container-infrastructure-management.cluster")

#: A resource that blocks a delete: ``{"type", "id", "owner"}``, and ``name`` if it has one.
Blocker = Mapping[str, str]


def blocker(type_: str, id_: object, owner: object, name: object = "") -> dict[str, str]:
    """Return a blocker.

    :param type_: full name: ``network.port``
    :param owner: id of the owning project; empty or ``None`` when the service shows none
    :param name: its name, if the row that names the blocker has it; a call for the name alone is not worth it
    """
    fields = {"type": type_, "id": str(id_), "owner": str(owner or "")}
    return {**fields, "name": str(name)} if name else fields


def blocking_verdict(
    project: ProjectDefinition, blockers: Iterable[Blocker], say: Callable[[bool, Sequence[Blocker]], str]
) -> Verdict | None:
    """Return a verdict that names what blocks a delete, ``None`` when nothing does.

    If any blocker belongs to another project, the verdict names the foreign ones alone.

    :param say: returns the sentence; takes whether the named blockers are foreign, and all of the named ones
    """
    all_blockers = list(blockers)
    foreign = [blocker for blocker in all_blockers if blocker["owner"] != project.id]
    named = foreign or all_blockers
    if not named:
        return None
    more = f" ({len(named) - MAX_BLOCKERS} more)" if len(named) > MAX_BLOCKERS else ""
    reason = Reason.FOREIGN if foreign else Reason.IN_USE
    return Verdict(reason, say(bool(foreign), named) + more, tuple(named[:MAX_BLOCKERS]))


def verdict_naming(project: ProjectDefinition, what: str, blockers: Iterable[Blocker]) -> Verdict | None:
    """Return a verdict that names what blocks a delete, ``None`` if nothing.

    It reads: "<what> another project's port".

    :param what: the beginning of the sentence: ``it is used by``
    """

    def say(foreign: bool, named: Sequence[Blocker]) -> str:
        kinds = " and ".join(sorted({each["type"].rpartition(".")[2].replace("_", " ") for each in named}))
        return f"{what} {'another project' if foreign else 'the project'}'s {'' if foreign else 'own '}{kinds}"

    return blocking_verdict(project, blockers, say)


def foreign_users(project: ProjectDefinition, what: str, users: Iterable[tuple[str, Blocker]]) -> dict[str, Verdict]:
    """Return a verdict, by id, on each resource that resources of other projects use.

    :param what: the beginning of the sentence: ``it is used by``
    :param users: what uses a resource, each with the id of the resource; those of the project itself do not count
    """
    foreign: dict[str, dict[tuple[str, str], Blocker]] = collections.defaultdict(dict)
    for id_, user in users:
        if user["owner"] != project.id:
            foreign[id_][user["type"], user["id"]] = user
    verdicts = ((id_, verdict_naming(project, what, named.values())) for id_, named in foreign.items())
    return {id_: verdict for id_, verdict in verdicts if verdict is not None}


class OneByOne:
    """Finds the uses of resources one by one, by the first verdict of several checks on each."""

    def __init__(self, *checks: Callable[[Connection, ProjectDefinition, Resource], Verdict | None]) -> None:
        """Take the checks: hooks that only read, and return a verdict or raise :class:`Refused`."""
        self._checks = checks

    def __call__(
        self, connection: Connection, project: ProjectDefinition, resources: Sequence[Resource]
    ) -> dict[str, Verdict]:
        """Return the verdicts by id."""
        verdicts = ((one.id, self._verdict(connection, project, one)) for one in resources)
        return {id_: verdict for id_, verdict in verdicts if verdict is not None}

    def _verdict(self, connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
        for check in self._checks:
            try:
                verdict = check(connection, project, resource)
            except Refused as refused:
                verdict = refused.verdict
            if verdict is not None:
                return verdict
        return None


def refuse(verdict: Verdict | None) -> None:
    """Refuse a delete if there is a verdict against it.

    :raises Refused: with the verdict
    """
    if verdict is not None:
        raise Refused(verdict)


def refuse_foreign(project: ProjectDefinition, what: str, blockers: Iterable[Blocker]) -> None:
    """Refuse a delete that would affect resources of other projects.

    :param what: the beginning of the sentence: ``deleting it would delete``
    :raises Refused: naming every blocker that is not the project's
    """
    refuse(verdict_naming(project, what, [b for b in blockers if b["owner"] != project.id]))


def may_be_id(text: str) -> bool:
    """Return whether a text has the form of the ids that services assign.

    A user may write any other one where a resource is named, such as the ``device_id`` of a port. No call is made with
    that: there is no such resource, and some texts have no path, so that the question would fail for ever.
    """
    return re.fullmatch(r"[0-9A-Za-z_-]+", text) is not None


def is_past(time: object, seconds: float) -> bool:
    """Return whether a time of a service is at least so long ago; false if it cannot be read.

    :param time: in ISO 8601, in UTC unless it says otherwise
    """
    try:
        at = datetime.datetime.fromisoformat(str(time))
    except ValueError:
        return False
    if at.tzinfo is None:
        at = at.replace(tzinfo=datetime.UTC)
    return (datetime.datetime.now(datetime.UTC) - at).total_seconds() >= seconds
