"""Removes from Keystone what ``cloud bootstrap`` made, and nothing else.

The key of the service tells what that is (see :mod:`cleanup_orchestrator.cloud.keystone_rows`). It is removed last, so
that the next run finds the rest if this one dies. The users go first, because they have the power.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.cloud.keystone_rows import (
    MARK,
    QUOTA_ROLE,
    SERVICE_TYPE,
    Keystone,
    Row,
    is_made_role,
    is_made_user,
    is_recorded,
    key_of,
    recorded_users,
    records,
    was_made,
    was_renamed,
)
from cleanup_orchestrator.errors import BadAnswer, classify

#: Roles that bootstrap may make.
ROLES = (QUOTA_ROLE, "service")


class Removal:
    """Removes what was made."""

    def __init__(self, identity: Adapter, say: Callable[[str, str], None], dry_run: bool) -> None:
        self._keystone, self._say, self._dry_run = Keystone(identity), say, dry_run
        self.removed = 0  #: number of the rows that were removed, or would be

    def run(self, names: Collection[str]) -> None:
        """Remove all that was made under the key of each service of the type.

        :param names: of users of whom it is said if they stay
        """
        services = self._keystone.rows("services", type=SERVICE_TYPE)
        by_id = {str(row["id"]): row for name in names for row in self._keystone.rows("users", name=name)}
        for service in services:
            for domain_id, name in recorded_users(service):
                rows = self._keystone.rows("users", name=name, domain_id=domain_id)
                by_id |= {str(row["id"]): row for row in rows}
        users = list(by_id.values())
        for service in services:
            self._name_renamed(service)
            if key_of(service):
                self._remove(service, users)
            else:
                self._say("kept", f"service {SERVICE_TYPE} ({service['id']}), made by another person")
        for user in users:
            if any(is_made_user(key_of(service), user) for service in services):
                continue
            what = f"user {user['name']} ({user['id']}), made by another person"
            if user.get(MARK):
                what = (
                    f"user {user['name']} ({user['id']}), whose mark is not of this catalog's service. If it is the "
                    f"orchestrator's: openstack user delete {user['id']}"
                )
            self._say("kept", what)

    def _name_renamed(self, service: Row) -> None:
        """Tell of users that were made and have another name by now. They have their roles still."""
        key, recorded = key_of(service), recorded_users(service)
        for domain_id in sorted({domain_id for domain_id, _ in recorded}):
            try:
                rows = self._keystone.rows("users", domain_id=domain_id)
            except BadAnswer as error:
                self._say("not known", f"whether a user of domain {domain_id} was made and renamed: {error}")
                continue
            for user in rows:
                if was_renamed(key, user, recorded):
                    what = f"user {user['name']} ({user['id']}) with its roles, which was made under another name"
                    self._say("kept", f"{what}: openstack user delete {user['id']}")

    def _remove(self, service: Row, users: Collection[Row]) -> None:
        key, keystone = key_of(service), self._keystone
        for user in users:
            if is_made_user(key, user):
                self._delete("users", user, f"user {user['name']} ({user['id']}) with its roles")
        for name in ROLES:
            for role in keystone.roles(name):
                if not is_made_role(key, role):
                    continue
                others = [row for row in keystone.assignments(f"role.id={role['id']}") if not _of(row, users, key)]
                if others:
                    self._say("kept", f"role {name}: others have it by now")
                elif keystone.is_implied(str(role["id"])):
                    self._say("kept", f"role {name}: another role implies it by now")
                else:
                    self._delete_role(role)
        kept = []
        for endpoint in keystone.rows("endpoints", service_id=str(service["id"])):
            what = f"{endpoint['interface']} endpoint in region {endpoint.get('region_id')}: {endpoint['url']}"
            if is_recorded(service, endpoint):
                self._delete("endpoints", endpoint, what)
            else:
                kept.append(endpoint)
                self._say("kept", f"{what} ({endpoint['id']}), made by another person")
        what = f"service {SERVICE_TYPE} ({service['id']})"
        if was_made(service) and not kept:
            self._delete("services", service, what)
            return
        if not self._dry_run:
            keystone.change("services", str(service["id"]), dict.fromkeys(records(service)))
        why = "it has endpoints of others" if was_made(service) else "made by another person"
        self._say("kept", f"{what}, {why}")

    def _delete_role(self, role: Row) -> None:
        """Delete a role, unless Keystone's policy keeps all roles, or this one is immutable."""
        what = f"role {role['name']}"
        try:
            self._delete("roles", role, what)
        except ka_exceptions.Forbidden as error:
            self._say("kept", f"{what}: Keystone refuses to delete it ({classify(error).message})")

    def _delete(self, collection: str, row: Row, what: str) -> None:
        if not self._dry_run:
            self._keystone.delete(collection, str(row["id"]))
        self.removed += 1
        self._say("would be removed" if self._dry_run else "removed", what)


def _of(assignment: Row, users: Collection[Row], key: str) -> bool:
    """Return whether an assignment is of a user that is removed."""
    ids = {user["id"] for user in users if is_made_user(key, user)}
    return str((assignment.get("user") or {}).get("id")) in ids
