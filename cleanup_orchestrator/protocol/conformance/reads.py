"""Rules 3 to 8: what the service says of itself, and what it lists and shows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cleanup_orchestrator.protocol import schemas
from cleanup_orchestrator.protocol.checks import contradictions
from cleanup_orchestrator.protocol.conformance.rules import Broken, Unchecked, Unreadable
from cleanup_orchestrator.protocol.conformance.subject import Check, Row, Send, Subject, path, without_owner, wrong
from cleanup_orchestrator.protocol.documents import ProblemType

#: The most rows of a type that are shown one by one.
_SHOWN = 20
#: The most rows that are read with one row a page; longer lists get larger pages.
_ONE_BY_ONE = 50
#: Fields that may change between a list and a show without a lie.
_VOLATILE = ("state", "description", "used_by")


@contextlib.contextmanager
def _breaks(rule: int) -> Iterator[None]:
    """Report a document that cannot be read because of a rule as a broken rule.

    :raises Broken: instead of ``Unreadable``
    """
    try:
        yield
    except Unreadable as problem:
        if problem.rule == rule:
            raise Broken(str(problem)) from problem
        raise


def _some(number: int, seen: str) -> str:
    """Return what was seen of the resources of the test project.

    :raises Unchecked: it has none
    """
    if not number:
        raise Unchecked("the test project has no resources; create some of each type in it")
    return seen


def _some_of_other(number: int, seen: str) -> str:
    """Return what was seen of the resources of the second project.

    :raises Unchecked: it has none
    """
    if not number:
        raise Unchecked("the project of --other-project has no resources; create some of each type in it")
    return seen


# -- rule 3
def _document(subject: Subject) -> str:
    with _breaks(3):
        document = subject.capabilities
    names = ", ".join(type_.name for type_ in document.types)
    return f"the service {document.service_type} has the types {names or '(none)'}"


def _service_type(subject: Subject) -> str:
    declared, catalog = subject.capabilities.service_type, subject.options.service_type
    if not catalog:
        raise Unchecked("the catalog has no endpoint like this URL; pass --service-type TYPE")
    if declared != catalog:
        raise Broken(f"GET / names the service type {declared!r}; the catalog has {catalog!r}")
    return f"GET / and the catalog name {declared!r}"


def _type_names(subject: Subject) -> str:
    if problem := next(contradictions(subject.capabilities), ""):
        raise Broken(f"GET /: {problem}")
    return f"{len(subject.types)} types, each reference leads to a type"


# -- rule 4
def _owners(subject: Subject) -> str:
    number = 0
    for project in filter(None, (subject.project, subject.options.other)):
        for type_ in subject.types:
            rows = subject.before(type_.name) if project == subject.project else subject.rows(project, type_.name)
            for row in rows:
                if row.get("project_id") != project:
                    owner = repr(row["project_id"]) if "project_id" in row else "missing"
                    where = path("projects", project, type_.name)
                    raise Broken(f"GET {where}: in the row {row['id']!r} project_id is {owner}, not {project!r}")
            number += len(rows)
    return _some(number, f"{number} rows, each with the project that was asked for")


def _apart(subject: Subject) -> str:
    number = 0
    for type_ in subject.types:
        theirs = {row["id"]: row for row in subject.rows(subject.other, type_.name)}
        for row in subject.before(type_.name):
            both = theirs.get(row["id"], {})
            # A row that says another owner than the one asked for is found by the check of owners.
            if both and both.get("project_id") == subject.other and row.get("project_id") == subject.project:
                raise Broken(
                    f"GET {path('projects', subject.project, type_.name)} and "
                    f"GET {path('projects', subject.other, type_.name)} both have the row {row['id']!r}"
                )
        number += len(theirs)
    return _some_of_other(number, f"{number} rows of the second project are not in the lists of the first")


# -- rule 5
def _down(subject: Subject) -> Send:
    if subject.callers.without_backend is None:
        raise Unchecked("pass --without-backend URL of an instance whose backend does not answer")
    return subject.callers.without_backend


def _lists_without_backend(subject: Subject) -> str:
    send, noticed = _down(subject), []
    for type_ in subject.types:
        expected = {row["id"] for row in subject.before(type_.name)}
        answer = subject.ask("GET", path("projects", subject.project, type_.name), send)
        if answer.status != 200:
            noticed.append(subject.expect(answer, {503}, ProblemType.UNAVAILABLE).seen)
            continue
        listed = {row["id"] for row in subject.rows(subject.project, type_.name, send=send)}
        if lost := sorted(expected - listed):
            raise Broken(f"{answer.seen}, without {len(lost)} of {len(expected)} rows, for example {lost[0]!r}")
    if not noticed:
        raise Unchecked("each list of the instance is complete: is its backend really down, and has each type rows?")
    return f"{len(noticed)} of {len(subject.types)} lists were answered with 503; the others are complete"


def _shows_without_backend(subject: Subject) -> str:
    send, number = _down(subject), 0
    for type_ in subject.types:
        for row in subject.before(type_.name)[:1]:
            answer = subject.ask("GET", path("projects", subject.project, type_.name, row["id"]), send)
            if answer.status != 200:
                subject.expect(answer, {503}, ProblemType.UNAVAILABLE)
            number += 1
    return _some(number, f"{number} resources are not reported as gone while the backend does not answer")


# -- rule 6
def _pages(subject: Subject) -> str:
    number = 0
    for type_ in subject.types:
        with _breaks(6):
            number += len(subject.before(type_.name))
    return f"{len(subject.types)} lists were read to their ends: {number} rows"


def _small_pages(subject: Subject) -> str:
    seen = ""
    for type_ in subject.types:
        expected = [row["id"] for row in subject.before(type_.name)]
        if len(expected) < 2:
            continue
        limit = max(1, len(expected) // _ONE_BY_ONE)
        try:
            paged = [row["id"] for row in subject.rows(subject.project, type_.name, limit)]
        except Unreadable as problem:
            raise Broken(str(problem)) from problem
        what = f"GET {path('projects', subject.project, type_.name, query={'limit': limit})} and the pages after it"
        if lost := sorted(set(expected) - set(paged)):
            raise Broken(f"{what} do not have {lost[0]!r}, which one large page has")
        if more := sorted(set(paged) - set(expected)):
            raise Broken(f"{what} have {more[0]!r}, which one large page does not have")
        seen = f"{what} have the same {len(paged)} rows as one large page"
    if not seen:
        raise Unchecked("no list has two rows; create more resources in the test project")
    return seen


def _limits(subject: Subject) -> str:
    for type_ in subject.types:
        for limit in ("0", "-1", "9999999", "x", ""):
            where = path("projects", subject.any_project, type_.name) + f"?limit={limit}"
            subject.expect(subject.ask("GET", where), {400}, ProblemType.BAD_REQUEST)
    return "the limits 0, -1, 9999999, x and an empty one were answered with 400"


def _marker(subject: Subject) -> str:
    seen = "the service has no types"
    for type_ in subject.types:
        where = path("projects", subject.any_project, type_.name, query={"marker": f"unknown {subject.unknown_id}"})
        seen = subject.expect(subject.ask("GET", where), {400}, ProblemType.BAD_REQUEST).seen
    return seen


# -- rule 7
def _unknown_project(subject: Subject) -> str:
    for type_ in subject.types:
        where = path("projects", subject.unknown_project, type_.name)
        with _breaks(6):
            page = subject.page(subject.unknown_project, type_.name)
        if page["resources"]:
            raise Broken(f"GET {where}: a project that does not exist has {len(page['resources'])} rows")
        if page["next"] is not None:
            raise Broken(f"GET {where}: the first page is empty, and `next` is {page['next']!r}")
    return f"{len(subject.types)} lists of a project that does not exist are empty, and `next` is null"


# -- rule 8
def _lasting(row: Row) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in _VOLATILE}


def _shows(subject: Subject) -> str:
    number = 0
    for type_ in subject.types:
        for row in subject.before(type_.name)[:_SHOWN]:
            if row.get("project_id", subject.project) != subject.project:
                continue  # rule 4 is broken
            where = path("projects", subject.project, type_.name, row["id"])
            answer = subject.expect(subject.ask("GET", where), {200})
            if problem := wrong(answer.document, without_owner(schemas.RESOURCE)):
                raise Broken(f"{answer.seen}, and the resource is not valid: {problem}")
            listed, shown = _lasting(row), _lasting(answer.document)
            for name in sorted(listed.keys() | shown.keys()):
                if listed.get(name) != shown.get(name):
                    raise Broken(f"{answer.seen}: {name} is {shown.get(name)!r}, in the list {listed.get(name)!r}")
            number += 1
    return _some(number, f"{number} resources are shown as they are listed")


def _other_paths(subject: Subject) -> str:
    number = 0
    projects = [subject.unknown_project, *filter(None, [subject.options.other])]
    for type_ in subject.types:
        for row in subject.before(type_.name)[:1]:
            if row.get("project_id", subject.project) != subject.project:
                continue  # rule 4 is broken
            for project in projects:
                subject.not_found("GET", path("projects", project, type_.name, row["id"]))
            climbing = f"../../{subject.project}/{type_.name}/{row['id']}"
            answer = subject.ask("GET", path("projects", subject.unknown_project, type_.name, climbing))
            subject.expect(answer, {400, 404})
            number += 1
    return _some(number, f"{number} resources are not found below {len(projects)} other projects")


def _resources_of_others(subject: Subject) -> str:
    number = 0
    for type_ in subject.types:
        for row in subject.rows(subject.other, type_.name)[:1]:
            if row.get("project_id", subject.other) != subject.other:
                continue  # rule 4 is broken
            subject.not_found("GET", path("projects", subject.project, type_.name, row["id"]))
            number += 1
    return _some_of_other(number, f"{number} resources of the second project are not found below the first")


def _unknown_id(subject: Subject) -> str:
    seen = "the service has no types"
    for type_ in subject.types:
        seen = subject.not_found("GET", path("projects", subject.any_project, type_.name, subject.unknown_id)).seen
    return seen


_FOREIGN = "the orchestrator would report, and protect, what is not the project's"
_LOST = "the project would be called empty while resources of it are left, and Keystone would forget it"
CHECKS = (
    Check(
        3,
        "capabilities",
        "GET of the base is answered with valid capabilities.",
        "the orchestrator would not know what the service has, and each deletion would wait for a waiver",
        _document,
    ),
    Check(
        3,
        "service-type",
        "The capabilities name the service type of the catalog.",
        "the answers of one service would count for another one, which would be called empty",
        _service_type,
    ),
    Check(
        3,
        "type-names",
        "Names of types are unique, and the declarations refer to types without a circle, and suit each other.",
        "deletions would wait for a type that never becomes empty",
        _type_names,
    ),
    Check(4, "owner", "Each row carries the project that was asked for.", _FOREIGN, _owners),
    Check(4, "apart", "No resource is in the lists of two projects.", "another project's data would be lost", _apart),
    Check(5, "list-without-backend", "Without its backend a list is complete, or 503.", _LOST, _lists_without_backend),
    Check(5, "show-without-backend", "Without its backend a show does not say 404.", _LOST, _shows_without_backend),
    Check(6, "pages", "Each list is read to its end, and each page is valid.", _LOST, _pages),
    Check(
        6,
        "small-pages",
        "Small pages have the same rows as a large page, at most `limit`, and an end.",
        f"long lists would lose rows: {_LOST}",
        _small_pages,
    ),
    Check(
        6,
        "limits",
        "A limit that is not 1 to 1000 is answered with 400.",
        "the service would guess what the client meant, and a list could be shorter than the client believes",
        _limits,
    ),
    Check(
        6,
        "unknown-marker",
        "A marker that the service did not give is answered with 400.",
        "a marker that is lost during the reading would end the list early: " + _LOST,
        _marker,
    ),
    Check(
        7,
        "unknown-project",
        "The lists of a project that does not exist are empty, with `next` null.",
        "an empty project could not be told from an error or from the lists of others, and no deletion would end",
        _unknown_project,
    ),
    Check(
        8,
        "show",
        "A show returns the resource as the list has it.",
        "right before a delete the orchestrator would decide on other facts than the report has",
        _shows,
    ),
    Check(
        8,
        "other-path",
        "Below another project's path a resource is not found.",
        "a delete with the wrong project would hit a resource of another project",
        _other_paths,
    ),
    Check(
        8,
        "others-resource",
        "Below the project's path a resource of another project is not found.",
        "a delete with the wrong id would hit a resource of another project",
        _resources_of_others,
    ),
    Check(
        8,
        "unknown-id",
        "A resource that does not exist is not found.",
        "the orchestrator could not see that a resource is gone",
        _unknown_id,
    ),
)
