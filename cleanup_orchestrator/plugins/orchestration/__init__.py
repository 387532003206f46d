"""Heat: stacks, software configs and deployments, and what Heat made in Keystone for a project's stacks.

While a stack lives, what it made is Heat's: it goes with the stack, and a plugin that deleted a part of it would make
the stack's own delete fail, or the part come back. So other services wait for ``orchestration.stack``
(``Service.after``). What survives its stack (``deletion_policy: retain``, the snapshots that ``snapshot`` makes at the
very end, what hung on an abandoned stack) is swept as if there had never been one.

A stack whose delete has failed recreates nothing. Mostly it waits for something that is not its own: a server that
somebody put on its network, an object in its container. To wait for it would be to wait for ever, so it becomes
``failed_stack``, which nobody waits for: its delete is asked for again and again while the others go on.

What has no type of its own: nested stacks, resources, events, snapshots of stacks and backup stacks go with their
stack; rows of deleted stacks are history (``heat-manage purge_deleted``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    Rest,
    Service,
)
from cleanup_orchestrator.plugins.orchestration.configs import (
    SOFTWARE_CONFIG,
    SOFTWARE_DEPLOYMENT,
)
from cleanup_orchestrator.plugins.orchestration.stacks import (
    FAILED_STACK,
    NESTED_STACK,
    STACK,
)
from cleanup_orchestrator.plugins.orchestration.users import (
    STACK_USER_PROJECT,
)

if TYPE_CHECKING:
    pass

OPTIONS = (
    cfg.StrOpt(
        "stack_user_domain",
        default="",
        help="Name of the Keystone domain in which Heat makes a project for each stack that has users: "
        "stack_user_domain_name of heat.conf. With it, those of the project that Heat left behind (stacks that were "
        "abandoned, or whose rows are gone) are deleted at the very end, with their users. Empty: they are left.",
    ),
    cfg.BoolOpt(
        "abandon_forbidden_stacks",
        default=False,
        help="Abandon a stack with something in it that a member of its project may not delete; this needs "
        "enable_stack_abandon in heat.conf. Any user of the project can make such a stack, and so hold up its "
        "deletion. What an abandoned stack made in the project is deleted as if there had never been a stack. What it "
        "made elsewhere stays: a flavor or a role, which takes an admin's template. Off: the stack is reported, and "
        "blocks.",
    ),
)

SERVICE = Service(
    service_type="orchestration",
    contract_version=1,
    options=OPTIONS,
    # Heat shows its engines to admins alone; anybody else's lists are of his own project.
    proof=Rest("orchestration", "/services"),
    roles="admin on the project under deletion (Heat shows the owner of a stack to admins alone); admin for software "
    "configs and for what Heat made in Keystone",
    types=(
        STACK,
        FAILED_STACK,
        NESTED_STACK,
        SOFTWARE_DEPLOYMENT,
        SOFTWARE_CONFIG,
        STACK_USER_PROJECT,
    ),
)
