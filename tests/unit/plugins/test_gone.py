"""What a project that is gone left where only its own token showed it: what an admin's token is trusted with."""

import dataclasses

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Token
from cleanup_orchestrator.plugins import (
    block_storage,
    compute,
    container_infrastructure_management,
    identity,
    key_manager,
    object_store,
    orchestration,
)
from cleanup_orchestrator.plugins.base import NOTHING, Refused, Resource
from tests.support.sweeps import inventory
from tests.unit.answers import connection, project

DEAD = dataclasses.replace(project("dead"), gone=True)
SERVICES = (block_storage, compute, container_infrastructure_management, key_manager, object_store, orchestration)
ADMINS_ONLY = (200, {"services": []})  #: what Keystone tells admins, and its system's readers, alone
NO = (404, {"error": {"code": 404, "message": "Could not find it"}})


def types(module):
    return {type_.name: type_.for_missing_project(gone=True) for type_ in module.SERVICE.types}


def test_only_barbican_cannot_be_listed_for_a_project_that_is_gone():
    scoped = [t for module in SERVICES for t in module.SERVICE.types if t.token is Token.PROJECT]
    assert {t.name for t in scoped if t.for_missing_project(gone=True).token is Token.PROJECT} == {
        "order",
        "container",
        "secret",
    }
    assert all(t.for_missing_project(gone=False) is t for t in scoped)


# ----------------------------------------------------------------------------------------------------------------- Nova
def nova(servers, cut=False):
    """Nova: ids to owners of the servers in a cell that does not answer."""

    def answer(method, path, query, body):
        if path == "/servers":
            assert query == {"all_tenants": "1"}, "with any other filter Nova leaves them out"
            rows = [{"id": identity, "status": "UNKNOWN"} for identity in servers] + [{"id": "up", "name": "up"}]
            return 200, {"servers": rows, **({"servers_links": [{"rel": "next"}]} if cut else {})}
        return 200, {"server": {"id": path.rpartition("/")[2], "tenant_id": servers[path.rpartition("/")[2]]}}

    return connection(compute=answer)


@pytest.mark.parametrize(("servers", "found"), [({}, 0), ({"a": "alive"}, 0), ({"a": "alive", "b": "dead"}, 1)])
def test_servers_out_of_reach_are_distinguished_by_owner(servers, found):
    sweep = inventory(types(compute)["unreachable_server"], nova(servers), DEAD)
    assert (sweep.found, sweep.outcome) == (found, Outcome.LEFTOVERS if found else Outcome.CLEAR)


def test_a_list_of_servers_that_is_cut_short_says_nothing():
    sweep = inventory(types(compute)["unreachable_server"], nova({}, cut=True), DEAD)
    assert (sweep.outcome, sweep.reason) == (Outcome.UNKNOWN, Reason.PROJECT_GONE)
    assert "max_limit" in sweep.message


@pytest.mark.parametrize(("limit", "found"), [(10, 0), (33, 1)])
def test_nova_shows_no_quotas_of_a_project_that_keystone_does_not_know_but_limits(limit, found):
    def answer(method, path, query, body):
        if path != "/limits":
            return 400, {"badRequest": {"message": "Project ID dead is not a valid project."}}
        own = limit if query["tenant_id"] == "dead" else 10
        return 200, {"limits": {"absolute": {"maxServerGroups": own, "totalServerGroupsUsed": limit}}}

    assert inventory(types(compute)["quota_set"], connection(compute=answer), DEAD).found == found


# ----------------------------------------------------------------------------------------------------------------- Heat
def heat(abandon):
    def answer(method, path, query, body):
        assert method != "DELETE" or path.endswith("/abandon"), "with our token Heat would look in our own project"
        if path == f"/stacks/none/{NOTHING}/abandon":
            return abandon if abandon[0] != 200 else (404, {"error": {"type": "EntityNotFound"}})
        return abandon

    return connection(orchestration=answer)


def stack(status="CREATE_COMPLETE"):
    return Resource("s", "web", "dead", {"id": "s", "stack_name": "web", "project": "dead", "stack_status": status})


def test_a_stack_is_abandoned_and_never_deleted():
    cloud = heat((200, {}))
    types(orchestration)["stack"].delete(cloud, DEAD, stack())
    assert cloud.orchestration.writes() == [("DELETE", "/stacks/web/s/abandon", None)]


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ((400, {"error": {"type": "NotSupported"}}), "CREATE_COMPLETE", "enable_stack_abandon"),
        ((403, {"error": {"type": "Forbidden"}}), "CREATE_COMPLETE", "policy"),
        ((200, {}), "DELETE_FAILED", "asked to abandon it"),
    ],
)
def test_a_stack_that_heat_does_not_abandon_is_left_with_the_way_out(answer, status, said):
    with pytest.raises(Refused) as refused:
        types(orchestration)["stack"].delete(heat(answer), DEAD, stack(status))
    assert refused.value.verdict.reason is Reason.PROJECT_GONE
    assert said in refused.value.verdict.message


