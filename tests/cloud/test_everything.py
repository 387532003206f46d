"""The whole job in a cloud of thirteen services: a project with all types is deleted, and nothing else is changed.

The assertions read the databases and disks of the services (`rows`), and never use a plugin of the package. The
orchestrator is the shipped all-in-one process, and the requests are `openstack` commands.
"""

from __future__ import annotations

import pathlib
import secrets
import time
from collections.abc import Iterator

import pytest

from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins import registry
from tests.cloud import demo, filler, rows
from tests.cloud.conftest import Sweeper
from tests.cloud.fillings.base import Filled
from tests.cloud.job import Job, changes, of, settled, uncovered, unlike
from tests.cloud.launcher import Cloud

#: It compares every row of the cloud.
ALONE = True
PROJECT = f"everything-{secrets.token_hex(2)}"  # a cloud that still runs may have the orchestrator of an earlier test
BYSTANDER = f"{PROJECT}-bystander"


@pytest.fixture(scope="module")
def job(full_cloud: Cloud) -> Iterator[Job]:
    """The orchestrator, running."""
    made = Job(full_cloud)
    made.start_orchestrator()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def filled_projects(job: Job, full_cloud: Cloud, full_admin) -> tuple[Filled, Filled]:
    """The project to delete, and its bystander with the same types; both share resources with each other."""
    began = time.monotonic()
    # Fillings of services without a plugin wait for it.
    covered = set(filler.SERVICES) - set(uncovered(full_cloud))
    filled = filler.fill(full_admin, PROJECT, only=covered, objects=20)
    bystander = filler.bystander(full_admin, BYSTANDER, filled, only=covered)
    took, things = time.monotonic() - began, sum(map(len, filled.ids.values()))
    print(f"\nboth projects are filled after {took:.0f} s: {things} things each")
    return filled, bystander


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


def test_a_dry_run_changes_nothing_in_any_database(job, filled_projects, full_cloud):
    filled, _ = filled_projects
    # At the first list of security groups Neutron creates a default group in the project of the caller.
    list(filler.connect(full_cloud.auth_url, demo.USER, full_cloud.site.password, "service").network.security_groups())
    before = settled(full_cloud)
    record = job.delete("--cascade", "--dry-run", filled.project_id, status="planned")
    after = settled(full_cloud)
    print(f"\na dry run: {record['progress']}")
    assert changes(before, after) == []


def test_a_report_finds_it_all_and_changes_nothing(job, filled_projects, full_cloud):
    filled, _ = filled_projects
    before = settled(full_cloud)
    record = job.delete(filled.project_id, status="leftovers")
    after = settled(full_cloud)
    leftovers = job.ask("project", "deletion", "leftovers", record["id"])
    print(f"\na report: {record['progress']}, {len(leftovers)} leftovers")
    assert changes(before, after) == []


class Stranger(Sweeper):
    """A user with a role in another project, like an orchestrator in a service with another admin policy."""

    NAME, PASSWORD, PROJECT, ROLES = "stranger", "stranger", "stranger", ("member",)

    def enter(self, filled: Filled) -> None:
        """Grant nothing: the user gets no role on the project."""


def test_no_inventory_without_admin_rights_is_clear(filled_projects, full_cloud, full_sweeper):
    """Services answer such a user with resources of the token's project. Each filled type has to be unknown."""
    filled, _ = filled_projects
    stranger, lies, trusted = Stranger(full_cloud), {}, []
    for service in registry.load().services.values():
        there = {name: found.found for name, found in full_sweeper.inventory(service, filled).items()}
        seen = stranger.inventory(service, filled)
        unknown = {name for name, found in seen.items() if found.outcome is Outcome.UNKNOWN}
        empty = {name for name, found in seen.items() if found.outcome is Outcome.CLEAR}
        print(f"{service.service_type}: {len(unknown)} unknown, empty: {', '.join(sorted(empty)) or 'none'}")
        lies |= {f"{service.service_type}.{name}": there[name] for name in empty if there[name]}
        if not unknown:
            trusted.append(service.service_type)
    assert not lies
    assert not trusted


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
