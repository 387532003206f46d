"""Reason codes, and what a person does about each. Pure."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Codes for leftovers and unknown results. Stable; the API returns them."""

    PRESENT = "present"  #: it is there (an inventory deletes nothing)
    QUEUED = "queued"  #: its turn has not come: a sweep ends after a while and continues after other sweeps
    IN_USE = "in_use"  #: its service refuses (409): something still uses it
    PROTECTED = "protected"  #: public, shared or protected otherwise; deleted only if the operator allows it
    FOREIGN = "foreign"  #: another project's resource blocks it; that resource is never deleted
    OWNER_UNKNOWN = "owner_unknown"  #: its owner is missing or changed; never deleted
    NOT_PLANNED = "not_planned"  #: not in the plan that the deletion follows: not deleted
    NOT_SELECTED = "not_selected"  #: not in the selection of a deletion that keeps the project: not deleted
    DELETING = "deleting"  #: its service accepted the delete, but it is still there
    FORBIDDEN = "forbidden"  #: its service answered 401 or 403
    REFUSED = "refused"  #: its service answered another 4xx
    ERROR = "error"  #: its service answered 5xx, or the call failed
    UNREACHABLE = "unreachable"  #: no connection, or a time-out
    TIMED_OUT = "timed_out"  #: the step sent no heartbeat for too long, or took too long, and was given up
    ON_HOLD = "on_hold"  #: a lien, the brake or the delete windows withheld its delete; see the condition ``on_hold``
    RATE_LIMITED = "rate_limited"  #: its service limits the rate of calls (429)
    NOT_SUPPORTED = "not_supported"  #: its service does not know the list call (404, 405); unknown, never empty
    BAD_ANSWER = "bad_answer"  #: its service sent an unexpected answer
    NO_PLUGIN = "no_plugin"  #: a catalog entry without a plugin
    INFORMATIONAL = "informational"  #: a user's, and only names the project: it is deleted last, and blocks nothing
    KEPT = "kept"  #: not the user's, or deleted with its parent; only a plan lists each of them
    WAIVED = "waived"  #: an admin waived the service: it is not listed
    NO_PROJECT_TOKEN = "no_project_token"  #: no token that is scoped into the project can be obtained
    NO_JANITOR = "no_janitor"  #: its list or its delete needs the janitor, which has no usable token for the project
    NO_SERVICE_TOKEN = "no_service_token"  #: there is no token that may be sent to services that speak the protocol
    UNREADABLE_NAME = "unreadable_name"  #: its service cannot read a token with a name that is not Latin-1
    DRAIN_HELD = "drain_held"  #: of the closing: the drain held at each moment until the project was disabled
    INHERITED_GRANTS = "inherited_grants"  #: users still get tokens through inherited or system-wide roles
    PROJECT_GONE = "project_gone"  #: another client deleted the project, and the list needs the project
    PROJECT_KNOWN = "project_known"  #: Keystone knows the project, although the deletion is of an unknown one
    PROJECT_IS_DOMAIN = "project_is_domain"
    PROJECT_HAS_CHILDREN = "project_has_children"
    PROJECT_PROTECTED = "project_protected"  #: the orchestrator's own project, or one on the never-delete list
    PROJECT_RENAMED = "project_renamed"  #: to a name on the never-delete list, since the deletion was requested
    PROJECT_IMMUTABLE = "project_immutable"
    STOPPED = "stopped"  #: the deletion was cancelled or the lease lost while the step ran


#: Reasons that do not end by themselves: each try gives the same answer until a person changes something.
ONLY_A_PERSON = frozenset(
    {
        Reason.PROTECTED,
        Reason.FOREIGN,
        Reason.OWNER_UNKNOWN,
        Reason.NOT_PLANNED,
        Reason.FORBIDDEN,
        Reason.NOT_SUPPORTED,
        Reason.NO_PLUGIN,
        Reason.NO_PROJECT_TOKEN,
        Reason.NO_JANITOR,
        Reason.NO_SERVICE_TOKEN,
        Reason.UNREADABLE_NAME,
        Reason.INHERITED_GRANTS,
        Reason.PROJECT_GONE,
        Reason.PROJECT_HAS_CHILDREN,
        Reason.PROJECT_RENAMED,
        Reason.PROJECT_IMMUTABLE,
    }
)


