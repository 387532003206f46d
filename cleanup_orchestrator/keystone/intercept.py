"""Decides about a request that deletes a project or a domain.

The hook and the filter share this code. It imports neither Flask nor Keystone. The caller describes the target, and
gets an answer for the client, or ``None`` if Keystone may run its own delete. If anything is uncertain, the answer is a
503: a delete that should be handed over must never become a synchronous delete by Keystone.
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
from cleanup_orchestrator.keystone.http_limits import MIB, LimitedAdapter, Limits, ResponseRefused

LOG = log.getLogger(__name__)

OFF, OPT_IN, ALWAYS = "off", "opt-in", "always"
INTERCEPT = (OFF, OPT_IN, ALWAYS)
REPORT, CASCADE = "report", "cascade"
MODES = (REPORT, CASCADE)

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Deletions that a message names; further ones are counted.
_NAMED = 10
#: Bytes of the longest answer of the orchestrator that is read: a page of deletions takes a twentieth.
_LONGEST = 16 * MIB
#: Error codes for malformed requests: the endpoint is not the orchestrator's API, or another release of it. They must
#: not reach the client, which would take a 404 for a deleted project.
_MISUNDERSTOOD = frozenset(
    {"bad_request", "body_too_large", "invalid_json", "invalid_query", "method_not_allowed", "not_acceptable"}
    | {"not_found", "unsupported_media_type"}
)


class ConfigurationError(Exception):
    """An option is invalid, so the process must not start. The text names the option."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options of ``[project_cleanup]`` for the interception."""

    intercept: str = OFF
    endpoint: str = ""  #: root URL of the orchestrator's API, without a version
    default_mode: str = REPORT
    timeout: float = 20.0  #: seconds for all calls to the orchestrator during one request
    cafile: str | None = None
    user_id: str = ""  #: the orchestrator's user

    def check(self) -> Settings:
        """Return the settings if they are valid.

        :raises ConfigurationError: if an option is missing or has an invalid value
        """
        for name, known in (("intercept", INTERCEPT), ("default_mode", MODES)):
            if getattr(self, name) not in known:
                raise ConfigurationError(f"[{protocol.GROUP}] {name} must be one of {', '.join(known)}")
        if self.intercept == OFF:
            return self
        if urllib.parse.urlsplit(self.endpoint).scheme not in ("http", "https"):
            raise ConfigurationError(
                f"[{protocol.GROUP}] endpoint must be the URL of cleanup-orchestrator's API, "
                f"unless intercept is {OFF}: intercepted requests are sent there"
            )
        if not self.user_id:
            raise ConfigurationError(
                f"[{protocol.GROUP}] user_id must be the id of cleanup-orchestrator's user, unless intercept is "
                f"{OFF}: otherwise its own delete of the empty project would be intercepted, too"
            )
        if not 0 < self.timeout < float("inf"):
            raise ConfigurationError(f"[{protocol.GROUP}] timeout must be a number of seconds above 0")
        return self

    def is_final(self, user_id: str | None, header: str | None) -> bool:
        """Return whether this is the final delete by the orchestrator.

        The header counts only for the orchestrator's user: any client can send it.
        """
        return bool(header and self.user_id) and user_id == self.user_id


@dataclasses.dataclass(frozen=True)
class Target:
    """The project or domain to delete, as Keystone knows it."""

    id: str
    name: str
    domain_id: str
    is_domain: bool = False
    below: frozenset[str] = frozenset()  #: ids of the projects below it; empty for a domain
    fence: str | None = None  #: id of the deletion that fenced it


