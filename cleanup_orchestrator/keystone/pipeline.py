"""The hook in Keystone's pipeline: hands requests to delete projects over.

The hook uses the route that Flask has chosen, not the path. Therefore it sees every request that reaches Keystone's own
delete of a project or a domain, however its URL is spelled. It runs after Keystone has checked the token. It first
enforces Keystone's policy with Keystone's own code. A caller who may not delete the project gets Keystone's answer.

Keystone and Flask are imported only at installation: Keystone's schemas are created at import, and the fence must be
registered before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator.keystone import intercept, options, protocol

if TYPE_CHECKING:
    import flask

LOG = log.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    protocol.GROUP: [
        cfg.StrOpt(
            "intercept",
            default=intercept.OFF,
            choices=[
                (intercept.OFF, "no request: Keystone deletes projects itself"),
                (intercept.OPT_IN, f"only requests with the header {protocol.MODE_HEADER}, or ?{protocol.MODE_QUERY}="),
                (intercept.ALWAYS, "every delete of a project"),
            ],
            help="Which requests to delete a project are handed over to cleanup-orchestrator. Unless this is off, a "
            "domain or a parent project cannot be deleted while a deletion below it is under way.",
        ),
        cfg.URIOpt(
            "endpoint",
            schemes=["http", "https"],
            help="Root URL of cleanup-orchestrator's API, without a version. Required unless intercept is off. "
            "Clients get it in the Location header of their deletion.",
        ),
        cfg.StrOpt(
            "default_mode",
            default=intercept.REPORT,
            choices=[
                (intercept.REPORT, "delete the project if it has no resources; otherwise list them"),
                (intercept.CASCADE, "delete the resources, then the project"),
            ],
            help="With intercept = always: the mode of a request without a mode.",
        ),
        cfg.FloatOpt(
            "timeout",
            default=20.0,
            min=0.1,
            help="Seconds that a request waits for cleanup-orchestrator. After that the answer is 503.",
        ),
        cfg.StrOpt("cafile", help="CA bundle to verify cleanup-orchestrator's certificate."),
    ]
}

_PROJECT, _DOMAIN = "project", "domain"


def settings(conf: cfg.ConfigOpts) -> intercept.Settings:
    """Register the options; return their values.

    :raises cleanup_orchestrator.keystone.intercept.ConfigurationError: if a value is invalid
    """
    options.register(conf)
    group = conf[protocol.GROUP]
    return intercept.Settings(
        intercept=group.intercept,
        endpoint=group.endpoint or "",
        default_mode=group.default_mode,
        timeout=group.timeout,
        cafile=group.cafile,
        user_id=(group.user_id or "").strip(),
    ).check()


def install(application: flask.Flask) -> None:
    """Install the hook in Keystone's Flask application, unless it is off.

    :raises cleanup_orchestrator.keystone.intercept.ConfigurationError: if the configuration is invalid, or if this
        release of Keystone is not supported
    """
    import keystone.conf

    wanted = settings(keystone.conf.CONF)
    if wanted.intercept == intercept.OFF:
        return
    from keystone.api import domains, projects

    kinds = {projects.ProjectResource: _PROJECT, domains.DomainResource: _DOMAIN}
    routes = {
        endpoint: kinds[view.view_class]
        for endpoint, view in application.view_functions.items()
        if getattr(view, "view_class", None) in kinds
    }
    if set(routes.values()) != set(kinds.values()):
        raise intercept.ConfigurationError("this release of Keystone is not supported: its routes were not found")
    application.before_request(_Hook(wanted, routes))
    LOG.info("deletes of projects are intercepted: %s, %s", wanted.intercept, wanted.endpoint)


class _Hook:
    """Flask calls it before the view of each request; ``None`` continues the request."""

    def __init__(self, wanted: intercept.Settings, routes: dict[str, str]) -> None:
        self._settings, self._routes = wanted, routes

    def __call__(self) -> Any:
        import flask

        kind = self._routes.get(flask.request.endpoint or "")
        if kind is None or flask.request.method != "DELETE":
            return None
        return self._delete(kind)

    def _delete(self, kind: str) -> Any:
        import flask
        from keystone.common import context

        self._enforce(kind)
        headers, environ = flask.request.headers, flask.request.environ
        who = environ.get(context.REQUEST_CONTEXT_ENV)
        if self._settings.is_final(getattr(who, "user_id", None), headers.get(protocol.FINAL_HEADER)):
            return None
        target = self._target(kind)
        caller = intercept.Caller(
            token=headers.get("X-Auth-Token", ""),
            mode=headers.get(protocol.MODE_HEADER),
            query=flask.request.query_string.decode("utf-8", "replace"),
            request_id=headers.get("X-OpenStack-Request-Id") or environ.get("openstack.request_id", ""),
        )
        response = intercept.handle(self._settings, target, caller)
        if response is None:
            return None
        if response.status == 404:
            # A client would take a 404 for a deleted project. Only Keystone may answer that.
            self._target(kind)
            response = intercept.Refused(
                503,
                "The project has not been deleted: cleanup-orchestrator does not find it. "
                "Check that it uses this Keystone.",
            ).response
        flask_response = flask.jsonify(response.body)
        flask_response.status_code = response.status
        flask_response.headers.update(response.headers)
        return flask_response

    @staticmethod
    def _enforce(kind: str) -> None:
        """Enforce Keystone's policy; raise what Keystone's view would raise.

        The view enforces it again, which is harmless.
        """
        from keystone.api import projects
        from keystone.common.rbac_enforcer import enforcer

        if kind == _DOMAIN:
            enforcer.RBACEnforcer.enforce_call(action="identity:delete_domain")
            return
        enforcer.RBACEnforcer.enforce_call(
            action="identity:delete_project", build_target=projects._build_project_target_enforcement
        )

    @staticmethod
    def _target(kind: str) -> intercept.Target:
        """Return the target; raise Keystone's errors if it is missing or immutable.

        The driver is asked, as by Keystone's own delete: the cache can be stale.
        """
        import flask
        from keystone import exception
        from keystone.common import provider_api
        from keystone.common.resource_options.options import immutable

        manager = provider_api.ProviderAPIs.resource_api
        id_ = flask.request.view_args[f"{kind}_id"]
        try:
            ref = manager.driver.get_project(id_)
        except exception.ProjectNotFound:
            if kind == _DOMAIN:
                raise exception.DomainNotFound(domain_id=id_) from None
            raise
        is_domain = bool(ref.get("is_domain"))
        if kind == _DOMAIN and not is_domain:
            raise exception.DomainNotFound(domain_id=id_)
        immutable.check_immutable_delete(
            resource_ref=ref, resource_type=_DOMAIN if is_domain else _PROJECT, resource_id=id_
        )
        below = () if is_domain else manager.driver.list_projects_in_subtree(id_)
        return intercept.Target(
            id=id_,
            name=ref["name"],
            domain_id=id_ if is_domain else ref["domain_id"],
            is_domain=is_domain,
            below=frozenset(project["id"] for project in below),
            fence=(ref.get("options") or {}).get(protocol.FENCE_OPTION),
        )
