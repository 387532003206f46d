"""Plugin liens from end to end over the emulated cloud: while others use an image, nothing is deleted."""

from __future__ import annotations

import datetime

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.store import Page
from tests.emulated.orchestrator import Orchestrator
from tests.support.emulated_site import LEAN, with_cloud
from tests.support.timing import wait

LONG = 300
IMAGE = "image.image"
CLOUD = {**LEAN, "things": {IMAGE: 5}}
LIENS = {"protection": {"lien_types": IMAGE}, "service_image": {"delete_shared_images": "false"}}


@pytest.fixture
def image(emulated):
    """The small project's image that its neighbour is a member of."""
    shared = {"visibility": "shared", "members": [emulated.bystanders[0]]}
    return emulated.state.add("RegionOne", IMAGE, emulated.projects[0], name="golden", **shared)


def liens(made, **which):
    return made.store.liens(Page(100), **which)[0]


def is_held(made, id_):
    return any(c.type == "on_hold" and c.status for c in made.store.get(id_).conditions)


def told(made, id_):
    return [row.event.type for row in made.store.events(id_, 10_000) if row.event.type.startswith("lien.")]


def held_by_it(made, emulated, image):
    """Return a cascade that the lien of the image has put on hold, and the resources of the project before it."""
    [project] = emulated.projects
    before = owned(emulated)
    id_ = made.request(project)
    wait("it is held", lambda: is_held(made, id_), LONG)
    wait("the inventory is over", lambda: all(s.round for s in made.store.steps(id_) if s.name == IMAGE), LONG)
    [lien] = liens(made, in_force=True)
    assert lien.project_id == project and lien.origin == "plugin:image.image"
    assert image.id in lien.reason and "golden" in lien.reason and emulated.bystanders[0] not in lien.reason
    [row] = made.store.leftovers(id_, 10, reasons={Reason.PROTECTED}, service="image")
    assert [b["owner"] for b in row.leftover.blocked_by] == [emulated.bystanders[0]]
    return id_, lien, before


def owned(emulated):
    """Return the ids of the resources of the project, without those that Neutron has for every project."""
    [project] = emulated.projects
    tables = [
        table for table in emulated.state.tables.values() if not (table.kind.project_setting or table.kind.history)
    ]
    services = [table for table in tables if table.kind.service != "identity"]  # those of Keystone come last
    rows = [row for table in services for row in table.owned.get(project, {}).values()]
    default = [row.id for row in rows if str(row.get("name")).startswith("default")]
    return {row.id for row in rows if row.id not in default and row.get("security_group_id") not in default}


def touched(emulated):
    """Return the resources of the project that were deleted or changed, without roles and the lock."""
    found = [t for write in list(emulated.audit.writes) for t in write.touched if t.owner in emulated.projects]
    return [t for t in found if not t.kind.startswith("identity.")]


@pytest.mark.slow
def test_one_image_that_others_use_keeps_all_of_its_project_until_an_admin_removes_the_lien(emulated, image, tmp_path):
    with Orchestrator(emulated, tmp_path, **LIENS) as made:
        id_, lien, before = held_by_it(made, emulated, image)
        wait("it rests", lambda: at_rest(made, id_), LONG)
        assert made.store.get(id_).status is Status.INVENTORY
        assert touched(emulated) == [] and owned(emulated) == before
        made.store.remove_lien(lien.id, "admin")
        made.parts.bus.decide(id_)
        wait("all but the image is gone", lambda: owned(emulated) == {image.id}, LONG)
        assert image.id in image.table.rows, "what others use is never deleted, with a lien or without"
        assert liens(made, in_force=True) == [] and told(made, id_) == ["lien.raised"]
        image.table.change(image, {"members": []})
        assert made.wait([id_], LONG) == {id_: Status.DELETED}
    assert emulated.audit.deleted_while_not_empty() == []


@pytest.mark.slow
def test_the_lien_ends_when_no_other_project_uses_the_image(emulated, image, tmp_path):
    with Orchestrator(emulated, tmp_path, **LIENS) as made:
        id_, lien, _before = held_by_it(made, emulated, image)
        image.table.change(image, {"members": []})
        assert made.wait([id_], LONG) == {id_: Status.DELETED}
        assert told(made, id_) == ["lien.raised", "lien.ended"]
        assert made.store.lien(lien.id)[0].deleted_by == "plugin"


@pytest.mark.slow
def test_a_dry_run_and_a_report_announce_the_lien_and_record_none(emulated, image, tmp_path):
    [project] = emulated.projects
    with Orchestrator(emulated, tmp_path, **LIENS) as made:
        dry = made.request(project, dry_run=True)
        assert made.wait([dry], LONG) == {dry: Status.PLANNED}
        report = made.request(project, Mode.REPORT)
        assert made.wait([report], LONG) == {report: Status.LEFTOVERS}
        for id_ in (dry, report):
            assert told(made, id_) == ["lien.foreseen"]
            found = {r.leftover.id: r.leftover for r in made.store.leftovers(id_, 10_000)}
            assert found[image.id].reason == "protected"
        assert liens(made) == []


@pytest.mark.slow
def test_without_the_option_it_is_left_over_and_everything_else_goes(emulated, image, tmp_path):
    [project] = emulated.projects
    options = {**LIENS, "protection": {}}
    with Orchestrator(emulated, tmp_path, **options) as made:
        id_ = made.request(project)
        wait("all but the image is gone", lambda: owned(emulated) == {image.id}, LONG)
        assert liens(made) == [] and image.id in image.table.rows
        assert made.store.get(id_).status in (Status.DELETING, Status.VERIFYING)


@with_cloud(things={IMAGE: 5, "key-manager.secret": 20})
@pytest.mark.slow
def test_an_image_that_is_shared_after_the_inventory_stops_what_is_under_way(emulated, image, tmp_path):
    """Deletes of images have begun, and the delete of this image checks again: then nothing more is deleted."""
    image.table.change(image, {"members": []})
    decide = emulated.faults.fate

    def shared_first(service, region, method, target, *more):
        if method == "GET" and target.endswith(f"/images/{image.id}"):  # the check right before its delete
            image.table.change(image, {"members": [emulated.bystanders[0]]})
        return decide(service, region, method, target, *more)

    emulated.faults.fate = shared_first
    with Orchestrator(emulated, tmp_path, **LIENS) as made:
        id_ = made.request(emulated.projects[0])
        wait("it is held", lambda: is_held(made, id_), LONG)
        wait("it rests", lambda: at_rest(made, id_), LONG)
        there = owned(emulated)
        assert told(made, id_) == ["lien.raised"] and image.id in image.table.rows
        secrets = set(emulated.state.table("RegionOne", "key-manager.secret").owned[emulated.projects[0]])
        assert len(secrets) == 20 and secrets <= there, "what comes after images has not begun"
        until = made.store.now() + datetime.timedelta(seconds=3)
        wait("a while", lambda: made.store.now() > until, LONG)
        assert owned(emulated) == there


def at_rest(made, id_):
    return not any(step.state in ("running", "dispatched") for step in made.store.steps(id_) if step.name != IMAGE)
