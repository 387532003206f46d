"""Reason codes, and what a person does about each. Pure."""

from __future__ import annotations

import dataclasses
import re

from cleanup_orchestrator.core.enums import StrEnum


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
    STUCK = "stuck"  #: its service accepted the delete, and has not ended it for longer than ``deleting_patience``
    FORBIDDEN = "forbidden"  #: its service answered 401 or 403
    REFUSED = "refused"  #: its service answered another 4xx
    ERROR = "error"  #: its service answered 5xx, or the call failed
    UNREACHABLE = "unreachable"  #: no connection, or a time-out
    NO_ENDPOINT = "no_endpoint"  #: Keystone knows the service, and no token has its endpoint: it is disabled, or hidden
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
        Reason.STUCK,
        Reason.FORBIDDEN,
        Reason.NO_ENDPOINT,
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


#: Reasons that one odd answer of a service may have, so that it takes two in a row to ask for a person.
ONE_ANSWER = frozenset({Reason.FORBIDDEN, Reason.NOT_SUPPORTED, Reason.BAD_ANSWER, Reason.NO_PROJECT_TOKEN})


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
    PURGED = "purged"
    DELETED = "deleted"
    DELETED_BY_FORCE = "deleted_by_force"
    CANCELLED = "cancelled"


#: What follows once an obstacle to the removal of the project is gone, and the other way out.
_CONTINUES = (
    "a cascade that has locked the project continues automatically then; to keep the project, cancel the deletion "
    "('openstack project deletion cancel {deletion}')"
)
_RETRY = "'openstack project deletion retry {deletion}' makes the deletion try at once"
_LEFTOVERS = "openstack project deletion leftovers --long --type {type}"
_FORCE = "'openstack project deletion force --type {type} --reason WHY {project}'"
_GIVE_UP = f"an admin gives it up: {_FORCE}; then it stays without a project"
_WAIVE = (
    "'openstack project deletion waiver create {service} --project {project} --days 30 --reason WHY' (an admin): then "
    "it is not listed, and what it holds stays"
)

