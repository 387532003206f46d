"""Rules 9 and 11: what the service deletes and drains. Everything in the test project is deleted.

The order keeps the damage of a wrong service small: deletes that must do nothing come first, and only with ids of the
test project. When a delete hit something that it must not, nothing else is deleted.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Collection

from cleanup_orchestrator.protocol import schemas
from cleanup_orchestrator.protocol.conformance.rules import Broken, Unchecked, Unreadable
from cleanup_orchestrator.protocol.conformance.subject import (
    Check,
    Outcomes,
    Response,
    Row,
    Send,
    Subject,
    deletable,
    path,
    wrong,
)
from cleanup_orchestrator.protocol.documents import ProblemType, ResourceType, State

#: Seconds between two reads of a list while a delete is under way: at first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


class Halted(Broken):
    """A delete hit something that it must not; nothing else is deleted."""


def _ids(subject: Subject, type_: ResourceType) -> set[str]:
    return {row["id"] for row in subject.rows(subject.project, type_.name)}


#: Rows that are neither gone nor under deletion, by type and id.
_Present = dict[str, dict[str, Row]]


def _present(subject: Subject) -> dict[str, _Present]:
    """Return what is present, by project: in the test project, and in the second one if it is named."""
    present = {}
    for project in filter(None, (subject.project, subject.options.other)):
        present[project] = {type_.name: _present_rows(subject.rows(project, type_.name)) for type_ in subject.types}
    return present


def _present_rows(rows: list[Row]) -> dict[str, Row]:
    return {row["id"]: row for row in rows if row.get("state", State.PRESENT) == State.PRESENT}


def _taken_along(subject: Subject, type_: ResourceType) -> set[str]:
    """Return the types that declare, directly or not, that they are deleted with a type."""
    taken, new = set[str](), {type_.name}
    while new:
        new = {one.name for one in subject.types if new.intersection(one.deleted_with)} - taken
        taken |= new
    return taken


def _lost(project: str, before: _Present, now: _Present) -> str:
    """Return which resource of a project is present no more, as text; empty: each one still is."""
    lost = ((name, id_) for name, rows in before.items() for id_ in sorted(rows.keys() - now[name].keys()))
    return next((f"{name} {id_!r} of project {project} is gone or under deletion" for name, id_ in lost), "")


class Deletes:
    """The deletes of a run; ``outcomes`` has what each check of rule 9 saw of them."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._present = _present(subject)
        self.outcomes = Outcomes()

    def _run(self, name: str, action: Callable[[ResourceType], str], type_: ResourceType) -> bool:
        """Run a part of the deletes of a type; return whether it did as it should.

        :raises Halted: a delete hit something that it must not, or a list does not show what it hit
        """
        try:
            seen = action(type_)
        except Unreadable as unreadable:
            # The list does not show what the delete hit.
            self.outcomes.broken.setdefault(name, []).append(str(unreadable))
            raise Halted(str(unreadable)) from unreadable
        except Broken as broken:
            self.outcomes.broken.setdefault(name, []).append(str(broken))
            if isinstance(broken, Halted):
                raise
            return False
        if seen:
            self.outcomes.seen.setdefault(name, []).append(seen)
        return True

    def run(self) -> None:
        """Delete everything in the test project, type by type."""
        try:
            for type_ in self.subject.types:
                self._run("delete-other-path", self._other_path, type_)
                self._run("delete-unknown-id", self._unknown_id, type_)
                self._run("delete-empty-id", self._empty_id, type_)
                self._run("delete-all-not-offered", self._all_not_offered, type_)
                self._run("delete-not-offered", self._not_offered, type_)
            for type_ in sorted(self.subject.capabilities.in_order(), key=operator.attrgetter("project_setting")):
                if type_.delete and not type_.deleted_with:
                    self._delete(type_)
            for type_ in self.subject.types:
                self._run("deleted-with", self._deleted_with, type_)
        except Halted as halted:
            self.subject.halted = str(halted)

    def _delete(self, type_: ResourceType) -> None:
        first = next((row for row in self._deletable(type_)), None)
        if first is None or not self._run("delete", self._one(first), type_):
            return
        self._run("delete-again", self._again(first), type_)
        if type_.delete_all and not self._run("delete-all", self._all, type_):
            return
        for row in self._deletable(type_):
            if not self._run("delete", self._one(row), type_):
                return

    # -- parts
    def _deletable(self, type_: ResourceType) -> list[Row]:
        rows = self.subject.rows(self.subject.project, type_.name)
        return [row for row in rows if deletable(row, self.subject.project)]

    def _sender(self, type_: ResourceType) -> Send:
        """Return who deletes: as the orchestrator does, a member deletes what the service acts on."""
        own = self.subject.options.member_project == self.subject.project
        member = self.subject.callers.member
        return member if type_.acts_on and own and member is not None else self.subject.callers.service

    def _expect_untouched(self, type_: ResourceType, answer: Response, but: Collection[str] = ()) -> None:
        """Stop everything if a resource of any type is gone, or is being deleted, that must not be.

        :param but: the ids of the resources that were to be deleted; empty: the request must do nothing
        :raises Halted: another one is gone
        """
        before, self._present = self._present, _present(self.subject)
        own, other = self.subject.project, self.subject.options.other
        if other and (lost := _lost(other, before[other], self._present[other])):
            self.outcomes.broken.setdefault("delete-neighbours", []).append(f"{answer.seen}, and {lost}")
            raise Halted(f"{answer.seen}, and {lost}")
        along = _taken_along(self.subject, type_) if but else set()
        for name, rows in before[own].items():
            if name == type_.name:
                stay = {id_: row for id_, row in rows.items() if id_ not in but}
            elif but:  # `keep` may mean that the resource goes with the one that is deleted
                stay = {} if name in along else {id_: row for id_, row in rows.items() if not row.get("keep")}
            else:
                stay = rows
            if lost := _lost(own, {name: stay}, self._present[own]):
                declare = f"; {name} does not declare that it is deleted with {type_.name}"
                raise Halted(f"{answer.seen}, and {lost}{declare if but and name != type_.name else ''}")
        for id_ in but:
            self._present[own][type_.name].pop(id_, None)
        if other and (number := sum(map(len, self._present[other].values()))):
            self.outcomes.seen["delete-neighbours"] = [f"the second project still has its {number} resources"]

    def _other_path(self, type_: ResourceType) -> str:
        rows = self._deletable(type_)
        if not rows or not type_.delete:
            return ""
        seen = ""
        for project in filter(None, (self.subject.unknown_project, self.subject.options.other)):
            answer = self.subject.ask("DELETE", path("projects", project, type_.name, rows[0]["id"]))
            self._expect_untouched(type_, answer)
            seen = self.subject.expect(answer, {404}, ProblemType.NOT_FOUND).seen
        return f"{seen}, and the resource is still there"

    def _unknown_id(self, type_: ResourceType) -> str:
        if not type_.delete:
            return ""
        where = path("projects", self.subject.project, type_.name, self.subject.unknown_id)
        answer = self.subject.ask("DELETE", where)
        self._expect_untouched(type_, answer)
        return self.subject.expect(answer, {404}, ProblemType.NOT_FOUND).seen

    def _empty_id(self, type_: ResourceType) -> str:
        answer = self.subject.ask("DELETE", path("projects", self.subject.project, type_.name, ""))
        self._expect_untouched(type_, answer)
        return self.subject.expect(answer, {400, 404, 405}).seen

    def _all_not_offered(self, type_: ResourceType) -> str:
        if type_.delete_all:
            return ""
        answer = self.subject.ask("DELETE", path("projects", self.subject.project, type_.name))
        self._expect_untouched(type_, answer)
        return self.subject.expect(answer, {405}, ProblemType.NOT_SUPPORTED).seen

    def _not_offered(self, type_: ResourceType) -> str:
        rows = self._deletable(type_)
        if type_.delete or not rows:
            return ""
        answer = self.subject.ask("DELETE", path("projects", self.subject.project, type_.name, rows[0]["id"]))
        self._expect_untouched(type_, answer)
        return self.subject.expect(answer, {405}, ProblemType.NOT_SUPPORTED).seen

    def _one(self, row: Row) -> Callable[[ResourceType], str]:
        """Return the delete of one resource."""

        def delete(type_: ResourceType) -> str:
            where = path("projects", self.subject.project, type_.name, row["id"])
            answer = self.subject.ask("DELETE", where, self._sender(type_))
            self._expect_untouched(type_, answer, but={row["id"]})
            if answer.status == 409:
                kinds = ProblemType.IN_USE, ProblemType.PROTECTED
                problem = answer.document.get("type") if isinstance(answer.document, dict) else None
                self.subject.expect(answer, {409}, kinds[problem == kinds[1]])
                if row["id"] not in _ids(self.subject, type_):
                    raise Broken(f"{answer.seen}, and the resource is gone")
                return ""
            self.subject.expect(answer, {202, 204})
            if answer.status == 202:
                self.subject.expect(self.subject.ask("DELETE", where, self._sender(type_)), {202, 404})
            self._expect_gone(type_, {row["id"]}, answer)
            self.subject.not_found("GET", where)
            return f"{answer.seen}, and the resource is gone"

        return delete

    def _again(self, row: Row) -> Callable[[ResourceType], str]:
        """Return the second delete of a resource."""

        def delete(type_: ResourceType) -> str:
            if row["id"] in _ids(self.subject, type_):
                return ""  # the first delete was refused
            where = path("projects", self.subject.project, type_.name, row["id"])
            answer = self.subject.ask("DELETE", where, self._sender(type_))
            return self.subject.expect(answer, {404}, ProblemType.NOT_FOUND).seen

        return delete

    def _all(self, type_: ResourceType) -> str:
        expected = {row["id"] for row in self._deletable(type_)}
        if not expected:
            return ""
        answer = self.subject.ask("DELETE", path("projects", self.subject.project, type_.name))
        self._expect_untouched(type_, answer, but=expected)
        self.subject.expect(answer, {202, 204})
        self._expect_gone(type_, expected, answer)
        return f"{answer.seen}, and {len(expected)} resources are gone"

    def _expect_gone(self, type_: ResourceType, ids: set[str], answer: Response) -> None:
        """Wait until resources are gone; after 204 they have to be gone at once.

        :raises Broken: they are still there, or are not in the state ``deleting`` meanwhile
        """
        until = time.monotonic() + (self.subject.options.wait if answer.status == 202 else 0)
        pause = _FIRST_PAUSE
        while left := [row for row in self.subject.rows(self.subject.project, type_.name) if row["id"] in ids]:
            shown = f"{type_.name} {left[0]['id']!r} is still in the list"
            if answer.status != 202:
                raise Broken(f"{answer.seen}, and {shown}")
            if present := [row for row in left if row.get("state") != State.DELETING]:
                raise Broken(f"{answer.seen}, and {present[0]['id']!r} is listed without the state `deleting`")
            if time.monotonic() >= until:
                raise Broken(f"{answer.seen}, and after {self.subject.options.wait:g} seconds {shown}")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _deleted_with(self, type_: ResourceType) -> str:
        """Check that what is deleted with its parent is gone when the parents are."""
        if not type_.deleted_with or not self.subject.before(type_.name):
            return ""
        parents = {one.name: _ids(self.subject, one) for one in self.subject.types if one.name in type_.deleted_with}
        if not any(self.subject.before(name) for name in parents):
            return ""
        rows = self.subject.rows(self.subject.project, type_.name)
        for row in rows:
            named = {name: id_ for name, id_ in row.get("part_of", {}).items() if name in parents}
            left = any(id_ in parents[name] for name, id_ in named.items()) if named else any(parents.values())
            if deletable(row, self.subject.project) and not left:
                raise Broken(f"{type_.name} {row['id']!r} is still in the list; what it is deleted with is gone")
        gone = len(self.subject.before(type_.name)) - len(rows)
        return f"{gone} resources of the type {type_.name} are gone with what they are deleted with" if gone > 0 else ""


