"""One domain floods the queue, and what a project without a token costs, over the emulated cloud."""

import time
import uuid

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status, accepted
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.queue import QueueState
from cleanup_orchestrator.core.step import TASKS
from tests.emulated.orchestrator import Orchestrator
from tests.support.emulated_site import LEAN, with_cloud
from tests.support.timing import wait

pytestmark = pytest.mark.slow

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
    orchestrator.parts.bus.decide(record.id)
    return record.id


class Places:
    """A listener of the store: which deletions hold a place for work, and since when."""

    def __init__(self):
        self._saved = []

    def deletion_saved(self, before, after):
        """Receive a deletion that was created or saved."""
        self._saved.append((after.updated_at, after.id, before is not None and self._holds(before), self._holds(after)))

    def turns(self):
        """Yield when a deletion got a place, which one, and how many were held from then on, in this order."""
        held = 0
        # Of two changes with one time, that which gives a place back is first.
        for at, deletion_id, held_before, holds in sorted(self._saved, key=lambda each: (each[0], each[3])):
            held += holds - held_before
            if holds and not held_before:
                yield at, deletion_id, held

    @staticmethod
    def _holds(deletion):
        return deletion.queue_state is QueueState.WORKING


@pytest.mark.parametrize("places", [4, 16])
def test_a_flood_of_one_domain_does_not_delay_another_one(emulated, tmp_path, places):
    """40 dry runs of empty projects of domain A by its manager, then one of domain B by an admin.

    From the request of B on, the next free place is B's: a deletion of A gets one only if another one is free. The
    engine may need any time to decide on B, so the number of those of A says nothing.
    """
    for domain in ("A", "B"):
        emulated.add_domain(domain)
    flood, seen = [emulated.add_project(f"a-{number}", domain="A") for number in range(FLOOD)], Places()
    with Orchestrator(emulated, tmp_path, engine={"deletions_at_once": places}) as orchestrator:
        orchestrator.store.on_commit(seen)
        others = [ask(orchestrator, project, "A", "manager") for project in flood]
        wait("every place was taken", lambda: max((held for *_, held in seen.turns()), default=0) >= places)
        mine = ask(orchestrator, emulated.add_project("b", domain="B"), "B", "admin")
        ended = orchestrator.wait([mine, *others], 600)
        asked_at = orchestrator.store.get(mine).created_at
    assert set(ended.values()) == {Status.PLANNED}
    turns = list(seen.turns())
    assert max(held for *_, held in turns) == places
    turn_at = next(at for at, deletion_id, _ in turns if deletion_id == mine)
    meanwhile = [held for at, _, held in turns if asked_at < at < turn_at]
    print(f"\n{places} places: B got one after {turn_at - asked_at}, and {len(meanwhile)} of A did so before it")
    assert [held for held in meanwhile if held >= places] == []


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
