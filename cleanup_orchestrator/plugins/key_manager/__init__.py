"""Barbican: orders, containers, secrets, and the project's quota row.

Every list shows the token's project alone, so all types but the quota need a token that is scoped into the project. No
separate types: ACLs, consumers and metadata are deleted with their secret or container. The project's row, its KEK rows
and its preferred secret store are internal, and stay; an operator removes them with ``barbican-manage db clean`` and
``barbican-keystone-listener``. ACLs on secrets of other projects that name users of this project belong to those
projects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    SCOPED,
    BadAnswer,
    Blocker,
    LastChange,
    OneByOne,
    Paging,
    Parts,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Service,
    Token,
    Use,
    Verdict,
    blocker,
    exceptions,
    in_catalog,
    linked,
    may_be_id,
    pick,
    refuse,
    verdict_naming,
)
from cleanup_orchestrator.plugins.glance import foreign_images, images_with
from cleanup_orchestrator.plugins.key_manager.needs import (
    CINDERS,
    CONSUMERS,
    KEY,
    KEY_IDS,
    MAX_CONSUMERS,
    NEEDED_BY,
    SERVES,
    USERS,
    consumers,
)

if TYPE_CHECKING:
    from openstack.connection import Connection
    from requests import Response

OPTIONS = (
    cfg.BoolOpt(
        "delete_shared_secrets",
        default=False,
        help="Delete secrets and containers that still have consumers although their ACL lets users from outside the "
        "project read them: the consumer may be another project's volume or load balancer, whose data is lost then. "
        "Any member of a project may write such an ACL, and register a consumer. Without this option such a secret "
        "blocks the deletion of the project, also a cascade, until the ACL is removed.",
    ),
)

_SCOPED_LISTS = "every list of Barbican is bound to the token's project"
_FRESH = "the token is scoped into the project, and Barbican shows nothing else"

#: The first microversion that refuses to delete a secret under its consumers. An older one deletes it silently.
_DETECT = "1.2"


def _collection(name: str, reference: str) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of all pages, with the id from the reference.

    Barbican's next links are absolute and made from its option ``host_href``, which often names another host than the
    catalog. The SDK would send the token there, so the list is paged by offset. Rows are ordered by creation time
    alone, which many rows may share, so a row may be listed twice.
    """
    pages = Rest("key-manager", f"/{name}", key=name, paging=Paging.OFFSET, limit=100)

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        seen = set()
        for row in pages.rows(connection, project):
            identity = str(row.get(reference) or "").rstrip("/").rpartition("/")[2]
            if not identity:
                raise BadAnswer(f"one of the {name} was listed without {reference!r}")
            if identity not in seen:
                seen.add(identity)
                yield {**row, "id": identity}

    return listing


def _readers(connection: Connection, path: str) -> set[str]:
    """Return the users in an ACL. Only these read a resource with a token of another project.

    :raises BadAnswer: there is no ACL: Barbican answers its default if a user has written none
    """
    response = connection.key_manager.get(f"{path}/acl")
    exceptions.raise_from_response(response)
    body = response.json()
    read = body.get("read") if isinstance(body, Mapping) else None
    if not isinstance(read, Mapping):
        raise BadAnswer(f"GET {path}/acl answered without 'read'")
    return {str(user) for user in read.get("users") or ()}


def _outsiders(connection: Connection, project: ProjectDefinition, path: str) -> list[str]:
    """Return the users in the ACL that are not members of the project, or are also members of others."""

    def is_elsewhere(user: str) -> bool:
        query = {"user.id": user, "effective": "true"}
        rows = Rest("identity", "/role_assignments", key="role_assignments", query=query).rows(connection, project)
        return any(pick(row, "scope.project.id") not in (None, project.id) for row in rows)

    return sorted(user for user in _readers(connection, path) if user not in project.member_ids or is_elsewhere(user))


def _refuse_shared(
    connection: Connection, project: ProjectDefinition, path: str, blockers: tuple[Mapping[str, str], ...]
) -> None:
    """Refuse a resource that has consumers and that users of other projects can read.

    Barbican does not show the owner of a consumer. Only a user who can read the resource can register one. So without
    an ACL for others a consumer is a leftover of the project, whose volumes and so on are gone by now (``after``). If
    an image or a load balancer is left, what it names is not deleted (``needed_by``).
    """
    if project.options.get("delete_shared_secrets"):
        return
    if readers := _outsiders(connection, project, path):
        named = ", ".join(readers[:10])
        message = (
            f"it has {len(blockers)} consumers, and its ACL, which a member of the project wrote, lets users of other "
            f"projects read it: {named}; it goes once the ACL is removed, or with [service_key_manager] "
            "delete_shared_secrets"
        )
        raise Refused(Verdict(Reason.PROTECTED, message, blockers))


#: How Barbican's consumers name resources: the words of Cinder, Glance and Manila for a secret, and the call that shows
#: one, with the attribute that has its owner.
_RESOURCES = {
    "volume": (Rest("block-storage", "/volumes/{id}", key="volume"), "os-vol-tenant-attr:tenant_id"),
    "image": (Rest("image", "/images/{id}"), "owner"),
    "share": (Rest("shared-file-system", "/shares/{id}", key="share", microversion="2.73"), "project_id"),
}