def _deletes(subject: Subject) -> Outcomes:
    """Return the outcomes of the deletes of the run; the first check makes the deletes."""
    if subject.deletes is None:
        if subject.halted:
            raise Unchecked(f"deletes stopped: {subject.halted}")
        for type_ in subject.types:
            subject.before(type_.name)
        deletes = Deletes(subject)
        subject.deletes = deletes.outcomes
        deletes.run()
    return subject.deletes


def _of_deletes(name: str, missing: str) -> Callable[[Subject], str]:
    """Return the function of a check of the deletes.

    :param missing: what to do when the check saw nothing
    """

    def result(subject: Subject) -> str:
        outcomes = _deletes(subject)
        if broken := outcomes.broken.get(name):
            raise Broken("; ".join(broken))
        if seen := outcomes.seen.get(name):
            return seen[-1]
        raise Unchecked(f"deletes stopped: {subject.halted}" if subject.halted else missing)

    return result


# -- rule 11
def _drained(subject: Subject, project: str) -> bool:
    answer = subject.expect(subject.ask("GET", path("drains", project)), {200})
    if problem := wrong(answer.document, schemas.DRAIN):
        raise Broken(f"{answer.seen}, and the document is not valid: {problem}")
    if answer.document["project_id"] != project:
        raise Broken(f"{answer.seen}, and the document is about {answer.document['project_id']!r}")
    return bool(answer.document["drained"])


