"""The page with the default permissions has each rule and each call, and says what the policy decides.

``functional/test_api/test_permissions.py`` compares the page with the answers of the API.
"""

import functools
import sys
from pathlib import Path

import pytest
from oslo_config import cfg
from oslo_policy import opts, policy

from cleanup_orchestrator.api import policies, policy_rules
from cleanup_orchestrator.api.operations import OPERATIONS
from tests.support.cases import each_case

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "doc" / "ext"))
import permission_table  # noqa: E402

sys.path.remove(str(ROOT / "doc" / "ext"))

RULES = [rule.name for rule in policy_rules.list_rules() if rule.name.startswith("cleanup:")]
CALLERS = permission_table.callers()


@functools.cache
def page():
    return permission_table.page()


@functools.cache
def rows():
    return list(permission_table.rows())


@each_case("rule", RULES)
def test_each_rule_has_one_row(rule):
    assert page().count(f"   * - ``{rule}``\n") == 1


@each_case("method,path", OPERATIONS)
def test_each_call_is_in_a_row_that_fits(method, path):
    rules = {rule for rule, calls, _ in rows() if f"``{method} {path}``" in calls.split(", ")}
    assert rules
    assert (rules == {permission_table.PUBLIC}) is OPERATIONS[method, path].public


def test_no_row_has_a_call_that_the_api_does_not_have():
    named = {call.strip("`") for _, calls, _ in rows() for call in calls.split(", ")}
    assert named == {f"{method} {path}" for method, path in OPERATIONS}


def test_each_role_with_each_scope_is_a_caller_and_each_caller_has_a_column():
    every = {(caller.role, caller.scope) for caller in CALLERS}
    roles = ("admin", "manager", "member", "reader", "service")
    assert every == {(role, scope) for role in roles for scope in ("system", "domain", "project")} | {
        ("", "no scope"), ("", "no token"),
    }  # fmt: skip
    columns = permission_table.columns([cells for _, _, cells in rows()])
    assert sum(len(group) for group in columns.values()) == len(CALLERS)


class Changed:
    """An enforcer with one rule, ``cleanup:test``."""

    def __init__(self, check):
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[], default_config_dirs=[])
        opts.set_defaults(conf)
        conf.set_override("policy_file", "no such file", "oslo_policy")
        found = policy.Enforcer(conf)
        found.register_default(policy.RuleDefault("cleanup:test", check))
        self.enforcer = policies.PolicyEnforcer(found)

    def cell(self, role, scope):
        [caller] = [caller for caller in CALLERS if (caller.role, caller.scope) == (role, scope)]
        return permission_table.cell(self.enforcer, "cleanup:test", caller)


SAME_DOMAIN = "domain_id:%(target.project.domain_id)s"
IN_THE_DOMAIN = f"({SAME_DOMAIN} and not None:%(target.project.domain_id)s)"
OWN = "user_id:%(target.deletion.user_id)s"


@pytest.mark.parametrize(
    ("check", "role", "scope", "found"),
    [
        ("role:reader", "member", "project", "all"),
        ("role:reader", "service", "project", "–"),
        ("!", "admin", "system", "–"),
        ("@", "", "no scope", "all"),
        ("@", "", "no token", "–"),
        (IN_THE_DOMAIN, "reader", "domain", "domain"),
        (IN_THE_DOMAIN, "reader", "project", "–"),
        (OWN, "", "no scope", "own"),
        (f"{OWN} or {IN_THE_DOMAIN}", "service", "domain", "domain, own"),
    ],
)
def test_a_cell_is_what_the_rule_decides(check, role, scope, found):
    assert Changed(check).cell(role, scope) == found


@pytest.mark.parametrize(
    ("check", "scope"), [(f"not {SAME_DOMAIN}", "domain"), (f"not {OWN}", "domain"), (SAME_DOMAIN, "project")]
)
def test_a_decision_without_a_word_stops_the_build(check, scope):
    """Rules that deny only the requester or the own domain, and one that allows a token without a domain all."""
    with pytest.raises(ValueError, match=f"cleanup:test for admin, {scope}"):
        Changed(check).cell("admin", scope)
