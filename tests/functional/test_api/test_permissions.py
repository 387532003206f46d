"""The page with the default permissions agrees with the answers of the API: each call, each caller, each target."""

import datetime
import functools
import sys
from pathlib import Path

import pytest

from cleanup_orchestrator.api.operations import OPERATIONS
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.functional.test_api.test_plans import planned

EXTENSIONS = str(Path(__file__).parents[3] / "doc" / "ext")
sys.path.insert(0, EXTENSIONS)
import permission_table  # noqa: E402

sys.path.remove(EXTENSIONS)

CALLERS = permission_table.callers()
#: By the target of a rule: a project. Its deletion is requested by the caller only for ``own``.
PROJECTS = {"domain": "p1", "own": "own", "foreign": "p2"}
#: The rule that is checked in addition for a deletion in the domain that an admin has requested.
OF_ADMIN, OF_ADMIN_RULE = "of-admin", "``cleanup:deletions:cancel_of_admin``"
#: The codes of the answers to a caller whom the policy does not allow the call.
REFUSED = {"unauthorized", "forbidden", "deletion_not_found", "plan_not_found"}
IN_A_DAY = f"{datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
BODIES = {
    ("POST", "/v1/brake"): {"reason": "x"},
    ("POST", "/v1/liens"): {"project_id": "child-2", "origin": "o", "reason": "x"},
    ("POST", "/v1/waivers"): {"service_type": "dns", "reason": "x", "expires_at": IN_A_DAY, "allow_unknown": True},
    ("PATCH", "/v1/deletions/{id}"): {"ticket": "x"},
    ("POST", "/v1/deletions/{id}/approve"): {"reason": "x"},
    ("DELETE", "/v1/projects/{id}/force"): {"reason": "x"},
    ("POST", "/v1/orphan-scans/{id}/adopt"): {"project_id": "0" * 32},
}


@functools.cache
def rows():
    return list(permission_table.rows())


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """An application with one deletion and one plan for each target, and a token for each caller."""
    keystone = ks.Keystone()
    keystone.project("own", "requested by the caller", "d2")
    keystone.project(OF_ADMIN, "requested by an admin", "d1")
    found = Site(tmp_path_factory.mktemp("site"), keystone=keystone)
    mine = keystone.token("requesters-token", "manager", domain_id="d2", user="caller")
    requesters = {"domain": ks.MANAGER, "own": mine, "foreign": ks.OTHER_MANAGER}
    found.tokens = {(each.role, each.scope): token(keystone, each) for each in CALLERS}
    found.ids = {}
    for target, project in PROJECTS.items():
        own = {"user_id": "caller-id"} if target == "own" else {}
        found.ids["plans", target] = planned(found, project, **own)
        found.ids["deletions", target] = found.ask(project, requesters[target], mode="cascade")["id"]
    found.ids["deletions", OF_ADMIN] = found.ask(OF_ADMIN, ks.ADMIN, mode="cascade")["id"]
    for kind, body in (
        ("lien", {**BODIES["POST", "/v1/liens"], "project_id": "child-1"}),
        ("waiver", {**BODIES["POST", "/v1/waivers"], "service_type": "weather"}),
        ("orphan-scan", None),
    ):
        answer = found.post(f"/v1/{kind}s", body)
        assert answer.status < 300, answer.body
        found.ids[f"{kind}s"] = answer.json[kind.replace("-", "_")]["id"]
    yield found
    found.close()
    keystone.close()


def token(keystone, caller):
    """The token of a caller, as Keystone describes it; every caller is the same user."""
    if caller.context is None:
        return None
    roles = [{"id": name, "name": name} for name in caller.context.roles]
    scope = {
        "system": {"system": True}, "domain": {"domain_id": "d1"}, "project": {"project_id": "p1"}, "no scope": {},
    }[caller.scope]  # fmt: skip
    return keystone.token(f"{caller.role}-{caller.scope}-token", "", user="caller", **scope, roles=roles)


def answer(site, caller, method, path, target):
    """The answer to a call about a target; a call that is not about a deletion has no target."""
    kind = path.split("/")[2] if path.count("/") > 1 else ""
    body = BODIES.get((method, path))
    id_ = site.ids.get((kind, target)) or site.ids.get(kind, "")
    if kind == "projects":
        id_ = PROJECTS[target]
    elif (method, path) == ("POST", "/v1/deletions"):
        # Not the mode of the deletion under way: an admin's request for the same would make it an admin's deletion.
        body = {"project_id": PROJECTS[target], "mode": "report"}
    query = "?resource_id=x" if path == "/v1/events" else ""
    return site.call(method, path.format(id=id_) + query, site.tokens[caller.role, caller.scope], body)


