"""A list that anybody gets, cut down to his own, is believed only after the service has shown something for admins."""

from __future__ import annotations

import dataclasses

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Token
from cleanup_orchestrator.plugins import (
    admin,
    alarm,
    application_container,
    baremetal,
    block_storage,
    container_infrastructure_management,
    identity,
    image,
    load_balancer,
    metric,
    network,
    orchestration,
    shared_file_system,
    workflow,
)
from cleanup_orchestrator.plugins.base import ResourceType, Rest, Service
from tests.support import sweeps
from tests.unit.answers import connection, project

MODULES = (
    alarm, application_container, baremetal, block_storage, container_infrastructure_management, identity, image,
    load_balancer, metric, network, orchestration, shared_file_system, workflow,
)  # fmt: skip
SERVICES = [module.SERVICE for module in MODULES]
TYPES = [(service, type_) for service in SERVICES for type_ in service.types]
PROOF = Rest("image", "/secrets-of-admins")


def things(proof=PROOF):
    listing = Rest("image", "/things", key="things", query={"project_id": "{project_id}"})
    return ResourceType("thing", list=listing, delete=None, proof=proof, source="the test")


def served(proof=(200, {})):
    def answer(method, path, query, body):
        return proof if path == PROOF.path else (200, {"things": []})

    return connection(image=answer)


def paths(cloud):
    return [path for _, path, _ in cloud.image.asked]


def inventory_without_admin_rights(service, type_):
    """Return the result of an inventory, the calls that it made, and the one that it should have made.

    The service answers everything but the proof, which it forbids. The tokens are those of a project that is gone, all
    of which are ours.
    """
    type_ = type_.for_missing_project(gone=True)
    name = service.service_type.replace("-", "_")
    asked = type_.proof.path.replace("{project_id}", "p")

    def answer(method, path, query, body):
        return (403, {"forbidden": {"message": "no"}}) if path == asked else (200, {})

    cloud = connection("p", **{name: answer})
    found = sweeps.inventory(dataclasses.replace(type_, available=None), cloud, project())
    return found, [path for _, path, _ in getattr(cloud, name).asked], [asked]


def test_an_inventory_without_admin_rights_is_never_clear():
    wrong = {}
    for service, type_ in TYPES:
        found, made, wanted = inventory_without_admin_rights(service, type_)
        if (found.outcome, found.reason, made) != (Outcome.UNKNOWN, Reason.FORBIDDEN, wanted):
            wrong[f"{service.service_type}.{type_.name}"] = (found.outcome, found.reason, made)
    assert wrong == {}


def test_the_admin_check_comes_before_the_list():
    cloud = served()
    assert sweeps.inventory(things(), cloud, project()).outcome is Outcome.CLEAR
    assert paths(cloud) == ["/secrets-of-admins", "/things"]


def test_a_positive_admin_check_is_cached_and_a_refusal_is_not(monkeypatch):
    cloud, now = served(), [1000.0]
    monkeypatch.setattr(admin.time, "monotonic", lambda: now[0])
    for seconds, wanted in ((0, 1), (admin.SECONDS - 1, 1), (admin.SECONDS, 2)):
        now[0] = 1000.0 + seconds
        admin.prove(PROOF, cloud, project())
        assert len(paths(cloud)) == wanted
    refusing = served((403, {}))
    for number in (1, 2):
        with pytest.raises(Exception, match="403"):
            admin.prove(PROOF, refusing, project())
        assert len(paths(refusing)) == number


def test_the_answer_is_that_of_one_service_to_one_user():
    first, second = served(), served()
    admin.prove(PROOF, first, project())
    admin.prove(PROOF, second, project())  # another endpoint
    first.session.get_user_id = lambda: "somebody else"
    admin.prove(PROOF, first, project())
    assert len(paths(first)) == 2 and len(paths(second)) == 1


def test_what_is_shown_to_a_token_of_the_project_proves_nothing_of_an_admin_s():
    """Cinder tells a project's quotas to any member of it: with that token its lists show that project's anyway."""
    cloud = served()
    inside = dataclasses.replace(things(), token=Token.PROJECT)
    assert sweeps.inventory(inside, cloud, project()).outcome is Outcome.CLEAR
    assert paths(cloud) == ["/things"]
    cloud.image.answer = served((403, {})).image.answer
    assert sweeps.inventory(things(), cloud, project()).reason == Reason.FORBIDDEN


def test_an_answer_for_one_project_proves_nothing_for_another():
    own = Rest("image", "/quotas/{project_id}")
    cloud = connection(image=lambda *_: (200, {}))
    for id_, wanted in (("p", ["/quotas/p"]), ("p", ["/quotas/p"]), ("q", ["/quotas/p", "/quotas/q"])):
        admin.prove(own, cloud, project(id_))
        assert paths(cloud) == wanted


def test_rows_that_do_not_come_are_no_proof():
    rows = Rest("image", PROOF.path, key="rows")
    found = sweeps.inventory(things(rows), served((200, {"other": []})), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


def test_types_without_an_admin_check_use_that_of_their_service():
    own = Rest("image", "/own")
    service = Service("image", types=(things(None), things(own)), proof=PROOF)
    assert [type_.proof for type_ in service.types] == [PROOF, own]
