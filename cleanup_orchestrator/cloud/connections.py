"""Tokens, sessions and openstacksdk connections of the orchestrator's users."""

from __future__ import annotations

import collections
import copy
import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import requests
from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1 import loading as ka_loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.identity import v3
from keystoneauth1.identity.base import BaseIdentityPlugin
from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator import compat
from cleanup_orchestrator.cloud import assumptions, janitors, protocol_options
from cleanup_orchestrator.cloud.endpoints import KnownEndpoints, Unfiltered, interfaces
from cleanup_orchestrator.cloud.janitors import Janitor
from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.cloud.rate_limiter import RateLimiter
from cleanup_orchestrator.cloud.session import Guard, GuardedSession, answer_limits, http_pool, read_only
from cleanup_orchestrator.errors import BadAnswer, CleanupError, NoProjectToken, NoServiceToken, ScopeDisabled
from cleanup_orchestrator.keystone.http_limits import MIB, Limits

if TYPE_CHECKING:
    from openstack.connection import Connection

LOG = log.getLogger(__name__)
#: Group of the orchestrator's own user.
GROUP = "orchestrator"
#: Group of the user whose token services that speak the project resources protocol get.
PROTOCOL = protocol_options.GROUP
OPTS = {
    PROTOCOL: ka_loading.get_auth_common_conf_options(),
    GROUP: [
        cfg.StrOpt("interface", default="internal", help="Which endpoints of the catalog are called."),
        cfg.StrOpt("region_name", help="Region of Keystone, if the catalog has several regions."),
        cfg.StrOpt(
            "own_project_id",
            help="Id of the project that the workers' user logs in to: its deletion is always refused. The default is "
            "the project that the user in this file logs in to; if there is one, no other value is accepted. The API "
            "needs this option if its user has no project (system_scope = all).",
        ),
        cfg.FloatOpt(
            "call_timeout",
            default=60.0,
            min=1.0,
            help="Seconds after which an API call times out: the longest time to connect, and the longest pause of an "
            "answer.",
        ),
        cfg.FloatOpt(
            "answer_timeout",
            default=120.0,
            min=1.0,
            help="Longest time of a whole answer of a service, in seconds, from the end of the request on. It also "
            "ends an answer that comes so slowly that it has no pause of call_timeout. The result of the step is then "
            "'unknown' (bad_answer), and the step is tried again later.",
        ),
        cfg.IntOpt(
            "answer_limit",
            default=256,
            min=1,
            help="Longest answer of a service, in MiB, after decompression. The result of the step is 'unknown' "
            "(bad_answer) if an answer is longer. 100,000 ports in one answer take about 125 MiB.",
        ),
        cfg.IntOpt(
            "answer_memory",
            default=1536,
            min=16,
            help="Memory, in MiB, that all answers together may take in a process while they are read and parsed. The "
            "memory of parsed JSON is an estimate: an answer of a list takes about seven times its length, and one "
            "that was made to take much, up to fifty times. The result of a step whose answer would exceed the limit "
            "is 'unknown' (bad_answer). Answers up to 1 MiB are not counted and always read. If you change the limit, "
            "change MemoryMax of the worker's unit by as much.",
        ),
        cfg.StrOpt("cafile", help="CA bundle to verify the endpoints' certificates with."),
        cfg.StrOpt("certfile", help="Client certificate."),
        cfg.StrOpt("keyfile", help="Key of the client certificate."),
        cfg.ListOpt(
            "trusted_endpoints",
            default=[],
            help="Further URLs to which the orchestrator's tokens may be sent, besides auth_url and the endpoints of "
            "the catalog. Only scheme, host and port of each URL are compared. Needed in a cloud whose services name "
            "other hosts in their version documents or links than the catalog does.",
        ),
        cfg.BoolOpt("insecure", default=False, help="Do not verify the endpoints' certificates."),
        *ka_loading.get_auth_common_conf_options(),
    ],
}

