"""Connects the orchestrator and the simulated cloud: real sessions without HTTP, and the plugins."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from typing import Any

from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud import janitors
from cleanup_orchestrator.cloud.connections import Clouds
from cleanup_orchestrator.cloud.janitors import Janitor
from cleanup_orchestrator.cloud.session import Guard, GuardedSession
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.keystone import protocol
from cleanup_orchestrator.plugins.base import (
    EVERYTHING,
    ForcedDelete,
    Halt,
    LastChange,
    OneByOne,
    ResourceType,
    Run,
    Service,
    Use,
    Verdict,
    linked,
    refused_in_use,
)
from cleanup_orchestrator.plugins.base import SCOPED as SCOPED_OWNER
from cleanup_orchestrator.plugins.registry import Registry
from tests.simulation.cloud import (
    EVERYBODY,
    FORCIBLE,
    PROJECT_SETTINGS,
    SCOPED,
    SERVER,
    SHARED_LISTS,
    TYPES,
    UNSHOWN,
    Cloud,
)
from tests.simulation.keystone import ME, OWN, Answer
from tests.support.scheduler import active

#: Seconds after which a call counts as unanswered.
CALL_TIMEOUT = 60.0

_REFUSALS = (500, 503, 429, 403)
_ERRORS = {
    400: ka_exceptions.BadRequest,
    401: ka_exceptions.Unauthorized,
    403: ka_exceptions.Forbidden,
    404: ka_exceptions.NotFound,
    409: ka_exceptions.Conflict,
    429: ka_exceptions.TooManyRequests if hasattr(ka_exceptions, "TooManyRequests") else ka_exceptions.HttpError,
    500: ka_exceptions.InternalServerError,
    503: ka_exceptions.ServiceUnavailable,
}


class Auth:
    """Stands for an authentication plugin: gets its token when it is needed, and a new one when that is refused."""

    def __init__(self, project: str, user: str) -> None:
        self._project, self._user, self._access = project, user, None

    def get_access(self, session: Any) -> Any:
        if self._access is None:
            response = session.request("/auth/tokens", "POST", authenticated=False, json=(self._project, self._user))
            body = response.json()
            self._access = types.SimpleNamespace(token=body["token"], role_names=body["roles"])
        return self._access

    def get_token(self, session: Any) -> str:
        return self.get_access(session).token

    def get_project_id(self, session: Any) -> str:
        self.get_access(session)
        return self._project

    def get_user_id(self, session: Any) -> str:
        self.get_access(session)
        return self._user

    def invalidate(self) -> bool:
        self._access = None
        return True


class Session(GuardedSession):
    """The real session without network access."""

    def __init__(self, cloud: Cloud, guard: Guard, auth: Auth) -> None:
        super().__init__(guard, None, auth=auth, session=types.SimpleNamespace())
        self._cloud = cloud

    def get_token(self, auth: Any = None) -> Any:
        return self.auth.get_token(self)

    def get_project_id(self, auth: Any = None) -> Any:
        return self.auth.get_project_id(self)

    def get_user_id(self, auth: Any = None) -> Any:
        return self.auth.get_user_id(self)

    def _request(self, url: str, method: str, **given: Any) -> Answer:
        for again in (True, False):
            token = "" if given.get("authenticated") is False else self.auth.get_token(self)
            with given["rate_semaphore"]:
                answer = self._wire(token, method, url, given)
            if answer.status_code != 401 or not token or not again:
                break
            self.auth.invalidate()
        if answer.status_code >= 400:
            error = _ERRORS[answer.status_code]
            raise error(f"{method} {url}: {answer.status_code}", response=answer)
        return answer

    def _wire(self, token: str, method: str, url: str, given: Mapping[str, Any]) -> Answer:
        simulation, cloud = active(), self._cloud
        getting_token = url == "/auth/tokens" and method == "POST"
        service = url.split("/")[3].split(".")[0] if url.startswith("/service/") else "identity"
        kind = "read" if method == "GET" or getting_token else "write"
        fault = simulation.point(kind, f"{method} {url}")
        if cloud.down.get(service, 0.0) > simulation.now:
            return Answer(503, {"error": "it is down"})
        if fault is not None:
            if fault.kind == "refuse":
                return Answer(_REFUSALS[int(fault.size * len(_REFUSALS))], {"error": "no"})
            if fault.kind == "outage":
                if not cloud.calmed:  # decided before, and carried out after
                    cloud.down[service] = simulation.now + 300.0 * fault.size
                return Answer(503, {"error": "it is down from now on"})
            if fault.kind == "hang":
                simulation.sleep(CALL_TIMEOUT)
                raise ka_exceptions.ConnectTimeout("not answered")
            if fault.kind == "cut":
                raise ka_exceptions.ConnectFailure("no connection")
        if getting_token:
            canary = self.additional_headers.get(protocol.CANARY_HEADER, "")
            answer = cloud.keystone.token(*given["json"], canary=canary)
        else:
            assert simulation.current is not None
            answer = cloud.serve(simulation.current, token, method, url, given.get("json"), given.get("headers") or {})
        if fault is not None:
            if fault.kind == "slow":
                simulation.sleep(CALL_TIMEOUT)
                raise ka_exceptions.ConnectTimeout("answered too late")
            if fault.kind == "lost":
                raise ka_exceptions.ConnectFailure("the answer was lost")
        return answer


class Adapter:
    """Keystone's API."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_endpoint(self) -> str:
        """Return the root: all paths are below it."""
        return ""

    def __getattr__(self, name: str) -> Any:
        if name not in ("get", "put", "post", "patch", "delete"):
            raise AttributeError(name)
        return lambda url, **kwargs: self._session.request(url, name.upper(), **kwargs)


