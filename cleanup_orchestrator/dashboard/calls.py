"""Calls of the project-cleanup API with the token of the user, and what the user may do."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext as _
from horizon import exceptions as horizon_exceptions
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint
from openstack import exceptions as sdk_exceptions
from openstack.connection import Connection
from openstack_auth import policy as auth_policy
from openstack_auth import utils as auth_utils
from openstack_dashboard.api import base

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import errors
from cleanup_orchestrator.sdk.proxy import from_connection

#: Seconds for which a page waits for an answer. A user who waits for longer loads the page again.
TIMEOUT = 10
#: The same for force, for which the API asks a worker and the services, and for requests, which can cover a large tree.
LONG_TIMEOUT = 60

#: What a call can raise. Never hand one of these to ``horizon.exceptions.handle``: Horizon takes each exception of
#: openstacksdk for an expired login.
FAILURES = (sdk_exceptions.SDKException, horizon_exceptions.ServiceCatalogException)


def _domain_token(request: HttpRequest) -> Any:
    """Return the token of the user's domain, or ``None`` if the token of the project is to be used.

    Horizon keeps both in the session of a domain manager. An admin needs only the token of the project.
    """
    if request.user.is_superuser or getattr(request.user, "system_scoped", False):
        return None
    return request.session.get("domain_token")


def proxy(request: HttpRequest, timeout: float = TIMEOUT) -> sdk.Proxy:
    """Return the calls of the API, with the user's token and the endpoint of the user's region.

    :param timeout: seconds for each call
    :raises horizon.exceptions.ServiceCatalogException: if the catalog has no such endpoint
    """
    domain_token = _domain_token(request)
    token = domain_token.auth_token if domain_token else request.user.token.id
    auth = token_endpoint.Token(base.url_for(request, sdk.SERVICE_TYPE), token)
    verify = settings.OPENSTACK_SSL_CACERT or True
    session = ksa_session.Session(
        auth=auth,
        original_ip=auth_utils.get_client_ip(request),
        verify=False if settings.OPENSTACK_SSL_NO_VERIFY else verify,
    )
    connection = Connection(session=session, region_name=request.user.services_region, app_name="horizon")
    client = from_connection(connection)
    client.call_timeout = timeout
    return client


def credentials(request: HttpRequest) -> dict[str, Any]:
    """Return what the policy needs to know of the token that the calls use."""
    user = request.user
    if domain_token := _domain_token(request):
        return {"user_id": user.id, "domain_id": domain_token.domain_id, "roles": list(domain_token.role_names)}
    facts = {"user_id": user.id, "roles": [role["name"] for role in user.roles]}
    if getattr(user, "system_scoped", False):
        return facts | {"system_scope": "all"}
    return facts | {"project_id": user.project_id}


def allowed(
    request: HttpRequest, rule: str, domain_id: str | None = None, project_id: str | None = None, user_id: str = ""
) -> bool:
    """Return whether Horizon's copy of the policy allows a rule; the API decides again.

    :param domain_id: domain of the project; ``None``: all projects of the cloud
    :param user_id: ID of the user who requested the deletion
    """
    enforcer = auth_policy._get_enforcer().get(sdk.SERVICE_TYPE)
    if enforcer is None:  # without a policy file the API alone decides
        return True
    target = {
        "target.project.domain_id": domain_id,
        "target.project.id": project_id,
        "target.deletion.user_id": user_id or None,
    }
    return bool(enforcer.enforce(rule, target, credentials(request)))


def allowed_for(request: HttpRequest, rule: str, deletion: sdk.Deletion) -> bool:
    """Return whether the policy allows a rule for a deletion."""
    return allowed(request, rule, deletion.domain_id, deletion.project_id, deletion.user_id)


def allowed_somewhere(request: HttpRequest, rule: str) -> bool:
    """Return whether the policy allows a rule for all projects, or for those of the token's domain."""
    if allowed(request, rule):
        return True
    domain_id = credentials(request).get("domain_id")
    return bool(domain_id) and allowed(request, rule, domain_id)


def problem(exc: Exception) -> str:
    """Return what went wrong as a sentence for the user."""
    if isinstance(exc, sdk.ApiError):
        if exc.status_code == 403:
            return str(_("You may not do this: %s") % errors.spoken(exc))
        return errors.spoken(exc)
    if isinstance(exc, sdk.Unreachable):
        return str(_("The project-cleanup API cannot be used at the moment: %s. Try again later.") % exc)
    if isinstance(exc, horizon_exceptions.ServiceCatalogException):
        return str(_("The service catalog of this region has no endpoint of type project-cleanup."))
    return sdk.one_line(exc)


def status_of(exc: Exception) -> int:
    """Return the status code of a page that cannot be shown because of this error."""
    if isinstance(exc, sdk.ApiError) and 400 <= (exc.status_code or 0) < 500:
        return int(exc.status_code)
    return 503


def expired() -> horizon_exceptions.NotAuthenticated:
    """Return the exception that Horizon answers with its login page."""
    return horizon_exceptions.NotAuthenticated(str(_("Your session has expired. Log in again.")))


def check_login(exc: Exception) -> None:
    """Ask the user to log in again if the token is no longer valid.

    :raises horizon.exceptions.NotAuthenticated: which Horizon answers with its login page
    """
    if isinstance(exc, sdk.LoginLost) or (isinstance(exc, sdk.ApiError) and exc.status_code == 401):
        raise expired() from exc
