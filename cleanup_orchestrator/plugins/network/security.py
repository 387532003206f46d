"""Neutron: security groups, address groups and QoS policies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    REFUSED,
    LastChange,
    OneByOne,
    Parts,
    ProjectDefinition,
    Refused,
    Resource,
    Rest,
    Row,
    Use,
    Verdict,
    exceptions,
    foreign_users,
    linked,
    protection_remedy,
    refuse,
    refuse_foreign,
    refused_in_use,
    to_row,
    verdict_naming,
)
from cleanup_orchestrator.plugins.network.common import (
    DEFAULT_GROUP,
    explain_by,
    extension,
    group_type,
    list_rows,
    shared,
    simple_type,
)
from cleanup_orchestrator.plugins.neutron import (
    extension_aliases,
    owner_of,
    row_blocker,
    rows_with,
    without_ports_that_go,
)

if TYPE_CHECKING:
    from openstack.connection import Connection


def check_security_group(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a group that rules of others name: they would be deleted.

    The database deletes those rules (remote_group_id, CASCADE).
    """
    if project.options.get("drop_foreign_rules"):
        return
    rules = list_rows(connection, "security_group_rules", remote_group_id=resource.id)
    blockers = [row_blocker("security_group_rule", r) for r in rules if r.get("remote_group_id") == resource.id]
    refuse_foreign(project, "deleting it would delete", blockers)


