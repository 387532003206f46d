"""What becomes of a request that deletes a project or a domain: one core for the hook and the filter.

Neither Flask nor Keystone is imported. Both sides say what they know of the target, and get an answer, or the word that
the request may go on to Keystone's own delete. Whatever is not known for certain is an answer of 503: a delete that was
to be handed over never becomes a silent, synchronous one.
"""

from __future__ import annotations

import dataclasses
import http
import re
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

import requests
from oslo_log import log

from cleanup_orchestrator.keystone import protocol

LOG = log.getLogger(__name__)

OFF, OPT_IN, ALWAYS = "off", "opt-in", "always"
INTERCEPT = (OFF, OPT_IN, ALWAYS)
REPORT, CASCADE = "report", "cascade"
MODES = (REPORT, CASCADE)

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Of very many deletions the sentence names the first.
_NAMED = 10
#: The orchestrator's errors about how it was asked: there is no API of ours at the endpoint, or not of our release. For
#: a client, a 404 among them would read as "the project is gone".
_MISUNDERSTOOD = frozenset(
    {"bad_request", "body_too_large", "invalid_json", "invalid_query", "method_not_allowed", "not_acceptable"}
    | {"not_found", "unsupported_media_type"}
)


class ConfigurationError(Exception):
    """The process must not start like this. The text names the option."""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The options of ``[project_cleanup]`` that say what is intercepted, and how the orchestrator is asked."""

    intercept: str = OFF
    endpoint: str = ""  #: root of the orchestrator's API, without a version
    default_mode: str = REPORT
    timeout: float = 20.0  #: seconds for all that one request asks of the orchestrator
    cafile: str | None = None
    user_id: str = ""  #: the orchestrator's own

    def check(self) -> Settings:
        """Return the settings, if they can be worked with.

        :raises ConfigurationError: an option is missing, or has a value that it cannot have
        """
        for name, known in (("intercept", INTERCEPT), ("default_mode", MODES)):
            if getattr(self, name) not in known:
                raise ConfigurationError(f"[{protocol.GROUP}] {name} must be one of {', '.join(known)}")
        if self.intercept == OFF:
            return self
        if urllib.parse.urlsplit(self.endpoint).scheme not in ("http", "https"):
            raise ConfigurationError(
                f"[{protocol.GROUP}] endpoint must be the URL of cleanup-orchestrator's API, "
                f"unless intercept is {OFF}: what is intercepted is handed over there"
            )
        if not self.user_id:
            raise ConfigurationError(
                f"[{protocol.GROUP}] user_id must be the id of cleanup-orchestrator's own user, unless intercept is "
                f"{OFF}: its last step, the delete of an empty project, would be intercepted too"
            )
        if not 0 < self.timeout < float("inf"):
            raise ConfigurationError(f"[{protocol.GROUP}] timeout must be a number of seconds, more than 0")
        return self

    def is_final(self, user_id: str | None, header: str | None) -> bool:
        """Whether this is the end of a deletion: the orchestrator's own user says so. Anybody can send the header."""
        return bool(header and self.user_id) and user_id == self.user_id


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """The project or domain to be deleted, as Keystone has it."""

    id: str
    name: str
    domain_id: str
    is_domain: bool = False
    below: frozenset[str] = frozenset()  #: ids of the projects below it; not needed of a domain
    fence: str | None = None  #: the deletion that fenced it


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """What the request says of who asks, and for what."""

    token: str
    mode: str | None = None  #: the header ``protocol.MODE_HEADER``
    query: str = ""
    request_id: str = ""

    def asked_mode(self) -> str | None:
        """Return the mode that the request names, ``None`` if it names none.

        :raises Refused: 400, it names another word, or two
        """
        pairs = urllib.parse.parse_qsl(self.query, keep_blank_values=True)
        named = {value for name, value in pairs if name == protocol.MODE_QUERY}
        if self.mode is not None:
            named.add(self.mode.strip())
        if not named:
            return None
        if len(named) > 1 or not named <= set(MODES):
            raise Refused(
                400,
                f"{protocol.MODE_HEADER}, and ?{protocol.MODE_QUERY}=, must be one of {', '.join(MODES)}. "
                "This request has deleted nothing.",
            )
        return named.pop()


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """An answer to the client, in the shape of Keystone's."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Refused(Exception):
    """The request gets an error; the text is for people."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.answer = Answer(
            status,
            {"error": {"code": status, "title": http.HTTPStatus(status).phrase, "message": message}},
            dict(headers or {}),
        )


