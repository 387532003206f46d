"""Builds the WSGI application: the middleware, in the order in which a request meets them, around pecan."""

from __future__ import annotations

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
from cleanup_orchestrator.api import errors, policies, root
from cleanup_orchestrator.api.context import ApiContext, EngineCaster
from cleanup_orchestrator.cloud.catalog import ServiceCatalog
from cleanup_orchestrator.cloud.projects import Projects, Protection
from cleanup_orchestrator.cloud.session import Clouds
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.monitoring import health
from cleanup_orchestrator.store import Store
from cleanup_orchestrator.store.orphans import new_scan

LOG = log.getLogger(__name__)

OPTS = {
    "api": [
        cfg.HostAddressOpt("host", default="127.0.0.1", help="Address that cleanup-orchestrator-api listens on."),
        cfg.PortOpt("port", default=8790, help="Port that cleanup-orchestrator-api listens on."),
        cfg.IntOpt("threads", default=16, min=1, help="Requests that one API process answers at once."),
        cfg.FloatOpt(
            "client_timeout",
            default=20.0,
            min=1.0,
            help="Seconds in which a whole request has to arrive, head and body, and in which its answer has to be "
            "read; also how long a connection may stay open with nothing on it.",
        ),
        cfg.IntOpt(
            "connections",
            default=1000,
            min=1,
            help="Connections that one API process has open at once; further ones wait. A client that sends slowly "
            "takes a connection for as long as client_timeout, and no thread: let the proxy in front limit them by "
            "address.",
        ),
        cfg.IntOpt("default_limit", default=100, min=1, help="Items on a page when the request names no limit."),
        cfg.IntOpt("max_limit", default=1000, min=1, help="The most items on a page; a larger limit is cut to it."),
    ],
    "deletion": [
        cfg.IntOpt(
            "plan_max_age",
            default=86400,
            min=1,
            help="Seconds from the end of a dry run for which a cascade may be asked for by its plan.",
        ),
        cfg.IntOpt(
            "max_subtree",
            default=1000,
            min=1,
            help="The most projects below the one that a request with include_subtree names. A larger tree is refused: "
            "its parts have to be asked for one by one. Each project is a record, and each that has others below it a "
            "call of Keystone, before the request is answered.",
        ),
    ],
}

SERVICE_TYPE = "project-cleanup"
_MAX_BODY = 16 * 1024


def build(
    conf: cfg.ConfigOpts,
    store: Store,
    clouds: Clouds,
    coverage: ServiceCatalog,
    engine: EngineCaster,
    bus: Callable[[], Any] | None = None,
) -> Any:
    """Return the WSGI application.

    :param conf: with the options of this module, of ``drain`` registered
    :param clouds: the orchestrator's own access to Keystone, read only
    :param bus: raises when the broker does not answer; none: there is no broker
    :raises keystoneauth1.exceptions.ClientException: when ``[keystone_authtoken]`` is not usable
    """
    identity = clouds.identity(clouds.admin_session())
    wiring = ApiContext(
        store=store,
        projects=Projects(identity),
        answers=lambda waivers: coverage.answers(identity, waivers),
        engine=engine,
        enforcer=policies.PolicyEnforcer(policies.enforcer(conf)),
        # All that the answers depend on; the others are the engine's.
        rules=Rules(settle=datetime.timedelta(seconds=conf.drain.token_cache_time)),
        protection=lambda: Protection(tuple(conf.deletion.never_delete_projects), clouds.project_id),
        scan=functools.partial(new_scan, conf),
        default_limit=min(conf.api.default_limit, conf.api.max_limit),
        max_limit=conf.api.max_limit,
        waiver_limit=datetime.timedelta(days=conf.catalog.waiver_limit),
        plan_max_age=datetime.timedelta(seconds=conf.deletion.plan_max_age),
        max_subtree=conf.deletion.max_subtree,
    )
    return pipeline(conf, wiring, health.Health(parts(store, clouds, bus)))


def parts(store: Store, clouds: Clouds, bus: Callable[[], Any] | None) -> list[health.Part]:
    """Return what the API rests on. Without a broker it still takes requests: the tick of an engine finds them."""
    needed = [
        health.Part("store", store.ping, needed=True),
        health.Part("keystone", lambda: health.keystone(clouds), needed=True),
    ]
    without = "requests are recorded, and taken up with the next tick of an engine"
    return [*needed, *([health.Part("bus", bus, needed=False, without=without)] if bus else [])]


