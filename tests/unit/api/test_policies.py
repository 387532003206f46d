"""What the default policy allows: each rule, for each kind of token."""

import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import opts

from cleanup_orchestrator.api import policies, policy_rules
from tests.support.cases import each_case

#: Rules that allow admins only.
ADMINS_ONLY = {
    policies.APPROVE,
    policies.POSTPONE,
    policies.CANCEL_OF_ADMIN,
    policies.FORCE,
    policies.BRAKE_SET,
    policies.BRAKE_LIFT,
    policies.LIEN_CREATE,
    policies.LIEN_DELETE,
    policies.WAIVER_CREATE,
    policies.WAIVER_DELETE,
    policies.ORPHAN_SCAN_CREATE,
    policies.ORPHAN_SCAN_CANCEL,
    policies.ORPHAN_SCAN_ADOPT,
}
#: Rules that also allow a reader of the system.
READERS = {
    policies.BRAKE_GET,
    policies.LIEN_LIST,
    policies.LIEN_GET,
    policies.WAIVER_LIST,
    policies.WAIVER_GET,
    policies.ORPHAN_SCAN_LIST,
    policies.ORPHAN_SCAN_GET,
}
#: Rules that also allow readers and managers of the project's domain.
DOMAIN_READERS = {
    policies.LIST,
    policies.GET,
    policies.GRANTS_GET,
    policies.PLAN_GET,
    policies.REPORT,
    policies.SERVICES,
}
#: Of those, the rules that also allow the user who requested the deletion.
REQUESTERS = {policies.LIST, policies.GET, policies.PLAN_GET, policies.REPORT}
#: All others, which change something: admins, and managers of the project's domain.
MANAGERS = {rule.name for rule in policy_rules.list_rules() if rule.name.startswith("cleanup:")}
MANAGERS -= ADMINS_ONLY | READERS | DOMAIN_READERS

PEOPLE = {
    "an admin": RequestContext(roles=["admin"], project_id="x", project_domain_id="other"),
    "an admin of the system": RequestContext(roles=["admin"], system_scope="all"),
    "a reader of the system": RequestContext(roles=["reader"], system_scope="all"),
    "a member of the system": RequestContext(roles=["member"], system_scope="all"),
    "a manager of the domain": RequestContext(roles=["manager"], domain_id="dom"),
    "a manager of another domain": RequestContext(roles=["manager"], domain_id="other"),
    "a reader of the domain": RequestContext(roles=["reader"], domain_id="dom"),
    "a manager of a project": RequestContext(roles=["manager"], project_id="p", project_domain_id="dom"),
    "a member of the domain": RequestContext(roles=["member", "reader"], domain_id="dom"),
    "another role on the domain": RequestContext(roles=["creator"], domain_id="dom"),
    "a reader of a project": RequestContext(roles=["reader"], project_id="p", project_domain_id="dom"),
    "a token without roles": RequestContext(),
}
ADMINS = {"an admin", "an admin of the system"}
#: Keystone's ``member`` implies ``reader``.
OF_THE_DOMAIN = {"a manager of the domain", "a reader of the domain", "a member of the domain"}


@pytest.fixture(scope="module")
def enforcer():
    conf = cfg.ConfigOpts()
    conf([])
    opts.set_defaults(conf)
    # Not as defaults: those belong to the options, which all of the process share.
    for name, value in {"policy_file": "no such file", "enforce_new_defaults": True}.items():
        conf.set_override(name, value, "oslo_policy")
    return policies.PolicyEnforcer(policy_rules.enforcer(conf))


def who_may(enforcer, rule, domain_id="dom"):
    return {name for name, person in PEOPLE.items() if enforcer.may(person, rule, domain_id, "p")}


def test_every_rule_is_here():
    assert {rule.name for rule in policy_rules.list_rules()} == {
        "admin_required", *ADMINS_ONLY, *READERS, *DOMAIN_READERS, *MANAGERS,
    }  # fmt: skip
    assert MANAGERS == {policies.CREATE, policies.SET, policies.RETRY, policies.CANCEL, policies.RESTORE}


@each_case("rule", sorted(ADMINS_ONLY))
def test_admins_alone(enforcer, rule):
    assert who_may(enforcer, rule) == ADMINS


@each_case("rule", sorted(READERS))
def test_admins_and_readers_of_the_whole_system(enforcer, rule):
    """Orphans, liens, waivers and the brake concern projects of every domain."""
    assert who_may(enforcer, rule) == {*ADMINS, "a reader of the system"}


@each_case("rule", sorted(MANAGERS))
def test_admins_and_managers_of_the_projects_domain(enforcer, rule):
    assert who_may(enforcer, rule) == {*ADMINS, "a manager of the domain"}
    assert who_may(enforcer, rule, "other") == {*ADMINS, "a manager of another domain"}


@each_case("rule", sorted(DOMAIN_READERS))
def test_admins_and_readers_of_the_system_and_of_the_projects_domain(enforcer, rule):
    assert who_may(enforcer, rule) == {*ADMINS, "a reader of the system", *OF_THE_DOMAIN}
    assert who_may(enforcer, rule, "other") == {*ADMINS, "a reader of the system", "a manager of another domain"}


@each_case("rule", sorted(MANAGERS | DOMAIN_READERS))
def test_where_no_domain_is_named_admins_and_readers_of_the_system_alone(enforcer, rule):
    """A manager without a domain would else match a project without one: None is None."""
    assert who_may(enforcer, rule, None) == ADMINS | ({"a reader of the system"} & who_may(enforcer, rule))


@each_case(
    "requester",
    ["u", "other", "", None],
    "user",
    ["u", "", None],
    "rule",
    sorted(MANAGERS | DOMAIN_READERS | READERS | ADMINS_ONLY),
)
def test_who_requested_a_deletion_follows_it_with_any_token_and_does_nothing_else(enforcer, rule, user, requester):
    """An empty user id matches no user. A deletion that was noticed has no user id, so no user is its requester."""
    context = RequestContext(user_id=user, roles=["member", "reader"], project_id="x", project_domain_id="other")
    allowed = enforcer.may(context, rule, "dom", "p", requester)
    assert allowed is (rule in REQUESTERS and user == requester == "u")


@pytest.mark.parametrize("rule", [policies.LIST, policies.SERVICES])
def test_a_list_covers_all_domains_or_the_domain_of_the_token(enforcer, rule):
    found = {name for name, person in PEOPLE.items() if enforcer.may_somewhere(person, rule)}
    assert found == {*ADMINS, "a reader of the system", *OF_THE_DOMAIN, "a manager of another domain"}
