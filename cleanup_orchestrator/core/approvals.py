"""When a deletion needs a second person's approval, and what that covers. Pure."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable

from cleanup_orchestrator.core.deletion import Deletion, DeletionCase
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.step import Step, StepKind, StepView

TOO_MANY_DELETIONS = "too_many_deletions"
TOO_MANY_RESOURCES = "too_many_resources"

DAY = datetime.timedelta(days=1)

#: Types of the journal lines that record a user's request to begin, retry or force a deletion.
REQUEST_EVENTS = (
    EventType.DELETION_ACCEPTED,
    EventType.DELETION_ADOPTED,
    EventType.DELETION_RETRIED,
    EventType.DELETION_FORCED,
)
#: Key in the data of such a line, if the token was one of a trust: the ids of trustor and trustee.
TRUST_USER_IDS = "trust_user_ids"
#: Key in the data of such a line, if the user may stop the deletions of admins: true.
BY_ADMIN = "by_admin"


@dataclasses.dataclass(frozen=True, slots=True)
class Requests:
    """Who requested, retried or forced a deletion or one above it, in any attempt."""

    user_ids: frozenset[str] = frozenset()  #: they may not approve the deletion
    of_admin: bool = False  #: whether an admin is one of them: then only an admin may stop it


def requests(user_ids: Iterable[str], events: Iterable[Event]) -> Requests:
    """Return who requested a deletion or one above it.

    :param user_ids: the requesters that these deletions name
    :param events: their journal lines of the types ``REQUEST_EVENTS``
    """
    requesters, of_admin = set(user_ids), False
    for event in events:
        requesters |= {event.actor, *event.data.get(TRUST_USER_IDS, ())}
        of_admin = of_admin or bool(event.data.get(BY_ADMIN))
    return Requests(frozenset(requesters - {""}), of_admin)


@dataclasses.dataclass(frozen=True, slots=True)
class Needed:
    """An approval that is missing."""

    reason: str  #: the limit that is exceeded
    message: str


def affected_count(deletion: Deletion, steps: Iterable[StepView]) -> int:
    """Return how many resources the deletion affects.

    These are the ones that it deleted, and those of the latest list. Kept resources, project settings (quotas and the
    like) and resources that are not in the plan or the selection do not count. Protected resources count, because their
    protection may end. A container of objects counts as one.
    """
    sweeps = [s for s in steps if s.kind is StepKind.SWEEP and not s.project_setting and not s.waived]
    left = sum(s.remaining - s.unplanned - s.unselected for s in sweeps if s.round >= deletion.since_round)
    return left + sum(s.deleted for s in sweeps)


def for_deletion(deletion: DeletionCase, limit: int) -> Needed | None:
    """Return the approval without which a cascade may not begin.

    It is missing if too many cascades begin within 24 hours. The count covers the 24 hours before the deletion began:
    at its request, or at its date. Otherwise many deletions could be recorded over days for one date. A retry after
    more than that always needs an approval. Otherwise many deletions could be recorded over days so that they fail, and
    be retried on one day.

    :param limit: cascades in 24 hours that need no approval; 0: no limit
    """
    if not limit or not counts(deletion) or any(a.needed == TOO_MANY_DELETIONS for a in deletion.approvals):
        return None
    if deletion.attempt > 1 and deletion.status_at - deletion.begins_at >= DAY:
        text = "it is a retry more than 24 hours after it was asked for, which no limit of a day counts"
    elif deletion.cascades_before >= limit:
        text = f"{deletion.cascades_before} cascades of this domain, or asked for by the same user, began in "
        text += f"the 24 hours before this one, and the limit is {limit}"
    else:
        return None
    return Needed(TOO_MANY_DELETIONS, f"{text}: a second person has to approve it")


def for_resources(deletion: Deletion, steps: Iterable[Step], limit: int) -> Needed | None:
    """Return the approval without which a cascade may not delete its resources.

    It is missing if there are more resources than the limit and the given approvals cover.

    :param limit: resources that one deletion may delete without an approval; 0: no limit
    """
    if not limit or not counts(deletion):
        return None
    approved = max((a.resources for a in deletion.approvals if a.needed == TOO_MANY_RESOURCES), default=0)
    number = affected_count(deletion, steps)
    if number <= max(limit, approved):
        return None
    text = f"it is about {number} resources, and the limit is {limit}"
    text += f" ({approved} were approved)" if approved else ""
    return Needed(TOO_MANY_RESOURCES, f"{text}: a second person has to approve it")


def counts(deletion: Deletion) -> bool:
    """Whether a deletion counts for the limits: it deletes resources, and is no dry run."""
    return deletion.profile.deletes
