"""Plans, approvals and restore over the API, on every kind of database."""

import dataclasses
import datetime
import threading
import uuid

import pytest
import sqlalchemy

from cleanup_orchestrator import store as storage
from cleanup_orchestrator.core import plans
from cleanup_orchestrator.core.condition_types import Condition
from cleanup_orchestrator.core.deletion import Approval, Mode, RoundPurpose, Status, accepted
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import TASKS, Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.store import records, tables
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.support.stores import save

NOBODYS = "11111111-2222-3333-4444-555555555555"


def inventory(site, deletion_id, type_, ids, kept_resources=(), protected=(), sizes=(), **values):
    """A sweep step of a dry run, with an inventory that is saved as a worker does it; sizes by id."""
    record, _, now = site.store.load(deletion_id)
    fields = {"region": "R1", "service": "network", "type": type_, "round": 1, "dispatched_at": now, **values}
    step = Step(str(uuid.uuid4()), deletion_id, StepKind.SWEEP, state=StepState.DISPATCHED, **fields)
    save(site.store, record, dataclasses.replace(record, status=Status.INVENTORY, purpose=RoundPurpose.INVENTORY))
    with site.store.database.begin() as c:
        c.execute(tables.steps.insert(), [records.step_values(step)])
    size = dict(sizes).get
    left = [Leftover(i, f"name of {i}", Reason.PRESENT, size=size(i)) for i in ids]
    left += [Leftover(i, i, Reason.PROTECTED, "it is shared", size=size(i)) for i in protected]
    kept = tuple(Leftover(i, i, Reason.KEPT, "it is Neutron's", size=size(i)) for i in kept_resources)
    outcome = Outcome.LEFTOVERS if left else Outcome.CLEAR
    found = StepResult(
        outcome, found=len(left), kept=len(kept), leftovers=tuple(left), kept_resources=kept, digest=plans.digest(ids)
    )
    _, held = site.store.claim(step.id, "w", 60)
    assert site.store.finish(held, found)


def ended(site, deletion_id, **values):
    record = site.store.get(deletion_id)
    wanted = {"status": Status.PLANNED, "purpose": RoundPurpose.NONE, "finished_at": site.store.now(), **values}
    return save(site.store, record, dataclasses.replace(record, **wanted))


def planned(site, project_id="p1", mode="cascade", selection=None, **values):
    """An ended dry run of a cascade with a few resources; its id is the id of the plan."""
    fields = {} if selection is None else {"selection": selection}
    made = site.ask(project_id, mode=mode, dry_run=True, **fields)
    inventory(site, made["id"], "port", ["b", "a", "c"], kept_resources=["dhcp"])
    inventory(site, made["id"], "network", ["n"], protected=["shared"], after=("network.port",))
    inventory(site, made["id"], "router", [])
    ended(site, made["id"], **values)
    return made["id"]


def test_a_plan_says_what_would_go_in_which_order_and_what_stays(any_site):
    plan_id = planned(any_site)
    plan = any_site.get(f"/v1/plans/{plan_id}").json["plan"]
    assert (plan["id"], plan["project_id"], plan["project_name"]) == (plan_id, "p1", "one")
    assert (plan["delete"], plan["keep"], plan["protect"], plan["complete"], plan["unknown"]) == (4, 1, 1, True, [])
    assert plan["order"] == [["network.port"], ["network.network"]]
    numbers = {t["type"]: (t["delete"], t["keep"], t["protect"], t["known"]) for t in plan["types"]}
    assert numbers == {"port": (3, 1, 0, True), "network": (1, 0, 1, True), "router": (0, 0, 0, True)}
    made, until = (datetime.datetime.fromisoformat(plan[k]) for k in ("created_at", "expires_at"))
    assert until - made == datetime.timedelta(days=1)