#: What a person does about a reason: which call, who makes it, and what happens then. Templates for :func:`remedy`.
#: A remedy begins with "nothing" only if the deletion continues without an action of a person.
REMEDIES: dict[str, str] = {
    Reason.IN_USE: "its owner, or an admin, deletes what blocks it, unless that is being deleted: "
    f"'{_LEFTOVERS} {{deletion}}' names it; the delete is tried again automatically",
    Reason.PROTECTED: "its owner, or an admin, removes the sharing or the mark that the message names, or an operator "
    f"switches this protection off ([protection] in the worker's configuration); {_RETRY}",
    Reason.FOREIGN: "the owner of the blocking resource, or an admin, ends its use of this one, or removes it: "
    f"'{_LEFTOVERS} {{deletion}}' names both; the delete is tried again automatically. The page on outsiders in the "
    "manual has the uses that an operator may ignore ([protection] ignored_uses), and the harm that this does",
    Reason.OWNER_UNKNOWN: "an admin finds its owner and deletes it by hand, because nothing is deleted without a known "
    f"owner: '{_LEFTOVERS} {{deletion}}' has its id; {_RETRY}",
    Reason.NOT_PLANNED: "its owner, or an admin, deletes it by hand, or clears what the plan says blocks it; or make a "
    "new plan ('openstack project delete --async --cascade --dry-run {project}') and request a cascade by that plan",
    Reason.NOT_SELECTED: "nothing: it stays, as requested",
    Reason.DELETING: "nothing: its service has accepted the delete, and its end is looked for automatically; after "
    "[worker] deleting_patience it is named as stuck",
    Reason.STUCK: "an operator of {service} makes sure that the process which deletes it runs: the deletion goes on "
    "automatically when it is gone. Otherwise an admin resets its state with a call of {service}, or gives it up: "
    f"{_FORCE}; then it stays without a project",
    Reason.FORBIDDEN: "an admin gives the orchestrator's user the role that {service} asks for ('openstack role add "
    f"--user USER --project PROJECT ROLE'; the page of the service in the manual names the role); {_RETRY}",
    Reason.REFUSED: "its owner, or an admin, changes {type} {id} as the message asks; "
    f"the delete is tried again automatically. If nothing can change it, {_GIVE_UP}",
    Reason.ERROR: "an operator of {service} removes the cause that the message names, which the log of the service has "
    "in full; it is tried again automatically. If the cause cannot be removed, an admin gives up what is left: "
    f"{_FORCE}; then it stays without a project",
    Reason.UNREACHABLE: "an operator brings the endpoint of {service} back: it is tried again automatically. If it is "
    f"gone for good: {_WAIVE}",
    Reason.NO_ENDPOINT: "an admin makes the call that the message names: then it is listed automatically. A waiver "
    "would leave what it holds behind",
    Reason.TIMED_OUT: "an operator finds what hangs, the plugin or {service}: the log of the worker names the call. It "
    f"is tried again automatically, in a new thread. If the service is gone for good: {_WAIVE}",
    Reason.ON_HOLD: "nothing: it continues automatically; the condition 'on_hold' names the hold and how to clear it",
    Reason.RATE_LIMITED: "nothing: its service limits the rate of calls, and it is tried again automatically",
    Reason.NOT_SUPPORTED: "an operator makes sure that the endpoint of {service} in the catalog answers, and in a "
    "version that has {type} ('openstack endpoint list --service {service}'); it is listed again automatically. If the "
    f"service does not have it: {_WAIVE}",
    Reason.BAD_ANSWER: "an operator looks which program answers at the endpoint of {service} ('openstack endpoint list "
    "--service {service}'), and corrects the endpoint or the program; it is tried again automatically",
    Reason.NO_PLUGIN: "an operator installs a plugin for {service}, lets it speak the project resources protocol, or "
    f"declares in [catalog] that it owns nothing; or {_WAIVE}",
    Reason.INFORMATIONAL: "nothing: it is deleted with the project; until then its owner or an admin may delete it",
    Reason.KEPT: "nothing: it is not the user's, or is deleted with its parent",
    Reason.WAIVED: "nothing: an admin waived it; 'openstack project deletion waiver list' names the waiver, and an "
    "admin withdraws it with 'openstack project deletion waiver delete WAIVER' to have it listed",
    Reason.NO_PROJECT_TOKEN: "an admin makes the call that the message names: then it goes on automatically. If the "
    "message names none, an admin gives the orchestrator an inherited admin role on the domain ('openstack role add "
    f"--user USER --domain DOMAIN --inherited admin'); {_RETRY}",
    Reason.NO_JANITOR: "an operator sets up the janitor as the message says ([janitor] in the worker's configuration; "
    f"see the page about security in the administration guide); {_RETRY}",
    Reason.NO_SERVICE_TOKEN: "an operator sets up the user of the project resources protocol as the message says "
    f"([protocol] in the worker's configuration); {_RETRY}",
    Reason.UNREADABLE_NAME: "an operator does what the message says, or an admin renames the project or its domain in "
    f"Latin-1 characters ('openstack project set --name NAME {{project}}'); {_RETRY}",
    Reason.DRAIN_HELD: "nothing: the project is disabled",
    Reason.INHERITED_GRANTS: "an admin removes these grants ('openstack role remove'), or an operator sets [drain] "
    f"inherited_grants = close: then they block nothing; {_RETRY}",
    Reason.PROJECT_GONE: "an operator does what the message says, or removes the rows with the project's id {project} "
    f"from the database of {{service}}; then {_WAIVE}; {_RETRY}",
    Reason.PROJECT_KNOWN: "nothing: its resources are no orphans; to delete it, request an ordinary deletion",
    Reason.PROJECT_HAS_CHILDREN: "a manager of the domain, or an admin, deletes its child projects first ('openstack "
    f"project delete CHILD'), or retries their deletions; {_CONTINUES}",
    Reason.PROJECT_IS_DOMAIN: "nothing: the project of a domain goes with its domain ('openstack domain delete'), and "
    "is never deleted by itself",
    Reason.PROJECT_PROTECTED: "nothing: an operator may change the never-delete list",
    Reason.PROJECT_RENAMED: "an admin renames the project ('openstack project set --name NAME {project}'), or an "
    f"operator changes the never-delete list; {_CONTINUES}",
    Reason.PROJECT_IMMUTABLE: "an admin unsets the project's immutable option ('openstack project set --no-immutable "
    f"{{project}}'); {_CONTINUES}",
    Reason.QUEUED: "nothing: its turn comes automatically",
    Reason.PRESENT: "its owner, or an admin, deletes it; or request a cascade: 'openstack project delete --async "
    "--cascade {project}'",
    Reason.STOPPED: "nothing: it is resumed automatically",
}

