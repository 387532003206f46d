"""Rules 10 and 12: errors, and paths that are not what they seem."""

from __future__ import annotations

from collections.abc import Iterator

from cleanup_orchestrator.protocol.conformance.rules import Broken
from cleanup_orchestrator.protocol.conformance.subject import Check, Response, Subject, path
from cleanup_orchestrator.protocol.documents import ProblemType


# -- rule 10
def _unknown_type(subject: Subject) -> str:
    project = subject.any_project
    seen = ""
    for where in (
        path("projects", project, subject.unknown_type),
        path("projects", project, subject.unknown_type, subject.unknown_id),
    ):
        seen = subject.expect(subject.ask("GET", where), {404}, ProblemType.UNKNOWN_TYPE).seen
    return seen


def _unknown_path(subject: Subject) -> str:
    answer = subject.expect(subject.ask("GET", f"/{subject.unknown_type}"), {400, 404})
    if isinstance(answer.document, dict) and answer.document.get("type") == ProblemType.NOT_FOUND:
        raise Broken(f"{answer.seen} and {ProblemType.NOT_FOUND}: that says that a resource is gone")
    return answer.seen


def _odd_ids(subject: Subject) -> str:
    project = subject.any_project
    number = 0
    for type_ in subject.types:
        below = path("projects", project, type_.name)
        slash = path("projects", project, type_.name, f"{subject.unknown_id}/x")
        subject.expect(subject.ask("GET", slash), {400, 404})
        for id_ in ("", "..", ".", "%2E%2E", "%2E"):
            subject.expect(subject.ask("GET", f"{below}/{id_}"), {400, 404})
        number += 6
    return f"{number} requests with an empty id, with a slash or with dots were answered with an error"


def _redirects(subject: Subject) -> str:
    if subject.redirects:
        raise Broken(f"{len(subject.redirects)} redirects, for example: {subject.redirects[0]}")
    return "no request was answered with a redirect"


def _problems(subject: Subject) -> str:
    wrong = [f"{seen}, but {problem}" for seen, problem in subject.errors if problem]
    if wrong:
        raise Broken(f"{len(wrong)} of {len(subject.errors)} errors, for example: {wrong[0]}")
    return f"{len(subject.errors)} errors are problem documents of the right type"


# -- rule 12
def _no_project(subject: Subject) -> str:
    requests = []
    for type_ in subject.types:
        for id_ in ("", "%20", ".", "..", "%2E%2E", "%00"):
            answer = subject.direct(subject.ask("GET", f"/projects/{id_}{path(type_.name)}"))
            if not 400 <= answer.status < 500:
                raise Broken(f"{answer.seen}{_rows(answer)}, not with 4xx")
            requests.append(answer)
    return requests[-1].seen if requests else "the service has no types"


def _patterns(subject: Subject) -> Iterator[str]:
    """Yield project ids that match others where an id is used as a pattern."""
    yield from ("%", "*", "_" * 32, "' OR '1'='1")
    if subject.options.project:
        yield subject.options.project[:-1]
        yield f"{subject.options.project},{subject.unknown_project}"


def _project_patterns(subject: Subject) -> str:
    patterns = list(_patterns(subject))
    for type_ in subject.types:
        for pattern in patterns:
            answer = subject.direct(subject.ask("GET", path("projects", pattern, type_.name)))
            if 400 <= answer.status < 500:
                continue
            if answer.status != 200 or _rows(answer):
                raise Broken(f"{answer.seen}{_rows(answer)}; no project has the id {pattern!r}")
    return f"{len(patterns)} project ids that would match others as a pattern have no rows"


def _rows(answer: Response) -> str:
    """Return how many rows an answer has, as text; empty: none."""
    document = answer.document
    rows = document.get("resources") if isinstance(document, dict) else None
    return f" and {len(rows)} rows" if isinstance(rows, list) and rows else ""


_GONE = "an error of a proxy or of a wrong address would be read as a resource that is gone"
_ALL = "a defect of a client would reach the resources of every project"
READS = (
    Check(10, "unknown-type", "An unknown type is answered with 404 `unknown-type`.", _GONE, _unknown_type),
    Check(
        10,
        "unknown-path",
        "A path that the protocol does not have is answered with 400 or 404, and never with `not-found`.",
        _GONE,
        _unknown_path,
    ),
    Check(
        10,
        "odd-ids",
        "A slash in an id is part of the id; an empty text, `.` and `..` are no ids.",
        "a delete could reach another path than the one that was meant, such as all resources of a type",
        _odd_ids,
    ),
    Check(12, "no-project", "A project id that is empty or malformed is answered with 4xx.", _ALL, _no_project),
    Check(12, "patterns", "A project id is compared as a whole, and is no pattern.", _ALL, _project_patterns),
)
#: They judge the answers to the requests of all other checks.
LAST = (
    Check(
        10,
        "redirects",
        "No request is answered with a redirect.",
        "the orchestrator follows none, so that no token goes to another host: it could not read the list",
        _redirects,
    ),
    Check(
        10,
        "problems",
        "Each error but 401 is a problem document with type, status, detail and request_id.",
        _GONE,
        _problems,
    ),
)