def _used_by_others(connection: Connection, project: ProjectDefinition, secret: Resource) -> Verdict | None:
    """Name the images, volumes and shares of others that use a secret, by its consumers and by images that name it.

    They need its ACL for that. Barbican shows the owner of a consumer neither to an admin nor to its project. So the
    service of a consumer is asked. A user of both projects is in the ACL, too.
    """
    path = f"/secrets/{secret.id}"
    if project.options.get("delete_shared_secrets") or not _readers(connection, path):
        return None
    blockers: list[Blocker] = []
    for row in consumers(connection, path):
        kind, id_ = str(row.get("resource_type")), str(row.get("resource_id"))
        if kind in _RESOURCES and may_be_id(id_) and in_catalog(connection, _RESOURCES[kind][0].service_type):
            one, owner = _RESOURCES[kind]
            try:
                shown = one.row(connection, project, Resource(id_, "", None))
            except (exceptions.NotFoundException, exceptions.BadRequestException):  # it is gone, or never was
                continue
            blockers.append(blocker(f"{one.service_type}.{kind}", id_, shown.get(owner)))
    if in_catalog(connection, "image"):
        for name in ("img_signature_certificate_uuid", "cinder_encryption_key_id"):
            blockers += foreign_images(project, images_with(connection, name, secret.id))
    return verdict_naming(project, "it is used by", (each for each in blockers if each["owner"] != project.id))


def _leave_to_its_volume(
    connection: Connection, project: ProjectDefinition, secret: Resource, consumers: Sequence[Row]
) -> None:
    """Remove the consumers of the key of a volume or backup that is still there, and leave the key to it.

    Cinder deletes a key with its volume, and fails while the key has consumers (volume/api.py, delete). Without the key
    the data of a volume would be lost although the volume itself may have to stay.

    :raises Refused: naming the volumes and backups
    """
    if not in_catalog(connection, "block-storage"):
        return
    holders = [
        blocker(f"block-storage.{name}", row["id"], project.id, row.get("name"))
        for name in CINDERS
        for row in _keyed(name).rows(connection, project)
        if row.get(KEY) == secret.id
    ]
    if not holders:
        return
    for row in consumers:
        body = {key: row[key] for key in ("service", "resource_type", "resource_id")}
        remove = Rest("key-manager", "/secrets/{id}/consumers", method="DELETE", body=body, microversion=CONSUMERS)
        remove.call(connection, project, secret)
    text = "it is the key of it. Its consumers kept Cinder from the delete, and were removed: it is deleted with"
    refuse(verdict_naming(project, text, holders))


def _keyed(name: str) -> Rest:
    """Return the list of the project's volumes or backups, with their keys. The owner of each is the project."""
    query = {"all_tenants": "1", "project_id": "{project_id}"}
    path = f"/{name}s/detail"
    return Rest("block-storage", path, f"{name}s", query=query, microversion=KEY_IDS, paging=Paging.MARKER, limit=1000)


def _delete_secret(connection: Connection, project: ProjectDefinition, secret: Resource) -> None:
    """Delete a secret, also one whose consumers are known to be stale."""
    path = f"/secrets/{secret.id}"

    def delete(microversion: str | None, **query: Any) -> Response:
        answer: Response = connection.key_manager.delete(path, params=query, microversion=microversion)
        return answer

    response = delete(_DETECT)
    if response.status_code not in (400, 406):  # 406: before 1.2 a delete ignores consumers
        exceptions.raise_from_response(response)
        return
    rows = consumers(connection, path)
    if response.status_code == 400 and not rows:
        exceptions.raise_from_response(response)
    if rows:
        blockers = tuple(
            blocker(f"{r.get('service')}.{r.get('resource_type')}", r.get("resource_id"), "") for r in rows
        )
        _refuse_shared(connection, project, path, blockers)
        _leave_to_its_volume(connection, project, secret, rows)
    response = delete(_DETECT, force="true") if response.status_code == 400 else delete(None)
    exceptions.raise_from_response(response)


def _refuse_shared_container(connection: Connection, project: ProjectDefinition, container: Resource) -> None:
    """Name the consumers of a container that users of other projects can read. Barbican does not check them."""
    if rows := container.data.get("consumers"):
        blockers = tuple(blocker(str(r.get("name")), r.get("URL"), "") for r in rows)
        _refuse_shared(connection, project, f"/containers/{container.id}", blockers)


_BY_READERS = Use(
    ("key-manager.consumer",),
    "takes the content from others who may read it",
    unseen="a reader that registers no consumer is not known",
)