#: What a person does about a resource that is in use, if its service does not say by what.
UNNAMED = (
    "its service does not name what uses it: an admin asks it with its own calls for what refers to {type} {id}, and "
    f"removes that; the delete is tried again automatically. If nothing is found, {_GIVE_UP}"
)

#: What a person does about a resource that its service lists, and does not know when it is to be deleted.
UNKNOWN_TO_SERVICE = (
    "no call reaches it: an operator of {service} removes what the message names as missing, or the row of {type} {id} "
    "in the database of the service; it counts as deleted when the list no longer has it. To go on without it, an "
    f"admin uses {_FORCE}"
)

#: What a person does about what is to be deleted, if it is not known whether what it waits for moves.
WAITS = "nothing, unless 'openstack project deletion show {deletion}' names a blocker: its turn comes after that"

#: What a person does about what waits for resources that do not move.
BEHIND = (
    "{behind} must be gone first, and does not move: clear what blocks it ('openstack project deletion show "
    "{deletion}' has its remedy); then this is deleted automatically"
)


@dataclasses.dataclass(frozen=True)
class Subject:
    """What a remedy is about: it fills the fields of a template. What is empty stays for the reader to fill in."""

    deletion: str = ""  #: id of the deletion
    project: str = ""  #: id of the project
    service: str = ""
    type: str = ""
    id: str = ""  #: of the resource
    owner: str = ""  #: who uses the resource: the project, as far as the reader may know

    def fill(self, template: str, **more: str) -> str:
        """Return a template with the values of this subject in place of its fields.

        A text with other braces, which a plugin or a service wrote, stays as it is.
        """
        values = {
            "deletion": self.deletion or "DELETION",
            "project": self.project or "PROJECT",
            "service": self.service or "the service",
            "type": f"{self.service}.{self.type}" if self.type else "TYPE",
            "id": self.id or "ID",
            "owner": self.owner or "another project",
            **more,
        }
        return re.sub(r"\{(\w+)\}", lambda field: values.get(field[1], field[0]), template)


def remedy(reason: str, subject: Subject = Subject(), known: str = "") -> str:
    """Return what a person does about a reason code.

    :param known: a remedy that says more than that of the reason; empty: there is none
    """
    return subject.fill(_template(reason, known))


def commands(reason: str, subject: Subject = Subject(), known: str = "") -> tuple[str, ...]:
    """Return the commands of a remedy that a person can copy.

    The text of the remedy can name further ones. A command that deletes or gives up something, that ends the deletion,
    or that changes a resource of another project is left out: the text of the remedy says what it harms.
    So is one that sets a name which the reader has to choose: unchanged, it succeeds, and sets the name NAME.
    So is one with a value that a shell would not read as one word, or that a client would read as an option: users
    choose some of the values.

    :param known: as for :func:`remedy`
    """
    if reason == Reason.FOREIGN:
        return ()
    found = _COMMAND.findall(_template(reason, known))  # before the values are filled in: they are no commands
    words = ([(word, subject.fill(word)) for word in each.split()] for each in found if not _HARMFUL.search(each))
    whole = (each for each in words if all(_is_plain(word, filled) for word, filled in each))
    return tuple(dict.fromkeys(" ".join(filled for _, filled in each) for each in whole))


def _is_plain(word: str, filled: str) -> bool:
    """Whether a word of a command means nothing to a shell, and is an option only if its template is one."""
    return bool(_PLAIN.fullmatch(filled)) and filled.startswith("-") is word.startswith("-")


def _template(reason: str, known: str) -> str:
    return known or REMEDIES.get(reason, "see the message")


#: A command in a remedy, in single quotes.
_COMMAND = re.compile(r"(?<![\w'\"])'((?:openstack|mistral) [^'\"]*[^'\" ])'(?![\w'\"])")
_HARMFUL = re.compile(r"\b(?:delete|remove|undeploy|purge|cancel|force|waiver create|set --name)\b")
_PLAIN = re.compile(r"[A-Za-z0-9@%+=:,./_-]+")
