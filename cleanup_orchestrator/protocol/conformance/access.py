"""Rules 1 and 2: who may call the service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cleanup_orchestrator.protocol.conformance.rules import Broken, Unchecked
from cleanup_orchestrator.protocol.conformance.subject import Check, Send, Subject, path
from cleanup_orchestrator.protocol.documents import ROLE, ProblemType

#: What keystonemiddleware writes into a request, and what a proxy writes. A client can send each of these headers.
FORGED: Mapping[str, str] = {
    "X-Identity-Status": "Confirmed",
    "X-Service-Identity-Status": "Confirmed",
    "X-Roles": f"{ROLE},admin",
    "X-Service-Roles": f"{ROLE},admin",
    "X-User-Id": "0" * 32,
    "X-Project-Id": "0" * 32,
    "X-Is-Admin-Project": "True",
    "X-Forwarded-For": "127.0.0.1",
}
_GARBAGE: Mapping[str, str] = {"X-Auth-Token": "gAAAAABnot-a-token"}


def _reads(subject: Subject) -> Iterator[str]:
    """Yield a path of each kind of read."""
    project = subject.any_project
    yield ""
    for type_ in subject.types:
        yield path("projects", project, type_.name)
        yield path("projects", project, type_.name, subject.unknown_id)
    if subject.capabilities.drain:
        yield path("drains", subject.unknown_project)


def _writes(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield each kind of write, for a project and a resource that do not exist.

    A drain is not among them: a service that lets it pass would keep a record of a project that does not exist.
    """
    for type_ in subject.types:
        yield "DELETE", path("projects", subject.unknown_project, type_.name, subject.unknown_id)
        if type_.delete_all:
            yield "DELETE", path("projects", subject.unknown_project, type_.name)
    if subject.capabilities.drain:
        yield "DELETE", path("drains", subject.unknown_project)


def _read_refused(subject: Subject, send: Send, headers: Mapping[str, str], status: int, kind: ProblemType) -> str:
    paths = list(_reads(subject))
    for where in paths:
        subject.expect(subject.ask("GET", where, send, headers), {status}, kind)
    return f"{len(paths)} requests were answered with {status}, the last was GET {paths[-1] or '/'}"


def _write_refused(subject: Subject, send: Send, headers: Mapping[str, str], status: int, kind: ProblemType) -> str:
    calls = list(_writes(subject))
    for method, where in calls:
        subject.expect(subject.ask(method, where, send, headers), {status}, kind)
    if not calls:
        raise Unchecked("the service has no types")
    return f"{len(calls)} requests were answered with {status}, the last was {' '.join(calls[-1])}"


def _without_token(subject: Subject) -> str:
    return _read_refused(subject, subject.callers.anonymous, {}, 401, ProblemType.NOT_AUTHENTICATED)


def _with_garbage(subject: Subject) -> str:
    return _read_refused(subject, subject.callers.anonymous, _GARBAGE, 401, ProblemType.NOT_AUTHENTICATED)


def _with_forged_headers(subject: Subject) -> str:
    return _read_refused(subject, subject.callers.anonymous, FORGED, 401, ProblemType.NOT_AUTHENTICATED)


def _writes_without_token(subject: Subject) -> str:
    return _write_refused(subject, subject.callers.anonymous, FORGED, 401, ProblemType.NOT_AUTHENTICATED)


def _member(subject: Subject) -> Send:
    if subject.callers.member is None:
        raise Unchecked("pass --as-member NAME with a user who lacks the role of the protocol")
    return subject.callers.member


def _as_member(subject: Subject) -> str:
    return _read_refused(subject, _member(subject), {}, 403, ProblemType.FORBIDDEN)


def _as_member_with_forged_headers(subject: Subject) -> str:
    return _read_refused(subject, _member(subject), FORGED, 403, ProblemType.FORBIDDEN)


def _writes_as_member(subject: Subject) -> str:
    return _write_refused(subject, _member(subject), FORGED, 403, ProblemType.FORBIDDEN)


def _member_of_the_project(subject: Subject) -> str:
    """Check that types with ``acts_on`` let a member delete in the project of the token, and other types do not."""
    send, project = _member(subject), subject.options.member_project
    if not project:
        raise Unchecked("the token of --as-member is not scoped to a project")
    seen = []
    for type_ in subject.types:
        where = path("projects", project, type_.name, subject.unknown_id)
        answer = subject.ask("DELETE", where, send)
        if not type_.acts_on:
            subject.expect(answer, {403}, ProblemType.FORBIDDEN)
        elif type_.delete:
            if answer.status in (401, 403):
                raise Broken(f"{answer.seen}, though the type declares `acts_on`")
            seen.append(answer.seen)
    return seen[-1] if seen else f"the project of the token, {project}, is no exception"


def _member_elsewhere(subject: Subject) -> str:
    send = _member(subject)
    types = [type_.name for type_ in subject.types if type_.acts_on]
    if not types:
        raise Unchecked("no type declares `acts_on`")
    for type_ in types:
        where = path("projects", subject.unknown_project, type_, subject.unknown_id)
        answer = subject.ask("DELETE", where, send)
        if answer.status != 403:
            raise Broken(f"{answer.seen}, not with 403")
    return f"with the token of another project a delete of {' and '.join(types)} is answered with 403"


_ANY_CLIENT = "any client that reaches the port could list and delete the resources of every project"
_ANY_USER = "any user of the cloud could list and delete the resources of every project"

READS = (
    Check(1, "no-token", "A read without a token is answered with 401.", _ANY_CLIENT, _without_token),
    Check(1, "garbage-token", "A read with an invalid token is answered with 401.", _ANY_CLIENT, _with_garbage),
    Check(
        1,
        "forged-headers",
        "A client that sends the headers of keystonemiddleware without a token is answered with 401.",
        f"the service believes what a client writes: {_ANY_CLIENT}",
        _with_forged_headers,
    ),
    Check(2, "member", "A read with a token that lacks the role is answered with 403.", _ANY_USER, _as_member),
    Check(
        2,
        "member-forged-headers",
        "A header with the role does not help a token that lacks it.",
        f"the service believes what a client writes: {_ANY_USER}",
        _as_member_with_forged_headers,
    ),
)
WRITES = (
    Check(
        1,
        "write-no-token",
        "A delete without a token is answered with 401.",
        _ANY_CLIENT,
        _writes_without_token,
        writes=True,
    ),
    Check(
        2,
        "write-member",
        "A delete with a token that lacks the role is answered with 403.",
        _ANY_USER,
        _writes_as_member,
        writes=True,
    ),
    Check(
        2,
        "member-of-project",
        "In the project of the token a member may delete resources of types with `acts_on`, and no others.",
        "either the orchestrator cannot delete what users wrote without its own power, or members delete what is not "
        "theirs to delete",
        _member_of_the_project,
        writes=True,
    ),
    Check(
        2,
        "member-of-another",
        "In another project than that of the token a member deletes nothing.",
        "a user of one project could delete resources of another project",
        _member_elsewhere,
        writes=True,
    ),
)
