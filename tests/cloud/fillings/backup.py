"""Freezer: clients, jobs with actions and a trust, sessions, and records of backups, of a user and of an admin."""

from __future__ import annotations

from typing import Any

from tests.cloud.fillings.base import Filling, Rest, client

#: The client of the operator's scheduler, which jobs of all projects may use.
CENTRAL = "central-scheduler"
ACTION = {"action": "backup", "mode": "fs", "path_to_backup": "/home", "container": "backups"}


def freezer(connection: Any) -> Rest:
    """Return a client of Freezer."""
    return client(connection, "backup")


def rows(rest: Rest, f: Filling, collection: str) -> list[dict[str, Any]]:
    """Return what the project has of a collection."""
    found = rest.call("GET", f"/{f.project_id}/{collection}", params={"limit": 1000})[collection]
    return [row for row in found if row["project_id"] == f.project_id]


def make(f: Filling, kind: str, body: dict[str, Any], *, by_admin: bool = False) -> str:
    """Return the id of a new object, or of that with the same description."""
    mine = freezer(f.filled.connection)
    key = "description"
    known = [row[f"{kind}_id"] for row in rows(mine, f, f"{kind}s") if row.get(key) == body[key]]
    rest = freezer(f.admin_connection) if by_admin else mine
    return f.note(kind, *(known or [rest.call("POST", f"/{f.project_id}/{kind}s", body)[f"{kind}_id"]]))


def clients(f: Filling) -> None:
    """Two clients of the user, and a central one of the admin's project. To register it again changes nothing."""
    for suffix in ("host", "other-host"):
        register(freezer(f.filled.connection), f.project_id, f"{f.name}-{suffix}")
    f.note("client", *(row["client"]["uuid"] for row in rows(freezer(f.filled.connection), f, "clients")))
    register(freezer(f.admin_connection), f.admin_connection.current_project_id, CENTRAL, is_central=True)


def register(rest: Rest, project_id: str, name: str, **attributes: Any) -> None:
    rest.call("POST", f"/{project_id}/clients", {"client_id": name, "hostname": name, **attributes})


def job(f: Filling, suffix: str, client_id: str, *, by_admin: bool = False, **attributes: Any) -> str:
    """A job with one action."""
    name = f"{f.name}-{suffix}"
    actions = [{"freezer_action": {**ACTION, "backup_name": name}}]
    body = {"description": name, "client_id": client_id, "job_schedule": {"schedule_interval": "5 days"},
            "job_actions": actions, **attributes}  # fmt: skip
    return make(f, "job", body, by_admin=by_admin)


def jobs(f: Filling) -> None:
    """Freezer makes a trust for the job of the central client, and none for the others."""
    job(f, "plain", f"{f.name}-host")
    f.note("trusted job", job(f, "trusted", CENTRAL))
    job(f, "of-an-admin", f"{f.name}-host", by_admin=True)


def actions(f: Filling) -> None:
    """The actions of the jobs, and one without a job."""
    rest = freezer(f.filled.connection)
    name = f"{f.name}-alone"
    if name not in [row["freezer_action"]["backup_name"] for row in rows(rest, f, "actions")]:
        rest.call("POST", f"/{f.project_id}/actions", {"freezer_action": {**ACTION, "backup_name": name}})
    f.note("action", *(row["action_id"] for row in rows(rest, f, "actions")))


def sessions(f: Filling) -> None:
    """A session with a job, and an empty one."""
    for suffix in ("with-a-job", "empty"):
        make(f, "session", {"description": f"{f.name}-{suffix}", "schedule": {"schedule_interval": "1 days"}})
    path = f"/{f.project_id}/sessions/{f.first('session')}/jobs/{f.first('job')}"
    freezer(f.filled.connection).call("PUT", path)


def backups(f: Filling) -> None:
    """Records, also one of a backup that failed."""
    rest = freezer(f.filled.connection)
    for suffix, status in (("kept", "available"), ("failed", "error")):
        name = f"{f.name}-{suffix}"
        if name not in [row["backup_metadata"]["backup_name"] for row in rows(rest, f, "backups")]:
            body = {"backup_name": name, "container": "backups", "hostname": "host", "status": status}
            rest.call("POST", f"/{f.project_id}/backups", body)
    f.note("backup", *(row["backup_id"] for row in rows(rest, f, "backups")))


KINDS = (clients, jobs, actions, sessions, backups)