class StatusReason(StrEnum):
    """Further codes for moves to a status. Stable; the API returns them."""

    DRY_RUN = "dry_run"  #: the inventory of a dry run begins
    INVENTORY_FIRST = "inventory_first"  #: a report takes an inventory before it locks anything
    CASCADE = "cascade"  #: the deletion does what was requested
    PROJECT_GONE = "project_gone"  #: another client deleted the project
    DRAINED = "drained"  #: the drain took hold
    DRAINED_IN_PART = "drained_in_part"  #: the drain took hold, but some users still get tokens
    DRAIN_FAILED = "drain_failed"
    RECOVERY_WINDOW = "recovery_window"  #: nothing is deleted before the window is over
    INVENTORY_AGAIN = "inventory_again"  #: another inventory, right before the first delete
    DRY_RUN_OVER = "dry_run_over"
    LEFTOVERS = "leftovers"
    UNKNOWN = "unknown"
    EMPTY_BEFORE_DRAIN = "empty_before_drain"  #: the inventory of a report was empty
    INVENTORY_EMPTY = "inventory_empty"
    ALL_DELETED = "all_deleted"
    FOUND_AGAIN = "found_while_verifying"  #: the verification found resources that were confirmed gone
    FORCED = "forced"  #: force was asked for
    UNPLANNED = "unplanned"  #: what is left is not in the plan
    NOT_IN_CATALOG = "not_in_catalog"  #: the selection names a service or a type that the catalog does not have
    EMPTIED = "emptied"
    DELETED = "deleted"
    DELETED_BY_FORCE = "deleted_by_force"
    CANCELLED = "cancelled"


#: What follows once an obstacle to the removal of the project is gone, and the other way out.
_CONTINUES = (
    "a cascade that has locked the project continues automatically then; to keep the project, cancel the deletion "
    "('openstack project deletion cancel')"
)

#: What a person does about a reason. Every blocker shows it.
REMEDIES: dict[str, str] = {
    Reason.IN_USE: "see what blocks it; it is tried again automatically",
    Reason.PROTECTED: "remove the sharing or the keep mark, or let the operator switch this protection off",
    Reason.FOREIGN: "ask the owner of the blocking resource, or an admin, to remove it",
    Reason.OWNER_UNKNOWN: "let an admin find its owner and delete it by hand: it is never deleted without a "
    "known owner",
    Reason.NOT_PLANNED: "delete it by hand, or clear what the plan says blocks it, make a new plan with a dry run, and "
    "request a cascade by that plan",
    Reason.NOT_SELECTED: "nothing: it stays, as requested",
    Reason.DELETING: "wait: its service has accepted the delete",
    Reason.FORBIDDEN: "give the orchestrator's user the role that the service asks for",
    Reason.REFUSED: "read the service's message; an admin may have to change the resource first",
    Reason.ERROR: "read the log of the service; it is tried again automatically",
    Reason.UNREACHABLE: "bring the endpoint back (it is tried again); if it is gone for good, let an admin waive it",
    Reason.TIMED_OUT: "find the plugin or the service that hangs; it is tried again automatically, in a new thread",
    Reason.ON_HOLD: "nothing: it continues automatically; the condition 'on_hold' names the hold and how to clear it",
    Reason.RATE_LIMITED: "wait: it is tried again automatically",
    Reason.NOT_SUPPORTED: "the service does not know the list call: check its version and endpoint",
    Reason.BAD_ANSWER: "check which program answers at the service's endpoint",
    Reason.NO_PLUGIN: "install a plugin for it, let it speak the project resources protocol, declare in [catalog] that "
    "it owns nothing, or let an admin waive it",
    Reason.INFORMATIONAL: "nothing: it is deleted with the project; until then its owner or an admin may delete it",
    Reason.KEPT: "nothing: it is not the user's, or is deleted with its parent",
    Reason.WAIVED: "nothing: an admin waived it; withdraw the waiver to have it listed",
    Reason.NO_PROJECT_TOKEN: "let an admin give the orchestrator an inherited admin role on the domain; if the project "
    "is disabled, enable it",
    Reason.NO_JANITOR: "set up the janitor as the message says ([janitor] in the worker's configuration); see the page "
    "about security in the administration guide",
    Reason.NO_SERVICE_TOKEN: "set up the user of the project resources protocol as the message says ([protocol] in the "
    "worker's configuration)",
    Reason.UNREADABLE_NAME: "do what the message says, or rename the project or its domain in Latin-1 characters",
    Reason.DRAIN_HELD: "nothing: the project is disabled",
    Reason.INHERITED_GRANTS: "remove these grants, or set [drain] inherited_grants = close: then they block nothing",
    Reason.PROJECT_GONE: "do what the message says, or remove the rows with the project's id from the service's "
    "database; then let an admin waive the service for this project, and retry",
    Reason.PROJECT_KNOWN: "nothing: its resources are no orphans; to delete it, request an ordinary deletion",
    Reason.PROJECT_HAS_CHILDREN: "delete its child projects first ('openstack project delete'), or retry their "
    f"deletions; {_CONTINUES}",
    Reason.PROJECT_PROTECTED: "nothing: an operator may change the never-delete list",
    Reason.PROJECT_RENAMED: "rename the project ('openstack project set --name'), or let an operator change the "
    f"never-delete list; {_CONTINUES}",
    Reason.PROJECT_IMMUTABLE: "unset the project's immutable option ('openstack project set --no-immutable'); "
    f"{_CONTINUES}",
    Reason.QUEUED: "nothing: its turn comes automatically",
    Reason.PRESENT: "delete it, or request a cascade deletion",
    Reason.STOPPED: "nothing: it is resumed automatically",
}


def remedy(reason: str) -> str:
    """Return what a person does about a reason code."""
    return REMEDIES.get(reason, "see the message")
