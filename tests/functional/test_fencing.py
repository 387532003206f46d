"""Every write of the store has a proof that it is allowed: a version, a fencing token, a lease. None may be stale."""

import ast
import dataclasses
import datetime
import inspect
import textwrap
import uuid
from pathlib import Path

import pytest
import sqlalchemy as sa

import cleanup_orchestrator
from cleanup_orchestrator.core import rate_limits
from cleanup_orchestrator.core.actions import Applied
from cleanup_orchestrator.core.approvals import BY_ADMIN
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.findings import ProjectSeen
from cleanup_orchestrator.core.holds import Brake, Lien, Waiver
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.orphan_scan import Advance, ScanStatus
from cleanup_orchestrator.core.proposals import Refused, Requester, Stop
from cleanup_orchestrator.core.step import TASKS, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.core.transitions import By, move
from cleanup_orchestrator.store import AlreadyUnderWay, Conflict, ProtocolService, ScanUnderWay, Spoken, tables
from cleanup_orchestrator.store.database import Repository
from tests.support import orphaned
from tests.support.stores import dispatched, save
from tests.unit.world import deletion

SOURCES = Path(cleanup_orchestrator.__path__[0])
EVENT = Event("note", "of a zombie")
DONE = StepResult(Outcome.CLEAR, message="of a zombie", learned=(ProjectSeen("of a zombie", "", ()),))
GRANT = {"actor": "users", "actor_id": "u", "role_id": "r"}


class Scene:
    """A drain step that a worker has claimed, and the events that happen meanwhile."""

    def __init__(self, store):
        self.store = store
        made = deletion(id=str(uuid.uuid4()), status=Status.DRAINING)
        self.record = store.create(made, TASKS, Event("deletion.accepted", "x"))
        self.step = self.dispatch()
        _, self.mine = store.claim(self.step.id, "zombie", 60)
        self.change = store.record_intent(self.mine, "grant_removed", GRANT)

    def dispatch(self, kind=StepKind.DRAIN):
        return dispatched(self.store, self.record, kind)

    def move(self, to, by=By.USER):
        record = self.store.get(self.record.id)
        save(self.store, record, move(record, to, by, self.store.now(), "x"))

    # -- what happens meanwhile
    def nothing(self):
        pass

    def lease_is_over(self):
        assert self.store.renew(self.mine, -1)

    def taken_over(self):
        self.lease_is_over()
        self.dispatch()
        assert self.store.claim(self.step.id, "successor", 60)

    def handed_out_again(self):
        self.lease_is_over()
        self.dispatch()

    def finished(self):
        assert self.store.finish(self.mine, StepResult(Outcome.CLEAR, message="done"))

    def given_back(self):
        assert self.store.release_claim(self.mine)

    def cancelled(self):
        self.move(Status.CANCELLING)

    def ended(self):
        self.lease_is_over()
        self.move(Status.CANCELLING)
        self.move(Status.CANCELLED, By.ENGINE)

    def begun_anew(self):
        self.lease_is_over()
        self.move(Status.FAILED, By.ENGINE)
        self.move(Status.ACCEPTED)

    def gone(self):
        with self.store.database.engine.begin() as connection:
            connection.execute(tables.steps.delete().where(tables.steps.c.id == self.mine.id))

    def protected(self):
        """A lien: nothing is locked or deleted any more, but results of earlier calls are recorded."""
        self.store.add_lien(Lien(str(uuid.uuid4()), self.record.project_id, "ops", "x", self.store.now()))

    def braked(self):
        assert self.store.set_brake(Brake(True, "x")).on

    def everything(self):
        """Return all rows except the shares of the rate limits."""
        with self.store.database.engine.connect() as connection:
            names = ("deletions", "steps", "leftovers", "changes", "events")
            return {name: connection.execute(sa.select(tables.metadata.tables[name])).all() for name in names}


