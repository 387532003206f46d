"""A domain manager does not undo an admin's decision: a deletion of an admin is stopped by an admin."""

import dataclasses

import pytest

from cleanup_orchestrator.core import approvals, transitions
from cleanup_orchestrator.core.deletion import Mode, Status
from tests.functional.test_api import keystone as ks
from tests.support.stores import requesters, save

STOPS = ["cancel", "restore"]
SAID = "only an admin may stop it. Ask an admin to cancel it"


def stop(site, id_, action, token):
    return site.post(f"/v1/deletions/{id_}/{action}", token=token)


def refused(answer):
    return answer.status == 403 and answer.error["code"] == "forbidden" and SAID in answer.error["detail"]


@pytest.mark.parametrize("action", STOPS)
@pytest.mark.parametrize(
    ("asker", "stopper", "allowed"),
    [
        (ks.ADMIN, ks.MANAGER, False),
        (ks.SYSTEM, ks.MANAGER, False),
        (ks.ADMIN, ks.SECOND_ADMIN, True),
        (ks.ADMIN, ks.SYSTEM, True),
        (ks.MANAGER, ks.MANAGER, True),
        (ks.MANAGER, ks.ADMIN, True),
    ],
)
def test_an_admins_deletion_is_stopped_by_admins(any_site, action, asker, stopper, allowed):
    id_ = any_site.ask(token=asker, mode="cascade")["id"]
    answer = stop(any_site, id_, action, stopper)
    assert answer.status == 202 if allowed else refused(answer)
    assert any_site.store.get(id_).status is (Status.CANCELLING if allowed else Status.ACCEPTED)
    if not allowed:  # also what is being cancelled already
        assert stop(any_site, id_, action, ks.ADMIN).status == 202
        assert refused(stop(any_site, id_, action, stopper))


def test_the_tree_of_an_admin_is_of_the_admin_down_to_each_project(site):
    root = site.ask("parent", ks.ADMIN, include_subtree=True)["id"]
    listed = site.get("/v1/deletions").json["deletions"]
    assert len(listed) == 3
    for each in listed:
        assert refused(stop(site, each["id"], "cancel", ks.MANAGER))
    assert {site.store.get(each["id"]).status for each in listed} == {Status.ACCEPTED}
    assert stop(site, root, "cancel", ks.SECOND_ADMIN).status == 202


def failed(site, id_):
    d = site.store.get(id_)
    for to in (Status.DRAINING, Status.FAILED):
        d = save(site.store, d, transitions.move(d, to, transitions.By.ENGINE, site.store.now(), "x"))


def test_a_deletion_is_of_the_admin_who_retried_it_and_so_is_what_is_below(site):
    root = site.ask("parent", ks.MANAGER, include_subtree=True)["id"]
    child = next(d for d in site.get("/v1/deletions").json["deletions"] if d["project_id"] == "child-2")["id"]
    failed(site, child)
    assert site.post(f"/v1/deletions/{child}/retry", token=ks.ADMIN).status == 202
    assert refused(stop(site, child, "cancel", ks.MANAGER))
    assert refused(stop(site, root, "cancel", ks.MANAGER)), "it would stop the one below as well"
    assert {d["status"] for d in site.get("/v1/deletions").json["deletions"]} == {"accepted"}


# ------------------------------------------------------------------------------- what an admin requests as a second one
def requests(site, id_):
    """Return who requested, retried or forced a deletion, by its journal."""
    return [row.event.actor for row in site.store.events(id_, 100) if row.event.type in approvals.REQUEST_EVENTS]


@pytest.mark.parametrize("fields", [{}, {"mode": "cascade"}, {"dry_run": True}])
def test_a_deletion_that_an_admin_requests_as_well_is_stopped_by_admins(any_site, fields):
    """The admin got the deletion of the manager, who cancelled it."""
    id_ = any_site.ask(token=ks.MANAGER, **fields)["id"]
    version = any_site.store.get(id_).version
    for token in (ks.ADMIN, ks.ADMIN, ks.SYSTEM, ks.MANAGER):
        assert any_site.ask(token=token, **fields)["id"] == id_
    assert requests(any_site, id_) == ["manager-id", "admin-id"]
    last = any_site.store.events(id_, 100)[-1].event
    assert (last.type, last.data["by_admin"]) == ("deletion.accepted", True)
    assert last.message.startswith("requested again: ")
    assert any_site.store.get(id_).version == version + 1
    assert refused(stop(any_site, id_, "cancel", ks.MANAGER))
    assert stop(any_site, id_, "cancel", ks.SECOND_ADMIN).status == 202


def test_an_admin_who_requests_a_deletion_as_well_cannot_approve_it(site):
    id_ = site.ask(token=ks.MANAGER, mode="cascade")["id"]
    assert requesters(site, id_) == {"manager-id"}
    site.ask(token=ks.ADMIN, mode="cascade")
    assert requesters(site, id_) == {"manager-id", "admin-id"}


