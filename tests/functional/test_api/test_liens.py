"""Liens and the brake over the API: what is refused, and who can see why."""

import dataclasses

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.holds import Lien
from tests.functional.test_api.site import Site
from tests.support.stores import save

GOOD = {"project_id": "p1", "origin": "billing", "reason": "the last invoice is open"}


def protect(site, **fields):
    answer = site.post("/v1/liens", {**GOOD, **fields})
    assert answer.status == 201, answer.body
    return answer.json["lien"]


def put(site, deletion_id, status):
    before = site.store.get(deletion_id)
    save(site.store, before, dataclasses.replace(before, status=status))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"project_id": None}, "project_id"),
        ({"project_id": ""}, "project_id"),
        ({"project_id": "a b"}, "project_id"),
        ({"origin": ""}, "origin"),
        ({"origin": "  "}, "origin"),
        ({"origin": "a\nb"}, "origin"),
        ({"origin": "x" * 129}, "origin"),
        ({"reason": ""}, "reason"),
        ({"reason": "x" * 1001}, "reason"),
        ({"expires_at": 1}, "expires_at"),
        ({"expires_at": ""}, "expires_at"),
        ({"expires_at": "2027-02-30T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2027-01-01T00:00:00+01:00"}, "expires_at"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"user_id": "somebody else"}, "user_id"),
    ],
    ids=str,
)
def test_a_bad_lien_is_refused_and_not_recorded(site, fields, field):
    answer = site.post("/v1/liens", {**GOOD, **fields})
    assert (answer.status, answer.error["code"], answer.error["field"]) == (400, "invalid_body", field)
    assert site.get("/v1/liens?state=all").json["liens"] == []


@pytest.mark.parametrize("fields", [{"reason": None}, {"reason": " "}, {"reason": "x", "on": True}], ids=str)
def test_a_brake_without_a_reason_is_refused(site, fields):
    assert site.post("/v1/brake", fields).status == 400
    assert site.get("/v1/brake").json["brake"]["on"] is False


def test_a_lien_is_written_read_listed_and_removed(any_site):
    made = protect(any_site, reason="  ünïcødé 🗑  ")
    assert made["reason"] == "ünïcødé 🗑"
    assert any_site.get(f"/v1/liens/{made['id']}").json["lien"] == made
    assert any_site.get("/v1/liens").json["liens"] == [made]
    answer = any_site.call("DELETE", f"/v1/liens/{made['id']}")
    assert (answer.status, answer.body) == (204, b"")
    assert any_site.get("/v1/liens").json["liens"] == []
    ended = any_site.get(f"/v1/liens/{made['id']}").json["lien"]
    assert ended == {**made, "state": "removed", "deleted_at": ended["deleted_at"], "deleted_by": "admin-id"}


def test_a_retry_is_refused_as_a_request_is(site):
    made = site.ask("p1", mode="cascade")
    put(site, made["id"], Status.FAILED)
    lien = protect(site)
    answer = site.post(f"/v1/deletions/{made['id']}/retry")
    assert (answer.status, answer.error["code"]) == (409, "project_has_liens")
    assert [one["id"] for one in answer.error["liens"]] == [lien["id"]]
    assert site.store.get(made["id"]).status is Status.FAILED
    site.call("DELETE", f"/v1/liens/{lien['id']}")
    assert site.post(f"/v1/deletions/{made['id']}/retry").status == 202


def test_a_cancel_is_never_refused(site):
    made = site.ask("p1", mode="cascade")
    protect(site)
    site.post("/v1/brake", {"reason": "x"})
    assert site.post(f"/v1/deletions/{made['id']}/cancel").status == 202


def test_the_same_request_for_what_is_under_way_is_refused_too(site):
    """Else the answer would say that the project is going to be deleted; it names the obstacle instead."""
    site.ask("p1", mode="cascade")
    protect(site)
    answer = site.post("/v1/deletions", {"project_id": "p1", "mode": "cascade"})
    assert (answer.status, answer.error["code"]) == (409, "project_has_liens")


def test_one_that_has_expired_refuses_nothing(site):
    now = site.store.now()
    site.store.add_lien(Lien("11111111-2222-3333-4444-555555555555", "p1", "ops", "x", now, now))
    [shown] = site.get("/v1/liens?state=ended").json["liens"]
    assert shown["state"] == "expired"
    assert site.ask("p1")["liens"] == []


def test_the_never_delete_list_stands_above_all(site):
    admin = "a" * 32
    protect(site, project_id=admin)
    answer = site.post("/v1/deletions", {"project_id": admin})
    assert (answer.status, answer.error["code"]) == (403, "project_protected")


