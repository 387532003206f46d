"""Barbican: orders, containers, secrets, and the project's quota row.

Every list shows the token's project alone, so all types but the quota need a token that is scoped into the project. No
separate types: ACLs, consumers and metadata are deleted with their secret or container. The project's row, its KEK rows
and its preferred secret store are internal, and stay; an operator removes them with ``barbican-manage db clean`` and
``barbican-keystone-listener``. ACLs on secrets of other projects that name users of this project belong to those
projects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    SCOPED,
    BadAnswer,
    Needs,
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
    Verdict,
    blocker,
    exceptions,
    linked,
    mentions,
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
#: The first microversion that knows consumers of secrets.
_CONSUMERS = "1.1"
_MOST_CONSUMERS = 100  #: that one call returns

#: Types that keep keys or certificates in Barbican and need them while they exist: an encrypted volume cannot even be
#: detached without its key.
_USERS = (
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


#: An image names its secrets in its properties: the key of an encrypted one, the certificate of a signed one. An order
#: names what it has made, or is for. What secrets the other types use is not shown to an admin in one place.
_NEEDED_BY = (
    ("image.image", linked(Rest("image", "/images/{id}"))),
    ("load-balancer.load_balancer", named_by_balancers),
    ("order", linked(Rest("key-manager", "/orders/{id}"))),
)


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


def _outsiders(connection: Connection, project: ProjectDefinition, path: str) -> list[str]:
    """Return the users in the ACL that are not members of the project."""
    response = connection.key_manager.get(f"{path}/acl")
    exceptions.raise_from_response(response)
    users = (response.json().get("read") or {}).get("users") or []
    return sorted(set(users) - set(project.member_ids))


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


def _consumers(connection: Connection, path: str) -> list[Row]:
    """Return the first hundred consumers of a secret or a container.

    Barbican before 1.1 has no consumers.
    """
    response = connection.key_manager.get(
        f"{path}/consumers", params={"limit": _MOST_CONSUMERS}, microversion=_CONSUMERS
    )
    if response.status_code == 406:
        return []
    exceptions.raise_from_response(response)
    rows = response.json().get("consumers")
    if not isinstance(rows, list):
        raise BadAnswer(f"GET {path}/consumers answered without 'consumers'")
    return rows


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
    rows = _consumers(connection, path)
    if response.status_code == 400 and not rows:
        exceptions.raise_from_response(response)
    if rows:
        blockers = tuple(
            blocker(f"{r.get('service')}.{r.get('resource_type')}", r.get("resource_id"), "") for r in rows
        )
        _refuse_shared(connection, project, path, blockers)
    response = delete(_DETECT, force="true") if response.status_code == 400 else delete(None)
    exceptions.raise_from_response(response)


def _refuse_shared_container(connection: Connection, project: ProjectDefinition, container: Resource) -> None:
    """Check the consumers of a container, because Barbican does not check them."""
    if rows := container.data.get("consumers"):
        blockers = tuple(blocker(str(r.get("name")), r.get("URL"), "") for r in rows)
        _refuse_shared(connection, project, f"/containers/{container.id}", blockers)


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
    rows = _consumers(connection, f"/secrets/{secret.id}")
    return rows if len(rows) < _MOST_CONSUMERS else [*rows, {}]


def _of_container(connection: Connection, _project: ProjectDefinition, container: Resource) -> list[Row]:
    """Return the consumers of a container, as those of a secret."""
    rows = _consumers(connection, f"/containers/{container.id}") if container.data.get("consumers") else []
    return rows if len(rows) < _MOST_CONSUMERS else [*rows, {}]


SERVICE = Service(
    service_type="key-manager",
    contract_version=1,
    after=CONTROLLERS,
    options=OPTIONS,
    roles="admin on the project to be deleted (a member may not delete others' private secrets); admin for quotas",
    types=(
        ResourceType(
            name="order",
            list=_collection("orders", "order_ref"),
            all_projects=_SCOPED_LISTS,
            delete=Rest("key-manager", "/orders/{id}", method="DELETE"),
            title="meta.name",
            owner=SCOPED,
            fresh=_FRESH,
            token=Token.PROJECT,
            created="created",
            parts=(),
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
            fresh=_FRESH,
            token=Token.PROJECT,
            prepare=(_refuse_shared_container,),
            after=("order", *_USERS),
            needed_by=_NEEDED_BY,
            created="created",
            parts=(Parts("consumer", _of_container, created="created"),),
            source="GET, DELETE /v1/containers; barbican common/policies/containers.py",
            note="Barbican deletes a container under its consumers (a load balancer's certificate), so the consumers "
            "are deleted first. Its secrets stay. An admin of another project gets 403.",
        ),
        ResourceType(
            name="secret",
            list=_collection("secrets", "secret_ref"),
            all_projects=_SCOPED_LISTS,
            delete=_delete_secret,
            owner=SCOPED,
            fresh=_FRESH,
            token=Token.PROJECT,
            after=("order", "container", *_USERS),
            needed_by=(*_NEEDED_BY, ("container", linked(Rest("key-manager", "/containers/{id}")))),
            created="created",
            parts=(Parts("consumer", _of_secret, created="created"),),
            source="GET, DELETE /v1/secrets, microversion 1.2; barbican api/controllers/secrets.py, "
            "model/repositories.py",
            note="Pages of 10 by default, 100 at most, by offset. Before microversion 1.2 a delete ignores "
            "consumers. The SDK's get_secret would fetch the payload. Expired secrets are in no list and answer "
            "404 by id: only 'barbican-manage db clean --soft-delete-expired-secrets' removes their rows.",
        ),
        ResourceType(
            name="project_quota",
            list=_quota,
            all_projects="a quota is asked for by its project's id",
            delete=Rest("key-manager", "/project-quotas/{project_id}", method="DELETE"),
            fresh="the row's key is the project's id",
            project_setting=True,
            after=("order", "container", "secret"),
            source="GET, DELETE /v1/project-quotas/{id}; barbican common/policies/quotas.py",
            note="404 means that the project has no quota of its own.",
        ),
    ),
)
