"""The project resources protocol: a service answers for itself what a project owns in it.

A service that speaks the protocol imports what it needs from here. The manual has the protocol
(``doc/source/protocol``).
"""

from cleanup_orchestrator.protocol.documents import PATH, ROLE, Capabilities, Page, Resource, ResourceType, State, User
from cleanup_orchestrator.protocol.provider import (
    Caller,
    InUse,
    NotFound,
    Outcome,
    Protected,
    Provider,
    Refusal,
    Unavailable,
    UnknownMarker,
)
from cleanup_orchestrator.protocol.wsgi import app, mounted

__all__ = [
    "PATH",
    "ROLE",
    "Caller",
    "Capabilities",
    "InUse",
    "NotFound",
    "Outcome",
    "Page",
    "Protected",
    "Provider",
    "Refusal",
    "Resource",
    "ResourceType",
    "State",
    "Unavailable",
    "UnknownMarker",
    "User",
    "app",
    "mounted",
]
