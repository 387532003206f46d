"""Plans and the recovery window with the real services: later resources stay, and a project is restored."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from cleanup_orchestrator.core import plans
from cleanup_orchestrator.core.deletion import Mode, Status, accepted
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import TASKS
from tests.cloud import filler
from tests.cloud.fillings.image import DATA
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import Orchestrator
from tests.cloud.proof import left

WINDOW = """
[deletion]
recovery_window = 1
"""


# One at a time: two in one process would receive each other's messages from the in-process bus.
@pytest.fixture
def orchestrator(cloud: Cloud, tmp_path: pathlib.Path) -> Iterator[Orchestrator]:
    made = Orchestrator(cloud, tmp_path)
    yield made
    made.running.close()


@pytest.fixture
def resting(cloud: Cloud, tmp_path: pathlib.Path) -> Iterator[Orchestrator]:
    """One with a recovery window of a day."""
    made = Orchestrator(cloud, tmp_path, WINDOW)
    yield made
    made.running.close()


def test_a_cascade_by_a_plan_deletes_what_was_planned_and_names_what_came_later(cloud, admin, sweeper, orchestrator):
    filled = filler.make_project(admin, "planned", password=None, partner=None)
    sweeper.enter(filled)  # the others' types, too, can be seen by who gets a token of the project
    cloud.admin.ensure_role(filled.project_id, orchestrator.user_id, "admin")
    project = {"project_id": filled.project_id}
    network = admin.network.create_network(name="old", **project)
    widened = admin.network.create_network(name="widened", **project)
    subnet = admin.network.create_subnet(network_id=network.id, ip_version=4, cidr="10.0.0.0/24", **project)
    grants = sweeper.assignments(filled.project_id)

    plan_id = orchestrator.request(filled.project_id, Mode.CASCADE, dry_run=True)
    record = orchestrator.wait(plan_id, Status.PLANNED)
    steps = orchestrator.store.steps(plan_id)
    assert plans.is_plan(record) and plans.gaps(record, steps) == ()
    assert {network.id, widened.id} <= orchestrator.store.planned(plan_id, "RegionOne", "network", "network")
    again = orchestrator.request(filled.project_id, Mode.CASCADE, dry_run=True)
    orchestrator.wait(again, Status.PLANNED)
    assert plans.hash_of(orchestrator.store.steps(again)) == plans.hash_of(steps)

    newcomer = admin.network.create_network(name="new", **project)
    part = admin.network.create_subnet(network_id=widened.id, ip_version=4, cidr="10.1.0.0/24", **project)
    about = {"project_id": filled.project_id, "project_name": "?", "domain_id": "default"}
    bound = {"plan_id": plan_id, "plan_hash": plans.hash_of(steps)}
    wanted = accepted(id="bound", mode=Mode.CASCADE, dry_run=False, **about, **bound)
    orchestrator.store.create(wanted, TASKS, Event("deletion.accepted", "a test asks for it"))
    orchestrator.parts.bus.decide("bound")
    ended = orchestrator.wait("bound", Status.LEFTOVERS, seconds=600)

    assert ended.reason == "unplanned"
    rows = {r.leftover.id: r.leftover for r in orchestrator.store.leftovers("bound", 1000)}
    assert {i for i, r in rows.items() if r.reason == "not_planned"} == {newcomer.id, part.id, widened.id}
    assert part.id in rows[widened.id].message, "it would have taken its new subnet along"
    for find, gone in ((admin.network.find_network, network.id), (admin.network.find_subnet, subnet.id)):
        assert find(gone, ignore_missing=True) is None
    assert admin.network.get_network(newcomer.id).id == newcomer.id
    assert admin.network.get_network(widened.id).subnet_ids == [part.id]
    assert sweeper.assignments(filled.project_id) == grants, "the lock is undone"


def test_a_recoverable_project_is_not_changed_and_can_be_restored(cloud, admin, sweeper, resting):
    filled = filler.make_project(admin, "recoverable", password=None, partner=None)
    network = admin.network.create_network(name="n", project_id=filled.project_id)
    grants, before = sweeper.assignments(filled.project_id), left(cloud, filled.project_id)
    deletion_id = resting.request(filled.project_id, Mode.CASCADE)
    record = resting.wait(deletion_id, until=lambda r: r.status is Status.RECOVERABLE)
    assert 86_000 < (record.point_of_no_return_at - resting.store.now()).total_seconds() <= 86_400
    assert sweeper.assignments(filled.project_id) != grants, "it is locked"
    assert admin.network.get_network(network.id).id == network.id
    resting.cancel(deletion_id)
    resting.wait(deletion_id, Status.CANCELLED)
    assert sweeper.assignments(filled.project_id) == grants
    assert left(cloud, filled.project_id) == before


def test_a_plan_has_the_sizes_that_the_services_list(cloud, admin, sweeper, orchestrator):
    filled = filler.fill(admin, "sized", objects=10, only=("image", "object-store"))
    sweeper.enter(filled)
    cloud.admin.ensure_role(filled.project_id, orchestrator.user_id, "admin")
    plan_id = orchestrator.request(filled.project_id, Mode.CASCADE, dry_run=True)
    orchestrator.wait(plan_id, Status.PLANNED)
    sizes: dict[str, set[int | None]] = {}
    for row in orchestrator.store.leftovers(plan_id, 1000):
        sizes.setdefault(f"{row.service}.{row.type}", set()).add(row.leftover.size)
    assert sizes["image.image"] >= {len(DATA), None}, "one image is queued, and has no size yet"
    # The listing of the account may be behind what was just written: then a container seems to be empty.
    assert None not in sizes["object-store.container"]
    known = {name for name, found in sizes.items() if found != {None}}
    assert known == {"image.image", "object-store.container"}
    counted = orchestrator.store.plan_counts(plan_id)["RegionOne", "image", "image"][Reason.PRESENT]
    assert counted.size is not None and counted.size % len(DATA) == 0 and counted.size > 0