#: The writes of a worker with a claimed step: the method, and its result when it is refused.
BY_FENCE = {
    "renew": lambda s: s.store.renew(s.mine, 60),
    "finish": lambda s: s.store.finish(s.mine, DONE, [EVENT], [s.change]),
    "release_claim": lambda s: s.store.release_claim(s.mine),
    "put_steps": lambda s: s.store.put_steps(s.mine, [Step("", s.record.id, StepKind.SWEEP, "R", "network", "port")]),
    "append_events": lambda s: s.store.append_events(s.mine, EVENT),
    "record_intent": lambda s: s.store.record_intent(s.mine, "project_disabled", {}) is not None,
    "undone": lambda s: s.store.undone(s.mine, s.change, EVENT),
}
#: Records before or after a write call: only with a lease, and while the status of the deletion allows it.
BEFORE_CALLS = {"append_events", "record_intent", "undone"}
#: The events meanwhile, and which writes are allowed afterwards.
MEANWHILE = {
    "nothing": set(BY_FENCE),
    "lease_is_over": set(BY_FENCE) - BEFORE_CALLS,
    "cancelled": set(BY_FENCE) - BEFORE_CALLS,
    "protected": set(BY_FENCE) - {"append_events", "record_intent"},
    "braked": set(BY_FENCE) - {"append_events", "record_intent"},
    "taken_over": set(),
    "handed_out_again": set(),
    "finished": set(),
    "given_back": set(),
    "ended": set(),
    "begun_anew": set(),
    "gone": set(),
}


@pytest.mark.parametrize("method", BY_FENCE)
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_a_worker_without_the_claim_of_the_step_writes_nothing(store, method, meanwhile):
    scene = Scene(store)
    getattr(scene, meanwhile)()
    before = scene.everything()
    may = method in MEANWHILE[meanwhile]
    assert bool(BY_FENCE[method](scene)) is may
    if not may:
        assert _without_versions(scene.everything()) == _without_versions(before)


def _without_versions(rows):
    """The version of a deletion may grow all the same: an engine has to decide again, on the same facts."""
    return {name: [{**row._mapping, "version": 0} for row in each] for name, each in rows.items()}


def claimed_twice(scene):
    scene.given_back()
    assert scene.store.claim(scene.step.id, "one", 60)
    assert scene.store.claim(scene.step.id, "another", 60) is None


def claimed_of_another_attempt(scene):
    scene.given_back()
    scene.move(Status.CANCELLING)
    assert scene.store.claim(scene.step.id, "zombie", 60) is None


def saved_with_an_old_version(scene):
    old = scene.store.get(scene.record.id)
    save(scene.store, old, old)
    with pytest.raises(Conflict):
        save(scene.store, old, dataclasses.replace(old, message="of a zombie"), events=[EVENT])


def saved_with_an_old_step(scene):
    record, steps, _ = scene.store.load(scene.record.id)
    assert scene.store.renew(scene.mine, 60)
    step = next(s for s in steps if s.id == scene.mine.id)
    with pytest.raises(Conflict):
        save(scene.store, record, record, [dataclasses.replace(step, state=StepState.IDLE)], [EVENT])
    assert scene.store.get(scene.record.id).version == record.version


def decided_with_an_old_step(scene, number=1):
    """The deletion is locked during a decision, and its steps are not: a worker may renew its lease."""
    record = scene.store.get(scene.record.id)

    def overtaken(deletion, steps, now):
        old = [dataclasses.replace(each, message="of a zombie", version=each.version - 1) for each in steps[:number]]
        return Applied(deletion, tuple(old), (EVENT,), (), decide_again=False)

    with pytest.raises(Conflict):
        scene.store.decide(record.id, overtaken)
    assert scene.store.get(record.id).version == record.version


def decided_with_old_steps(scene):
    """Steps that change in the same way are written in one statement."""
    decided_with_an_old_step(scene, 3)


def saved_after_a_result(scene):
    """After the result of a worker every decision that was made without it conflicts."""
    record = scene.store.get(scene.record.id)
    scene.finished()
    with pytest.raises(Conflict):
        save(scene.store, record, dataclasses.replace(record, message="of a zombie"))