class _Unavailable(Exception):
    """The orchestrator did not say anything that can be relied on. For the log, not for the client."""


def handle(settings: Settings, target: Target, caller: Caller) -> Answer | None:
    """Return the answer, or ``None``: Keystone may go on and delete by itself.

    To be called when it is certain that Keystone would let the caller delete the target, or where the orchestrator's
    policy alone decides (the filter). Nothing is written here: the only write is the orchestrator's own record.
    """
    try:
        return _handle(settings, target, caller)
    except Refused as refused:
        return refused.answer


def _handle(settings: Settings, target: Target, caller: Caller) -> Answer | None:
    asked = caller.asked_mode()
    orchestrator = _Orchestrator(settings, caller)
    if target.is_domain:
        if asked:
            # They were told of reports and cascades, and would get the delete that asks no questions.
            raise Refused(
                400,
                f"{target.id} is a domain: cleanup-orchestrator deletes the projects in it, one by one, but no domain. "
                f"This request has deleted nothing.",
            )
        _refuse_live_below(orchestrator, target)
        return None
    if target.below:
        _refuse_live_below(orchestrator, target)
    mode = asked or (settings.default_mode if settings.intercept == ALWAYS else None)
    if mode is not None:
        return _hand_over(orchestrator, target, mode)
    if target.fence:
        raise Refused(
            409,
            f"Deletion {target.fence} of project {target.id} is under way: follow it with "
            f"'openstack project deletion show {target.fence}', or cancel it first. This request has deleted nothing.",
        )
    return None


def _refuse_live_below(orchestrator: _Orchestrator, target: Target) -> None:
    what = "domain" if target.is_domain else "project"
    try:
        live = [
            one for one in orchestrator.live(target.domain_id) if target.is_domain or one["project_id"] in target.below
        ]
    except _Unavailable as error:
        LOG.error("a delete of %s %s is refused: %s", what, target.id, error)
        raise Refused(
            503,
            f"Whether a project below this {what} is being deleted cannot be known: cleanup-orchestrator does not "
            "answer as it should. This request has deleted nothing. Try again later.",
        ) from None
    if live:
        named = ", ".join(f"{one['project_id']} (deletion {one['id']})" for one in live[:_NAMED])
        more = f" and {len(live) - _NAMED} more" if len(live) > _NAMED else ""
        raise Refused(
            409,
            f"Projects below this {what} are being deleted: {named}{more}. Wait for the end of these deletions, or "
            f"cancel them. This request has deleted nothing.",
        )


def _hand_over(orchestrator: _Orchestrator, target: Target, mode: str) -> Answer:
    try:
        deletion, location = orchestrator.create(target.id, mode)
    except _Unavailable as error:
        LOG.error("project %s is not deleted: %s", target.id, error)
        raise Refused(
            503,
            "The project has not been deleted: cleanup-orchestrator, which has to do it, does not answer as it should. "
            "Try again later; to repeat the request does no harm if it was taken after all.",
        ) from None
    LOG.info("project %s is handed over: deletion %s, %s", target.id, deletion["id"], mode)
    named = f"project {target.name} ({target.id})"
    if mode == CASCADE:
        happens = f"Everything that {named} owns is being deleted, and then the project."
    else:
        happens = f"It is being looked what {named} owns: the project is deleted if that is nothing; else it is listed."
    message = f"{happens} Follow it with 'openstack project deletion show {deletion['id']}'."
    return Answer(202, {"message": message, "deletion": deletion}, {"Location": location})


