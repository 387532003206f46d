"""Deletes one resource, and says why its service refuses that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from cleanup_orchestrator.core.reasons import UNKNOWN_TO_SERVICE, Reason
from cleanup_orchestrator.errors import Failure, Stopped, WriteRefused, classify
from cleanup_orchestrator.plugins.base import Action, Refused, Resource, Verdict
from cleanup_orchestrator.worker.sweep.calls import act, show
from cleanup_orchestrator.worker.sweep.context import SweepContext
from cleanup_orchestrator.worker.sweep.exclusions import Exclusions, changed

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Returns a connection with the janitor's token for the project; raises ``NoJanitor`` when there is none.
Janitor: TypeAlias = "Callable[[], Connection]"


class Missing(Verdict):
    """Verdict on a resource that its service does not know when its delete is made.

    It is a leftover's only if the second listing has the resource: a 404 does not prove that it is gone.
    """


def delete_one(
    context: SweepContext, exclusions: Exclusions, resource: Resource, forced: bool, janitor: Janitor
) -> Verdict | None:
    """Delete one resource; return why not.

    :returns: ``None``: the delete was accepted; a :class:`Missing`: its service does not know it
    :raises Stopped: the guard withholds the write
    :raises WriteRefused: the guard refuses the write
    """
    type_, connection, project = context.type, context.connection, context.project
    called: Action | None = type_.show
    last = type_.force if forced and type_.force is not None else type_.delete
    prepare = () if last is type_.force else type_.prepare
    assert last is not None
    current = resource
    try:
        if type_.show is not None:
            current = show(type_, connection, project, resource)
            if current.id != resource.id or current.owner != project.id:
                owner = "another project" if current.owner else "no project"
                return Verdict(Reason.OWNER_UNKNOWN, f"it belonged to {owner} right before its delete: not deleted")
            # It may have been shared, marked, or taken into use by its service, since it was listed.
            if why := exclusions.protected(current):
                return Verdict(Reason.PROTECTED, why)
        called = None
        if verdict := changed(context, resource.data, current):
            return verdict
        deleting = connection
        if type_.acts_on and not project.gone and (type_.acts_on_if is None or type_.acts_on_if(current)):
            called = None
            deleting = janitor()  # before anything is changed: without it, this resource cannot be deleted
        for action in prepare:
            called = action
            act(action, connection, project, resource)
        called = last
        try:
            act(last, deleting, project, resource)
        except (Stopped, WriteRefused, Refused):
            raise
        except Exception as error:
            if type_.unblock is None or not type_.unblock(connection, deleting, project, resource, error):
                raise
            act(last, deleting, project, resource)
    except (Stopped, WriteRefused):
        raise
    except Refused as refused:
        return refused.verdict
    except Exception as error:
        failure = classify(error)
        if called is None:
            return Verdict(failure.reason, failure.message)
        # A 404 of a preparing call says nothing about the resource. Otherwise the second listing decides.
        if failure.status in (404, 410) and called in (type_.show, last):
            what = "be shown" if called is type_.show else "be deleted"
            text = f"its service lists it, but answers {failure.status} when it is to {what}: {failure.message}"
            return Missing(Reason.REFUSED, text, remedy=UNKNOWN_TO_SERVICE)
        return _explain(context, resource, failure)
    return None


def _explain(context: SweepContext, resource: Resource, failure: Failure) -> Verdict:
    """Return why a delete was refused, with the blocking resources if known."""
    explain = context.type.explain
    if explain is not None:
        try:
            verdict = explain(context.connection, context.project, resource)
        except (Stopped, WriteRefused):
            raise
        except Exception as error:
            message = f"{failure.message} (the cause could not be read: {classify(error).message})"
            return Verdict(failure.reason, message)
        if verdict is not None:
            return verdict
    return Verdict(failure.reason, failure.message)
