"""The public contract of plugins: all that a plugin imports.

A plugin is one :class:`Service` value behind an entry point of the group ``cleanup_orchestrator.services``. The entry
point's name is the official service type (``network``). The plugin says how to list and how to delete what a project
owns. The orchestrator decides *when* that happens, in which order, how often, and whether it may happen at all. So a
plugin never loops until a resource is gone, never sleeps, and never catches an error to continue: it declares, and it
raises.

A plugin is handed a :class:`ProjectDefinition` and an ``openstack.connection.Connection``. The connection's session
counts every call. It refuses every write during an inventory, after a cancel, and after the worker's lease has ended.
A hook makes no call by any other way.

What the plugins of several services ask Nova, Neutron, Glance and Designate is in the modules ``nova``, ``neutron``,
``port_uses``, ``glance`` and ``external_dns``.

A listing that fails must raise. An empty iterator means that the service was asked, for this project, and has nothing.
"""

import sys
from typing import TYPE_CHECKING

from cleanup_orchestrator.core.dependencies import EVERYTHING
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import LITERAL_PATH, Token
from cleanup_orchestrator.errors import BadAnswer, ProjectGone, UnreadableName, classify, keystone_says_not_found
from cleanup_orchestrator.keystone.protocol import DELEGATIONS_PATH, FENCE_OPTION, FINAL_HEADER
from cleanup_orchestrator.plugins import exceptions, external_dns, glance, neutron, nova, old_names, port_uses
from cleanup_orchestrator.plugins.calls import BODY, Collection, Paging, Rest, Sdk, in_catalog, knows_microversion
from cleanup_orchestrator.plugins.contract import (
    CONTRACT_VERSION,
    GIB,
    REFUSED,
    Action,
    Composition,
    Contains,
    Explain,
    Fallback,
    FindsUses,
    ForcedDelete,
    Halt,
    LastChange,
    Listing,
    NeededBy,
    Needs,
    Parts,
    RefersTo,
    ResourceType,
    Rule,
    Run,
    Service,
    Unblock,
    Use,
)
from cleanup_orchestrator.plugins.needs import linked, mentions, refused_in_use, show_leftover
from cleanup_orchestrator.plugins.parts import PORTS, VIP_PORTS
from cleanup_orchestrator.plugins.quotas import quota_limits, quota_type
from cleanup_orchestrator.plugins.remedies import failed_in, protection_remedy, state_remedies
from cleanup_orchestrator.plugins.values import (
    NIL_UUID,
    ROW,
    SCOPED,
    ProjectDefinition,
    Refused,
    Resource,
    Row,
    Verdict,
    fill,
    pick,
    to_row,
)
from cleanup_orchestrator.plugins.verdicts import (
    CONTROLLERS,
    MAX_BLOCKERS,
    Blocker,
    OneByOne,
    blocker,
    blocking_verdict,
    foreign_users,
    is_past,
    may_be_id,
    refuse,
    refuse_foreign,
    verdict_naming,
)

__all__ = [
    "BODY",
    "CONTRACT_VERSION",
    "CONTROLLERS",
    "DELEGATIONS_PATH",
    "EVERYTHING",
    "FENCE_OPTION",
    "FINAL_HEADER",
    "GIB",
    "LITERAL_PATH",
    "MAX_BLOCKERS",
    "NIL_UUID",
    "PORTS",
    "REFUSED",
    "ROW",
    "SCOPED",
    "VIP_PORTS",
    "Action",
    "BadAnswer",
    "Blocker",
    "Collection",
    "Composition",
    "Contains",
    "Explain",
    "Fallback",
    "FindsUses",
    "ForcedDelete",
    "Halt",
    "LastChange",
    "Listing",
    "NeededBy",
    "Needs",
    "OneByOne",
    "Paging",
    "Parts",
    "ProjectDefinition",
    "ProjectGone",
    "Reason",
    "RefersTo",
    "Refused",
    "Resource",
    "ResourceType",
    "Rest",
    "Row",
    "Rule",
    "Run",
    "Sdk",
    "Service",
    "Token",
    "Unblock",
    "UnreadableName",
    "Use",
    "Verdict",
    "blocker",
    "blocking_verdict",
    "classify",
    "exceptions",
    "external_dns",
    "failed_in",
    "fill",
    "foreign_users",
    "glance",
    "in_catalog",
    "is_past",
    "keystone_says_not_found",
    "knows_microversion",
    "linked",
    "may_be_id",
    "mentions",
    "neutron",
    "nova",
    "pick",
    "port_uses",
    "protection_remedy",
    "quota_limits",
    "quota_type",
    "refuse",
    "refuse_foreign",
    "refused_in_use",
    "show_leftover",
    "state_remedies",
    "to_row",
    "verdict_naming",
]

if not TYPE_CHECKING:  # for mypy a module with ``__getattr__`` has every name
    __getattr__ = old_names.constants(sys.modules[__name__], NOTHING="NIL_UUID")