def test_a_plan_says_how_much_would_go(any_site):
    made = any_site.ask(mode="cascade", dry_run=True)
    great = 2**62
    sizes = {"a": 3, "b": 0, "c": 3, "great": great, "shared": 100, "kept": 200}
    volumes = {"kept_resources": ["kept"], "protected": ["shared"], "service": "block-storage", "sizes": sizes}
    inventory(any_site, made["id"], "volume", ["a", "unknown"], **volumes)  # the sum would understate the loss
    inventory(any_site, made["id"], "share", ["b", "c", "great"], service="shared-file-system", sizes=sizes)
    inventory(any_site, made["id"], "backup", ["empty"], service="block-storage", sizes={"empty": 0})
    inventory(any_site, made["id"], "snapshot", [], protected=["s"], service="block-storage", sizes={"s": 5})
    inventory(any_site, made["id"], "port", ["p"])
    ended(any_site, made["id"])
    types = any_site.get(f"/v1/plans/{made['id']}").json["plan"]["types"]
    found = {t["type"]: t["size"] for t in types}
    assert found == {"volume": None, "share": great + 3, "backup": 0, "snapshot": None, "port": None}
    assert {type(size) for size in found.values()} == {int, type(None)}
    rows = any_site.get(f"/v1/plans/{made['id']}/resources").json["resources"]
    assert {row["id"]: row["size"] for row in rows} == sizes | {"unknown": None, "p": None, "empty": 0, "s": 5}
    rows = any_site.get(f"/v1/deletions/{made['id']}/leftovers?type=volume").json["leftovers"]
    assert {row["id"]: row["size"] for row in rows} == {"a": 3, "shared": 100, "unknown": None}


def test_the_hash_of_a_plan_does_not_depend_on_sizes(any_site):
    hashes = set()
    for sizes in ({}, {"a": 1}):
        made = any_site.ask(mode="cascade", dry_run=True)
        inventory(any_site, made["id"], "volume", ["a"], service="block-storage", sizes=sizes)
        ended(any_site, made["id"])
        hashes.add(any_site.get(f"/v1/plans/{made['id']}").json["plan"]["hash"])
    assert len(hashes) == 1


def test_a_deletion_that_keeps_the_project_takes_the_selection_of_its_plan(any_site):
    wanted = {"types": ["network.port"], "tags": ["old"], "not_names": ["prod*"]}
    plan_id = planned(any_site, mode="purge", selection=wanted)
    plan = any_site.get(f"/v1/plans/{plan_id}").json["plan"]
    empty = {name: [] for name in ("services", "skip", "not_tags", "names")}
    selection = wanted | empty | {"created_before": None, "updated_before": None}
    assert (plan["mode"], plan["selection"]) == ("purge", selection)
    made = any_site.ask(mode="purge", plan_id=plan_id, plan_hash=plan["hash"])
    assert (made["mode"], made["plan_id"], made["selection"]) == ("purge", plan_id, selection)
    assert any_site.ask(mode="purge", plan_id=plan_id)["id"] == made["id"]


@pytest.mark.parametrize(
    "again",
    [
        {"types": ["network.network", "network.port"], "tags": ["b", "a"]},
        {"types": ["network.port", "network.network", "neutron.port"], "tags": ["a", "b", "a"]},
    ],
    ids=["in another order", "twice"],
)
def test_two_requests_that_select_the_same_are_the_same_request(site, again):
    made = site.ask(mode="purge", selection={"types": ["network.port", "network.network"], "tags": ["a", "b"]})
    answer = site.post("/v1/deletions", {"project_id": "p1", "mode": "purge", "selection": again})
    assert (answer.status, answer.json["deletion"]["id"]) == (202, made["id"])


@pytest.mark.parametrize(("mode", "other"), [("cascade", "purge"), ("purge", "cascade")])
def test_a_plan_is_of_one_mode(any_site, mode, other):
    plan_id = planned(any_site, mode=mode)
    answer = any_site.post("/v1/deletions", {"project_id": "p1", "mode": other, "plan_id": plan_id})
    assert (answer.status, answer.error["code"]) == (409, "plan_unusable")
    assert f"it is of mode {mode}, and the request is of mode {other}" in answer.error["detail"]


def test_two_dry_runs_that_find_the_same_have_the_same_hash(any_site):
    hashes = {any_site.get(f"/v1/plans/{planned(any_site)}").json["plan"]["hash"] for _ in range(2)}
    made = any_site.ask(mode="cascade", dry_run=True)
    inventory(any_site, made["id"], "port", ["a", "b"])
    ended(any_site, made["id"])
    assert len(hashes) == 1
    assert any_site.get(f"/v1/plans/{made['id']}").json["plan"]["hash"] not in hashes


