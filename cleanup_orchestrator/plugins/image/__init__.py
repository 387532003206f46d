"""Glance: images, metadef namespaces, tasks, memberships in other images.

No separate types: members, tags, properties and locations are deleted with their image, and objects, properties, tags
and resource type associations with their namespace. Cached copies belong to an API node, have no owner, and are pruned
by the node (``glance-cache-pruner``) once the image is gone.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    MAX_BLOCKERS,
    ROW,
    BadAnswer,
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
    Use,
    Verdict,
    blocker,
    exceptions,
    linked,
    protection_remedy,
    refuse,
    state_remedies,
)
from cleanup_orchestrator.plugins.glance import list_pages
from cleanup_orchestrator.plugins.image.uses import USES

if TYPE_CHECKING:
    from openstack.connection import Connection

OPTIONS = (
    cfg.BoolOpt(
        "delete_public_images",
        default=False,
        help="Delete the project's public images, too. Every project of the cloud may be using them.",
    ),
    cfg.BoolOpt(
        "delete_community_images",
        default=False,
        help="Delete the project's community images, too. Every project that knows their id may be using them. Any "
        "member of a project may give this visibility to its images. Without this option such an image blocks the "
        "deletion of the project, also a cascade, until an admin makes it private.",
    ),
    cfg.BoolOpt(
        "delete_shared_images",
        default=False,
        help="Delete images that the project has shared with other projects that have not rejected them. An image of "
        "visibility 'shared' with no such member is deleted in any case: 'shared' is what new images are by default. "
        "Any member of a project may share its images with any other project, without its consent. Without this "
        "option such an image blocks the deletion of the project, also a cascade, until an admin makes it private.",
    ),
    cfg.BoolOpt(
        "delete_public_namespaces",
        default=False,
        help="Delete the project's public metadef namespaces, too. They are in force for the whole cloud.",
    ),
    cfg.BoolOpt(
        "sweep_memberships",
        default=False,
        help="Remove the project from the member lists of other projects' images. Glance cannot be asked which images "
        "a project is a member of: it takes one call for every shared image of the whole cloud, for every project "
        "that is deleted. A membership that stays is a dangling row that gives no access.",
    ),
)


# --------------------------------------------------------------------------------------------------------- images


_IMAGE = Rest("image", "/images/{id}")
#: Since microversion 2.3 Nova shows an admin the images of a server's kernel and ramdisk, too.
_SERVER = Rest("compute", "/servers/{id}", microversion="2.3")
#: With the value ``on_image_deletion``, Glance deletes the secret ``cinder_encryption_key_id`` with the image.
_KEY_POLICY = "cinder_encryption_key_deletion_policy"


def _images(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's images, hidden ones included."""
    for hidden in ("false", "true"):
        yield from list_pages(
            connection, "/images", "images", {"owner": project.id, "visibility": "all", "os_hidden": hidden}
        )


