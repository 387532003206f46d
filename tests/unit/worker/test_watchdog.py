"""A plugin that hangs, raises anything or answers nonsense stops one step, with a word on the record; others go on."""

import copy
import dataclasses
import datetime
import functools
import gc
import itertools
import sys
import threading
import types
import uuid

import pytest
from oslo_config import cfg

from cleanup_orchestrator import opts, service
from cleanup_orchestrator.cloud import session as cloud_session
from cleanup_orchestrator.cloud.session import GuardedSession
from cleanup_orchestrator.core import actions
from cleanup_orchestrator.core.deletion import RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import TASKS, Outcome, Step, StepKind, StepState
from cleanup_orchestrator.errors import Stopped
from cleanup_orchestrator.monitoring import health, metrics
from cleanup_orchestrator.plugins.base import ResourceType, Service, Verdict
from cleanup_orchestrator.plugins.registry import Registry
from cleanup_orchestrator.worker import guard, task, watchdog, worker
from cleanup_orchestrator.worker.context import WorkerContext
from cleanup_orchestrator.worker.sweep import calls, deleting
from cleanup_orchestrator.worker.worker import Worker
from tests.support import orphaned, scheduler, sqlite_stores, timing
from tests.support.stores import save
from tests.support.virtual_time import virtual_time
from tests.unit.world import deletion

ROW = {"id": "1", "name": "one", "project_id": "p"}


def ours(_connection, project):
    """List one resource, the project's."""
    return [{**ROW, "project_id": project.id}]


class Clouds:
    """A cloud without any service: what a plugin's hooks do with their sessions is the test's."""

    def __init__(self):
        self.made = lambda _: None
        self.forgotten = []

    def rate_limited(self, _budget):
        return self

    def observed_by(self, made):
        seen = copy.copy(self)
        seen.made = made
        return seen

    def admin_session(self, guard):
        session = GuardedSession(guard)
        self.made(session)
        return session

    def connection(self, session, _region):
        return types.SimpleNamespace(session=session)

    def forget(self, project_id):
        self.forgotten.append(project_id)

    def identity(self, session):
        return session

    def project_id(self):
        return "own"


@functools.cache
def configuration():
    """Return all options with their defaults; a test sets its own ones over them."""
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([])
    return conf


class Site:
    """A worker in virtual time, and deletions whose sweeps it is given."""

    def __init__(self, time, store):
        self.time, self.store = time, store
        self.conf = configuration()
        self.set(step_timeout=1.0)
        self.announced, self.types = [], {}
        self.bus = types.SimpleNamespace(decide=self.announced.append, steps=lambda _: None)
        self.go = scheduler.Event()  #: lets every hook go on that waits for it
        self.clouds = Clouds()

    def set(self, **values):
        for name, value in values.items():
            self.conf.set_override(name, value, group="worker")

    def is_abandoned(self):
        """Let every thread that hangs end."""
        self.go.set()
        self.time.until(lambda: not self.worker.hung)

    def close(self):
        self.is_abandoned()
        for name in ("step_timeout", "step_limit", "lease", "threads", "parallel_deletes", "most_listed"):
            self.conf.clear_override(name, group="worker")

    def with_types(self, *types_):
        """Have a plugin with these types."""
        made = Registry([Service("network", types_)])
        self.worker = Worker(WorkerContext(self.conf, "w", self.store, self.clouds, made, None, self.bus))
        return self

    def with_hooks(self, **hooks):
        """Have a plugin whose type `port` has these hooks, and an ordinary type `router`."""
        hooks = {"list": ours, "delete": lambda *_: None, "why_no_show": "in memory", **hooks}
        router = ResourceType("router", list=lambda *_: [], delete=lambda *_: None, why_no_show="in memory")
        return self.with_types(ResourceType("port", **hooks), router)

    def hang(self, *_):
        """Be a hook that hangs."""
        self.go.wait()
        return []

    def record(self, purpose=RoundPurpose.DELETE):
        """Record a deletion in a round with this purpose."""
        some = deletion(id=str(uuid.uuid4()), project_id=f"p{uuid.uuid4().hex}")
        made = self.store.create(some, TASKS, Event("deletion.accepted", "x"))
        _, survey = self.store.claim(self.dispatch(made, StepKind.SURVEY).id, "w", 60)
        wanted = [Step("", made.id, StepKind.SWEEP, "R1", "network", name) for name in ("port", "router")]
        assert self.store.put_steps(survey, wanted)
        assert self.store.release_claim(survey)
        before = self.store.get(made.id)
        status = Status.INVENTORY if purpose is RoundPurpose.INVENTORY else Status.DELETING
        return save(self.store, before, dataclasses.replace(before, status=status, purpose=purpose))

    def dispatch(self, made, kind, type_=""):
        record, steps, now = self.store.load(made.id)
        step = next(s for s in steps if s.kind is kind and s.type == type_)
        applied = actions.apply(record, steps, (actions.Dispatch(step.id),), now)
        save(self.store, record, applied.deletion, applied.steps)
        return applied.steps[0]

    def sweep(self, made, type_="port"):
        """Have the worker do a sweep; return what the record has of it then."""
        return self.time.call(self.handle, made, type_)

    def handle(self, made, type_="port"):
        """Do the same in the present thread."""
        step = self.dispatch(made, StepKind.SWEEP, type_)
        self.worker.handle(step.id)
        return self.step(made, type_)

    def step(self, made, type_="port"):
        return next(s for s in self.store.steps(made.id) if s.type == type_)

    def lines(self, made, type_):
        return [row.event for row in self.store.events(made.id, 1000, type=type_)]


