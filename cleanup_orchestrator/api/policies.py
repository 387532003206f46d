"""Who may do what. The defaults are the people who may delete a project in Keystone (``identity:delete_project``)."""

from __future__ import annotations

from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import policy

CREATE = "cleanup:deletions:create"
LIST = "cleanup:deletions:list"
GET = "cleanup:deletions:get"
RETRY = "cleanup:deletions:retry"
CANCEL = "cleanup:deletions:cancel"
APPROVE = "cleanup:deletions:approve"
RESTORE = "cleanup:deletions:restore"
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
#: Whoever may see the whole cloud: Keystone's reader of the system.
ADMIN_OR_READER = "(rule:admin_required) or (role:reader and system_scope:all)"
#: As Keystone has it. The target is flat: a nested one would deny silently.
ADMIN_OR_DOMAIN_MANAGER = (
    "(rule:admin_required) or (role:manager and domain_id:%(target.project.domain_id)s "
    "and not None:%(target.project.domain_id)s)"
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
    policy.RuleDefault("admin_required", "role:admin", "Who is an admin everywhere."),
    _rule(CREATE, "Ask for the deletion of a project.", ("POST", "/v1/deletions")),
    _rule(
        LIST,
        "List deletions. Asked for all domains first; who may not see all sees those of the domain of their token.",
        ("GET", "/v1/deletions"),
    ),
    _rule(
        GET,
        "See a deletion, its leftovers and its journal. To others it looks as if it were not there.",
        ("GET", "/v1/deletions/{id}"),
        ("GET", "/v1/deletions/{id}/leftovers"),
        ("GET", "/v1/deletions/{id}/events"),
    ),
    _rule(RETRY, "Start a new attempt.", ("POST", "/v1/deletions/{id}/retry")),
    _rule(CANCEL, "Stop a deletion and undo its drain.", ("POST", "/v1/deletions/{id}/cancel")),
    _rule(
        FORCE,
        "Let a deletion that is under way and cannot go on let go of what is left. It stays behind, without a project.",
        ("DELETE", "/v1/projects/{id}/force"),
        who=ADMIN,
    ),
    _rule(
        APPROVE,
        "Approve a deletion that is beyond a limit. Users who asked for it, retried or forced it may not, whatever "
        "this rule says. A domain's manager can make a second user of the domain: a rule that lets managers approve "
        "lets one person approve what the same person asked for.",
        ("POST", "/v1/deletions/{id}/approve"),
        who=ADMIN,
    ),
    _rule(
        RESTORE,
        "Give a project back before anything of it is deleted: stop the deletion and undo its drain.",
        ("POST", "/v1/deletions/{id}/restore"),
    ),
    _rule(
        PLAN_GET,
        "See the plan that a dry run left. To others it looks as if it were not there.",
        ("GET", "/v1/plans/{id}"),
        ("GET", "/v1/plans/{id}/resources"),
    ),
    _rule(
        SERVICES,
        "List who answers for which service of the catalog. The target is the domain of the token.",
        ("GET", "/v1/services"),
    ),
    _rule(BRAKE_GET, "See whether the brake is on.", ("GET", "/v1/brake"), who=ADMIN),
    _rule(BRAKE_SET, "Pull the brake: stop every deletion of the cloud.", ("POST", "/v1/brake"), who=ADMIN),
    _rule(BRAKE_UNSET, "Lift the brake: let deletions go on.", ("DELETE", "/v1/brake"), who=ADMIN),
    _rule(LIEN_CREATE, "Protect a project from its deletion.", ("POST", "/v1/liens"), who=ADMIN),
    _rule(LIEN_LIST, "List liens.", ("GET", "/v1/liens"), who=ADMIN),
    _rule(LIEN_GET, "See a lien.", ("GET", "/v1/liens/{id}"), who=ADMIN),
    _rule(LIEN_DELETE, "Remove a lien: let the project be deleted.", ("DELETE", "/v1/liens/{id}"), who=ADMIN),
    _rule(
        WAIVER_CREATE,
        "Record that deletions go on without a service. What it holds for their projects stays behind, unseen.",
        ("POST", "/v1/waivers"),
        who=ADMIN,
    ),
    _rule(WAIVER_LIST, "List waivers.", ("GET", "/v1/waivers"), who=ADMIN),
    _rule(WAIVER_GET, "See a waiver.", ("GET", "/v1/waivers/{id}"), who=ADMIN),
    _rule(WAIVER_DELETE, "Withdraw a waiver.", ("DELETE", "/v1/waivers/{id}"), who=ADMIN),
    _rule(
        ORPHAN_SCAN_CREATE,
        "Begin a search through every service for what dead projects left behind. It only reads.",
        ("POST", "/v1/orphan-scans"),
        who=ADMIN,
    ),
    _rule(ORPHAN_SCAN_LIST, "List orphan scans.", ("GET", "/v1/orphan-scans"), who=ADMIN_OR_READER),
    _rule(
        ORPHAN_SCAN_GET,
        "See an orphan scan, and the resources of all dead projects that it found.",
        ("GET", "/v1/orphan-scans/{id}"),
        ("GET", "/v1/orphan-scans/{id}/orphans"),
        ("GET", "/v1/orphan-scans/{id}/projects"),
        who=ADMIN_OR_READER,
    ),
    _rule(ORPHAN_SCAN_CANCEL, "End an orphan scan.", ("DELETE", "/v1/orphan-scans/{id}"), who=ADMIN),
    _rule(
        ORPHAN_SCAN_ADOPT,
        "Have what a dead project left behind deleted. Irreversible, and nobody of the project can object any more.",
        ("POST", "/v1/orphan-scans/{id}/adopt"),
        who=ADMIN,
    ),
]


def list_rules() -> list[policy.RuleDefault]:
    """Return every rule, for oslopolicy-sample-generator and the enforcer."""
    return list(_RULES)


def enforcer(conf: cfg.ConfigOpts) -> policy.Enforcer:
    """Return an enforcer with our rules; ``[oslo_policy]`` says where overrides are."""
    found = policy.Enforcer(conf)
    found.register_defaults(list_rules())
    return found


def get_enforcer() -> policy.Enforcer:
    """Return the enforcer for oslo.policy's command line tools, which know only the global configuration."""
    cfg.CONF([], project="cleanup-orchestrator")
    return enforcer(cfg.CONF)


#: What holds deletions, and the rule of who may read its text: why it is there, and who recorded it.
READ = {"lien": LIEN_GET, "waiver": WAIVER_GET, "brake": BRAKE_GET}


class PolicyEnforcer:
    """Answers "may they?". Never raises: what follows from a no is the caller's."""

    def __init__(self, enforcer_: policy.Enforcer) -> None:
        self._enforcer = enforcer_

    def may(
        self, context: RequestContext, rule: str, domain_id: str | None = None, project_id: str | None = None
    ) -> bool:
        """Whether the requester may do this to a project of that domain; no domain: to any project there is."""
        target = {"target.project.domain_id": domain_id, "target.project.id": project_id}
        return bool(self._enforcer.authorize(rule, target, context, do_raise=False))

    def readable(self, context: RequestContext) -> frozenset[str]:
        """Return of which of ``READ`` the requester may read the texts; of the others only the kind and whom to ask."""
        return frozenset(kind for kind, rule in READ.items() if self.may(context, rule))

    def may_somewhere(self, context: RequestContext, rule: str) -> bool:
        """Whether they may do it everywhere, or at least in the domain of their token."""
        return self.may(context, rule) or bool(context.domain_id and self.may(context, rule, context.domain_id))