def test_its_resources_by_page_and_by_what_becomes_of_them(any_site):
    plan_id = planned(any_site)
    seen, path = [], f"/v1/plans/{plan_id}/resources?limit=2"
    while path:
        page = any_site.get(path).json
        seen += [(r["type"], r["id"], r["action"], r["reason"]) for r in page["resources"]]
        path = page["links"][0]["href"].removeprefix("http://cleanup.example.com") if "links" in page else None
    assert sorted(seen) == [
        ("network", "n", "delete", "present"),
        ("network", "shared", "protect", "protected"),
        ("port", "a", "delete", "present"),
        ("port", "b", "delete", "present"),
        ("port", "c", "delete", "present"),
        ("port", "dhcp", "keep", "kept"),
    ]
    for query, ids in (("action=keep", {"dhcp"}), ("action=protect", {"shared"}), ("type=network", {"n", "shared"})):
        rows = any_site.get(f"/v1/plans/{plan_id}/resources?{query}").json["resources"]
        assert {r["id"] for r in rows} == ids


def test_what_is_kept_is_no_leftover(any_site):
    plan_id = planned(any_site)
    rows = any_site.get(f"/v1/deletions/{plan_id}/leftovers").json["leftovers"]
    assert {r["id"] for r in rows} == {"a", "b", "c", "n", "shared"}


def test_what_a_dry_run_keeps_is_listed_by_its_reason(any_site):
    plan_id = planned(any_site)
    rows = any_site.get(f"/v1/deletions/{plan_id}/leftovers?reason=kept").json["leftovers"]
    assert [(r["id"], r["reason"], r["message"]) for r in rows] == [("dhcp", "kept", "it is Neutron's")]
    rows = any_site.get(f"/v1/deletions/{plan_id}/leftovers?reason=protected").json["leftovers"]
    assert [r["id"] for r in rows] == ["shared"]


def test_what_another_deletion_keeps_is_not_on_record(site):
    answer = site.get(f"/v1/deletions/{site.ask()['id']}/leftovers?reason=kept")
    assert (answer.status, answer.error["code"], answer.error["field"]) == (400, "invalid_query", "reason")
    assert "only a dry run records" in answer.error["detail"]


def test_the_store_has_the_ids_of_a_type_in_a_region_and_only_those_that_go(any_site):
    plan_id = planned(any_site)
    assert any_site.store.planned(plan_id, "R1", "network", "port") == {"a", "b", "c"}
    assert any_site.store.planned(plan_id, "R1", "network", "network") == {"n"}
    for place in (("R2", "network", "port"), ("R1", "compute", "port"), ("R1", "network", "x")):
        assert any_site.store.planned(plan_id, *place) == frozenset()
    assert any_site.store.planned(NOBODYS, "R1", "network", "port") == frozenset()


def test_a_cascade_is_bound_to_its_plan_for_good(any_site):
    plan_id = planned(any_site)
    hash_ = any_site.get(f"/v1/plans/{plan_id}").json["plan"]["hash"]
    made = any_site.ask(mode="cascade", plan_id=plan_id, plan_hash=hash_)
    assert (made["plan_id"], made["plan_hash"]) == (plan_id, hash_)
    assert any_site.store.get(made["id"]).plan_id == plan_id
    [line] = any_site.get(f"/v1/deletions/{made['id']}/events").json["events"]
    assert plan_id in line["message"] and line["data"]["plan_hash"] == hash_
    assert any_site.ask(mode="cascade", plan_id=plan_id)["id"] == made["id"], "the same request again"
    answer = any_site.post("/v1/deletions", {"project_id": "p1", "mode": "cascade"})
    assert (answer.status, answer.error["code"]) == (409, "deletion_under_way"), "one without a plan is another request"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"plan_id": NOBODYS}, "plan_id"),
        ({"plan_id": NOBODYS, "mode": "report"}, "plan_id"),
        ({"plan_id": NOBODYS, "mode": "cascade", "dry_run": True}, "plan_id"),
        ({"plan_id": NOBODYS, "mode": "cascade", "include_subtree": True}, "plan_id"),
        ({"plan_id": "x", "mode": "cascade"}, "plan_id"),
        ({"plan_id": None, "mode": "cascade"}, "plan_id"),
        ({"plan_hash": "0" * 64, "mode": "cascade"}, "plan_hash"),
        ({"plan_id": NOBODYS, "plan_hash": "0" * 63, "mode": "cascade"}, "plan_hash"),
        ({"plan_id": NOBODYS, "plan_hash": "G" * 64, "mode": "cascade"}, "plan_hash"),
    ],
    ids=str,
)
def test_what_a_plan_does_not_go_with(site, fields, field):
    answer = site.post("/v1/deletions", {"project_id": "p1", **fields})
    assert (answer.status, answer.error["code"], answer.error["field"]) == (400, "invalid_body", field)
    assert site.count() == 0