@pytest.fixture
def time():
    with virtual_time(cloud_session, watchdog, deleting, worker, guard, task) as made:
        yield made


@pytest.fixture
def site(time):
    made = Site(time, sqlite_stores.in_memory())
    yield made
    made.close()


# --------------------------------------------------------------------------------------------------------- it hangs
@pytest.mark.parametrize("hook", ["list", "available", "show", "delete", "prepare", "keep", "protect", "describe"])
def test_a_hook_that_never_returns_costs_its_step_and_no_thread_of_the_pool(site, hook):
    one_of_many = hook in ("prepare", "keep", "protect")
    site.with_hooks(**{hook: (site.hang,) if one_of_many else site.hang})
    made = site.record(RoundPurpose.INVENTORY if hook == "describe" else RoundPurpose.DELETE)
    step = site.sweep(made)
    assert (step.state, step.outcome, step.reason) == (StepState.DONE, Outcome.UNKNOWN, Reason.TIMED_OUT)
    assert step.message == "port of network in region R1: no sign of life for 1 seconds"
    assert site.announced == [made.id]
    assert len(site.worker.hung) == metrics.HUNG._value.get() == 1
    assert site.sweep(made, "router").outcome is Outcome.CLEAR


def test_a_step_of_an_orphan_scan_that_hangs_counts_as_any_other(site):
    site.with_hooks(all_projects=site.hang)
    scan = orphaned.begin(site.store)
    (step,) = (each for each in site.store.orphan_scan(scan.id)[1] if each.type == "port")
    for number in (1, 2):
        orphaned.dispatch(site.store, scan.id, step.id, round=1, attempt=number)
        site.time.call(site.worker.handle, step.id)
    (after,) = (each for each in site.store.orphan_scan(scan.id)[1] if each.type == "port")
    assert (after.state, after.outcome, after.reason) == (StepState.DONE, Outcome.UNKNOWN, Reason.TIMED_OUT)
    assert after.message.startswith("network.port@R1 hangs since "), "it is not started a second time"
    assert len(site.worker.hung) == 1
    assert site.announced == [scan.id] * 2


class RealThreads:
    """Threads of the operating system, given up as soon as a hook hangs: a wait for their end moves a clock instead."""

    def __init__(self):
        self.now = 0.0
        self.hangs, self.gate = threading.Lock(), threading.Lock()  #: released where a hook hangs, and to let it go on
        self.hangs.acquire()
        self.gate.acquire()

    def block(self, *_):
        """Be a hook that hangs. A lock is no Python code: this function is where its thread is found."""
        self.hangs.release()
        self.gate.acquire()
        return []

    def monotonic(self):
        return self.now

    def event(self):
        made = threading.Event()

        def wait(seconds):
            assert self.hangs.acquire(timeout=60)
            self.hangs.release()
            self.now += seconds
            return False

        made.wait = wait
        return made

    def call(self, function, *args):
        return function(*args)

    def until(self, condition):
        timing.wait("the thread's end", condition, pause=0.005)


