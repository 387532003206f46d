"""The exceptions of the calls. All are exceptions of openstacksdk.

The answers with an error are instances of :class:`ApiError`, and of the exception that openstacksdk has for their
status, so that ``except openstack.exceptions.NotFoundException`` works as with every other service.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

import requests
from keystoneauth1 import exceptions as ksa_exceptions
from openstack import exceptions as sdk_exceptions

from cleanup_orchestrator.sdk.text import one_line


class EndpointMissing(sdk_exceptions.EndpointNotFound):
    """The endpoint of the API is not known."""


class Unreachable(sdk_exceptions.SDKException):
    """No usable answer arrived.

    Whether the call had an effect is not known. All calls can be repeated.
    """


class LoginLost(sdk_exceptions.SDKException):
    """Keystone refuses a token."""


class ApiError(sdk_exceptions.HttpException):
    """An error answer of the API, or of a proxy in front of it.

    ``code`` is the stable code of the API, or empty if the answer is not from the API. ``problem`` says what exactly is
    wrong, where the API says that with the names of its calls or fields; otherwise it is empty. ``body`` is the whole
    first error, with its other members such as ``deletion_id``.
    """

    def __init__(self, response: requests.Response) -> None:
        self.body = _first_error(response)
        self.code = str(self.body.get("code") or "") if "status" in self.body else ""
        self.problem = str(self.body.get("problem") or "")
        self.detail = one_line(self.body.get("detail") or self.body.get("message") or "") or _plain_text(response)
        request_id = response.headers.get("x-openstack-request-id") or self.body.get("request_id") or ""
        facts = [f"HTTP {response.status_code}", self.code, str(request_id)]
        self._facts = ", ".join(one_line(f) for f in facts if f)
        super().__init__(self._with_facts(self.detail), response=response)

    def _with_facts(self, text: str) -> str:
        return f"{text.rstrip('.')} ({self._facts})"

    def said(self, texts: Mapping[str, Any], name_of: Callable[[str], Any]) -> str:
        """Return the error in the words of a user interface.

        :param texts: the text for each problem and code that needs one. It can have members of the error in braces, and
            ``{name}``, which is the field
        :param name_of: returns how the user interface calls a field
        """
        field = one_line(self.body.get("field") or "")
        text = texts.get(self.problem) or texts.get(self.code)
        if text is None and field and "expected" in self.body:
            text = "{name} {expected}"
        if text is None:
            return str(self)
        text = str(text)
        try:
            members = {name: _listed(value) for name, value in self.body.items() if f"{{{name}}}" in text}
            members |= {"name": str(name_of(field))} if field else {}
            return self._with_facts(text.format_map(members))
        except KeyError:  # a server of another release does not send the member
            return str(self)

    @property
    def deletion_id(self) -> str:
        """The id of the conflicting deletion, or an empty text."""
        return one_line(self.body.get("deletion_id") or "")

    @property
    def temporary(self) -> bool:
        """Whether the same call can succeed later."""
        return self.status_code in (408, 429) or (self.status_code or 0) >= 500

    def __str__(self) -> str:
        return str(self.message)


class BadRequest(ApiError, sdk_exceptions.BadRequestException):
    """Status 400: the API refuses a value."""


class Forbidden(ApiError, sdk_exceptions.ForbiddenException):
    """Status 403: the user may not do this."""


class NotFound(ApiError, sdk_exceptions.NotFoundException):
    """Status 404: no record has the id."""


class Conflict(ApiError, sdk_exceptions.ConflictException):
    """Status 409: the state of the deletion or of the project does not allow it."""


_BY_STATUS: Mapping[int, type[ApiError]] = {400: BadRequest, 403: Forbidden, 404: NotFound, 409: Conflict}


def temporary(exc: BaseException) -> bool:
    """Return whether the same call can succeed later."""
    return isinstance(exc, Unreachable) or (isinstance(exc, ApiError) and exc.temporary)


def from_response(response: requests.Response) -> ApiError:
    """Return the exception for an answer with an error."""
    return _BY_STATUS.get(response.status_code, ApiError)(response)


def of_login(exc: ksa_exceptions.ClientException) -> sdk_exceptions.SDKException:
    """Return the exception for a failure to get a token."""
    if isinstance(exc, ksa_exceptions.ConnectionError):
        return Unreachable(f"no answer from Keystone: {cause(exc)}")
    if isinstance(exc, ksa_exceptions.HttpError) and (exc.http_status or 0) >= 500:
        return Unreachable(f"Keystone gives no token at the moment: {one_line(exc)}")
    return LoginLost(f"Keystone gives no token: {one_line(exc)}")


def cause(exc: BaseException) -> str:
    """Return the innermost reason of a nested connection error of requests."""
    text = one_line(exc)
    found = re.search(r"(\[(?:Errno|SSL)[^\]]*\][^)\"']*)", text)
    if found:
        return found.group(1).strip()
    return "the connection timed out" if "timed out" in text.lower() else text[:200]


def _first_error(response: requests.Response) -> Mapping[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    if not isinstance(body, dict):
        return {}
    errors = body.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        return errors[0]
    # keystonemiddleware and most proxies: {"error": {"code": 401, "title": …, "message": …}}
    error = body.get("error")
    return error if isinstance(error, dict) else {}


#: Items that a text names; further ones are counted.
_NAMED = 50


def _listed(value: Any) -> str:
    """Return a member of an error as a text; of a list, its first items."""
    if not isinstance(value, list):
        return one_line(value)
    shown = [_lien(each) if isinstance(each, dict) else one_line(each) for each in value[:_NAMED]]
    shown += [f"and {len(value) - _NAMED} more"] if len(value) > _NAMED else []
    return ("; " if any(" " in one for one in shown[:_NAMED]) else ", ").join(shown)


def _lien(lien: Mapping[str, Any]) -> str:
    known = {name: one_line(value) for name, value in lien.items() if value}
    until = f"until {known['expires_at']}" if "expires_at" in known else "until it is removed"
    named = "lien {id} of {origin} on project {project_id}".format_map(known)
    return f"{named} {until}: {known.get('reason', '')}"


def _plain_text(response: requests.Response) -> str:
    """Return the shortened text of an answer in HTML or plain text."""
    kind = response.headers.get("content-type", "")
    text = re.sub(r"(?s)<(script|style|head)\b.*?</\1>|<[^>]*>", " ", response.text) if "text" in kind else ""
    text = one_line(text)[:200]
    host = urllib.parse.urlsplit(response.url or "").netloc
    reason = one_line(response.reason or "")
    return f"{host} answered {text or reason or 'with an error'}"
