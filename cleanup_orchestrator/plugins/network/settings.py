"""Neutron: RBAC policies, metering labels, logs, and project settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    Composition,
    LastChange,
    OneByOne,
    ProjectDefinition,
    Reason,
    Resource,
    ResourceType,
    Sdk,
    Use,
    Verdict,
    blocker,
    verdict_naming,
)
from cleanup_orchestrator.plugins.network.common import extension, rest_list, rest_type, shared, simple_type
from cleanup_orchestrator.plugins.neutron import row_blocker

if TYPE_CHECKING:
    from openstack.connection import Connection


def shared_with_all(resource: Resource, project: ProjectDefinition) -> str | None:
    """Protect a grant to all projects.

    Without it the object would not look shared, and would lose its protection.
    """
    if resource.data.get("target_project_id") == "*" and not project.options.get("delete_shared"):
        return f"it shares {resource.data.get('object_type')} {resource.data.get('object_id')} with all projects"
    return None


def granted_by_others(resource: Resource, project: ProjectDefinition) -> str | None:
    """Keep a grant of others: it has no effect once the project is gone."""
    return "it belongs to another project, which shares an object with this one"


def explain_rbac_policy(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the project that uses the granted object.

    Neutron does not show which resource uses it.
    """
    target = str(resource.data.get("target_project_id") or "")
    if target in ("", project.id):
        return None
    kind, object_id = resource.data.get("object_type"), resource.data.get("object_id")
    return Verdict(
        Reason.FOREIGN,
        f"another project uses {kind} {object_id}, which it grants",
        (blocker(f"network.{kind}", object_id, "" if target == "*" else target),),
    )


#: The collection of each type of object that a grant can share.
_SHARED_TYPES = {
    "network": "networks",
    "subnet_pool": "subnet_pools",
    "address_scope": "address_scopes",
    "security_group": "security_groups",
    "address_group": "address_groups",
    "qos_policy": "qos_policies",
    "bgpvpn": "bgpvpns",
}


def _object_of_others(connection: Connection, project: ProjectDefinition, grant: Resource) -> Verdict | None:
    """Name the object of a grant if it belongs to another project: an admin created the grant."""
    kind = str(grant.data.get("object_type")).replace("subnetpool", "subnet_pool")
    if kind not in _SHARED_TYPES:
        return None
    rows = rest_list(_SHARED_TYPES[kind], id=grant.data.get("object_id")).rows(connection, project)
    objects = [row_blocker(kind, row) for row in rows if row["id"] == grant.data.get("object_id")]
    return verdict_naming(project, "it shares", [one for one in objects if one["owner"] != project.id])


SHARING = (
    simple_type(
        "rbac_policy",
        "rbac_policies",
        available=extension("rbac-policies"),
        title="object_id",
        protect=(shared_with_all,),
        explain=explain_rbac_policy,
        used_by=(
            Use(
                tuple(f"network.{name}" for name in _SHARED_TYPES),
                "ends the sharing of the object",
                OneByOne(_object_of_others),
            ),
        ),
        after=tuple(_SHARED_TYPES),
        composition=Composition(part_of=tuple((name, "object_id") for name in _SHARED_TYPES)),
        note="It is deleted with the object that it grants. Only what is left then is deleted, and never before: "
        "without the grant a shared network would not look shared, and would lose its protection.",
        source="/v2.0/rbac-policies, never paged; neutron db/rbac_db_mixin.py",
    ),
    ResourceType(
        name="rbac_grant",
        used_by=(),
        title="object_id",
        owner="target_project_id",
        list=Sdk("network", "rbac_policies", target_project_id="{project_id}"),
        all_projects="it belongs to the project that shares an object with this one",
        delete=None,
        why_no_show="never deleted: it is another project's",
        keep=(granted_by_others,),
        available=extension("rbac-policies"),
        note="What others share with the project. The delete would remove a resource of another project, so it "
        "counts as kept.",
        source="GET /v2.0/rbac-policies?target_tenant=X; neutron db/rbac_db_mixin.py",
    ),
)

METERS = (
    simple_type(
        "metering_label",
        "metering_labels",
        used_by=(),
        available=extension("metering"),
        protect=(shared,),
        note="Its rules are deleted with it. A shared label measures the traffic of all projects.",
        source="/v2.0/metering/metering-labels; neutron db/metering/metering_db.py",
    ),
    rest_type(
        "log",
        "log/logs",
        used_by=(),
        available=extension("logging"),
        created="created_at",
        updated=LastChange("updated_at"),
        parts=(),
        source="/v2.0/log/logs; neutron services/logapi/logging_plugin.py",
    ),
)

SETTINGS = (
    rest_type(  # openstacksdk 4.10 has no calls for it, and 4.14 reads another key of the answer for one row
        "security_groups_default_statefulness",
        "security-groups-default-statefulness",
        used_by=(),
        available=extension("security-groups-default-statefulness"),
        title="id",
        project_setting=True,
        note="A setting. The row without a project is that of the whole cloud and is never listed here.",
        source="/v2.0/security-groups-default-statefulness; neutron conf/policies of the same name",
    ),
    simple_type(
        "network_segment_range",
        "network_segment_ranges",
        used_by=(),
        available=extension("network-segment-range"),
        protect=(shared,),
        project_setting=True,
        note="Only an admin can create or remove it, so it is not a leftover of a user. Neutron answers 409 "
        "while a network of the project uses it.",
        source="/v2.0/network_segment_ranges; neutron services/network_segment_range/plugin.py",
    ),
)

QUOTA = (
    ResourceType(
        name="quota",
        list=Sdk("network", "quotas"),
        all_projects=rest_list("quotas"),
        unfiltered="Neutron lists the projects that have a quota row; reading one by id answers the defaults instead",
        id="project_id",
        used_by=(),
        title="project_id",
        delete=Sdk("network", "delete_quota", "{project_id}", ignore_missing=False),
        why_no_show="it is addressed by the project's id",
        available=extension("quotas"),
        project_setting=True,
        note="404 TenantQuotaNotFound means that there is no row, which counts as gone.",
        source="/v2.0/quotas; neutron extensions/quotasv2.py",
    ),
)