def refused(site, plan_id, project_id="p1", **fields):
    before = site.count()
    answer = site.post("/v1/deletions", {"project_id": project_id, "mode": "cascade", "plan_id": plan_id, **fields})
    assert site.count() == before, "nothing is recorded"
    return answer.status, answer.error["code"], answer.error["detail"]


def test_a_plan_that_is_not_there_or_is_none(site):
    assert refused(site, NOBODYS)[:2] == (404, "plan_not_found")
    assert refused(site, planned(site, mode="report"))[:2] == (404, "plan_not_found"), "nothing was to be deleted"
    assert refused(site, planned(site, status=Status.CANCELLED))[:2] == (404, "plan_not_found"), "it never ended"


def test_a_plan_of_another_project_is_refused(site):
    status, code, detail = refused(site, planned(site), "p2")
    assert (status, code) == (409, "plan_unusable") and "another project" in detail


def test_a_plan_with_something_unknown_is_refused_by_name(site):
    made = site.ask(mode="cascade", dry_run=True)
    inventory(site, made["id"], "port", ["a"])
    step = Step(
        str(uuid.uuid4()),
        made["id"],
        StepKind.SWEEP,
        "R1",
        "dns",
        "zone",
        round=1,
        state=StepState.DONE,
        outcome=Outcome.UNKNOWN,
        reason="no_project_token",
    )
    with site.store.database.begin() as c:
        c.execute(tables.steps.insert(), [records.step_values(step)])
    ended(site, made["id"])
    plan = site.get(f"/v1/plans/{made['id']}").json["plan"]
    assert (plan["complete"], plan["unknown"]) == (False, ["dns.zone@R1"])
    status, code, detail = refused(site, made["id"])
    assert (status, code) == (409, "plan_unusable") and "dns.zone@R1 (no_project_token)" in detail
    assert "inherited admin role" in detail and detail.endswith("make a new dry run")


def test_a_plan_of_long_ago_is_refused(site):
    ago = site.store.now() - datetime.timedelta(seconds=86_401)
    status, code, detail = refused(site, planned(site, finished_at=ago))
    assert (status, code) == (409, "plan_unusable") and "plan_max_age" in detail


def test_the_operator_says_how_old_a_plan_may_be(tmp_path, keystone):
    site = Site(tmp_path, keystone=keystone, extra="[deletion]\nplan_max_age = 200000\n")
    ago = site.store.now() - datetime.timedelta(seconds=86_401)
    assert site.ask(mode="cascade", plan_id=planned(site, finished_at=ago))["status"] == "accepted"
    site.close()


def test_a_plan_with_another_hash_is_refused(site):
    status, code, detail = refused(site, planned(site), plan_hash="0" * 64)
    assert (status, code) == (409, "plan_unusable") and "its hash is" in detail


@pytest.mark.parametrize(
    ("token", "status"),
    [("admin-token", 200), ("manager-token", 200), ("other-manager-token", 404), ("member-token", 403)],
)
def test_which_users_see_a_plan(site, token, status):
    plan_id = planned(site)
    for path in (f"/v1/plans/{plan_id}", f"/v1/plans/{plan_id}/resources"):
        assert site.get(path, token=token).status == status


# ----------------------------------------------------------------------------------------------------------- approvals
ASKS = Condition("approval", True, "too_many_resources", "it is about 4 resources", datetime.datetime(2026, 1, 1))


def asking(site, **values):
    """A cascade that waits for an approval, because it found four resources."""
    made = site.ask(mode="cascade")
    inventory(site, made["id"], "port", list("abcd"))
    record = site.store.get(made["id"])
    wanted = {"status": Status.RECOVERABLE, "purpose": RoundPurpose.NONE, "conditions": (ASKS,), **values}
    save(site.store, record, dataclasses.replace(record, **wanted))
    return made["id"]


