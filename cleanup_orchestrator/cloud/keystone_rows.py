"""Keystone's rows for ``cloud bootstrap`` and ``cloud remove``, and the mark of those that bootstrap made.

How the commands know what they made: the service in the catalog has a random key (:data:`KEY`), which only admins of
the cloud and readers of the system can read. A user or a role that bootstrap makes has a mark (:data:`MARK`) that is
derived from this key and its own name. A user of the same name that another person made has no such mark. Endpoints
have no mark: Keystone shows the attributes of an endpoint to all users, in the catalog of each token. The service
records the URLs of the endpoints, and the names of the users, before they are made.
"""

from __future__ import annotations

import hashlib
import hmac
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.core.ids import is_id
from cleanup_orchestrator.errors import BadAnswer, CleanupError, body, expect_keystones

SERVICE_TYPE = "project-cleanup"
#: The attribute of the service with the key, and that of users and roles with the mark.
KEY, MARK = "cleanup_orchestrator_key", "cleanup_orchestrator_mark"
#: Before the key: whether bootstrap made the service, or found it.
MADE, FOUND = "made:", "found:"
_ENDPOINT, _USER = "cleanup_orchestrator_endpoint", "cleanup_orchestrator_user"
#: Barbican gives the quotas of projects to an admin only with this role, by the default policy of older releases.
QUOTA_ROLE = "key-manager:service-admin"

#: Lists that Keystone 27 and later cut at ``[DEFAULT] max_db_limit`` (1000). Only if the request has a limit, Keystone
#: says so. A list by name has one row of each domain.
_CUT = frozenset({"domains", "projects", "users"})
_PAGE = "1000"

Row = Mapping[str, Any]


class BootstrapError(CleanupError):
    """Keystone is not as the command needs it; the text is for the operator and says what to do."""

    code = "bootstrap_error"


class Keystone:
    """The calls, over one identity adapter."""

    def __init__(self, identity: Adapter) -> None:
        self._identity = identity

    def rows(self, collection: str, **query: str) -> list[Row]:
        """Return the rows of a collection that have exactly these values.

        :raises BadAnswer: Keystone did not list all of them
        """
        given = {**query, "limit": _PAGE} if collection in _CUT and "name" not in query else query
        rows: dict[str, Row] = {}
        while True:
            asked = urlencode(given, safe="", quote_via=quote)
            said = body(self._identity.get(f"/{collection}?{asked}"), collection)
            page = {str(row["id"]): row for row in said[collection]}
            cut = bool(said.get("truncated"))
            # A Keystone without pages, and LDAP, begin again.
            if cut and (given is query or not page or rows.keys() & page.keys()):
                raise BadAnswer(f"Keystone did not list all {collection}")
            rows |= page
            if not cut:
                break
            given = {**given, "marker": list(page)[-1]}
        # Some databases compare names without case.
        return [row for row in rows.values() if all(row.get(name) == value for name, value in query.items())]

    def assignments(self, query: str) -> list[Row]:
        """Return role assignments."""
        said = body(self._identity.get(f"/role_assignments?{query}"), "role_assignments")
        if said.get("truncated"):
            raise BadAnswer("Keystone did not list all role assignments")
        return list(said["role_assignments"])

    def is_implied(self, role_id: str) -> bool:
        """Return whether another role implies a role, so that users have it without an assignment."""
        rules = body(self._identity.get("/role_inferences"), "role_inferences")["role_inferences"]
        return any(str(one["id"]) == role_id for rule in rules for one in rule["implies"])

    def named(self, collection: str, name: str, **more: str) -> Row:
        """Return the one row with an id or a name.

        :raises BootstrapError: there is none, or more than one
        """
        key = collection.removesuffix("s")
        shown = self.show(collection, name) if is_id(name) else None
        if shown is not None and all(shown.get(attribute) == value for attribute, value in more.items()):
            return shown
        rows = self.rows(collection, name=name, **more)
        if collection == "roles":
            rows = _global(rows)
        if len(rows) == 1:
            return rows[0]
        domain = more.get("domain_id", "")
        where = f" in domain {domain}" if domain else ""
        if rows:
            raise BootstrapError(f"{len(rows)} {key}s are named {name!r}{where}: name one by its id")
        command = f"openstack {key} create{f' --domain {domain}' if domain else ''} {shlex.quote(name)}"
        raise BootstrapError(f"no {key} is named {name!r}{where}: {command}; or name another {key}")

    def roles(self, name: str) -> list[Row]:
        """Return the global role of a name, in a list; there may be roles of domains with the same name."""
        return _global(self.rows("roles", name=name))

    def show(self, collection: str, id_: str) -> Row | None:
        """Return the row with an id; ``None``: there is none."""
        key = collection.removesuffix("s")
        try:
            row: Row = body(self._identity.get(f"/{collection}/{id_}"), key)[key]
        except ka_exceptions.NotFound as error:
            expect_keystones(error)
            return None
        return row

    def create(self, collection: str, values: Mapping[str, Any]) -> Row:
        """Make a row, and return it."""
        key = collection.removesuffix("s")
        row: Row = body(self._identity.post(f"/{collection}", json={key: dict(values)}), key)[key]
        return row

    def change(self, collection: str, id_: str, values: Mapping[str, Any]) -> None:
        """Change attributes of a row."""
        self._identity.patch(f"/{collection}/{id_}", json={collection.removesuffix("s"): dict(values)})

    def delete(self, collection: str, id_: str) -> None:
        """Delete a row. Idempotent."""
        try:
            self._identity.delete(f"/{collection}/{id_}")
        except ka_exceptions.NotFound as error:
            expect_keystones(error)

    def put(self, path: str) -> None:
        """Give a role. Idempotent."""
        self._identity.put(path)


