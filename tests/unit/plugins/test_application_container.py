"""Zun's containers: which token is used on their hosts, and what is left once the project is gone."""

import dataclasses

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.application_container import SERVICE
from tests.support import sweeps
from tests.unit.answers import connection, project

CAPSULE, CONTAINER, REGISTRY, QUOTA = SERVICE.types
COLLECTIONS = {CAPSULE.name: "capsules", CONTAINER.name: "containers"}


def row(id_, **changes):
    return {"uuid": id_, "name": id_, "project_id": "p", "host": None, "task_state": None, **changes}


def zun(type_, *rows):
    left = {each["uuid"]: each for each in rows}

    def answer(method, path, query, body):
        id_ = path.rpartition("/")[2]
        if method == "DELETE":
            assert query == ({"stop": "true"} if type_ is CONTAINER else {})
            del left[id_]
            return 204, ""
        if path == "/registries":
            return 200, {"registries": []}
        if id_ == COLLECTIONS[type_.name]:
            return 200, {id_: [] if "marker" in query else [*left.values()]}
        return 200, left[id_]

    return connection(application_container=answer)


@pytest.mark.parametrize("type_", [CAPSULE, CONTAINER], ids=lambda type_: type_.name)
def test_a_host_gets_the_janitors_token(type_):
    """It would use the token for networks and volumes that users named."""
    cloud = zun(type_, row("one", host="h"))
    swept = sweeps.delete(type_, zun(type_, row("one", host="h")), project(), janitor=lambda: cloud)
    assert [path for _, path, _ in cloud.application_container.writes()] == [f"/{COLLECTIONS[type_.name]}/one"]
    assert swept.found == 1


@pytest.mark.parametrize("type_", [CAPSULE, CONTAINER], ids=lambda type_: type_.name)
def test_once_the_project_is_gone_only_what_has_no_host_is_deleted(type_):
    cloud = zun(type_, row("free"), row("hosted", host="h"))
    swept = sweeps.delete(type_, cloud, dataclasses.replace(project(), gone=True))
    assert [(left.id, left.reason) for left in swept.leftovers] == [("hosted", Reason.PROJECT_GONE)]
    assert swept.deleted == (("free", "free"),)


@pytest.mark.parametrize("type_", [CAPSULE, CONTAINER], ids=lambda type_: type_.name)
def test_what_a_host_deletes_is_waited_for(type_):
    cloud = zun(type_, row("one", host="h", task_state="container_deleting"))
    (left,) = sweeps.delete(type_, cloud, project(), janitor=lambda: cloud).leftovers
    assert (left.reason, cloud.application_container.writes()) == (Reason.DELETING, [])


@pytest.mark.parametrize(("own", "found"), [({"containers": 30}, 1), ({"containers": 40}, 0)])
def test_a_quota_is_found_if_it_differs_from_the_default(own, found):
    quotas = {"own": own}

    def answer(method, path, query, body):
        if method == "DELETE":
            quotas["own"] = {"containers": 40}
            return 204, ""
        return 200, {"/registries": {}, "/quotas/p": quotas["own"]}.get(path, {"containers": 40})

    swept = sweeps.delete(QUOTA, connection(application_container=answer), project())
    assert (swept.outcome, swept.found) == (Outcome.CLEAR, found)