def explain_security_group(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the ports, of any project, that use a group."""
    using = _ports_using(connection, resource)
    return verdict_naming(project, "it is used by", [row_blocker("port", p) for p in using])


def foresee_security_group(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the ports of others that use a group."""
    using = without_ports_that_go(connection, project, _ports_using(connection, resource))
    return verdict_naming(project, "it is used by", [row_blocker("port", p) for p in using])


def _ports_using(connection: Connection, group: Resource) -> list[Row]:
    ports = list_rows(connection, "ports", security_group_ids=group.id)
    return [p for p in ports if group.id in (p.get("security_group_ids") or p.get("security_groups") or ())]


def drop_own_rules(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Delete the project's rules that name an address group.

    Its default security group, which may have such rules, is deleted later. A port that is left may use that group, and
    would be cut off: then nothing is changed.

    :raises Refused: naming the ports
    """
    rows = list_rows(connection, "security_group_rules", remote_address_group_id=resource.id)
    rules = [r for r in rows if r.get("remote_address_group_id") == resource.id and owner_of(r) == project.id]
    for group in sorted({str(rule["security_group_id"]) for rule in rules}):
        refuse(explain_security_group(connection, project, Resource(group, "", project.id)))
    for rule in rules:
        connection.network.delete_security_group_rule(rule["id"], ignore_missing=False)


_BOUND = re.compile(r"is used by (network|port|router|fip) ([0-9a-f-]{32,36})")
_READ_BOUND = {
    "network": ("network", "get_network"),
    "port": ("port", "get_port"),
    "router": ("router", "get_router"),
    "fip": ("floating_ip", "get_ip"),
}


def delete_qos_policy(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Delete a QoS policy; name what it is bound to if Neutron refuses.

    Only Neutron's refusal shows this, for one resource at a time: no list can be filtered by policy (400 where
    filter-validation is on), and the list of every port of the cloud is too long.

    :raises Refused: naming it
    """
    try:
        connection.network.delete_qos_policy(resource.id, ignore_missing=False)
    except exceptions.ConflictException as error:
        if not (match := _BOUND.search(str(error))):
            raise
        type_, method = _READ_BOUND[match[1]]
        bound = to_row(getattr(connection.network, method)(match[2]))
        verdict = verdict_naming(project, "it is used by", [row_blocker(type_, bound)])
        if verdict is None:
            raise
        raise Refused(verdict) from error


def _in_template(attribute: str) -> Use:
    """Return the use of a group by the cloud's template for default security groups, whose rules have no owner.

    :param attribute: of a rule of the template, with the id of the group
    """

    def find(connection: Connection, project: ProjectDefinition, resources: Sequence[Resource]) -> dict[str, Verdict]:
        if "security-groups-default-rules" not in extension_aliases(connection):
            return {}
        rules = rows_with(connection, project, _TEMPLATE, attribute, (resource.id for resource in resources))
        named = ((str(rule[attribute]), row_blocker("default_security_group_rule", rule)) for rule in rules)
        return foreign_users(project, "it is named by", named)

    return Use(("network.default_security_group_rule",), "takes the rule out of the template of the cloud", find)


_TEMPLATE = "/default-security-group-rules"
_rules_naming = explain_by("security_group_rule", "security_group_rules", "remote_address_group_id")
_NAMED_BY = (
    Use(
        ("network.security_group_rule",),
        "deletes the rule",
        OneByOne(check_security_group),
        option="drop_foreign_rules",
    ),
    _in_template("remote_group_id"),
    Use(("network.port",), REFUSED, foresee=OneByOne(foresee_security_group)),
)
_QOS_USERS = ("port", "router_port", "network", "floating_ip", "router")

SECURITY = (
    group_type(
        "security_group",
        "security_groups",
        (DEFAULT_GROUP,),
        if_abandoned="It stays in the database of the network service. It costs nothing else.",
        defaults=False,
        available=extension("security-group"),
        protect=(shared,),
        explain=explain_security_group,
        used_by=_NAMED_BY,
        after=("port",),
        needed_by=(("port", refused_in_use),),
        note="A list that filters by project_id creates that project's default group. With several project ids "
        "it creates that of the first one. So the orchestrator's own project comes first. Rules in groups "
        "of others that name it would be deleted with it. If there are any, the delete is refused, unless "
        "drop_foreign_rules is set.",
        tags="tags",
        created="created_at",
        updated=LastChange("updated_at"),
        parts=(Parts("rule", "security_group_rules", created="created_at", updated=LastChange("updated_at")),),
        source="/v2.0/security-groups; neutron db/securitygroups_db.py, get_security_groups",
    ),
    simple_type(
        "address_group",
        "address_groups",
        available=extension("address-group"),
        protect=(shared,),
        prepare=(drop_own_rules,),
        explain=_rules_naming,
        used_by=(
            Use(("network.security_group_rule",), REFUSED, foresee=OneByOne(_rules_naming)),
            _in_template("remote_address_group_id"),
        ),
        after=("security_group",),
        needed_by=(("security_group", linked(Rest("network", "/security-groups/{id}"))),),
        note="A rule in the project's default security group, which is deleted last, may use it. Such rules are "
        "deleted before, unless a port that is left uses that group.",
        created="created_at",
        updated=LastChange("updated_at"),
        parts=(Parts("address", "addresses", changed="updated_at"),),
        source="DELETE /v2.0/address-groups/A: 409 AddressGroupInUse; neutron db/address_group_db.py",
    ),
    simple_type(
        "qos_policy",
        "qos_policies",
        available=extension("qos"),
        protect=(shared,),
        remedies=protection_remedy("ends the sharing: 'openstack network qos policy set --no-share {id}'"),
        used_by=(Use(tuple(f"network.{name}" for name in _QOS_USERS), REFUSED),),
        delete=delete_qos_policy,
        after=_QOS_USERS,
        needed_by=tuple((name, refused_in_use) for name in _QOS_USERS),
        tags="tags",
        created="created_at",
        updated=LastChange("updated_at"),
        parts=(Parts("rule", "rules", changed="updated_at"),),
        source="DELETE /v2.0/qos/policies/Q: 409 QosPolicyInUse; neutron objects/qos/policy.py",
    ),
)

DEFAULTS = (
    group_type(
        "default_security_group",
        "security_groups",
        (DEFAULT_GROUP,),
        defaults=True,
        available=extension("security-group"),
        explain=explain_security_group,
        used_by=_NAMED_BY,
        project_setting=True,
        note="Neutron creates it with the project's first port, network or filtered list. An admin may delete it.",
        tags="tags",
        source="DELETE /v2.0/security-groups/S; neutron db/securitygroups_db.py, delete_security_group",
    ),
)
