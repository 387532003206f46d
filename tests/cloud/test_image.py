"""Glance: everything of the project is deleted except what others use; the neighbour keeps all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from cleanup_orchestrator.core.plans import EMPTY_DIGEST
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.plugins import glance
from cleanup_orchestrator.plugins import image as plugin
from cleanup_orchestrator.plugins.image import SERVICE
from tests.cloud.common import (  # noqa: F401
    Case,
    ids,
    test_a_caller_without_the_admin_role_never_sees_an_empty_project,
    test_every_page_is_read,
)
from tests.cloud.fillings.base import Rest
from tests.cloud.fillings.image import make_image

CASE = Case(SERVICE, refused=("task",), limit=0, pages=((glance, "PAGE", 7),))
EVERYTHING = {
    "delete_public_images": True,
    "delete_community_images": True,
    "delete_shared_images": True,
    "delete_public_namespaces": True,
}
#: Names of namespaces that Glance misinterprets in a URL.
UNNAMEABLE = {"target ü", "with/objects/slash"}


@pytest.fixture(scope="module")
def projects(admin, projects):
    """The target has more than one page of images, one in each state, and awkward namespaces, too."""
    target, neighbour = projects
    # The neighbour shares an image with the target.
    shared = neighbour.first("image member").split("/")[0]
    Rest(neighbour.connection.image).call("POST", f"/images/{shared}/members", {"member": target.project_id})
    images, everything = Rest(target.connection.image), Rest(admin.image)
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda n: images.call("POST", "/images", {"name": f"bulk-{n}", "os_hidden": n % 3 == 0}), range(60)
            )
        )
    owner = target.project_id
    target.note("public", make_image(images, owner, "public", protected=True))
    public = [{"op": "replace", "path": "/visibility", "value": "public"}]
    patch = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    everything.call("PATCH", f"/images/{target.first('public')}", public, headers=patch)
    target.note("hidden", make_image(images, owner, "hidden", os_hidden=True, protected=True))
    target.note("lonely", make_image(images, owner, "lonely", visibility="shared"))
    target.note("rejected", make_image(images, owner, "rejected", visibility="shared"))
    rejected = f"/images/{target.first('rejected')}/members"
    images.call("POST", rejected, {"member": neighbour.project_id})
    Rest(neighbour.connection.image).call("PUT", f"{rejected}/{neighbour.project_id}", {"status": "rejected"})
    target.note("deactivated", make_image(images, owner, "deactivated"))
    everything.call("POST", f"/images/{target.first('deactivated')}/actions/deactivate")
    for name, visibility in (
        ("target public", "public"),
        ("target % ?", "private"),
        ("target ü", "private"),
        ("with/objects/slash", "private"),
    ):
        body = {"namespace": name, "owner": owner, "visibility": visibility, "protected": visibility == "public"}
        everything.call("POST", "/metadefs/namespaces", body)
    everything.call("POST", "/metadefs/namespaces", {"namespace": "with", "owner": neighbour.project_id})
    body = {"name": "slash", "properties": {}, "description": "the neighbour's"}
    everything.call("POST", "/metadefs/namespaces/with/objects", body)
    return target, neighbour


def alive(sweeper, project_id):
    found = sweeper.rows("glance", "SELECT id FROM images WHERE owner = ? AND deleted = 0", project_id)
    return {identity for (identity,) in found}


def test_an_inventory_finds_all_resources_and_changes_nothing(projects, sweeper):
    target, _ = projects
    before = sweeper.dump("glance")
    found = sweeper.inventory(SERVICE, target)
    assert sweeper.dump("glance") == before
    assert found["image"].outcome is Outcome.LEFTOVERS
    assert ids(found["image"]) == alive(sweeper, target.project_id)
    protected = {left.id for left in found["image"].leftovers if left.reason is Reason.PROTECTED}
    assert protected == {target.first("public"), target.first("image", 4)}  # public and community
    assert found["task"].outcome is Outcome.CLEAR and found["task"].kept >= 1
    assert found["membership"] == StepResult(Outcome.CLEAR, digest=EMPTY_DIGEST, absent=True)  # not asked for
    reasons = {left.id: left.reason for left in found["metadef_namespace"].leftovers}
    assert reasons == {
        "image-target::Demo": Reason.PRESENT,
        "target public": Reason.PROTECTED,
        "target % ?": Reason.PRESENT,
        "target ü": Reason.PROTECTED,
        "with/objects/slash": Reason.PROTECTED,
    }


def test_unprotecting_a_namespace_changes_nothing_else(projects, sweeper):
    """A PUT without an owner makes the project of the caller the owner of a namespace."""
    target, _ = projects
    connection, definition = sweeper.connection(write=True), sweeper.definition(SERVICE, target)
    type_ = next(t for t in SERVICE.types if t.name == "metadef_namespace")
    rows = {row["namespace"]: row for row in type_.list(connection, definition)}
    plugin._unprotect_namespace(connection, definition, type_.resource(rows["target public"], definition))
    after = connection.image.get("/metadefs/namespaces/target%20public").json()
    changed = {key for key in after if after[key] != rows["target public"].get(key)}
    assert changed <= {"protected", "updated_at"}
    assert after["owner"] == target.project_id and after["protected"] is False


def test_what_others_use_stays_until_the_operator_says_otherwise(projects, sweeper):
    target, neighbour = projects
    theirs = sweeper.inventory(SERVICE, neighbour), alive(sweeper, neighbour.project_id)
    swept = sweeper.delete(SERVICE, target)
    left = {leftover.id: leftover for leftover in swept["image"].leftovers}
    shared = target.first("image member").split("/")[0]
    assert set(left) == {target.first("public"), target.first("image", 4), shared} == alive(sweeper, target.project_id)
    assert left[shared].reason is Reason.PROTECTED
    assert left[shared].blocked_by == ({"type": "image.member", "id": shared, "owner": neighbour.project_id},)
    assert {leftover.id for leftover in swept["metadef_namespace"].leftovers} == {"target public", *UNNAMEABLE}

    swept = sweeper.delete(SERVICE, target, **EVERYTHING)
    assert swept["image"].outcome is Outcome.CLEAR and not alive(sweeper, target.project_id)
    assert {leftover.id for leftover in swept["metadef_namespace"].leftovers} == UNNAMEABLE
    member = sweeper.rows(
        "glance", "SELECT image_id FROM image_members WHERE member = ? AND deleted = 0", target.project_id
    )
    assert len(member) == 1

    assert (sweeper.inventory(SERVICE, neighbour), alive(sweeper, neighbour.project_id)) == theirs
    objects = Rest(sweeper.connection().image).call("GET", "/metadefs/namespaces/with/objects")["objects"]
    assert [item["name"] for item in objects] == ["slash"]


def test_memberships_go_when_wished(projects, sweeper):
    target, neighbour = projects
    shared = neighbour.first("image member").split("/")[0]
    listed = sweeper.inventory(SERVICE, target, sweep_memberships=True)["membership"]
    assert [leftover.id for leftover in listed.leftovers] == [shared]
    before = alive(sweeper, neighbour.project_id)
    assert sweeper.delete(SERVICE, target, sweep_memberships=True)["membership"].deleted
    members = sweeper.rows("glance", "SELECT member FROM image_members WHERE image_id = ? AND deleted = 0", shared)
    assert target.project_id not in {member for (member,) in members} and members
    assert alive(sweeper, neighbour.project_id) == before
