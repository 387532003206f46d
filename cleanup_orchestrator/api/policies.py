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
SERVICES = "cleanup:services:list"

ADMIN = "rule:admin_required"
#: As Keystone has it. The target is flat: a nested one would deny silently.
ADMIN_OR_DOMAIN_MANAGER = (
    "(rule:admin_required) or (role:manager and domain_id:%(target.project.domain_id)s "
    "and not None:%(target.project.domain_id)s)"
)
_SCOPES = ["system", "domain", "project"]


def _rule(name: str, description: str, *operations: tuple[str, str]) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name,
        ADMIN_OR_DOMAIN_MANAGER,
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
        SERVICES,
        "List who answers for which service of the catalog. The target is the domain of the token.",
        ("GET", "/v1/services"),
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


class Judge:
    """Answers "may they?". Never raises: what follows from a no is the caller's."""

    def __init__(self, enforcer_: policy.Enforcer) -> None:
        self._enforcer = enforcer_

    def may(
        self, context: RequestContext, rule: str, domain_id: str | None = None, project_id: str | None = None
    ) -> bool:
        """Whether the requester may do this to a project of that domain; no domain: to any project there is."""
        target = {"target.project.domain_id": domain_id, "target.project.id": project_id}
        return bool(self._enforcer.authorize(rule, target, context, do_raise=False))

    def may_somewhere(self, context: RequestContext, rule: str) -> bool:
        """Whether they may do it everywhere, or at least in the domain of their token."""
        return self.may(context, rule) or bool(context.domain_id and self.may(context, rule, context.domain_id))
