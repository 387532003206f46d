"""Checks that no request reaches an identity service without the token fence by another path.

A proxy in front of Keystone can route some requests to another service that shares Keystone's database and token keys,
such as Keystone-NG. The check of the fence validates tokens. So it does not see another service that only issues them,
or that has its own version of the API.
"""

from __future__ import annotations

from typing import Any

from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.session import read_only
from cleanup_orchestrator.drain.base import DrainContext
from cleanup_orchestrator.keystone import protocol

#: Versions of the Identity API with tokens, besides the one that is fenced.
OTHER_VERSIONS = ("v4",)

_WAY_OUT = (
    "route all requests for tokens to Keystone processes that serve cleanup_orchestrator.keystone.wsgi:application, "
    "or set [drain] driver = revoke"
)


def past_fence(context: DrainContext, token: str) -> str:
    """Return which requests about the fenced project reach no fence; an empty text: none was found. Read-only.

    :param token: of the orchestrator's user, for the project
    """
    return _issued(context) or next(filter(None, (_accepted(context, token, each) for each in OTHER_VERSIONS)), "")


def _issued(context: DrainContext) -> str:
    """Return what is wrong with the answer to a login with the canary, which the fence has to refuse."""
    auth = context.clouds.project_auth(context.project_id, fresh=True)
    session = context.clouds.session(auth, read_only, alone=True)
    session.additional_headers[protocol.CANARY_HEADER] = context.deletion_id
    try:
        session.get_token()
    except ka_exceptions.Unauthorized as error:
        said = {} if error.response is None else error.response.headers
        if said.get(protocol.FENCED_HEADER) == context.deletion_id:
            return ""
        return f"POST /v3/auth/tokens: it was not the fence that refused a token for the project: {_WAY_OUT}"
    finally:
        context.clouds.forget_project(context.project_id)
    return f"POST /v3/auth/tokens: a service without the fence issues tokens for the project: {_WAY_OUT}"


def _accepted(context: DrainContext, token: str, version: str) -> str:
    """Return what is wrong with the answer to a validation by another version of the API.

    Keystone has no such version, and answers 404. The answer of a proxy is no JSON, and no answer about a token.
    """
    identity = context.clouds.identity(context.clouds.session(context.clouds.admin_auth(), read_only, alone=True))
    root = (identity.get_endpoint() or "").rstrip("/").removesuffix("/v3")
    headers = {"X-Subject-Token": token, protocol.CANARY_HEADER: context.deletion_id}
    try:
        status = _status(identity.get(f"{root}/{version}/auth/tokens", headers=headers))
    except ka_exceptions.HttpError as error:
        status = _status(error.response) if error.response is not None else 0
    if status in (0, 404):
        return ""
    return f"GET /{version}/auth/tokens: a service without the fence answers about tokens ({status}): {_WAY_OUT}"


def _status(response: Any) -> int:
    """Return the status of an answer; 0: it is no JSON."""
    return int(response.status_code) if "json" in str(response.headers.get("Content-Type", "")) else 0
