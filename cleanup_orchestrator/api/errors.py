"""Gives every error the same JSON shape.

The shape is ``{"errors": [{"status", "code", "title", "detail", "request_id", ...}]}``. Handlers raise
:class:`ApiError`. :class:`Shaper` answers it, and gives the errors of the token check, the size limit, pecan and the
exceptions of defects the same shape. No traceback and no SQL leaves the process.
"""

from __future__ import annotations

import http
import json
from collections.abc import Mapping
from typing import Any

import webob
import webob.dec
import webob.exc
from keystoneauth1 import exceptions as ka_exceptions
from oslo_log import log

from cleanup_orchestrator import store
from cleanup_orchestrator.errors import BadAnswer

LOG = log.getLogger(__name__)
REQUEST_ID = "openstack.request_id"


class ApiError(Exception):
    """An error answer. ``detail`` is one sentence that says what to do."""

    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail
        self.headers = dict(headers or {})
        self.more = more  #: further members of the error object, such as ``deletion_id``

    def response(self, request_id: str) -> webob.Response:
        """Return the answer."""
        title = http.HTTPStatus(self.status).phrase
        error = {"status": self.status, "code": self.code, "title": title, "detail": self.detail}
        body = json.dumps({"errors": [{**error, "request_id": request_id, **self.more}]})
        answer = webob.Response(status=self.status, body=body.encode(), content_type="application/json")
        answer.charset = "UTF-8"
        answer.headers.update(self.headers)
        return answer


#: Code and detail for an error that a handler did not raise, by its status.
_FOREIGN = {
    400: ("bad_request", "the request is malformed"),
    401: ("unauthorized", "a valid token is required: get one from Keystone and send it as X-Auth-Token"),
    403: ("forbidden", "you may not do this"),
    404: ("not_found", "there is nothing at this path; the versions document is at /"),
    405: ("method_not_allowed", "this path does not allow this method; see the Allow header"),
    406: ("not_acceptable", "answers are application/json only: allow that in Accept"),
    413: ("body_too_large", "the body is larger than this API accepts"),
    415: ("unsupported_media_type", "send the body as application/json"),
    # Only the token check answers 503.
    503: ("keystone_unavailable", "Keystone does not answer, so the token cannot be checked: try again"),
}


def of_status(status: int, headers: Mapping[str, str] | None = None) -> ApiError:
    """Return the error for a bare HTTP status."""
    if status in _FOREIGN:
        return ApiError(status, *_FOREIGN[status], headers=headers)
    if status < 500:
        return ApiError(400, *_FOREIGN[400], headers=headers)
    return ApiError(500, "internal_error", "an unexpected error: look up this request id in the log of the API")


def of_exception(error: Exception) -> ApiError:
    """Return the error for an exception; log what only the operator may read."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, webob.exc.HTTPException):
        return of_status(error.status_int, _kept(error.headers))
    if store.unavailable(error):
        LOG.error("the store does not answer: %s", error.__class__.__name__, exc_info=error)
        return ApiError(503, "store_unavailable", "the database does not answer: try again")
    if isinstance(error, ka_exceptions.ClientException | BadAnswer):
        LOG.error("Keystone does not answer: %s", error)
        return ApiError(503, "keystone_unavailable", "Keystone does not answer the orchestrator: try again")
    LOG.error("unexpected error: %s", error.__class__.__name__, exc_info=error)
    return of_status(500)


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a foreign error that the client needs."""
    wanted = {"allow", "www-authenticate", "retry-after"}
    return {name: value for name, value in headers.items() if name.lower() in wanted}


class Shaper:
    """WSGI middleware: answers every error in the shape of this API."""

    def __init__(self, application: Any) -> None:
        self._application = application

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        """Answer one request."""
        try:
            response = request.get_response(self._application)
            if response.status_int < 400:
                return response
            error = of_status(response.status_int, _kept(response.headers))
        except Exception as raised:
            error = of_exception(raised)
        return error.response(request.environ.get(REQUEST_ID, ""))