def test_of_a_tree_a_lien_on_any_project_is_enough_and_all_are_named(site):
    liens = {protect(site, project_id=project)["id"] for project in ("child-1", "child-2")}
    tree = {"project_id": "parent", "include_subtree": True, "mode": "cascade"}
    answer = site.post("/v1/deletions", tree)
    assert (answer.status, answer.error["code"]) == (409, "project_has_liens")
    assert {one["id"] for one in answer.error["liens"]} == liens
    assert all(id_ in answer.error["detail"] for id_ in liens)
    assert site.count() == 0, "all of them or none"
    assert site.post("/v1/deletions", {**tree, "dry_run": True}).status == 202


@pytest.mark.parametrize("how", ["request", "retry"])
def test_a_user_who_may_not_read_liens_sees_the_owner_and_not_the_reason(site, how):
    """The request of a manager of the domain is refused as that of an admin is, with less to read."""
    if how == "retry":
        made = site.ask("p1", mode="cascade", token="manager-token")
        put(site, made["id"], Status.FAILED)
        path, body = f"/v1/deletions/{made['id']}/retry", None
    else:
        path, body = "/v1/deletions", {"project_id": "p1", "mode": "cascade"}
    lien = protect(site, expires_at="2099-01-31T12:00:00Z")
    answer = site.post(path, body, "manager-token")
    assert (answer.status, answer.error["code"]) == (409, "project_has_liens")
    expected = {"id": lien["id"], "project_id": "p1", "origin": "billing", "expires_at": "2099-01-31T12:00:00Z"}
    assert answer.error["liens"] == [expected]
    assert "billing" in answer.error["detail"] and "ask" in answer.error["detail"]
    assert GOOD["reason"].encode() not in answer.body and b"admin-id" not in answer.body
    full = site.post(path, body).error
    assert GOOD["reason"] in full["detail"]
    assert [(one["reason"], one["user_id"]) for one in full["liens"]] == [(GOOD["reason"], "admin-id")]


def test_a_policy_may_let_managers_read_liens(tmp_path, keystone):
    (tmp_path / "policy.yaml").write_text('"cleanup:liens:get": "role:manager or role:admin"\n')
    site = Site(tmp_path, keystone=keystone, extra=f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
    protect(site)
    answer = site.post("/v1/deletions", {"project_id": "p1", "mode": "cascade"}, "manager-token")
    assert GOOD["reason"] in answer.error["detail"] and answer.error["liens"][0]["reason"] == GOOD["reason"]
    site.close()


def test_the_engine_is_notified_at_once_of_a_new_or_removed_lien(site):
    made = site.ask("p1", mode="cascade")
    site.bus.casts.clear()
    lien = protect(site)
    protect(site, project_id="p2")
    site.call("DELETE", f"/v1/liens/{lien['id']}")
    assert site.bus.casts == [made["id"], made["id"]]


def test_the_policy_to_add_a_lien_differs_from_the_policy_to_remove_it(tmp_path, keystone):
    rules = ("cleanup:liens:create", "cleanup:brake:set")
    (tmp_path / "policy.yaml").write_text("".join(f'"{rule}": "role:manager or role:admin"\n' for rule in rules))
    site = Site(tmp_path, keystone=keystone, extra=f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
    made = site.post("/v1/liens", GOOD, token="manager-token")
    assert made.status == 201
    path = f"/v1/liens/{made.json['lien']['id']}"
    assert site.call("DELETE", path, token="manager-token").status == 403
    assert site.call("DELETE", path).status == 204
    own = site.post("/v1/brake", {"reason": "x"}, token="manager-token")
    assert (own.status, own.json["brake"]["reason"]) == (200, "x")
    assert site.call("DELETE", "/v1/brake", token="manager-token").status == 403
    assert site.call("DELETE", "/v1/brake").status == 204
    site.post("/v1/brake", {"reason": "for admins only"})
    assert site.post("/v1/brake", {"reason": "x"}, token="manager-token").json == {"brake": {"on": True}}
    assert site.call("DELETE", "/v1/brake").status == 204
    site.close()


def test_the_log_names_the_user(site, caplog):
    made = protect(site)
    site.call("DELETE", f"/v1/liens/{made['id']}")
    site.post("/v1/brake", {"reason": "the storage misbehaves"})
    site.call("DELETE", "/v1/brake")
    names = ("cleanup_orchestrator.api.liens", "cleanup_orchestrator.api.brake")
    said = [r.getMessage() for r in caplog.records if r.name in names]
    assert [line.split(" by ")[0] for line in said] == ["recorded", "removed", "brake set", "brake lifted"]
    assert all("admin-id" in line for line in said)