def saved_after_an_intent(scene):
    record = scene.store.get(scene.record.id)
    assert scene.store.record_intent(scene.mine, "project_disabled", {})
    with pytest.raises(Conflict):
        save(scene.store, record, dataclasses.replace(record, message="of a zombie"))


def proposed_for_another_domain(scene):
    """The policy was checked for the deletion as it was."""
    scene.given_back()
    record = scene.store.get(scene.record.id)
    for changed in ({"domain_id": "another"}, {"project_name": "another"}):
        seen = dataclasses.replace(record, **changed)
        with pytest.raises(Refused) as refused:
            scene.store.propose(Stop(by=Requester("of a zombie"), seen=seen))
        assert refused.value.code == "conflict"
    assert scene.store.get(record.id) == record


def proposed_twice(scene):
    """Each proposal is answered on the deletion as the one before left it."""
    stop = Stop(by=Requester("user"), seen=scene.store.get(scene.record.id))
    assert scene.store.propose(stop).applied.deletion.status is Status.CANCELLING
    again = dataclasses.replace(stop, by=Requester("of a zombie"))
    with pytest.raises(Refused) as refused:
        scene.store.propose(again)
    assert refused.value.code == "not_cancellable"


def created_twice(scene):
    again = deletion(id=str(uuid.uuid4()))
    with pytest.raises(AlreadyUnderWay):
        scene.store.create(again, TASKS, EVENT)
    with pytest.raises(AlreadyUnderWay):
        scene.store.create_all([(deletion(id="x", project_id="another"), EVENT), (again, EVENT)], TASKS)
    assert scene.store.live("another") is None, "all of them or none"


def requested_again_twice(scene):
    """The first admin's line counts, and what was decided before it is not saved."""
    old = scene.store.get(scene.record.id)
    admin = Event("deletion.accepted", "requested again", "admin", {BY_ADMIN: True})
    for _ in range(2):
        assert scene.store.create_all((), TASKS, again=[(old, admin)]) == ()
    assert [row.event for row in scene.store.events(old.id, 10) if row.event.data.get(BY_ADMIN)] == [admin]
    with pytest.raises(Conflict):
        save(scene.store, old, dataclasses.replace(old, message="of a zombie"))


def requested_again_after_a_cancel(scene):
    """All of the request or nothing."""
    scene.cancelled()
    before = scene.everything()
    wanted = [(deletion(id=str(uuid.uuid4()), project_id="another"), EVENT)]
    with pytest.raises(Conflict):
        scene.store.create_all(wanted, TASKS, again=[(scene.record, EVENT)])
    assert scene.everything() == before


def asked_with_an_old_lease(scene):
    """Shares of the rate limits: each has a separate lease, which ends by the time of the database."""
    ask = rate_limits.Request("zombie", rate_limits.Limits(0, 1, 0), calls=1, wanted=1)
    scene.store.acquire_permits("network", "R", ask)
    ago = scene.store.now() - datetime.timedelta(hours=1)
    with scene.store.database.engine.begin() as connection:
        connection.execute(tables.rate_limit_leases.update().values(until=ago))
    other = dataclasses.replace(ask, holder="other")
    assert scene.store.acquire_permits("network", "R", other).slots == 1
    assert scene.store.acquire_permits("network", "R", ask).slots == 0


def paused_for_shorter(scene):
    for seconds in (100, 1):
        scene.store.pause_calls("network", "R", seconds)
    with scene.store.database.engine.connect() as connection:
        of_network = sa.select(tables.rate_limits.c.paused_until).where(tables.rate_limits.c.service == "network")
        until = connection.execute(of_network).scalar_one()
    assert until > scene.store.now() + datetime.timedelta(seconds=50)


