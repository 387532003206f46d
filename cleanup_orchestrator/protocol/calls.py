"""Requests of the project resources protocol, and the checks of their answers.

Nothing that a service answers is trusted. A request follows no redirect. An answer that the protocol does not define is
an error, never an empty list and never "gone".
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from keystoneauth1.session import Session

from cleanup_orchestrator.core.redact import short
from cleanup_orchestrator.errors import BadAnswer, CleanupError
from cleanup_orchestrator.protocol import schemas
from cleanup_orchestrator.protocol.documents import STATUS, ProblemType

if TYPE_CHECKING:
    import jsonschema

#: Statuses that say "it is not here". They count only in a problem document of the protocol, because a proxy without a
#: backend answers them, too.
NOT_HERE = frozenset({404, 410})

#: The longest text of a service in one message, in characters.
_TEXT = 500

#: The documents of the protocol, by the names of their schemas.
Document = Literal["CAPABILITIES", "PAGE", "RESOURCE", "PROBLEM"]


class Refusal(CleanupError):
    """A service answered with an error.

    ``status_code`` is the HTTP status, and 404 only if the project has no such resource.
    """

    code = "protocol_refusal"

    def __init__(self, message: str, status_code: int, problem: ProblemType | None = None) -> None:
        super().__init__(message)
        self.status_code, self.problem = status_code, problem


def segment(text: str) -> str:
    """Return an id as one segment of a path.

    :raises BadAnswer: no request can address it: HTTP clients resolve ``.`` and ``..`` in a path
    """
    try:
        if text not in ("", ".", ".."):
            return quote(text, safe="")
    except UnicodeEncodeError:  # half of a surrogate pair
        pass
    raise BadAnswer(f"a resource has the id {short(ascii(text), 80)}, which no request can address")


def request(session: Session, method: str, url: str, service_type: str, region: str, **options: Any) -> Any:
    """Make a request of the protocol and return the response, whatever its status.

    The request counts for the rate limits of the service type in the region.

    :param options: of ``keystoneauth1.session.Session.request``
    :raises BadAnswer: the URL is at no address to which the session's token may be sent
    """
    return session.request(
        url,
        method,
        endpoint_filter={"service_type": service_type, "region_name": region},
        headers={"Accept": "application/json"},
        redirect=False,
        raise_exc=False,
        **options,
    )


def expect(response: Any, what: str, *accepted: int) -> None:
    """Check the status of a response.

    :param what: the request, for messages
    :param accepted: the statuses of success
    :raises Refusal: the service answered with an error
    :raises BadAnswer: the answer is none of the protocol
    """
    status = response.status_code
    if status in accepted:
        return
    if status < 400:
        redirect = "a redirect, which is not followed" if 300 <= status < 400 else "a status that it does not define"
        raise BadAnswer(f"{what} was answered with {status}: in the protocol that is {redirect}")
    problem = _problem(response)
    if problem is None and status in NOT_HERE:
        raise BadAnswer(
            f"{what} was answered with {status} without a problem document of the protocol: a proxy, or a service "
            "that does not speak the protocol, may have answered"
        )
    if problem is None:
        raise Refusal(f"{what} was answered with {status}: {short(_text(response), _TEXT)}", status)
    type_ = ProblemType(problem["type"])
    detail = short(problem["detail"], _TEXT) or type_.rpartition(":")[2]
    if status in NOT_HERE and type_ is not ProblemType.NOT_FOUND:
        raise BadAnswer(f"{what} was answered with {status}: {detail}")
    raise Refusal(detail, status, type_)


@functools.cache
def _validator(name: Document) -> jsonschema.Draft202012Validator:
    """Return what checks a document. Processes that check none do not import the library."""
    import jsonschema

    return jsonschema.Draft202012Validator(getattr(schemas, name))


def document(response: Any, name: Document, what: str) -> Mapping[str, Any]:
    """Return the document in a response.

    :param name: which one is expected
    :param what: what was asked, for the error
    :raises BadAnswer: it is not JSON, or not the document that the protocol defines
    """
    try:
        body = response.json()
    except ValueError:  # also text that is not UTF-8
        raise BadAnswer(
            f"{what} was not answered with JSON: {short(_text(response), 80) or 'the answer is empty'}"
        ) from None
    error = next(iter(_validator(name).iter_errors(body)), None)
    if error is not None:
        place = "/".join(map(str, error.absolute_path)) or "the document"
        raise BadAnswer(f"{what} was answered with a wrong document: {place}: {short(error.message, 200)}")
    assert isinstance(body, Mapping)
    return body


def _problem(response: Any) -> Mapping[str, Any] | None:
    """Return the problem document of the protocol in a response; ``None``: there is none that fits its status."""
    try:
        body = response.json()
    except ValueError:
        return None
    if not _validator("PROBLEM").is_valid(body):
        return None
    fits = body["status"] == response.status_code == STATUS[ProblemType(body["type"])]
    return body if fits else None


def _text(response: Any) -> str:
    return " ".join(str(response.text or "").split())