def test_the_request_of_a_second_manager_leaves_no_line(site, keystone):
    second = keystone.token("second-manager-token", "manager", domain_id="d1")
    id_ = site.ask(token=ks.MANAGER)["id"]
    assert site.ask(token=second)["id"] == id_
    assert requests(site, id_) == ["manager-id"]
    assert stop(site, id_, "cancel", ks.MANAGER).status == 202


def test_what_an_admins_tree_finds_under_way_is_stopped_by_admins(any_site):
    child = any_site.ask("child-2", ks.MANAGER)["id"]
    root = any_site.ask("parent", ks.ADMIN, include_subtree=True)["id"]
    assert any_site.count() == 3 and root != child
    assert refused(stop(any_site, child, "cancel", ks.MANAGER))
    assert any_site.ask("parent", ks.ADMIN, include_subtree=True)["id"] == root
    assert requests(any_site, child) == ["manager-id", "admin-id"]


def test_a_tree_that_an_admin_requests_as_well_is_stopped_by_admins_with_all_that_it_found(any_site):
    """One line is enough for the root and the deletions below it, but not for one that was under way before."""
    child = any_site.ask("child-2", ks.MANAGER)["id"]
    root = any_site.ask("parent", ks.MANAGER, include_subtree=True)["id"]
    middle = any_site.store.live("child-1").id
    for _ in range(2):
        assert any_site.ask("parent", ks.ADMIN, include_subtree=True)["id"] == root
    both, one = ["manager-id", "admin-id"], ["manager-id"]
    assert [requests(any_site, id_) for id_ in (root, middle, child)] == [both, one, both]
    for id_ in (root, middle, child):
        assert refused(stop(any_site, id_, "cancel", ks.MANAGER))


def test_a_refused_request_of_an_admin_leaves_no_line(any_site):
    lower = any_site.ask("child-2", ks.MANAGER)["id"]
    upper = any_site.ask("parent", ks.MANAGER, include_subtree=True)["id"]
    d = any_site.store.get(upper)
    save(any_site.store, d, dataclasses.replace(d, mode=Mode.CASCADE))
    answer = any_site.post("/v1/deletions", {"project_id": "parent", "include_subtree": True}, ks.ADMIN)
    assert (answer.status, answer.error["deletion_id"]) == (409, upper)
    assert requests(any_site, lower) == ["manager-id"]


def test_a_cancel_at_the_moment_of_an_admins_request_is_seen(site, monkeypatch):
    """The admin's request is neither lost nor recorded for a deletion that is being cancelled."""
    id_ = site.ask(token=ks.MANAGER)["id"]
    create_all, calls = site.store.create_all, []

    def cancelled_meanwhile(wanted, kinds, limits, again):
        calls.append(again)
        if again and len(calls) == 2:
            assert stop(site, id_, "cancel", ks.MANAGER).status == 202
        return create_all(wanted, kinds, limits, again)

    monkeypatch.setattr(site.store, "create_all", cancelled_meanwhile)
    answer = site.post("/v1/deletions", {"project_id": "p1"}, ks.ADMIN)
    assert (answer.status, answer.error["code"]) == (409, "deletion_under_way")
    assert "being cancelled" in answer.error["detail"]
    assert requests(site, id_) == ["manager-id"]


def test_a_refused_cancel_of_a_tree_stops_none_of_it(site, monkeypatch):
    """The deletion that only an admin may stop is the last one in the order in which they would be stopped."""
    monkeypatch.setitem(site.keystone.projects, "child-0", {**site.keystone.projects["child-1"], "id": "child-0"})
    root = site.ask("parent", ks.MANAGER, include_subtree=True)["id"]
    of = {d["project_id"]: d["id"] for d in site.get("/v1/deletions").json["deletions"]}
    assert of.keys() == {"parent", "child-0", "child-1", "child-2"}
    failed(site, of["child-0"])
    assert site.post(f"/v1/deletions/{of['child-0']}/retry", token=ks.ADMIN).status == 202
    assert refused(stop(site, root, "cancel", ks.MANAGER))
    assert {site.store.get(id_).status for id_ in of.values()} == {Status.ACCEPTED}


def test_a_manager_may_retry_the_deletion_of_an_admin_which_stays_the_admins(site):
    id_ = site.ask(token=ks.ADMIN)["id"]
    failed(site, id_)
    assert site.post(f"/v1/deletions/{id_}/retry", token=ks.MANAGER).status == 202
    assert refused(stop(site, id_, "cancel", ks.MANAGER))


def test_a_deletion_is_of_the_admin_who_forced_it(site):
    id_ = site.ask(token=ks.MANAGER, mode="cascade")["id"]
    d = site.store.get(id_)
    save(site.store, d, dataclasses.replace(d, status=Status.DELETING))
    answer = site.call("DELETE", "/v1/projects/p1/force", ks.ADMIN, {"reason": "stuck"})
    assert answer.status == 202, answer.body
    assert refused(stop(site, id_, "cancel", ks.MANAGER))