@dataclasses.dataclass(frozen=True)
class Caller:
    """The token and the wishes of a request."""

    token: str
    mode: str | None = None  #: the header ``protocol.MODE_HEADER``
    query: str = ""
    request_id: str = ""

    def asked_mode(self) -> str | None:
        """Return the mode that the request names, or ``None``.

        :raises Refused: 400 if the mode is unknown, or if there are two modes
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
                f"{protocol.MODE_HEADER} and ?{protocol.MODE_QUERY}= must be one of {', '.join(MODES)}. "
                "This request has deleted nothing.",
            )
        return named.pop()


@dataclasses.dataclass(frozen=True)
class Response:
    """A response to the client, in the form of those of Keystone."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Refused(Exception):
    """The request is refused. The text is for users."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.response = Response(
            status,
            {"error": {"code": status, "title": http.HTTPStatus(status).phrase, "message": message}},
            dict(headers or {}),
        )


class _Unavailable(Exception):
    """The orchestrator gave no usable answer. The text is only for the log."""


def handle(settings: Settings, target: Target, caller: Caller) -> Response | None:
    """Return the response, or ``None`` if Keystone may run its own delete.

    The hook calls it after Keystone's policy has allowed the delete. For the filter, only the orchestrator's policy
    decides. The only write is the record of the orchestrator.
    """
    try:
        return _handle(settings, target, caller)
    except Refused as refused:
        return refused.response


def _handle(settings: Settings, target: Target, caller: Caller) -> Response | None:
    asked = caller.asked_mode()
    orchestrator = _Orchestrator(settings, caller)
    if target.is_domain:
        if asked:
            # The client expects a report or a cascade. Keystone's own delete would do neither.
            raise Refused(
                400,
                f"{target.id} is a domain, and cleanup-orchestrator deletes only projects: delete its projects one by "
                "one. This request has deleted nothing.",
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
            f"It is not known whether a project below this {what} is being deleted: cleanup-orchestrator gives no "
            "usable answer. This request has deleted nothing. Try again later.",
        ) from None
    if live:
        named = ", ".join(f"{one['project_id']} (deletion {one['id']})" for one in live[:_NAMED])
        more = f" and {len(live) - _NAMED} more" if len(live) > _NAMED else ""
        raise Refused(
            409,
            f"Projects below this {what} are being deleted: {named}{more}. Wait for the end of these deletions, or "
            "cancel them. This request has deleted nothing.",
        )


def _hand_over(orchestrator: _Orchestrator, target: Target, mode: str) -> Response:
    try:
        deletion, location = orchestrator.create(target.id, mode)
    except _Unavailable as error:
        LOG.error("project %s is not deleted: %s", target.id, error)
        raise Refused(
            503,
            "The project has not been deleted: cleanup-orchestrator gives no usable answer. Try again later. Repeating "
            "the request is safe, even if this one was recorded.",
        ) from None
    LOG.info("project %s is handed over: deletion %s, %s", target.id, deletion["id"], mode)
    named = f"project {target.name} ({target.id})"
    if mode == CASCADE:
        happens = f"All resources of {named} are being deleted, and then the project."
    else:
        happens = f"The resources of {named} are being listed. If there are none, the project is deleted."
    message = f"{happens} Follow it with 'openstack project deletion show {deletion['id']}'."
    return Response(202, {"message": message, "deletion": deletion}, {"Location": location})


class _Orchestrator:
    """A client of the orchestrator's API that uses the caller's token.

    So the orchestrator's policy applies to the caller, and its record names the caller.
    """

    def __init__(self, settings: Settings, caller: Caller) -> None:
        self._settings, self._caller = settings, caller
        self._endpoint = settings.endpoint.rstrip("/")
        self._deadline: float | None = None

    def create(self, project_id: str, mode: str) -> tuple[Mapping[str, Any], str]:
        """Request a deletion; return it, and its URL.

        :raises Refused: if the orchestrator refuses
        :raises _Unavailable: if it is not known whether the request was recorded
        """
        response, body = self._call("POST", "/v1/deletions", json={"project_id": project_id, "mode": mode})
        deletion = body.get("deletion")
        if response.status_code != 202 or not isinstance(deletion, dict) or not _is_uuid(deletion.get("id")):
            raise _Unavailable(f"POST /v1/deletions answered {response.status_code}, but no deletion")
        if deletion.get("project_id") != project_id:
            raise _Unavailable("POST /v1/deletions answered about another project")
        return deletion, response.headers.get("Location") or f"{self._endpoint}/v1/deletions/{deletion['id']}"

    def live(self, domain_id: str) -> Iterator[Mapping[str, Any]]:
        """Yield every deletion under way in a domain.

        :raises Refused: if the caller may not see them
        :raises _Unavailable: if the list cannot be read to its end
        """
        wanted = {"status": "live", "domain_id": domain_id, "sort": "id"}
        query: dict[str, str] = dict(wanted)
        while True:
            response, body = self._call("GET", "/v1/deletions", params=query)
            rows = body.get("deletions")
            if response.status_code != 200 or not isinstance(rows, list) or not all(map(_is_deletion, rows)):
                raise _Unavailable(f"GET /v1/deletions answered {response.status_code}, but no list of deletions")
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
                # The token must be sent only to the endpoint: no proxy of the environment, no redirect.
                session.trust_env = False
                for scheme in ("http://", "https://"):
                    session.mount(scheme, LimitedAdapter(Limits(_LONGEST, self._deadline - now)))
                response = session.request(
                    method,
                    self._endpoint + path,
                    headers=headers,
                    timeout=self._deadline - now,
                    verify=self._settings.cafile or True,
                    allow_redirects=False,
                    **arguments,
                )
            body = response.json()
        # Errors of requests and of the system are OSErrors. Malformed requests and answers are ValueErrors.
        except (OSError, ValueError, ResponseRefused) as error:
            raise _Unavailable(f"{method} {self._endpoint}{path}: {type(error).__name__}: {error}") from None
        if not isinstance(body, dict):
            raise _Unavailable(f"{method} {self._endpoint}{path} answered {response.status_code} with something else")
        if 400 <= response.status_code < 500:
            raise _refusal(response, body)
        return response, body


def _refusal(response: requests.Response, body: Mapping[str, Any]) -> Exception:
    """Return the orchestrator's refusal in the form of Keystone's errors.

    A response that is not an error of the orchestrator's API counts as unavailable.
    """
    errors = body.get("errors")
    error = errors[0] if isinstance(errors, list) and errors else None
    if not isinstance(error, dict) or error.get("status") != response.status_code or "detail" not in error:
        return _Unavailable(f"answered {response.status_code}, but is not cleanup-orchestrator")
    if error.get("code") in _MISUNDERSTOOD:
        return _Unavailable(f"answered {response.status_code} {error['code']}: {error['detail']}")
    kept = {name: response.headers[name] for name in ("WWW-Authenticate", "Retry-After") if name in response.headers}
    message = str(error["detail"]).rstrip(".")
    return Refused(response.status_code, f"{message[:1].upper()}{message[1:]}. This request has deleted nothing.", kept)


def _is_uuid(value: Any) -> bool:
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def _is_deletion(row: Any) -> bool:
    names = ("id", "project_id", "domain_id")
    return isinstance(row, dict) and all(isinstance(row.get(name), str) for name in names)


def _next_marker(body: Mapping[str, Any]) -> str | None:
    """Return the marker of the next page, or ``None``.

    Only the marker of the link is used: the token must be sent only to the endpoint.
    """
    links = body.get("links") or []
    if not isinstance(links, list) or not all(isinstance(link, dict) for link in links):
        raise _Unavailable("GET /v1/deletions answered with malformed links")
    for link in links:
        if link.get("rel") == "next":
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(str(link.get("href"))).query)
            if len(query.get("marker", [])) != 1:
                raise _Unavailable("GET /v1/deletions answered with a next page without a marker")
            return query["marker"][0]
    return None
