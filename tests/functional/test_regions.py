"""A whole orchestrator over an emulated cloud of two regions, where one is down, comes back, or is waived."""

from __future__ import annotations

import datetime
import uuid

import pytest

from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.step import Outcome, StepKind
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.worker.steps.remove import Remove
from tests.emulated.orchestrator import Orchestrator
from tests.support.emulated_site import LEAN, remove_from_catalog
from tests.support.timing import wait

NORTH, SOUTH = "North", "South"
SERVICES = ("network", "image", "object-store", "key-manager")
CLOUD = {
    **LEAN,
    "bystanders": 0,
    "regions": (NORTH, SOUTH),
    "things": {"image.image": 1, "key-manager.secret": 1},
}
PATIENCE = 900  # seconds; for a slow machine, and not a measure of anything


@pytest.fixture
def running(emulated, tmp_path):
    with Orchestrator(emulated, tmp_path, engine={"attempts": 1}) as made:
        yield made


def until(condition, what):
    """Wait until a condition is true; ``what`` returns the current state for the message."""
    try:
        wait("the condition holds", condition, PATIENCE, 0.2)
    except AssertionError:
        raise AssertionError(what()) from None


def there(emulated, region, *services):
    """Return the resources of the project in a region by type, without those that are deleted with the project."""
    found = {}
    for (where, name), table in emulated.state.tables.items():
        if (
            where == region
            and not table.kind.project_setting
            and not table.kind.history
            and name.split(".")[0] in services
        ):
            rows = [r for r in table.owned.get(emulated.projects[0], {}).values() if not is_default(r)]
            if rows and table.kind.name != "security_group_rule":
                found[name] = len(rows)
    return found


def is_default(row):
    return str(row.get("name") or "").startswith("default")


def blocked(running, deletion_id):
    """Return (region, service) of the blockers of a deletion, with the reasons."""
    found = {}
    for one in blockers(running.store.get(deletion_id), running.store.steps(deletion_id)):
        found.setdefault((one.region, one.service), set()).add(one.reason)
    return found


def waive(running, service_type, region="", project_id=""):
    now = running.store.now()
    hour = datetime.timedelta(hours=1)
    return running.store.add_waiver(
        Waiver(str(uuid.uuid4()), service_type, "burnt down", now, now + hour, region, project_id, "u", "alice")
    )


@pytest.mark.parametrize(
    ("emulated", "services"),
    [
        ({"bystanders": 1}, ("image", "key-manager")),
        pytest.param({"projects": 1, "bystanders": 1, "without": (), "things": {}}, SERVICES, marks=pytest.mark.long),
    ],
    indirect=["emulated"],
    ids=["two services", "all services"],
)
@pytest.mark.slow
def test_a_region_that_is_down_blocks_only_its_steps_and_completion(emulated, running, services):
    project = emulated.projects[0]
    bystander = emulated.left(emulated.bystanders[0])
    before = there(emulated, SOUTH, "network", "image", "key-manager")
    assert there(emulated, NORTH, "network", "image", "key-manager") and before
    for service in services:
        emulated.faults.down(service, region=SOUTH, how="reset")
    deletion_id = running.request(project)
    until(lambda: there(emulated, NORTH, *services) == {}, lambda: there(emulated, NORTH, *services))
    # A step is no blocker during its retry. A step that waits for it (object-store for images) is never a blocker.
    seen = {}
    dead = {(SOUTH, service): {"unreachable"} for service in services if service != "object-store"}
    until(lambda: seen.update(blocked(running, deletion_id)) or len(seen) == len(dead), lambda: seen)
    assert seen == dead
    assert running.store.get(deletion_id).status is Status.DELETING
    assert emulated.exists(project)
    assert there(emulated, SOUTH, "network", "image", "key-manager") == before

    for service in services:
        emulated.faults.up(service, region=SOUTH)
    assert running.wait([deletion_id], PATIENCE) == {deletion_id: Status.DELETED}, running.blockers(deletion_id)
    assert emulated.left(project, project_setting=False) == {}
    assert emulated.audit.deleted_while_not_empty() == []
    assert emulated.left(emulated.bystanders[0]) == bystander


@pytest.mark.slow
def test_what_is_waived_in_one_region_is_left_there_and_named_for_good(emulated, running):
    project = emulated.projects[0]
    images = there(emulated, SOUTH, "image")
    assert images and there(emulated, NORTH, "image")
    emulated.faults.down("image", region=SOUTH)
    deletion_id = running.request(project)
    until(lambda: set(blocked(running, deletion_id)) == {(SOUTH, "image")}, lambda: blocked(running, deletion_id))
    asked = waive(running, "image", SOUTH, project)
    assert running.wait([deletion_id], PATIENCE) == {deletion_id: Status.DELETED}, running.blockers(deletion_id)
    ((_, left),) = emulated.audit.deleted_while_not_empty()
    assert left == images, "nothing but what was waived stayed behind"

    record = running.store.get(deletion_id)
    assert record.waivers == (asked,)
    assert "not listed" in record.message and asked.id in record.message
    steps = running.store.steps(deletion_id)
    assert {(s.region, s.service) for s in steps if s.waived} == {(SOUTH, "image")}
    assert {s.outcome for s in steps if s.waived} == {Outcome.NONE}, "a step that is not listed is not clear"
    journal = [e.event for e in running.store.events(deletion_id, 10000)]
    [relied] = [e for e in journal if e.type == "waiver.relied_upon"]
    assert (relied.data["id"], relied.data["user_name"], relied.data["reason"]) == (asked.id, "alice", "burnt down")
    empty = [e.message for e in journal if e.type == "inventory.empty"]
    assert empty and all(asked.id in message for message in empty)


