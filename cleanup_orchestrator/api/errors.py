"""Gives every error the same JSON shape.

The shape is ``{"errors": [{"status", "code", "title", "detail", "request_id", "links", ...}]}``. Handlers raise
:class:`ApiError`. :class:`Shaper` answers it, and gives the errors of the token check, the size limit, pecan and the
exceptions of defects the same shape. No traceback and no SQL leaves the process. ``CODES`` explains every code: the
API reference, the OpenAPI document and the help links use it.

``detail`` is in the words of this API. A user interface words an error for its users: by the ``problem``, or by the
code if ``SAID_BY_CODE`` has it, or else by the ``field`` and ``expected``. The ``detail`` of any other error names
neither a call nor a field, so that each user interface can show it.
"""

from __future__ import annotations

import http
import json
from collections.abc import Callable, Mapping
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
#: The key of the WSGI environment with the URL of the published API reference.
HELP_URL = "cleanup_orchestrator.help_url"

#: Every code of an error, with its status and its meaning. Each name in backquotes is a member of the error. The HTTP
#: server answers the codes of ``http_server.ERRORS`` itself, then without a help link.
CODES: dict[str, tuple[int, str]] = {
    "bad_request": (400, "The API cannot parse the HTTP request."),
    "invalid_json": (
        400,
        "The body is not JSON in UTF-8, or an object in it has a name twice. ``line`` and ``column`` count from 1. "
        "They are absent if the parser gives no position.",
    ),
    "invalid_body": (
        400,
        "A field of the body is unknown, missing or invalid. ``field`` names it, and ``path`` is its JSON path.",
    ),
    "invalid_query": (
        400,
        "A parameter of the query is unknown or invalid. ``field`` names it. In the list of deletions, a marker is "
        "invalid if the caller may not see that deletion.",
    ),
    "invalid_version": (400, "The microversion in the header ``OpenStack-API-Version`` is malformed."),
    "project_is_domain": (400, "The ID is the ID of a domain. Delete the projects of the domain one by one."),
    "not_waivable": (400, "The service is Keystone, which cannot be waived. ``field`` is ``service_type``."),
    "not_in_catalog": (
        400,
        "The waiver names a service or a region that neither the catalog nor a deletion under way has. ``field`` names "
        "it.",
    ),
    "unauthorized": (
        401,
        "The request has no token, or Keystone does not accept the token. The header ``WWW-Authenticate`` has the URL "
        "of Keystone.",
    ),
    "forbidden": (403, "The policy does not allow the call, or does not allow it for this project."),
    "self_approval": (403, "The caller requested, retried or forced the deletion. Another user must approve it."),
    "delegated_approval": (403, "The token is a token of a trust or of OAuth1. Log in as the user who approves."),
    "project_protected": (403, "The orchestrator never deletes the project ``project_id``."),
    "not_found": (404, "The API has no such path."),
    "project_not_found": (404, "Keystone does not know the project."),
    "deletion_not_found": (404, "There is no such deletion, or the caller may not see it."),
    "lien_not_found": (404, "There is no such lien."),
    "plan_not_found": (404, "There is no such plan, or the caller may not see it."),
    "waiver_not_found": (404, "There is no such waiver."),
    "orphan_scan_not_found": (404, "There is no such orphan scan."),
    "orphan_project_not_found": (404, "The orphan scan found no orphan of this project."),
    "method_not_allowed": (
        405,
        "The path does not allow the method. The header ``Allow`` names the methods of the path.",
    ),
    "not_acceptable": (406, "``Accept`` excludes ``application/json``. Orphans can also be ``text/csv``."),
    "version_not_supported": (
        406,
        "The API does not support the microversion: it supports ``min_version`` to ``max_version``.",
    ),
    "request_timeout": (408, "The request did not arrive in time. Only the HTTP server answers this."),
    "deletion_under_way": (
        409,
        "Another deletion of the project is under way, or the deletion is being cancelled: ``deletion_id``. A request "
        "for a real deletion does not get this answer because of a dry run: the dry run ends.",
    ),
    "orphan_scan_under_way": (
        409,
        "Only one orphan scan runs at a time, and an adoption needs a scan that has ended: ``orphan_scan_id``.",
    ),
    "orphan_scan_ended": (409, "The scan has ended, so it cannot be cancelled: ``status_now``."),
    "project_known": (
        409,
        "Keystone knows the project, so its resources are not orphans: ``project_id``. Request an ordinary deletion.",
    ),
    "subtree_too_large": (
        409,
        "There are more projects below this one (``projects``) than ``[deletion] max_subtree`` allows (``limit``). "
        "Request the deletion of its parts one by one.",
    ),
    "project_has_children": (
        409,
        "There are projects below this one: ``children``. Delete them first, or set ``include_subtree``.",
    ),
    "project_has_liens": (
        409,
        "A lien is in force on the project, or on a project of the tree. ``liens`` has every lien, without its reason "
        "if the caller may not read liens.",
    ),
    "not_changeable": (409, "The deletion has begun, has ended or is a dry run: ``status_now``."),
    "not_retryable": (409, "The status of the deletion does not allow it: ``status_now``."),
    "not_cancellable": (409, "The status of the deletion does not allow it: ``status_now``."),
    "no_deletion_under_way": (409, "No deletion of the project is under way. Request a deletion first."),
    "not_forcible": (
        409,
        "The mode, the origin or the status of the deletion does not allow force: ``deletion_id``, ``status_now``.",
    ),
    "not_restorable": (
        409,
        "The point of no return is passed, or the deletion has ended: ``point_of_no_return_at``, ``status_now``.",
    ),
    "not_awaiting_approval": (409, "The deletion does not wait for an approval: ``status_now``."),
    "plan_unusable": (409, "The cascade cannot use the plan ``plan_id``. ``detail`` says why."),
    "conflict": (
        409,
        "The deletion changed too fast, or a project of the tree was deleted during the request. Repeat the request.",
    ),
    "body_too_large": (
        413,
        "The body is larger than ``limit`` bytes: ``[oslo_middleware] max_request_body_size``, by default 16384. The "
        "HTTP server itself refuses more than 131072 bytes.",
    ),
    "unsupported_media_type": (415, "``Content-Type`` of the body is not ``application/json``."),
    "deletion_limit_reached": (
        429,
        "Too many deletions of the user, or of the domain of the project, are under way or were requested within 24 "
        "hours. Dry runs and reports count. ``limit`` is the limit, and ``detail`` names its option. Wait for as many "
        "seconds as the header ``Retry-After`` says. Admins of the cloud are not limited.",
    ),
    "request_header_fields_too_large": (
        431,
        "The first line and the headers of the request are larger than 65536 bytes. Only the HTTP server answers this.",
    ),
    "internal_error": (500, "An unexpected error in the API. Search the log of the API for the request ID."),
    "not_implemented": (
        501,
        "``Transfer-Encoding`` of the request is not ``chunked``. Only the HTTP server answers this.",
    ),
    "force_unavailable": (
        503,
        "A service refuses a forced delete or does not answer, or no worker answered. Nothing was changed.",
    ),
    "keystone_unavailable": (503, "Keystone does not answer, or its answer is not clear. Repeat the request."),
    "store_unavailable": (503, "The database does not answer. Repeat the request."),
}