@pytest.fixture
def real_threads(monkeypatch):
    made = RealThreads()
    names = {name: getattr(threading, name) for name in ("Thread", "Lock", "current_thread")}
    for module in (watchdog, task):
        monkeypatch.setattr(module, "threading", types.SimpleNamespace(**names, Event=made.event))
    for module in (watchdog, task, cloud_session):
        monkeypatch.setattr(module, "time", made)
    return made


def test_the_journal_and_the_log_name_the_place_where_a_step_hangs(real_threads, tmp_path, caplog):
    site = Site(real_threads, sqlite_stores.in_file(tmp_path / "hung.sqlite"))
    made = site.with_hooks(list=real_threads.block).record()
    site.sweep(made)
    (line,) = site.lines(made, "sweep.unknown")
    assert (line.data["type"], line.data["region"], line.data["reason"]) == ("port", "R1", "timed_out")
    (said,) = [r.getMessage() for r in caplog.records if "given up" in r.getMessage()]
    assert said.startswith("network.port@R1: given up: no sign of life for 1 seconds; its thread is at ")
    assert said.endswith("(block)") and "test_watchdog.py:" in said
    (thread,) = site.worker.hung._threads
    real_threads.gate.release()
    site.close()
    thread.join(60)
    ended = [r.getMessage().split(",")[0] for r in caplog.records if "has ended" in r.getMessage()]
    assert ended == ["network.port@R1: its thread has ended"]
    assert metrics.HUNG._value.get() == 0
    site.store.close()


def test_a_thread_that_was_given_up_writes_nothing_reads_nothing_and_saves_nothing(site):
    tried = []

    def hang(connection, project, _resource):
        site.go.wait()
        for call in (connection.session.get, connection.session.delete, connection.session.put):
            with pytest.raises(Stopped):
                call("http://127.0.0.1:1/", authenticated=False)
            tried.append(call.__name__)

    made = site.with_hooks(delete=hang).record()
    before = site.sweep(made)
    intents = len(site.lines(made, "resource.deleting"))
    journal = len(site.store.events(made.id, 1000))
    site.is_abandoned()
    assert tried == ["get", "delete", "put"]
    assert site.step(made) == before
    assert len(site.store.events(made.id, 1000)) == journal
    assert intents == 1


def test_it_is_tried_again_with_backoff_like_any_other_unknown(site):
    made = site.with_hooks(list=site.hang).record()
    first = site.sweep(made)
    site.is_abandoned()
    second = site.sweep(made)
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.outcome is Outcome.CLEAR


def test_a_step_whose_calls_return_does_not_count_as_hung(site):
    def slowly(connection, project):
        for number in range(12):
            site.time.simulation.sleep(0.4)
            connection.session.sign()
            yield {**ROW, "id": str(number), "project_id": project.id}

    site.set(step_timeout=3.0)
    step = site.sweep(site.with_hooks(list=slowly).record(RoundPurpose.INVENTORY))
    assert (step.reason, step.found) == (Reason.PRESENT, 12)
    assert step.finished_at - step.started_at == datetime.timedelta(seconds=4.8)


def test_one_that_asks_for_ever_is_given_up_however_busy_it_is(site):
    site.set(step_limit=1.5)

    def polling(connection, _project):
        while not site.go.wait(0.05):
            connection.session.sign()
        return []

    step = site.sweep(site.with_hooks(list=polling).record())
    assert step.reason == Reason.TIMED_OUT
    assert step.message.endswith("not over after 2 seconds")


def test_the_limits_may_change_while_a_step_is_under_way(site):
    site.set(step_timeout=60.0, lease=5)
    site.with_hooks(list=site.hang)
    made = site.record()

    def change():
        site.time.simulation.sleep(0.5)
        site.set(step_timeout=1.0)

    site.time.start(change)
    assert site.sweep(made).reason == Reason.TIMED_OUT
    assert site.time.now == pytest.approx(5 / 3), "the options are read again at each renewal of the lease"


