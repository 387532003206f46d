"""What a deletion records: journal lines, and the changes that a cancel undoes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class EventType(StrEnum):
    """The types of journal lines with a fixed name. The API returns them.

    Other types are made of two parts: ``deletion.<status or verb>``, ``condition.<type>``, ``step.<kind>`` and
    ``sweep.<outcome>``.
    """

    DELETION_ACCEPTED = "deletion.accepted"
    DELETION_ADOPTED = "deletion.adopted"
    DELETION_APPROVED = "deletion.approved"
    DELETION_CHANGED = "deletion.changed"
    DELETION_FORCED = "deletion.forced"
    DELETION_NOTICED = "deletion.noticed"
    DELETION_RETRIED = "deletion.retried"
    DELETION_RETRIED_NOW = "deletion.retried_now"
    DRAIN_HELD = "drain.held"
    DRAIN_SERVICE_FAILED = "drain.service_failed"
    DRAIN_UNDONE = "drain.undone"
    DRAIN_YIELDED = "drain.yielded"
    FORCE_ABANDONED = "force.abandoned"
    FORCE_USED = "force.used"
    INVENTORY_EMPTY = "inventory.empty"
    INVENTORY_VOID = "inventory.void"
    LIEN_ENDED = "lien.ended"
    LIEN_FORESEEN = "lien.foreseen"
    LIEN_RAISED = "lien.raised"
    NOTICE_FAILED = "notice.failed"
    NOTICE_SENT = "notice.sent"
    PROJECT_CLOSED = "project.closed"
    RECOVERY_OPENED = "recovery.opened"
    RESOURCE_ABANDONED = "resource.abandoned"
    RESOURCE_DELETED = "resource.deleted"
    RESOURCE_DELETING = "resource.deleting"
    RESOURCE_FORCING = "resource.forcing"
    RESOURCE_STOPPED = "resource.stopped"
    RESOURCE_USE_OVERRULED = "resource.use_overruled"
    ROUND_OPENED = "round.opened"
    SURVEY_DROPPED = "survey.dropped"
    WAIVER_ENDED = "waiver.ended"
    WAIVER_RELIED_UPON = "waiver.relied_upon"


class ChangeType(StrEnum):
    """The kinds of changes that are recorded before they are made."""

    GRANT_ADDED = "grant_added"
    GRANT_REMOVED = "grant_removed"
    JANITOR_LENT = "janitor_lent"  #: a service got the token of the janitor with a delete, and may have kept it
    JANITOR_MADE = "janitor_made"  #: a user in Keystone that is deleted with the deletion
    PROJECT_DELETE_SENT = "project_delete_sent"  #: not for the lock: the delete of the project itself
    PROJECT_DISABLED = "project_disabled"
    PROJECT_FENCED = "project_fenced"
    SERVICE_DRAINED = "service_drained"  #: a service that speaks the protocol refuses new resources
    RESOURCE_STOPPED = "resource_stopped"  #: not for the lock: a resource that ran until the recovery window opened


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One line of the append-only journal."""

    type: str  #: one of ``EventType``, or made of two parts as described there
    message: str
    actor: str = ""  #: a user's id, or the name of an engine or a worker
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    request_id: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A change, recorded before it is made. A cancel undoes all in reverse order."""

    id: str
    deletion_id: str
    sequence: int
    type: str  #: one of ``ChangeType``; a later version may have recorded others
    data: Mapping[str, Any]
    undone: bool = False
