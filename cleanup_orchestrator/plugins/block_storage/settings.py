"""Cinder: access to private types, default types and quotas.

They are removed right before the project.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    Paging,
    ProjectDefinition,
    ResourceType,
    Rest,
    Row,
    knows_microversion,
    quota_type,
)
from cleanup_orchestrator.plugins.block_storage.common import PAGE, SERVICE_TYPE

if TYPE_CHECKING:
    from openstack.connection import Connection

_DEFAULT_TYPES = "3.62"  #: the first with default types of projects; Victoria


def list_type_access(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's entries in the access lists of private volume types."""
    types = Rest(
        SERVICE_TYPE, "/types", key="volume_types", query={"is_public": "False"}, paging=Paging.MARKER, limit=PAGE
    )
    for type_ in types.rows(connection, project):
        access = Rest(SERVICE_TYPE, f"/types/{type_['id']}/os-volume-type-access", key="volume_type_access")
        for row in access.rows(connection, project):
            if row.get("project_id") == project.id:
                yield {**row, "name": type_.get("name")}


def _knows_default_types(connection: Connection, project: ProjectDefinition) -> bool:
    """Whether Cinder can have a default volume type for a project."""
    return knows_microversion(connection.block_storage, _DEFAULT_TYPES)


_DEFAULTS = Rest(SERVICE_TYPE, "/default-types", key="default_types", microversion=_DEFAULT_TYPES)

TYPE_ACCESS = ResourceType(
    name="type_access",
    used_by=(),
    list=list_type_access,
    all_projects="an entry in a volume type's access list gives no access once its project is gone",
    delete=Rest(
        SERVICE_TYPE,
        "/types/{id}/action",
        method="POST",
        body={"removeProjectAccess": {"project": "{project_id}"}},
    ),
    id="volume_type_id",
    why_no_show="the call names the project, and removes no entry of another project",
    project_setting=True,
    unfiltered="there is no list of a project's types: the access list of every private type is asked for",
    source="GET /v3/types?is_public=False, GET /v3/types/{id}/os-volume-type-access, POST "
    "/v3/types/{id}/action removeProjectAccess; cinder api/contrib/volume_type_access.py",
    note="The volume type itself has no owner and stays.",
)

DEFAULT_TYPE = ResourceType(
    name="default_type",
    used_by=(),
    list=_DEFAULTS,
    all_projects=_DEFAULTS,
    delete=Rest(SERVICE_TYPE, "/default-types/{project_id}", method="DELETE", microversion=_DEFAULT_TYPES),
    id="project_id",
    title="volume_type_id",
    why_no_show="it is addressed by the project's id",
    available=_knows_default_types,
    project_setting=True,
    unfiltered="Cinder lists those of all projects; the rows are compared on this side",
    source="GET, DELETE /v3/default-types, microversion 3.62; cinder api/v3/default_types.py",
    note="The type of the project's new volumes; a setting.",
)

QUOTA_SET = quota_type(
    Rest(SERVICE_TYPE, "/os-quota-sets/{project_id}", key="quota_set"),
    Rest(SERVICE_TYPE, "/os-quota-sets/{project_id}/defaults", key="quota_set"),
    "volumes",
    name="quota_set",
    all_projects="Cinder shows the quotas of one project at a time",
    delete=Rest(SERVICE_TYPE, "/os-quota-sets/{id}", method="DELETE"),
    source="GET /v3/os-quota-sets/X and /os-quota-sets/X/defaults, DELETE /v3/os-quota-sets/X; cinder "
    "api/contrib/quotas.py, db/api.py (quota_destroy_by_project)",
    note="Cinder shows the default for a project without a row. So a row that equals the default is not seen, and "
    "stays. The usage counters stay as well.",
)