def test_a_write_call_that_is_under_way_is_waited_for(site):
    """It may still take effect: who does the step anew meanwhile, or cancels, would be overtaken by it."""
    ended = []

    def writing(connection, _project, _resource):
        with connection.session.under_way():
            site.time.simulation.sleep(2.5)
            ended.append(site.step(made).state)
        site.go.wait()

    site.set(lease=30)
    made = site.with_hooks(delete=writing).record()
    assert site.sweep(made).reason == Reason.TIMED_OUT
    assert ended == [StepState.RUNNING]


def test_a_write_call_that_does_not_end_is_waited_for_two_thirds_of_a_lease(site):
    def writing(connection, _project, _resource):
        with connection.session.under_way():
            site.go.wait()

    site.set(lease=30)
    made = site.with_hooks(delete=writing).record()
    assert site.sweep(made).reason == Reason.TIMED_OUT
    assert site.time.now == pytest.approx(1 + 20, abs=0.2)


def test_a_write_call_that_does_not_end_is_waited_for_under_a_new_lease(site, monkeypatch):
    """Otherwise the lease may end with the wait, and another worker would repeat the call meanwhile."""
    real, renewed = site.store.renew, []
    monkeypatch.setattr(site.store, "renew", lambda *args: renewed.append(site.time.now) or real(*args))

    def writing(connection, _project, _resource):
        with connection.session.under_way():
            site.go.wait()

    site.set(lease=30, step_timeout=9)
    assert site.sweep(site.with_hooks(delete=writing).record()).reason == Reason.TIMED_OUT
    assert renewed == [pytest.approx(9, abs=0.5)]


def test_the_tokens_that_it_may_hold_are_not_waited_for(site):
    made = site.with_hooks(list=site.hang).record()
    site.sweep(made)
    assert site.clouds.forgotten == [made.project_id]


# ------------------------------------------------------------------------------------------------ again and again
def test_a_step_that_hangs_is_not_begun_again_in_the_same_process(site):
    begun = []
    site.with_hooks(list=lambda *_: begun.append(1) or site.hang())
    made = site.record()
    site.sweep(made)
    for _ in range(20):
        again = site.sweep(made)
        assert again.reason == Reason.TIMED_OUT
        assert again.message.startswith("network.port@R1 hangs since")
    assert (len(begun), len(site.worker.hung)) == (1, 1)


def test_others_of_a_type_that_hangs_are_tried_one_at_a_time(site):
    slow, begun = scheduler.Event(), []

    def by_project(_connection, project):
        if project.id == bad.project_id:
            return site.hang()
        begun.append(project.id)
        slow.wait()
        return []

    site.with_hooks(list=by_project)
    bad, first, second = (site.record() for _ in range(3))
    site.sweep(bad)
    site.set(step_timeout=60.0)
    trying = site.time.start(lambda: site.handle(first))
    site.time.until(lambda: begun == [first.project_id])
    put_off = site.sweep(second)
    assert (put_off.outcome, put_off.reason) == (Outcome.UNKNOWN, Reason.TIMED_OUT)
    assert "one at a time" in put_off.message
    assert site.sweep(second, "router").outcome is Outcome.CLEAR
    slow.set()
    site.time.finish(trying)
    assert site.step(first).outcome is Outcome.CLEAR
    assert site.sweep(second).outcome is Outcome.CLEAR


def test_one_plugin_that_always_hangs_does_not_keep_the_others_waiting(site):
    """Three threads, twenty projects, in each of them a step that hangs for ever: the others come to their end."""
    site.with_hooks(list=site.hang)
    records = [site.record() for _ in range(20)]
    todo = [site.dispatch(made, StepKind.SWEEP, type_) for made in records for type_ in ("port", "router")]

    def work():
        while todo:
            site.worker.handle(todo.pop(0).id)

    site.time.run(*[work] * 3)
    assert {site.step(made, "router").outcome for made in records} == {Outcome.CLEAR}
    assert {site.step(made).reason for made in records} == {Reason.TIMED_OUT}
    # The first three at once, and one more when the first of them is given up; meanwhile all others are put off.
    assert len(site.worker.hung) <= 4
    assert site.time.now == pytest.approx(2)


