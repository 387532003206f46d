"""The policy rules of the API.

The default of most rules that change something is the one of Keystone's ``identity:delete_project``. The rules that
only read also allow readers: of the whole system, or of the project's domain.
"""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable, Collection, Iterator

from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import policy

from cleanup_orchestrator.core.deletion import Deletion

CREATE = "cleanup:deletions:create"
LIST = "cleanup:deletions:list"
GET = "cleanup:deletions:get"
RETRY = "cleanup:deletions:retry"
CANCEL = "cleanup:deletions:cancel"
CANCEL_OF_ADMIN = "cleanup:deletions:cancel_of_admin"
APPROVE = "cleanup:deletions:approve"
RESTORE = "cleanup:deletions:restore"
GRANTS_GET = "cleanup:deletions:get_grants"
PLAN_GET = "cleanup:plans:get"
FORCE = "cleanup:projects:force"
SERVICES = "cleanup:services:list"
BRAKE_GET = "cleanup:brake:get"
BRAKE_SET = "cleanup:brake:set"
BRAKE_UNSET = "cleanup:brake:unset"
LIEN_CREATE = "cleanup:liens:create"
LIEN_LIST = "cleanup:liens:list"
LIEN_GET = "cleanup:liens:get"
LIEN_DELETE = "cleanup:liens:delete"
WAIVER_CREATE = "cleanup:waivers:create"
WAIVER_LIST = "cleanup:waivers:list"
WAIVER_GET = "cleanup:waivers:get"
WAIVER_DELETE = "cleanup:waivers:delete"
ORPHAN_SCAN_CREATE = "cleanup:orphan_scans:create"
ORPHAN_SCAN_LIST = "cleanup:orphan_scans:list"
ORPHAN_SCAN_GET = "cleanup:orphan_scans:get"
ORPHAN_SCAN_CANCEL = "cleanup:orphan_scans:cancel"
ORPHAN_SCAN_ADOPT = "cleanup:orphan_scans:adopt"

ADMIN = "rule:admin_required"
#: Admins, and Keystone's readers of the system.
ADMIN_OR_READER = "(rule:admin_required) or (role:reader and system_scope:all)"
#: The rule of Keystone. The target has flat keys: with a nested target the rule would deny every request.
ADMIN_OR_DOMAIN_MANAGER = (
    "(rule:admin_required) or (role:manager and domain_id:%(target.project.domain_id)s "
    "and not None:%(target.project.domain_id)s)"
)
#: Those, and readers: of the system, and of the project's domain. For rules that only read.
ADMIN_OR_DOMAIN_READER = (
    f"{ADMIN_OR_READER} or ((role:manager or role:reader) and domain_id:%(target.project.domain_id)s "
    "and not None:%(target.project.domain_id)s)"
)
#: Those, and the user who requested the deletion, with any token, for ``[api] requester_reads_days`` after its end.
ADMIN_OR_DOMAIN_READER_OR_REQUESTER = (
    f"{ADMIN_OR_DOMAIN_READER} or (user_id:%(target.deletion.user_id)s and not None:%(target.deletion.user_id)s)"
)
_SCOPES = ["system", "domain", "project"]


def _rule(
    name: str, description: str, *operations: tuple[str, str], who: str = ADMIN_OR_DOMAIN_MANAGER
) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name,
        who,
        description,
        [{"method": method, "path": path} for method, path in operations],
        scope_types=_SCOPES,
    )


