"""Promise 4 by real kills: a process dies right before each effect of the whole way, and another takes it to its end.

An effect is a commit of the store, a write call to the cloud, the answer to one, or a cast. Each way is enumerated
first, without harm. By default every eleventh point is tried, and each right after a delete took effect; all of them,
in half an hour, by ``CLEANUP_CRASH_STRIDE=1 pytest tests/functional/test_crash_points.py``.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import Counter

import pytest

from cleanup_orchestrator import tables, transitions
from cleanup_orchestrator.model import TASKS, Event, Mode, State, Status, accepted
from cleanup_orchestrator.store import Store
from tests import mortal
from tests.emulated import Emulated
from tests.emulated import mortal as mortal_way
from tests.emulated.orchestrator import configuration

STRIDE = int(os.environ.get("CLEANUP_CRASH_STRIDE") or 11)
DRIVERS = ("fence", "revoke")
OPTIONS = {
    # Nothing that time does by itself, on a slow machine more often than on a fast one: each way is always the same.
    "worker": {"parallel_deletes": 1, "lease": mortal_way.LEASE},
    "engine": {"stall_after": 1_000_000, "retry_base": 0.1, "retry_cap": 1},
    "limits": dict.fromkeys(("calls_per_second", "calls_at_once", "deletes_per_second"), "default:0"),
}


class Place:
    """A small cloud with one project to be deleted and a bystander, and the record of the deletion."""

    def __init__(self, folder, driver, mode=Mode.CASCADE, empty=False, intruder=False):
        self.cloud = Emulated(projects=0, bystanders=1, seed=3, fences=driver == "fence")
        self.driver = driver
        self._forget_the_object_store()
        self.project = self.cloud.add_project("doomed")
        self.cloud.audit.under_deletion = {self.project}
        self._furnish(empty)
        self.there = self.resources()
        self.grants = set(self.cloud.identity.grants[self.project])
        (self.bystander,) = self.cloud.bystanders
        self.others = self.owned(self.bystander), set(self.cloud.identity.grants[self.bystander])
        self.intruder = ""
        if intruder:
            self._intrude_behind_the_drain()
        self.config = configuration(
            folder,
            self.cloud.auth_url,
            DEFAULT={"log_file": folder / "log"},
            drain={"driver": driver, "token_cache_time": 1000},
            **OPTIONS,
        )
        template = folder.parent / "template.sqlite"
        if not template.exists():
            store = Store.from_url(f"sqlite:///{template}")
            tables.metadata.create_all(store._engine)
            store.close()
        self.path = folder / "orchestrator.sqlite"
        shutil.copy(template, self.path)
        self.store = Store.from_url(f"sqlite:///{self.path}")
        made = accepted(
            id=str(uuid.uuid4()),
            project_id=self.project,
            project_name="?",
            domain_id="default",
            mode=mode,
            dry_run=False,
        )
        self.id = self.store.create(made, TASKS, Event("deletion.accepted", "a test asks for it")).id

    def close(self):
        self.store.close()
        self.cloud.close()

    # -- what is in it
    def _forget_the_object_store(self):
        state = self.cloud.state
        table = state.table("", "identity.service")
        gone = next(row for row in table.rows.values() if row.get("type") == "object-store")
        endpoints = state.table("", "identity.endpoint")
        for row in [row for row in endpoints.rows.values() if row.get("service_id") == gone.id]:
            endpoints.remove(row)
        table.remove(gone)

    def _furnish(self, empty):
        add, cloud, project = self.cloud.state.add, self.cloud, self.project
        user, colleague = cloud.add_user("doomed-user"), cloud.add_user("doomed-colleague")
        team = add("", "identity.group", "", name="doomed-team").id
        cloud.identity.members[team] = {colleague}
        cloud.grant(project, user, "member")
        cloud.grant(project, team, "reader", actor="groups")
        add("RegionOne", "network.quota", project, id=project)
        if empty:
            return
        network = add("RegionOne", "network.network", project, name="net").id
        for number in range(2):
            add("RegionOne", "network.port", project, name=f"port-{number}", network_id=network)
        add("RegionOne", "image.image", project, name="image")
        add("RegionOne", "key-manager.secret", project, name="secret")
        add("", "identity.application_credential", project, user_id=user, name="robot")

    def _intrude_behind_the_drain(self):
        """Somebody whose token was still in a cache makes a port, right when the lock is set."""
        identity = self.cloud.identity

        def watched(call_name):
            inner = getattr(identity, call_name)

            def answer(call, project, *arguments):
                locking = call.request.method == "DELETE" or b'"cleanup' in call.request.body
                response = inner(call, project, *arguments)
                if project.id == self.project and locking and not self.intruder and response.status < 300:
                    self.intruder = self.cloud.state.add("RegionOne", "network.port", self.project, name="late").id
                return response

            setattr(identity, call_name, answer)

        watched("_update" if self.driver == "fence" else "_grant")

    def owned(self, project):
        tables_ = self.cloud.state.tables.values()
        return {row.id: row.render() for table in tables_ for row in table.owned.get(project, {}).values()}

    def resources(self):
        return set(self.owned(self.project))

    # -- what is done
    def go(self, die_before=0, until=""):
        return mortal.run(mortal_way.go, self.config, self.id, until, die_before=die_before)

    def cancel(self):
        before = self.store.get(self.id)
        move = transitions.move(before, Status.CANCELLING, transitions.By.USER, self.store.now(), "cancel")
        self.store.save(before, move, events=[Event("deletion.cancelling", "a test cancels it")])

    # -- what came of it
    def journal(self, type_=""):
        rows = [row.event for row in self.store.events(self.id, 100_000)]
        return [event for event in rows if event.type.startswith(type_)]

    def statuses(self):
        return [event.type for event in self.journal("deletion.")]

    def check_always(self):
        audit = self.cloud.audit
        assert self.cloud.defects == []
        assert audit.foreign_writes() == []
        assert audit.deleted_while_not_empty() == []
        assert (self.owned(self.bystander), set(self.cloud.identity.grants[self.bystander])) == self.others
        assert self.store.changes(self.id) == ()
        assert not self.store.get(self.id).holding
        # Nothing is deleted that was not written down before; and what is gone, is not deleted once more.
        intents = {r["id"] for event in self.journal("resource.deleting") for r in event.data["resources"]}
        own = ("identity.token", "identity.grant", "identity.project")
        first = [write.touched[0] for write in audit.writes if write.touched]
        gone = Counter(touch.id for touch in first if touch.what == "deleted" and touch.kind not in own)
        assert set(gone) <= intents
        assert set(gone.values()) <= {1}
        # A step of the dead may be left as it was, once nobody waits for it any more: but in nobody's hands.
        running = [step for step in self.store.steps(self.id) if step.state is State.RUNNING]
        assert [step.name for step in running if step.lease_until > self.store.now()] == []

    def check_deleted(self):
        assert self.store.get(self.id).status is Status.DELETED
        assert not self.cloud.exists(self.project)
        assert self.cloud.left(self.project) == {}
        self.check_always()

    def check_given_back(self, status, left):
        assert self.store.get(self.id).status is status
        project = self.cloud.identity.projects[self.project]
        assert (project.enabled, project.options) == (True, {})
        assert self.cloud.identity.grants[self.project] == self.grants
        assert self.resources() == left
        self.check_always()


@pytest.fixture
def places(tmp_path):
    made = []

    def make(*arguments, **values):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        for place in made:
            place.close()
        made.append(Place(folder, *arguments, **values))
        return made[-1]

    yield make
    for place in made:
        place.close()


def points(effects):
    """The numbers of the effects to die before: a part of all, and each where a delete has just taken effect."""
    print(
        f"\n{len(effects)} effects:", *(f"{n:4} x {what}" for what, n in sorted(Counter(effects).items())), sep="\n  "
    )
    deleted = {n for n, what in enumerate(effects, 1) if " DELETE " in what and "->" in what and "/roles/" not in what}
    chosen = sorted({*range(1, len(effects) + 1, STRIDE), *deleted})
    print(f"{len(chosen)} of them are died before")
    return chosen


@pytest.mark.parametrize("driver", DRIVERS)
def test_wherever_a_process_dies_on_the_way_the_next_one_deletes_the_project(places, driver):
    place = places(driver)
    ended, effects = place.go()
    assert ended
    place.check_deleted()
    way = place.statuses()
    assert way == [f"deletion.{s}" for s in ("accepted", "draining", "inventory", "deleting", "verifying", "deleted")]
    for number in points(effects):
        place = places(driver)
        ended, before = place.go(number)
        assert not ended, "it goes the same way each time"
        assert before == effects[: number - 1]
        ended, _ = place.go()
        assert ended
        place.check_deleted()
        assert place.statuses() == way, (number, effects[number - 1])


@pytest.mark.parametrize("driver", DRIVERS)
def test_wherever_a_process_dies_a_report_that_finds_something_gives_the_project_back(places, driver):
    """Behind the lock, where it hurts: a port of somebody whose token a service still took."""
    place = places(driver, mode=Mode.REPORT, empty=True, intruder=True)
    ended, effects = place.go()
    assert ended
    place.check_given_back(Status.LEFTOVERS, place.there | {place.intruder})
    way = place.statuses()
    assert way[-1] == "deletion.leftovers"
    for number in points(effects):
        place = places(driver, mode=Mode.REPORT, empty=True, intruder=True)
        ended, _ = place.go(number)
        assert not ended
        ended, _ = place.go()
        assert ended
        place.check_given_back(Status.LEFTOVERS, place.there | {place.intruder})
        assert place.statuses() == way, (number, effects[number - 1])


@pytest.mark.parametrize("driver", DRIVERS)
def test_wherever_a_process_dies_a_cancel_gives_the_project_back(places, driver):
    """From the moment in which most is changed: drained and disabled, everything deleted but the residue."""

    def cancelled():
        place = places(driver)
        assert place.go(until="closed_at")[0]
        assert not place.cloud.identity.projects[place.project].enabled
        place.cancel()
        return place, place.resources()

    place, left = cancelled()
    ended, effects = place.go()
    assert ended
    place.check_given_back(Status.CANCELLED, left)
    for number in points(effects):
        place, left = cancelled()
        ended, _ = place.go(number)
        assert not ended
        ended, _ = place.go()
        assert ended
        place.check_given_back(Status.CANCELLED, left)
        assert place.statuses()[-2:] == ["deletion.cancelling", "deletion.cancelled"]


def test_a_cancel_after_a_crash_at_any_point_of_the_lock_gives_the_project_back(places):
    """Here the one who cancels comes between the crash and whoever goes on."""
    place = places("revoke")
    _, effects = place.go()
    lock = [n for n, what in enumerate(effects, 1) if what.startswith("identity: ") or "changes" in what]
    for number in lock[:: max(1, STRIDE // 2)]:
        place = places("revoke")
        place.go(number)
        if not transitions.cancellable(place.store.get(place.id)):
            continue
        place.cancel()
        left = place.resources()
        assert place.go()[0]
        place.check_given_back(Status.CANCELLED, left)


def test_the_way_that_is_enumerated_has_every_kind_of_effect(places):
    """Should a part of it go another way one day, this says that the points above do not have it any more."""
    place = places("revoke")
    _, effects = place.go()
    heads = {what.partition(" ")[0] for what in effects}
    assert heads == {"store:", "bus:", "identity:", "network:", "image:", "key-manager:"}
    deletes = [what for what in effects if " DELETE " in what and "->" not in what]
    assert len([what for what in deletes if not what.startswith("identity:")]) == 6, deletes