def withdrawn_twice(scene):
    """No decision depends on the version of a waiver: it is in force or not. The first withdrawal counts."""
    now = scene.store.now()
    made = Waiver(str(uuid.uuid4()), "dns", "gone", now, now + datetime.timedelta(days=1))
    assert scene.store.add_waiver(made).deleted_at is None
    first = scene.store.withdraw_waiver(made.id, "one")
    assert scene.store.withdraw_waiver(made.id, "another") == first
    assert first.deleted_by == "one"


def removed_twice(scene):
    """As with waivers: the first removal of a lien counts."""
    made = Lien(str(uuid.uuid4()), "p", "ops", "x", scene.store.now())
    assert scene.store.add_lien(made).deleted_at is None
    first = scene.store.remove_lien(made.id, "one")
    assert scene.store.remove_lien(made.id, "another") == first
    assert first.deleted_by == "one"


def braked_twice(scene):
    """The first change of the brake counts; an engine that decided without it has to decide again."""
    record = scene.store.get(scene.record.id)
    first = scene.store.set_brake(Brake(True, "first", user_id="one"))
    assert scene.store.set_brake(Brake(True, "second", user_id="another")) == first
    assert first.user_id == "one"
    with pytest.raises(Conflict):
        save(scene.store, record, dataclasses.replace(record, message="of a zombie"))
    lifted = scene.store.set_brake(Brake(False, "first", user_id="another"))
    assert scene.store.set_brake(Brake(False, "first", user_id="one")) == lifted


# ------------------------------------------------------------------------------------------------- orphan scans
class ScanScene:
    """A step of an orphan scan that a worker has claimed, and the events that happen meanwhile."""

    def __init__(self, store, read=1):
        self.store = store
        self.scan = orphaned.begin(store)
        if read == 2:
            step = orphaned.claim(store, self.scan.id, "port", 1)
            assert store.note_orphans(step, [orphaned.port("p1")])
            assert store.finish(step, orphaned.clear(step))
        self.mine = orphaned.claim(store, self.scan.id, "port", read, "zombie")

    def nothing(self):
        pass

    def taken_over(self):
        orphaned.claim(self.store, self.scan.id, "port", self.mine.round, "successor")

    def handed_out_again(self):
        orphaned.dispatch(self.store, self.scan.id, self.mine.id)

    def finished(self):
        assert self.store.finish(self.mine, orphaned.clear(self.mine))

    def given_back(self):
        assert self.store.release_claim(self.mine)

    def cancelled(self):
        self.store.cancel_orphan_scan(self.scan.id, "cancelled")

    def ended(self):
        orphaned.move(self.store, self.scan.id, ScanStatus.INCOMPLETE)

    def everything(self):
        with self.store.database.engine.connect() as connection:
            names = ("orphan_scans", "steps", "orphans")
            return {name: connection.execute(sa.select(tables.metadata.tables[name])).all() for name in names}


#: The writes of a worker with a claimed step of a scan.
BY_SCAN = {
    "renew": lambda s: s.store.renew(s.mine, 60),
    "release_claim": lambda s: s.store.release_claim(s.mine),
    "put_scan_steps": lambda s: s.store.put_scan_steps(
        s.mine, [Step("x", s.scan.id, StepKind.SCAN, "R", "dns", "zone")], []
    ),
    "note_orphans": lambda s: s.store.note_orphans(s.mine, [orphaned.port("of a zombie")]),
    "see_orphans_again": lambda s: s.store.see_orphans_again(s.mine, [orphaned.port("p1")]),
    "finish": lambda s: s.store.finish(s.mine, orphaned.clear(s.mine)),
}


@pytest.mark.parametrize("method", BY_SCAN)
@pytest.mark.parametrize(
    "meanwhile", ["nothing", "taken_over", "handed_out_again", "finished", "given_back", "cancelled", "ended"]
)
def test_a_worker_without_the_claim_of_the_scan_step_writes_nothing(store, method, meanwhile):
    scene = ScanScene(store, read=2 if method == "see_orphans_again" else 1)
    getattr(scene, meanwhile)()
    before = scene.everything()
    assert BY_SCAN[method](scene) is (meanwhile == "nothing")
    if meanwhile != "nothing":
        assert scene.everything() == before