def _all_images(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the images of all projects, hidden ones included."""
    for hidden in ("false", "true"):
        yield from list_pages(connection, "/images", "images", {"visibility": "all", "os_hidden": hidden})


#: How to clear the protection of an image; the name of the option follows.
_CLEARED = "an admin may make it private, or the operator sets [service_image]"


def _protect_image(image: Resource, project: ProjectDefinition) -> str | None:
    visibility = image.data.get("visibility")
    if visibility in ("private", "shared"):  # whether it is really shared takes a call: see _refuse_shared
        return None
    if visibility in ("public", "community"):
        option = f"delete_{visibility}_images"
        if project.options.get(option):
            return None
        by = "an admin" if visibility == "public" else "a member of the project, or an admin,"
        return f"the image is {visibility}, which {by} made it: other projects may be using it; {_CLEARED} {option}"
    return f"the image has the unknown visibility {visibility!r}"


def _shared(connection: Connection, project: ProjectDefinition, image: Resource) -> Verdict | None:
    """Return a verdict that names the other projects that use an image by membership."""
    if image.data.get("visibility") != "shared" or project.options.get("delete_shared_images"):
        return None
    # A pending member may boot from the image already. Its lists merely do not show the image.
    members = [
        member
        for member in _members(connection, image.id)
        if member["member_id"] != project.id and member["status"] != "rejected"
    ]
    if not members:
        return None
    # The message names no project: not every reader of it may know the members. ``blocked_by`` has them.
    blockers = tuple(blocker("image.member", image.id, m["member_id"]) for m in members[:MAX_BLOCKERS])
    states = collections.Counter(str(m["status"]) for m in members)
    said = ", ".join(f"{number} {status}" for status, number in sorted(states.items()))
    by = "by a member of its own project, or an admin"
    others = "another project" if len(members) == 1 else f"{len(members)} other projects"
    text = f"the image is shared with {others} ({said}), {by}; {_CLEARED} delete_shared_images"
    return Verdict(Reason.PROTECTED, text, blockers)


def _refuse_shared(connection: Connection, project: ProjectDefinition, image: Resource) -> None:
    """Refuse an image that a user has shared since its uses were read. Any member may do that at any time.

    :raises Refused: naming the projects
    """
    refuse(_shared(connection, project, image))


def _members(connection: Connection, image_id: str) -> list[Row]:
    response = connection.image.get(f"/images/{image_id}/members")
    exceptions.raise_from_response(response)
    rows = response.json().get("members")
    if not isinstance(rows, list):
        raise BadAnswer("GET /images/{id}/members answered without 'members'")
    return rows


def _memberships_of(connection: Connection, project: ProjectDefinition, image: Resource) -> list[Row]:
    """Return the memberships in an image, of any project."""
    return _members(connection, image.id) if image.data.get("visibility") == "shared" else []


def _definitions_of(connection: Connection, project: ProjectDefinition, namespace: Resource) -> Iterator[Row]:
    """Yield what a namespace defines. Glance shows no time of a property."""
    path = f"/metadefs/namespaces/{quote(namespace.id, safe='')}"
    for collection, key in (("objects", "objects"), ("tags", "tags"), ("resource_types", "resource_type_associations")):
        for row in Rest("image", f"{path}/{collection}", key=key, paging=Paging.LINKS).rows(connection, project):
            yield {**row, "id": row["name"]}
    properties = Rest("image", f"{path}/properties").call(connection, project)["properties"]
    yield from ({"id": name} for name in properties)


def _unprotect_image(connection: Connection, project: ProjectDefinition, image: Resource) -> None:
    """Clear the flag that prevents an accidental delete by the owner.

    It is no sign of use by others.
    """
    if image.data.get("protected") is not False:
        _patch(connection, image, {"op": "replace", "path": "/protected", "value": False})


def _keep_key(connection: Connection, project: ProjectDefinition, image: Resource) -> None:
    """Prevent that Glance deletes an encryption key with the image.

    Any user may set the two properties that make Glance delete a secret, with the token of the delete request. The
    secret may be another project's. The plugin of Barbican deletes the project's own secrets.
    """
    current = _IMAGE.row(connection, project, image)
    if _KEY_POLICY in current:
        _patch(connection, image, {"op": "remove", "path": f"/{_KEY_POLICY}"})


#: Name prefixes of Glance's stores that may delete with the token of the delete request: Cinder without a user of its
#: own, Swift with ``swift_store_multi_tenant``.
_STORES = ("cinder", "swift")


def _has_user_written_locations(image: Resource) -> bool:
    """Return whether a store may act with the caller's token on ``locations``.

    With ``show_multiple_locations`` any user may write them: another project's volume, or a host of the user, which
    would receive the token. Without it Glance does not show them.
    """
    locations = image.data.get("locations") or ()
    return any(urlsplit(str(one.get("url"))).scheme.lower().startswith(_STORES) for one in locations)


def _refuse_user_written_locations(connection: Connection, project: ProjectDefinition, image: Resource) -> None:
    """Refuse an image with such ``locations`` if the project is gone.

    Only an admin's token could delete it.

    :raises Refused: naming its locations
    """
    if not project.gone:
        return
    current = dataclasses.replace(image, data=_IMAGE.row(connection, project, image))
    if _has_user_written_locations(current):
        urls = ", ".join(str(one.get("url")) for one in current.data["locations"])
        text = f"a user may have written its locations, and an admin's token would be used there: {urls}; read them, "
        raise Refused(Verdict(Reason.PROJECT_GONE, f"{text}then delete the image by hand"))


def _explain_staged(connection: Connection, project: ProjectDefinition, image: Resource) -> Verdict | None:
    """Say that the data of an image was staged by one worker of Glance, which has to delete it.

    Glance passes the delete to that worker. If the worker's host is gone, Glance answers 500: it expects another error
    than keystoneauth raises (api/v2/images.py, _proxy_request_to_host). No answer names the worker.
    """
    status = _IMAGE.row(connection, project, image).get("status")
    if status not in ("uploading", "importing"):
        return None
    text = (
        f"its status is {status}: its data was staged by one worker of Glance, which has to delete it, and does not "
        "answer (os_glance_stage_host in the table image_properties of Glance's database names it)"
    )
    return Verdict(Reason.ERROR, text)


_REMEDIES = {
    **protection_remedy("makes the image private: 'openstack image set --private {id}'"),
    **state_remedies(
        "openstack image show {id} has its status, and the log of glance-api the cause",
        "openstack image set --activate {id}, for one that is deactivated",
    ),
    Reason.ERROR: "the log of glance-api has the cause: remove it, and it is tried again automatically. If the image "
    "was staged on a host that is gone, an operator starts a glance-api with worker_self_reference_url = the value of "
    "os_glance_stage_host, or runs in Glance's database DELETE FROM image_properties WHERE image_id = '{id}' AND name "
    "= 'os_glance_stage_host'; what was staged stays on that host",
}


def _patch(connection: Connection, image: Resource, change: Mapping[str, Any]) -> None:
    headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    response = connection.image.patch(f"/images/{image.id}", json=[change], headers=headers)
    exceptions.raise_from_response(response)


# ----------------------------------------------------------------------------------------------- metadef namespaces


def _all_namespaces(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the metadef namespaces of all projects."""
    yield from list_pages(connection, "/metadefs/namespaces", "namespaces", {})


def _namespaces(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's metadef namespaces."""
    for row in _all_namespaces(connection, project):
        if row.get("owner") == project.id:
            yield row


def _protect_namespace(namespace: Resource, project: ProjectDefinition) -> str | None:
    if not re.fullmatch(r"[^/]*[^/.][^/]*", namespace.id) or not namespace.id.isascii():
        # Glance decodes %2F before it routes: the delete of "a/objects/b" would delete the object b of a. It decodes
        # non-ASCII names as Latin-1, and finds nothing.
        return "Glance would take the namespace's name in a URL for something else: rename it"
    if namespace.data.get("visibility") == "private" or project.options.get("delete_public_namespaces"):
        return None
    return "the namespace is public: it is in force for the whole cloud"


def _unprotect_namespace(connection: Connection, project: ProjectDefinition, namespace: Resource) -> None:
    """Clear the protection of a namespace and nothing else.

    A PUT resets what it leaves out, and the owner becomes the caller's project.
    """
    if namespace.data.get("protected") is False:
        return
    kept = ("namespace", "display_name", "description", "visibility", "owner")
    body = {key: namespace.data[key] for key in kept if namespace.data.get(key) is not None}
    Rest("image", "/metadefs/namespaces/{id}", method="PUT", body={**body, "protected": False}).call(
        connection, project, namespace
    )


# -------------------------------------------------------------------------------------------- tasks and memberships


def _tasks(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's tasks."""
    yield from list_pages(connection, "/tasks", "tasks", {"owner": project.id})


def _keep_task(task: Resource, project: ProjectDefinition) -> str | None:
    return "Glance deletes no tasks (405): it is a log entry, which expires by task_time_to_live"


def _memberships(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's memberships in images of other projects."""
    for hidden in ("false", "true"):
        query = {"visibility": "shared", "member_status": "all", "os_hidden": hidden}
        for image in list_pages(connection, "/images", "images", query):
            if image.get("owner") == project.id:
                continue  # members of the project's images are deleted with them
            for member in _members(connection, image["id"]):
                if member["member_id"] == project.id:
                    yield {**member, "name": image.get("name") or ""}


def _memberships_wanted(connection: Connection, project: ProjectDefinition) -> bool:
    """Whether the option sweep_memberships is set."""
    return bool(project.options.get("sweep_memberships"))


SERVICE = Service(
    service_type="image",
    contract_version=2,
    after=CONTROLLERS,
    options=OPTIONS,
    roles="admin (project-scoped; Glance takes no system scope)",
    # Glance decides this by the same rule as the lists (context_is_admin), which show others public images and those of
    # their own project.
    proof=Rest("image", "/tasks", query={"owner": "{project_id}", "limit": "1"}),
    types=(
        ResourceType(
            name="image",
            if_abandoned="It still uses storage.",
            list=_images,
            all_projects=_all_images,
            show=_IMAGE,
            delete=Rest("image", "/images/{id}", method="DELETE"),
            owner="owner",
            protect=(_protect_image,),
            prepare=(_refuse_shared, _refuse_user_written_locations, _unprotect_image, _keep_key),
            explain=_explain_staged,
            remedies=_REMEDIES,
            user_content="the image's locations, where show_multiple_locations lets users write them: a store may "
            "delete what they name with the token that asks for the delete",
            has_user_content=_has_user_written_locations,
            used_by=(
                Use(
                    ("image.member",),
                    "leaves servers that they booted from it without their image",
                    OneByOne(_shared),
                    option="delete_shared_images",
                ),
                *USES,
            ),
            after=("compute.server", "block-storage.volume"),
            needed_by=(
                ("compute.server", linked(_SERVER)),
                ("block-storage.volume", linked(Rest("block-storage", "/volumes/{id}"))),
            ),
            tags="tags",
            properties=ROW,
            created="created_at",
            updated=LastChange("updated_at"),
            parts=(Parts("membership", _memberships_of, created="created_at", updated=LastChange("updated_at")),),
            size=("size", 1),
            source="GET /v2/images?owner=X&visibility=all&os_hidden=false, and os_hidden=true; DELETE /v2/images/{id}; "
            "glance api/v2/images.py, db/sqlalchemy/api.py, domain/__init__.py",
            note="Hidden images are in a list of their own only. Without visibility=all an admin does not see the "
            "project's community images. 'protected' makes Glance refuse the delete with 403 and is cleared "
            "before. 409 means that the store still needs the data (copy-on-write clones of any project). "
            "Servers are deleted first, because shelved ones own their image. A secret that an image's "
            "properties name is not deleted with it. Images of other owners that are shared with the project "
            "are not listed. Copies in the caches of API nodes are pruned by the nodes.",
        ),
        ResourceType(
            name="metadef_namespace",
            list=_namespaces,
            all_projects=_all_namespaces,
            show=Rest("image", "/metadefs/namespaces/{id}"),
            delete=Rest("image", "/metadefs/namespaces/{id}", method="DELETE"),
            id="namespace",
            title="display_name",
            owner="owner",
            protect=(_protect_namespace,),
            remedies=protection_remedy(
                "makes the namespace private, or renames it as the message says: 'openstack image metadef namespace "
                "set --private {id}'"
            ),
            used_by=(),
            prepare=(_unprotect_namespace,),
            unfiltered="Glance silently ignores an owner filter here; the owner of each row is compared",
            created="created_at",
            parts=(Parts("definition", _definitions_of, created="created_at"),),
            source="GET /v2/metadefs/namespaces; glance api/v2/metadef_namespaces.py, "
            "db/sqlalchemy/metadef_api/namespace.py",
            note="The name is the id, and another project may use it after a delete: the owner is read again right "
            "before. 'protected' is cleared by a PUT, which resets what it leaves out, and gives the namespace "
            "to the caller's project unless it names the owner. A name with a slash addresses another resource, "
            "and a name that is not ASCII none.",
        ),
        ResourceType(
            name="task",
            list=_tasks,
            all_projects="tasks are log entries, which Glance deletes by itself (task_time_to_live)",
            delete=None,
            title="type",
            owner="owner",
            keep=(_keep_task,),
            used_by=(),
            created="created_at",
            parts=(),
            source="GET /v2/tasks?owner=X; DELETE is always 405 (glance api/v2/tasks.py)",
            note="The SDK has no owner filter for tasks and would fetch those of the whole cloud.",
        ),
        ResourceType(
            name="membership",
            list=_memberships,
            all_projects="a membership in another project's image gives no access once its project is gone",
            show=Rest("image", "/images/{id}/members/{project_id}"),
            delete=Rest("image", "/images/{id}/members/{project_id}", method="DELETE"),
            id="image_id",
            owner="member_id",
            used_by=(),
            project_setting=True,
            available=_memberships_wanted,
            unfiltered="there is no list of a project's memberships: the members of every shared image are asked for",
            source="GET /v2/images?visibility=shared&member_status=all, GET /v2/images/{id}/members; "
            "glance api/v2/image_members.py",
            note="Off by default (option sweep_memberships): a cloud of 10,000 projects with 5 shared images each "
            "would take 50,000 calls for every project deleted, to remove a row that gives no access. The "
            "cheaper list with a token of the project shows all shared images, too, when that token has the "
            "admin role.",
        ),
    ),
)
