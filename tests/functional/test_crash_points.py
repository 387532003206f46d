"""Promise 4 with real kills: a process is killed right before each effect of a way, and another one completes it.

An effect is a commit of the store, a write call to the cloud, the answer to one, or a cast. Each `Way` has its place (a
small cloud and the records), its stages, what happens between them, and what must hold at the end.

- Every run of the tests: one point of each sort of way, named by its effect.
- Marker `real`: one more point of each way, chosen by ``CLEANUP_TESTS_COMMIT``, an integer that CI derives from the
  commit's hash, so that successive commits try other points.
- Marker `long`: all points, in groups that several test processes share. ``CLEANUP_CRASH_STRIDE=11`` tries every
  eleventh one.
"""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections import Counter

import pytest

from cleanup_orchestrator.core import plans, transitions
from cleanup_orchestrator.core.deletion import Force, Mode, Origin, Status, accepted
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.orphan_scan import ScanStatus
from cleanup_orchestrator.core.step import TASKS, StepState
from cleanup_orchestrator.keystone.protocol import CHANGED_BY_OPTION, SERIAL_OPTION
from cleanup_orchestrator.store import Page, orphans
from cleanup_orchestrator.store.orphans import new_scan
from tests.emulated import Emulated
from tests.emulated import mortal as mortal_way
from tests.emulated.orchestrator import configuration
from tests.support import mortal, sqlite_stores
from tests.support.stores import save

