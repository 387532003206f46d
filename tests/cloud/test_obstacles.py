"""Obstacles of a deletion: each is named, and independent types are deleted. Over the light cloud."""

from __future__ import annotations

import datetime
import uuid

from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.worker.steps.remove import Remove
from tests.cloud import filler
from tests.cloud.orchestrator import catalogued
from tests.cloud.proof import left


def test_inherited_grants_are_named_and_only_what_follows_the_closing_counts(cloud, admin, orchestrator):
    filled = filler.fill(admin, "inherited", only=("key-manager",))
    role = cloud.admin.call("GET", "/roles?name=member")["roles"][0]["id"]
    heir = cloud.admin.ensure_user("heir", "heir", "service", ("member",))["id"]
    cloud.admin.call("PUT", f"/OS-INHERIT/domains/default/users/{heir}/roles/{role}/inherited_to_projects")
    try:
        deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
        drained = lambda r: next((c for c in r.conditions if c.type == "drained"), None)  # noqa: E731
        record = orchestrator.wait(deletion_id, until=drained)
        assert (drained(record).status, drained(record).reason) == (False, "inherited_grants")
        assert heir in drained(record).message
        record = orchestrator.wait(deletion_id, Status.DELETED)
        settled = record.closed_at + datetime.timedelta(seconds=5)
        events = orchestrator.store.events(deletion_id, 1000)
        opened = [e.at for e in events if e.event.data.get("purpose") == RoundPurpose.INVENTORY]
        assert len([at for at in opened if at >= settled]) == 2
    finally:
        cloud.admin.call("DELETE", f"/OS-INHERIT/domains/default/users/{heir}/roles/{role}/inherited_to_projects")


def test_a_service_without_a_plugin_blocks_completion_until_it_is_dealt_with(cloud, admin, orchestrator):
    filled = filler.fill(admin, "uncovered", only=("key-manager",))
    with catalogued(cloud, "weather", "http://127.0.0.1:1/"):
        deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
        gone = lambda r: orchestrator.step(deletion_id, "key-manager.secret").deleted  # noqa: E731
        orchestrator.wait(deletion_id, until=lambda r: r.status is Status.DELETING and gone(r))
        no_plugin = {"weather.unsupported": "no_plugin"}
        orchestrator.wait(deletion_id, until=lambda r: orchestrator.blockers(deletion_id) == no_plugin)
        orchestrator.tried_again(deletion_id, "survey")
        assert orchestrator.store.get(deletion_id).status is Status.DELETING
        assert orchestrator.blockers(deletion_id) == no_plugin
    # It has left the catalog: the resources of the project there are unknown, and not gone. An admin waives it.
    said = lambda: orchestrator.step(deletion_id, "weather.").message  # noqa: E731
    orchestrator.wait(deletion_id, until=lambda r: "left the catalog" in said())
    assert orchestrator.blockers(deletion_id) == no_plugin
    now = orchestrator.store.now()
    until = now + datetime.timedelta(hours=1)
    orchestrator.store.add_waiver(Waiver(str(uuid.uuid4()), "weather", "it was a trial", now, until))
    record = orchestrator.wait(deletion_id, Status.DELETED)
    assert "weather in every region: waiver" in record.message
    assert "it was a trial" not in record.message, "why is for those who may read waivers"
    assert left(cloud, filled.project_id) == {}


