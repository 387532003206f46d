"""The service that is checked: sends requests, reads lists, and collects the errors that it answers with."""

from __future__ import annotations

import dataclasses
import functools
import json
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

import jsonschema

from cleanup_orchestrator.protocol import schemas
from cleanup_orchestrator.protocol.conformance.rules import Broken, Unchecked, Unreadable
from cleanup_orchestrator.protocol.documents import MAX_ROWS, Capabilities, ProblemType, ResourceType, State

Row = Mapping[str, Any]

#: The most pages that a list is read for: a list without an end is noticed long before.
_MAX_PAGES = 10_000
_LONGEST = 160  #: characters of an answer that a finding shows


@dataclasses.dataclass(frozen=True, slots=True)
class Response:
    """An answer of the service; status 0: there was none, and ``body`` says why."""

    request: str  #: method and path, for messages
    status: int
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)  #: names in lower case
    body: bytes = b""

    @property
    def seen(self) -> str:
        """The request and its answer, for messages."""
        if not self.status:
            return f"{self.request} was not answered: {self.body.decode(errors='replace')}"
        return f"{self.request} was answered with {self.status}"

    @property
    def document(self) -> Any:
        """The JSON document of the body; ``None`` if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


#: Sends a request: method, path below the base with its query exactly as given, and headers.
Send = Callable[[str, str, Mapping[str, str]], Response]


@dataclasses.dataclass(frozen=True, slots=True)
class Callers:
    """Who can call the service."""

    service: Send  #: with a token that has the role of the protocol
    anonymous: Send  #: without a token
    member: Send | None = None  #: with a token that lacks the role
    without_backend: Send | None = None  #: with the token, at an instance whose backend does not answer


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What the caller of the check knows."""

    project: str = ""  #: id of the test project
    other: str = ""  #: id of a second project that owns resources; nothing of it is deleted
    service_type: str = ""  #: the type in the catalog
    member_project: str = ""  #: id of the project that the member's token is scoped to
    delete: bool = False  #: whether the check may write
    wait: float = 60.0  #: seconds until a delete that was accepted has to be done


def wrong(document: Any, schema: Mapping[str, Any]) -> str:
    """Return what is wrong with a document; empty: it is valid."""
    errors = jsonschema.Draft202012Validator(schema).iter_errors(document)
    error = jsonschema.exceptions.best_match(errors)
    if error is None:
        return ""
    place = ".".join(str(part) for part in error.absolute_path)
    return f"{place or 'the document'}: {shortened(error.message)}"


def shortened(text: str) -> str:
    """Return a text that fits into a message."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def path(*segments: str, query: Mapping[str, str | int] | None = None) -> str:
    """Return a path below the base; each segment is percent-encoded, slashes included."""
    text = "".join(f"/{quote(segment, safe='')}" for segment in segments)
    return f"{text}?{urlencode(query)}" if query else text


def without_owner(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a resource that need not say its owner: another rule is about that."""
    properties = {name: value for name, value in schema["properties"].items() if name != "project_id"}
    return {**schema, "required": ["id"], "properties": properties}


#: Rule 4 is about the owner of a row, rule 6 about everything else in a page. A service that answers a project id that
#: is not allowed breaks rule 12, whatever project its page names.
_PAGE = {
    **schemas.PAGE,
    "properties": {
        **schemas.PAGE["properties"],
        "resources": {"type": "array", "items": without_owner(schemas.RESOURCE)},
    },
}


@dataclasses.dataclass(frozen=True, slots=True)
class Outcomes:
    """What the checks of the deletes saw, by the names of the checks."""

    seen: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    broken: dict[str, list[str]] = dataclasses.field(default_factory=dict)  #: how the service broke the rule


