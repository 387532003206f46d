"""Records projects that Keystone says are deleted, and locks that Keystone says are changed.

A notification is a hint: Keystone itself is asked before a deletion is recorded. Nothing is written to the resources of
such a deletion (``Origin.NOTICED``): its report says what the project left behind. Any service on the bus could write
the user of a notification. So that user stands in the journal only, and is no requester, who could read the report.

Under the drivers ``revoke`` and ``none``, a role that is given and taken back, and a project that is enabled and
disabled again, leave no trace in Keystone but its notifications. Such a hint only voids a proof, so that a false one
costs time. A missing one proves nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator.cloud.connections import Clouds
from cleanup_orchestrator.cloud.projects import ProjectNotFound, Projects
from cleanup_orchestrator.core import lock
from cleanup_orchestrator.core.actions import Applied, apply
from cleanup_orchestrator.core.deletion import Deletion, Mode, Origin, Status, accepted
from cleanup_orchestrator.core.ids import is_id
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.step import TASKS, Step
from cleanup_orchestrator.core.transitions import LOCKED
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
            "orchestrator is recorded, and the resources that it left are reported. With [drain] driver = revoke or "
            "none, a change of the roles of a locked project by another user voids the proof that it is empty. The bus "
            "is that of [oslo_messaging_notifications] transport_url, by default the same as for everything else.",
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

#: Deletions that are read at once.
_PAGE = 1000

#: Seconds before a notification that could not be handled is delivered again.
_PAUSE = 2.0


_DELETED, _UPDATED = "identity.project.deleted", "identity.project.updated"


@dataclasses.dataclass(frozen=True, slots=True)
class Heard:
    """What a notification says."""

    project_id: str
    domain_id: str = ""  #: for a role on a domain, instead of a project
    user_id: str = ""  #: the user who made the change; empty: it is not named
    inherited: bool = False  #: a role on all projects below
    succeeded: bool = True


class Listener:
    """Receives notifications of projects and of role assignments, in Keystone's basic format or in CADF's."""

    filter_rule = oslo_messaging.NotificationFilter(
        event_type=r"^identity\.(project\.(deleted|updated)|role_assignment\.(created|deleted))\Z"
    )

    def __init__(self, store: Store, clouds: Clouds, bus: Bus) -> None:
        self._store, self._clouds, self._bus = store, clouds, bus

    def info(
        self, context: Any, publisher_id: str, event_type: str, payload: Mapping[str, Any], metadata: Any
    ) -> str | None:
        """Handle one notification; requeue it if it cannot be handled now."""
        heard = _read(payload)
        if not heard.project_id and not heard.domain_id:
            LOG.warning("%s from %s names no project: dropped", event_type, publisher_id)
            return None
        try:
            with our_log.context(project_id=heard.project_id):
                if event_type == _DELETED:
                    self.deleted(heard.project_id, heard.user_id)
                else:
                    self.changed(event_type, heard)
        except Exception as error:
            LOG.warning("%s is handled later: %s: %s", event_type, type(error).__name__, error)
            time.sleep(_PAUSE)
            return str(oslo_messaging.NotificationResult.REQUEUE)
        return None

    def changed(self, event_type: str, heard: Heard) -> None:
        """Void the proofs that rest on a lock which another user changed.

        :raises Exception: the store or Keystone does not answer
        """
        if not heard.succeeded:
            return
        # Keystone names the user of each update, but not if only a tag changed, and not at all in the basic format.
        if event_type == _UPDATED and not heard.user_id:
            return
        for deletion in self._reached(heard):
            if event_type == _UPDATED and deletion.closed_at is None:
                continue  # an enabled project was not enabled by this update
            self._void(deletion, event_type, heard)

    def _reached(self, heard: Heard) -> Iterator[Deletion]:
        """Yield the live deletions of the projects to which a change applies."""
        if heard.project_id and not heard.inherited:
            if live := self._store.live(heard.project_id):
                yield live
        elif heard.project_id:
            with contextlib.suppress(ProjectNotFound):
                for child in self._projects().children(heard.project_id):
                    if live := self._store.live(child):
                        yield live
        elif heard.inherited:
            marker: str | None = ""
            while marker is not None:
                deletions = self._store.list(Page(_PAGE, marker or None), domain_id=heard.domain_id, status=[*LOCKED])
                yield from deletions
                marker = deletions[-1].id if len(deletions) == _PAGE else None

    def _void(self, deletion: Deletion, event_type: str, heard: Heard) -> None:
        what = "the roles" if event_type != _UPDATED else "the disabled project"
        why = (
            f"user {heard.user_id or '(not named)'} changed {what} ({event_type}), so that a user may have had access: "
            "the project is locked and proven empty again"
        )

        def decision(read: Deletion, steps: tuple[Step, ...], now: datetime.datetime) -> Applied | None:
            actions = lock.void(read, steps, heard.user_id, why)
            return apply(read, steps, actions, now) if actions else None

        if self._store.decide(deletion.id, decision):
            LOG.warning("deletion %s: %s", deletion.id, why)
            self._bus.decide(deletion.id)

    def deleted(self, project_id: str, user_id: str) -> Deletion | None:
        """Record a project that Keystone says is deleted; return the record.

        ``None``: no record was needed.

        :param user_id: of the user who deleted it, as the notification says; for the journal
        :raises Exception: the store or Keystone does not answer
        """
        live = self._store.live(project_id)
        if live and not (live.dry_run and live.profile.requested):  # such a dry run ends in favour of the new record
            self._bus.decide(live.id)
            return None
        before = self._store.list(Page(1), project_id=project_id)
        latest = before[0] if before else None
        removed = self._store.list(Page(1), project_id=project_id, status=str(Status.DELETED))
        if removed or (latest and latest.origin is Origin.NOTICED):
            return None  # deleted by the orchestrator, perhaps in a retry of an earlier deletion, or recorded before
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
            origin=Origin.NOTICED,
            member_ids=latest.member_ids if latest else (),
        )
        text = "Keystone says that a user deleted the project without the orchestrator"
        event = Event(EventType.DELETION_NOTICED, text, actor=user_id, data={"earlier": latest.id if latest else ""})
        try:
            self._store.create(record, TASKS, event)
        except AlreadyUnderWay as other:  # two notifications at the same moment
            self._bus.decide(other.existing.id)
            return None
        LOG.info("%s: %s", event.type, event.message)
        self._bus.decide(record.id)
        return record

    def _projects(self) -> Projects:
        return Projects(self._clouds.identity(self._clouds.admin_session()))

    def _known(self, project_id: str) -> bool:
        try:
            self._projects().get(project_id)
        except ProjectNotFound:
            return False
        return True


def _read(payload: Mapping[str, Any]) -> Heard:
    """Return what a notification says; an id that is not valid is empty."""
    initiator, target = (payload.get(name) for name in ("initiator", "target"))
    initiator, target = (each if isinstance(each, Mapping) else {} for each in (initiator, target))
    # The target of a role assignment is no project.
    project_id = payload.get("project") or payload.get("resource_info") or ("role" not in payload and target.get("id"))
    ids = (project_id, payload.get("domain"), initiator.get("user_id") or initiator.get("id"))
    project, domain, user = (str(each) if each and is_id(str(each)) else "" for each in ids)
    return Heard(
        project,
        "" if project else domain,
        user,
        payload.get("inherited_to_projects") is True,
        payload.get("outcome", "success") == "success",
    )
