"""Cyborg's list is believed only with the role admin, and a bound request is left with its server."""

import types

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.accelerator import SERVICE
from tests.support import sweeps
from tests.unit.answers import connection, project

(REQUEST,) = SERVICE.types


def row(id_, server=None, owner="p"):
    return {"uuid": id_, "device_profile_name": "gpu", "project_id": owner, "instance_uuid": server}


def cloud(*rows, roles=("admin", "member"), refusal=(403, {"error_message": "bound"})):
    left = {each["uuid"]: each for each in rows}

    def answer(method, path, query, body):
        if method == "DELETE":
            found = left[path.partition("?arqs=")[2]]
            if found["instance_uuid"] or refusal[0] != 403:
                return refusal
            del left[found["uuid"]]
            return 204, ""
        id_ = path.rpartition("/")[2]
        return 200, left[id_] if id_ in left else {"arqs": list(left.values())}

    made = connection(accelerator=answer)
    made.session.auth = types.SimpleNamespace(get_access=lambda _: types.SimpleNamespace(role_names=list(roles)))
    return made


@pytest.mark.parametrize("roles", [(), ("member",), ("service", "manager"), ("Admin",)])
def test_without_the_role_admin_the_list_is_unknown(roles):
    found = sweeps.inventory(REQUEST, cloud(roles=roles), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


def test_unbound_requests_are_deleted_and_a_bound_one_names_its_server():
    swept = sweeps.delete(REQUEST, cloud(row("free"), row("bound", "s"), row("foreign", owner="q")), project())
    (left,) = swept.leftovers
    assert (left.id, left.reason, swept.deleted) == ("bound", Reason.IN_USE, (("free", "gpu"),))
    assert [(each["type"], each["id"]) for each in left.blocked_by] == [("compute.server", "s")]


def test_a_refusal_of_an_unbound_request_keeps_its_own_reason():
    swept = sweeps.delete(REQUEST, cloud(row("free"), refusal=(409, {"error_message": "no"})), project())
    assert [(left.reason, left.blocked_by) for left in swept.leftovers] == [(Reason.IN_USE, ())]