def test_a_worker_in_which_more_threads_hang_than_it_has_is_not_sound(site):
    site.set(threads=1)
    site.with_hooks(list=site.hang)
    check = health.Health([health.Part("steps", site.worker.sound, needed=True)], keep=0)
    site.sweep(site.record())
    assert check.results()[0].ok
    site.sweep(site.record())
    (result,) = check.results()
    assert (str(result), result.message) == ("steps unavailable", "2 threads hang: restart it")
    site.is_abandoned()
    assert check.results()[0].ok


def test_the_threads_in_which_a_step_makes_its_calls_hang_with_it(site, monkeypatch):
    """A worker would otherwise keep nine threads for each step that hangs, and count as healthy."""

    def delete(connection, _project, _resource):
        connection.session.count()
        site.hang()

    rows = lambda _c, project: [{**ROW, "id": str(n), "project_id": project.id} for n in range(4)]  # noqa: E731
    monkeypatch.setattr(deleting, "concurrent", scheduler.Concurrent)
    site.set(threads=4, parallel_deletes=4)
    site.with_hooks(list=rows, delete=delete)
    made = site.record()
    assert site.sweep(made).reason == Reason.TIMED_OUT
    assert len(site.worker.hung) == metrics.HUNG._value.get() == 5
    with pytest.raises(health.Unfit, match="5 threads hang"):
        site.worker.sound()
    site.is_abandoned()
    site.worker.sound()
    assert metrics.HUNG._value.get() == 0


def test_a_process_in_which_a_thread_hangs_ends_all_the_same(site):
    """Python would wait for it at the end, for ever: the process is told that not everything has ended, and exits."""
    ended = []
    store = types.SimpleNamespace(close=lambda: ended.append("store"))
    running = service.Running(types.SimpleNamespace(conf=site.conf, store=store, announcer=None))
    running._workers.append(site.with_hooks(list=site.hang).worker)
    site.sweep(site.record())
    assert not running.close()
    site.is_abandoned()
    assert running.close()
    assert ended == ["store"]


# ---------------------------------------------------------------------------------------------------- it raises
def deeper(number):
    return deeper(number + 1)


def recursing(*_):
    """Not by calling itself: Python 3.13.0 ends no endless recursion of a function with ``*``."""
    return deeper(0)


class Odd(BaseException):
    """Of no family."""


class Mute(Exception):
    def __str__(self):
        raise ValueError("it cannot even say what is wrong")


RAISED = {
    "SystemExit": SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "GeneratorExit": GeneratorExit(),
    "MemoryError": MemoryError(),
    "StopIteration": StopIteration(),
    "an error that cannot be printed": Mute(),
    "a BaseException of its own": Odd("odd"),
    "an AssertionError": AssertionError(),
    "RecursionError": recursing,
}


def raising(what):
    def hook(*_):
        if callable(what):
            return what()
        raise what

    return hook


@pytest.mark.parametrize("error", RAISED)
@pytest.mark.parametrize(
    ("hook", "parallel"),
    [("list", 1), ("available", 1), *((hook, threads) for hook in ("show", "delete", "explain") for threads in (1, 4))],
)
def test_an_exception_of_a_hook_is_recorded_and_ends_only_its_step(site, hook, error, parallel):
    site.set(parallel_deletes=parallel, step_timeout=60.0)
    hooks = {hook: raising(RAISED[error])}
    if hook == "explain":
        hooks["delete"] = raising(ValueError("refused"))
    rows = lambda _c, project: [{**ROW, "id": str(n), "project_id": project.id} for n in range(3)]  # noqa: E731
    made = site.with_hooks(**{"list": rows, **hooks}).record()
    step = site.sweep(made)
    assert step.state is StepState.DONE
    assert step.outcome in (Outcome.UNKNOWN, Outcome.LEFTOVERS)
    said = {step.message, *(row.leftover.message for row in site.store.leftovers(made.id, 10))}
    name = error if error in ("SystemExit", "RecursionError", "MemoryError", "StopIteration") else ""
    assert any(name in message for message in said), said
    assert site.sweep(made, "router").outcome is Outcome.CLEAR
    assert not site.worker.hung


# ------------------------------------------------------------------------------------------------- it talks nonsense
def same_for_ever(*_):
    return itertools.repeat(ROW)


