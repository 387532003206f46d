"""Retry, cancel and restore over the API, also of a tree of projects."""

import concurrent.futures
import dataclasses
import threading

import pytest

from cleanup_orchestrator import store as storage
from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.deletion import RoundPurpose, Status
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.test_deletions import by_project, journal, tree
from tests.support.stores import requesters, save


def moved(site, deletion_id, *path):
    """Move a deletion as the engine would."""
    for status in path:
        before, _, now = site.store.load(deletion_id)
        by = transitions.MOVES[before.status, status]
        save(site.store, before, transitions.move(before, status, by, now, "test"))
    return site.store.get(deletion_id)


def test_retry_begins_a_new_attempt(any_site):
    made = any_site.ask()
    moved(any_site, made["id"], Status.INVENTORY, Status.LEFTOVERS)
    assert any_site.get(f"/v1/deletions/{made['id']}").json["deletion"]["retryable"] is True
    any_site.bus.casts.clear()
    answer = any_site.post(f"/v1/deletions/{made['id']}/retry", token=ks.MANAGER)
    assert answer.status == 202
    shown = answer.json["deletion"]
    assert (shown["status"], shown["attempt"], shown["finished_at"]) == ("accepted", 2, None)
    assert any_site.bus.casts == [made["id"]]
    event = journal(any_site, made["id"])[-1]
    assert (event.type, event.actor) == ("deletion.retried", "manager-id")
    assert event.request_id == answer.headers["x-openstack-request-id"]
    assert event.data == {"from": "leftovers", "to": "accepted", "attempt": 2, "backwards": True}


def test_retry_of_a_deletion_under_way_ends_its_waiting_times_and_nothing_else(any_site):
    made = any_site.ask(mode="cascade")
    moved(any_site, made["id"], Status.DRAINING)
    before = any_site.store.get(made["id"])
    any_site.bus.casts.clear()
    assert any_site.post(f"/v1/deletions/{made['id']}/retry", token=ks.MANAGER).status == 202
    after = any_site.store.get(made["id"])
    assert before.updated_at < after.retry_now_at == after.updated_at
    times = {name: getattr(after, name) for name in ("retry_now_at", "updated_at", "wake_at", "version")}
    assert dataclasses.replace(before, **times) == after
    assert any_site.bus.casts == [made["id"]]
    event = journal(any_site, made["id"])[-1]
    assert (event.type, event.actor) == ("deletion.retried_now", "manager-id")
    assert "manager-id" not in requesters(any_site, after.id)  # it asks for nothing that needs an approval


def test_many_retries_of_a_deletion_under_way_have_the_effect_of_one(any_site):
    """Each one wrote a journal line, and had everything that waits tried again."""
    made = any_site.ask(mode="cascade")
    any_site.bus.casts.clear()
    barrier = threading.Barrier(4)

    def retry(_):
        barrier.wait()
        return [any_site.post(f"/v1/deletions/{made['id']}/retry", token=ks.MANAGER).status for _ in range(3)]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(retry, range(4))) == [[202] * 3] * 4
    assert [event.type for event in journal(any_site, made["id"])] == ["deletion.accepted", "deletion.retried_now"]
    assert any_site.bus.casts == [made["id"]]
    before = any_site.store.get(made["id"])
    earlier = before.retry_now_at - transitions.RETRY_NOW_INTERVAL
    before = save(any_site.store, before, dataclasses.replace(before, retry_now_at=earlier))
    assert any_site.post(f"/v1/deletions/{made['id']}/retry", token=ks.MANAGER).status == 202
    assert any_site.store.get(made["id"]).retry_now_at > before.retry_now_at


def test_of_two_retries_at_once_the_second_has_the_new_attempt_tried_at_once(any_site, monkeypatch):
    """It was refused with the sentence that the deletion, which was accepted again, had ended for good."""
    made = any_site.ask(mode="cascade")
    moved(any_site, made["id"], Status.INVENTORY, Status.LEFTOVERS)
    propose, answers = any_site.store.propose, []

    def after_the_other(proposal):
        monkeypatch.setattr(any_site.store, "propose", propose)
        answers.append(any_site.post(f"/v1/deletions/{made['id']}/retry", token=ks.MANAGER))
        return propose(proposal)

    monkeypatch.setattr(any_site.store, "propose", after_the_other)
    answers.append(any_site.post(f"/v1/deletions/{made['id']}/retry", token=ks.MANAGER))
    assert [answer.status for answer in answers] == [202, 202]
    assert [answer.json["deletion"]["attempt"] for answer in answers] == [2, 2]
    assert [event.type for event in journal(any_site, made["id"])[-2:]] == ["deletion.retried", "deletion.retried_now"]


