"""The policy rules with their texts and operations, and the enforcer.

The texts are in ``etc/policy.yaml.sample`` and in the manual.
"""

from __future__ import annotations

import time

from oslo_config import cfg
from oslo_policy import policy

from cleanup_orchestrator.api import policies
from cleanup_orchestrator.api.operations import OPERATIONS

_SCOPES = ["system", "domain", "project"]


def _rule(name: str, description: str, who: str = policies.ADMIN_OR_DOMAIN_MANAGER) -> policy.DocumentedRuleDefault:
    checked = [key for key, each in OPERATIONS.items() if name in (each.rule.name, *each.rule.also)]
    operations = [{"method": method, "path": path} for method, path in checked]
    return policy.DocumentedRuleDefault(name, who, description, operations, scope_types=_SCOPES)


_RULES = [
    policy.RuleDefault("admin_required", "role:admin", "Users who are admins of the whole cloud."),
    _rule(policies.CREATE, "Request the deletion of a project."),
    _rule(
        policies.LIST,
        "List deletions, and search the leftovers and journals of all deletions. The rule is checked for all domains "
        "first. If it denies that, the answer is limited to the domain of the token. If it denies that, too, the list "
        "is limited to the deletions that the user requested and may still read, and the searches "
        "(``GET /v1/leftovers`` and ``GET /v1/events``) are refused.",
        who=policies.ADMIN_OR_DOMAIN_READER_OR_REQUESTER,
    ),
    _rule(
        policies.GET,
        "Show a deletion, its leftovers and its journal. Other users get 404. The user who requested the deletion may "
        "read it for ``[api] requester_reads_days`` days after its end. It shows the IDs and origins of the liens on "
        "the project also to users who may not read liens, such as readers of the domain, and not the reasons.",
        who=policies.ADMIN_OR_DOMAIN_READER_OR_REQUESTER,
    ),
    _rule(
        policies.GRANTS_GET,
        "See in a deletion which role assignments its lock removed. Users who may cancel or restore the deletion see "
        "them in any case.",
        who=policies.ADMIN_OR_DOMAIN_READER,
    ),
    _rule(
        policies.SET,
        "Change the date, the reason or the ticket of a deletion: the date only until the deletion begins. A deletion "
        "that an admin requested needs ``cleanup:deletions:cancel_of_admin``, too.",
    ),
    _rule(
        policies.POSTPONE,
        "Move the date of a deletion to a later one, at most ``[deletion] max_delay`` days after its request, also if "
        "an admin requested the deletion. To give it to the owners of a project, add for example ``or (role:manager "
        "and project_id:%(target.project.id)s)``, here and in ``cleanup:deletions:get``.",
        who=policies.ADMIN,
    ),
    _rule(
        policies.REPORT,
        "Get the report of a deletion, with its whole journal. Other users get 404. What a user may not see of the "
        "deletion and of its journal is not in the report either.",
        who=policies.ADMIN_OR_DOMAIN_READER_OR_REQUESTER,
    ),
    _rule(policies.RETRY, "Start a new attempt of a deletion."),
    _rule(policies.CANCEL, "Stop a deletion and undo its lock."),
    _rule(
        policies.CANCEL_OF_ADMIN,
        "Stop a deletion, or restore its project, although a user whom this rule allows has requested, retried or "
        "forced the deletion, or one above it. It is checked in addition to the rule of the action, and also when a "
        "deletion is requested, retried or forced, to record whether its user is such a user. By default a manager of "
        "the domain cannot undo an admin's decision.",
        who=policies.ADMIN,
    ),
    _rule(
        policies.FORCE,
        "Let a stuck deletion abandon the resources that it cannot delete. They stay in the cloud, without a project.",
        who=policies.ADMIN,
    ),
    _rule(
        policies.APPROVE,
        "Approve a deletion that exceeds a limit. Users who requested, retried or forced the deletion cannot approve "
        "it, whatever this rule says. A domain manager can create a second user in the domain. Therefore a rule that "
        "allows domain managers allows one person to request and to approve a deletion.",
        who=policies.ADMIN,
    ),
    _rule(
        policies.RESTORE,
        "Restore a project before anything is deleted: stop the deletion and undo its lock.",
    ),
    _rule(
        policies.PLAN_GET,
        "Show the plan of a dry run. Other users get 404.",
        who=policies.ADMIN_OR_DOMAIN_READER_OR_REQUESTER,
    ),
    _rule(
        policies.SERVICES,
        "List the services of the catalog and their plugins. The target is the domain of the token.",
        who=policies.ADMIN_OR_DOMAIN_READER,
    ),
    _rule(policies.BRAKE_GET, "Show whether the brake is set.", who=policies.ADMIN_OR_READER),
    _rule(policies.BRAKE_SET, "Set the brake: stop every deletion of the cloud.", who=policies.ADMIN),
    _rule(policies.BRAKE_LIFT, "Lift the brake: let deletions continue.", who=policies.ADMIN),
    _rule(policies.LIEN_CREATE, "Protect a project from deletion.", who=policies.ADMIN),
    _rule(policies.LIEN_LIST, "List liens.", who=policies.ADMIN_OR_READER),
    _rule(policies.LIEN_GET, "Show a lien.", who=policies.ADMIN_OR_READER),
    _rule(policies.LIEN_DELETE, "Remove a lien: allow the deletion of the project.", who=policies.ADMIN),
    _rule(
        policies.WAIVER_CREATE,
        "Let deletions skip a service. The resources of their projects in this service stay behind, unlisted.",
        who=policies.ADMIN,
    ),
    _rule(policies.WAIVER_LIST, "List waivers.", who=policies.ADMIN_OR_READER),
    _rule(policies.WAIVER_GET, "Show a waiver.", who=policies.ADMIN_OR_READER),
    _rule(policies.WAIVER_DELETE, "Withdraw a waiver.", who=policies.ADMIN),
    _rule(
        policies.ORPHAN_SCAN_CREATE,
        "Start a scan of all services for resources of dead projects. A scan only reads.",
        who=policies.ADMIN,
    ),
    _rule(policies.ORPHAN_SCAN_LIST, "List orphan scans.", who=policies.ADMIN_OR_READER),
    _rule(
        policies.ORPHAN_SCAN_GET,
        "Show an orphan scan and the resources of dead projects that it found.",
        who=policies.ADMIN_OR_READER,
    ),
    _rule(policies.ORPHAN_SCAN_CANCEL, "Cancel an orphan scan.", who=policies.ADMIN),
    _rule(
        policies.ORPHAN_SCAN_ADOPT,
        "Delete the resources of a dead project. This is irreversible, and no member of the project is left to object.",
        who=policies.ADMIN,
    ),
]


def list_rules() -> list[policy.RuleDefault]:
    """Return all rules, for oslopolicy-sample-generator and the enforcer."""
    return list(_RULES)


#: Seconds between two searches for changed policy files.
_RELOAD = 1.0


class _Enforcer(policy.Enforcer):
    """Looks for changed policy files once a second: a look at each check would make ten system calls."""

    _loaded_at = float("-inf")

    def load_rules(self, force_reload: bool = False) -> None:
        """Load the rules again if a policy file has changed."""
        now = time.monotonic()
        if force_reload or now >= self._loaded_at + _RELOAD:
            super().load_rules(force_reload)
            self._loaded_at = now


def enforcer(conf: cfg.ConfigOpts) -> policy.Enforcer:
    """Return an enforcer with the rules and the overrides of ``[oslo_policy]``."""
    policy_enforcer = _Enforcer(conf)
    policy_enforcer.register_defaults(list_rules())
    return policy_enforcer


def get_enforcer() -> policy.Enforcer:
    """Return the enforcer for the command line tools of oslo.policy.

    These tools know only the global configuration.
    """
    cfg.CONF([], project="cleanup-orchestrator")
    return enforcer(cfg.CONF)