def test_an_endpoint_that_is_down_blocks_its_steps_and_completion(cloud, admin, orchestrator):
    filled = filler.fill(admin, "dead-endpoint", only=("network", "image"))
    for image in filled.ids["image"]:
        if admin.image.get_image(image).visibility == "community":
            admin.image.update_image(image, visibility="private")
    (image,) = cloud.admin.call("GET", "/services?type=image")["services"]
    endpoints = cloud.admin.call("GET", f"/endpoints?service_id={image['id']}")["endpoints"]
    for endpoint in endpoints:
        cloud.admin.call("PATCH", f"/endpoints/{endpoint['id']}", {"endpoint": {"url": "http://127.0.0.1:1"}})
    orchestrator.parts.clouds.admin_auth().invalidate()  # the catalog comes with the token
    try:
        deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
        gone = lambda r: orchestrator.step(deletion_id, "network.network").deleted  # noqa: E731
        orchestrator.wait(deletion_id, until=lambda r: r.status is Status.DELETING and gone(r))
        dead = lambda r: orchestrator.step(deletion_id, "image.image").reason == "unreachable"  # noqa: E731
        orchestrator.wait(deletion_id, until=dead)
        orchestrator.tried_again(deletion_id, "image.image")
        assert orchestrator.store.get(deletion_id).status is Status.DELETING
        assert dead(None)
    finally:
        for endpoint in endpoints:
            cloud.admin.call("PATCH", f"/endpoints/{endpoint['id']}", {"endpoint": {"url": endpoint["url"]}})
    orchestrator.wait(deletion_id, Status.DELETED)  # without a request: the catalog is read again
    assert left(cloud, filled.project_id) == {}


def test_a_disabled_project_is_reported_as_far_as_an_admin_can_see(cloud, admin, orchestrator):
    filled = filler.fill(admin, "disabled", only=("key-manager", "image"))
    cloud.admin.call("PATCH", f"/projects/{filled.project_id}", {"project": {"enabled": False}})
    deletion_id = orchestrator.request(filled.project_id, Mode.REPORT)
    orchestrator.wait(deletion_id, Status.LEFTOVERS)
    assert orchestrator.step(deletion_id, "image.image").outcome is Outcome.LEFTOVERS
    assert orchestrator.step(deletion_id, "key-manager.secret").outcome is Outcome.UNKNOWN
    assert orchestrator.blockers(deletion_id)["key-manager.secret"] == "no_project_token"


def test_a_project_with_children_fails_untouched(cloud, admin, orchestrator):
    parent = filler.fill(admin, "parent", only=())
    child = cloud.admin.call(
        "POST", "/projects", {"project": {"name": "child", "domain_id": "default", "parent_id": parent.project_id}}
    )["project"]["id"]
    record = orchestrator.wait(orchestrator.request(parent.project_id, Mode.CASCADE), Status.FAILED)
    assert record.reason == "project_has_children"
    assert child in record.message


def test_a_second_deletion_of_a_project_does_not_live_on_the_token_of_the_first(cloud, admin, orchestrator):
    filled = filler.fill(admin, "twice", only=("key-manager",))
    orchestrator.wait(orchestrator.request(filled.project_id, Mode.REPORT), Status.LEFTOVERS)
    orchestrator.wait(orchestrator.request(filled.project_id, Mode.CASCADE), Status.DELETED)
    assert left(cloud, filled.project_id) == {}


def test_what_others_create_right_before_they_delete_the_project_is_found(cloud, admin, orchestrator, monkeypatch):
    """They open the closed project after its last inventory. The delete by the orchestrator then finds no project.

    No engine hears of it: Keystone's notifications are not configured.
    """
    project_id, made = filler.fill(admin, "opened-again", only=()).project_id, []
    delete = Remove._delete

    def others_first(step: Remove, projects: Projects) -> StepResult | None:
        if not made:
            cloud.admin.call("PATCH", f"/projects/{project_id}", {"project": {"enabled": True}})
            image = {"name": "late", "disk_format": "raw", "container_format": "bare", "owner": project_id}
            made.append(admin.image.post("/images", json=image).json()["id"])
            cloud.admin.call("DELETE", f"/projects/{project_id}")
        return delete(step, projects)

    monkeypatch.setattr(Remove, "_delete", others_first)
    record = orchestrator.wait(orchestrator.request(project_id, Mode.CASCADE), Status.LEFTOVERS)
    assert made and left(cloud, project_id) == {}, "the image was found and deleted"
    assert record.reason == "project_gone" and "object-store.container" in record.message, "only its token shows these"
