"""Asks services that speak the project resources protocol to refuse new resources of a project, and ends that.

This is an addition to the lock on the project, which does not depend on it.
"""

from __future__ import annotations

from keystoneauth1.session import Session

from cleanup_orchestrator.protocol import calls
from cleanup_orchestrator.protocol.documents import ProblemType
from cleanup_orchestrator.store import ProtocolService


def drain(session: Session, service: ProtocolService, project_id: str, timeout: float) -> None:
    """Have a service refuse new resources of a project. Idempotent.

    :param timeout: seconds
    :raises Exception: the service did not confirm it
    """
    calls.expect(_request(session, "PUT", service, project_id, timeout), "the drain of the project", 204)


def release(session: Session, service: ProtocolService, project_id: str, timeout: float) -> str:
    """Have a service accept new resources of a project again, and return a sentence. Idempotent.

    :param timeout: seconds
    :raises Exception: the service did not confirm it
    """
    try:
        calls.expect(_request(session, "DELETE", service, project_id, timeout), "the end of the drain", 204)
    except calls.Refusal as refusal:
        if refusal.problem is not ProblemType.NOT_SUPPORTED:
            raise
        return f"{name(service)} no longer drains projects"
    return f"{name(service)} accepts new resources of the project again"


def name(service: ProtocolService) -> str:
    """Return the name of a service in messages."""
    return f"{service.service_type}@{service.region}"


def _request(session: Session, method: str, service: ProtocolService, project_id: str, timeout: float) -> object:
    url = f"{service.url}/drains/{calls.segment(project_id)}"
    return calls.request(session, method, url, service.service_type, service.region, timeout=timeout, once=True)