class _Orchestrator:
    """The orchestrator's API, asked with the caller's own token: its policy decides, its record names the caller."""

    def __init__(self, settings: Settings, caller: Caller) -> None:
        self._settings, self._caller = settings, caller
        self._endpoint = settings.endpoint.rstrip("/")
        self._deadline: float | None = None

    def create(self, project_id: str, mode: str) -> tuple[Mapping[str, Any], str]:
        """Ask for a deletion; return it, and its URL.

        :raises Refused: the orchestrator refuses
        :raises _Unavailable: it is not known whether it was recorded
        """
        answer, body = self._call("POST", "/v1/deletions", json={"project_id": project_id, "mode": mode})
        deletion = body.get("deletion")
        if answer.status_code != 202 or not isinstance(deletion, dict) or not _is_uuid(deletion.get("id")):
            raise _Unavailable(f"POST /v1/deletions answered {answer.status_code}, but no deletion")
        if deletion.get("project_id") != project_id:
            raise _Unavailable("POST /v1/deletions answered about another project")
        return deletion, answer.headers.get("Location") or f"{self._endpoint}/v1/deletions/{deletion['id']}"

    def live(self, domain_id: str) -> Iterator[Mapping[str, Any]]:
        """Return every deletion under way in a domain.

        :raises Refused: the caller may not see them
        :raises _Unavailable: the list is not known to its end
        """
        wanted = {"status": "live", "domain_id": domain_id, "sort": "id"}
        query: dict[str, str] = dict(wanted)
        while True:
            answer, body = self._call("GET", "/v1/deletions", params=query)
            rows = body.get("deletions")
            if answer.status_code != 200 or not isinstance(rows, list) or not all(map(_is_deletion, rows)):
                raise _Unavailable(f"GET /v1/deletions answered {answer.status_code}, but no list of deletions")
            if any(row["domain_id"] != domain_id for row in rows):
                raise _Unavailable("GET /v1/deletions answered about another domain")
            yield from rows
            marker = _next_marker(body)
            if marker is None:
                return
            if marker <= query.get("marker", ""):
                raise _Unavailable("GET /v1/deletions answers with the same page again and again")
            query = {**wanted, "marker": marker}

    def _call(self, method: str, path: str, **arguments: Any) -> tuple[requests.Response, dict[str, Any]]:
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._settings.timeout
        headers = {"Accept": "application/json", "X-Auth-Token": self._caller.token}
        if self._caller.request_id:
            headers["X-OpenStack-Request-Id"] = self._caller.request_id
        try:
            if now >= self._deadline:
                raise TimeoutError(f"no time left of {self._settings.timeout:g} seconds")
            with requests.Session() as session:
                # The token goes to the endpoint and to nobody else: no proxy of the environment, no redirect.
                session.trust_env = False
                answer = session.request(
                    method,
                    self._endpoint + path,
                    headers=headers,
                    timeout=self._deadline - now,
                    verify=self._settings.cafile or True,
                    allow_redirects=False,
                    **arguments,
                )
            body = answer.json()
        # requests' own errors, and the system's, are OSErrors; what cannot be sent or read at all is a ValueError.
        except (OSError, ValueError) as error:
            raise _Unavailable(f"{method} {self._endpoint}{path}: {type(error).__name__}: {error}") from None
        if not isinstance(body, dict):
            raise _Unavailable(f"{method} {self._endpoint}{path} answered {answer.status_code} with something else")
        if 400 <= answer.status_code < 500:
            raise _refusal(answer, body)
        return answer, body


def _refusal(answer: requests.Response, body: Mapping[str, Any]) -> Exception:
    """Return the orchestrator's refusal in Keystone's shape; what only looks like one is no answer."""
    errors = body.get("errors")
    error = errors[0] if isinstance(errors, list) and errors else None
    if not isinstance(error, dict) or error.get("status") != answer.status_code or "detail" not in error:
        return _Unavailable(f"answered {answer.status_code}, but is not cleanup-orchestrator")
    if error.get("code") in _MISUNDERSTOOD:
        return _Unavailable(f"answered {answer.status_code} {error['code']}: {error['detail']}")
    kept = {name: answer.headers[name] for name in ("WWW-Authenticate", "Retry-After") if name in answer.headers}
    message = str(error["detail"]).rstrip(".")
    return Refused(answer.status_code, f"{message[:1].upper()}{message[1:]}. This request has deleted nothing.", kept)


def _is_uuid(value: Any) -> bool:
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def _is_deletion(row: Any) -> bool:
    names = ("id", "project_id", "domain_id")
    return isinstance(row, dict) and all(isinstance(row.get(name), str) for name in names)


def _next_marker(body: Mapping[str, Any]) -> str | None:
    """Return the marker of the next page. Only that: whoever wrote the link does not say where the token is sent."""
    links = body.get("links") or []
    if not isinstance(links, list) or not all(isinstance(link, dict) for link in links):
        raise _Unavailable("GET /v1/deletions answered with links that are none")
    for link in links:
        if link.get("rel") == "next":
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(str(link.get("href"))).query)
            if len(query.get("marker", [])) != 1:
                raise _Unavailable("GET /v1/deletions answered with a next page without a marker")
            return query["marker"][0]
    return None
