"""One domain floods the queue, and what a project without a token costs, over the emulated cloud."""

import time
import uuid

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status, accepted
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from tests.emulated.orchestrator import Orchestrator
from tests.support.emulated_site import LEAN, with_cloud
from tests.support.timing import wait

CLOUD = LEAN
FLOOD = 40


def ask(orchestrator, project_id, domain_id, user_id, mode=Mode.CASCADE, dry_run=True):
    """Request a deletion for a user, as the API does."""
    record = accepted(
        id=str(uuid.uuid4()),
        project_id=project_id,
        project_name=project_id,
        domain_id=domain_id,
        user_id=user_id,
        mode=mode,
        dry_run=dry_run,
    )
    orchestrator.store.create(record, TASKS, Event("deletion.accepted", "a test asks for it"))
    orchestrator.parts.bus.deletion(record.id)
    return record.id


def began_at(orchestrator, deletion_id):
    """Return when a deletion left ``accepted``; ``None``: it has not."""
    events = orchestrator.store.events(deletion_id, 50)
    return next((each.at for each in events if each.event.type == "deletion.inventory"), None)


@pytest.mark.parametrize("places", [4, 16])
def test_a_flood_of_one_domain_does_not_delay_another_one(emulated, tmp_path, places):
    """40 dry runs of empty projects of domain A by its manager, then one of domain B by an admin."""
    flood = [emulated.add_project(f"a-{number}") for number in range(FLOOD)]
    with Orchestrator(emulated, tmp_path, engine={"deletions_at_once": places}) as orchestrator:
        others = [ask(orchestrator, project, "A", "manager") for project in flood]
        begun = lambda: sum(orchestrator.store.get(each).turn_at is not None for each in others)  # noqa: E731
        wait("every place was taken", lambda: begun() >= places)
        asked, mine = time.monotonic(), ask(orchestrator, emulated.add_project("b"), "B", "admin")
        wait("it begins", lambda: began_at(orchestrator, mine), 600)
        print(f"\n{places} places: it left 'accepted' after {time.monotonic() - asked:.1f} s")
        ended = orchestrator.wait([mine, *others], 600)
        print(f"all of them had ended after {time.monotonic() - asked:.1f} s")
        record, rest = orchestrator.store.get(mine), [orchestrator.store.get(each) for each in others]
        meanwhile = [each for each in rest if record.created_at < each.turn_at < record.turn_at]
    assert set(ended.values()) == {Status.PLANNED}
    print(f"{len(meanwhile)} of the others got a place between its request and its own place")
    # Of the places that are free at one moment, it gets one; engines may decide on the others first.
    assert len(meanwhile) < places


@with_cloud(**{**LEAN, "without": ()})
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_missing_token_costs_few_logins(emulated, tmp_path, dry_run):
    """Not one for each type and each try."""
    project = emulated.add_project("disabled")
    emulated.audit.under_deletion.add(project)
    emulated.identity.projects[project].enabled = False
    logins = []
    fate = emulated.faults.fate

    def counted(service, region, method, target, projects=()):
        if service == "identity" and method == "POST" and target.endswith("/auth/tokens"):
            logins.append(time.monotonic())
        return fate(service, region, method, target, projects)

    emulated.faults.fate = counted
    with Orchestrator(emulated, tmp_path) as orchestrator:
        mine = ask(orchestrator, project, "A", "manager", Mode.CASCADE if dry_run else Mode.REPORT, dry_run)
        ended = orchestrator.wait([mine], 300)[mine]
        scoped = [s for s in orchestrator.store.steps(mine) if s.token.scoped]
    tries = sum(s.attempt for s in scoped)
    print(f"\n{len(logins)} logins for {len(scoped)} types that need a token of the project, {tries} tries")
    assert ended is (Status.PLANNED if dry_run else Status.LEFTOVERS)
    assert {s.reason for s in scoped} == {"no_project_token"}
    assert {s.attempt for s in scoped} == {1}
    assert len(logins) <= 8
