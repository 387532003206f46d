"""One orchestrator deletes a project from two regions of different releases: Keystone and the first one are the newest.

The second region has the Glance of an older release, which uses the Keystone of the first one.
"""

from __future__ import annotations

import dataclasses
import pathlib
import threading
from collections.abc import Iterator

import pytest
from openstack.connection import Connection

from cleanup_orchestrator.core.deletion import Mode, Status
from tests.cloud import filler, releases
from tests.cloud.conftest import free_port_base
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import Orchestrator
from tests.cloud.proof import database
from tests.cloud.services import SERVICES

SECOND = "RegionTwo"


class Region(Cloud):
    """A Glance that uses the Keystone of another cloud."""

    def __init__(self, main: Cloud, directory: pathlib.Path, venv: pathlib.Path, release: str) -> None:
        super().__init__(directory, venv, port_base=free_port_base(), services=("glance",), release=release)
        self.main = main

    def up(self) -> None:
        self._claim_directory()
        self.ports["keystone"] = self.main.ports["keystone"]
        main = self.main.site
        self._site = dataclasses.replace(self.site, password=main.password, services=("glance",))
        service = SERVICES["glance"](self.site)
        try:
            self._prepare(service)
            self._launch(service, threading.Event())
            self.main.admin.ensure_service(service.catalog_type, service.name, service.catalog_url, SECOND)
        except BaseException:
            self.down()
            raise


@pytest.fixture
def second(
    older: tuple[str, pathlib.Path], cloud: Cloud, orchestrator: Orchestrator, tmp_path: pathlib.Path
) -> Iterator[Region]:
    release, venv = older
    if cloud.release != releases.NEWEST:
        pytest.skip("the first region has the newest release")
    cloud.admin.call("POST", "/regions", {"region": {"id": SECOND}})
    with Region(cloud, tmp_path / "second", venv, release) as region:
        orchestrator.parts.clouds.admin_auth().invalidate()  # the catalog comes with the token
        yield region
    for endpoint in cloud.admin.call("GET", f"/endpoints?region_id={SECOND}")["endpoints"]:
        cloud.admin.call("DELETE", f"/endpoints/{endpoint['id']}")
    cloud.admin.call("DELETE", f"/regions/{SECOND}")
    orchestrator.parts.clouds.admin_auth().invalidate()


def images(cloud: Cloud, project_id: str) -> int:
    """Return how many images of a project are in the database of a Glance."""
    with database(cloud.site.database("glance")) as connection:
        query = "SELECT COUNT(*) FROM images WHERE owner = ? AND deleted = 0"
        (count,) = connection.execute(query, (project_id,)).fetchone()
    connection.close()
    return count


def test_a_project_is_deleted_from_regions_of_different_releases(cloud, admin: Connection, orchestrator, second):
    assert second.release != cloud.release
    filled = filler.fill(admin, "two-releases", only=())
    fresh = filler.connect(cloud.auth_url, "admin", cloud.site.password, "admin")  # its catalog has both regions
    for region in ("RegionOne", SECOND):
        image = {"disk_format": "raw", "container_format": "bare", "visibility": "private"}
        there = Connection(session=fresh.session, region_name=region)
        there.image.create_image(name=region, owner=filled.project_id, data=b"x", **image)
    assert (images(cloud, filled.project_id), images(second, filled.project_id)) == (1, 1)
    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
    orchestrator.wait(deletion_id, Status.DELETED, seconds=600)
    assert (images(cloud, filled.project_id), images(second, filled.project_id)) == (0, 0)
    deleted = {step.region: step.deleted for step in orchestrator.store.steps(deletion_id) if step.type == "image"}
    assert deleted == {"RegionOne": 1, SECOND: 1}
