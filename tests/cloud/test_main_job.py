"""The main job over the light cloud: report, dry run, cascade and cancel."""

from __future__ import annotations

import datetime

import openstack.exceptions
import pytest
from openstack.connection import Connection

from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.dependencies import confirmed_gone
from cleanup_orchestrator.core.step import Outcome
from tests.cloud import filler
from tests.cloud.fillings.base import Filled
from tests.cloud.proof import left

EVERYTHING = ("keystone", "neutron", "glance", "barbican")


@pytest.fixture(scope="module")
def bystander(admin: Connection) -> Filled:
    """A full project that no test deletes: two list it, one deletes a project that shares things with it."""
    return filler.fill(admin, "spared", objects=5)


def test_a_report_of_a_full_project_lists_it_and_leaves_it_as_it_was(cloud, sweeper, orchestrator, bystander):
    grants, before = sweeper.assignments(bystander.project_id), left(cloud, bystander.project_id)
    deletion_id = orchestrator.request(bystander.project_id, Mode.REPORT)
    orchestrator.wait(deletion_id, Status.LEFTOVERS)
    found = {row.leftover.id for row in orchestrator.store.leftovers(deletion_id, 1000)}
    for kind in ("network", "port", "router", "image", "application credential", "trust", "floating ip"):
        assert set(bystander.ids[kind]) & found, kind
    assert left(cloud, bystander.project_id) == before
    assert sweeper.assignments(bystander.project_id) == grants
    assert "drain" not in {e.event.type.removeprefix("step.") for e in orchestrator.store.events(deletion_id, 1000)}


def test_a_dry_run_writes_nothing_at_all_anywhere(cloud, admin, sweeper, orchestrator, bystander):
    # At the first list of security groups Neutron creates a default group in the project of the caller.
    list(filler.connect_as(admin, "orchestrator", "orchestrator", "service").network.security_groups())
    before = sweeper.dump(*EVERYTHING)
    deletion_id = orchestrator.request(bystander.project_id, Mode.CASCADE, dry_run=True)
    orchestrator.wait(deletion_id, Status.PLANNED)
    assert sweeper.dump(*EVERYTHING) == before
    # no role may be taken for it, so what needs a project-scoped token is unknown, and says so with the way out
    assert orchestrator.step(deletion_id, "key-manager.secret").reason == "no_project_token"
    # an inherited role, which the operator gave once and for all, makes it whole
    role = cloud.admin.call("GET", "/roles?name=admin")["roles"][0]["id"]
    inherited = f"/OS-INHERIT/domains/default/users/{orchestrator.user_id}/roles/{role}/inherited_to_projects"
    cloud.admin.call("PUT", inherited)
    try:
        before = sweeper.dump("neutron", "glance", "keystone")
        deletion_id = orchestrator.request(bystander.project_id, Mode.CASCADE, dry_run=True)
        orchestrator.wait(deletion_id, Status.PLANNED)
        assert orchestrator.step(deletion_id, "key-manager.secret").outcome is Outcome.LEFTOVERS
        assert orchestrator.step(deletion_id, "key-manager.secret").deleted == 0
        assert sweeper.dump("neutron", "glance", "keystone") == before
    finally:
        cloud.admin.call("DELETE", inherited)


def test_a_cascade_leaves_nothing_and_changes_no_other_project(cloud, admin, orchestrator, bystander):
    kept_resources = left(cloud, bystander.project_id)
    filled = filler.fill(admin, "doomed", partner=bystander.project_id, objects=20)
    image = next(i for i in filled.ids["image"] if admin.image.get_image(i).visibility == "community")
    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
    # The community image is protected by default: it is named, and everything that it does not need is deleted. The
    # account has a key for signed URLs, so that the image's data may be in any container.
    others = ("network.address_scope", "network.rbac_policy", "key-manager.secret")
    orchestrator.wait(
        deletion_id,
        until=lambda r: (
            orchestrator.blockers(deletion_id) == {"image.image": "protected", "object-store.container": "in_use"}
            and all(confirmed_gone(orchestrator.step(deletion_id, name), r.round) for name in others)
        ),
        seconds=400,
    )
    assert [r.leftover.id for r in orchestrator.store.leftovers(deletion_id, 10, type="image")] == [image]
    admin.image.update_image(image, visibility="private")
    record = orchestrator.wait(deletion_id, Status.DELETED)
    assert left(cloud, filled.project_id) == {}
    assert left(cloud, bystander.project_id) == kept_resources
    assert record.drained_at < record.closed_at
    events = orchestrator.store.events(deletion_id, 10000)
    opened = [
        e.at for e in events if e.event.data.get("purpose") == RoundPurpose.INVENTORY and e.at > record.drained_at
    ]
    settled = record.drained_at + datetime.timedelta(seconds=5)
    assert len([at for at in opened if at >= settled]) >= 3, "two before the project was disabled, one after"
    assert orchestrator.store.changes(deletion_id) == ()
    gone = [r["id"] for e in events if e.event.type == "resource.deleted" for r in e.event.data["resources"]]
    assert set(filled.ids["network"]) <= set(gone), "the journal says what was deleted"


def test_an_empty_project_is_removed_by_a_report_too(cloud, admin, orchestrator):
    filled = filler.fill(admin, "empty", only=())
    deletion_id = orchestrator.request(filled.project_id, Mode.REPORT)
    orchestrator.wait(deletion_id, Status.DELETED)
    assert left(cloud, filled.project_id) == {}


def test_a_cancel_gives_back_exactly_what_was_taken(cloud, admin, sweeper, orchestrator):
    filled = filler.fill(admin, "cancelled", only=("image", "identity"))  # its community image keeps it from ending
    grants = sweeper.assignments(filled.project_id)
    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
    orchestrator.wait(deletion_id, until=lambda r: r.status is Status.DELETING and orchestrator.blockers(deletion_id))
    assert {row for row in sweeper.assignments(filled.project_id) if row not in grants}, "our own grant"
    assert not sweeper.assignments(filled.project_id) & grants, "the others' are gone"
    with pytest.raises(openstack.exceptions.SDKException, match="401"):
        filler.connect_as(admin, filled.user_name, filled.password, filled.project_name).authorize()
    orchestrator.cancel(deletion_id)
    orchestrator.wait(deletion_id, Status.CANCELLED)
    assert sweeper.assignments(filled.project_id) == grants
    assert filler.connect_as(admin, filled.user_name, filled.password, filled.project_name).authorize()
    # its application credentials survived the drain
    assert left(cloud, filled.project_id)["keystone: application credentials"] == 2


def test_a_cancel_in_the_middle_of_the_deletes_says_what_is_gone(cloud, admin, orchestrator):
    filled, number = filler.fill(admin, "halfway", only=()), 60
    for n in range(number):
        admin.network.create_network(name=f"halfway-{n}", project_id=filled.project_id)

    def there() -> int:
        return len(list(admin.network.networks(project_id=filled.project_id)))

    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
    orchestrator.wait(deletion_id, until=lambda _: there() < number)
    orchestrator.cancel(deletion_id)
    orchestrator.wait(deletion_id, Status.CANCELLED)
    left_over = there()
    assert 0 < left_over < number
    assert orchestrator.step(deletion_id, "network.network").deleted == number - left_over
    events = [row.event for row in orchestrator.store.events(deletion_id, 10000, type="resource.deleted")]
    assert (
        sum(len(event.data["resources"]) for event in events if event.data["type"] == "network") == number - left_over
    )
    orchestrator.run(filled.project_id, Mode.CASCADE, Status.DELETED)
    assert left(cloud, filled.project_id) == {}