def _quota(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's quota, if it has one."""
    response = connection.key_manager.get(f"/project-quotas/{project.id}")
    if response.status_code == 404:  # documented: the project has no quota of its own
        return
    exceptions.raise_from_response(response)
    if "project_quotas" not in response.json():
        raise BadAnswer("GET /project-quotas/{id} answered without 'project_quotas'")
    yield {"id": project.id, "name": "project quota", "project_id": project.id}


def _of_secret(connection: Connection, _project: ProjectDefinition, secret: Resource) -> list[Row]:
    """Return the consumers of a secret, the first hundred, and one of unknown age for all others."""
    rows = consumers(connection, f"/secrets/{secret.id}")
    return rows if len(rows) < MAX_CONSUMERS else [*rows, {}]


def _of_container(connection: Connection, _project: ProjectDefinition, container: Resource) -> list[Row]:
    """Return the consumers of a container, as those of a secret."""
    rows = consumers(connection, f"/containers/{container.id}") if container.data.get("consumers") else []
    return rows if len(rows) < MAX_CONSUMERS else [*rows, {}]


SERVICE = Service(
    service_type="key-manager",
    contract_version=2,
    after=CONTROLLERS,
    options=OPTIONS,
    roles="admin on the project to be deleted (a member may not delete others' private secrets); admin for quotas, and "
    "key-manager:service-admin with the default policy of Barbican 2025.1 to 2026.1",
    types=(
        ResourceType(
            name="order",
            list=_collection("orders", "order_ref"),
            all_projects=_SCOPED_LISTS,
            delete=Rest("key-manager", "/orders/{id}", method="DELETE"),
            title="meta.name",
            owner=SCOPED,
            why_no_show=_FRESH,
            token=Token.PROJECT,
            created="created",
            updated=LastChange("updated"),
            parts=(),
            used_by=(),
            source="GET, DELETE /v1/orders; barbican common/policies/orders.py",
            note="Deleted before the other types, because an order in progress creates a secret. This secret is "
            "a separate resource.",
        ),
        ResourceType(
            name="container",
            list=_collection("containers", "container_ref"),
            all_projects=_SCOPED_LISTS,
            delete=Rest("key-manager", "/containers/{id}", method="DELETE"),
            owner=SCOPED,
            why_no_show=_FRESH,
            token=Token.PROJECT,
            used_by=(
                Use(
                    ("load-balancer.listener", "load-balancer.pool"),
                    "takes the certificate, so that the load balancer can no longer be repaired",
                    OneByOne(_refuse_shared_container),
                    option="delete_shared_secrets",
                ),
                _BY_READERS,
            ),
            after=("order", *USERS),
            needed_by=NEEDED_BY,
            serves=SERVES,
            created="created",
            updated=LastChange("updated"),
            parts=(Parts("consumer", _of_container, created="created", updated=LastChange("updated")),),
            source="GET, DELETE /v1/containers; barbican common/policies/containers.py",
            note="Barbican deletes a container under its consumers (a load balancer's certificate), so the consumers "
            "are deleted first. Its secrets stay. An admin of another project gets 403.",
        ),
        ResourceType(
            name="secret",
            if_abandoned="The secret stays stored. An admin of the key manager can still read it.",
            list=_collection("secrets", "secret_ref"),
            all_projects=_SCOPED_LISTS,
            delete=_delete_secret,
            owner=SCOPED,
            why_no_show=_FRESH,
            token=Token.PROJECT,
            used_by=(
                Use(
                    ("image.image", "block-storage.volume", "shared-file-system.share"),
                    "takes the key or certificate, so that the data can never be read again",
                    OneByOne(_used_by_others),
                    option="delete_shared_secrets",
                ),
                # The delete itself looks for them, once Barbican has refused it because of a consumer.
                Use(
                    ("load-balancer.listener", "load-balancer.pool"),
                    "is refused, if users of other projects may read it and any consumer is registered",
                    option="delete_shared_secrets",
                ),
                _BY_READERS,
            ),
            after=("order", "container", *USERS),
            needed_by=(*NEEDED_BY, ("container", linked(Rest("key-manager", "/containers/{id}")))),
            serves=SERVES,
            created="created",
            updated=LastChange("updated"),
            parts=(Parts("consumer", _of_secret, created="created", updated=LastChange("updated")),),
            source="GET, DELETE /v1/secrets, microversion 1.2; barbican api/controllers/secrets.py, "
            "model/repositories.py",
            note="Pages of 10 by default, 100 at most, by offset. Before microversion 1.2 a delete ignores "
            "consumers. The SDK's get_secret would fetch the payload. Expired secrets are in no list and answer "
            "404 by id: only 'barbican-manage db clean --soft-delete-expired-secrets' removes their rows. A leftover "
            "of another type holds only the secrets that it names, and those without a name if it does not show its "
            "keys. The key of a volume goes with the volume. If a consumer of the key keeps Cinder from that, the "
            "consumer is removed, unless users of other projects may read the key.",
        ),
        ResourceType(
            name="project_quota",
            list=_quota,
            all_projects="a quota is asked for by its project's id",
            delete=Rest("key-manager", "/project-quotas/{project_id}", method="DELETE"),
            why_no_show="the row's key is the project's id",
            used_by=(),
            project_setting=True,
            after=("order", "container", "secret"),
            source="GET, DELETE /v1/project-quotas/{id}; barbican common/policies/quotas.py",
            note="404 means that the project has no quota of its own.",
        ),
    ),
)
