"""Connections to the cloud: keystoneauth sessions that count every call and guard every write.

The guard is the one place where promises about writes are kept, whatever a plugin does: a look (and so a dry run)
cannot write at all, and a deletion's write is asked about right before it leaves, so that a cancel or a lost lease
stops it.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import datetime
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1 import loading as ka_loading
from keystoneauth1 import session as ka_session
from keystoneauth1.adapter import Adapter
from keystoneauth1.identity import v3
from keystoneauth1.identity.base import BaseIdentityPlugin
from openstack.config import cloud_region
from openstack.connection import Connection
from oslo_config import cfg

from cleanup_orchestrator.cloud.rate_limiter import Budget
from cleanup_orchestrator.core import rate_limits
from cleanup_orchestrator.core.step import LITERAL_PATH
from cleanup_orchestrator.errors import BadAnswer, CleanupError, NoJanitor, NoProjectToken, Stopped, WriteRefused
from cleanup_orchestrator.monitoring import metrics

GROUP = "orchestrator"
#: The second user, with which no more can be done than with any member's.
JANITOR = "janitor"
OPTS = {
    JANITOR: [
        cfg.ListOpt(
            "roles",
            default=["member"],
            help="Roles that the janitor gets on a project while its stacks and clusters are deleted, recorded and "
            "taken back. Heat and Magnum act on what the project's users wrote with the token that asks for the "
            "delete, so this token must be able to do no more than those users. The janitor must have no other role "
            "anywhere, also none by inheritance, and be in no group: otherwise nothing is deleted with its token. None "
            "of the roles may be 'admin', or imply it.",
        ),
        *ka_loading.get_auth_common_conf_options(),
    ],
    GROUP: [
        cfg.StrOpt("interface", default="internal", help="Which endpoints of the catalog are called."),
        cfg.StrOpt("region_name", help="Region of Keystone itself, where the catalog names several."),
        cfg.StrOpt(
            "own_project_id",
            help="Id of the project that the workers' user logs in to: its deletion is always refused. By default the "
            "project of the user of this file, and nothing else where that user has one. The API needs it where its "
            "user has none (system_scope = all).",
        ),
        cfg.FloatOpt("call_timeout", default=60.0, min=1.0, help="Seconds after which a call counts as unanswered."),
        cfg.StrOpt("cafile", help="CA bundle to verify the endpoints' certificates with."),
        cfg.StrOpt("certfile", help="Client certificate."),
        cfg.StrOpt("keyfile", help="Key of the client certificate."),
        cfg.ListOpt(
            "trusted_endpoints",
            default=[],
            help="Further URLs to which the orchestrator's tokens may be sent, besides auth_url and the endpoints of "
            "the catalog. Only scheme, host and port of each count. For a cloud whose services name other hosts in "
            "their version documents or links than the catalog does.",
        ),
        cfg.BoolOpt("insecure", default=False, help="Do not verify the endpoints' certificates."),
        *ka_loading.get_auth_common_conf_options(),
    ],
}
#: What keystoneauth registers by itself once it knows ``auth_type``: for the sample configuration only.
SAMPLE_OPTS = {group: ka_loading.get_auth_plugin_conf_options("password") for group in (GROUP, JANITOR)}

#: What the configuration may say of a scope, all unset.
_UNSCOPED: Mapping[str, None] = dict.fromkeys(
    (
        "project_id",
        "project_name",
        "project_domain_id",
        "project_domain_name",
        "system_scope",
        "domain_id",
        "domain_name",
    )
)

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
#: Seconds before a call that only reads is made again: a step makes dozens, and one that fails would undo them all.
AGAIN = (0.1, 0.2, 0.4)
#: What a service, or a proxy in front of it, may say for a moment.
PASSING = frozenset({429, 500, 502, 503, 504})
#: What says that we ask too much: always (498 is Swift's), or where it comes with ``Retry-After``.
TOO_MANY = frozenset({429, 498})
TOO_MANY_IF_ASKED = frozenset({413, 503})
#: Of these, what says that the call was not done: even a write may be made again.
NOT_DONE = frozenset({413, 429, 498})
#: The longest ``Retry-After`` that is waited for, in seconds; beyond that the step comes back later.
PATIENCE = 5.0
Guard = Callable[[str, str], None]  #: called with (method, url) before each write; raises to refuse it


#: Headers that carry a token.
_TOKENS = ("X-Auth-Token", "X-Subject-Token", "X-Service-Token", "Authorization")
_REDIRECTS = frozenset({301, 302, 303, 305, 307, 308})

Origin = tuple[str, str, int]  #: scheme, host and port


def origin(url: str) -> Origin | None:
    """Return where a request to a URL is sent, as ``requests`` reads it; ``None``: nowhere."""
    try:
        found = urlsplit(requests.Request("GET", url).prepare().url or "")
        port = found.port or {"http": 80, "https": 443}[found.scheme]
    except (ValueError, KeyError):  # requests' own errors of a URL are a ValueError, too
        return None
    return found.scheme, str(found.hostname), port


def read_only(method: str, url: str) -> None:
    """Refuse every write: the guard of looks and dry runs."""
    raise WriteRefused(f"{method} {url} refused: this is a look, nothing may be written")


def _shown(place: Origin | None) -> str:
    """Return an origin for people."""
    if place is None:
        return "no address"
    host = f"[{place[1]}]" if ":" in place[1] else place[1]
    return f"{place[0]}://{host}:{place[2]}"


class GuardedSession(ka_session.Session):
    """A session that counts calls and asks the guard before each write. Getting a token is no write.

    What only reads is asked again when it fails in passing. A write never is: it may have been done, and whether it
    should be done again is for the one to say who looks at what is there now.
    """

    def __init__(
        self, guard: Guard, budget: Budget | None = None, trusted: Collection[str] = (), **kwargs: Any
    ) -> None:
        """``trusted``: URLs to whose hosts a token may be sent, besides the endpoints of its catalog."""
        super().__init__(**kwargs)
        self._guard, self._budget = guard, budget
        self._trusted = {origin(url) for url in trusted}
        self._catalog: tuple[Any, frozenset[Origin | None]] = (None, frozenset())  #: of which token, and its origins
        self._local = threading.local()
        self._lock = threading.Lock()
        self.calls = 0
        self.writing = 0  #: write calls that are under way: they may still take effect
        self.life = time.monotonic()  #: when a call last began to wait for its turn, left, or was answered
        self._over = ""

    def end(self, why: str) -> None:
        """Refuse every further call, the ones that only read included: who makes them was given up."""
        self._over = why

    def request(self, url: str, method: str, **kwargs: Any) -> Any:
        """Make a call, one that only reads a few times if it must be; see ``keystoneauth1.session.Session.request``.

        A write is made again only where its service said that it did not do it, for it was asked too much.
        """
        verb = method.upper()
        authenticating = kwargs.get("authenticated") is False and verb == "POST" and url.endswith("/auth/tokens")
        writing = verb not in SAFE_METHODS and not authenticating
        once = not isinstance(kwargs.get("data"), str | bytes | None)  # a stream is used up by the first attempt
        where = ("identity", "") if authenticating else self._where(kwargs.get("endpoint_filter"))
        for pause in (*(() if once else AGAIN), None):
            # A new one each time: keystoneauth writes into what it is given. Its own words for what we wait for are
            # the right place: around each call on the wire, redirects included, and not around getting a token first.
            given = {**kwargs, "headers": dict(kwargs.get("headers") or {})}
            given["rate_semaphore"] = _Turn(self, verb, url, where, writing)
            try:
                with self._at(where):
                    response = self._request(url, method, **given)
            except ka_exceptions.ConnectFailure:
                if writing or pause is None:
                    raise
                wait: float | None = pause
            except ka_exceptions.HttpError as error:
                if (wait := self._before_another(error.http_status, error.response, pause, where, writing)) is None:
                    raise
            else:
                if (wait := self._before_another(response.status_code, response, pause, where, writing)) is None:
                    return response
            time.sleep(wait)
        raise AssertionError("unreachable")

    def _request(self, url: str, method: str, **kwargs: Any) -> Any:
        with metrics.call(kwargs.get("endpoint_filter")) as answered:
            response = super().request(url, method, **kwargs)
            answered(response.status_code)
            return response

    def _send_request(self, url: str, method: str, redirect: int | bool, *args: Any, **kwargs: Any) -> Any:
        """Send one request; keystoneauth comes here again for each redirect that it follows.

        :raises BadAnswer: a token would leave the catalog, or a write would be sent on
        """
        if any(name in kwargs["headers"] for name in _TOKENS):
            self._expect_trusted(url)
        if method.upper() in SAFE_METHODS:
            return super()._send_request(url, method, redirect, *args, **kwargs)
        response = super()._send_request(url, method, False, *args, **kwargs)
        if response.status_code in _REDIRECTS:
            place = origin(urljoin(url, response.headers.get("Location", "")))
            raise BadAnswer(
                f"{method} {url} was answered with a redirect ({response.status_code}) to {_shown(place)}: a write "
                f"follows none; correct the service's endpoint in the catalog"
            )
        return response

    def _expect_trusted(self, url: str) -> None:
        """Refuse a URL that is not at an endpoint of the catalog which came with the token.

        A service may name any address in a link, a redirect or a version document.
        """
        place = origin(url)
        if place in self._trusted or (access := getattr(self.auth, "get_access", None)) is None:
            return  # without a catalog there is no identity, and so no token of anybody
        found = access(self)
        if self._catalog[0] is not found:
            services = found.service_catalog.catalog if found.has_service_catalog() else ()
            urls = [endpoint.get("url", "") for service in services for endpoint in service.get("endpoints", ())]
            named = {origin(url) for url in (*urls, getattr(self.auth, "auth_url", ""))}
            self._catalog = found, frozenset(named - {None})
        if place not in self._catalog[1]:
            raise BadAnswer(
                f"a service names {_shown(place)}, which is no endpoint of the catalog: no token is sent there; "
                f"correct the service or its endpoint, or trust the address ([{GROUP}] trusted_endpoints)"
            )

    def service_types(self) -> frozenset[str]:
        """Return the types of the services in the catalog that came with the token."""
        catalog = self.auth.get_access(self).service_catalog
        return frozenset(str(service.get("type")) for service in catalog.catalog)

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Count a write as under way: it may still take effect."""
        with self._lock:
            self.writing += 1
        try:
            yield
        finally:
            with self._lock:
                self.writing -= 1

    def sign(self) -> None:
        """Note a sign of life.

        :raises Stopped: there must be none any more
        """
        if self._over:
            raise Stopped(self._over)
        self.life = time.monotonic()

    def count(self) -> None:
        """Count a call.

        :raises Stopped: there must be none any more
        """
        self.sign()
        with self._lock:
            self.calls += 1

    # -- whose call it is
    def get_endpoint(self, *args: Any, **kwargs: Any) -> Any:
        """Return an endpoint; what is called to find it is called on behalf of its service."""
        with self._at(self._where(kwargs)):
            return super().get_endpoint(*args, **kwargs)

    def get_endpoint_data(self, *args: Any, **kwargs: Any) -> Any:
        """Return an endpoint's data; see :meth:`get_endpoint`."""
        with self._at(self._where(kwargs)):
            return super().get_endpoint_data(*args, **kwargs)

    def _where(self, named: Mapping[str, Any] | None) -> tuple[str, str]:
        """Return service type and region of a call; of one that names none, those on whose behalf it is made."""
        if named and named.get("service_type"):
            return str(named["service_type"]), str(named.get("region_name") or "")
        return getattr(self._local, "where", ("", ""))

    @contextlib.contextmanager
    def _at(self, where: tuple[str, str]) -> Iterator[None]:
        before = getattr(self._local, "where", ("", ""))
        self._local.where = where
        try:
            yield
        finally:
            self._local.where = before

    def _before_another(
        self, status: int, response: Any, pause: float | None, where: tuple[str, str], writing: bool
    ) -> float | None:
        """Return the seconds to wait before a call is made again, ``None`` if its answer counts."""
        headers = response.headers if response is not None else {}
        now = datetime.datetime.now(datetime.UTC)
        asked = rate_limits.retry_after(headers.get("Retry-After"), headers.get("Date"), now)
        slow_down = status in TOO_MANY or (status in TOO_MANY_IF_ASKED and asked is not None)
        if slow_down and self._budget is not None:
            tries = AGAIN.index(pause) if pause is not None else len(AGAIN)
            self._budget.pause(*where, 2.0**tries if asked is None else max(asked, AGAIN[0]))
        if pause is None or (writing and not (slow_down and status in NOT_DONE)):
            return None
        if slow_down and self._budget is not None:
            # Its next turn comes when the pause is over; one that is longer than calls wait is for the step to sit out.
            return 0.0 if self._budget.may_wait(*where) else None
        if status not in PASSING | TOO_MANY or (writing and self._budget is None):
            return None
        wait = pause if asked is None else asked
        return wait if wait <= PATIENCE else None