class Subject:
    """The service that is checked."""

    def __init__(self, callers: Callers, options: Options) -> None:
        self.callers, self.options = callers, options
        #: A project id, a resource id and a type that no service ever saw.
        self.unknown_project, self.unknown_id = uuid.uuid4().hex, str(uuid.uuid4())
        self.unknown_type = f"unknown_{uuid.uuid4().hex[:8]}"
        self.redirects: list[str] = []  #: answers with a redirect
        self.errors: list[tuple[str, str]] = []  #: the errors that were expected: the answer, what is wrong with it
        self.halted = ""  #: what was deleted that must not be; then nothing else is written
        self.deletes: Outcomes | None = None  #: of the deletes of the run, once they are begun
        self._before: dict[str, list[Row]] = {}

    # -- requests
    def ask(
        self, method: str, where: str, send: Send | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send a request; default: as the user of the protocol."""
        answer = (send or self.callers.service)(method, where, headers or {})
        if 300 <= answer.status < 400:
            self.redirects.append(f"{answer.seen} to {answer.headers.get('location', '')}")
        return answer

    @staticmethod
    def direct(answer: Response) -> Response:
        """Return an answer that is no redirect.

        :raises Unreadable: it is one
        """
        if 300 <= answer.status < 400:
            raise Unreadable(10, answer.seen)
        return answer

    def expect(self, answer: Response, statuses: Collection[int], kind: ProblemType | None = None) -> Response:
        """Return an answer that has one of the statuses; note what is wrong with its problem document, for rule 10.

        :param kind: the type that the problem document has to have; default: any
        :raises Broken: another status
        :raises Unreadable: a redirect
        """
        if self.direct(answer).status not in statuses:
            raise Broken(f"{answer.seen}, not with {' or '.join(str(status) for status in sorted(statuses))}")
        # keystonemiddleware answers with 401 itself, and with no problem document.
        if answer.status >= 400 and answer.status != 401:
            self.errors.append((answer.seen, _problem(answer, kind)))
        return answer

    def not_found(self, method: str, where: str, send: Send | None = None) -> Response:
        """Expect that the project owns no such resource."""
        return self.expect(self.ask(method, where, send), {404}, ProblemType.NOT_FOUND)

    # -- documents
    @functools.cached_property
    def capabilities(self) -> Capabilities:
        """The capabilities.

        :raises Unreadable: they are not valid
        """
        answer = self.direct(self.ask("GET", ""))
        if answer.status != 200:
            raise Unreadable(3, f"{answer.seen}, not with 200")
        if problem := wrong(answer.document, schemas.CAPABILITIES):
            raise Unreadable(3, f"{answer.seen}, and the document is not valid: {problem}")
        return Capabilities.from_dict(answer.document)

    @property
    def types(self) -> Sequence[ResourceType]:
        """The types of the service."""
        return self.capabilities.types

    @property
    def project(self) -> str:
        """The id of the test project.

        :raises Unchecked: none was named
        """
        return self.options.project or _missing("--project ID with resources of each type")

    @property
    def any_project(self) -> str:
        """The id of the test project, or one that does not exist: for reads that need no resources."""
        return self.options.project or self.unknown_project

    @property
    def other(self) -> str:
        """The id of the second project.

        :raises Unchecked: none was named
        """
        return self.options.other or _missing("--other-project ID with resources of each type")

    def page(self, project: str, type_: str, send: Send | None = None, **query: str | int) -> Mapping[str, Any]:
        """Return one page of a list.

        :raises Unreadable: the answer is no page
        """
        answer = self.direct(self.ask("GET", path("projects", project, type_, query=query), send))
        if answer.status != 200:
            raise Unreadable(6, f"{answer.seen}, not with 200")
        if problem := wrong(answer.document, _PAGE):
            raise Unreadable(6, f"{answer.seen}, and the page is not valid: {problem}")
        page: Mapping[str, Any] = answer.document
        if (page["project_id"], page["type"]) != (project, type_):
            raise Unreadable(6, f"{answer.seen}, and the page is of {page['type']!r} in {page['project_id']!r}")
        return page

    def rows(self, project: str, type_: str, limit: int = MAX_ROWS, send: Send | None = None) -> list[Row]:
        """Return the list of a type, from all its pages.

        :raises Unreadable: a page is none, or has more rows than asked for, or the pages have no end
        """
        rows: list[Row] = []
        markers: list[str] = []
        while True:
            marker = {"marker": markers[-1]} if markers else {}
            page = self.page(project, type_, send, limit=limit, **marker)
            what = f"GET {path('projects', project, type_, query={'limit': limit, **marker})}"
            if len(page["resources"]) > limit:
                raise Unreadable(6, f"{what} was answered with {len(page['resources'])} rows")
            known = {row["id"] for row in rows}
            if again := [row["id"] for row in page["resources"] if row["id"] in known]:
                raise Unreadable(6, f"{what} was answered with {again[0]!r}, which an earlier page has, too")
            rows += page["resources"]
            if page["next"] is None:
                return rows
            if page["next"] in markers or len(markers) > _MAX_PAGES:
                raise Unreadable(6, f"{what} was answered with `next` of an earlier page: the list has no end")
            markers.append(page["next"])

    def before(self, type_: str) -> list[Row]:
        """Return the list of the test project as it was when the check first read it."""
        if type_ not in self._before:
            self._before[type_] = self.rows(self.project, type_)
        return self._before[type_]


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One check of a rule."""

    rule: int  #: its number in :data:`~cleanup_orchestrator.protocol.conformance.rules.RULES`
    name: str  #: stable, for programs that read the findings
    sentence: str  #: what the service must do
    harm: str  #: what it would do to an operator if it did not
    #: Makes the requests and returns what it saw. Raises ``Broken``, ``Unchecked`` or ``Unreadable``.
    function: Callable[[Subject], str]
    writes: bool = False  #: it sends PUT or DELETE, and needs ``--delete``


def deletable(row: Row, project: str) -> bool:
    """Return whether a row is one that the orchestrator would delete."""
    own = row.get("project_id") == project and not row.get("keep") and not row.get("protected")
    return own and row.get("state", State.PRESENT) == State.PRESENT


def _missing(argument: str) -> NoReturn:
    raise Unchecked(f"pass {argument}")


def _problem(answer: Response, kind: ProblemType | None) -> str:
    """Return what is wrong with the problem document of an answer; empty: nothing."""
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    document = answer.document
    if document is None:
        return f"the body is no JSON, but {media_type or 'nothing'}"
    if media_type != "application/problem+json":
        return f"the media type is {media_type or 'missing'}, not application/problem+json"
    if problem := wrong(document, schemas.PROBLEM):
        return f"the problem document is not valid: {problem}"
    if document["status"] != answer.status:
        return f"the document has the status {document['status']}"
    if not document["request_id"]:
        return "request_id is empty"
    if kind is not None and document["type"] != kind:
        return f"the type is {document['type']}, not {kind}"
    return ""