_RULES = [
    policy.RuleDefault("admin_required", "role:admin", "Users who are admins of the whole cloud."),
    _rule(CREATE, "Request the deletion of a project.", ("POST", "/v1/deletions")),
    _rule(
        LIST,
        "List deletions, and search the leftovers and journals of all deletions. The rule is checked for all domains "
        "first. If it denies that, the answer is limited to the domain of the token. If it denies that, too, the list "
        "is limited to the deletions that the user requested and may still read, and the searches "
        "(``GET /v1/leftovers`` and ``GET /v1/events``) are refused.",
        ("GET", "/v1/deletions"),
        ("GET", "/v1/leftovers"),
        ("GET", "/v1/events"),
        who=ADMIN_OR_DOMAIN_READER_OR_REQUESTER,
    ),
    _rule(
        GET,
        "Show a deletion, its leftovers and its journal. Other users get 404. The user who requested the deletion may "
        "read it for ``[api] requester_reads_days`` days after its end. It shows the IDs and origins of the liens on "
        "the project also to users who may not read liens, such as readers of the domain, and not the reasons.",
        ("GET", "/v1/deletions/{id}"),
        ("GET", "/v1/deletions/{id}/leftovers"),
        ("GET", "/v1/deletions/{id}/events"),
        who=ADMIN_OR_DOMAIN_READER_OR_REQUESTER,
    ),
    _rule(
        GRANTS_GET,
        "See in a deletion which role assignments its lock removed. Users who may cancel or restore the deletion see "
        "them in any case.",
        ("GET", "/v1/deletions/{id}"),
        who=ADMIN_OR_DOMAIN_READER,
    ),
    _rule(RETRY, "Start a new attempt of a deletion.", ("POST", "/v1/deletions/{id}/retry")),
    _rule(CANCEL, "Stop a deletion and undo its drain.", ("POST", "/v1/deletions/{id}/cancel")),
    _rule(
        CANCEL_OF_ADMIN,
        "Stop a deletion, or restore its project, although a user whom this rule allows has requested, retried or "
        "forced the deletion, or one above it. It is checked in addition to the rule of the action, and also when a "
        "deletion is requested, retried or forced, to record whether its user is such a user. By default a manager of "
        "the domain cannot undo an admin's decision.",
        ("POST", "/v1/deletions/{id}/cancel"),
        ("POST", "/v1/deletions/{id}/restore"),
        who=ADMIN,
    ),
    _rule(
        FORCE,
        "Let a stuck deletion abandon the resources that it cannot delete. They stay in the cloud, without a project.",
        ("DELETE", "/v1/projects/{id}/force"),
        who=ADMIN,
    ),
    _rule(
        APPROVE,
        "Approve a deletion that exceeds a limit. Users who requested, retried or forced the deletion cannot approve "
        "it, whatever this rule says. A domain manager can create a second user in the domain. Therefore a rule that "
        "allows domain managers allows one person to request and to approve a deletion.",
        ("POST", "/v1/deletions/{id}/approve"),
        who=ADMIN,
    ),
    _rule(
        RESTORE,
        "Restore a project before anything is deleted: stop the deletion and undo its drain.",
        ("POST", "/v1/deletions/{id}/restore"),
    ),
    _rule(
        PLAN_GET,
        "Show the plan of a dry run. Other users get 404.",
        ("GET", "/v1/plans/{id}"),
        ("GET", "/v1/plans/{id}/resources"),
        who=ADMIN_OR_DOMAIN_READER_OR_REQUESTER,
    ),
    _rule(
        SERVICES,
        "List the services of the catalog and their plugins. The target is the domain of the token.",
        ("GET", "/v1/services"),
        who=ADMIN_OR_DOMAIN_READER,
    ),
    _rule(BRAKE_GET, "Show whether the brake is on.", ("GET", "/v1/brake"), who=ADMIN_OR_READER),
    _rule(BRAKE_SET, "Pull the brake: stop every deletion of the cloud.", ("POST", "/v1/brake"), who=ADMIN),
    _rule(BRAKE_UNSET, "Lift the brake: let deletions continue.", ("DELETE", "/v1/brake"), who=ADMIN),
    _rule(LIEN_CREATE, "Protect a project from deletion.", ("POST", "/v1/liens"), who=ADMIN),
    _rule(LIEN_LIST, "List liens.", ("GET", "/v1/liens"), who=ADMIN_OR_READER),
    _rule(LIEN_GET, "Show a lien.", ("GET", "/v1/liens/{id}"), who=ADMIN_OR_READER),
    _rule(LIEN_DELETE, "Remove a lien: allow the deletion of the project.", ("DELETE", "/v1/liens/{id}"), who=ADMIN),
    _rule(
        WAIVER_CREATE,
        "Let deletions skip a service. The resources of their projects in this service stay behind, unlisted.",
        ("POST", "/v1/waivers"),
        who=ADMIN,
    ),
    _rule(WAIVER_LIST, "List waivers.", ("GET", "/v1/waivers"), who=ADMIN_OR_READER),
    _rule(WAIVER_GET, "Show a waiver.", ("GET", "/v1/waivers/{id}"), who=ADMIN_OR_READER),
    _rule(WAIVER_DELETE, "Withdraw a waiver.", ("DELETE", "/v1/waivers/{id}"), who=ADMIN),
    _rule(
        ORPHAN_SCAN_CREATE,
        "Start a scan of all services for resources of dead projects. A scan only reads.",
        ("POST", "/v1/orphan-scans"),
        who=ADMIN,
    ),
    _rule(ORPHAN_SCAN_LIST, "List orphan scans.", ("GET", "/v1/orphan-scans"), who=ADMIN_OR_READER),
    _rule(
        ORPHAN_SCAN_GET,
        "Show an orphan scan and the resources of dead projects that it found.",
        ("GET", "/v1/orphan-scans/{id}"),
        ("GET", "/v1/orphan-scans/{id}/orphans"),
        ("GET", "/v1/orphan-scans/{id}/projects"),
        who=ADMIN_OR_READER,
    ),
    _rule(ORPHAN_SCAN_CANCEL, "Cancel an orphan scan.", ("DELETE", "/v1/orphan-scans/{id}"), who=ADMIN),
    _rule(
        ORPHAN_SCAN_ADOPT,
        "Delete the resources of a dead project. This is irreversible, and no member of the project is left to object.",
        ("POST", "/v1/orphan-scans/{id}/adopt"),
        who=ADMIN,
    ),
]