class _Turn:
    """Around a call on the wire: its turn first, then, right before a write leaves, the guard."""

    def __init__(self, session: GuardedSession, verb: str, url: str, where: tuple[str, str], writing: bool) -> None:
        self._session, self._verb, self._url, self._where, self._writing = session, verb, url, where, writing
        self._stack = contextlib.ExitStack()

    def _ask(self) -> None:
        self._session._guard(self._verb, self._url)

    def __enter__(self) -> None:
        session = self._session
        session.sign()
        with contextlib.ExitStack() as stack:
            if session._budget is not None:
                still = self._ask if self._writing else None
                stack.enter_context(session._budget.permit(*self._where, delete=self._verb == "DELETE", still=still))
            if self._writing:
                # From before the guard is asked: who has it refuse from now on, and then sees none under way, is sure.
                stack.enter_context(session.under_way())
                self._ask()
            session.count()
            self._stack = stack.pop_all()

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
        self._session.life = time.monotonic()


class _LiteralPaths(requests.adapters.HTTPAdapter):
    """Sends the path that a request's header names, where it has one."""

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        """Return the path and query to send."""
        literal = request.headers.pop(LITERAL_PATH, None)
        return str(literal) if literal else super().request_url(request, proxies)


def http_pool() -> requests.Session:
    """Return the connections that sessions share."""
    pool = requests.Session()
    for scheme in ("http://", "https://"):
        pool.mount(scheme, _LiteralPaths(pool_connections=32, pool_maxsize=64))
    return pool


