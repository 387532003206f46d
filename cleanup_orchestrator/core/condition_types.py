"""The types of conditions as one table: what is fine, and what follows from each. Pure.

A new condition is a member of ``ConditionType`` with its entry in ``CONDITIONS``, and the function in ``conditions``
that observes it.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from enum import StrEnum

from cleanup_orchestrator.core.words import ConditionType as ConditionType


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """One observed property of a deletion. It never changes the status."""

    type: str  #: one of ``ConditionType``; a later version may have recorded others
    status: bool
    reason: str
    message: str
    last_transition_at: datetime.datetime  #: UTC; when ``status`` last changed


class Lasts(StrEnum):
    """How long a condition stays on record. A retry ends each of them."""

    STATUS = "status"  #: until the status changes
    LIVE = "live"  #: while the deletion is live
    WAIT = "wait"  #: as ``LIVE`` if it is true; that the wait is over stays on record
    LOCK = "lock"  #: until the project is given back
    ATTEMPT = "attempt"  #: until a retry


@dataclasses.dataclass(frozen=True, slots=True)
class ConditionRule:
    """What holds for the conditions of one type."""

    fine: bool  #: the status of a deletion without this trouble; if it is false, it is recorded only after true
    reason: str = ""  #: of the fine status
    message: str = ""  #: of the fine status
    lasts: Lasts = Lasts.ATTEMPT
    until_cancel: bool = False  #: whether a cancel ends it, too
    #: The type or the reasons under which a live deletion needs a person, with what that person does.
    asks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    each_change: bool = False  #: whether each of its reasons and messages goes into the journal
    begun: str = ""  #: the last part of the type of the notification that it became true; empty: none is sent
    over: str = ""  #: likewise, that it became false in the same status
    error: bool = False  #: whether the first of these notifications has the priority ``error``


#: By type. If a deletion needs a person for several of them, the first one counts.
CONDITIONS: Mapping[str, ConditionRule] = {
    ConditionType.STALLED: ConditionRule(
        fine=False,
        reason="progress",
        lasts=Lasts.STATUS,
        asks={"stalled": "find out why nothing moves"},
        begun="stalled",
        over="resumed",
        error=True,
    ),
    ConditionType.APPROVAL: ConditionRule(
        fine=False,
        reason="ended",
        message="it no longer waits for an approval",
        lasts=Lasts.WAIT,
        asks={"approval": "a second person has to approve it"},
        begun="approval_needed",
    ),
    ConditionType.ON_HOLD: ConditionRule(
        fine=False,
        reason="over",
        message="no hold is in force",
        lasts=Lasts.LIVE,
        asks={"lien": "remove the lien", "brake": "lift the brake"},
        each_change=True,
        begun="on_hold",
        over="continued",
    ),
    ConditionType.BLOCKED: ConditionRule(
        fine=False,
        reason="cleared",
        lasts=Lasts.LIVE,
        asks={"blocked": "clear what blocks it"},
        each_change=True,
        begun="blocked",
        over="unblocked",
        error=True,
    ),
    ConditionType.DRAINED: ConditionRule(fine=True, reason="drained", lasts=Lasts.LOCK),
    ConditionType.SETTLED: ConditionRule(fine=True, reason="settled", lasts=Lasts.LOCK),
    ConditionType.HALTED: ConditionRule(fine=True, reason="halted", lasts=Lasts.LIVE, until_cancel=True),
    ConditionType.PLAN_COMPLETE: ConditionRule(fine=True, reason="complete", message="a deletion can be bound to it"),
    ConditionType.WAITING: ConditionRule(
        fine=False, reason="children", message="the projects below are gone", lasts=Lasts.WAIT
    ),
    ConditionType.SCHEDULED: ConditionRule(
        fine=False,
        reason="date",
        message="its date has come, or was removed",
        lasts=Lasts.WAIT,
        each_change=True,
        begun="scheduled",
        over="due",
    ),
    ConditionType.PROJECT_GONE: ConditionRule(fine=False, reason="back", message="Keystone knows the project again"),
    ConditionType.WAIVED: ConditionRule(fine=False, reason="ended", message="it no longer relies on a waiver"),
    ConditionType.FORCED: ConditionRule(fine=False, reason="ended", message="no force is used", until_cancel=True),
}