def _drain_read(subject: Subject) -> str:
    where = path("drains", subject.unknown_project)
    if not subject.capabilities.drain:
        return subject.expect(subject.ask("GET", where), {404, 405}).seen
    if _drained(subject, subject.unknown_project):
        raise Broken(f"GET {where}: a project that does not exist is drained")
    return f"GET {where}: not drained"


def _drain(subject: Subject) -> str:
    if not subject.capabilities.drain:
        raise Unchecked("the capabilities do not offer `drain`")
    project, where = subject.project, path("drains", subject.project)
    if _drained(subject, project):
        raise Unchecked(f"the test project is drained already; send DELETE {where}")
    before = _present(subject)
    try:
        for _ in range(2):
            answer = subject.expect(subject.ask("PUT", where), {204})
        if not _drained(subject, project):
            raise Broken(f"{answer.seen}, and GET {where} says that the project is not drained")
        for owner, present in _present(subject).items():
            if lost := _lost(owner, before[owner], present):
                subject.halted = f"{answer.seen}, and {lost}"
                raise Broken(subject.halted)
        if _drained(subject, subject.unknown_project):
            raise Broken(f"{answer.seen}, and project {subject.unknown_project} is drained, too")
    finally:
        ends = [subject.ask("DELETE", where) for _ in range(2)]
    for answer in ends:
        subject.expect(answer, {204})
    if _drained(subject, project):
        raise Broken(f"{ends[-1].seen}, and GET {where} says that the project is drained")
    return f"PUT, GET and DELETE {where}: the project was drained, and no resource was touched"


