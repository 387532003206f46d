"""Manila: access to private types and quotas, removed right before the project."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    BadAnswer,
    ProjectDefinition,
    ResourceType,
    Rest,
    Row,
    quota_limits,
    quota_type,
)
from cleanup_orchestrator.plugins.shared_file_system.common import rest

if TYPE_CHECKING:
    from openstack.connection import Connection

# These two have no pages: with any offset Manila returns the whole list.
_TYPES = rest("/types", key="share_types", query={"is_public": "all"})
_GROUP_TYPES = rest("/share-group-types", key="share_group_types", query={"is_public": "all"})


def _access(
    types: Rest, is_public: str, entries: str, key: str
) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of the private types that the project has access to."""

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for type_ in types.rows(connection, project):
            if is_public not in type_:
                raise BadAnswer(f"{types!r} does not tell which types are public")
            if type_[is_public]:
                continue
            for entry in rest(entries.format(id=type_["id"]), key=key).rows(connection, project):
                if entry.get("project_id") == project.id:
                    yield {"id": type_["id"], "name": type_.get("name"), "project_id": entry["project_id"]}

    return listing


def _quotas(path: str = "", **query: str) -> Rest:
    return rest(f"/quota-sets/{{project_id}}{path}", key="quota_set", query=query)


_LIMIT = "shares"  #: one of the limits in each answer


def _type_quotas(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the share types whose quota differs from the project's."""
    whole: dict[str, Any] | None = None
    for type_ in _TYPES.rows(connection, project):
        whole = quota_limits(_quotas(), connection, project, _LIMIT) if whole is None else whole
        of_type = quota_limits(_quotas(share_type=str(type_["id"])), connection, project, _LIMIT)
        if any(whole.get(key) != value for key, value in of_type.items() if key in whole):
            yield {"id": type_["id"], "name": type_.get("name"), "project_id": project.id}


_ACCESS = "an entry in a type's access list gives no access once its project is gone"
_QUOTAS = "Manila shows the quotas of one project at a time"

TYPE_ACCESS = ResourceType(
    name="type_access",
    used_by=(),
    all_projects=_ACCESS,
    list=_access(
        _TYPES,
        "share_type_access:is_public",
        "/types/{id}/share_type_access",
        "share_type_access",
    ),
    delete=rest("/types/{id}/action", method="POST", body={"removeProjectAccess": {"project": "{project_id}"}}),
    why_no_show="it is addressed by the type's and the project's id",
    project_setting=True,
    source="GET /v2/types?is_public=all, GET /v2/types/{id}/share_type_access, POST /v2/types/{id}/action; "
    "manila api/v2/share_types.py",
    note="The list makes one call for each private type of the cloud. The type belongs to the operator and stays.",
)

GROUP_TYPE_ACCESS = ResourceType(
    name="group_type_access",
    used_by=(),
    all_projects=_ACCESS,
    list=_access(
        _GROUP_TYPES,
        "is_public",
        "/share-group-types/{id}/access",
        "share_group_type_access",
    ),
    delete=rest(
        "/share-group-types/{id}/action",
        method="POST",
        body={"removeProjectAccess": {"project": "{project_id}"}},
    ),
    why_no_show="it is addressed by the type's and the project's id",
    project_setting=True,
    source="GET /v2/share-group-types?is_public=all, GET /v2/share-group-types/{id}/access, POST "
    "/v2/share-group-types/{id}/action; manila api/v2/share_group_types.py",
)

TYPE_QUOTA = ResourceType(
    name="type_quota",
    used_by=(),
    list=_type_quotas,
    all_projects=_QUOTAS,
    delete=rest("/quota-sets/{project_id}", method="DELETE", query={"share_type": "{id}"}),
    why_no_show="it is addressed by the type's and the project's id",
    project_setting=True,
    source="GET, DELETE /v2/quota-sets/X?share_type=T; manila api/v2/quota_sets.py",
    note="The list makes one call for each share type. A quota that equals the project's own is not seen.",
)

QUOTA = quota_type(
    _quotas(),
    _quotas("/defaults"),
    _LIMIT,
    all_projects=_QUOTAS,
    delete=rest("/quota-sets/{project_id}", method="DELETE"),
    after=("type_quota",),
    source="GET, DELETE /v2/quota-sets/X, GET /v2/quota-sets/X/defaults; manila api/v2/quota_sets.py",
    note="The quotas of single users in the project, and its usage counters, are deleted with it. Manila does not "
    "show whether there is a row: a quota that differs from the defaults counts as one. The rows of a project "
    "without one stay.",
)
