"""Aodh: alarms, and the project's quota row.

Aodh calls the addresses in an alarm's actions only when the state of the alarm changes, never at a delete. For an
action that needs a token of the alarm's owner (``trust+http``, ``trust+zaqar``, ``trust+heat``) Aodh made a trust. It
deletes this trust with the alarm, with the token of the request. Users cannot choose the trust: Aodh refuses an action
that names one.

No separate types: the history and the counters of an alarm are deleted with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    BODY,
    CONTROLLERS,
    BadAnswer,
    Collection,
    Paging,
    ProjectDefinition,
    ResourceType,
    Rest,
    Row,
    Service,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

TYPE = "alarm"

#: Aodh sorts by the time of the last change alone, and begins a page after the time of the marker: of several alarms
#: with one time, it would leave some out at the end of a page.
_SORT = {"sort": "alarm_id:asc"}

#: Aodh answers 403 to callers without the role admin.
_ALL = {"q.field": "all_projects", "q.value": "true"}

#: Without a quota in the body this call changes nothing: it returns the rows of the project.
_ROWS = Rest(TYPE, "/quotas", method="POST", body={"project_id": "{project_id}", "quotas": []})


_ALARMS = Collection(
    TYPE,
    "/alarms",
    key=BODY,
    own_query={"q.field": "project_id", "q.op": "eq", "q.value": "{project_id}"},
    all_query=_ALL,
    query=_SORT,
    paging=Paging.MARKER,
    limit=1000,
    marker="alarm_id",
)


def _quotas(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's quota, if it has a row: ``POST /v2/quotas`` without a quota, which changes nothing.

    ``GET /v2/quotas`` would create a row with the default if there is none. So after the delete it would create the row
    again.
    """
    rows = _ROWS.call(connection, project).get("quotas")
    if not isinstance(rows, list):
        raise BadAnswer("POST /v2/quotas answered without 'quotas'")
    if rows:
        yield {"id": project.id, "name": "quota of alarms", "project_id": project.id}


SERVICE = Service(
    service_type=TYPE,
    contract_version=2,
    after=CONTROLLERS,
    proof=Rest(TYPE, "/alarms", query={**_ALL, "limit": 1}),
    roles="admin on one project: with it Aodh lists the alarms of all projects, and deletes quotas. A system-scoped "
    "token is refused",
    types=(
        ResourceType(
            name="alarm",
            used_by=(),
            list=_ALARMS.own,
            all_projects=_ALARMS.all,
            show=_ALARMS.show,
            delete=_ALARMS.delete,
            id="alarm_id",
            source="GET, DELETE /v2/alarms; aodh api/controllers/v2/alarms.py (get_all, delete, delete_actions), "
            "storage/impl_sqlalchemy.py",
            note="Without the filter even an admin is shown only the alarms of the token's project. Other callers get "
            "401 for the alarms of another project. Aodh deletes the alarm's trust after the alarm. If that fails, it "
            "answers with an error, and the trust is deleted with the trusts of the project.",
        ),
        ResourceType(
            name="quota",
            used_by=(),
            list=_quotas,
            all_projects="Aodh shows the quota of one project at a time",
            delete=Rest(TYPE, "/quotas/{project_id}", method="DELETE"),
            why_no_show="it is addressed by the project's id",
            project_setting=True,
            source="POST, DELETE /v2/quotas; aodh api/controllers/v2/quotas.py, storage/impl_sqlalchemy.py "
            "(set_quotas, delete_quotas)",
            note="An admin creates the row, and so does Aodh itself when a user reads the quota of a project without "
            "a row.",
        ),
    ),
)
