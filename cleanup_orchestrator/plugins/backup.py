"""Freezer: jobs, sessions, clients, actions, and the records of backups.

Freezer stores plans and records, and never the data of a backup. The data is where the job of the user put it: in the
object store, on a volume, or outside of the cloud. It is not deleted with the record. What is in Swift or in Cinder
belongs to the project there.

Every path names the project. A delete with the wrong project in the path answers 204 and deletes nothing. So does a
delete of what does not exist. Only the next list shows the result.

Freezer marks a deleted row in its database, and keeps it.

This was tested with the API of Freezer and its SQL database. A scheduler that runs jobs was not met, and neither was
the older database Elasticsearch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    NIL_UUID,
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

TYPE = "backup"

_FRESH = "Freezer compares the owner with the project in the path of the delete call"
_PATH = "Freezer lists only what belongs to the project in the path"


def _collection(name: str, project: str = "{project_id}") -> Collection:
    """Return a collection of one project. Without a limit Freezer shows ten rows."""
    return Collection(TYPE, f"/{project}/{name}", own_query={}, paging=Paging.OFFSET, limit=1000)


_CLIENTS = _collection("clients").own


def _clients(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield clients with their attributes beside their owner.

    Freezer shows these attributes in the object ``client``. Users wrote them, so the owner is read outside of it.
    """
    for row in _CLIENTS.rows(connection, project):
        if not isinstance(row.get("client"), dict):
            raise BadAnswer("a client was listed without 'client'")
        yield {**row["client"], "project_id": None, **row}


def _protect_central(client: Resource, project: ProjectDefinition) -> str | None:
    """Protect a central client: jobs of all projects use it. Only an admin can register one."""
    if client.data.get("is_central"):
        return "it is a central client, which jobs of other projects may use: an admin must delete it in Freezer"
    return None


def _simple_type(name: str, **declared: Any) -> ResourceType:
    """Return a type whose rows have the id ``<name>_id``."""
    collection = _collection(f"{name}s")
    return ResourceType(
        name=name,
        list=collection.own,
        delete=collection.delete,
        id=f"{name}_id",
        why_no_show=_FRESH,
        used_by=(),
        **declared,
    )


SERVICE = Service(
    service_type=TYPE,
    contract_version=2,
    roles="admin on one project: with it Freezer shows and deletes what belongs to any project. Other callers get 403 "
    "for another project",
    types=(
        _simple_type(
            "job",
            all_projects=_collection("jobs", NIL_UUID).own,
            title="description",
            user_content="the trust that a job names, which any member of the project can choose. Freezer deletes it "
            "with the job, with the token of the request",
            source="GET, DELETE /v2/{project}/jobs; freezer_api api/v2/jobs.py, db/sqlalchemy/api.py (search_job, "
            "delete_job), keystone_client.py (delete_trust), common/json_schemas.py (user_credentials)",
            note="To an admin Freezer shows the jobs of all projects, whatever project is in the path. So the owner of "
            "each row is compared. The search of Freezer is not used: it also compares keys that users wrote into an "
            "action. Freezer makes a trust for a job of a central client. The janitor's token cannot delete it, and "
            "Freezer ignores the error. The trust is deleted with the trusts of the project. If the project is gone, "
            "Freezer gets no token for it, and so deletes no trust.",
        ),
        _simple_type(
            "session",
            all_projects=_PATH,
            title="description",
            after=("job",),
            source="GET, DELETE /v2/{project}/sessions; freezer_api api/v2/sessions.py",
        ),
        ResourceType(
            name="client",
            used_by=(),
            list=_clients,
            all_projects=_PATH,
            delete=Rest(TYPE, "/{project_id}/clients/{row[client_id]}", method="DELETE"),
            id="uuid",
            title="client_id",
            why_no_show=_FRESH,
            after=("job", "session"),
            protect=(_protect_central,),
            source="GET, DELETE /v2/{project}/clients; freezer_api db/sqlalchemy/api.py (search_tuple, "
            "get_client_byid, delete_client)",
            note="The list also has the central clients of other projects, which are left alone. A client is "
            "addressed by the name that its user chose. If an operator has registered a central client of the same "
            "name later, Freezer may find that one, and answers 403. Then the central client must be deleted or "
            "registered under another name first.",
        ),
        _simple_type(
            "action",
            all_projects=_PATH,
            title="freezer_action.backup_name",
            after=("job",),
            source="GET, DELETE /v2/{project}/actions; freezer_api db/sqlalchemy/api.py (delete_action)",
            note="The actions of a job stay when the job is deleted. The report of an action is deleted with it.",
        ),
        _simple_type(
            "backup",
            all_projects=_PATH,
            title="backup_metadata.backup_name",
            after=("job",),
            source="GET, DELETE /v2/{project}/backups; freezer_api api/v2/backups.py",
            note="Only the record is deleted. Freezer does not delete the data of the backup.",
        ),
    ),
)