def approve(site, deletion_id, token=ks.SECOND_ADMIN, body=None):
    return site.post(f"/v1/deletions/{deletion_id}/approve", body or {"reason": "  ticket 4711  "}, token)


def test_a_second_person_approves_what_was_found_on_record(any_site):
    deletion_id = asking(any_site)
    any_site.bus.casts.clear()
    answer = approve(any_site, deletion_id)
    assert answer.status == 202, answer.body
    [given] = answer.json["deletion"]["approvals"]
    assert (given["needed"], given["reason"], given["resources"]) == ("too_many_resources", "ticket 4711", 4)
    assert (given["user_id"], given["user_name"]) == ("second-admin-id", "second-admin")
    assert given["hash"] == plans.hash_of(any_site.store.steps(deletion_id))
    line = any_site.get(f"/v1/deletions/{deletion_id}/events?type=deletion.approved").json["events"][0]
    assert line["actor"] == "second-admin-id" and "ticket 4711" in line["message"] and line["data"]["resources"] == 4
    assert any_site.bus.casts == [deletion_id], "it goes on at once"
    stored = any_site.store.get(deletion_id).approvals
    assert [type(a) for a in stored] == [Approval] and stored[0].at.year > 2000


def test_the_requester_cannot_approve(any_site):
    deletion_id = asking(any_site)
    answer = approve(any_site, deletion_id, "admin-token")
    assert (answer.status, answer.error["code"]) == (403, "self_approval")
    assert any_site.store.get(deletion_id).approvals == ()


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"conditions": ()}, "it waits for no approval"),
        ({"conditions": (dataclasses.replace(ASKS, status=False),)}, "it has been approved"),
        ({"status": Status.CANCELLING}, "it is being cancelled"),
        ({"status": Status.DELETED}, "it has ended"),
    ],
)
def test_what_does_not_wait_for_it_is_not_approved(site, values, why):
    answer = approve(site, asking(site, **values))
    assert (answer.status, answer.error["code"]) == (409, "not_awaiting_approval"), why


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": "  "}, {"reason": 1}, {"reason": "x", "resources": 9}])
def test_an_approval_says_why_and_nothing_else(site, body):
    deletion_id = asking(site)
    answer = site.post(f"/v1/deletions/{deletion_id}/approve", body, ks.SECOND_ADMIN)
    assert (answer.status, answer.error["code"]) == (400, "invalid_body")
    assert site.store.get(deletion_id).approvals == ()


@pytest.mark.parametrize("token", [ks.MANAGER, ks.OTHER_MANAGER, ks.PROJECT_MANAGER, ks.MEMBER])
def test_only_an_admin_approves_by_default(site, token):
    """A manager of a domain can create users in it, so another user of the domain is no second person."""
    answer = approve(site, asking(site), token)
    assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert "only an admin" in answer.error["detail"]


def put(site, deletion_id, status, **values):
    """Move a deletion along its way as an engine does, and give it some values."""
    record = site.store.get(deletion_id)
    return save(site.store, record, dataclasses.replace(record, status=status, purpose=RoundPurpose.NONE, **values))


def waits(site, deletion_id):
    put(site, deletion_id, Status.RECOVERABLE, conditions=(ASKS,))
    return deletion_id


def not_by(site, deletion_id, *tokens):
    """Check that none of these can approve a deletion, because they requested it, and that a third person can."""
    for token in tokens:
        answer = approve(site, deletion_id, token)
        assert (answer.status, answer.error["code"]) == (403, "self_approval"), token
        assert site.store.get(deletion_id).approvals == ()
    assert approve(site, deletion_id, ks.THIRD_ADMIN).status == 202


def test_the_user_who_retried_cannot_approve_the_new_attempt(any_site):
    made = any_site.ask(mode="cascade")
    put(any_site, made["id"], Status.FAILED)
    assert any_site.post(f"/v1/deletions/{made['id']}/retry", token=ks.SECOND_ADMIN).status == 202
    not_by(any_site, waits(any_site, made["id"]), ks.SECOND_ADMIN, ks.ADMIN)


def test_the_user_who_retried_an_earlier_attempt_cannot_approve_a_later_one(any_site):
    made = any_site.ask(mode="cascade")
    for token in (ks.SECOND_ADMIN, ks.ADMIN):
        put(any_site, made["id"], Status.FAILED)
        assert any_site.post(f"/v1/deletions/{made['id']}/retry", token=token).status == 202
    not_by(any_site, waits(any_site, made["id"]), ks.SECOND_ADMIN)


