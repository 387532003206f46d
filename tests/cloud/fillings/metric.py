"""Gnocchi: resources of users and of a service, with metrics and measures, and metrics without a resource."""

from __future__ import annotations

import uuid
from typing import Any

from tests.cloud.fillings.base import Filling, Rest, client


def gnocchi(connection: Any) -> Rest:
    """Return a client of Gnocchi."""
    return client(connection, "metric")


def resource(f: Filling, suffix: str, *, by_admin: bool = False, **attributes: Any) -> str:
    """A resource with a metric; its id is made from its name, so that a second call finds it."""
    id_ = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{f.project_id}/{suffix}"))
    rest = gnocchi(f.admin_connection if by_admin else f.filled.connection)
    body = {"id": id_, "metrics": {"cpu": {"archive_policy_name": "low"}}, **attributes}
    rest.call("POST", "/resource/generic", body, ok={409})
    return id_


def resources(f: Filling) -> None:
    """One of a user, one of a service for the project, one that names no project, and one with a history."""
    own = resource(f, "own", project_id=f.project_id)
    made = resource(f, "of-a-service", by_admin=True, project_id=f.project_id, user_id=f.filled.user_id)
    f.note("gnocchi resource of others", made)
    nameless = resource(f, "without-a-project")
    ended = resource(f, "ended", project_id=f.project_id)
    gnocchi(f.filled.connection).call("PATCH", f"/resource/generic/{ended}", {"ended_at": "2099-01-01T00:00:00+00:00"})
    f.note("gnocchi resource", own, nameless, ended)


def metrics(f: Filling) -> None:
    """Three of the user, without a resource; one has a measure, which nothing has processed."""
    rest, admin = gnocchi(f.filled.connection), gnocchi(f.admin_connection)
    names = [f"{f.name}-{number}" for number in range(3)]
    known = {name: admin.call("GET", "/metric", params={"name": name}) for name in names}
    for name in names:
        found = known[name] or [rest.call("POST", "/metric", {"name": name, "archive_policy_name": "low"})]
        f.note("gnocchi metric", found[0]["id"])
    measures = [{"timestamp": "2026-01-01T00:00:00", "value": 1.0}]
    rest.call("POST", f"/metric/{f.first('gnocchi metric')}/measures", measures)


KINDS = (resources, metrics)
