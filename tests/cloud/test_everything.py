"""The whole job in a cloud of thirteen services: a project with all types is deleted, and nothing else is changed.

The assertions read the databases and disks of the services (`rows`), and never use a plugin of the package. The
orchestrator is the shipped all-in-one process, and the requests are `openstack` commands.
"""

from __future__ import annotations

import pathlib
import time

import pytest

from tests.cloud import filler, rows
from tests.cloud.everything import filled_projects, job
from tests.cloud.job import of, settled, uncovered, unlike

__all__ = ["filled_projects", "job"]

#: It compares every row of the cloud.
ALONE = True


def none(what: str, found: rows.Rows) -> None:
    """Fail if there are rows, and show them all."""
    if found:
        pytest.fail("\n".join([what, *found.lines()]))


def test_no_exception_is_made_for_a_table_that_is_not_there(full_cloud):
    """An exception without a table would hide rows if a table of that name were added later.

    Services that this cloud does not have, such as Tacker, have exceptions, too.
    """
    known = set(rows.read(full_cloud).tables)
    databases = {database for database, _table in known}
    places = {(kept.database, kept.table) for kept in rows.KEPT} | set(rows.VOLATILE) | set(rows.PART_OF)
    here = {place for place in places if place[0] in databases}
    assert here and here <= known, here - known


def test_the_filled_project_has_something_in_every_service(job, filled_projects, full_cloud):
    filled, bystander = filled_projects
    everything = settled(full_cloud)
    print("\n" + "\n".join(rows.summary({
        "all": everything,
        "the project": everything.live(filled.project_id),
        "the bystander": everything.live(bystander.project_id),
    })))  # fmt: skip
    live = everything.live(filled.project_id).count()
    wanted = {"keystone", "glance", "neutron", "swift", "barbican"}
    more = {"compute": "nova", "block-storage": "cinder", "load-balancer": "octavia", "dns": "designate",
            "shared-file-system": "manila", "orchestration": "heat",
            "container-infrastructure-management": "magnum"}  # fmt: skip
    wanted |= {database for service, database in more.items() if service in filler.SERVICES}
    wanted -= {more[service] for service in uncovered(full_cloud) if service in more}
    assert wanted <= set(live), wanted - set(live)


def test_a_cascade_leaves_no_live_row_of_it_and_no_row_of_the_bystander_changes(job, filled_projects, full_cloud):
    filled, bystander = filled_projects
    before = settled(full_cloud)
    began = time.monotonic()
    record = job.delete("--cascade", filled.project_id, status="deleted")
    took = time.monotonic() - began
    after = settled(full_cloud)
    left = after.of(filled.project_id)
    print("\n" + "\n".join(rows.summary({
        "live before": before.live(filled.project_id),
        "live now": left.left_of(filled.project_id),
        "history now": left,
        "bystander": of(before, bystander),
        "bystander now": of(after, bystander),
    })))  # fmt: skip
    print(f"the cascade took {took:.0f} s; {record['progress']}")
    for name, number in left.named().items():
        print(f"  stays: {number:4} {name}")
    none("live rows name the project:", left.left_of(filled.project_id))
    # No live row may name a resource of the project: an attachment without a server, an access rule without a share.
    gone = before.of(filled.project_id).steady().ids() - {filled.user_id, filled.colleague_id, filled.group_id}
    none("live rows name something that it had:", after.naming(gone).left_of(filled.project_id))
    lost, new = unlike(before, after, filled, bystander)
    none("rows of the bystander are gone or changed:", lost)
    none("rows of the bystander are new or changed:", new)


def test_an_image_of_the_bystander_can_still_be_read(filled_projects, full_cloud):
    """The rows could be correct while the data is gone."""
    _, bystander = filled_projects
    image = bystander.first("image")
    data = bystander.connection.image.get(f"/images/{image}/file").content
    assert data
    assert list(pathlib.Path(full_cloud.site.home("glance") / "images").glob(image))
