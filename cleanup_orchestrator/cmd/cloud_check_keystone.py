"""The checks of ``cloud check`` of Keystone: the orchestrator's users, roles, endpoints, and the lock of projects."""

from __future__ import annotations

import collections
import dataclasses
import time
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1 import loading as ka_loading
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.api import openapi
from cleanup_orchestrator.cloud.connections import GROUP, PROTOCOL, Clouds
from cleanup_orchestrator.cloud.keystone_rows import SERVICE_TYPE, Keystone, Row, grants
from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.cloud.session import GuardedSession, read_only
from cleanup_orchestrator.cmd.cloud_findings import BOOTSTRAP, CheckContext, failed, ok, read, warning
from cleanup_orchestrator.core.conformance import Finding
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import body, classify
from cleanup_orchestrator.keystone import protocol

#: The tag and the beginning of the name of the project that is made for the test of the lock.
TEST_PROJECT = "cleanup-orchestrator-check"
_OLD = 3600  #: seconds after which no check that made a project is under way
_TOKENS = "keystone_authtoken"
_RESET = f"{BOOTSTRAP} --reset-passwords, and write the passwords that it prints"


def _keystone(context: CheckContext) -> Keystone:
    clouds = context.parts.clouds
    return Keystone(clouds.identity(clouds.admin_session()))


def _no_login(rule: str, where: str, error: BaseException, clouds: Clouds) -> Finding:
    """Return why a user cannot log in."""
    text = f"{where}: Keystone gives no token: {classify(error).message}"
    if not isinstance(error, ka_exceptions.Unauthorized | ka_exceptions.Forbidden | ka_exceptions.NotFound):
        return failed(rule, text, "curl -i AUTH_URL, and correct auth_url in the file")
    try:
        right = clouds.is_password_right()
    except Exception:
        right = False
    if right:
        return failed(rule, f"{text}. The password is right, so that the user lacks its role", BOOTSTRAP)
    return failed(rule, f"{text}. The user does not exist, or its password is another one", _RESET)


# -- users
def worker_user(context: CheckContext) -> Iterator[Finding]:
    """Log in the workers' user, and look for its role."""
    rule, clouds = "worker user", context.parts.clouds
    if not context.conf[GROUP].auth_type:
        text = f"[{GROUP}] auth_type is not set in the files that are read"
        yield failed(rule, text, f"{BOOTSTRAP}, write what it prints, and name the workers' file with --config-file")
        return
    try:
        session = clouds.admin_session()
        access = session.auth.get_access(session)
    except Exception as error:
        yield _no_login(rule, f"[{GROUP}] in the workers' files", error, clouds)
        return
    role = context.conf.drain.project_role
    if role not in access.role_names:
        text = f"user {access.username} has the roles {', '.join(sorted(access.role_names))} on its project, not {role}"
        yield failed(rule, text, BOOTSTRAP)
        return
    if not access.project_id:
        command = f"{BOOTSTRAP}, and write the configuration that it prints"
        yield failed(rule, f"the token of {access.username} has no project: the workers' user needs one", command)
        return
    yield ok(rule, f"{access.username} has the role {role} on its project {access.project_id}")


def inherited_roles(context: CheckContext) -> Iterator[Finding]:
    """Look for the inherited role on each domain."""
    rule, keystone, clouds = "inherited role", _keystone(context), context.parts.clouds
    role = context.conf.drain.project_role
    role_id, held = context.projects().role_id(role), set(grants(keystone, clouds.user_id()))
    domains = keystone.rows("domains")
    missing = [row for row in domains if (f"/OS-INHERIT/domains/{row['id']}", role_id) not in held]
    for row in missing:
        text = (
            f"the workers' user has no inherited role {role} on domain {row['name']} ({row['id']}): dry runs of its "
            "projects are incomplete, and each deletion gives the role itself"
        )
        yield failed(rule, text, BOOTSTRAP, str(row["name"]))
    if not missing:
        yield ok(rule, f"the workers' user has the role {role} in all projects of {len(domains)} domains")