def new_for_ever(*_):
    return ({**ROW, "id": str(n)} for n in itertools.count())


async def some_day(*_):
    yield ROW


NONSENSE = {
    "None": None,
    "a number": 5,
    "an empty string": "",
    "a string": "abc",
    "empty bytes": b"",
    "an empty object": {},
    "an object": {"id": "1", "project_id": "p"},
    "a list of None": [None],
    "a list of numbers": [1, 2],
    "a list of strings": ["a"],
    "a list of lists": [["id", "1"]],
    "rows without an id": [{"name": "x", "project_id": "p"}],
    "rows with an empty id": [{"id": "", "project_id": "p"}],
    "a class": dict,
    "the same row for ever": same_for_ever,
    "ever new rows": new_for_ever,
    "an asynchronous generator": some_day,
}


@pytest.mark.parametrize("purpose", [RoundPurpose.INVENTORY, RoundPurpose.DELETE])
@pytest.mark.parametrize("answer", NONSENSE)
def test_what_is_no_listing_is_unknown_and_never_empty(site, answer, purpose, monkeypatch):
    monkeypatch.setattr(calls, "MAX_ROWS", 20_000)  # ten million take half a minute
    value, deleted = NONSENSE[answer], []
    site.set(most_listed=5000, step_timeout=60.0)
    site.with_hooks(list=value if callable(value) else lambda *_: value, delete=lambda *_: deleted.append(1))
    made = site.record(purpose)
    step = site.sweep(made)
    assert (step.state, step.outcome) == (StepState.DONE, Outcome.UNKNOWN)
    assert step.reason in (Reason.BAD_ANSWER, Reason.ERROR) and step.message
    assert deleted == []
    assert site.sweep(made, "router").outcome is Outcome.CLEAR


@pytest.mark.parametrize("answer", [None, 0, "", "no", [], object()])
def test_a_hook_that_does_not_say_whether_its_service_has_the_type_has_not_said_no(site, answer):
    step = site.sweep(site.with_hooks(available=lambda *_: answer).record(RoundPurpose.INVENTORY))
    assert (step.outcome, step.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


@pytest.mark.parametrize(
    "verdict",
    [
        5,
        "no",
        Verdict(Reason.IN_USE, "x", ({"id": object()},)),
        Verdict(Reason.IN_USE, None, (5,)),
        Verdict(Reason.IN_USE, "x", 7),
    ],
)
def test_a_verdict_that_cannot_be_kept_makes_the_step_unknown(site, verdict):
    site.with_hooks(delete=raising(ValueError()), explain=lambda *_: verdict)
    made = site.record()
    step = site.sweep(made)
    assert (step.state, step.outcome) == (StepState.DONE, Outcome.UNKNOWN)
    assert site.sweep(made, "router").outcome is Outcome.CLEAR


def test_an_unknown_reason_is_refused_where_it_is_made():
    with pytest.raises(ValueError, match="banana"):
        Verdict("banana", "x")


def test_names_of_any_kind_are_kept(site):
    names = ["nul \0 here", "lone \ud800 surrogate", "x" * 5000, 5, None, ["a"], {"a": 1}]
    rows = lambda _c, p: [{"id": str(n), "name": name, "project_id": p.id} for n, name in enumerate(names)]  # noqa: E731
    made = site.with_hooks(list=rows, delete=raising(ValueError("no \0 no"))).record()
    step = site.sweep(made)
    assert (step.outcome, step.remaining) == (Outcome.LEFTOVERS, len(names))
    assert len(site.store.leftovers(made.id, 100)) == len(names)


def test_where_a_thread_is_can_be_said_also_when_it_is_nowhere_any_more():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert watchdog.place(thread) == "no line: it has ended"


def test_no_collection_starts_while_the_place_of_a_thread_is_read(monkeypatch):
    """It could stop the process for good: see :mod:`cleanup_orchestrator.monitoring.stacks`."""
    real, during = sys._current_frames, []
    monkeypatch.setattr(sys, "_current_frames", lambda: during.append(gc.isenabled()) or real())
    assert gc.isenabled()
    watchdog.place(threading.current_thread())
    assert (during, gc.isenabled()) == ([False], True)
