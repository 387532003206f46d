"""What anybody may put into a project is named in its report, and keeps nothing from going."""

import dataclasses

import pytest

from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, StepResult
from cleanup_orchestrator.errors import OnHold
from cleanup_orchestrator.plugins import conformance, identity
from cleanup_orchestrator.plugins.base import ResourceType, Rest, Service
from tests.support import sweeps
from tests.unit.worker.test_deleting import US, Shelf, row
from tests.unit.world import REMOVING, T0, UNKNOWN, World, allowed, deletion, left, sweep_step

PORT = sweep_step("network.port")
QUOTA = sweep_step("network.quota", project_setting=True)
CREDENTIAL = sweep_step("identity.credential", region="", after=("*",), project_setting=True, informational=True)
NAMED = StepResult(Outcome.CLEAR, found=1, kept_resources=(Leftover("c", "cert", Reason.INFORMATIONAL, "of user u"),))


def whose(resource, _project):
    return f"of {resource.name}"


@pytest.mark.parametrize("answer", [NAMED, UNKNOWN, left("c"), left("c", reason=Reason.FORBIDDEN)])
@pytest.mark.parametrize("mode", REMOVING)
def test_the_project_is_removed_for_every_result_of_an_informational_type(mode, answer):
    world = World(deletion(mode=mode), PORT, QUOTA, CREDENTIAL)
    world.answers = {"identity.credential": lambda _: answer}
    assert world.run() is Status.DELETED
    assert len(world.empty_rounds) == 3  # as without it
    assert [purpose for id_, purpose in world.writes if id_ == "identity.credential"][:1] == [
        RoundPurpose.PROJECT_SETTINGS
    ]


def test_a_report_lists_an_informational_type_once_and_does_not_count_it():
    world = World(deletion(mode=Mode.REPORT), PORT, CREDENTIAL)
    world.answers = {"network.port": lambda _: left("p"), "identity.credential": lambda _: UNKNOWN}
    assert world.run() is Status.LEFTOVERS
    assert (world.deletion.reason, world.deletion.message) == ("leftovers", "1 left in network.port")
    assert world.dispatched.count("identity.credential") == 1
    assert blockers(world.deletion, world.steps.values()) == ()


def test_project_settings_that_are_not_informational_are_in_no_inventory():
    world = World(deletion(mode=Mode.REPORT), PORT, QUOTA)
    world.answers = {"network.port": lambda _: left("p")}
    assert world.run() is Status.LEFTOVERS
    assert "network.quota" not in world.dispatched


def test_of_a_dead_project_it_goes_though_something_stays_unknown():
    """The last round is never reached: the dead project's secrets cannot be listed."""
    lost = StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_GONE), "the project gives no token any more")
    secret = sweep_step("key-manager.secret")
    behind = sweep_step("identity.trust", region="", after=("*",))
    world = World(deletion(origin=Origin.ADOPTED, project_gone_at=T0), secret, behind, QUOTA, CREDENTIAL)
    world.answers = {"key-manager.secret": lambda _: lost, "identity.credential": lambda _: NAMED}
    assert world.run() is Status.LEFTOVERS
    assert world.deletion.reason == "project_gone"
    assert [purpose for id_, purpose in world.writes if id_ == "identity.credential"] == [RoundPurpose.DELETE]
    assert not {"identity.trust", "network.quota"} & {id_ for id_, _ in world.writes}


@pytest.mark.parametrize(
    ("purpose", "gone", "may"),
    [
        (RoundPurpose.INVENTORY, True, False),
        (RoundPurpose.DELETE, False, False),
        (RoundPurpose.DELETE, True, True),
        (RoundPurpose.PROJECT_SETTINGS, False, True),
        (RoundPurpose.PROJECT_SETTINGS, True, True),
    ],
)
def test_when_it_may_be_deleted(purpose, gone, may):
    record = deletion(status=Status.DELETING, purpose=purpose, project_gone_at=T0 if gone else None)
    step = dataclasses.replace(CREDENTIAL, round=record.round)
    assert allowed(record, step, writing=True) is may
    quota = dataclasses.replace(QUOTA, round=record.round)
    assert allowed(record, quota, writing=True) is (purpose is RoundPurpose.PROJECT_SETTINGS)


def test_an_inventory_names_each_informational_resource_and_no_leftover():
    shelf = Shelf(row("1"), row("2", owner="u-s"), row("3", owner="them"))
    us = dataclasses.replace(US, id="us")
    found = sweeps.inventory(
        shelf.type(informational=True, project_setting=True, describe=whose, unfiltered="x"), None, us
    )
    assert (found.outcome, found.reason, found.found, found.leftovers) == (Outcome.CLEAR, "", 2, ())
    assert [(one.id, one.reason) for one in found.kept_resources] == [
        ("2", Reason.INFORMATIONAL),  # another spelling of the project's id keeps nothing
        ("1", Reason.INFORMATIONAL),
    ]
    assert found.kept_resources[1].message == "of n-1"


def test_what_comes_back_after_its_delete_is_named_and_leaves_none():
    shelf = Shelf(row("1"), row("2"))
    shelf.slow = {"2"}
    result = sweeps.delete(shelf.type(informational=True, project_setting=True, describe=whose), None, US, parallel=1)
    assert (result.outcome, result.leftovers) == (Outcome.CLEAR, ())
    assert result.deleted == (("1", "n-1"),)
    assert [(one.id, one.reason, one.message) for one in result.kept_resources] == [
        ("2", Reason.INFORMATIONAL, "of n-2")
    ]


def test_a_delete_on_hold_is_tried_again():
    shelf = Shelf(row("1"))
    shelf.refuse = {"1": OnHold("a lien came")}
    result = sweeps.delete(shelf.type(informational=True, project_setting=True), None, US, parallel=1)
    assert (result.outcome, result.reason) == (Outcome.LEFTOVERS, Reason.ON_HOLD)


def test_a_list_that_fails_is_no_empty_one():
    shelf = Shelf()
    shelf.list_error = OSError("no answer")
    assert sweeps.inventory(shelf.type(informational=True, project_setting=True), None, US).outcome is Outcome.UNKNOWN


def test_the_contract_asks_for_project_settings():
    type_ = ResourceType(
        "thing",
        list=Rest("identity", "/things", key="things", query={"project_id": "{project_id}"}),
        delete=None,
        source="x",
        informational=True,
    )
    assert any("project settings" in problem for problem in conformance.problems(Service("identity", (type_,))))


def test_of_all_that_is_shipped_only_keystones_credentials_and_gnocchis_resources_of_others_are_so():
    from cleanup_orchestrator.plugins import registry

    found = [
        f"{s.service_type}.{t.name}" for s in registry.load().services.values() for t in s.types if t.informational
    ]
    assert sorted(found) == ["identity.credential", "metric.resource_of_others"]
    (credential,) = [t for t in identity.SERVICE.types if t.name == "credential"]
    named = credential.resource({"id": "1", "project_id": "us", "user_id": "u"}, US)
    assert "user u" in credential.describe(named, US)
