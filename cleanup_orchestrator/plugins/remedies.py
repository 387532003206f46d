"""What a person does about a resource whose state keeps it from its delete, for ``ResourceType.remedies``."""

from __future__ import annotations

from collections.abc import Mapping

from cleanup_orchestrator.core.reasons import Reason


def state_remedies(see: str, call: str, who: str = "an admin") -> Mapping[Reason, str]:
    """Return the remedies of a type whose resources may be left in a state that only a person changes.

    :param see: how a person finds the cause, to begin a sentence: ``openstack volume service list shows ...``
    :param call: what clears the state, to be copied; a template for :func:`fill` with the resource
    :param who: who may do that
    """
    after = "It is deleted automatically then"
    return {
        Reason.ERROR: f"{see}. Remove the cause: it is tried again automatically. If that does not help, {who} can "
        f"clear its state: {call}",
        Reason.STUCK: f"{see}. If nothing works on it any more, {who} clears its state: {call}. {after}. The way past "
        "it is force, which an admin requests",
        Reason.REFUSED: f"read the message of the service. If a stale state is the cause, {who} clears it: {call}. "
        f"{after}",
        Reason.IN_USE: f"see what blocks it: it is tried again automatically. If only its state is stale, {who} clears "
        f"it: {call}. {after}",
    }