class Clouds:
    """Sessions and connections of the orchestrator's user."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._options = conf[GROUP]
        self._http = http_pool()
        self._own_auth: list[BaseIdentityPlugin] = []  #: one at most; a list, for :meth:`within` shares it
        self._janitor_auth: list[BaseIdentityPlugin] = []  #: one at most, without a scope
        self._project_auths: collections.OrderedDict[str, BaseIdentityPlugin] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._budget: Budget | None = None
        self._made: Callable[[GuardedSession], None] = lambda _: None

    def within(self, budget: Budget) -> Clouds:
        """Return the same clouds with the same tokens, in sessions whose calls keep the limits."""
        limited = copy.copy(self)
        limited._budget = budget
        return limited

    def seen_by(self, made: Callable[[GuardedSession], None]) -> Clouds:
        """Return the same clouds, which show each new session to somebody first."""
        seen = copy.copy(self)
        seen._made = made
        return seen

    # -- authentication
    def _load_auth(self, group: str = GROUP, **overrides: Any) -> BaseIdentityPlugin:
        if not self._conf[group].auth_type:
            raise CleanupError(f"[{group}] auth_type is not set: the orchestrator needs a user in the cloud")
        auth = ka_loading.load_auth_from_conf_options(self._conf, group, **overrides)
        if not isinstance(auth, BaseIdentityPlugin):  # it has no catalog, and so nothing says where its token may go
            raise CleanupError(f"[{group}] auth_type = {self._conf[group].auth_type} is none that logs in to Keystone")
        return auth

    def _load_project_auth(self, group: str, project_id: str) -> BaseIdentityPlugin:
        return self._load_auth(group=group, **(_UNSCOPED | {"project_id": project_id}))

    def admin_auth(self) -> BaseIdentityPlugin:
        """Return the orchestrator's own authentication, shared by all sessions."""
        with self._lock:
            if not self._own_auth:
                self._own_auth.append(self._load_auth())
            return self._own_auth[0]

    def scratch_auth(self) -> BaseIdentityPlugin:
        """Return an authentication of its own, whose token may be revoked without harm to anybody."""
        return self._load_auth()

    def project_auth(self, project_id: str, fresh: bool = False) -> BaseIdentityPlugin:
        """Return the orchestrator's authentication scoped into a project; the latest few are kept."""
        if not project_id:
            raise ValueError("an empty project id")
        with self._lock:
            if fresh or project_id not in self._project_auths:
                self._project_auths[project_id] = self._load_project_auth(GROUP, project_id)
            self._project_auths.move_to_end(project_id)
            while len(self._project_auths) > 64:
                self._project_auths.popitem(last=False)
            return self._project_auths[project_id]

    def forget(self, project_id: str) -> None:
        """Forget the tokens kept for ourselves and for the project, and with them the catalog that came along."""
        with self._lock:
            self._own_auth.clear()
            self._janitor_auth.clear()
            self._project_auths.pop(project_id, None)

    # -- sessions
    def session(self, auth: BaseIdentityPlugin, guard: Guard, alone: bool = False) -> GuardedSession:
        """Return a new session over the shared HTTP pool; ``alone``: over a connection of its own."""
        o = self._options
        session = GuardedSession(
            guard,
            self._budget,
            o.trusted_endpoints,
            auth=auth,
            session=None if alone else self._http,
            verify=False if o.insecure else (o.cafile or True),
            cert=(o.certfile, o.keyfile) if o.certfile and o.keyfile else o.certfile,
            timeout=o.call_timeout,
            app_name="cleanup-orchestrator",
        )
        self._made(session)
        return session

    def admin_session(self, guard: Guard = read_only) -> GuardedSession:
        """Return a session with the orchestrator's own token."""
        return self.session(self.admin_auth(), guard)

    def project_session(self, project_id: str, guard: Guard = read_only) -> GuardedSession:
        """Return a session with a token scoped into the project.

        :raises NoProjectToken: when Keystone gives none
        :raises BadAnswer: when the token is for another project
        """
        return self._scoped(self.session(self.project_auth(project_id), guard), project_id)

    @staticmethod
    def _scoped(session: GuardedSession, project_id: str) -> GuardedSession:
        """Return the session with a token that is known to be of the project; raises as :meth:`project_session`."""
        try:
            scope = session.get_project_id()
        except (ka_exceptions.Unauthorized, ka_exceptions.Forbidden, ka_exceptions.NotFound) as error:
            raise NoProjectToken(f"Keystone gives us no token for the project (HTTP {error.http_status})") from None
        if scope != project_id:
            raise BadAnswer(f"asked for a token of project {project_id}, got one of {scope}")
        return session

    def project_roles(self, project_id: str) -> frozenset[str]:
        """Return the names of the roles in a token scoped into the project; raises as :meth:`project_session`."""
        session = self.project_session(project_id)
        return frozenset(self.project_auth(project_id).get_access(session).role_names)

    # -- the janitor
    def janitor_id(self) -> str:
        """Return the id of the janitor's user; empty: none is configured.

        :raises NoJanitor: when Keystone does not let it in, or it is the orchestrator's own user
        """
        if not self._conf[JANITOR].auth_type:
            return ""
        with self._lock:
            if not self._janitor_auth:
                self._janitor_auth.append(self._load_auth(group=JANITOR, **_UNSCOPED))
            auth = self._janitor_auth[0]
        try:
            user_id = str(self.session(auth, read_only).get_user_id())
        except (ka_exceptions.Unauthorized, ka_exceptions.Forbidden, ka_exceptions.NotFound) as error:
            raise NoJanitor(
                f"Keystone does not let the janitor in (HTTP {error.http_status}): see [{JANITOR}]"
            ) from None
        if user_id == self.user_id():
            raise NoJanitor(f"[{JANITOR}] names the orchestrator's own user: it has to be one without any role")
        return user_id

    def janitor_session(self, project_id: str, guard: Guard) -> tuple[GuardedSession, frozenset[str]]:
        """Return a session with the janitor's token for a project, and the names of the roles that it carries.

        The token is always a new one: an older one may be from before its grant was taken back.

        :raises NoProjectToken: when Keystone gives none
        :raises BadAnswer: when the token is for another project
        """
        if not project_id:
            raise ValueError("an empty project id")
        auth = self._load_project_auth(JANITOR, project_id)
        session = self._scoped(self.session(auth, guard), project_id)
        return session, frozenset(auth.get_access(session).role_names)

    def can_rescope(self, session: GuardedSession, project_id: str) -> bool:
        """Return whether Keystone exchanges a session's token for another one of a project.

        It does unless ``[token] allow_rescope_scoped_token`` is false in keystone.conf, which no call tells. The token
        that is got here is thrown away.
        """
        url = str(getattr(session.auth, "auth_url", ""))
        auth = v3.Token(url, session.get_token(), project_id=project_id)
        try:
            self.session(auth, read_only).get_token()
        except (ka_exceptions.Unauthorized, ka_exceptions.Forbidden):
            return False
        return True

    def identity(self, session: GuardedSession) -> Adapter:
        """Return Keystone's v3 API."""
        return Adapter(
            session,
            service_type="identity",
            interface=self._options.interface,
            region_name=self._options.region_name,
            version="3",
            raise_exc=True,
        )

    def connection(self, session: GuardedSession, region: str) -> Connection:
        """Return an openstacksdk connection to one region over the session; empty region: Keystone's."""
        config = cloud_region.from_session(
            session,
            name="cleanup-orchestrator",
            region_name=region or self._options.region_name,
            app_name="cleanup-orchestrator",
            interface=self._options.interface,
            api_timeout=self._options.call_timeout,
        )
        return Connection(config=config)

    def user_id(self) -> str:
        """Return the id of the orchestrator's own user."""
        return str(self.admin_session().get_user_id())

    def project_id(self) -> str:
        """Return the id of the orchestrator's own project, which is never deleted.

        :raises CleanupError: when neither the token nor the configuration names it, or they name different ones
        """
        own = self.admin_session().get_project_id() or ""  # asked in any case: it shows that Keystone gives a token
        named = self._options.own_project_id or ""
        if own and named and own != named:  # one of the two would not be refused
            text = f"own_project_id is {named}, and the token is of project {own}: the option is for another user"
            raise CleanupError(f"[{GROUP}]: {text}")
        if not (own or named):
            text = "the token has no project: set own_project_id to that of the workers' user"
            raise CleanupError(f"[{GROUP}]: {text}")
        return str(own or named)
