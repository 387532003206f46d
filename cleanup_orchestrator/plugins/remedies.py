"""What is said of a resource whose state keeps it from its delete, and what a person does about it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins.contract import Rule
from cleanup_orchestrator.plugins.values import ProjectDefinition, Resource


def failed_in(service: str, *states: str, attribute: str = "status") -> Rule:
    """Return a rule for ``ResourceType.failed``: a failed delete leaves one of these states, and no cause.

    :param service: its name, for people
    :param attribute: the row's attribute with the state
    """

    def failed(resource: Resource, _project: ProjectDefinition) -> str | None:
        state = resource.data.get(attribute)
        return f"its {attribute} is {state}, and {service} shows no cause" if state in states else None

    return failed


def state_remedies(see: str, call: str, who: str = "an admin") -> Mapping[Reason, str]:
    """Return ``ResourceType.remedies`` for resources that may be left in a state that only a person changes.

    :param see: how a person finds the cause, to begin a sentence: ``openstack volume service list shows ...``
    :param call: what clears the state, to be copied; a template for :func:`fill` with the resource
    :param who: who may do that
    """
    call = f"'{call}'" if re.fullmatch(r"openstack [^,;']+", call) else call
    after = "It is deleted automatically then"
    return {
        Reason.ERROR: f"{see}. Remove the cause: it is tried again automatically. If that does not help, {who} can "
        f"clear its state: {call}",
        Reason.STUCK: f"{see}. If nothing still works on it, {who} clears its state: {call}. {after}. The way past "
        "it is force, which an admin requests",
        Reason.REFUSED: f"read the message of the service. If a stale state is the cause, {who} clears it: {call}. "
        f"{after}",
        Reason.IN_USE: f"see what blocks it: it is tried again automatically. If only its state is stale, {who} clears "
        f"it: {call}. {after}",
    }


def protection_remedy(how: str) -> Mapping[Reason, str]:
    """Return ``ResourceType.remedies`` for resources that a rule in ``protect`` protects.

    :param how: what ends the protection, with the call in single quotes; a template for :func:`fill` with the resource
    """
    retry = "'openstack project deletion retry {{deletion}}' makes the deletion try at once"
    return {Reason.PROTECTED: f"its owner, or an admin, {how}; {retry}"}
