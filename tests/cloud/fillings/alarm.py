"""Aodh: alarms of two users, one with an action that needs a trust, and a quota."""

from __future__ import annotations

from typing import Any

from tests.cloud.fillings.base import Filling, Rest, client


def aodh(connection: Any) -> Rest:
    """Return a client of Aodh."""
    return client(connection, "alarm")


def alarm(f: Filling, suffix: str, **attributes: Any) -> str:
    name = f"{f.name}-{suffix}"
    rest = aodh(f.filled.connection)
    found = [row["alarm_id"] for row in rest.call("GET", "/alarms") if row["name"] == name]
    body = {"name": name, "type": "event", "event_rule": {"event_type": "compute.instance.*"}, **attributes}
    return f.note("alarm", *(found or [rest.call("POST", "/alarms", body)["alarm_id"]]))


def alarms(f: Filling) -> None:
    """One of each kind of rule that Aodh accepts without Gnocchi."""
    alarm(f, "event", severity="critical", ok_actions=["http://127.0.0.1:9/ok"])
    threshold = {
        "type": "gnocchi_resources_threshold", "metric": "cpu", "threshold": 1, "aggregation_method": "mean",
        "resource_type": "instance", "resource_id": "00000000-0000-0000-0000-000000000001",
    }  # fmt: skip
    alarm(f, "composite", type="composite", event_rule=None, composite_rule={"or": [threshold]}, enabled=False)


def trusted_alarm(f: Filling) -> None:
    """Aodh makes a trust for the actions, and names it in the first of them."""
    actions = ["trust+http://127.0.0.1:9/a", "trust+http://127.0.0.1:9/b"]
    f.note("trusted alarm", alarm(f, "trusted", alarm_actions=actions, ok_actions=["trust+http://127.0.0.1:9/c"]))


def alarm_of_an_admin(f: Filling) -> None:
    """An admin creates an alarm for the project; the user is another one, and the trust is in the admin's project."""
    name = f"{f.name}-of-an-admin"
    rest = aodh(f.admin_connection)
    query = {"q.field": "project_id", "q.op": "eq", "q.value": f.project_id}
    found = [row["alarm_id"] for row in rest.call("GET", "/alarms", params=query) if row["name"] == name]
    body = {"name": name, "type": "event", "event_rule": {}, "project_id": f.project_id, "alarm_actions": ["log://"]}
    f.note("alarm", *(found or [rest.call("POST", "/alarms", body)["alarm_id"]]))


def quota(f: Filling) -> None:
    body = {"project_id": f.project_id, "quotas": [{"resource": "alarms", "limit": 30}]}
    aodh(f.admin_connection).call("POST", "/quotas", body)
    f.note("alarm quota", f.project_id)


KINDS = (alarms, trusted_alarm, alarm_of_an_admin, quota)
