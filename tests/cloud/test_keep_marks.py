"""Keep marks on real networks and images: these stay during a cascade, and are deleted without the keep mark."""

from __future__ import annotations

from cleanup_orchestrator.core.deletion import Mode, Status
from tests.cloud import filler
from tests.cloud.proof import left

OPTIONS = """
[protection]
keep_tags = keep
keep_properties = retention=legal
"""


def test_a_resource_with_a_keep_mark_survives_a_cascade_with_its_whole(cloud, admin, orchestrator):
    """A keep mark on a subnet keeps its network, whose delete includes it; one on a network keeps its subnets."""
    filled = filler.make_project(admin, "marked", password=None, partner=None)
    project = {"project_id": filled.project_id}
    networks = [admin.network.create_network(name=f"n{n}", **project) for n in range(3)]
    subnets = [
        admin.network.create_subnet(network_id=n.id, ip_version=4, cidr=f"10.{i}.0.0/24", **project)
        for i, n in enumerate(networks)
    ]
    group = admin.network.create_security_group(name="marked", **project)
    images = [
        admin.image.create_image(f"i{n}", disk_format="raw", container_format="bare", owner=filled.project_id)
        for n in range(3)
    ]
    admin.network.set_tags(subnets[0], ["web", "Keep"])
    admin.network.set_tags(networks[1], ["keep"])
    admin.network.set_tags(group, ["keep"])
    admin.image.add_tag(images[0], "keep")
    admin.image.update_image(images[1], retention="legal")
    marked = {
        subnets[0].id: "'Keep'",
        networks[0].id: subnets[0].id,
        networks[1].id: "'keep'",
        subnets[1].id: networks[1].id,
        group.id: "'keep'",
        images[0].id: "'keep'",
        images[1].id: "'retention=legal'",
    }

    def kept():
        rows = orchestrator.store.leftovers(deletion_id, 1000)
        return {r.leftover.id: r.leftover.message for r in rows if r.leftover.reason == "protected"}

    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE, dry_run=True)
    orchestrator.wait(deletion_id, Status.PLANNED, seconds=600)
    assert kept().keys() == marked.keys(), "a dry run shows the same"

    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
    unmarked = ((admin.network.find_network, networks[2].id), (admin.image.find_image, images[2].id))
    messages = {}  # as they are when all are there: a try that fails for a moment shows none

    def only_the_marked_are_left(record):
        messages.clear()
        messages.update(kept())
        if record.status is not Status.DELETING or messages.keys() != marked.keys():
            return False
        return not [id_ for find, id_ in unmarked if find(id_, ignore_missing=True)]

    orchestrator.wait(deletion_id, until=only_the_marked_are_left, seconds=600)
    assert [id_ for id_, part in marked.items() if part not in messages[id_]] == []
    # One more round at least, in which all of it could have been deleted.
    surveys = orchestrator.step(deletion_id, "survey").attempt
    orchestrator.wait(
        deletion_id, until=lambda r: orchestrator.step(deletion_id, "survey").attempt > surveys + 1, seconds=600
    )
    for network, subnet in zip(networks[:2], subnets[:2], strict=True):
        assert admin.network.get_network(network.id).subnet_ids == [subnet.id]
    assert admin.network.get_security_group(group.id).id == group.id
    assert {admin.image.get_image(i.id).id for i in images[:2]} == {images[0].id, images[1].id}

    admin.network.set_tags(subnets[0], [])
    admin.network.set_tags(networks[1], [])
    admin.network.set_tags(group, [])
    admin.image.remove_tag(images[0], "keep")
    admin.image.update_image(images[1], retention="none")
    orchestrator.wait(deletion_id, Status.DELETED, seconds=600)
    assert left(cloud, filled.project_id) == {}