def test_retry_beside_another_live_deletion(any_site):
    first = any_site.ask()
    moved(any_site, first["id"], Status.INVENTORY, Status.LEFTOVERS)
    second = any_site.ask(mode="cascade")
    answer = any_site.post(f"/v1/deletions/{first['id']}/retry")
    assert (answer.status, answer.error["code"]) == (409, "deletion_under_way")
    assert answer.error["deletion_id"] == second["id"]
    assert any_site.store.get(first["id"]).status is Status.LEFTOVERS


def test_retry_of_what_became_protected_meanwhile(site):
    made = site.ask()
    moved(site, made["id"], Status.FAILED)
    record = site.store.get(made["id"])
    save(site.store, record, dataclasses.replace(record, project_name="Service"))
    answer = site.post(f"/v1/deletions/{made['id']}/retry")
    assert (answer.status, answer.error["code"]) == (403, "project_protected")


def test_cancelling_each_status_as_the_table_says(site):
    for status in Status:
        made = site.ask()
        record = site.store.get(made["id"])
        record = save(site.store, record, dataclasses.replace(record, status=status))
        for action, code, may in (
            ("retry", "not_retryable", transitions.retryable(record)),
            ("cancel", "not_cancellable", transitions.cancellable(record)),
        ):
            shown = site.get(f"/v1/deletions/{made['id']}").json["deletion"]
            assert shown["retryable" if action == "retry" else "cancellable"] is may
            answer = site.post(f"/v1/deletions/{made['id']}/{action}")
            assert answer.status == (202 if may else 409)
            if not may:
                assert answer.error["code"] == code
            record = save(site.store, site.store.get(made["id"]), record)
        save(site.store, record, dataclasses.replace(record, status=Status.DELETED))


def test_the_point_of_no_return(site):
    made = site.ask()
    record = site.store.get(made["id"])
    assert site.get(f"/v1/deletions/{made['id']}").json["deletion"]["cancellable"] is True
    save(
        site.store, record, dataclasses.replace(record, status=Status.VERIFYING, purpose=RoundPurpose.PROJECT_SETTINGS)
    )
    assert site.get(f"/v1/deletions/{made['id']}").json["deletion"]["cancellable"] is False
    answer = site.post(f"/v1/deletions/{made['id']}/cancel")
    assert (answer.status, answer.error["detail"]) == (
        409,
        "the project is being removed: the deletion can no longer be stopped",
    )


def test_a_cancel_stops_what_is_below_as_well(site):
    root = tree(site).json["deletion"]["id"]
    made = by_project(site)
    moved(site, made["child-2"]["id"], Status.FAILED)
    assert site.post(f"/v1/deletions/{root}/cancel").status == 202
    assert {p: d["status"] for p, d in by_project(site).items()} == {
        "parent": "cancelling",
        "child-1": "cancelling",
        "child-2": "failed",
    }


def test_a_cancel_stops_what_runs_below_one_that_has_ended(site):
    root = tree(site).json["deletion"]["id"]
    moved(site, by_project(site)["child-1"]["id"], Status.FAILED)
    assert site.post(f"/v1/deletions/{root}/cancel").status == 202
    assert {p: d["status"] for p, d in by_project(site).items()} == {
        "parent": "cancelling",
        "child-1": "failed",
        "child-2": "cancelling",
    }


ACTIONS = pytest.mark.parametrize("action", ["cancel", "restore"])


def statuses(site):
    return {p: d["status"] for p, d in by_project(site).items()}