#: Overrides that remove the configured scope.
_UNSCOPED: dict[str, str | None] = dict.fromkeys(
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

#: MiB of the longest answer of a service that speaks the protocol, whose pages have a thousand rows. The API reads such
#: answers, too, and its unit has less memory than that of a worker.
_MAX_OF_PROTOCOL = 16
#: Projects whose authentication is cached.
_CACHED_PROJECTS = 64


#: Seconds for which the version documents of the services are kept, like the extensions of Neutron: an upgrade changes
#: them, and a plugin may read in them that a service lacks a type.
_KEEP_VERSIONS = 30.0


class _Discovery:
    """The version documents that all sessions share, by URL.

    keystoneauth reads them again for each session otherwise, and each step has a session of its own. They depend on
    neither the project nor the token.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Drop all documents."""
        self._documents, self._since = dict[str, Any](), time.monotonic()

    def documents(self) -> dict[str, Any]:
        """Return the documents, which keystoneauth adds to."""
        with self._lock:
            if time.monotonic() - self._since > _KEEP_VERSIONS:
                self.forget()
            return self._documents


class Clouds:
    """Sessions and connections of the orchestrator's user and of the janitors."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Read the configuration.

        :raises CleanupError: a library does not call what the promises of the sessions rest on
        """
        assumptions.check()
        self._conf = conf
        self._options = conf[GROUP]
        self._http, self._protocol_http = http_pool(self._limits()), http_pool(self._limits(_MAX_OF_PROTOCOL))
        self._own_auth: list[BaseIdentityPlugin] = []  #: at most one; a list, because :meth:`within` shares it
        self._service_auth: list[BaseIdentityPlugin] = []  #: at most one
        #: At most one monotonic time: when the drain last found that Keystone's processes share their token cache.
        self.cache_checked_at: list[float] = []
        #: The same: when the drain last found over many connections that Keystone's processes have the fence.
        self.fences_checked_at: list[float] = []
        self._discovery = _Discovery()
        self._endpoints = KnownEndpoints()
        self._project_auths: collections.OrderedDict[str, BaseIdentityPlugin] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._budget: RateLimiter | None = None
        self._made: Callable[[GuardedSession], None] = lambda _: None

    def rate_limited(self, budget: RateLimiter) -> Clouds:
        """Return the same clouds with the same tokens; new sessions keep the rate limits."""
        limited = copy.copy(self)
        limited._budget = budget
        return limited

    def observed_by(self, on_session: Callable[[GuardedSession], None]) -> Clouds:
        """Return the same clouds; ``on_session`` is called with each new session."""
        seen = copy.copy(self)
        seen._made = on_session
        return seen

    def _limits(self, most: int | None = None) -> Limits:
        """Return the limits of the answers that one pool of connections reads.

        :param most: MiB of one answer; all take eight times as much memory. Default: what is configured
        """
        o = self._options
        longest, memory = (most, 8 * most) if most else (o.answer_limit, o.answer_memory)
        return answer_limits(longest=longest * MIB, seconds=o.answer_timeout, memory=memory * MIB, group=GROUP)

    # -- authentication
    def _load_auth(self, group: str = GROUP, **overrides: Any) -> BaseIdentityPlugin:
        if not self._conf[group].auth_type:
            raise CleanupError(f"[{group}] auth_type is not set: the orchestrator needs a user in Keystone")
        auth = ka_loading.load_auth_from_conf_options(self._conf, group, **overrides)
        if not isinstance(auth, BaseIdentityPlugin):  # without a catalog, it is unknown where its token may be sent
            raise CleanupError(f"[{group}] auth_type = {self._conf[group].auth_type} does not log in to Keystone")
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
        """Return a new authentication whose token may be revoked: no session shares it."""
        return self._load_auth()

    def is_password_right(self) -> bool:
        """Return whether Keystone knows the orchestrator's user by its password, whatever roles it has."""
        session = self.session(self._load_auth(GROUP, **_UNSCOPED), read_only)
        try:
            return bool(session.get_token())
        except (ka_exceptions.Unauthorized, ka_exceptions.Forbidden, ka_exceptions.NotFound):
            return False

    def project_auth(self, project_id: str, fresh: bool = False) -> BaseIdentityPlugin:
        """Return the orchestrator's authentication for a project, from a cache."""
        if not project_id:
            raise ValueError("an empty project id")
        with self._lock:
            if fresh or project_id not in self._project_auths:
                self._project_auths[project_id] = self._unfiltered(self._load_project_auth(GROUP, project_id))
            self._project_auths.move_to_end(project_id)
            while len(self._project_auths) > _CACHED_PROJECTS:
                self._project_auths.popitem(last=False)
            return self._project_auths[project_id]

    def _unfiltered(self, auth: BaseIdentityPlugin) -> BaseIdentityPlugin:
        """Return an authentication for a project, whose tokens no endpoint filter of the project cuts short."""
        return Unfiltered(auth, self._endpoints)

    def _know_endpoints(self) -> None:
        """Read the registered endpoints, unless they are recent: the tokens of projects need them."""
        self._endpoints.recent(self.identity(self.admin_session()))

    def forget(self, project_id: str) -> None:
        """Drop the cached tokens and catalogs of the configured users and of the project, and all version documents."""
        self.forget_project(project_id)
        with self._lock:
            self._own_auth.clear()
            self._service_auth.clear()
        self._discovery.forget()
        self._endpoints.forget()

    def forget_project(self, project_id: str) -> None:
        """Drop the cached token of the project."""
        with self._lock:
            self._project_auths.pop(project_id, None)

    # -- sessions
    def session(
        self,
        auth: BaseIdentityPlugin,
        guard: Guard,
        alone: bool = False,
        trusted: Collection[str] = (),
        http: requests.Session | None = None,
    ) -> GuardedSession:
        """Return a new session on the shared HTTP pool; ``alone``: on a new connection.

        :param trusted: URLs to which this session sends its token, too
        :param http: another pool
        """
        o = self._options
        session = GuardedSession(
            guard,
            self._budget,
            (*o.trusted_endpoints, *trusted),
            auth=auth,
            session=http_pool(self._limits()) if alone else http or self._http,
            verify=False if o.insecure else (o.cafile or True),
            cert=(o.certfile, o.keyfile) if o.certfile and o.keyfile else o.certfile,
            timeout=o.call_timeout,
            app_name="cleanup-orchestrator",
            discovery_cache=self._discovery.documents(),
        )
        self._made(session)
        return session

    def admin_session(self, guard: Guard = read_only) -> GuardedSession:
        """Return a session with the orchestrator's own token."""
        return self.session(self.admin_auth(), guard)

    def project_session(self, project_id: str, guard: Guard = read_only) -> GuardedSession:
        """Return a session with a token scoped to the project.

        :raises ScopeDisabled: the project or its domain is disabled
        :raises NoProjectToken: Keystone issues no token for another reason
        :raises BadAnswer: the token is for another project
        """
        self._know_endpoints()
        return self._scoped(self.session(self.project_auth(project_id), guard), project_id)

    def _scoped(self, session: GuardedSession, project_id: str) -> GuardedSession:
        """Return the session if its token is of the project; see :meth:`project_session`."""
        try:
            scope = session.get_project_id()
        except (ka_exceptions.Unauthorized, ka_exceptions.Forbidden, ka_exceptions.NotFound) as error:
            said = f"Keystone issues no token for the project (HTTP {error.http_status})"
            if why := self._why_disabled(project_id):
                raise ScopeDisabled(f"{said}: {why}") from None
            raise NoProjectToken(said) from None
        if scope != project_id:
            raise BadAnswer(f"asked for a token of project {project_id}, got one of {scope}")
        return session

    def _why_disabled(self, project_id: str) -> str:
        """Return what is disabled, as text for people; empty: nothing, or Keystone does not say it."""
        try:
            return Projects(self.identity(self.admin_session())).why_disabled(project_id)
        except Exception as error:
            LOG.debug("why Keystone gives no token of project %s is not known: %s", project_id, error)
            return ""

    def project_roles(self, project_id: str) -> frozenset[str]:
        """Return the roles in a token of the project; raises as :meth:`project_session`."""
        session = self.project_session(project_id)
        return frozenset(self.project_auth(project_id).get_access(session).role_names)

    # -- the janitor
    def janitor(self, deletion_id: str) -> Janitor | None:
        """Return the user that is the janitor of a deletion; ``None``: none is configured. The user need not exist."""
        options = self._conf[janitors.GROUP]
        if not options.secret:
            return None
        domain_id = options.domain_id or self.admin_auth().get_access(self.admin_session()).user_domain_id
        password = janitors.password(options.secret, deletion_id)
        return Janitor(janitors.user_name(deletion_id), str(domain_id), password)

    def janitor_session(
        self, janitor: Janitor, user_id: str, project_id: str, guard: Guard
    ) -> tuple[GuardedSession, frozenset[str]]:
        """Return a session with the janitor's token for a project, and the token's roles.

        The token is always new: an older one may have been issued before its grant was taken back.

        :raises NoProjectToken: Keystone issues no token
        :raises BadAnswer: the token is for another project
        """
        if not project_id:
            raise ValueError("an empty project id")
        self._know_endpoints()
        auth = self._unfiltered(self._janitor_auth(janitor, user_id, project_id=project_id))
        session = self._scoped(self.session(auth, guard), project_id)
        return session, frozenset(auth.get_access(session).role_names)

    def is_janitor(self, janitor: Janitor, user_id: str) -> bool:
        """Return whether a user has the password of the janitor, so that the orchestrator has made it."""
        auth = self._janitor_auth(janitor, user_id, unscoped=True)
        try:
            return bool(self.session(auth, read_only).get_token())
        except (ka_exceptions.Unauthorized, ka_exceptions.Forbidden, ka_exceptions.NotFound):
            return False

    def _janitor_auth(self, janitor: Janitor, user_id: str, **scope: Any) -> v3.Password:
        return v3.Password(self.admin_auth().auth_url, user_id=user_id, password=janitor.password, **scope)

    # -- the user of the project resources protocol
    def service_session(self, guard: Guard) -> GuardedSession:
        """Return a session with the token for services that speak the project resources protocol.

        Such a service sees the token, so that it must allow no more than the role ``service`` does. The session sends
        it to the endpoints that ``[protocol] endpoints`` names, too. No other session trusts these.

        :raises NoServiceToken: none is configured, Keystone issues none, or its user is an admin or the orchestrator's
            own user
        """
        if not self._conf[PROTOCOL].auth_type:
            raise NoServiceToken(f"the project resources protocol is off: [{PROTOCOL}] auth_type is not set")
        with self._lock:
            if not self._service_auth:
                self._service_auth.append(self._load_auth(group=PROTOCOL))
            auth = self._service_auth[0]
        trusted = protocol_options.endpoints(self._conf).values()
        session = self.session(auth, guard, trusted=trusted, http=self._protocol_http)
        try:
            user_id, roles = str(session.get_user_id()), auth.get_access(session).role_names
        except (ka_exceptions.Unauthorized, ka_exceptions.Forbidden, ka_exceptions.NotFound) as error:
            text = f"its user cannot log in to Keystone (HTTP {error.http_status})"
            raise NoServiceToken(f"the project resources protocol is not spoken: {text}: see [{PROTOCOL}]") from None
        if "admin" in {role.lower() for role in roles}:
            text = f"the token of user {user_id} has the role admin: give it the role 'service' alone"
            raise NoServiceToken(f"[{PROTOCOL}]: {text}")
        if self.user_id() == user_id:
            text = "names the orchestrator's own user: configure a user with the role 'service' and no other"
            raise NoServiceToken(f"[{PROTOCOL}] {text}")
        return session

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

    def why_no_endpoint(self, service_type: str, region: str) -> str:
        """Return why the catalog has no endpoint of a service, and what an admin does; empty: it has one.

        :raises BadAnswer: Keystone truncated a list
        :raises keystoneauth1.exceptions.ClientException: Keystone did not answer
        """
        session = self.admin_session()
        identity = self.identity(session)
        called = interfaces(identity)
        there = session.auth.get_access(session).service_catalog
        if there.get_urls(service_type=service_type, region_name=region or None, interface=sorted(called) or None):
            return ""
        self._endpoints.forget()  # what was read before may say that the endpoint is enabled
        return self._endpoints.recent(identity).why_missing(service_type, region, called, session.get_project_id())

    def check(self) -> None:
        """Have Keystone validate the orchestrator's token.

        This covers Keystone's database, its cache and the orchestrator's password.

        :raises keystoneauth1.exceptions.ClientException: if Keystone does not answer, or gives no token
        """
        session = self.admin_session()
        try:
            self.identity(session).get("/auth/tokens?nocatalog", headers={"X-Subject-Token": session.get_token()})
        except ka_exceptions.NotFound:  # it had expired, and another one was issued: Keystone answers
            LOG.debug("the token was replaced during the check")

    def connection(self, session: GuardedSession, region: str) -> Connection:
        """Return an openstacksdk connection to one region; empty: the region of Keystone."""
        # Engines and the API make no call with openstacksdk, which takes a third of a second to import.
        from openstack.config import cloud_region
        from openstack.connection import Connection

        config = cloud_region.from_session(
            session,
            name="cleanup-orchestrator",
            region_name=region or self._options.region_name,
            # Keystone is common to all regions, and may have an endpoint in one of them. Empty: in any region.
            identity_region_name=self._options.region_name or "",
            app_name="cleanup-orchestrator",
            interface=self._options.interface,
            api_timeout=self._options.call_timeout,
            # It is about the addresses of servers, which are never called. Without it each connection lists the network
            # interfaces of the host.
            force_ipv4=True,
        )
        compat.share_service_types(config)
        return Connection(config=config)

    def user_id(self) -> str:
        """Return the id of the orchestrator's own user."""
        return str(self.admin_session().get_user_id())

    def project_id(self) -> str:
        """Return the id of the orchestrator's own project, which is never deleted.

        :raises CleanupError: neither the token nor the configuration names it, or they name different projects
        """
        own = self.admin_session().get_project_id() or ""  # always asked: it shows that Keystone issues a token
        named = self._options.own_project_id or ""
        if own and named and own != named:  # the deletion of one of the two would not be refused
            text = f"own_project_id is {named}, and the token is of project {own}: the option is for another user"
            raise CleanupError(f"[{GROUP}]: {text}")
        if not (own or named):
            text = "the token has no project: set own_project_id to that of the workers' user"
            raise CleanupError(f"[{GROUP}]: {text}")
        return str(own or named)


def sample_options() -> dict[str, list[Any]]:
    """Return the options that keystoneauth registers once it knows ``auth_type``.

    They are for the sample configuration. keystoneauth loads its plugins for them, which takes 0.1 s.
    """
    return {group: ka_loading.get_auth_plugin_conf_options("password") for group in (GROUP, PROTOCOL)}
