"""Connections to the cloud: keystoneauth sessions that count every call and guard every write.

The guard is the one place where promises about writes are kept, whatever a plugin does: a look (and so a dry run)
cannot write at all, and a deletion's write is asked about right before it leaves, so that a cancel or a lost lease
stops it.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from typing import Any

import requests
from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1 import loading as ka_loading
from keystoneauth1 import session as ka_session
from keystoneauth1.adapter import Adapter
from keystoneauth1.identity.base import BaseIdentityPlugin
from openstack.config import cloud_region
from openstack.connection import Connection
from oslo_config import cfg

from cleanup_orchestrator.errors import BadAnswer, CleanupError, NoProjectToken, WriteRefused

GROUP = "orchestrator"
OPTS = {
    GROUP: [
        cfg.StrOpt("interface", default="internal", help="Which endpoints of the catalog are called."),
        cfg.StrOpt("region_name", help="Region of Keystone itself, where the catalog names several."),
        cfg.FloatOpt("call_timeout", default=60.0, min=1.0, help="Seconds after which a call counts as unanswered."),
        cfg.StrOpt("cafile", help="CA bundle to verify the endpoints' certificates with."),
        cfg.StrOpt("certfile", help="Client certificate."),
        cfg.StrOpt("keyfile", help="Key of the client certificate."),
        cfg.BoolOpt("insecure", default=False, help="Do not verify the endpoints' certificates."),
        *ka_loading.get_auth_common_conf_options(),
    ]
}
#: What keystoneauth registers by itself once it knows ``auth_type``: for the sample configuration only.
SAMPLE_OPTS = {GROUP: ka_loading.get_auth_plugin_conf_options("password")}

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
Guard = Callable[[str, str], None]  #: called with (method, url) before each write; raises to refuse it


def read_only(method: str, url: str) -> None:
    """Refuse every write: the guard of looks and dry runs."""
    raise WriteRefused(f"{method} {url} refused: this is a look, nothing may be written")


class GuardedSession(ka_session.Session):
    """A session that counts calls and asks the guard before each write. Getting a token is no write."""

    def __init__(self, guard: Guard, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._guard = guard
        self._lock = threading.Lock()
        self.calls = 0
        self.writes = 0

    def request(self, url: str, method: str, **kwargs: Any) -> Any:
        """Make one call; see ``keystoneauth1.session.Session.request``."""
        verb = method.upper()
        authenticating = kwargs.get("authenticated") is False and verb == "POST" and url.endswith("/auth/tokens")
        if verb not in SAFE_METHODS and not authenticating:
            self._guard(verb, url)
            with self._lock:
                self.writes += 1
        with self._lock:
            self.calls += 1
        return super().request(url, method, **kwargs)


class Clouds:
    """Sessions and connections of the orchestrator's user."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._options = conf[GROUP]
        self._http = requests.Session()
        for scheme in ("http://", "https://"):
            self._http.mount(scheme, requests.adapters.HTTPAdapter(pool_connections=32, pool_maxsize=64))
        self._admin_auth: BaseIdentityPlugin | None = None
        self._project_auths: collections.OrderedDict[str, BaseIdentityPlugin] = collections.OrderedDict()
        self._lock = threading.Lock()

    # -- authentication
    def _load_auth(self, **overrides: Any) -> BaseIdentityPlugin:
        if not self._options.auth_type:
            raise CleanupError(f"[{GROUP}] auth_type is not set: the orchestrator needs a user in the cloud")
        return ka_loading.load_auth_from_conf_options(self._conf, GROUP, **overrides)

    def admin_auth(self) -> BaseIdentityPlugin:
        """Return the orchestrator's own authentication, shared by all sessions."""
        with self._lock:
            if self._admin_auth is None:
                self._admin_auth = self._load_auth()
            return self._admin_auth

    def scratch_auth(self) -> BaseIdentityPlugin:
        """Return an authentication of its own, whose token may be revoked without harm to anybody."""
        return self._load_auth()

    def project_auth(self, project_id: str, fresh: bool = False) -> BaseIdentityPlugin:
        """Return the orchestrator's authentication scoped into a project; the latest few are kept."""
        if not project_id:
            raise ValueError("an empty project id")
        with self._lock:
            if fresh or project_id not in self._project_auths:
                self._project_auths[project_id] = self._load_auth(
                    project_id=project_id,
                    project_name=None,
                    project_domain_id=None,
                    project_domain_name=None,
                    system_scope=None,
                    domain_id=None,
                    domain_name=None,
                )
            self._project_auths.move_to_end(project_id)
            while len(self._project_auths) > 64:
                self._project_auths.popitem(last=False)
            return self._project_auths[project_id]

    def forget(self, project_id: str) -> None:
        """Forget the tokens kept for ourselves and for the project, and with them the catalog that came along."""
        with self._lock:
            self._admin_auth = None
            self._project_auths.pop(project_id, None)

    # -- sessions
    def session(self, auth: BaseIdentityPlugin, guard: Guard) -> GuardedSession:
        """Return a new session over the shared HTTP pool."""
        o = self._options
        return GuardedSession(
            guard,
            auth=auth,
            session=self._http,
            verify=False if o.insecure else (o.cafile or True),
            cert=(o.certfile, o.keyfile) if o.certfile and o.keyfile else o.certfile,
            timeout=o.call_timeout,
            app_name="cleanup-orchestrator",
        )

    def admin_session(self, guard: Guard = read_only) -> GuardedSession:
        """Return a session with the orchestrator's own token."""
        return self.session(self.admin_auth(), guard)

    def project_session(self, project_id: str, guard: Guard = read_only) -> GuardedSession:
        """Return a session with a token scoped into the project.

        :raises NoProjectToken: when Keystone gives none
        :raises BadAnswer: when the token is for another project
        """
        session = self.session(self.project_auth(project_id), guard)
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
        """Return the id of the orchestrator's own project, which is never deleted."""
        return str(self.admin_session().get_project_id())