def pipeline(conf: cfg.ConfigOpts, wiring: ApiContext, checks: health.Health) -> Any:
    """Return pecan with everything around it."""
    handlers = pecan.make_app(
        root.Root(wiring),
        hooks=[root.Identity()],
        request_cls=root.Request,
        use_context_locals=False,
        force_canonical=False,
        guess_content_type_from_ext=False,
        default_renderer="json",
    )
    # Its own word is enough: no delayed decision. Then a Keystone that is down is a 503, and not an "invalid token".
    checked = _TokenCheck(handlers, {"oslo_config_config": conf, "delay_auth_decision": False})
    conf.set_default("service_type", SERVICE_TYPE, group="keystone_authtoken")
    limited = sizelimit.RequestBodySizeLimiter(_ByPath(checked, handlers), conf)
    conf.set_default("max_request_body_size", _MAX_BODY, group="oslo_middleware")
    shaped = errors.Shaper(limited)
    conf.register_opts(cors.OPTS, "cors")
    conf.set_default("allow_methods", ["GET", "HEAD", "POST", "DELETE"], group="cors")
    conf.set_default("allow_headers", ["Content-Type", "X-Auth-Token", "X-OpenStack-Request-Id"], group="cors")
    conf.set_default("expose_headers", ["Location", "X-OpenStack-Request-Id"], group="cors")
    # Without an origin it is left out: it would answer every OPTIONS with an empty 200.
    shared = cors.CORS(shaped, conf) if conf.cors.allowed_origin else shaped
    framed = Frame(shared, _Health(checks, conf))
    return http_proxy_to_wsgi.HTTPProxyToWSGI(request_id.RequestId(framed, conf), conf)


class Frame:
    """Puts the request id on every log line of a request, logs the request itself, and answers health checks.

    Every answer leaves with the headers that keep it out of caches.

    Only method, path and status are logged: no header, no query, no body, and so no secret.
    """

    def __init__(self, application: Any, health: Any) -> None:
        self._application, self._health = application, health

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        """Answer one request."""
        with our_log.context(request_id=request.environ.get(errors.REQUEST_ID, "")):
            if request.environ.get("PATH_INFO") == health.PATH:
                return _for_nobody_else(request.get_response(self._health))
            begin = time.monotonic()
            response = request.get_response(self._application)
            took = (time.monotonic() - begin) * 1000
            LOG.info("%s %s: %d in %d ms", request.method, _path(request), response.status_int, took)
            return _for_nobody_else(response)


def _for_nobody_else(response: webob.Response) -> webob.Response:
    """Return an answer that no cache keeps, nor gives to another user: what it shows depends on the token."""
    response.headers["Cache-Control"] = "no-store"
    response.vary = (*(response.vary or ()), "X-Auth-Token")
    return response


def _path(request: webob.Request) -> str:
    try:
        return str(request.path)[:500]  # quoted: nothing in it can break a log line
    except UnicodeDecodeError:
        return "(a path that is not UTF-8)"


class _TokenCheck(auth_token.AuthProtocol):  # type: ignore[misc]
    """The token check of keystonemiddleware, for which a cut answer of Keystone is no defect of ours."""

    def fetch_token(self, *args: Any, **kwargs: Any) -> Any:
        """Return the data of a token.

        :raises BadAnswer: when Keystone answered 200, and what it sent is no token
        """
        try:
            return super().fetch_token(*args, **kwargs)
        except (LookupError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
            raise BadAnswer(f"the token check was answered with no token: {type(error).__name__}: {error}") from error


class _ByPath:
    """The token check stands before everything below ``/v1``; the versions document is for anybody."""

    def __init__(self, checked: Any, handlers: Any) -> None:
        self._checked, self._handlers = checked, handlers

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        path = environ.get("PATH_INFO", "")
        try:
            path.encode("latin-1").decode("utf-8")  # WSGI's way to hand on bytes
        except UnicodeError:
            raise errors.of_status(404) from None
        first = root.segments(path)[:1]
        return (self._checked if first == ("v1",) else self._handlers)(environ, start_response)


class _Health:
    """The operator's word first (oslo.middleware's backends, such as ``disable_by_file``), then what the parts say."""

    def __init__(self, checks: health.Health, conf: cfg.ConfigOpts) -> None:
        self._checks = checks
        self._operators = healthcheck.Healthcheck(errors.Shaper(_nothing_here), conf)

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        """Answer one check."""
        if request.method not in ("GET", "HEAD"):
            refused = errors.of_status(405, {"Allow": "GET, HEAD"})
            return refused.response(request.environ.get(errors.REQUEST_ID, ""))
        first = request.get_response(self._operators)
        return first if first.status_int >= 400 else request.get_response(self._checks)


def _nothing_here(environ: dict[str, Any], start_response: Any) -> Any:
    raise errors.of_status(404)
