"""Neutron: firewall groups, policies, rules and defaults (neutron-fwaas)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    REFUSED,
    BadAnswer,
    Composition,
    LastChange,
    OneByOne,
    ProjectDefinition,
    Resource,
    Use,
    refuse_foreign,
    refused_in_use,
    state_remedies,
    to_row,
)
from cleanup_orchestrator.plugins.network.common import (
    DEFAULT_GROUP,
    explain_by_rows,
    extension,
    group_type,
    shared,
)
from cleanup_orchestrator.plugins.neutron import owner_of, row_blocker, rows_with

if TYPE_CHECKING:
    from openstack.connection import Connection

DEFAULT_FIREWALL_POLICIES = ("default ingress", "default egress")
DEFAULT_FIREWALL_RULES = tuple(f"{policy} {ip}" for policy in DEFAULT_FIREWALL_POLICIES for ip in ("ipv4", "ipv6"))


def check_firewall_group(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a group that is on ports of others: they would lose its rules.

    The owner of a network may put a group on any port there.
    """
    group = to_row(connection.network.get_firewall_group(resource.id))
    if not owner_of(group):  # openstacksdk makes an empty group of an answer that is no JSON
        raise BadAnswer(f"Neutron did not show firewall group {resource.id} when it was asked for it")
    ports = rows_with(connection, project, "/ports", "id", group.get("ports") or ())
    blockers = [row_blocker("port", row) for row in ports]
    refuse_foreign(project, "it is used by", blockers)


def release_firewall_ports(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Remove a firewall group from its ports: one in use cannot be deleted."""
    if resource.data.get("ports"):
        connection.network.update_firewall_group(resource.id, ports=[])


_GROUPS_OF_POLICY = explain_by_rows(
    "firewall_group", "firewall_groups", "ingress_firewall_policy_id", "egress_firewall_policy_id"
)
_POLICIES_OF_RULE = explain_by_rows("firewall_policy", "firewall_policies", "firewall_rules")
_ON_PORTS = (Use(("network.port",), "removes the rules from the port", OneByOne(check_firewall_group)),)
#: While no agent answers, a group on ports stays in a pending state, in which Neutron refuses to take it off them.
_PENDING = state_remedies(
    "openstack network agent list shows whether the agents run that apply it to its ports",
    "UPDATE firewall_groups_v2 SET status = 'INACTIVE' WHERE id = '{id}', in Neutron's database (no call does it)",
    "an operator",
)

FIREWALL = (
    group_type(
        "firewall_group",
        "firewall_groups",
        (DEFAULT_GROUP,),
        defaults=False,
        available=extension("fwaas_v2"),
        protect=(shared,),
        prepare=(release_firewall_ports,),
        remedies=_PENDING,
        used_by=_ON_PORTS,
        note="Every list that filters by project_id creates that project's default group, policies and rules. With "
        "several project ids it creates those of the first one. So the orchestrator's own project comes first. "
        "A list without a filter creates those of the caller's project. So the first inventory or dry run in a cloud "
        "may create them in the orchestrator's own project: Neutron has no list that creates nothing.",
        created="created_at",
        updated=LastChange("updated_at"),
        parts=(),
        source="DELETE /v2.0/fwaas/firewall_groups/G: 409 FirewallGroupInUse; neutron_fwaas db/firewall/v2",
    ),
    group_type(
        "firewall_policy",
        "firewall_policies",
        DEFAULT_FIREWALL_POLICIES,
        defaults=False,
        used_by=(Use(("network.firewall_group",), REFUSED, foresee=OneByOne(_GROUPS_OF_POLICY)),),
        available=extension("fwaas_v2"),
        protect=(shared,),
        explain=_GROUPS_OF_POLICY,
        after=("firewall_group",),
        needed_by=(("firewall_group", refused_in_use),),
        created="created_at",
        updated=LastChange("updated_at"),
        parts=(),
        source="DELETE /v2.0/fwaas/firewall_policies/P: 409 FirewallPolicyInUse; neutron_fwaas db/firewall/v2",
    ),
    group_type(
        "firewall_rule",
        "firewall_rules",
        DEFAULT_FIREWALL_RULES,
        defaults=False,
        used_by=(Use(("network.firewall_policy",), REFUSED, foresee=OneByOne(_POLICIES_OF_RULE)),),
        available=extension("fwaas_v2"),
        protect=(shared,),
        explain=_POLICIES_OF_RULE,
        after=("firewall_policy",),
        needed_by=(("firewall_policy", refused_in_use),),
        created="created_at",
        updated=LastChange("updated_at"),
        parts=(),
        source="DELETE /v2.0/fwaas/firewall_rules/R: 409 FirewallRuleInUse; neutron_fwaas db/firewall/v2",
    ),
    group_type(
        "default_firewall_group",
        "firewall_groups",
        (DEFAULT_GROUP,),
        defaults=True,
        available=extension("fwaas_v2"),
        prepare=(release_firewall_ports,),
        remedies=_PENDING,
        used_by=_ON_PORTS,
        project_setting=True,
        note="Only an admin may delete it. Its two policies are deleted with it, but not their four rules.",
        source="neutron_fwaas db/firewall/v2/firewall_db_v2.py, delete_firewall_group",
    ),
    group_type(
        "default_firewall_policy",
        "firewall_policies",
        DEFAULT_FIREWALL_POLICIES,
        defaults=True,
        used_by=(),
        available=extension("fwaas_v2"),
        composition=Composition(deleted_with=("default_firewall_group",)),
        after=("default_firewall_group",),
        project_setting=True,
        source="neutron_fwaas db/firewall/v2/firewall_db_v2.py, delete_firewall_group",
    ),
    group_type(
        "default_firewall_rule",
        "firewall_rules",
        DEFAULT_FIREWALL_RULES,
        defaults=True,
        used_by=(),
        available=extension("fwaas_v2"),
        after=("default_firewall_policy",),
        project_setting=True,
        note="It is recognised by its name alone. A user's rule of that name is deleted as well, only later.",
        source="neutron_fwaas db/firewall/v2/firewall_db_v2.py, _create_default_firewall_rules",
    ),
)