def a_scan_begun_twice(store):
    scan = orphaned.begin(store)
    with pytest.raises(ScanUnderWay) as other:
        orphaned.begin(store)
    assert other.value.scan_id == scan.id
    store.cancel_orphan_scan(scan.id, "x")
    fresh = dataclasses.replace(scan, id=str(uuid.uuid4()), status=ScanStatus.ACCEPTED)
    assert store.create_orphan_scan(fresh, datetime.timedelta(hours=1)) is None, "it is too early for another one"
    assert store.create_orphan_scan(fresh, datetime.timedelta(0)).id == fresh.id
    assert store.create_orphan_scan(fresh).id == fresh.id, "saved before, and the answer was lost"


def a_scan_decided_with_an_old_step(store, number=1):
    """The scan is locked during a decision, and its steps are not: a worker may renew its lease."""
    scene = ScanScene(store)

    def overtaken(scan, steps, now):
        old = [dataclasses.replace(each, message="of a zombie", version=each.version - 1) for each in steps[:number]]
        return Advance(dataclasses.replace(scan, message="of a zombie"), tuple(old))

    before = scene.everything()
    with pytest.raises(Conflict):
        store.decide_orphan_scan(scene.scan.id, overtaken)
    assert scene.everything() == before


def a_scan_decided_with_old_steps(store):
    a_scan_decided_with_an_old_step(store, 3)


def a_scan_step_claimed_twice(store):
    scene = ScanScene(store)
    scene.given_back()
    assert store.claim(scene.mine.id, "one", 60)
    assert store.claim(scene.mine.id, "another", 60) is None
    scene.cancelled()
    assert store.claim(scene.mine.id, "one", 60) is None


def a_scan_cancelled_twice(store):
    """The first end counts; resources that were not seen twice are removed."""
    scene = ScanScene(store, read=2)
    first = store.cancel_orphan_scan(scene.scan.id, "by one")
    assert store.cancel_orphan_scan(scene.scan.id, "by another") == first
    assert scene.everything()["orphans"] == []


def a_service_asked_twice(scene):
    """The last answer counts. It leaves the last document on record."""
    answer = ProtocolService("R", "vendor", "http://vendor", Spoken.DOCUMENT, document={"types": []}, digest="1")
    scene.store.save_protocol_service(answer)
    silent = dataclasses.replace(answer, spoken=Spoken.SILENT, document=None, digest="", error="no answer")
    scene.store.save_protocol_service(silent)
    (row,), _now = scene.store.protocol_services("R")
    assert (row.spoken, row.document, row.digest) == (Spoken.SILENT, {"types": []}, "1")


def noted_of_a_deletion_that_is_gone(scene):
    """A notice can outlast the record of its deletion."""
    before = scene.everything()
    scene.store.note(str(uuid.uuid4()), EVENT)
    assert scene.everything() == before


#: All other writes, and what is refused.
OTHERS = {
    "claim": (claimed_twice, claimed_of_another_attempt),
    "decide": (
        *(saved_with_an_old_version, saved_with_an_old_step, saved_after_a_result, saved_after_an_intent),
        *(decided_with_an_old_step, decided_with_old_steps),
    ),
    "propose": (proposed_for_another_domain, proposed_twice),
    "create": (created_twice,),
    "create_all": (created_twice, requested_again_twice, requested_again_after_a_cancel),
    "acquire_permits": (asked_with_an_old_lease,),
    "pause_calls": (paused_for_shorter,),
    "add_lien": (removed_twice,),
    "remove_lien": (removed_twice,),
    "set_brake": (braked_twice,),
    "add_waiver": (withdrawn_twice,),
    "withdraw_waiver": (withdrawn_twice,),
    "save_protocol_service": (a_service_asked_twice,),
    "note": (noted_of_a_deletion_that_is_gone,),
}
OF_SCANS = {
    "create_orphan_scan": (a_scan_begun_twice,),
    "decide_orphan_scan": (a_scan_decided_with_an_old_step, a_scan_decided_with_old_steps),
    "claim": (a_scan_step_claimed_twice,),
    "cancel_orphan_scan": (a_scan_cancelled_twice,),
}


