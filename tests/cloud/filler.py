"""Fills a project with at least one resource of each type that it can own, as a user of the project.

    filled = fill(admin_connection, "demo")                 # ids by kind in filled.ids
    other = bystander(admin_connection, "neighbour", filled)  # must survive the deletion of the first
    counts(admin_connection, filled.project_id, filled.connection)

A repeated call with the same name finds the existing resources and adds the missing ones.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import openstack
import openstack.connection

from tests.cloud.fillings import (
    accelerator,
    alarm,
    application_container,
    backup,
    baremetal,
    block_storage,
    compute,
    container_infra,
    database,
    dns,
    identity,
    image,
    key_manager,
    load_balancer,
    message,
    metric,
    network,
    nfv_orchestration,
    object_store,
    orchestration,
    rating,
    reservation,
    shared_file_system,
    workflow,
)
from tests.cloud.fillings.base import Filled, FillError, Filling, Rest
from tests.cloud.proof import counts, proof, scan

__all__ = ["FillError", "Filled", "Filling", "bystander", "counts", "fill", "proof", "scan", "share", "use_shared"]

Progress = Callable[[str], None]
Kind = Callable[[Filling], None]


def silent(text: str) -> None:
    """Ignore progress messages."""


def fill(
    admin_connection: openstack.connection.Connection,
    name: str,
    *,
    partner: str | None = None,
    password: str | None = None,
    expiring_in: int = 3600,
    objects: int = 200,
    only: Iterable[str] | None = None,
    progress: Progress = silent,
) -> Filled:
    """Make the project `name` with a user in it, and fill it; share resources with the project `partner`.

    `expiring_in` is when the expiring secret expires, in seconds; `objects` is the size of the big container; `only`
    names the services to fill (keys of `SERVICES` and `FURTHER`), by default all of `SERVICES` that the cloud has.
    Raises FillError when something is refused.
    """
    filled = make_project(admin_connection, name, password=password, partner=partner)
    known = SERVICES | FURTHER
    wanted = [each for each in SERVICES if admin_connection.has_service(each)] if only is None else list(only)

    def work(service: str) -> Filled:
        # Each service has separate ids: its other kinds use the first resource that this service made of a kind.
        own = dataclasses.replace(filled, ids={})
        filling = Filling(admin_connection, own, expiring_in, objects)
        for kind in known[service]:
            try:
                kind(filling)
            except FillError as error:
                raise FillError(f"{service}, {kind.__name__}: {error}") from error
        return own

    # The kinds of one service depend on each other, the services do not.
    with ThreadPoolExecutor(len(wanted) or 1) as pool:
        for service, own in zip(wanted, pool.map(work, wanted), strict=True):
            for kind, ids in own.ids.items():
                if ids:
                    filled.note(kind, *ids)
            progress(f"{name}: {service} is filled")
    return filled


def bystander(
    admin_connection: openstack.connection.Connection,
    name: str,
    other: Filled | None = None,
    *,
    objects: int = 5,
    occupy: bool = False,
    progress: Progress = silent,
    **options: object,
) -> Filled:
    """Make a second project with the same kinds of resources, which must survive the deletion of the first.

    With `other`, the two projects share what can be shared, and `other` uses some of the shared resources. With
    `occupy`, this project also has a port on a network of `other`, which blocks the delete of that network.
    """
    partner = other.project_id if other else None
    filled = fill(admin_connection, name, partner=partner, objects=objects, progress=progress, **options)
    if other:
        share(admin_connection, filled, other)
        if occupy:
            use_shared(giver=other, taker=filled)
    return filled


def share(admin_connection: openstack.connection.Connection, filled: Filled, other: Filled) -> None:
    """Let two projects share with each other what can be shared; `other` uses some of the shared resources."""
    for giver, taker in ((filled, other), (other, filled)):
        giver.partner_id = taker.project_id
        filling = Filling(admin_connection, giver, 0, 0)
        network.rbac_policies(filling)
        image.image_member(filling)
        if "shared zone" in giver.ids:
            dns.share(filling)
    use_shared(giver=filled, taker=other)


def use_shared(*, giver: Filled, taker: Filled) -> None:
    """Let `taker` use what `giver` shares with it: add a port to the network with the group; the image; a zone."""
    body = {
        "name": f"{taker.project_name}-at-{giver.project_name}",
        "network_id": giver.first("network"),
        "security_groups": [giver.first("security group")],
    }
    taker.note("port", Rest(taker.connection.network).ensure("ports", "port", body, project_id=taker.project_id))
    member = f"{giver.first('shared image')}/members/{taker.project_id}"
    Rest(taker.connection.image).call("PUT", f"/images/{member}", {"status": "accepted"})
    taker.note("image membership", member)
    if "shared zone" in giver.ids:
        taker.note("recordset of others", dns.use_share(giver, taker))


def make_project(
    admin_connection: openstack.connection.Connection, name: str, *, password: str | None, partner: str | None
) -> Filled:
    """Make the project, a user with the role member on it, and a group with the same role and a colleague."""
    rest = Rest(admin_connection.identity)
    password = password or secrets.token_urlsafe(12)
    project_id = rest.ensure("projects", "project", {"name": name, "domain_id": "default"}, domain_id="default")
    people = [make_user(rest, f"{name}-{suffix}", password, project_id) for suffix in ("user", "colleague")]
    user_id, colleague_id = people
    group_id = rest.ensure("groups", "group", {"name": f"{name}-team", "domain_id": "default"}, domain_id="default")
    rest.call("PUT", f"/groups/{group_id}/users/{colleague_id}")
    member = rest.call("GET", "/roles", params={"name": "member"})["roles"][0]["id"]
    rest.call("PUT", f"/projects/{project_id}/users/{user_id}/roles/{member}")
    rest.call("PUT", f"/projects/{project_id}/groups/{group_id}/roles/{member}")
    return Filled(
        project_id=project_id,
        project_name=name,
        user_id=user_id,
        user_name=f"{name}-user",
        password=password,
        group_id=group_id,
        colleague_id=colleague_id,
        connection=connect_as(admin_connection, f"{name}-user", password, name),
        partner_id=partner or admin_connection.current_project_id,
    )


def make_user(rest: Rest, name: str, password: str, project_id: str) -> str:
    """Return the user; an existing one gets a new password, because the old one was not stored."""
    settings = {"password": password, "default_project_id": project_id}
    found = rest.call("GET", "/users", params={"name": name, "domain_id": "default"})["users"]
    if not found:
        return rest.call("POST", "/users", {"user": {"name": name, "domain_id": "default", **settings}})["user"]["id"]
    rest.call("PATCH", f"/users/{found[0]['id']}", {"user": settings})
    # A new password revokes all tokens up to now. Keystone counts in seconds, so it also revokes those of this second.
    time.sleep(1.1)
    return found[0]["id"]


def connect(auth_url: str, user: str, password: str, project: str) -> openstack.connection.Connection:
    """Return a connection of a user to the cloud."""
    return openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth={
            "auth_url": auth_url,
            "username": user,
            "password": password,
            "project_name": project,
            "user_domain_id": "default",
            "project_domain_id": "default",
        },
        region_name="RegionOne",
        identity_api_version="3",
    )


def connect_as(
    admin_connection: openstack.connection.Connection, user: str, password: str, project: str
) -> openstack.connection.Connection:
    """Return a connection of another user to the same cloud."""
    return connect(admin_connection.config.get_auth_args()["auth_url"], user, password, project)


# The kinds of each service, in the order in which they are made.
SERVICES: dict[str, tuple[Kind, ...]] = {
    "network": network.KINDS,
    "object-store": object_store.KINDS,
    "image": image.KINDS,
    "key-manager": key_manager.KINDS,
    "identity": identity.KINDS,
    "orchestration": orchestration.KINDS,
    "container-infrastructure-management": container_infra.KINDS,
    "compute": compute.KINDS,
    "block-storage": block_storage.KINDS,
    "load-balancer": load_balancer.KINDS,
    "dns": dns.KINDS,
    "shared-file-system": shared_file_system.KINDS,
}
#: The same for the services that are in no other cloud than that of their test file.
FURTHER: dict[str, tuple[Kind, ...]] = {
    "accelerator": accelerator.KINDS,
    "alarm": alarm.KINDS,
    "application-container": application_container.KINDS,
    "backup": backup.KINDS,
    "baremetal": baremetal.KINDS,
    "database": database.KINDS,
    "message": message.KINDS,
    "metric": metric.KINDS,
    "nfv-orchestration": nfv_orchestration.KINDS,
    "rating": rating.KINDS,
    "reservation": reservation.KINDS,
    "workflow": workflow.KINDS,
}