def janitor_roles(context: CheckContext) -> Iterator[Finding]:
    """Check that the janitor would be no admin, and that its domain exists."""
    rule, options = "janitor", context.conf.janitor
    if not options.secret:
        text = "[janitor] secret is not set in the workers' files: no stack and no cluster can be deleted"
        yield failed(rule, text, "openssl rand -hex 32, and write the result to [janitor] secret of all workers")
        return
    projects, domain_id = context.projects(), options.domain_id
    for name in options.roles:
        if not _keystone(context).roles(name):
            yield failed(rule, f"[janitor] roles: Keystone has no role {name}", f"openstack role create {name}")
            return
    implied = projects.implied_roles([projects.role_id(name) for name in options.roles])
    if "admin" in {name.lower() for name in implied}:
        text = f"[janitor] roles = {', '.join(options.roles)} makes the janitor an admin: it is not used"
        yield failed(rule, text, "openstack implied role list, and name a role of members in [janitor] roles")
        return
    if domain_id:
        row = _keystone(context).show("domains", domain_id)
        if row is None or not row.get("enabled"):
            text = f"[janitor] domain_id: domain {domain_id} does not exist, or is disabled"
            yield failed(rule, text, "openstack domain list")
            return
    yield ok(rule, f"a janitor would have the roles {', '.join(sorted(implied))}. None was made")


def protocol_user(context: CheckContext) -> Iterator[Finding]:
    """Log in the user of the protocol, if there is one."""
    rule = "protocol user"
    if not context.conf[PROTOCOL].auth_type:
        yield ok(rule, "the project resources protocol is off")
        return
    try:
        context.parts.clouds.service_session(read_only)
    except Exception as error:
        yield failed(rule, classify(error).message, f"{BOOTSTRAP} --protocol-user NAME --reset-passwords")
        return
    yield ok(rule, "it can log in, and is no admin")


def api_user(context: CheckContext) -> Iterator[Finding]:
    """Log in the API's user, and look for its role on the system."""
    rule = "api user"
    if not context.args.api_config_file:
        yield warning(rule, "not checked: name the API's file with --api-config-file")
        return
    conf = read([f"--config-file={path}" for path in context.args.api_config_file])
    ka_loading.register_auth_conf_options(conf, _TOKENS)
    clouds = Clouds(conf)
    try:
        session = clouds.admin_session()
        access = session.auth.get_access(session)
        validating = ka_loading.load_auth_from_conf_options(conf, _TOKENS)
        if validating is None:
            yield failed(rule, f"[{_TOKENS}] auth_type is not set", f"{BOOTSTRAP}, and write what it prints")
            return
        _validate(clouds, clouds.session(validating, read_only))
        own = clouds.project_id()
    except Exception as error:
        yield _no_login(rule, f"[{GROUP}] or [{_TOKENS}] of the API", error, clouds)
        return
    if "admin" in {name.lower() for name in access.role_names}:
        text = f"user {access.username} has the role admin: an attacker who controls the API would be an admin"
        yield failed(rule, text, f"openstack role remove --user {access.user_id} --system all admin")
        return
    try:
        Projects(clouds.identity(session)).get(own)
        clouds.identity(session).get("/services")
    except Exception as error:
        text = f"user {access.username} cannot read projects and the catalog ({classify(error).message})"
        yield failed(rule, text, BOOTSTRAP)
        return
    try:
        workers = context.parts.clouds.project_id()
    except Exception:
        workers = own  # another line says that the workers' user cannot log in
    if own != workers:
        text = f"[{GROUP}] own_project_id of the API is {own}, and the workers' user is of project {workers}"
        yield failed(rule, text, f"{BOOTSTRAP}, and write the own_project_id that it prints")
        return
    yield _powers(rule, context, str(access.username), str(access.user_id))


def _powers(rule: str, context: CheckContext, name: str, user_id: str) -> Finding:
    """Return whether a user of the API has the role admin anywhere, also by a group, inheritance or another role.

    A token shows the roles of its own scope only.
    """
    text = f"{name} reads projects and the catalog, and validates tokens"
    try:
        rows = _keystone(context).assignments(f"user.id={quote(user_id, safe='')}&effective&include_names")
    except Exception as error:
        return warning(rule, f"{text}. Whether it is an admin of a project is unknown: {classify(error).message}")
    scopes = [row["scope"] for row in rows if str(row["role"]["name"]).lower() == "admin"]
    if not scopes:
        return ok(rule, f"{text}, and is no admin")
    kind = min(scopes[0].keys() - {"OS-INHERIT:inherited_to"})
    where = "the system" if kind == "system" else f"{kind} {scopes[0][kind]['name']} ({scopes[0][kind]['id']})"
    text = f"user {name} has the role admin on {where}: an attacker who controls the API would be an admin"
    return failed(rule, text, f"openstack role assignment list --names --user {user_id}, and openstack role remove")