@pytest.mark.slow
def test_a_waiver_for_another_project_or_region_has_no_effect(emulated, running):
    emulated.faults.down("image", region=SOUTH)
    deletion_id = running.request(emulated.projects[0])
    north = waive(running, "image", NORTH)
    waive(running, "image", SOUTH, "another")
    until(lambda: set(blocked(running, deletion_id)) == {(SOUTH, "image")}, lambda: blocked(running, deletion_id))
    surveys = lambda: next(s.attempt for s in running.store.steps(deletion_id) if s.kind is StepKind.SURVEY)  # noqa: E731
    first = surveys()
    until(lambda: surveys() > first + 1, surveys)
    assert set(blocked(running, deletion_id)) <= {(SOUTH, "image")}
    assert running.store.get(deletion_id).status is Status.DELETING
    assert running.store.get(deletion_id).waivers == (north,)
    assert there(emulated, NORTH, "image"), "the image service of this region was waived, and left alone"


@pytest.mark.parametrize("how", ["withdrawn", pytest.param("expired", marks=pytest.mark.long)])
@pytest.mark.slow
def test_a_waiver_that_ends_right_before_the_project_goes_blocks_again(emulated, running, monkeypatch, how):
    """The waiver ends after every inventory: only the removal can notice it."""
    project = emulated.projects[0]
    emulated.faults.down("image", region=SOUTH)
    asked = waive(running, "image", SOUTH)
    removing = []
    remove = Remove.run

    def ends_first(task):
        removing.append(task)
        if len(removing) == 1:
            if how == "withdrawn":
                running.store.withdraw_waiver(asked.id, "bob")
            else:
                holding = running.store.waivers_in_force
                monkeypatch.setattr(
                    running.store, "waivers_in_force", lambda p="": tuple(w for w in holding(p) if w.id != asked.id)
                )
        return remove(task)

    monkeypatch.setattr(Remove, "run", ends_first)
    deletion_id = running.request(project)
    until(lambda: removing, lambda: blocked(running, deletion_id))
    images = {(SOUTH, "image")}
    until(lambda: images <= set(blocked(running, deletion_id)), lambda: blocked(running, deletion_id))
    assert emulated.exists(project)
    assert running.store.get(deletion_id).status in LIVE
    emulated.faults.up("image", region=SOUTH)
    assert running.wait([deletion_id], PATIENCE) == {deletion_id: Status.DELETED}, running.blockers(deletion_id)
    assert emulated.audit.deleted_while_not_empty() == []
    record = running.store.get(deletion_id)
    assert (record.waivers, "not listed" in record.message) == ((), False)
    assert "waiver.ended" in {e.event.type for e in running.store.events(deletion_id, 10000)}


@pytest.mark.slow
def test_a_report_names_what_it_did_not_list(emulated, running):
    emulated.faults.down("image")
    asked = waive(running, "image")
    deletion_id = running.request(emulated.projects[0], Mode.REPORT)
    assert running.wait([deletion_id], PATIENCE) == {deletion_id: Status.LEFTOVERS}
    record = running.store.get(deletion_id)
    assert record.waivers == (asked,)
    condition = next(c for c in record.conditions if c.type == "waived")
    assert condition.status and asked.id in condition.message
    assert "image" not in record.message, "neither left nor unknown"
    assert {row.service for row in running.store.leftovers(deletion_id, 10000)} == {"key-manager"}


@pytest.mark.slow
def test_an_unsupported_service_blocks_until_it_is_waived_also_when_it_leaves_the_catalog(emulated, running):
    project = emulated.projects[0]
    emulated.add_service("weather", "weather", emulated.url, (SOUTH,))
    deletion_id = running.request(project)
    weather = {(SOUTH, "weather"): {"no_plugin"}}
    until(
        lambda: blocked(running, deletion_id) == weather and there(emulated, NORTH, *SERVICES) == {},
        lambda: blocked(running, deletion_id),
    )
    remove_from_catalog(emulated, "weather")
    said = lambda: next(  # noqa: E731
        s.message for s in running.store.steps(deletion_id) if s.kind is StepKind.UNSUPPORTED
    )
    until(lambda: "left the catalog" in said(), said)
    assert blocked(running, deletion_id) == weather
    asked = waive(running, "weather", project_id=project)
    assert running.wait([deletion_id], PATIENCE) == {deletion_id: Status.DELETED}, running.blockers(deletion_id)
    assert running.store.get(deletion_id).waivers == (asked,)
    assert emulated.audit.deleted_while_not_empty() == []
