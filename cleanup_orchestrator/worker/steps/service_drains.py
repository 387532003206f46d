"""Has services that speak the project resources protocol refuse new resources of the project, and undoes that.

The lock on the project in Keystone is what a deletion relies on. So a service that does not do this stops no deletion.
"""

from __future__ import annotations

from oslo_log import log

from cleanup_orchestrator.core.journal import Change, EventType
from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import CleanupError, OnHold, Stopped, classify
from cleanup_orchestrator.protocol import drains
from cleanup_orchestrator.store import ProtocolService
from cleanup_orchestrator.worker.steps.context import StepContext

LOG = log.getLogger(__name__)


def drain_services(context: StepContext) -> str:
    """Drain the project in each of the deletion's services that can, and return a sentence; empty: none can.

    Each drain is recorded before it is requested. A failure is a line of the journal.

    :raises Stopped: nothing may be written
    """
    protocol = context.worker.protocol
    if protocol.off:
        return ""
    steps = context.store.steps(context.deletion.id)
    own = {(step.region, step.service) for step in steps if step.token is Token.SERVICE and not step.waived}
    done = []
    for service in protocol.drainable() if own else ():
        if (service.region, service.service_type) not in own:
            continue
        data = {"region": service.region, "service": service.service_type}
        context.record_intent(drain.SERVICE_DRAINED, data, "the lock of the project in a service")
        try:
            session = context.clouds.service_session(context.guard)
            drains.drain(session, service, context.deletion.project_id, _timeout(context))
        except Stopped:
            raise
        except Exception as error:
            text = f"{drains.name(service)} may still accept new resources of the project: {classify(error).message}"
            LOG.info("%s", text)
            context.note(EventType.DRAIN_SERVICE_FAILED, text, data)
        else:
            done.append(drains.name(service))
    return f"new resources are refused by {', '.join(done)}" if done else ""


def release_service(context: StepContext, change: Change) -> str:
    """Undo the drain of the project in one service, and return a sentence.

    If the service does not confirm it, a waiver for the service is the way out.

    :raises CleanupError: the service did not confirm it
    """
    region, type_ = change.data["region"], change.data["service"]
    try:
        service = _find(context, region, type_)
        session = context.clouds.service_session(context.guard)
        return drains.release(session, service, context.deletion.project_id, _timeout(context))
    except Stopped:
        raise
    except Exception as error:
        why = str(error) if isinstance(error, CleanupError) else classify(error).message
        text = f"{type_}@{region} may still refuse new resources of the project: {why}"
        for waiver in context.store.waivers_in_force(context.deletion.project_id):
            if waiver.covers(type_, region):
                return f"{text}; it is not asked again: {waiver}"
        raise CleanupError(text) from error


def forget_drain(context: StepContext, change: Change) -> str:
    """Undo the drain of a project that is gone, and return a sentence: the service need not remember it.

    A failure does no harm: Keystone never gives the id of the project again.

    :raises Stopped: the worker no longer holds the step
    """
    try:
        return release_service(context, change)
    except OnHold as error:
        return f"{drain.describe(change)}: its service remembers the project: {error}"
    except Stopped:
        raise
    except Exception as error:
        return f"{drain.describe(change)}: its service may remember the project: {classify(error).message}"


def _find(context: StepContext, region: str, type_: str) -> ProtocolService:
    rows, _now = context.store.protocol_services(region)
    service = next((row for row in rows if row.service_type == type_), None)
    if service is None:
        raise CleanupError(f"it is not on record where {type_} in {region} answers over the project resources protocol")
    return service


def _timeout(context: StepContext) -> float:
    return float(context.worker.conf.protocol.timeout)
