"""The exceptions of the calls. All are exceptions of openstacksdk.

The answers with an error are instances of :class:`ApiError`, and of the exception that openstacksdk has for their
status, so that ``except openstack.exceptions.NotFoundException`` works as with every other service.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
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

    ``code`` is the stable code of the API, or empty if the answer is not from the API. ``body`` is the whole first
    error, with its other members such as ``deletion_id``.
    """

    def __init__(self, response: requests.Response) -> None:
        self.body = _first_error(response)
        self.code = str(self.body.get("code") or "") if "status" in self.body else ""
        self.detail = one_line(self.body.get("detail") or self.body.get("message") or "") or _plain_text(response)
        request_id = response.headers.get("x-openstack-request-id") or self.body.get("request_id") or ""
        facts = [f"HTTP {response.status_code}", self.code, str(request_id)]
        message = f"{self.detail.rstrip('.')} ({', '.join(one_line(f) for f in facts if f)})"
        super().__init__(message, response=response)

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


def _plain_text(response: requests.Response) -> str:
    """Return the shortened text of an answer in HTML or plain text."""
    kind = response.headers.get("content-type", "")
    text = re.sub(r"(?s)<(script|style|head)\b.*?</\1>|<[^>]*>", " ", response.text) if "text" in kind else ""
    text = one_line(text)[:200]
    host = urllib.parse.urlsplit(response.url or "").netloc
    reason = one_line(response.reason or "")
    return f"{host} answered {text or reason or 'with an error'}"
