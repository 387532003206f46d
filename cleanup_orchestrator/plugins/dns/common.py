"""What every part of the Designate plugin uses: headers, lists, and owners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import Collection, Paging, ProjectDefinition, Row

if TYPE_CHECKING:
    from openstack.connection import Connection

PAGE = 1000  #: Designate's default is 20
WITHOUT_COUNTS = {"OpenStack-DNS-Hide-Counts": "true"}  # without it Designate counts all rows again for every page

#: As the project, with the roles of the orchestrator.
SUDO = {"X-Auth-Sudo-Project-ID": "{project_id}", **WITHOUT_COUNTS}
#: Over all projects.
ALL = {"X-Auth-All-Projects": "true", **WITHOUT_COUNTS}
UNFILTERED = "no list of Designate takes an owner filter; with the project in a header, it shows a few rows of others"


def collection(path: str, headers: Mapping[str, str] = SUDO, key: str = "") -> Collection:
    """Return a collection with a list that is paged by marker.

    :param headers: they say for which project a call is made
    """
    # The links of Designate are not followed: they do not keep the switch for all projects.
    return Collection("dns", path, key=key, headers=headers, paging=Paging.MARKER, limit=PAGE)


ZONES = collection("/zones")


def own_zones(connection: Connection, project: ProjectDefinition) -> dict[str, Row]:
    """Return the project's zones by id, without those that are shared with it."""
    return {str(zone["id"]): zone for zone in ZONES.all.rows(connection, project) if owner_of(zone) == project.id}


def owner_of(row: Row) -> str:
    """Return the id of the project that owns a row; empty when the row shows none."""
    return str(row.get("project_id") or "")