def _validate(clouds: Clouds, session: GuardedSession) -> None:
    """Have Keystone validate the session's own token, as keystonemiddleware does."""
    clouds.identity(session).get("/auth/tokens?nocatalog", headers={"X-Subject-Token": session.get_token()})


# -- the API in the catalog
def api_endpoints(context: CheckContext) -> Iterator[Finding]:
    """Look for the endpoints of the API, and ask them."""
    rule, keystone = "api endpoint", _keystone(context)
    create = f"{BOOTSTRAP} --public-url URL"
    services = keystone.rows("services", type=SERVICE_TYPE)
    if len(services) != 1:
        text = f"the catalog has {len(services) or 'no'} services of type {SERVICE_TYPE}"
        yield failed(rule, text, create if not services else "openstack service delete ID (of those that are not used)")
        return
    if services[0].get("enabled") is False:
        command = f"openstack service set --enable {services[0]['id']}"
        yield failed(rule, f"the service {SERVICE_TYPE} is disabled", command)
    rows = keystone.rows("endpoints", service_id=str(services[0]["id"]))
    of_keystone = {
        str(row.get("region_id"))
        for service in keystone.rows("services", type="identity")
        for row in keystone.rows("endpoints", service_id=str(service["id"]))
    }
    there: collections.defaultdict[str, list[Row]] = collections.defaultdict(list)
    for row in rows:
        there[str(row.get("interface"))].append(row)
    for interface in ("public", "internal"):
        if not there[interface]:
            yield failed(
                rule, f"the API has no {interface} endpoint, so that clients do not find it", create, interface
            )
    clouds = context.parts.clouds
    session = clouds.session(clouds.admin_auth(), read_only)
    for row in rows:
        subject = f"{row.get('interface')} {row['id']}"
        if row.get("enabled") is False:
            yield failed(rule, "it is disabled", f"openstack endpoint set --enable {row['id']}", subject)
        elif str(row.get("region_id")) not in of_keystone:
            text = (
                f"it is in region {row.get('region_id')}, in which Keystone has no endpoint ({', '.join(of_keystone)})"
            )
            command = f"openstack endpoint set --region {min(of_keystone, default='REGION')} {row['id']}"
            yield failed(rule, text, command, subject)
        elif found := _not_the_api(session, row):
            text, command = found
            yield failed(rule, f"{row['url']} {text}", command, subject)
        else:
            yield ok(rule, f"the API answers at {row['url']}", subject)


def _not_the_api(session: GuardedSession, row: Row) -> tuple[str, str] | None:
    """Return why no API of the orchestrator answers at an endpoint, and what mends it; ``None``: it answers."""
    command = f"openstack endpoint set --url URL {row['id']}, or systemctl start cleanup-orchestrator-api"
    try:
        # The root of other services looks the same: Heat has a version v1.0, too.
        url = f"{str(row['url']).rstrip('/')}/v1/openapi.json"
        answer = session.get(url, authenticated=False, raise_exc=False, redirect=False)
        document = answer.json() if answer.status_code == 200 else None
    except Exception as error:
        if isinstance(error, ka_exceptions.SSLError):
            command = f"openssl s_client -connect HOST:PORT, and name the CA of its certificate in [{GROUP}] cafile"
        return f"does not answer: {classify(error).message}", command
    info = document.get("info") if isinstance(document, dict) else None
    if not isinstance(info, dict) or info.get("title") != openapi.TITLE:
        return f"answers HTTP {answer.status_code}, and not as the API of the orchestrator", command
    return None


