"""The words that the client shares with the server: statuses, modes, results and the like. Pure.

This module and the others of the core that the client imports run on Python 3.9, like the client.
"""

from __future__ import annotations

from cleanup_orchestrator.core.enums import StrEnum


class Mode(StrEnum):
    """What the requester wants done with the resources that the project still owns."""

    REPORT = "report"  #: list them and change nothing; the project is removed only if it owns nothing
    CASCADE = "cascade"  #: delete them, prove them gone, then remove the project
    #: Delete those that are selected, prove them gone, and give the project back. It is a mode and no flag of another
    #: one, so that a process of a release that does not know it cannot take the deletion for a cascade.
    PURGE = "purge"


#: The modes that delete resources.
DELETING_MODES = frozenset({Mode.CASCADE, Mode.PURGE})


class Origin(StrEnum):
    """How this service learned that a project is to be deleted, or was deleted."""

    REQUEST = "request"  #: a user requested its deletion
    #: Keystone announced the deletion of the project, without a request to this service: resources are only listed.
    NOTICED = "noticed"
    #: An orphan scan found resources of a project that is gone, and an admin requested their deletion.
    ADOPTED = "adopted"


class Status(StrEnum):
    """The status of a deletion. The legal moves are in ``transitions.MOVES``."""

    ACCEPTED = "accepted"  #: recorded; the catalog is being surveyed
    DRAINING = "draining"  #: the project is being locked against new resources
    INVENTORY = "inventory"  #: every type of every service in every region is being listed
    RECOVERABLE = "recoverable"  #: before the first delete, it waits for an approval or for the end of the window
    DELETING = "deleting"  #: resources are being deleted in dependency order
    VERIFYING = "verifying"  #: waiting for cached tokens to run out, then proving the project empty twice
    DELETED = "deleted"  #: the project is gone and was proven empty before
    PURGED = "purged"  #: mode ``purge``: what was selected was proven gone; the project is usable
    LEFTOVERS = "leftovers"  #: the attempt ended with a report of what is left; the project is usable
    PLANNED = "planned"  #: the dry run ended; nothing was written anywhere
    CANCELLING = "cancelling"  #: what the drain changed is being undone
    CANCELLED = "cancelled"  #: undone; resources deleted before the cancel stay deleted
    FAILED = "failed"  #: the deletion cannot go on as requested; the journal says why


#: Statuses of a deletion that ended.
ENDED = frozenset({Status.DELETED, Status.PURGED, Status.LEFTOVERS, Status.PLANNED, Status.CANCELLED, Status.FAILED})


class RoundPurpose(StrEnum):
    """What a round of sweeps is for."""

    NONE = ""
    INVENTORY = "inventory"  #: list only
    DELETE = "delete"  #: list, delete, list again
    #: delete quotas and the like, right before the project is removed: it can no longer be cancelled
    PROJECT_SETTINGS = "project_settings"


class ConditionType(StrEnum):
    """The properties of a deletion that are observed."""

    APPROVAL = "approval"  #: it waits for the approval of a second person
    BLOCKED = "blocked"  #: something keeps it from completing that only a person can clear
    DRAINED = "drained"  #: the project is locked against new resources
    FORCED = "forced"  #: an admin asked for force
    HALTED = "halted"  #: what runs is stopped for the recovery window
    ON_HOLD = "on_hold"  #: a hold withholds locks and deletes
    PLAN_COMPLETE = "plan_complete"  #: the dry run of a cascade saw everything, so that a cascade can be bound to it
    PROJECT_GONE = "project_gone"  #: another client deleted the project
    SCHEDULED = "scheduled"  #: it waits for its date
    SETTLED = "settled"  #: tokens from before the drain have left every cache
    STALLED = "stalled"  #: it has made no progress for too long
    WAITING = "waiting"  #: it waits for a place, or for the deletions of the projects below
    WAIVED = "waived"  #: it relies on waivers


class StepState(StrEnum):
    """Whether a step is under way."""

    IDLE = "idle"  #: it has not run
    DISPATCHED = "dispatched"  #: cast to the workers, and not claimed yet
    RUNNING = "running"  #: claimed by a worker under a lease
    DONE = "done"  #: finished with an outcome


class Outcome(StrEnum):
    """The result of a step, as far as decisions depend on it."""

    NONE = ""  #: it has not run
    CLEAR = "clear"  #: nothing is left, or the task is done
    LEFTOVERS = "leftovers"  #: resources are still there
    UNKNOWN = "unknown"  #: no reliable answer; never treated as empty


class ScanStatus(StrEnum):
    """The status of an orphan scan."""

    ACCEPTED = "accepted"  #: recorded; the catalog is being read
    RUNNING = "running"  #: a read is under way: the first, or after ``waiting`` the second
    WAITING = "waiting"  #: between the two reads
    COMPLETED = "completed"  #: every list was read, and read again if the first read found candidates
    INCOMPLETE = "incomplete"  #: it ended without some of the answers; what it reports is valid
    FAILED = "failed"  #: the catalog could not be read
    CANCELLED = "cancelled"


#: The statuses of an orphan scan that has not ended.
SCANNING = frozenset({ScanStatus.ACCEPTED, ScanStatus.RUNNING, ScanStatus.WAITING})
