"""Checks at the start of Keystone that this release of it has what the fence, the guard and the hook rest on.

They wrap methods of Keystone and read attributes of its objects. If a method that is wrapped is no longer the one that
Keystone calls, or an attribute has another name, no request would fail: the fence would let tokens through.
"""

from __future__ import annotations

from typing import Any

#: The methods that must be wrapped, by the name of the API in Keystone.
_WRAPPED = {
    "token_provider_api": ("validate_token", "issue_token"),
    "resource_api": (
        "create_project", "create_domain", "update_project", "update_domain", "delete_project", "delete_domain",
    ),
    "assignment_api": ("create_grant", "delete_grant"),
    "credential_api": ("create_credential", "update_credential"),
    "application_credential_api": ("create_application_credential",),
    "trust_api": ("create_trust",),
}  # fmt: skip
#: Attributes of a token. :func:`cleanup_orchestrator.keystone.fence.is_password_login` takes a missing one for none.
_TOKEN = (
    "methods", "user_id", "project_id", "trust_id", "application_credential_id", "access_token_id", "is_federated",
)  # fmt: skip
#: Methods of the driver of projects that the hook calls.
_DRIVER = ("get_project", "list_projects_in_subtree")
_OURS = __name__.rpartition(".")[0] + "."


class Unsupported(Exception):
    """This release of Keystone lacks what a promise rests on, so that Keystone must not start with this package."""


def check() -> None:
    """Check the Keystone of this process, after the fence and the guard were installed.

    :raises Unsupported: it lacks something; the text names it
    """
    from keystone.api import projects
    from keystone.common import authorization, context, provider_api
    from keystone.models.token_model import TokenModel

    apis = provider_api.ProviderAPIs
    lacks = [
        f"a {api} whose {name} is checked"
        for api, names in _WRAPPED.items()
        for name in names
        if not _is_ours(type(getattr(apis, api)), name)
    ]
    driver = apis.resource_api.driver
    lacks += [] if _is_ours(type(driver), "update_project") else ["a resource driver whose fences are counted"]
    if not _is_ours(type(apis.oauth_api.driver), "authorize_request_token"):
        lacks.append("an OAuth1 driver whose authorizations are checked")
    parts = {
        "the tokens": (TokenModel(), _TOKEN),
        "the resource driver": (driver, _DRIVER),
        "keystone.api.projects": (projects, ("_build_project_target_enforcement",)),
        "keystone.common.context": (context, ("REQUEST_CONTEXT_ENV",)),
        "keystone.common.authorization": (authorization, ("AUTH_CONTEXT_ENV",)),
    }
    lacks += [
        f"{name} of {where}" for where, (part, names) in parts.items() for name in names if not hasattr(part, name)
    ]
    if lacks:
        raise Unsupported(f"this release of Keystone is not supported: it lacks {', '.join(lacks)}")


def _is_ours(owner: Any, name: str) -> bool:
    """Return whether a method of a class is one that this package put there."""
    method = getattr(owner, name, None)
    return str(getattr(method, "__globals__", {}).get("__name__", "")).startswith(_OURS)
