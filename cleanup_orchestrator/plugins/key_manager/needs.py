"""Barbican: which secrets the resources of other services need."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    BadAnswer,
    NeededBy,
    Needs,
    Paging,
    ProjectDefinition,
    Resource,
    Rest,
    Row,
    exceptions,
    knows_microversion,
    linked,
    mentions,
    show_leftover,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

FAILED, KEY = "error_deleting", "encryption_key_id"
#: The first microversion that knows consumers of secrets.
CONSUMERS = "1.1"
MAX_CONSUMERS = 100  #: that one call returns

#: Types that keep keys or certificates in Barbican and need them while they exist: an encrypted volume cannot even be
#: detached without its key.
USERS = (
    "load-balancer.load_balancer",
    "compute.server",
    "block-storage.backup",
    "block-storage.snapshot",
    "block-storage.volume",
    "shared-file-system.share",
    "database.instance",
    "image.image",
)

#: What names certificates of a load balancer.
_OF_BALANCERS = tuple(
    Rest(
        "load-balancer",
        f"/lbaas/{name}",
        key=name,
        query={"project_id": "{project_id}", "limit": 1000},
        paging=Paging.LINKS,
    )
    for name in ("listeners", "pools")
)


def named_by_balancers(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function by which the load balancers need what the project's listeners and pools name.

    If Octavia does not show these with a token of the project, each secret and each container counts as named.
    """
    try:
        named = mentions(row for call in _OF_BALANCERS for row in call.rows(connection, project))
    except exceptions.ForbiddenException:
        return lambda _resource: min(left)
    return lambda resource: min(left) if named(resource) else None


KEY_IDS = "3.64"  #: the first microversion of Cinder that shows the id of a key

_SHARE_KEYS = "2.90"  #: the first microversion of Manila that shows the reference of a key

CINDERS = {
    name: Rest("block-storage", f"/{name}s/{{id}}", key=name, microversion=KEY_IDS) for name in ("volume", "backup")
}


def keys_of(name: str) -> NeededBy:
    """Return a rule by which the leftovers of a type of Cinder need the secrets that they name.

    A volume that Cinder fails to delete no longer needs its key if a consumer of the key causes this: then
    ``_delete_secret`` removes the consumer. If Cinder does not show the keys, each secret counts as needed.
    """

    def rule(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
        if not knows_microversion(connection.block_storage, KEY_IDS):
            return lambda _resource: min(left)
        shown = {id_: show_leftover(CINDERS[name], connection, project, id_) for id_ in left}
        unknown = next((id_ for id_, row in shown.items() if row is None), None)
        named = {id_: mentions([row]) for id_, row in shown.items() if row is not None}
        failed = (row for row in shown.values() if row and row.get("status") == FAILED)
        held = {key for row in failed if (key := str(row.get(KEY) or "")) and consumers(connection, f"/secrets/{key}")}

        def needs(resource: Resource) -> str | None:
            if unknown or resource.id in held:
                return unknown
            return next((id_ for id_, names in named.items() if names(resource)), None)

        return needs

    return rule


def unnamed(_connection: Connection, _project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function by which a leftover needs each secret without a name: Cinder and Nova name no key of a disk."""
    return lambda secret: None if secret.data.get("name") else min(left)


def secrets_of_servers(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function by which a server needs secrets that name it, that it names, or that have no name.

    Nova names the secret of a TPM, and that of an encrypted disk, after the server.
    """
    named = linked(Rest("compute", "/servers/{id}"))(connection, project, left)
    nameless = unnamed(connection, project, left)
    return lambda secret: named(secret) or nameless(secret)


def any_secret(_connection: Connection, _project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function by which a leftover needs each secret: what runs in a server may read any of them."""
    return lambda _secret: min(left)


#: Where the project is kept, what runs in it goes on.
SERVES = (("compute.server", any_secret), ("database.instance", any_secret))


def keys_of_shares(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function that says which share needs a secret. An older Manila has no keys."""
    if not knows_microversion(connection.shared_file_system, _SHARE_KEYS):
        return lambda _resource: None
    show = Rest("shared-file-system", "/shares/{id}", key="share", microversion=_SHARE_KEYS)
    return linked(show)(connection, project, left)


#: An image names its secrets in its properties: the key of an encrypted one, the certificate of a signed one. An order
#: names what it has made, or is for. The keys of a snapshot and of an instance of a database are not shown.
NEEDED_BY = (
    ("image.image", linked(Rest("image", "/images/{id}"))),
    ("load-balancer.load_balancer", named_by_balancers),
    ("compute.server", secrets_of_servers),
    ("block-storage.volume", keys_of("volume")),
    ("block-storage.backup", keys_of("backup")),
    ("block-storage.snapshot", unnamed),
    ("database.instance", unnamed),
    ("shared-file-system.share", keys_of_shares),
    ("order", linked(Rest("key-manager", "/orders/{id}"))),
)


def consumers(connection: Connection, path: str) -> list[Row]:
    """Return the first hundred consumers of a secret or a container.

    Barbican before 1.1 has no consumers.
    """
    response = connection.key_manager.get(f"{path}/consumers", params={"limit": MAX_CONSUMERS}, microversion=CONSUMERS)
    if response.status_code == 406:
        return []
    exceptions.raise_from_response(response)
    rows = response.json().get("consumers")
    if not isinstance(rows, list):
        raise BadAnswer(f"GET {path}/consumers answered without 'consumers'")
    return rows