#: Codes whose ``detail`` always names a call or a field of this API.
SAID_BY_CODE = frozenset(
    {
        "deletion_not_found",
        "lien_not_found",
        "no_deletion_under_way",
        "orphan_project_not_found",
        "orphan_scan_not_found",
        "project_has_children",
        "waiver_not_found",
    }
)
#: Every ``problem`` of an error, with its meaning: what exactly is wrong, if ``detail`` says that with the names of
#: calls or fields of this API.
PROBLEMS: dict[str, str] = {
    "unknown_field": "This release of the API does not know ``field``. ``detail`` names the known ones.",
    "unknown_name": "The cloud has no region, service or resource type of the name, and none with a similar name.",
    "other_service": "``type`` names another service than ``service``.",
    "service_not_in_catalog": "No entry has the service. ``known`` has those that the catalog has.",
    "region_not_in_catalog": "No entry has the region. ``known`` has those that the catalog has.",
    "service_not_in_region": "The region does not have the service. ``known`` has the regions that have it.",
    "kept_not_recorded": "Only a dry run records which resources it keeps.",
    "purge_without_subtree": "A request in mode ``purge`` covers one project.",
    "selection_without_purge": "Only a request in mode ``purge`` can select resources.",
    "hash_without_plan": "``plan_hash`` needs ``plan_id``.",
    "plan_without_deletes": "Only a request in mode ``cascade`` or ``purge`` that is no dry run can have a plan.",
    "plan_of_one_project": "A plan covers one project.",
    "plan_of_other_mode": "The plan is of another mode than the request.",
    "plan_with_selection": "The plan has the selection.",
    "types_with_although_used": "A request with ``although_used`` abandons nothing.",
    "purge_keeps_project": "The deletion keeps the project, with what cannot be deleted.",
    "dry_run_deletes_nothing": "The deletion is a dry run.",
    "report_deletes_nothing": "The deletion is a report.",
    "force_refused": "A service refuses its forced delete or does not answer. ``refusals`` says why.",
    "removable_liens": "The caller may read ``liens``: their reasons say whom to ask.",
}


def anchor(code: str) -> str:
    """Return the anchor of a code in the API reference."""
    return f"error-{code.replace('_', '-')}"


class ApiError(Exception):
    """An error answer. ``detail`` is one sentence that says what to do."""

    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail
        self.headers = dict(headers or {})
        self.more = more  #: further members of the error object, such as ``deletion_id``

    def response(self, request: webob.Request) -> webob.Response:
        """Return the answer to a request."""
        error = {
            "status": self.status,
            "code": self.code,
            "title": http.HTTPStatus(self.status).phrase,
            "detail": self.detail,
            "request_id": request.environ.get(REQUEST_ID, ""),
            "links": [{"rel": "help", "href": self._help(request)}],
        }
        body = json.dumps({"errors": [{**error, **self.more}]})
        answer = webob.Response(status=self.status, body=body.encode(), content_type="application/json")
        answer.charset = "UTF-8"
        answer.headers.update(self.headers)
        return answer

    def _help(self, request: webob.Request) -> str:
        """Return the URL that explains the code.

        Without a published reference this is the explanation in the OpenAPI document of this API.
        """
        if reference := request.environ.get(HELP_URL):
            return f"{reference}#{anchor(self.code)}"
        return f"{request.application_url}/v1/openapi.json#/x-errors/{self.code}"


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

    def __init__(self, application: Any, max_body: Callable[[], int] = lambda: 0) -> None:
        """Take the application.

        :param max_body: returns the limit of a body, in bytes
        """
        self._application, self._max_body = application, max_body

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
        if error.status == 413:
            limit = self._max_body()
            error = ApiError(413, error.code, f"the body may have at most {limit} bytes", limit=limit)
        return error.response(request)