@pytest.mark.parametrize("check", [each for checks in OF_SCANS.values() for each in checks], ids=lambda c: c.__name__)
def test_a_write_based_on_an_old_version_of_a_scan_conflicts(store, check):
    check(store)


@pytest.mark.parametrize(
    "check", dict.fromkeys(c for checks in OTHERS.values() for c in checks), ids=lambda c: c.__name__
)
def test_a_write_based_on_an_old_version_of_a_deletion_conflicts(store, check):
    check(Scene(store))
    text = "of a zombie"
    assert text not in {e.event.message for e in store.events(store.live("p").id, 100)}


def test_the_tables_above_have_every_method_of_the_store_that_writes(store):
    """A new method has to declare here what it refuses."""
    writing = {"insert", "update", "delete", "write_journal", "replace_leftovers", "save_rate_limit", "add", "end"}
    writing |= {"_write_deletion", "_write_part", "_update_step"}

    def writes(method):
        """Whether a method writes, itself or in a private method of its repository."""
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(method.__func__))))
        called = {getattr(n.func, "attr", getattr(n.func, "id", "")) for n in ast.walk(tree) if isinstance(n, ast.Call)}
        built = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr.startswith("UPDATE_")}
        inner = (getattr(method.__self__, name, None) for name in called if name != method.__name__)
        return bool(built or called & writing) or any(
            writes(each) for each in inner if getattr(each, "__self__", None) is method.__self__
        )

    methods = {name: each for name, each in vars(store).items() if isinstance(getattr(each, "__self__", 0), Repository)}
    assert {name for name, each in methods.items() if writes(each)} == {*BY_FENCE, *OTHERS, *BY_SCAN, *OF_SCANS}


# -------------------------------------------------------------------------------------------------- whose clock counts
#: Where the wall clock of this host is read, and why that is no comparison with another host of the orchestrator.
OWN_CLOCK = {
    "monitoring/metrics.py": "when this host was started, by its own clock: a figure, and nothing is decided by it",
    "cloud/session.py": "a Retry-After with a date, from a service that sends no Date of its own",
    "plugins/verdicts.py": "how long a state has not changed: a fast clock resets sooner what goes anyway",
    "plugins/orchestration/stacks.py": "how long a stack has been deleting: who is fast asks for it once more",
    "plugins/identity.py": "a trust that Keystone lists although it has expired: it goes with the project either way",
    "plugins/reservation.py": "which leases begin soon: earlier by far more than the clocks of hosts differ",
    "keystone/guard.py": "the least serial of a fence: a serial grows by one at least, whatever the clock says",
    "notices/webhook.py": "when a webhook was signed: its receiver compares that with its own clock",
    "cmd/plugin_live.py": "a time of creation in the future: with a margin for clocks, and only a finding of a check",
    "cmd/cloud_check.py": "whether the clock of the database agrees with that of this host: a finding of a check",
    "cmd/cloud_check_keystone.py": "a project that a check left an hour ago: it is empty, and has that check's fence",
    "cmd/cloud_check_services.py": "whether the clocks of services agree with that of this host: a finding of a check",
}


def test_no_host_compares_its_clock_with_that_of_another_host():
    """The code compares times of the database, or durations on this host, which are monotonic."""
    day = {"now", "utcnow", "today", "fromtimestamp", "time", "gmtime", "localtime"}
    found = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            owner, _, method = name.rpartition(".")
            if method in day and owner.rpartition(".")[2] in ("time", "datetime", "date"):
                found.add(str(path.relative_to(SOURCES)))
    # The commands and the panels show times to people. Nothing is decided by them.
    assert {name for name in found if not name.startswith(("osc/", "dashboard/"))} == set(OWN_CLOCK)