@ACTIONS
@pytest.mark.parametrize("saved", [0, 1, 2])
def test_a_tree_is_stopped_from_below_and_a_failed_request_can_be_repeated(site, monkeypatch, action, saved):
    root = tree(site).json["deletion"]["id"]
    propose, calls = site.store.propose, []

    def dying(proposal):
        if len(calls) == saved:
            raise MemoryError("dead")
        calls.append(1)
        return propose(proposal)

    with monkeypatch.context() as patch:
        patch.setattr(site.store, "propose", dying)
        assert site.post(f"/v1/deletions/{root}/{action}").status == 500
    order = ("child-2", "child-1", "parent")
    assert statuses(site) == {p: "cancelling" if n < saved else "accepted" for n, p in enumerate(order)}
    assert site.post(f"/v1/deletions/{root}/{action}").status == 202
    assert set(statuses(site).values()) == {"cancelling"}


@ACTIONS
def test_a_conflict_below_is_reported_and_stops_nothing_above_it(site, monkeypatch, action):
    root = tree(site).json["deletion"]["id"]
    propose = site.store.propose

    def busy(proposal):
        if proposal.seen.project_id == "child-1":
            raise storage.Conflict("always")
        return propose(proposal)

    with monkeypatch.context() as patch:
        patch.setattr(site.store, "propose", busy)
        answer = site.post(f"/v1/deletions/{root}/{action}")
    assert (answer.status, answer.error["code"]) == (409, "conflict")
    assert statuses(site) == {"parent": "accepted", "child-1": "accepted", "child-2": "cancelling"}
    assert site.post(f"/v1/deletions/{root}/{action}").status == 202
    assert set(statuses(site).values()) == {"cancelling"}


@ACTIONS
@pytest.mark.parametrize("path", [(Status.CANCELLING,), (Status.CANCELLING, Status.CANCELLED)], ids=str)
def test_a_stopped_deletion_can_be_stopped_again_for_the_ones_below_it(site, action, path):
    root = tree(site).json["deletion"]["id"]
    moved(site, root, *path)
    answer = site.post(f"/v1/deletions/{root}/{action}")
    assert (answer.status, answer.json["deletion"]["status"]) == (202, str(path[-1]))
    assert statuses(site) == {"parent": str(path[-1]), "child-1": "cancelling", "child-2": "cancelling"}
    answer = site.post(f"/v1/deletions/{root}/{action}")
    assert (answer.status, answer.error["code"]) == (
        409,
        {"cancel": "not_cancellable", "restore": "not_restorable"}[action],
    )


@ACTIONS
def test_a_deletion_that_cannot_be_stopped_stops_none_below_it(site, action):
    root = tree(site, mode="cascade").json["deletion"]["id"]
    moved(site, root, Status.DRAINING, Status.INVENTORY, Status.DELETING)
    if action == "cancel":
        record = site.store.get(root)
        save(
            site.store,
            record,
            dataclasses.replace(record, status=Status.VERIFYING, purpose=RoundPurpose.PROJECT_SETTINGS),
        )
    else:
        moved(site, root, Status.CANCELLING)
    before = statuses(site)
    assert site.post(f"/v1/deletions/{root}/{action}").status == 409
    assert statuses(site) == before


@ACTIONS
def test_one_that_comes_to_rest_while_those_below_it_are_stopped_is_stopped(site, monkeypatch, action):
    root = tree(site).json["deletion"]["id"]
    propose = site.store.propose

    def resting(proposal):
        decided = propose(proposal)
        if proposal.seen.project_id == "child-1":
            monkeypatch.undo()
            moved(site, root, Status.INVENTORY, Status.LEFTOVERS)
        return decided

    monkeypatch.setattr(site.store, "propose", resting)
    answer = site.post(f"/v1/deletions/{root}/{action}")
    assert (answer.status, answer.json["deletion"]["status"]) == (202, "leftovers")
    assert statuses(site) == {"parent": "leftovers", "child-1": "cancelling", "child-2": "cancelling"}


def test_one_that_deletes_while_those_below_it_are_stopped_is_not_restored(site, monkeypatch):
    root = tree(site, mode="cascade").json["deletion"]["id"]
    propose = site.store.propose

    def deleting(proposal):
        decided = propose(proposal)
        if proposal.seen.project_id == "child-1":
            monkeypatch.undo()
            moved(site, root, Status.DRAINING, Status.INVENTORY, Status.DELETING)
        return decided

    monkeypatch.setattr(site.store, "propose", deleting)
    answer = site.post(f"/v1/deletions/{root}/restore")
    assert (answer.status, answer.error["code"]) == (409, "not_restorable")
    assert site.store.get(root).status is Status.DELETING
