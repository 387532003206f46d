"""Liens, waivers and the brake, and the services of the catalog."""

from __future__ import annotations

from cleanup_orchestrator.shapes.base import SELF_ALONE, USER_NAME, Link, Shape, field, time, uuid, word
from cleanup_orchestrator.shapes.places import Place


class Lien(
    Shape,
    one="lien",
    many="liens",
    open="id project_id origin expires_at",
    columns="id project_id origin",
    wide="state expires_at user_name reason",
):
    """A protection of a project from deletion."""

    id: str = uuid("ID of the lien.")
    project_id: str = field("ID of the protected project.")
    origin: str = field(
        "The department or system that needs the lien. Of a plugin lien: the plugin, such as ``plugin:image.image``."
    )
    reason: str = field("Why. Only for callers who may read liens.", optional=True)
    created_at: str = time("When the lien was recorded.", optional=True)
    expires_at: str | None = time("When the lien ends. ``null``: it is in force until it is removed.")
    user_id: str = field("ID of the user who recorded the lien. Empty: a plugin raised it.", optional=True)
    user_name: str = field("Name of that user.", label="User", optional=True)
    request_id: str = field("ID of the request. For a plugin lien: of the request for the deletion.", optional=True)
    deleted_at: str | None = time("When the lien was removed. ``null``: it was not removed.", optional=True)
    deleted_by: str = field(
        "ID of the user who removed the lien, or ``plugin``. Empty: it was not removed.",
        optional=True,
    )
    state: str = word(
        ["in_force", "expired", "removed"],
        "State of the lien. Only in the answers of ``/v1/liens``.",
        optional=True,
    )
    links: list[Link] = SELF_ALONE


class SkippedService(Place):
    """A catalog entry that a waiver skipped."""


class Waiver(
    Shape,
    one="waiver",
    many="waivers",
    open="id project_id service_type region expires_at user_name",
    columns="id service_type region",
    wide="project_id state expires_at user_name reason",
):
    """The permission to skip a service."""

    id: str = uuid("ID of the waiver.")
    service_type: str = field("Official type of the waived service.")
    region: str | None = field("Only in this region. ``null``: in every region.")
    project_id: str | None = field("Only for deletions of this project. ``null``: for deletions of every project.")
    reason: str = field("Why. Only for callers who may read waivers.", optional=True)
    created_at: str = time("When the waiver was recorded.", optional=True)
    expires_at: str = time("When the waiver ends.")
    user_id: str = field("ID of the user who recorded the waiver.", optional=True)
    user_name: str = USER_NAME
    request_id: str = field("ID of the request. Absent in a deletion.", optional=True)
    deleted_at: str | None = time(
        "When the waiver was withdrawn. ``null``: it was not. Absent in a deletion.",
        optional=True,
    )
    deleted_by: str = field(
        "ID of the user who withdrew it. Empty: it was not withdrawn. Absent in a deletion.",
        optional=True,
    )
    state: str = word(
        ["in_force", "expired", "withdrawn"],
        "State of the waiver. Only in the answers of ``/v1/waivers``.",
        optional=True,
    )
    links: list[Link] = SELF_ALONE
    not_listed: list[SkippedService] = field(
        "Only in a deletion: the catalog entries that were skipped because of it.",
        optional=True,
    )


class Brake(Shape, one="brake"):
    """The brake, which stops all deletions of the cloud."""

    on: bool = field("Whether the brake is set.")
    reason: str = field("The reason with which the brake was set last. Empty: it was never set.", optional=True)
    since: str | None = time("When the brake was set or lifted last. ``null``: it was never set.", optional=True)
    user_id: str = field("ID of the user who set or lifted the brake last. Empty: it was never set.", optional=True)
    user_name: str = field("Name of that user.", label="User", optional=True)
    request_id: str = field("ID of that request.", optional=True)


class TypeFacts(Shape):
    """What an admin wants to know of a resource type before a force."""

    type: str = field("The resource type, as in ``types``.")
    forcible: bool = field("Whether the type has a forced delete.")
    if_abandoned: str = field("What an abandoned resource of the type still uses and does. Empty: not known.")


class Service(Shape, many="services", columns="region service_type answered_by message", wide="name types"):
    """An entry of the catalog, and what handles it."""

    region: str = field("Region of the endpoints in Keystone. Empty: they have no region.")
    service_type: str = field(
        "Official type of the service. Of a second service of the type in the region: the type, a dot, and the name or "
        "ID of the service, such as ``object-store.radosgw``."
    )
    name: str = field("Name of the service in Keystone.")
    answered_by: str = word(
        ["plugin", "protocol", "nothing_to_own", "waived", "unsupported"],
        "``plugin``: a plugin handles the service. ``protocol``: it lists and deletes its resources itself. "
        "``nothing_to_own``: ``[catalog] owns_nothing`` has it. ``waived``: a waiver makes deletions skip it. "
        "``unsupported``: nothing lists it, so that no project can be deleted.",
    )
    types: list[str] = field(
        "The resource types of the plugin, or those that the service itself declares. Empty without either."
    )
    type_facts: list[TypeFacts] = field(
        "With ``plugin``: one object for each of ``types``. Empty: no type has a forced delete.",
    )
    message: str = field(
        "Why neither a plugin nor the service itself lists its resources, or what is wrong with that. With ``waived``: "
        "who waived it, until when, and why, if the caller may read waivers.",
    )
    waiver_id: str | None = uuid("ID of the waiver. ``null``: not waived.")
    protocol_url: str = field(
        "Where the service answers over the project resources protocol. Empty: it never did, or the caller may see "
        "only the services of a domain.",
    )
    protocol_read_at: str | None = time(
        "When the service last said over the protocol which types it has. ``null``: it never did."
    )