_HIT = "data of another project, or data that no one asked to delete, would be lost"
_LEFT = "the project would be called empty while resources of it are left, or its deletion would never end"
_CREATE = "create resources of each type in the test project"
READS = (
    Check(
        11,
        "drain-read",
        "The drain of a project that was never drained can be read, if the service offers drains.",
        "the orchestrator could not see whether the service refuses new resources",
        _drain_read,
    ),
)
DRAINS = (
    Check(
        11,
        "drain",
        "A drain can be set, read and removed, each twice, and touches nothing that exists.",
        "users would go on creating resources while the project is deleted, or stay locked out after a cancel",
        _drain,
        writes=True,
    ),
)


def _check(name: str, sentence: str, harm: str, missing: str) -> Check:
    return Check(9, name, sentence, harm, _of_deletes(name, missing), writes=True)


DELETES = (
    _check(
        "delete-other-path",
        "A delete below another project's path deletes nothing and is answered with 404.",
        _HIT,
        _CREATE,
    ),
    _check(
        "delete-unknown-id",
        "The delete of a resource that does not exist deletes nothing and is answered with 404.",
        "a delete of a wrong id would look like a success, and the resource would be left",
        "no type can be deleted",
    ),
    _check(
        "delete-empty-id",
        "A delete with an empty id deletes nothing and is answered with 4xx.",
        "a client that lost an id would delete everything of the type",
        "the service has no types",
    ),
    _check(
        "delete-all-not-offered",
        "DELETE of a list is answered with 405 unless the type declares `delete_all`.",
        _HIT,
        "each type declares `delete_all`",
    ),
    _check(
        "delete-not-offered",
        "DELETE of a resource is answered with 405 if the type declares that no call deletes it.",
        "the report would send a person to delete what a call deletes",
        "no type with `delete` false has resources in the test project",
    ),
    _check(
        "delete",
        "After 204 a resource is gone; after 202 it is `deleting` until it is gone.",
        _LEFT,
        f"{_CREATE} that nothing uses",
    ),
    _check(
        "delete-again",
        "The delete of a resource that is gone is answered with 404; while it is `deleting`, also with 202.",
        "a delete that is repeated after a crash would not end",
        f"{_CREATE} that nothing uses",
    ),
    _check(
        "delete-all",
        "DELETE of a list deletes what the project owns, and neither `keep` nor `protected`.",
        _LEFT,
        "no type with `delete_all` has two resources in the test project",
    ),
    _check(
        "delete-neighbours",
        "No delete touches the second project.",
        _HIT,
        "pass --other-project ID with resources of each type",
    ),
    _check(
        "deleted-with",
        "What is deleted with its parent is gone when the parent is.",
        "the orchestrator never deletes these resources itself: the deletion would never end",
        "no type with `deleted_with` has resources in the test project",
    ),
)