def list_rules() -> list[policy.RuleDefault]:
    """Return all rules, for oslopolicy-sample-generator and the enforcer."""
    return list(_RULES)


#: Seconds between two searches for changed policy files.
_RELOAD = 1.0


class _Enforcer(policy.Enforcer):
    """Looks for changed policy files once a second, and not at each check, which makes ten calls to the system."""

    _loaded_at = float("-inf")

    def load_rules(self, force_reload: bool = False) -> None:
        """Load the rules again if a policy file has changed."""
        now = time.monotonic()
        if force_reload or now >= self._loaded_at + _RELOAD:
            super().load_rules(force_reload)
            self._loaded_at = now


def enforcer(conf: cfg.ConfigOpts) -> policy.Enforcer:
    """Return an enforcer with the rules and the overrides of ``[oslo_policy]``."""
    found = _Enforcer(conf)
    found.register_defaults(list_rules())
    return found


def get_enforcer() -> policy.Enforcer:
    """Return the enforcer for the command line tools of oslo.policy.

    These tools know only the global configuration.
    """
    cfg.CONF([], project="cleanup-orchestrator")
    return enforcer(cfg.CONF)


#: The kinds of holds whose texts are protected, and the rule that allows to read them (the reason and the user).
READ = {"lien": LIEN_GET, "waiver": WAIVER_GET, "brake": BRAKE_GET}


@dataclasses.dataclass(frozen=True, slots=True)
class RequesterReads:
    """How long requesters may read deletions that have ended."""

    days: int = 0  #: 0: for ever
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.max  #: returns the database's time

    def ended_since(self) -> datetime.datetime | None:
        """Return when a deletion must have ended, at the earliest; ``None``: at any time."""
        return self.now() - datetime.timedelta(days=self.days) if self.days else None


class PolicyEnforcer:
    """Checks policy rules. Returns the decision and never raises."""

    def __init__(self, enforcer_: policy.Enforcer, reads: RequesterReads = RequesterReads()) -> None:
        self._enforcer, self.reads = enforcer_, reads

    def may(
        self,
        context: RequestContext,
        rule: str,
        domain_id: str | None = None,
        project_id: str | None = None,
        user_id: str | None = None,
    ) -> bool:
        """Return whether the requester is allowed a rule for a project of a domain.

        Without a domain: for every project of the cloud.

        :param user_id: who requested the deletion that the rule is about; ``None``: it is about no deletion
        """
        target = {"target.project.domain_id": domain_id, "target.project.id": project_id}
        if user_id:  # without the key, a check of the requester fails whatever the token has: a noticed one has no user
            target["target.deletion.user_id"] = user_id
        return bool(self._enforcer.authorize(rule, target, context, do_raise=False))

    def may_about(self, context: RequestContext, rule: str, d: Deletion) -> bool:
        """Return whether the requester is allowed a rule for a deletion.

        That the user requested the deletion no longer counts if it ended long ago.
        """
        own = bool(d.user_id) and d.user_id == context.user_id
        since = self.reads.ended_since() if own and d.finished_at is not None else None
        over = since is not None and d.finished_at is not None and d.finished_at < since
        return self.may(context, rule, d.domain_id, d.project_id, None if over else d.user_id)

    def readable(self, context: RequestContext) -> Collection[str]:
        """Return the kinds of ``READ`` whose texts the requester may read.

        A rule is only checked when its kind is looked up: most deletions have no such text.
        """
        return _Readable(lambda rule: self.may(context, rule))

    def may_somewhere(self, context: RequestContext, rule: str) -> bool:
        """Return whether a rule is allowed everywhere, or in the domain of the token."""
        return self.may(context, rule) or bool(context.domain_id and self.may(context, rule, context.domain_id))


class _Readable(Collection[str]):
    """The kinds of ``READ`` that a requester may read, each checked at most once."""

    def __init__(self, may: Callable[[str], bool]) -> None:
        self._may, self._known = may, dict[str, bool]()

    def __contains__(self, kind: object) -> bool:
        if not isinstance(kind, str) or kind not in READ:
            return False
        if kind not in self._known:
            self._known[kind] = self._may(READ[kind])
        return self._known[kind]

    def __iter__(self) -> Iterator[str]:
        return (kind for kind in READ if kind in self)

    def __len__(self) -> int:
        return sum(1 for _kind in self)