def _global(roles: list[Row]) -> list[Row]:
    return [row for row in roles if not row.get("domain_id")]


def key_of(service: Row) -> str:
    """Return the key of the service; empty: it has none."""
    return str(service.get(KEY) or "").removeprefix(MADE).removeprefix(FOUND)


def was_made(service: Row) -> bool:
    """Return whether bootstrap made the service."""
    return str(service.get(KEY) or "").startswith(MADE)


def mark(key: str, kind: str, *names: str) -> str:
    """Return the mark of what is made under a key.

    :param names: what identifies it: of a user, its domain's id and its name
    """
    return hmac.new(key.encode(), "\0".join((kind, *names)).encode(), hashlib.sha256).hexdigest()


def is_made_user(key: str, user: Row) -> bool:
    """Return whether bootstrap made a user under a key."""
    return _is_made(key, user, "user", str(user["domain_id"]), str(user["name"]))


def was_renamed(key: str, user: Row, recorded: Iterable[tuple[str, str]]) -> bool:
    """Return whether a user has the mark of a recorded one, and another name.

    A manager of the domain can copy a mark.
    """
    return not is_made_user(key, user) and any(
        _is_made(key, user, "user", domain_id, name) for domain_id, name in recorded if domain_id == user["domain_id"]
    )


def is_made_role(key: str, role: Row) -> bool:
    """Return whether bootstrap made a role under a key."""
    return _is_made(key, role, "role", str(role["name"]))


def _is_made(key: str, row: Row, kind: str, *names: str) -> bool:
    return bool(key) and hmac.compare_digest(str(row.get(MARK) or "").encode(), mark(key, kind, *names).encode())


def endpoint_record(interface: str, region: str) -> str:
    """Return the attribute of the service that records the URLs of one endpoint."""
    return f"{_ENDPOINT}_{interface}_{region}"


def is_recorded(service: Row, endpoint: Row) -> bool:
    """Return whether bootstrap made an endpoint of the service."""
    urls = service.get(endpoint_record(str(endpoint.get("interface")), str(endpoint.get("region_id"))))
    return isinstance(urls, list) and endpoint.get("url") in urls


def user_record(part: str) -> str:
    """Return the attribute of the service that records the users of one part, as pairs of domain id and name."""
    return f"{_USER}_{part}"


def recorded_users(service: Row) -> list[tuple[str, str]]:
    """Return the domain id and the name of each recorded user of the service."""
    values = [value for name, value in service.items() if name.startswith(f"{_USER}_") and isinstance(value, list)]
    return [(str(pair[0]), str(pair[1])) for value in values for pair in value if len(pair) == 2]


def records(service: Row) -> list[str]:
    """Return the attributes of the service that are bootstrap's."""
    return [name for name in service if name == KEY or name.startswith((f"{_ENDPOINT}_", f"{_USER}_"))]


def grants(keystone: Keystone, user_id: str) -> Iterator[tuple[str, str]]:
    """Yield the path of the scope and the role id of each direct role assignment of a user."""
    for row in keystone.assignments(f"user.id={quote(user_id, safe='')}"):
        if row.get("user", {}).get("id") != user_id:
            continue
        scope, role_id = row.get("scope", {}), str(row["role"]["id"])
        inherited = "OS-INHERIT:inherited_to" in scope
        if "system" in scope:
            yield "/system", role_id
        for kind in ("project", "domain"):
            if kind in scope:
                yield f"{'/OS-INHERIT' if inherited else ''}/{kind}s/{scope[kind]['id']}", role_id


def role_command(path: str, user_id: str, role_id: str) -> str:
    """Return the command with which an admin gives a user a role on a scope."""
    inherited, kind, _, id_ = path.startswith("/OS-INHERIT"), *path.removeprefix("/OS-INHERIT")[1:].partition("/")
    scope = "--system all" if kind == "system" else f"--{kind.removesuffix('s')} {id_}"
    return f"openstack role add --user {user_id} {scope} {'--inherited ' if inherited else ''}{role_id}"