def test_the_user_who_forced_cannot_approve(any_site):
    made = any_site.ask(mode="cascade")
    put(any_site, made["id"], Status.DELETING)
    call = any_site.call("DELETE", "/v1/projects/p1/force", ks.SECOND_ADMIN, {"reason": "it burnt down"})
    assert call.status == 202, call.body
    put(any_site, made["id"], Status.VERIFYING, conditions=(ASKS,))
    not_by(any_site, made["id"], ks.SECOND_ADMIN, ks.ADMIN)


def test_the_user_who_adopted_cannot_approve(site):
    event = Event("deletion.adopted", "found by a scan", "second-admin-id")
    now = site.store.now()
    made = accepted(
        id=NOBODYS, project_id="gone", project_name="", domain_id="", mode=Mode.CASCADE, dry_run=False, user_id="x"
    )
    site.store.create(dataclasses.replace(made, created_at=now), TASKS, event)
    not_by(site, waits(site, NOBODYS), ks.SECOND_ADMIN)


def test_the_requester_of_a_tree_cannot_approve_a_part_of_it(any_site):
    made = any_site.ask("parent", mode="cascade", include_subtree=True)
    below = {d.project_id: d for d in any_site.store.list(storage.Page(10))}
    put(any_site, made["id"], Status.FAILED)
    assert any_site.post(f"/v1/deletions/{made['id']}/retry", token=ks.SECOND_ADMIN).status == 202
    not_by(any_site, waits(any_site, below["child-2"].id), ks.ADMIN, ks.SECOND_ADMIN)


def trusted(site, token_id, acting_for, trustee, impersonation=True):
    """A token of a trust. With impersonation it says that its user is the trustor."""
    trust = {
        "id": "t1",
        "impersonation": impersonation,
        "trustor_user": {"id": f"{acting_for}-id"},
        "trustee_user": {"id": f"{trustee}-id"},
    }
    user = acting_for if impersonation else trustee
    return site.keystone.token(token_id, "admin", ks.OWN_PROJECT, user=user, **{"OS-TRUST:trust": trust})


@pytest.mark.parametrize("impersonation", [True, False])
def test_a_token_of_a_trust_cannot_approve(any_site, impersonation):
    token = trusted(any_site, "lent-token", "second-admin", "admin", impersonation)
    deletion_id = asking(any_site)
    answer = approve(any_site, deletion_id, token)
    assert (answer.status, answer.error["code"]) == (403, "delegated_approval")
    assert any_site.store.get(deletion_id).approvals == ()


def test_a_token_of_an_oauth_consumer_cannot_approve(site):
    consumer = {"OS-OAUTH1": {"consumer_id": "c", "access_token_id": "a"}}
    token = site.keystone.token("consumer-token", "admin", ks.OWN_PROJECT, user="second-admin", **consumer)
    assert approve(site, asking(site), token).error["code"] == "delegated_approval"


@pytest.mark.parametrize("impersonation", [True, False])
@pytest.mark.parametrize("how", ["asked", "retried", "forced"])
def test_trustor_and_trustee_cannot_approve_a_request_made_with_the_trust(site, how, impersonation):
    token = trusted(site, "lent-too-token", "admin", "second-admin", impersonation)
    made = site.ask(mode="cascade", token=token if how == "asked" else ks.FOURTH_ADMIN)
    if how == "retried":
        put(site, made["id"], Status.FAILED)
        assert site.post(f"/v1/deletions/{made['id']}/retry", token=token).status == 202
    if how == "forced":
        put(site, made["id"], Status.DELETING)
        assert site.call("DELETE", "/v1/projects/p1/force", token, {"reason": "it burnt down"}).status == 202
    not_by(site, waits(site, made["id"]), ks.ADMIN, ks.SECOND_ADMIN)


def test_an_application_credential_is_its_user(site):
    """Keystone gives it its user's id."""
    credential = {"application_credential": {"id": "a", "name": "a", "restricted": True}}
    token = site.keystone.token("credential-token", "admin", ks.OWN_PROJECT, user="admin", **credential)
    not_by(site, asking(site), token)