# -- the lock
@dataclasses.dataclass
class _TestProject:
    """A project that is made for the test of the lock, and deleted at its end."""

    clouds: Clouds
    identity: Adapter
    name: str
    id: str = ""

    @property
    def deletion_id(self) -> str:
        """What its fence names: an id that no deletion has, and that follows from the name."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, self.name))

    @property
    def projects(self) -> Projects:
        return Projects(self.identity)

    def make(self, domain_id: str) -> None:
        values: dict[str, Any] = {
            "name": self.name,
            "domain_id": domain_id,
            "description": "Made by cleanup-orchestrator-status cloud check, which deletes it at its end",
            "tags": [TEST_PROJECT],
        }
        self.id = str(body(self.identity.post("/projects", json={"project": values}), "project")["project"]["id"])

    def delete(self) -> list[Finding]:
        """Delete the project with its fence and all roles on it. Idempotent."""
        if self.id:
            self.projects.delete(self.id, self.deletion_id)
        return []

    def context(self, user_id: str, guard: Any) -> drain.DrainContext:
        return drain.DrainContext(
            self.deletion_id, self.id, user_id, self.clouds, self.projects, guard, lambda _type, _data: None
        )


def lock(context: CheckContext) -> Iterator[Finding]:
    """Lock a project that is made for this, as a deletion does, and see that all Keystone processes keep it."""
    rule, conf, clouds = "lock", context.conf, context.parts.clouds
    domain_id = context.projects().get(clouds.project_id()).domain_id
    yield from _left(context, domain_id)
    if conf.drain.driver == "none":
        yield ok(rule, "[drain] driver = none locks nothing")
        return
    if context.args.no_test_project:
        yield warning(rule, "not checked, because of --no-test-project")
        return

    identity = clouds.identity(clouds.admin_session(_guard))
    test = _TestProject(clouds, identity, f"{TEST_PROJECT}-{int(time.time())}-{uuid.uuid4().hex[:8]}")
    context.undo.append(test.delete)
    try:
        test.make(domain_id)
        drained = test.context(clouds.user_id(), _guard)
        drain.ensure_access(drained, conf.drain.project_role)
        if conf.drain.driver == "fence":
            result = _driver(conf.drain.driver).drain(drained)
            if not result.full:
                yield failed(rule, f"the fence is not seen to hold: {result.message}", _FENCE)
                return
            yield ok(rule, "each Keystone process that answered has the token fence (20 new connections)")
        drain.check_shared_cache(drained)
        yield ok(rule, "all Keystone processes that answered share their token cache")
    except drain.NotHeld as error:
        command = _CACHE if "share" in str(error) else _FENCE
        yield failed(rule, str(error), command)
    finally:
        test.delete()


def _guard(_method: str, _url: str) -> None:
    """Let the writes of this test pass."""


def _left(context: CheckContext, domain_id: str) -> Iterator[Finding]:
    """Delete the projects of checks that were interrupted more than an hour ago.

    Only the orchestrator's user can set a fence, and the fence of a check follows from the name of its project. A
    manager of the domain can rename a project with a deletion under way, but no name fits the fence of a deletion.
    """
    clouds = context.parts.clouds
    identity = clouds.identity(clouds.admin_session(_guard))
    for row in _keystone(context).rows("projects", domain_id=domain_id):
        made = str(row["name"]).removeprefix(f"{TEST_PROJECT}-").partition("-")[0]
        if TEST_PROJECT not in (row.get("tags") or ()) or not made.isdecimal():
            continue
        fence = str((row.get("options") or {}).get(protocol.FENCE_OPTION) or "")
        text = f"project {row['name']} was left by a check that was interrupted, or is of one under way"
        old = time.time() - int(made) > _OLD and not context.args.no_test_project
        test = _TestProject(clouds, identity, str(row["name"]), str(row["id"]))
        if old and fence == test.deletion_id:
            test.delete()
            yield ok("lock", f"{text}: deleted", str(row["id"]))
        else:
            yield warning("lock", f"{text}: openstack project delete --async {row['id']}", str(row["id"]))


_FENCE = (
    "systemctl restart keystone on each host, after its [project_cleanup] user_id and its WSGI application are those "
    "of the page on the package in Keystone"
)
_CACHE = "systemctl restart keystone on each host, after [cache] backend of each is the same memcached"


def _driver(name: str) -> drain.Driver:
    """Return the drain driver of a name."""
    from cleanup_orchestrator import drain as drivers

    return drivers.load(name)