def allowed(found):
    """Whether the policy allowed the call; another refusal comes after the policy."""
    if found.status < 400:
        return True
    assert found.error["code"] not in ("invalid_query", "invalid_body"), found.error
    return found.error["code"] not in REFUSED


def agrees(site, caller, method, path, cell, rule=""):
    """Whether the API answers a call as the cell says."""
    words = cell.split(", ")
    if rule == OF_ADMIN_RULE:
        return allowed(answer(site, caller, method, path, OF_ADMIN)) is (words[0] in ("all", "domain"))
    about_deletion = any(path.startswith(f"/v1/{kind}") for kind in ("deletions", "plans", "projects"))
    if (method, path) == ("GET", "/v1/deletions"):
        found = answer(site, caller, method, path, None)
        listed = {d["id"] for d in found.json["deletions"]} if found.status == 200 else set()
        known = {id_: key[1] for key, id_ in site.ids.items() if isinstance(key, tuple) and key[1] in PROJECTS}
        return {known.get(id_) for id_ in listed} - {None} == (
            {*PROJECTS} if cell == "all" else {words[0]} & {*PROJECTS}
        )
    if path in ("/v1/leftovers", "/v1/events"):
        return allowed(answer(site, caller, method, path, None)) is (words[0] in ("all", "domain"))
    if path == "/v1/services" or not about_deletion:
        return allowed(answer(site, caller, method, path, None)) is (cell != permission_table.NEVER)
    return all(
        allowed(answer(site, caller, method, path, target)) is (cell == "all" or target in words) for target in PROJECTS
    )


def test_the_api_answers_as_the_page_says(site):
    wrong = []
    for rule, calls, cells in rows():
        # The rule to postpone allows a part of what the rule to change does: test_requests has it.
        for call in calls.split(", ") if "get_grants" not in rule and "postpone" not in rule else ():
            method, path = call.strip("`").split(" ")
            assert (method, path) in OPERATIONS
            for caller, cell in zip(CALLERS, cells, strict=True):
                if not agrees(site, caller, method, path, cell, rule):
                    wrong.append(f"{rule}: {call} for {caller.role}, {caller.scope}: not {cell}")
    assert not wrong, "\n".join(wrong)


def test_a_rule_for_domains_allows_no_call_about_the_whole_cloud(tmp_path, keystone):
    """Such a call has no domain. A rule that names the domain of the token refuses it."""
    calls = {call: each.rule.name for call, each in OPERATIONS.items() if each.rule.refusal}
    policy = tmp_path / "policy.yaml"
    check = "role:manager and domain_id:%(target.project.domain_id)s"
    policy.write_text("".join(f'"{rule}": "{check}"\n' for rule in {*calls.values()}))
    found = Site(tmp_path, keystone=keystone, extra=f"[oslo_policy]\npolicy_file = {policy}\n")
    statuses = {call: found.call(*call, ks.MANAGER, BODIES.get(call)).status for call in calls}
    found.close()
    assert set(statuses.values()) == {403}, statuses


def test_removed_role_assignments_are_shown_as_the_page_says(site):
    """To a caller without the rule, the field is ``null``."""
    [cells] = [cells for rule, _, cells in rows() if "get_grants" in rule]
    for caller, cell in zip(CALLERS, cells, strict=True):
        shown = set()
        for target in PROJECTS:
            found = answer(site, caller, "GET", "/v1/deletions/{id}", target)
            if found.status == 200 and found.json["deletion"]["grants_removed"] is not None:
                shown.add(target)
        assert shown == ({*PROJECTS} if cell == "all" else {*cell.split(", ")} - {permission_table.NEVER}), caller


@pytest.mark.parametrize(("cell", "right"), [("all", True), ("domain", False), ("–", False), ("domain, own", False)])
def test_a_wrong_cell_is_seen(site, cell, right):
    [admin] = [caller for caller in CALLERS if (caller.role, caller.scope) == ("admin", "system")]
    for path in ("/v1/deletions", "/v1/deletions/{id}", "/v1/plans/{id}"):
        assert agrees(site, admin, "GET", path, cell) is right
