"""Makes the orchestrator's users, roles, service and endpoints in Keystone.

It gives roles only to users that it made itself (see :mod:`cleanup_orchestrator.cloud.keystone_rows`): a manager of the
domain may have made a user of the same name. Such roles end with their users. So no role assignment that was there
before is ever removed, and none needs a record.

The same walk first only reads, and collects why it must not write. It writes only if there is no such reason.
"""

from __future__ import annotations

import dataclasses
import random
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.cloud.janitors import KEPT_USABLE
from cleanup_orchestrator.cloud.keystone_rows import (
    FOUND,
    KEY,
    MADE,
    MARK,
    QUOTA_ROLE,
    SERVICE_TYPE,
    BootstrapError,
    Keystone,
    Row,
    endpoint_record,
    grants,
    is_made_user,
    is_recorded,
    key_of,
    mark,
    recorded_users,
    role_command,
    user_record,
    was_made,
)
from cleanup_orchestrator.errors import classify

_ABOUT = "Made by cleanup-orchestrator-manage cloud bootstrap; cloud remove deletes it"
#: How often another run at the same time may interfere before this one gives up.
_ATTEMPTS = 8
_PAUSE = 1.0  #: seconds, at most, before each new attempt


@dataclasses.dataclass(frozen=True)
class Account:
    """One of the orchestrator's users."""

    part: str  #: ``worker``, ``api`` or ``protocol``
    name: str
    password: str = dataclasses.field(default="", repr=False)  #: empty: generated if the user is made
    reset: bool = False  #: whether an existing user gets the password


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What the orchestrator needs in Keystone."""

    accounts: Sequence[Account]
    user_domain: str  #: name or id of the domain of the users
    project: str  #: name or id of the project of the workers' user
    project_domain: str
    region: str
    urls: Mapping[str, str]  #: by interface; empty: no endpoint is made
    role: str = "admin"
    quota_role: bool = False  #: whether a service needs :data:`QUOTA_ROLE`


@dataclasses.dataclass
class Outcome:
    """What there is now, and what was done."""

    project_id: str = ""
    user_domain_id: str = ""
    user_ids: dict[str, str] = dataclasses.field(default_factory=dict)  #: by part
    passwords: dict[str, str] = dataclasses.field(default_factory=dict, repr=False)  #: by part, of this run only
    made: set[str] = dataclasses.field(default_factory=set)  #: the parts whose users this run has made
    refused: list[str] = dataclasses.field(default_factory=list)  #: why nothing is written
    changes: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class _User:
    """A user with its direct role assignments."""

    name: str
    row: Row | None  #: ``None``: it would be made
    held: Collection[tuple[str, str]]  #: the path of the scope, and the role id


@dataclasses.dataclass(frozen=True, slots=True)
class _Scope:
    """What a role is given on."""

    path: str
    text: str


#: Is told of each thing: the verb (``created``), and the thing.
Say = Callable[[str, str], None]


class Bootstrap:
    """Makes what is missing."""

    def __init__(self, identity: Adapter, wanted: Wanted, say: Say) -> None:
        self._keystone, self._wanted, self._say = Keystone(identity), wanted, say
        self._writing = False
        self._speaking = False  #: the first walk of a run that writes is silent
        self._key = ""  #: of the service; empty while nothing is written and there is none yet
        self.outcome = Outcome()

    def run(self, dry_run: bool) -> Outcome:
        """Read, then write unless something was refused; return what there is.

        :raises BootstrapError: Keystone is not as the command needs it; nothing was written
        """
        self._speaking = dry_run
        self._walk()
        if dry_run or self.outcome.refused:
            return self.outcome
        self.outcome.changes, self._writing, self._speaking = 0, True, True
        self._walk()
        return self.outcome

    # -- the walk
    def _walk(self) -> None:
        wanted, keystone, outcome = self._wanted, self._keystone, self.outcome
        user_domain = keystone.named("domains", wanted.user_domain)
        project_domain = keystone.named("domains", wanted.project_domain)
        project = keystone.named("projects", wanted.project, domain_id=project_domain["id"])
        for row in (user_domain, project_domain, project):
            if row.get("enabled") is False:
                what = "domain" if row is not project else "project"
                raise BootstrapError(
                    f"{what} {row['name']} is disabled, so that no user logs in to it: openstack {what} set --enable "
                    f"{row['id']}, or name another one"
                )
        outcome.project_id, outcome.user_domain_id = project["id"], user_domain["id"]
        admin, domains = keystone.named("roles", wanted.role)["id"], keystone.rows("domains")
        if wanted.urls and wanted.region not in [row["id"] for row in keystone.rows("regions")]:
            raise BootstrapError(
                f"Keystone has no region {wanted.region!r}: name one of openstack region list with --region"
            )
        service = self._service()
        on_project = _Scope(f"/projects/{project['id']}", f"project {project['name']}")
        for account in wanted.accounts:
            user = self._user(account, service)
            if account.part == "worker":
                self._give(user, wanted.role, admin, on_project)
                for row in domains:
                    scope = _Scope(f"/OS-INHERIT/domains/{row['id']}", f"all projects of domain {row['name']}")
                    self._give(user, wanted.role, admin, scope)
                if wanted.quota_role or keystone.roles(QUOTA_ROLE):
                    self._give(user, QUOTA_ROLE, self._role(QUOTA_ROLE), on_project)
            elif account.part == "api":
                self._give(user, "reader", keystone.named("roles", "reader")["id"], _Scope("/system", "the system"))
            else:
                self._give(user, "service", self._role("service"), on_project)
        # Last: an endpoint shows the service to all users, and the API works only with its users.
        for interface, url in wanted.urls.items():
            self._endpoint(service, interface, url)

    def _done(self, verb: str, what: str) -> None:
        """Tell of a change that was made, or would be."""
        self.outcome.changes += 1
        if self._speaking:
            self._say(verb if self._writing else f"would be {verb}", what)

    def _same(self, what: str) -> None:
        if self._speaking:
            self._say("unchanged", what)

    def _refuse(self, what: str) -> None:
        self.outcome.refused.append(what)

    # -- the service
    def _service(self) -> Row | None:
        """Return the service, and learn its key; ``None``: it would be made."""
        what = f"service {SERVICE_TYPE}"
        for _ in range(_ATTEMPTS):
            service = self._chosen(self._keystone.rows("services", type=SERVICE_TYPE))
            if service is not None:
                if not key_of(service) and self._writing:
                    service = self._adopted(service)
                self._key = key_of(service)
                self._same(what if was_made(service) else f"{what} ({service['id']}, made by another person)")
                return service
            if not self._writing:
                self._done("created", what)
                return None
            self._key = secrets.token_hex(16)
            values = {"type": SERVICE_TYPE, "name": "cleanup-orchestrator", "description": _ABOUT, "enabled": True}
            made = self._keystone.create("services", {**values, KEY: MADE + self._key})
            if all(row["id"] == made["id"] for row in self._keystone.rows("services", type=SERVICE_TYPE)):
                self._done("created", what)
                return made
            # Another run makes one at the same time. Keystone accepts both, so that this one yields.
            self._keystone.delete("services", str(made["id"]))
            time.sleep(random.uniform(0.1, _PAUSE))  # noqa: S311 # no secret
        raise BootstrapError("other runs of this command are under way: run it again when they have ended")

    def _chosen(self, services: Sequence[Row]) -> Row | None:
        """Return the service that is used; delete those that a run made and left when it ended in between."""
        if len(services) < 2:
            return services[0] if services else None
        # A run records a user before it makes it. The key of its service tells which users were made.
        used = {row["service_id"] for row in self._keystone.rows("endpoints")}
        unused = [row for row in services if was_made(row) and row["id"] not in used and not recorded_users(row)]
        rest = [row for row in services if row not in unused] or [unused.pop(0)]
        if len(rest) > 1:
            ids = ", ".join(sorted(str(row["id"]) for row in rest))
            raise BootstrapError(
                f"Keystone has {len(rest)} services of type {SERVICE_TYPE}: {ids}; delete those that are not used: "
                "openstack service delete ID"
            )
        for row in unused if self._writing else ():
            self._keystone.delete("services", str(row["id"]))
        return rest[0]

    def _adopted(self, service: Row) -> Row:
        """Give a service that another person made a key. Two runs at once use that of the later one."""
        self._keystone.change("services", str(service["id"]), {KEY: FOUND + secrets.token_hex(16)})
        time.sleep(_PAUSE)
        shown = self._keystone.show("services", str(service["id"]))
        if shown is None or not key_of(shown):
            raise BootstrapError(f"service {service['id']} is gone, or lost its key: run the command again")
        return shown

    # -- users and roles
    def _user(self, account: Account, service: Row | None) -> _User:
        """Return the user, who is made if need be."""
        what, keystone, domain_id = f"user {account.name}", self._keystone, self.outcome.user_domain_id
        found = next(iter(keystone.rows("users", name=account.name, domain_id=domain_id)), None)
        if found is None and service is not None and self._writing:
            self._record(service, user_record(account.part), [domain_id, account.name])
            found = self._made_user(account, domain_id, what)
            if found is not None:
                return _User(account.name, found, frozenset())
            found = next(iter(keystone.rows("users", name=account.name, domain_id=domain_id)), None)
            if found is None:
                raise BootstrapError(
                    f"Keystone neither makes nor shows the {what} in domain {domain_id}: there is one whose name "
                    f"differs in upper and lower case; name another one (--{account.part}-user)"
                )
        if found is None:
            self._done("created", what)
            return _User(account.name, None, frozenset())
        user = _User(account.name, found, frozenset(grants(keystone, str(found["id"]))))
        self.outcome.user_ids[account.part] = str(found["id"])
        if found.get("enabled") is False:
            self._refuse(f"{what} is disabled: openstack user set --enable {found['id']}; or name another user")
        elif not account.reset:
            self._same(what if self._is_ours(user) else f"{what} ({found['id']}, made by another person)")
        elif not self._is_ours(user):
            self._refuse(
                f"{what} was not made by this command, which does not change its password: openstack user set "
                f"--password-prompt {found['id']}"
            )
        else:
            if self._writing:
                password = account.password or generated_password()
                keystone.change("users", str(found["id"]), {"password": password})
                self.outcome.passwords[account.part] = password
            self._done("changed", f"the password of {what}")
        return user

    def _made_user(self, account: Account, domain_id: str, what: str) -> Row | None:
        """Make a user, and return it; ``None``: another run has made it meanwhile."""
        password = account.password or generated_password()
        values = {"name": account.name, "domain_id": domain_id, "password": password, "enabled": True}
        values |= {"description": _ABOUT, "options": KEPT_USABLE}
        values[MARK] = mark(self._key, "user", domain_id, account.name)
        try:
            made = self._keystone.create("users", values)
        except ka_exceptions.Conflict:
            return None
        except (ka_exceptions.BadRequest, ka_exceptions.Forbidden, ka_exceptions.HttpNotImplemented) as error:
            raise BootstrapError(
                f"Keystone makes no {what} in domain {domain_id} ({classify(error).message}): name a "
                "domain whose users Keystone itself stores (--user-domain), or a password that its rules accept"
            ) from None
        self.outcome.passwords[account.part], self.outcome.user_ids[account.part] = password, str(made["id"])
        self.outcome.made.add(account.part)
        self._done("created", what)
        return made

    def _is_ours(self, user: _User) -> bool:
        return user.row is not None and is_made_user(self._key, user.row)

    def _give(self, user: _User, role: str, role_id: str, scope: _Scope) -> None:
        """Give a user a role."""
        what = f"role {role} of {user.name} on {scope.text}"
        if (scope.path, role_id) in user.held:
            self._same(what)
        elif user.row is not None and not self._is_ours(user):
            self._refuse(
                f"user {user.name} was not made by this command, which gives it no role. If it is the orchestrator's, "
                f"give it role {role} on {scope.text}: {role_command(scope.path, str(user.row['id']), role_id)}; else "
                "name another user"
            )
        else:
            if self._writing and user.row is not None:
                suffix = "/inherited_to_projects" if scope.path.startswith("/OS-INHERIT") else ""
                self._keystone.put(f"{scope.path}/users/{user.row['id']}/roles/{role_id}{suffix}")
            self._done("given", what)

    def _role(self, name: str) -> str:
        """Return the id of a role, which is made if need be; empty: it would be made."""
        for _ in range(2):
            if found := self._keystone.roles(name):
                return str(found[0]["id"])
            if not self._writing:
                self._done("created", f"role {name}")
                return ""
            try:
                values = {"name": name, "description": _ABOUT, MARK: mark(self._key, "role", name)}
                made = self._keystone.create("roles", values)
            except ka_exceptions.Conflict:
                continue  # another run has made it meanwhile
            self._done("created", f"role {name}")
            return str(made["id"])
        raise BootstrapError(f"Keystone neither makes nor shows the role {name}: as an admin, openstack role list")

    # -- endpoints
    def _endpoint(self, service: Row | None, interface: str, url: str) -> None:
        """Make an endpoint, or correct its URL."""
        region = self._wanted.region
        what = f"{interface} endpoint of {SERVICE_TYPE} in region {region}: {url}"
        found = self._endpoints(service, interface)
        if not found:
            if self._writing and service is not None:
                self._record(service, endpoint_record(interface, region), url)
                values = {"service_id": service["id"], "interface": interface, "region_id": region, "url": url}
                self._keystone.create("endpoints", values)
                # Of two that runs at the same time made, all keep the same one.
                for further in self._endpoints(service, interface)[1:]:
                    if further["url"] == url:
                        self._keystone.delete("endpoints", str(further["id"]))
            self._done("created", what)
        elif found[0]["url"] == url and found[0].get("enabled") is not False:
            self._same(what)
        elif service is None or not is_recorded(service, found[0]):
            self._refuse(
                f"the {interface} endpoint {found[0]['id']} in region {region} was not made by this command, and is "
                f"not changed: openstack endpoint set --enable --url {url} {found[0]['id']}"
            )
        else:
            if self._writing:
                self._record(service, endpoint_record(interface, region), url)
                self._keystone.change("endpoints", str(found[0]["id"]), {"url": url, "enabled": True})
            self._done("changed", what)

    def _record(self, service: Row, name: str, value: object) -> None:
        """Add a value to a record of the service, before what it names is made."""
        before = list(service.get(name) or ())
        if value not in before:
            self._keystone.change("services", str(service["id"]), {name: [*before, value]})

    def _endpoints(self, service: Row | None, interface: str) -> list[Row]:
        if service is None:
            return []
        rows = self._keystone.rows("endpoints", service_id=str(service["id"]), interface=interface)
        return sorted((r for r in rows if r.get("region_id") == self._wanted.region), key=lambda r: str(r["id"]))


def generated_password() -> str:
    """Return a random password that passes the usual rules."""
    return secrets.token_urlsafe(32) + "Aa1!"
