"""Gnocchi: resources with their metrics, and metrics without a resource.

A resource belongs to the project that its ``project_id`` names. If it names none, it belongs to the project of the user
who created it. Ceilometer creates resources for the projects that it measures, and does so again while it still reads
samples of a deleted server. Any user can create a resource that names another project, at any time. So resources that
another project's user created never block a deletion. They are deleted right before the project.

A metric of a resource is deleted with the resource, whatever user created the metric. A metric without a resource
belongs to the project of the user who created it.

Gnocchi marks the metrics as deleted. Its daemon ``gnocchi-metricd`` removes them and their measures later.

The archive policies, their rules and the resource types are the operator's.

This was tested with Gnocchi on MariaDB, and not with a Ceilometer that measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    BODY,
    EVERYTHING,
    BadAnswer,
    Collection,
    Paging,
    ProjectDefinition,
    Resource,
    ResourceType,
    Rest,
    Row,
    Service,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

TYPE = "metric"

#: The attributes that are read. All of them together are much longer.
_ATTRIBUTES = ("id", "type", "project_id", "creator", "created_by_project_id", "original_resource_id")


def _collection(path: str, **query: object) -> Collection:
    """Return a collection, all of which an admin lists. Gnocchi makes pages of at most 1000 rows by default."""
    return Collection(TYPE, path, key=BODY, query=query, paging=Paging.MARKER, limit=1000)


_RESOURCES = _collection("/resource/generic", sort="id:asc", attrs=_ATTRIBUTES)
#: Those without a resource come first: there may be millions of others.
_METRICS = _collection("/metric", sort="resource_id:asc-nullsfirst")


def _with_owner(row: Row) -> Row:
    """Return a resource with the project that owns it."""
    if "project_id" not in row or "created_by_project_id" not in row:
        raise BadAnswer("a resource was shown without 'project_id' or 'created_by_project_id'")
    return {**row, "owner": row["project_id"] or row["created_by_project_id"]}


def _resources(of_others: bool) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of the resources of all projects.

    The list has no filter, and the search is a POST.

    :param of_others: whether they are those that services, or users of other projects, created; otherwise those that
        users of these projects created
    """

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for row in map(_with_owner, _RESOURCES.all.rows(connection, project)):
            if (row["owner"] != row["created_by_project_id"]) is of_others:
                yield row

    return listing


def _describe_creator(resource: Resource, project: ProjectDefinition) -> str | None:
    """Say of what type a resource is, and that another project's user or a service created it."""
    return f"{resource.data.get('type')}, created by a service, or by a user of another project"


def _show_resource(connection: Connection, project: ProjectDefinition, resource: Resource) -> Row:
    """Return one resource."""
    return _with_owner(_RESOURCES.show.row(connection, project, resource))


def _list_metrics(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the metrics of all projects that have no resource."""
    for row in _METRICS.all.rows(connection, project):
        if "resource_id" not in row:
            raise BadAnswer("a metric was listed without 'resource_id'")
        if row["resource_id"] is not None:
            return
        yield row


def _protect_attached(metric: Resource, project: ProjectDefinition) -> str | None:
    """Protect a metric that has been attached to a resource since it was listed."""
    return "it belongs to a resource, and is deleted with it" if metric.data.get("resource") else None


def _resource_type(name: str, *, of_others: bool, **declared: Any) -> ResourceType:
    """Return a type of resources; see :func:`_resources`."""
    listing = _resources(of_others)
    return ResourceType(
        name=name,
        list=listing,
        all_projects=listing,
        show=_show_resource,
        delete=_RESOURCES.delete,
        owner="owner",
        title="original_resource_id",
        unfiltered="Gnocchi filters resources only in a search, which is a POST; the rows are compared on this side",
        source="GET, DELETE /v1/resource/generic; gnocchi rest/api.py (ResourcesController), rest/policies.py, "
        "indexer/sqlalchemy.py (list_resources, delete_resource)",
        used_by=(),
        **declared,
    )


SERVICE = Service(
    service_type=TYPE,
    contract_version=2,
    proof=Rest(TYPE, "/status", query={"details": "false"}),
    roles="admin on one project: with it Gnocchi lists and deletes what belongs to any project",
    types=(
        _resource_type(
            "resource",
            of_others=False,
            note="All resources are read, 1000 in a call: Gnocchi ignores a filter in the query of a GET. To callers "
            "without the role admin Gnocchi lists only their own resources. The call that deletes all resources that "
            "match a filter is not used: it would delete what no inventory has shown.",
        ),
        _resource_type(
            "resource_of_others",
            of_others=True,
            after=(EVERYTHING,),
            project_setting=True,
            informational=True,
            describe=_describe_creator,
            note="Those of Ceilometer are among them. What is created after the last look stays, and names a project "
            "that does not exist. A scan for orphans finds it.",
        ),
        ResourceType(
            name="metric",
            used_by=(),
            list=_list_metrics,
            all_projects=_list_metrics,
            show=_METRICS.show,
            delete=_METRICS.delete,
            owner="created_by_project_id",
            protect=(_protect_attached,),
            unfiltered="Gnocchi filters metrics by the user who created them, and not by the project",
            source="GET, DELETE /v1/metric; gnocchi rest/api.py (MetricsController), indexer/sqlalchemy.py "
            "(list_metrics, delete_metric)",
            note="A filter by user would need all users who were ever in the project. Metrics without a resource are "
            "listed first, and the list is read no further. To callers without the role admin Gnocchi does not list "
            "their metrics without a resource.",
        ),
    ),
)