def test_an_approval_is_of_one_attempt(any_site):
    """An approval of the findings of one attempt is no approval of the findings of a later one."""
    deletion_id = asking(any_site)
    assert approve(any_site, deletion_id).status == 202
    put(any_site, deletion_id, Status.FAILED)
    again = any_site.post(f"/v1/deletions/{deletion_id}/retry", token=ks.ADMIN)
    assert (again.status, again.json["deletion"]["approvals"]) == (202, [])
    assert any_site.store.get(deletion_id).approvals == ()
    lines = any_site.get(f"/v1/deletions/{deletion_id}/events?type=deletion.approved").json["events"]
    assert len(lines) == 1, "the journal keeps it"


def test_a_policy_may_let_managers_approve_requests_of_others(tmp_path, keystone):
    who = "rule:admin_required or role:manager and domain_id:%(target.project.domain_id)s"
    (tmp_path / "policy.yaml").write_text(f'"cleanup:deletions:approve": "{who}"\n')
    site = Site(tmp_path, keystone=keystone, extra=f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
    made = site.ask(mode="cascade", token=ks.MANAGER)
    assert approve(site, waits(site, made["id"]), ks.MANAGER).error["code"] == "self_approval"
    other = keystone.token("colleague-token", "manager", domain_id="d1")
    assert approve(site, made["id"], other).status == 202
    site.close()


def test_cascades_of_a_day_are_counted_in_the_order_in_which_they_are_recorded(any_site):
    store = any_site.store
    ids = [any_site.ask(p, mode="cascade")["id"] for p in ("p1", "p2")]
    assert [store.load(i)[0].cascades_before for i in ids] == [0, 1]
    record = store.get(ids[0])
    ended = dataclasses.replace(record, status=Status.CANCELLED)
    save(store, record, ended)
    assert store.load(ids[1])[0].cascades_before == 1, "for every end of it"
    long_ago = store.now() - datetime.timedelta(hours=25)
    with store.database.begin() as c:
        table = tables.deletions
        c.execute(table.update().where(table.c.id == ids[0]).values(created_at=long_ago, begins_at=long_ago))
    assert store.load(ids[1])[0].cascades_before == 0, "a day is a day"
    any_site.ask("p1", mode="cascade", dry_run=True)
    assert store.load(ids[1])[0].cascades_before == 0, "later ones and dry runs do not count"


def before(site, *asked):
    """Ask for cascades, each of a project with a token; return how many count before each of them."""
    ids = [site.ask(project_id, token=token, mode="cascade")["id"] for project_id, token in asked]
    return [site.store.load(each)[0].cascades_before for each in ids]


def test_the_cascades_of_another_domain_do_not_count(any_site):
    """Else the manager of one domain could use up the limit of the managers of all others."""
    assert before(any_site, ("p1", ks.MANAGER), ("p2", ks.OTHER_MANAGER)) == [0, 0]


def test_more_users_of_a_domain_get_no_more_cascades(any_site):
    second = any_site.keystone.token("second-manager-token", "manager", domain_id="d1")
    assert before(any_site, ("p1", ks.MANAGER), ("child-2", second), ("p2", ks.SECOND_ADMIN)) == [0, 1, 0]


def test_the_cascades_of_one_user_count_in_all_domains(any_site):
    """A faulty script of an admin has to need an approval after some projects, and not after some of each domain."""
    assert before(any_site, ("p1", ks.ADMIN), ("p2", ks.ADMIN), ("child-2", ks.SECOND_ADMIN)) == [0, 1, 1]


def test_of_two_cascades_that_are_recorded_at_once_one_is_the_first(tmp_path, keystone, database_url):
    """The first one has its time and waits for its commit; the second one must count it."""
    site = Site(tmp_path, database_url, keystone)
    made, written, waiting, over = {}, threading.Event(), threading.Event(), threading.Event()

    def note(_connection, _cursor, statement, *_more):
        if threading.current_thread() is slow and statement.startswith("INSERT INTO deletions"):
            written.set()

    def hold(_connection):
        if threading.current_thread() is slow and written.is_set():
            waiting.set()
            over.wait(2)  # the second one cannot be over as long as the first one is not

    sqlalchemy.event.listen(site.store.database.engine, "before_cursor_execute", note)
    sqlalchemy.event.listen(site.store.database.engine, "commit", hold)
    slow = threading.Thread(target=lambda: made.update(first=site.ask("p1", mode="cascade")))
    slow.start()
    assert waiting.wait(10)
    second = site.ask("p2", mode="cascade")
    counts = [site.store.load(second["id"])[0].cascades_before]  # as an engine does at once
    over.set()
    slow.join()
    counts.append(site.store.load(made["first"]["id"])[0].cascades_before)
    site.close()
    assert sorted(counts) == [0, 1]


# ------------------------------------------------------------------------------------------------------------- restore
def test_the_roles_that_a_restore_gives_back_are_shown(any_site):
    made = any_site.ask(mode="cascade")
    show = lambda token=ks.ADMIN: any_site.get(f"/v1/deletions/{made['id']}", token).json["deletion"]  # noqa: E731
    assert show()["grants_removed"] == []
    rows = [
        ("grant_added", {"actor": "users", "actor_id": "ours", "role_id": "r0"}, False),
        ("grant_removed", {"actor": "users", "actor_id": "u1", "role_id": "r1"}, False),
        ("grant_removed", {"actor": "users", "actor_id": "u2", "role_id": "r1"}, True),
        ("grant_removed", {"actor": "groups", "actor_id": "g1", "role_id": "r2"}, False),
        ("project_disabled", {}, False),
    ]
    with any_site.store.database.begin() as c:
        for number, (type_, data, undone) in enumerate(rows, 1):
            row = {"id": f"c{number}", "deletion_id": made["id"], "sequence": number}
            c.execute(tables.changes.insert(), [{**row, "type": type_, "data": data, "undone": undone}])
    expected = [
        {"actor": "user", "actor_id": "u1", "role_id": "r1"},
        {"actor": "group", "actor_id": "g1", "role_id": "r2"},
    ]
    assert show()["grants_removed"] == expected, "not our own, nor what was given back already"
    assert show(ks.MANAGER)["grants_removed"] == expected
    assert "grants_removed" not in any_site.get("/v1/deletions").json["deletions"][0]


def test_a_user_who_may_not_restore_does_not_see_whose_roles_were_removed(tmp_path, keystone):
    rules = [f'"cleanup:deletions:{what}": "role:admin"' for what in ("restore", "cancel", "get_grants")]
    (tmp_path / "policy.yaml").write_text("\n".join(rules) + "\n")
    site = Site(tmp_path, keystone=keystone, extra=f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
    made = site.ask(mode="cascade")
    assert site.get(f"/v1/deletions/{made['id']}").json["deletion"]["grants_removed"] == []
    assert site.get(f"/v1/deletions/{made['id']}", ks.MANAGER).json["deletion"]["grants_removed"] is None
    site.close()


def test_a_project_is_restored_before_anything_is_deleted_and_not_after(site):
    from cleanup_orchestrator.core import transitions

    for status in Status:
        made = site.ask(mode="cascade")
        record = site.store.get(made["id"])
        at = datetime.datetime(2026, 1, 1)
        record = save(site.store, record, dataclasses.replace(record, status=status, point_of_no_return_at=at))
        shown = site.get(f"/v1/deletions/{made['id']}").json["deletion"]
        assert shown["restorable"] is transitions.restorable(record)
        assert shown["point_of_no_return_at"] == "2026-01-01T00:00:00Z"
        answer = site.post(f"/v1/deletions/{made['id']}/restore")
        if transitions.restorable(record):
            assert (answer.status, answer.json["deletion"]["status"]) == (202, "cancelling")
            assert answer.json["deletion"]["reason"] == "restoring"
        else:
            assert (answer.status, answer.error["code"]) == (409, "not_restorable")
            assert answer.error["status_now"] == str(status)
            if status in (Status.DELETING, Status.VERIFYING):
                assert "2026-01-01T00:00:00Z" in answer.error["detail"]
        record = site.store.get(made["id"])
        save(site.store, record, dataclasses.replace(record, status=Status.DELETED))


def test_a_restore_stops_what_is_below_as_well(site):
    site.keystone.project("below", "below", "d1", parent="p1")
    try:
        root = site.ask(mode="cascade", include_subtree=True)
        assert site.post(f"/v1/deletions/{root['id']}/restore").status == 202
        assert {d.status for d in site.store.list(storage.Page(10))} == {Status.CANCELLING}
    finally:
        del site.keystone.projects["below"]