# ---------------------------------------------------------------------------------------------------------------- Swift
def swift(own, status):
    cloud = connection(own, object_store=lambda *_: (status, []))
    cloud.object_store.get_endpoint = lambda: f"http://swift/v1/AUTH_{own}"
    return cloud


def test_an_account_is_reached_by_the_project_s_id():
    cloud = swift("own", 200)
    assert inventory(types(object_store)["container"], cloud, DEAD).outcome is Outcome.CLEAR
    assert {path for _, path, _ in cloud.object_store.asked} == {"http://swift/v1/AUTH_dead"}


@pytest.mark.parametrize("name", ["container", "account_metadata"])
def test_without_the_reseller_admin_role_an_account_is_unknown(name):
    sweep = inventory(types(object_store)[name], swift("own", 403), DEAD)
    assert (sweep.outcome, sweep.reason) == (Outcome.UNKNOWN, Reason.PROJECT_GONE)
    assert "ResellerAdmin" in sweep.message


# --------------------------------------------------------------------------------------------------------------- Cinder
def cinder(filtered=True, old=(), new=(), snapshots=()):
    """Cinder: ids of old groups, of new ones, of the group snapshots of snapshots; the old list shows both kinds."""

    def answer(method, path, query, body):
        if path.startswith("/os-quota-sets"):
            return 200, {"quota_set": {}}
        key = path.split("/")[1]
        owner = {"os-extended-snapshot-attributes:project_id": "dead"}
        rows = {
            "consistencygroups": [{"id": i} for i in (*old, *new)],
            "groups": [{"id": i} for i in new],
            "group_snapshots": [{"id": i} for i in new],
            "snapshots": [{"id": f"of {i}", "group_snapshot_id": i, **owner} for i in snapshots],
        }[key]
        if query.get("marker") or (filtered and query.get("project_id") not in (None, "dead")):
            rows = []
        return 200, {key: rows}

    return connection(block_storage=answer)


def test_old_consistency_groups_are_listed_by_the_filter_alone():
    sweep = inventory(types(block_storage)["consistency_group"], cinder(old=["a"], new=["b"]), DEAD)
    assert [one.id for one in sweep.leftovers] == ["a"]
    blind = inventory(types(block_storage)["consistency_group"], cinder(filtered=False, old=["a"]), DEAD)
    assert (blind.outcome, blind.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


def test_old_group_snapshots_are_found_by_their_snapshots():
    listed = inventory(
        types(block_storage)["consistency_group_snapshot"], cinder(new=["b"], snapshots=["a", "b", "a"]), DEAD
    )
    assert [one.id for one in listed.leftovers] == ["a"]


# ------------------------------------------------------------------------------------------------------------- Keystone
def keystone(users):
    def answer(method, path, query, body):
        if path == "/services":
            return ADMINS_ONLY
        if path.startswith("/OS-PROJECT-CLEANUP"):  # it lists them by user only
            return NO
        if path == "/domains":
            return 200, {"domains": [{"id": "d1"}, {"id": "d2"}]}
        if path == "/users":
            return 200, {"users": [{"id": user} for user in users.get(query["domain_id"], ())]}
        if path.endswith("/application_credentials"):
            user = path.split("/")[2]
            rows = [{"id": f"{user}'s", "project_id": "dead"}, {"id": "other", "project_id": "alive"}]
            return 200, {"application_credentials": rows}
        return NO

    return connection(identity=answer)


def test_application_credentials_are_searched_for_among_all_users_if_these_are_few():
    whole = dataclasses.replace(DEAD, options={"most_users": 2})
    type_ = types(identity)["application_credential"]
    found = inventory(type_, keystone({"d1": ["u1"], "d2": ["u2"]}), whole)
    assert [one.id for one in found.leftovers] == ["u1's", "u2's"]
    too_many = inventory(type_, keystone({"d1": ["u1", "u2"], "d2": ["u3"]}), whole)
    assert (too_many.outcome, too_many.reason) == (Outcome.UNKNOWN, Reason.PROJECT_GONE)
    assert "most_users" in too_many.message


def test_a_list_of_users_that_fails_is_not_empty():
    def answer(method, path, query, body):
        if path == "/services":
            return ADMINS_ONLY
        return NO if path != "/domains" else (503, {})

    whole = dataclasses.replace(DEAD, options={"most_users": 2})
    assert (
        inventory(types(identity)["application_credential"], connection(identity=answer), whole).outcome
        is Outcome.UNKNOWN
    )


@pytest.mark.parametrize(("body", "outcome"), [(NO[1], Outcome.CLEAR), ("a proxy's page", Outcome.UNKNOWN)])
def test_associations_count_as_gone_only_if_keystone_confirms_that_the_project_is_gone(body, outcome):
    cloud = connection(identity=lambda _, path, *__: ADMINS_ONLY if path == "/services" else (404, body))
    assert inventory(types(identity)["endpoint_association"], cloud, DEAD).outcome is outcome
