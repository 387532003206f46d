"""Deletions of a tree of projects in a real Keystone, over the real API."""

from __future__ import annotations

import pytest
import requests

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.store import Page
from tests.cloud import filler
from tests.cloud.conftest import free_port_base
from tests.cloud.orchestrator import Orchestrator

API = """
[keystone_authtoken]
auth_section = orchestrator
www_authenticate_uri = {auth_url}
[api]
port = {port}
"""


class Api:
    """The API as an administrator uses it."""

    def __init__(self, cloud, directory) -> None:
        self.cloud, port = cloud, free_port_base()
        self.orchestrator = Orchestrator(cloud, directory, API.format(auth_url=cloud.auth_url, port=port))
        self.orchestrator.running.start_api()
        self.url = f"http://127.0.0.1:{port}/v1/deletions"
        admin = filler.connect(cloud.auth_url, "admin", cloud.site.password, "admin")
        self.headers = {"X-Auth-Token": admin.auth_token}

    def ask(self, **body):
        return requests.post(self.url, json=body, headers=self.headers, timeout=60)

    def cancel(self, deletion_id: str):
        return requests.post(f"{self.url}/{deletion_id}/cancel", headers=self.headers, timeout=60)


@pytest.fixture(scope="module")
def api(cloud, tmp_path_factory):
    made = Api(cloud, tmp_path_factory.mktemp("trees"))
    yield made
    made.orchestrator.running.close()


def tree(cloud, admin, name: str) -> dict[str, str]:
    """A top with two branches, one of which has a leaf with images in it."""
    ids = {"top": filler.fill(admin, f"{name}-top", only=()).project_id}
    for child, parent in (("left", "top"), ("right", "top"), ("leaf", "left")):
        body = {"name": f"{name}-{child}", "domain_id": "default", "parent_id": ids[parent]}
        ids[child] = cloud.admin.call("POST", "/projects", {"project": body})["project"]["id"]
    filler.fill(admin, f"{name}-leaf", only=("key-manager",))
    return ids


def records(api, ids):
    return {name: api.orchestrator.store.list(Page(1), project_id=i)[0] for name, i in ids.items()}


def test_without_the_option_a_parent_is_refused_and_every_project_below_is_named(api, cloud, admin):
    ids = tree(cloud, admin, "refused")
    answer = api.ask(project_id=ids["top"], mode="cascade")
    assert answer.status_code == 409
    error = answer.json()["errors"][0]
    assert error["code"] == "project_has_children"
    assert set(error["children"]) == {ids["left"], ids["right"], ids["leaf"]}
    assert all(ids[name] in error["detail"] for name in ("left", "right", "leaf"))


def test_a_cascade_takes_the_tree_down_from_the_leaves(api, cloud, admin):
    ids = tree(cloud, admin, "down")
    answer = api.ask(project_id=ids["top"], mode="cascade", include_subtree=True)
    assert answer.status_code == 202
    top = api.orchestrator.wait(answer.json()["deletion"]["id"], Status.DELETED)
    ended = records(api, ids)
    assert {r.status for r in ended.values()} == {Status.DELETED}
    assert ended["leaf"].finished_at < ended["left"].finished_at < top.finished_at
    assert ended["right"].finished_at < top.finished_at
    # no project was locked before the projects below it were gone
    assert ended["left"].drained_at > ended["leaf"].finished_at
    assert top.drained_at > max(ended["left"].finished_at, ended["right"].finished_at)
    known = {p["id"] for p in cloud.admin.call("GET", "/projects")["projects"]}
    assert not known & set(ids.values())


def test_a_report_of_a_tree_says_of_each_project_what_is_left_and_locks_none_with_something(api, cloud, admin):
    ids = tree(cloud, admin, "reported")
    answer = api.ask(project_id=ids["top"], include_subtree=True)
    api.orchestrator.wait(answer.json()["deletion"]["id"], Status.LEFTOVERS)
    ended = records(api, ids)
    assert {name: str(r.status) for name, r in ended.items()} == {
        "top": "leftovers",
        "left": "leftovers",
        "leaf": "leftovers",
        "right": "deleted",
    }
    assert {name for name, r in ended.items() if r.reason == "project_has_children"} == {"top", "left"}
    for name in ("top", "left", "leaf"):
        assert cloud.admin.call("GET", f"/projects/{ids[name]}")["project"]["enabled"]
        assert not ended[name].has_changes


def test_a_cancel_of_the_top_stops_the_whole_tree(api, cloud, admin):
    ids = tree(cloud, admin, "cancelled")
    deletion_id = api.ask(project_id=ids["top"], mode="cascade", include_subtree=True).json()["deletion"]["id"]
    assert api.cancel(deletion_id).status_code == 202
    api.orchestrator.wait(deletion_id, Status.CANCELLED)
    for record in records(api, ids).values():
        assert api.orchestrator.wait(record.id, Status.CANCELLED, Status.DELETED).status