STRIDE = int(os.environ.get("CLEANUP_CRASH_STRIDE") or 1)
COMMIT = int(os.environ.get("CLEANUP_TESTS_COMMIT") or 0)
#: The number of test items into which the points of a way are split.
GROUPS = 12
DRIVERS = ("fence", "revoke")
OPTIONS = {
    # Nothing depends on the time, which would differ between machines: each way is always the same.
    "worker": {"parallel_deletes": 1, "lease": mortal_way.LEASE},
    # A retry is due only when the test lets the time pass: on a slow machine a short one would be due by itself.
    "engine": {"stall_after": 1_000_000, "retry_base": 60, "retry_cap": 60},
    "limits": dict.fromkeys(("calls_per_second", "calls_at_once", "deletes_per_second"), "default:0"),
}


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of a way. Before it, the test may change something that is not done by the orchestrator."""

    until: str = ""  #: see `tests.emulated.mortal.UNTIL`; empty: to the end
    first: str = ""  #: the name of the method that is called before the stage
    scan: bool = False  #: whether it is an orphan scan


@dataclasses.dataclass(frozen=True)
class Point:
    """A point of a kill: right before the given occurrence of an effect in a stage."""

    name: str
    occurrence: int = 1
    stage: int = 0


class Way:
    """A small cloud with one project to be deleted and a bystander, and the record of the deletion."""

    driver = "fence"
    mode = Mode.CASCADE
    dry_run = False
    empty = False
    without: tuple[str, ...] = ("object-store",)  #: services that the catalog does not have
    servers: int | None = None
    types = mortal_way.TYPES
    options: dict = {}
    stages = (Stage(),)
    #: The final statuses of the deletion, for every point of the kill.
    way = "accepted draining inventory deleting verifying deleted"
    #: The points of the kill in every run of the tests.
    points = (Point("identity: DELETE /projects/* -> 204"),)

    def __init__(self, folder):
        more = {"fences": self.driver == "fence", "servers": self.servers, "without": self.without}
        self.cloud = Emulated(projects=0, bystanders=1, seed=3, **more)
        self.project = self.cloud.add_project("doomed")
        self.cloud.audit.under_deletion = {self.project}
        self.furnish(self.project)
        self.there = self.resources()
        self.grants = set(self.cloud.identity.grants[self.project])
        (self.bystander,) = self.cloud.bystanders
        self.others = self.owned(self.bystander), set(self.cloud.identity.grants[self.bystander])
        self.config = configuration(
            folder,
            self.cloud.auth_url,
            DEFAULT={"log_file": folder / "log"},
            drain={"driver": self.driver, "token_cache_time": 1000},
            **{**OPTIONS, **self.options},
        )
        self.store = sqlite_stores.in_file(folder / "orchestrator.sqlite")
        self.id = self.scan_id = ""
        self.ids = ()
        self.begin()

    def close(self):
        self.store.close()
        self.cloud.close()

    # -- what is in it
    def furnish(self, project):
        add, cloud = self.cloud.state.add, self.cloud
        user, colleague = cloud.add_user(f"{project}-user"), cloud.add_user(f"{project}-colleague")
        team = add("", "identity.group", "", name="team").id
        cloud.identity.members[team] = {colleague}
        cloud.grant(project, user, "member")
        cloud.grant(project, team, "reader", actor="groups")
        add("RegionOne", "network.quota", project, id=project)
        if self.empty:
            return
        if "network.port" in self.types:
            network = add("RegionOne", "network.network", project, name="net").id
            for number in range(2):
                add("RegionOne", "network.port", project, name=f"port-{number}", network_id=network)
        self.image = add("RegionOne", "image.image", project, name="image")
        if "key-manager.secret" in self.types and "key-manager" not in self.without:
            add("RegionOne", "key-manager.secret", project, name="secret")
        add("", "identity.application_credential", project, user_id=user, name="robot")

    def owned(self, project):
        tables_ = self.cloud.state.tables.values()
        return {row.id: row.render() for table in tables_ for row in table.owned.get(project, {}).values()}

    def resources(self):
        return set(self.owned(self.project))

    # -- what is asked for
    def begin(self):
        """Ask for the deletion."""
        self.request(mode=self.mode, dry_run=self.dry_run)

    def accepted(self, project, **values):
        values = {"mode": Mode.CASCADE, "dry_run": False, **values}
        id_ = str(uuid.uuid4())
        return accepted(id=id_, project_id=project, project_name="?", domain_id="default", **values)

    def request(self, **values):
        made = self.accepted(self.project, **values)
        self.id = self.store.create(made, TASKS, Event("deletion.accepted", "a test asks for it")).id
        self.ids = (self.id,)

    def cancel(self):
        before = self.store.get(self.id)
        move = transitions.move(before, Status.CANCELLING, transitions.By.USER, self.store.now(), "cancel")
        save(self.store, before, move, events=[Event("deletion.cancelling", "a test cancels it")])

    # -- what is done
    def go(self, stage=stages[0], die_before=0, name=""):
        """Run a stage in a process; return whether it reached the end, and the effects."""
        if stage.scan:
            return mortal.run(mortal_way.scan, self.config, self.types, self.scan_id, die_before=die_before, name=name)
        arguments = self.types, self.ids, stage.until
        return mortal.run(mortal_way.go, self.config, *arguments, die_before=die_before, name=name)

    def travel(self, stage=-1, die_before=0, name="", known=None):
        """Run the whole way with one kill or none; return the effects of each stage.

        :param stage: the stage of the kill; -1: none
        :param known: the effects of a way without a kill, by stage
        """
        found = []
        for number, each in enumerate(self.stages):
            if each.first:
                getattr(self, each.first)()
            if number == stage:
                ended, effects = self.go(each, die_before, name)
                assert not ended, f"it does not come to its death: {sorted(Counter(effects).items())}"
                assert known is None or effects == known[number][: die_before - 1], "it goes the same way each time"
            ended, effects = self.go(each)
            assert ended
            found.append(effects)
        self.check()
        return found

    # -- the result
    def journal(self, type_="", id_=""):
        rows = [row.event for row in self.store.events(id_ or self.id, 100_000)]
        return [event for event in rows if event.type.startswith(type_)]

    def statuses(self, id_=""):
        return " ".join(event.type.removeprefix("deletion.") for event in self.journal("deletion.", id_))

    #: What a project may have had when Keystone deleted it, by project: known and recorded resources.
    not_empty: tuple = ()

    def check(self):
        """What must hold at the end of this way."""
        self.check_deleted()

    def check_always(self):
        audit = self.cloud.audit
        assert self.cloud.defects == []
        assert audit.foreign_writes() == []
        assert tuple(audit.deleted_while_not_empty()) == self.not_empty
        assert (self.owned(self.bystander), set(self.cloud.identity.grants[self.bystander])) == self.others
        intents = set()
        for id_ in self.ids:
            assert self.store.changes(id_) == ()
            assert not self.store.get(id_).has_changes
            told = [*self.journal("resource.deleting", id_), *self.journal("resource.forcing", id_)]
            intents |= {r["id"] for event in told for r in event.data["resources"]}
            # A step of the killed process may stay as it was, once nothing waits for it; but it must have no lease.
            running = [step for step in self.store.steps(id_) if step.state is StepState.RUNNING]
            assert [step.name for step in running if step.lease_until > self.store.now()] == []
        # Each delete was recorded before, and no resource is deleted twice.
        own = ("identity.token", "identity.grant", "identity.project")
        first = [write.touched[0] for write in audit.writes if write.touched]
        gone = Counter(touch.id for touch in first if touch.what == "deleted" and touch.kind not in own)
        assert set(gone) <= intents
        assert set(gone.values()) <= {1}
        assert self.statuses() == self.way

    def check_deleted(self):
        assert self.store.get(self.id).status is Status.DELETED
        assert not self.cloud.exists(self.project)
        assert self.cloud.left(self.project) == {}
        self.check_always()

    def check_given_back(self, status, left):
        assert self.store.get(self.id).status is status
        project = self.cloud.identity.projects[self.project]
        # The serial of a fence stays when the fence is lifted, so that the next fence has another one.
        assert (project.enabled, project.options.keys() - {SERIAL_OPTION, CHANGED_BY_OPTION}) == (True, set())
        assert self.cloud.identity.grants[self.project] == self.grants
        assert self.resources() == left
        self.check_always()


# ------------------------------------------------------------------------------------------------------------ the ways
class Fenced(Way):
    """A cascade behind the fence."""


class Revoked(Way):
    """A cascade behind removed grants."""

    driver = "revoke"
    points = (Point("identity: DELETE /projects/*/users/*/roles/* -> 204"),)


class FencedReport(Way):
    """A report that finds a port behind the lock: a token that a service still accepted created it."""

    mode = Mode.REPORT
    empty = True
    way = "accepted inventory draining inventory leftovers"
    points = (Point("identity: PATCH /projects/* -> 200"),)

    def __init__(self, folder):
        super().__init__(folder)
        self.intruder = ""
        self._intrude_behind_the_drain()

    def _intrude_behind_the_drain(self):
        """A user whose token is still in a cache creates a port right when the lock is set."""
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

    def check(self):
        self.check_given_back(Status.LEFTOVERS, self.there | {self.intruder})


class RevokedReport(FencedReport):
    """The same behind removed grants."""

    driver = "revoke"
    points = (Point("identity: DELETE /projects/*/users/*/roles/* -> 204"),)


class FencedCancel(Way):
    """A cancel at the last moment: everything is deleted except the project settings.

    The project is about to be disabled. Behind the fence its removal follows at once.
    """

    stages = (Stage("proven"), Stage(first="cancelled"))
    enabled = True
    way = "accepted draining inventory deleting verifying cancelling cancelled"
    points = (Point("identity: PATCH /projects/* -> 200", stage=1),)

    def cancelled(self):
        assert self.cloud.identity.projects[self.project].enabled is self.enabled
        self.cancel()
        self.left = self.resources()

    def check(self):
        self.check_given_back(Status.CANCELLED, self.left)


class RevokedCancel(FencedCancel):
    """The same behind removed grants, and with the project disabled: another inventory follows."""

    driver = "revoke"
    stages = (Stage("closed"), Stage(first="cancelled"))
    enabled = False
    points = (Point("identity: PUT /projects/*/users/*/roles/* -> 204", stage=1),)


class Tree(Way):
    """A project with another one below it: the upper one is not changed before the lower one is gone."""

    driver = "revoke"
    types = frozenset({"image.image", "network.quota", "identity.application_credential"})
    points = (Point("identity: DELETE /projects/* -> 204"),)  # of the lower one

    def begin(self):
        self.child = self.cloud.add_project("below", self.project)
        self.furnish(self.child)
        self.cloud.audit.under_deletion.add(self.child)
        upper = self.accepted(self.project, include_subtree=True)
        lower = self.accepted(self.child, parent_deletion_id=upper.id)
        asked = Event("deletion.accepted", "a test asks for it")
        self.store.create_all([(lower, asked), (upper, asked)], TASKS)
        self.id, self.ids = upper.id, (upper.id, lower.id)

    def check(self):
        assert self.cloud.audit.before_children({self.project: [self.child]}) == []
        assert self.statuses(self.ids[1]) == self.way
        assert not self.cloud.exists(self.child)
        assert self.cloud.left(self.child) == {}
        self.check_deleted()


class Forced(Way):
    """Force on stuck resources: a server that only force deletes, and an image that no request deletes."""

    servers = 0
    #: Zero, because the number of attempts within some seconds would depend on the machine.
    options = {"force": {"attempts": 2, "patience": 0, "types": "compute.server"}}
    stages = (Stage("stuck"), Stage(first="force"))
    way = "accepted draining inventory deleting forced verifying deleted"
    points = (Point("compute: POST /servers/*/action -> 202", stage=1),)

    def furnish(self, project):
        super().furnish(project)
        self.server = self.cloud.state.add("RegionOne", "compute.server", project, name="hung")
        self.cloud.hung.add(self.server.id)
        self.cloud.stuck.add(self.image.id)

    def force(self):
        """Record it, as the API does."""
        assert self.server.id in self.resources()
        d = self.store.get(self.id)
        assert transitions.forcible(d)
        now = self.store.now()
        asked = Force("its storage is gone", ("compute.server",), now, d.attempt, d.round, "u1", "alice")
        after = dataclasses.replace(d, forced=asked, progress_at=now, wake_at=now)
        save(self.store, d, after, (), [Event("deletion.forced", "a test forces it")])

    def check(self):
        assert self.store.get(self.id).reason == "deleted_by_force"
        assert not self.cloud.exists(self.project)
        # Exactly the resources that are recorded as abandoned by id are left.
        assert self.resources() == {self.image.id}
        rows = [row.leftover for row in self.store.leftovers(self.id, 100) if row.leftover.abandoned]
        assert [(row.id, row.owner) for row in rows] == [(self.image.id, self.project)]
        told = [r["id"] for event in self.journal("resource.abandoned") for r in event.data["resources"]]
        assert told == [self.image.id]
        assert [event.data["abandoned"] for event in self.journal("force.abandoned")] == [1]
        self.not_empty = ((self.project, {"image.image": 1}),)
        self.check_always()


class Planned(Way):
    """A dry run, a later resource, and the cascade that is bound to the plan: only the plan is deleted."""

    driver = "revoke"
    dry_run = True
    without = ("object-store", "key-manager")  # a dry run gives itself no role, and so does not see these
    stages = (Stage(), Stage(first="bind"))
    way = "accepted draining inventory deleting verifying leftovers"
    points = (Point("network: DELETE ports/* -> 204", stage=1),)

    def bind(self):
        plan = self.store.get(self.id)
        steps = self.store.steps(plan.id)
        assert (plan.status, plans.gaps(plan, steps)) == (Status.PLANNED, ())
        assert [write for write in self.cloud.audit.writes if "/auth/tokens" not in write.target] == []
        self.newcomer = self.cloud.state.add("RegionOne", "image.image", self.project, name="newcomer")
        self.request(plan_id=plan.id, plan_hash=plans.hash_of(steps))

    def check(self):
        quota = self.project
        assert self.store.get(self.id).reason == "unplanned"
        self.check_given_back(Status.LEFTOVERS, {self.newcomer.id, quota})


class Lien(Way):
    """A plugin lien on an image that a neighbour uses, until the neighbour no longer uses it."""

    options = {"protection": {"lien_types": "image.image"}, "service_image": {"delete_shared_images": "false"}}
    stages = (Stage("on_hold"), Stage(first="unshare"))
    points = (Point("bus: decide", 8),)  # the lien is on record, and no engine knows

    def furnish(self, project):
        super().furnish(project)
        (neighbour,) = self.cloud.bystanders
        self.image.table.change(self.image, {"visibility": "shared", "members": [neighbour]})

    def unshare(self):
        assert self.cloud.audit.written(self.project) == [], "nothing is deleted, nor changed, under a lien"
        assert self.resources() == self.there
        [lien] = self.store.liens(Page(10), in_force=True)[0]
        assert (lien.project_id, lien.origin) == (self.project, "plugin:image.image")
        self.image.table.change(self.image, {"members": []})

    def check(self):
        assert [event.type for event in self.journal("lien.")] == ["lien.raised", "lien.ended"]
        assert self.store.liens(Page(10), in_force=True)[0] == []
        self.check_deleted()


class Restored(Way):
    """A recovery window that stops the servers of the project, and a restore that starts exactly these again."""

    driver = "revoke"
    servers = 0
    options = {"deletion": {"recovery_window": 3000, "recovery_stop_servers": "true"}}
    stages = (Stage("halted"), Stage(first="restore"))
    way = "accepted draining inventory recoverable cancelling cancelled"
    points = (
        Point("compute: POST /servers/*/action -> 202", 1, 1),  # it is started, and still on record as stopped
        Point("compute: POST /servers/*/action", 2, 1),  # one is started, the other one is about to be
    )

    def furnish(self, project):
        super().furnish(project)
        for name, status in (("a", "ACTIVE"), ("b", "ACTIVE"), ("off", "SHUTOFF"), ("failed", "ERROR")):
            self.cloud.state.add("RegionOne", "compute.server", project, name=name, status=status)
        self.before = self.cloud.servers(project)

    def restore(self):
        assert {each["status"] for each in self.cloud.servers(self.project).values()} == {"SHUTOFF", "ERROR"}
        self.cancel()

    def check(self):
        once = lambda each: 1 if each["status"] == "ACTIVE" else 0  # noqa: E731
        expected = {
            id_: {"status": each["status"], "stops": once(each), "starts": once(each)}
            for id_, each in self.before.items()
        }
        assert self.cloud.servers(self.project) == expected
        self.check_given_back(Status.CANCELLED, self.there)


class Adopted(Way):
    """An orphan scan that finds the resources of a missing project, and the deletion of these."""

    without = ("object-store", "key-manager")  # of a project that is gone no service can be asked for these
    options = {"orphans": {"min_age": 0, "reread_after": 600}}
    stages = (Stage(scan=True), Stage(first="adopt"))
    way = "adopted inventory deleting verifying deleted"
    points = (Point("network: DELETE ports/* -> 204", stage=1),)

    def furnish(self, project):
        super().furnish(project)
        (robot,) = self.cloud.state.table("", "identity.application_credential").owned[project].values()
        self.cloud.state.delete("", robot)  # Keystone lists these by user, and so none of a dead project

    def begin(self):
        self.cloud.forget(self.project)
        scan = new_scan(self._conf(), user_name="a test")
        scan = dataclasses.replace(scan, min_age=0, reread_after=600)
        self.scan_id = self.store.create_orphan_scan(scan).id

    @staticmethod
    def _conf():
        from oslo_config import cfg

        conf = cfg.ConfigOpts()
        for group, options in orphans.OPTS.items():
            conf.register_opts(options, group)
        conf([])
        return conf

    def adopt(self):
        scan, _steps = self.store.orphan_scan(self.scan_id)
        assert scan.status is ScanStatus.COMPLETED, scan.message
        found = [row.orphan for row in self.store.orphans(self.scan_id, 1000)]
        assert {orphan.project_id for orphan in found} == {self.project}
        assert sorted(orphan.resource_id for orphan in found) == sorted(self.there)
        assert [write for write in self.cloud.audit.writes if "/auth/tokens" not in write.target] == []
        made = self.accepted(self.project, origin=Origin.ADOPTED)
        self.id = self.store.create(made, TASKS, Event("deletion.adopted", "a test asks for it")).id
        self.ids = (self.id,)

    def check(self):
        assert self.store.get(self.id).reason == "project_gone"
        self.check_deleted()


WAYS = (
    Fenced, Revoked, FencedReport, RevokedReport, FencedCancel, RevokedCancel, Tree, Forced, Planned, Lien, Restored,
    Adopted,
)  # fmt: skip

#: One of each sort, for every run of the tests.
HANDFUL = (Revoked, FencedReport, FencedCancel, Tree, Forced, Planned, Lien, Restored, Adopted)


@pytest.fixture
def places(tmp_path):
    made = []

    def make(way):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        for place in made:
            place.close()
        made.append(way(folder))
        return made[-1]

    yield make
    for place in made:
        place.close()


#: The effects of each way without a kill, by stage.
_EFFECTS: dict[type[Way], list[list[str]]] = {}


def effects_of(way, places):
    if way not in _EFFECTS:
        _EFFECTS[way] = places(way).travel()
        for number, effects in enumerate(_EFFECTS[way]):
            counts = (f"{n:4} x {what}" for what, n in sorted(Counter(effects).items()))
            print(f"\n{way.__name__}, stage {number}: {len(effects)} effects:", *counts, sep="\n  ")
    return _EFFECTS[way]


def points_of(effects):
    """Return the possible points of a kill: (stage, number of the effect), in order."""
    return [(stage, number) for stage, each in enumerate(effects) for number in range(1, len(each) + 1)]


def dies_at(way, places, stage, number):
    known = effects_of(way, places)
    print(f"{way.__name__}: stage {stage}, effect {number}: {known[stage][number - 1]}")
    places(way).travel(stage, number, known=known)


@pytest.mark.parametrize(("way", "point"), [(way, point) for way in HANDFUL for point in way.points])
def test_after_a_crash_at_a_critical_point_the_next_process_completes_the_deletion(way, point, places):
    places(way).travel(point.stage, point.occurrence, point.name)


@pytest.mark.real
@pytest.mark.parametrize("way", WAYS)
def test_after_a_crash_at_the_point_of_this_commit_the_next_process_completes_the_deletion(way, places):
    points = points_of(effects_of(way, places))
    dies_at(way, places, *points[COMMIT % len(points)])


@pytest.mark.long
@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.parametrize("way", WAYS)
def test_after_a_crash_at_any_point_the_next_process_completes_the_deletion(way, group, places):
    for stage, number in points_of(effects_of(way, places))[::STRIDE][group::GROUPS]:
        dies_at(way, places, stage, number)


class CancelledAfter(Revoked):
    """A cancel between a crash and the process that goes on."""

    def travel_with_a_cancel(self, number):
        """Kill at an effect, cancel, and go on; return whether there was anything to cancel."""
        self.go(self.stages[0], number)
        if not transitions.cancellable(self.store.get(self.id)):
            return False
        self.cancel()
        left = self.resources()
        assert self.go(self.stages[0])[0]
        self.way = self.statuses()
        assert self.way.endswith(" cancelling cancelled")
        self.check_given_back(Status.CANCELLED, left)
        return True


@pytest.mark.long
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_cancel_after_a_crash_at_any_point_of_the_lock_gives_the_project_back(places, group):
    (effects,) = effects_of(Revoked, places)
    lock = [n for n, what in enumerate(effects, 1) if what.startswith("identity: ") or "changes" in what]
    tried = [places(CancelledAfter).travel_with_a_cancel(number) for number in lock[::STRIDE][group::GROUPS]]
    assert any(tried) or group or STRIDE > 1


@pytest.mark.real
def test_the_way_that_is_enumerated_has_every_kind_of_effect(places):
    """If a way changes one day, this test fails for points that the way no longer has."""
    (effects,) = effects_of(Revoked, places)
    heads = {what.partition(" ")[0] for what in effects}
    assert heads == {"store:", "bus:", "identity:", "network:", "image:", "key-manager:"}
    deletes = [what for what in effects if " DELETE " in what and "->" not in what]
    assert len([what for what in deletes if not what.startswith("identity:")]) == 6, deletes
