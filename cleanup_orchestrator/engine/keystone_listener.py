"""Records projects that Keystone says are deleted.

A notification is a hint: Keystone itself is asked before a deletion is recorded. Nothing is written to the resources of
such a deletion (``Origin.NOTICED``): its report says what the project left behind.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator.cloud.connections import Clouds
from cleanup_orchestrator.cloud.projects import ProjectNotFound, Projects, is_id
from cleanup_orchestrator.core.deletion import Deletion, Mode, Origin, Status, accepted
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.messaging.rpc import Bus
from cleanup_orchestrator.store import AlreadyUnderWay, Page, Store

LOG = log.getLogger(__name__)

GROUP = "keystone_notifications"
OPTS = {
    GROUP: [
        cfg.BoolOpt(
            "listen",
            default=False,
            help="Whether engines listen for Keystone's notifications. If true, a project that is deleted without the "
            "orchestrator is recorded, and the resources that it left are reported. The bus is that of "
            "[oslo_messaging_notifications] transport_url, by default the same as for everything else.",
        ),
        cfg.StrOpt(
            "topic",
            default="cleanup_orchestrator",
            help="A topic in [oslo_messaging_notifications] topics of keystone.conf that no other service reads. If "
            "two services read one topic, each gets only some of the messages.",
        ),
        cfg.StrOpt("exchange", default="keystone", help="Keystone's control_exchange."),
    ]
}

#: Seconds before a notification that could not be handled is delivered again.
_PAUSE = 2.0


class Listener:
    """Receives ``identity.project.deleted``, in Keystone's basic format or in CADF's."""

    filter_rule = oslo_messaging.NotificationFilter(event_type=r"^identity\.project\.deleted$")

    def __init__(self, store: Store, clouds: Clouds, bus: Bus) -> None:
        self._store, self._clouds, self._bus = store, clouds, bus

    def info(
        self, context: Any, publisher_id: str, event_type: str, payload: Mapping[str, Any], metadata: Any
    ) -> str | None:
        """Handle one notification; requeue it if it cannot be handled now."""
        project_id, user_id = _read(payload)
        if not is_id(project_id):
            LOG.warning("%s from %s names no project: dropped", event_type, publisher_id)
            return None
        try:
            with our_log.context(project_id=project_id):
                self.deleted(project_id, user_id)
        except Exception as error:
            LOG.warning("project %s was deleted; noted later: %s: %s", project_id, type(error).__name__, error)
            time.sleep(_PAUSE)
            return str(oslo_messaging.NotificationResult.REQUEUE)
        return None

    def deleted(self, project_id: str, user_id: str) -> Deletion | None:
        """Record a project that Keystone says is deleted; return the record.

        ``None``: no record was needed.

        :raises Exception: the store or Keystone does not answer
        """
        if live := self._store.live(project_id):
            self._bus.deletion(live.id)
            return None
        before = self._store.list(Page(1), project_id=project_id)
        latest = before[0] if before else None
        if latest and (latest.status is Status.DELETED or latest.origin is Origin.NOTICED):
            return None  # deleted by the orchestrator, or recorded before
        if self._known(project_id):
            LOG.warning("Keystone said that project %s was deleted, and still knows it", project_id)
            return None
        record = accepted(
            id=str(uuid.uuid4()),
            project_id=project_id,
            project_name=latest.project_name if latest else "",
            domain_id=latest.domain_id if latest else "",
            mode=Mode.REPORT,
            dry_run=False,
            user_id=user_id,
            origin=Origin.NOTICED,
            member_ids=latest.member_ids if latest else (),
        )
        text = "Keystone says that a user deleted the project without the orchestrator"
        event = Event(EventType.DELETION_NOTICED, text, actor=user_id, data={"earlier": latest.id if latest else ""})
        try:
            self._store.create(record, TASKS, event)
        except AlreadyUnderWay as other:  # two notifications at the same moment
            self._bus.deletion(other.existing.id)
            return None
        LOG.info("%s: %s", event.type, event.message)
        self._bus.deletion(record.id)
        return record

    def _known(self, project_id: str) -> bool:
        try:
            Projects(self._clouds.identity(self._clouds.admin_session())).get(project_id)
        except ProjectNotFound:
            return False
        return True


def _read(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return the ids of the deleted project and of the user; empty: no valid id."""
    initiator, target = (payload.get(name) for name in ("initiator", "target"))
    initiator, target = (each if isinstance(each, Mapping) else {} for each in (initiator, target))
    project_id = str(payload.get("resource_info") or target.get("id") or "")
    user_id = str(initiator.get("user_id") or initiator.get("id") or "")
    return project_id if is_id(project_id) else "", user_id if is_id(user_id) else ""
