"""Builds the WSGI application: pecan, and the middleware around it."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import time
from collections.abc import Callable
from typing import Any

import pecan
import webob
import webob.dec
from keystonemiddleware import auth_token
from oslo_config import cfg
from oslo_log import log
from oslo_middleware import cors, healthcheck, http_proxy_to_wsgi, request_id, sizelimit

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator.api import errors, gate, microversions, policies, policy_rules, root
from cleanup_orchestrator.api.context import ApiContext, EngineCaster, ReportSettings
from cleanup_orchestrator.cloud.catalog import ServiceCatalog
from cleanup_orchestrator.cloud.connections import Clouds
from cleanup_orchestrator.cloud.projects import Projects, Protection
from cleanup_orchestrator.core.request_limits import RequestLimits
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.evidence import options as report_options
from cleanup_orchestrator.monitoring import health
from cleanup_orchestrator.store import Store
from cleanup_orchestrator.store.orphans import new_scan

LOG = log.getLogger(__name__)

_MAX_BODY = 16 * 1024


def build(
    conf: cfg.ConfigOpts,
    store: Store,
    clouds: Clouds,
    catalog: ServiceCatalog,
    engine: EngineCaster,
    bus: Callable[[], Any] | None = None,
) -> Any:
    """Return the WSGI application.

    :param conf: has the options of this module and of ``drain`` registered
    :param clouds: access to Keystone as the orchestrator's user; the API only reads
    :param bus: raises if the broker does not answer; ``None`` if there is no broker
    :raises KeyUnusable: if ``[report] signing_key_file`` is not usable
    :raises keystoneauth1.exceptions.ClientException: if ``[keystone_authtoken]`` is not usable
    """
    identity = clouds.identity(clouds.admin_session())
    context = ApiContext(
        store=store,
        projects=Projects(identity),
        catalog_status=lambda waivers: catalog.statuses(identity, waivers),
        types=catalog.types,
        variants=catalog.variants,
        engine=engine,
        enforcer=policies.PolicyEnforcer(
            policy_rules.enforcer(conf), policies.RequesterReads(conf.api.requester_reads_days, store.now)
        ),
        # The views need no other rule; the other rules are for the engine.
        rules=Rules(
            settle=datetime.timedelta(seconds=conf.drain.token_cache_time), approval_resources=conf.approval.resources
        ),
        protection=lambda: Protection(tuple(conf.deletion.never_delete_projects), clouds.project_id),
        scan=functools.partial(new_scan, conf),
        max_limit=conf.api.max_limit,
        waiver_limit=datetime.timedelta(days=conf.catalog.waiver_limit),
        plan_max_age=datetime.timedelta(seconds=conf.deletion.plan_max_age),
        max_subtree=conf.deletion.max_subtree,
        max_delay=datetime.timedelta(days=conf.deletion.max_delay),
        required=tuple(conf.deletion.required),
        limits=RequestLimits(**{each.name: conf.api[each.name] for each in dataclasses.fields(RequestLimits)}),
        report=ReportSettings(report_options.signer(conf), conf.report.remains),
    )
    return pipeline(conf, context, health.Health(parts(store, clouds, bus)))


def parts(store: Store, clouds: Clouds, bus: Callable[[], Any] | None) -> list[health.Part]:
    """Return the services that the health check of the API probes.

    Without a broker the API still accepts requests: the tick of an engine finds them.
    """
    needed = [
        health.Part("store", store.ping, needed=True),
        health.Part("keystone", clouds.check, needed=True),
    ]
    without = "requests are recorded, and start with the next tick of an engine"
    return [*needed, *([health.Part("bus", bus, needed=False, without=without)] if bus else [])]


def pipeline(conf: cfg.ConfigOpts, context: ApiContext, checks: health.Health) -> Any:
    """Return pecan inside its middleware."""
    handlers = pecan.make_app(
        root.Root(context),
        hooks=[root.Identity(), root.Checks(context.enforcer)],
        request_cls=root.Request,
        use_context_locals=False,
        force_canonical=False,
        guess_content_type_from_ext=False,
        default_renderer="json",
    )
    # Without a delayed decision a Keystone that is down gives a 503, and not an "invalid token".
    # Nothing here uses the catalog of the requester's token: Keystone need not send it, nor this process parse it.
    options = {"oslo_config_config": conf, "delay_auth_decision": False, "include_service_catalog": False}
    checked = _TokenCheck(handlers, options)
    conf.set_default("service_type", microversions.SERVICE_TYPE, group="keystone_authtoken")
    limited = sizelimit.RequestBodySizeLimiter(_ByPath(checked, handlers), conf)
    conf.set_default("max_request_body_size", _MAX_BODY, group="oslo_middleware")
    versioned = microversions.Versioned(limited, root.is_public)
    shaped = errors.Shaper(versioned, lambda: conf.oslo_middleware.max_request_body_size)
    conf.register_opts(cors.CORS_OPTS, "cors")  # its name in every oslo.middleware
    conf.set_default("allow_methods", ["GET", "HEAD", "POST", "PATCH", "DELETE"], group="cors")
    known = [microversions.HEADER, "X-OpenStack-Request-Id"]
    conf.set_default("allow_headers", ["Content-Type", "X-Auth-Token", *known], group="cors")
    conf.set_default("expose_headers", ["Location", *known], group="cors")
    # Without an allowed origin the CORS middleware would answer every OPTIONS request with an empty 200.
    shared = cors.CORS(shaped, conf) if conf.cors.allowed_origin else shaped
    gated = gate.Gate(context, conf.gate.secret, conf.gate.max_age) if conf.gate.secret else None
    framed = Frame(shared, _Health(checks, conf), gated, conf.api.help_url)
    return http_proxy_to_wsgi.HTTPProxyToWSGI(request_id.RequestId(framed, conf), conf)


class Frame:
    """Sets the log context of a request, logs the request, and passes health checks and the gate on.

    Every answer gets the headers that forbid caching.

    Logs only the method, the path and the status. Headers, query and body can contain secrets.
    """

    def __init__(self, application: Any, health: Any, gated: gate.Gate | None, help_url: str | None) -> None:
        self._application, self._health, self._gate, self._help_url = application, health, gated, help_url

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        """Answer one request."""
        ids = {name: request.environ.get(f"openstack.{name}") for name in ("request_id", "global_request_id")}
        request.environ[errors.HELP_URL] = self._help_url
        with our_log.context(**ids):
            if request.environ.get("PATH_INFO") == health.PATH:
                return _not_cached(request.get_response(self._health))
            begin = time.monotonic()
            asks_gate = self._gate is not None and request.environ.get("PATH_INFO", "").startswith(gate.PREFIX)
            response = request.get_response(self._gate if asks_gate else self._application)
            took = (time.monotonic() - begin) * 1000
            LOG.info("%s %s: %d in %d ms", request.method, _path(request), response.status_int, took)
            microversions.announce(request, response)
            return _not_cached(response)


def _not_cached(response: webob.Response) -> webob.Response:
    """Forbid caching of an answer: its content depends on the token and the microversion."""
    response.headers["Cache-Control"] = "no-store"
    response.vary = (*(response.vary or ()), "X-Auth-Token", microversions.HEADER)
    return response


def _path(request: webob.Request) -> str:
    try:
        return str(request.path)[:500]  # percent-encoded, so it cannot break a log line
    except UnicodeDecodeError:
        return "(a path that is not UTF-8)"


class _TokenCheck(auth_token.AuthProtocol):
    """The token check of keystonemiddleware.

    A malformed answer of Keystone becomes a 503 here, and not an internal error.
    """

    def fetch_token(self, *args: Any, **kwargs: Any) -> Any:
        """Return the data of a token.

        :raises BadAnswer: if Keystone answered 200 without a token
        """
        try:
            return super().fetch_token(*args, **kwargs)
        except (LookupError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
            raise BadAnswer(
                f"Keystone's answer to the token check has no token: {type(error).__name__}: {error}"
            ) from error


class _ByPath:
    """Checks the token of requests that need one."""

    def __init__(self, checked: Any, handlers: Any) -> None:
        self._checked, self._handlers = checked, handlers

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        path = environ.get("PATH_INFO", "")
        try:
            path.encode("latin-1").decode("utf-8")  # WSGI passes bytes as latin-1
        except UnicodeError:
            raise errors.of_status(404) from None
        return (self._checked if root.needs_token(path) else self._handlers)(environ, start_response)


class _Health:
    """Answers health checks.

    The backends of oslo.middleware, such as ``disable_by_file``, come first. Then the parts are probed.

    ``[healthcheck] detailed`` is ignored. With it oslo.middleware shows the stacks of all threads to anyone, and a
    request can stop the process: see :mod:`cleanup_orchestrator.monitoring.stacks`.
    """

    def __init__(self, checks: health.Health, conf: cfg.ConfigOpts) -> None:
        self._checks = checks
        conf.register_opts(healthcheck.opts.HEALTHCHECK_OPTS, group="healthcheck")
        conf.set_override("detailed", False, group="healthcheck")
        self._backends = healthcheck.Healthcheck(errors.Shaper(_nothing_here), conf)

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        """Answer one health check."""
        if request.method not in ("GET", "HEAD"):
            return errors.of_status(405, {"Allow": "GET, HEAD"}).response(request)
        first = request.get_response(self._backends)
        return first if first.status_int >= 400 else request.get_response(self._checks)


def _nothing_here(environ: dict[str, Any], start_response: Any) -> Any:
    raise errors.of_status(404)