class SimulatedClouds(Clouds):
    """The real class without the parts that read the configuration or use the network."""

    def __init__(self, cloud: Cloud) -> None:
        limits = {"answer_limit": 64, "answer_memory": 512, "answer_timeout": 300.0}
        super().__init__({"orchestrator": types.SimpleNamespace(own_project_id="", **limits)})
        self._cloud = cloud

    def _load_auth(self, group: str = "", **overrides: Any) -> Auth:
        return Auth(overrides.get("project_id") or OWN, ME)

    def _unfiltered(self, auth: Any) -> Any:
        """Return the authentication itself: tokens have no catalog here."""
        return auth

    def _know_endpoints(self) -> None:
        """Make no call: nothing here has an endpoint."""

    def janitor(self, deletion_id: str) -> Janitor | None:
        """Return the janitor of a deletion, if the plan has one."""
        return Janitor(janitors.user_name(deletion_id), "dom", "secret") if self._cloud.plan.janitor else None

    def is_janitor(self, _janitor: Janitor, _user_id: str) -> bool:
        """Return whether a user has the janitor's password: no other user makes one here."""
        return True

    def janitor_session(self, janitor: Janitor, user_id: str, project_id: str, guard: Guard) -> Any:
        """Return a session with the janitor's token, and its roles."""
        auth = Auth(project_id, user_id)
        session = self._scoped(self.session(auth, guard), project_id)
        return session, frozenset(auth.get_access(session).role_names)

    def session(self, auth: Any, guard: Guard, alone: bool = False) -> Session:
        session = Session(self._cloud, guard, auth)
        self._made(session)
        return session

    def identity(self, session: Any) -> Any:
        return Adapter(session)

    def connection(self, session: Any, region: str) -> Any:
        return types.SimpleNamespace(session=session, region=region, cloud=self._cloud)


# ----------------------------------------------------------------------------------------------------------- plugins
def _url(connection: Any, name: str, id_: str = "") -> str:
    return f"/service/{connection.region or '-'}/{name}" + (f"/{id_}" if id_ else "")


def _type(service: str, type_: str, janitor: bool) -> ResourceType:
    name = f"{service}.{type_}"

    def listing(connection: Any, project: Any) -> Any:
        return connection.session.request(f"{_url(connection, name)}?project={project.id}", "GET").json()

    def everybodys(connection: Any, _project: Any) -> Any:
        return connection.session.request(f"{_url(connection, name)}?project={EVERYBODY}", "GET").json()

    def show(connection: Any, _project: Any, resource: Any) -> Any:
        return connection.session.request(_url(connection, name, resource.id), "GET").json()

    def delete(connection: Any, _project: Any, resource: Any) -> Any:
        connection.session.request(_url(connection, name, resource.id), "DELETE")

    def force(connection: Any, _project: Any, resource: Any) -> Any:
        """Delete it in every state."""
        connection.session.request(_url(connection, name, resource.id) + "/force", "POST")

    def explain(connection: Any, project: Any, resource: Any) -> Verdict | None:
        rows = connection.session.request(_url(connection, name, resource.id) + "/users", "GET").json()
        foreign = [r for r in rows if r["project_id"] != project.id]
        if not foreign:
            return None
        who = tuple({"type": "network.port", "id": r["id"], "owner": r["project_id"]} for r in foreign)
        return Verdict(Reason.FOREIGN, f"ports of other projects: {', '.join(r['id'] for r in foreign)}", who)

    def power(action: str) -> Any:
        return lambda connection, _project, resource: connection.session.request(
            _url(connection, name, resource.id) + f"/{action}", "POST"
        )

    after = {
        "network.port": ("compute.server",),
        "network.network": ("port",),
        "block-storage.volume": ("compute.server", "snapshot"),
        "identity.credential": (EVERYTHING,),
    }
    needed_by = {
        "network.port": (("compute.server", linked()),),
        "network.network": (("port", refused_in_use),),
        "block-storage.volume": (("compute.server", linked()),),
    }
    return ResourceType(
        name=type_,
        list=listing,
        delete=delete,
        show=None if name in UNSHOWN else show,
        force=ForcedDelete(force) if name in FORCIBLE else None,
        why_no_show="it cannot be moved" if name in UNSHOWN else "",
        owner=SCOPED_OWNER if name in SCOPED else "project_id",
        token=Token.ADMIN if name not in SCOPED else Token.MEMBER if janitor else Token.PROJECT,
        user_content="what users wrote" if name in SCOPED and janitor else "",
        project_setting=name in PROJECT_SETTINGS,
        tags="tags",
        updated=LastChange("updated_at"),
        parts=(),
        after=after.get(name, ()),
        needed_by=needed_by.get(name, ()),
        unfiltered="it has no filter" if name in SHARED_LISTS else "",
        protect=(lambda resource, _: "it is shared out" if resource.data["shared"] else None,),
        explain=explain if name == "network.network" else None,
        used_by=(Use(("network.port",), "ends", OneByOne(explain)),) if name == "network.network" else (),
        halt=Halt(lambda row: Run(row["run"]), power("stop"), power("start")) if name == SERVER else None,
        all_projects="only a token of the project shows them" if name in SCOPED else everybodys,
    )


@functools.cache
def registry(services: tuple[str, ...], janitor: bool) -> Registry:
    """Return the plugins of some services.

    :param janitor: whether secrets are listed and deleted with the janitor's token
    """
    types_ = {s: tuple(_type(s, t, janitor) for t in TYPES[s]) for s in sorted(services)}
    return Registry([Service(s, of_service, regional=s != "identity") for s, of_service in types_.items()])
