"""Heat: stacks, configs, deployments, and Heat's own projects in Keystone.

While a stack exists, Heat manages the resources that it created, and deletes them with the stack. If a plugin deleted
one of them before, the stack's delete would fail, or Heat would create the resource again. So other services wait for
``orchestration.stack`` (``Service.after``). Resources that survive their stack (``deletion_policy: retain``, snapshots
by ``deletion_policy: snapshot``, resources of an abandoned stack) are swept as if there had never been a stack.

A stack whose delete has failed recreates nothing. Mostly a resource that is not part of the stack blocks it: a server
on its network, an object in its container. A type that waited for the stack would wait forever. So the stack counts as
a ``failed_stack``, which no type waits for. Its delete is requested again in each sweep, while other types are swept.

No separate types: nested stacks, resources, events, snapshots of stacks and backup stacks are deleted with their stack.
Rows of deleted stacks are history (``heat-manage purge_deleted``).
"""

from __future__ import annotations

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import Rest, Service
from cleanup_orchestrator.plugins.orchestration.configs import SOFTWARE_CONFIG, SOFTWARE_DEPLOYMENT
from cleanup_orchestrator.plugins.orchestration.stacks import FAILED_STACK, NESTED_STACK, STACK
from cleanup_orchestrator.plugins.orchestration.users import STACK_USER_PROJECT

OPTIONS = (
    cfg.StrOpt(
        "stack_user_domain",
        default="",
        help="Name of the Keystone domain in which Heat makes a project for each stack that has users: "
        "stack_user_domain_name of heat.conf. Heat leaves such a project behind if the stack was abandoned or its rows "
        "are gone. If this option is set, the projects that were made for stacks of the deleted project are deleted "
        "at the end, with their users. Empty: they stay.",
    ),
    cfg.BoolOpt(
        "abandon_forbidden_stacks",
        default=False,
        help="Abandon a stack if it contains a resource that a member of its project may not delete, or if Heat "
        "answers each delete of it with 500, as Heat 25 of OpenStack 2025.2 does after the drain. This needs "
        "enable_stack_abandon in heat.conf. Any member of the project can make such a stack. The resources of an "
        "abandoned stack that are in the project are deleted like all others. Its other resources stay, for example a "
        "flavor or a role, which only the template of an admin can create. If false, the stack is reported, and blocks "
        "the deletion.",
    ),
)

SERVICE = Service(
    service_type="orchestration",
    contract_version=2,
    options=OPTIONS,
    # Heat shows its engines to admins only. The lists show other callers their own project.
    proof=Rest("orchestration", "/services"),
    roles="admin on the project to be deleted (Heat shows the owner of a stack to admins alone); admin for "
    "software configs and for what Heat made in Keystone",
    types=(
        STACK,
        FAILED_STACK,
        NESTED_STACK,
        SOFTWARE_DEPLOYMENT,
        SOFTWARE_CONFIG,
        STACK_USER_PROJECT,
    ),
)
