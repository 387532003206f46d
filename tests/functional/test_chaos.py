"""Engines, workers and an API, over a broker and a database that are killed and restarted while they delete.

The cloud is an emulated one that fails a tenth of its calls. The checks read that cloud and the database, and not the
metrics and logs of the orchestrator: every deletion ends or names its blocker, nothing of another project is changed,
and no project is deleted while it has resources.

The seed chooses the requests: cascades, reports, dry runs, cancels, trees of projects, force, cascades that
are bound to a plan, projects under a plugin's lien, restores within a recovery window that stops servers, and an orphan
scan whose dead projects are adopted. No deadline is asserted: each only says when the test gives up.

CLEANUP_CHAOS_PROJECTS: how many projects are to go in the whole run (marker `long`), 20 by default; the whole size is
200. CLEANUP_CHAOS_DATABASES=postgresql,mariadb is the default. CLEANUP_CHAOS_SEED mixes the requests. The marker `real`
has a small run on one of the databases, chosen by CLEANUP_TESTS_COMMIT, which is its seed, too.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import random
import signal
import threading
import time

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.keystone.protocol import CHANGED_BY_OPTION, SERIAL_OPTION
from tests.functional.chaos import FAULTS, Chaos, background, environment
from tests.support.servers import MariaDB, PostgreSQL, RabbitMQ
from tests.support.timing import wait

PROJECTS = environment("CLEANUP_CHAOS_PROJECTS", 20)
DATABASES = (os.environ.get("CLEANUP_CHAOS_DATABASES") or "postgresql,mariadb").split(",")
SEED = environment("CLEANUP_CHAOS_SEED", 1)
COMMIT = environment("CLEANUP_TESTS_COMMIT", 0)
#: Seconds without any progress after which the test fails.
PATIENCE = 400.0
#: Milliseconds of a call, and of a call while a worker is to be killed at work.
LATENCY, SLOW = 10, 500

VARIANTS = [
    pytest.param(PostgreSQL, "fence", id="postgresql-fence"),
    pytest.param(MariaDB, "revoke", id="mariadb-revoke"),
]
IMAGE = "image.image"


@dataclasses.dataclass(frozen=True)
class Size:
    """The size of a run."""

    projects: int
    seed: int
    #: How many projects of each sort; the remaining ones are plain cascades.
    shares: dict
    engines: int
    workers: int
    empty: int
    #: The actions on processes and servers, by the names of `hurts`; empty: all of them.
    hurts: tuple = ()
    cloud: tuple = ()


def whole(projects):
    """The whole run: numbers of each sort for each twenty projects."""
    per_20 = {"report": 1, "blocked": 1, "cancelled": 2, "dry_run": 1, "forced": 1, "bound": 1, "outgrown": 1,
              "lien_ends": 1, "lien_stays": 1, "restored": 2, "dead": 1, "tree": 3}  # fmt: skip
    times = max(1, projects // 20)
    # With many projects there is less in each: the whole size is to have thousands of resources, not ten thousands.
    small = ("--small",) if projects > 50 else ()
    shares = {name: count * times for name, count in per_20.items()}
    return Size(projects, SEED, shares, 2, 4, times, cloud=("--servers", "2", *small))


def small():
    """The run of each commit: one of each sort, without the sixty types of Neutron, and three actions."""
    names = ("forced", "outgrown", "lien_stays", "restored", "dead")
    shares = {**dict.fromkeys(names, 1), "tree": 2}
    hurts = ("a worker is killed", "the broker is killed", "an engine is killed")
    return Size(7, COMMIT % 1000, shares, 1, 2, 0, hurts, ("--small", "--servers", "1", "--without", "network"))


class Wanted:
    """The request for each project, and its state before."""

    SORTS = ("report", "blocked", "cancelled", "dry_run", "forced", "bound", "outgrown", "lien_ends", "lien_stays",
             "restored", "dead", "tree")  # fmt: skip

    def __init__(self, chaos, size):
        call = chaos.cloud.call
        projects = list(call("projects"))
        random.Random(size.seed).shuffle(projects)
        self.bystanders = call("bystanders")
        rest = iter(projects)
        sorts = {name: {next(rest) for _ in range(size.shares.get(name, 0))} for name in self.SORTS}
        self.reports, self.blocked, self.cancelled, self.dry_runs = (sorts[name] for name in self.SORTS[:4])
        self.forced, self.bound, self.outgrown = sorts["forced"], sorts["bound"], sorts["outgrown"]
        self.lien_ends, self.lien_stays = sorts["lien_ends"], sorts["lien_stays"]
        self.restored, self.dead = sorts["restored"], sorts["dead"]
        self.trees = self._trees(call, sorted(sorts["tree"]))
        self.plain = set(rest)
        self.empty = {call("add_project", name=f"empty-{n}") for n in range(size.empty)}
        add = lambda kind, owner, **values: call("add", region="RegionOne", kind=kind, owner=owner, values=values)  # noqa: E731
        for project in self.blocked:
            network = add("network.network", project, name="shared")
            add("network.port", self.bystanders[0], name="foreign", network_id=network)
        #: Resources that no request deletes, by project: they block a deletion until it is forced or cancelled.
        self.stuck = {p: add(IMAGE, p, name="stuck") for p in (*self.forced, *sorted(self.cancelled)[:1])}
        call("stick", ids=list(self.stuck.values()))
        #: The reason of a plugin lien, by project: an image that the whole cloud may use.
        self.public = {
            p: add(IMAGE, p, name="public", visibility="public") for p in (*self.lien_ends, *self.lien_stays)
        }
        for project in self.planned:  # else nothing that takes a token of the project is in the plan
            call("let_in", project=project)
        self.unplanned = {}
        self.add = add
        self.all = [*projects, *self.empty]
        call("audit.under_deletion", projects=self.all)
        self.before = {project: call("things", project=project) for project in (*self.all, *self.bystanders)}
        self.servers = {project: call("servers", project=project) for project in self.all}
        for project in self.dead:
            call("forget", project=project)

    @staticmethod
    def _trees(call, members):
        """Put three projects above each other, or two; return the projects below each upper one."""
        trees = {}
        while members:
            root, *below = members[:3]
            del members[:3]
            above = root
            for project in below:
                call("move", project=project, parent=above)
                above = project
            trees[root] = below
        return trees

    @property
    def planned(self):
        """The projects whose cascade is bound to a plan."""
        return self.bound | self.outgrown

    @property
    def below(self):
        """All projects below others."""
        return {project for below in self.trees.values() for project in below}

    @property
    def asked(self):
        """The projects that are requested, one by one."""
        return [project for project in self.all if project not in self.below | self.dead]

    @property
    def cascades(self):
        """The projects that do not exist at the end."""
        return self.plain | self.bound | self.lien_ends | self.lien_stays | self.forced | {*self.trees} | self.below

    def how(self, project):
        """The request."""
        mode = "report" if project in self.reports | self.empty else "cascade"
        dry_run = project in self.dry_runs | self.planned
        return {"mode": mode, "dry_run": dry_run, "include_subtree": project in self.trees}


@pytest.mark.long
@pytest.mark.parametrize(("database", "driver"), VARIANTS)
def test_under_kills_every_project_is_deleted_or_names_its_blockers(database, driver, tmp_path, capsys):
    if database.name not in DATABASES:
        pytest.skip("not asked for by CLEANUP_CHAOS_DATABASES")
    chaos_run(database, driver, whole(PROJECTS), tmp_path, capsys)


@pytest.mark.real
def test_a_small_chaos_ends_as_it_should_on_one_of_the_databases(tmp_path, capsys):
    database, driver = VARIANTS[COMMIT % len(VARIANTS)].values
    chaos_run(database, driver, small(), tmp_path, capsys)


def chaos_run(database, driver, size, folder, capsys):
    RabbitMQ.need()
    database.need()
    cloud = ["--projects", str(size.projects), "--bystanders", "4", "--fences", "--seed", str(size.seed), *size.cloud]
    with Chaos(folder, database, driver, *cloud, engines=size.engines, workers=size.workers) as chaos:
        wanted = Wanted(chaos, size)
        chaos.cloud.call("faults.latency", milliseconds=LATENCY, jitter=2 * LATENCY)
        chaos.cloud.call("faults.errors", rate=0.1, mix=FAULTS)
        began = time.monotonic()
        try:
            run(chaos, wanted, size)
            took = time.monotonic() - began
            chaos.cloud.call("faults.clear")
            check(chaos, wanted)
            give_up_the_blocked(chaos, wanted)
        finally:
            with capsys.disabled():
                print(f"\n{database.name}, {driver}: " + report(chaos, wanted, time.monotonic() - began))
        with capsys.disabled():
            print(f"{len(wanted.all) / took * 60:.0f} deletions a minute")


# ------------------------------------------------------------------------------------------------------------ the run
class Users:
    """Acts of users and admins during the run: each waits for a record in the database, and for no time."""

    def __init__(self, chaos, wanted):
        self.chaos, self.wanted = chaos, wanted
        self.cancelled = set(wanted.cancelled)
        self.restored = set(wanted.restored)
        self.lien_ends = set(wanted.lien_ends)
        self.planned = set(wanted.planned)
        self.forced = set(wanted.forced)
        self.adopted = set()
        self.dead = set(wanted.dead)
        self.scans = []
        self.hurt = threading.Event()  #: set when all actions on processes are done

    def act(self):
        """Wait until all of them are done."""
        waiting = (self.cancelled, self.restored, self.lien_ends, self.planned, self.forced, self.dead)
        while any(waiting) or not self.hurt.is_set():
            self.chaos.end_windows(self.wanted.restored)
            latest = self.chaos.latest()
            self._cancel(latest)
            self._restore(latest)
            self._unshare(self.lien_ends & {*latest})
            self._bind(latest)
            if self.hurt.is_set():  # until then it gives work to each worker
                self._force(latest)
            self._scan(latest)
            time.sleep(1)

    def _cancel(self, latest):
        for project in self.cancelled & {*latest}:
            id_, status, _ = latest[project]
            if status in (Status.DELETING, Status.VERIFYING):
                code, answer = self.chaos.insist("POST", f"/v1/deletions/{id_}/cancel")
                assert code == 202 or answer["errors"][0]["code"] == "not_cancellable", answer
            if status in (Status.DELETING, Status.VERIFYING) or status not in LIVE:
                self.cancelled.discard(project)

    def _restore(self, latest):
        for project in self.restored & {*latest}:
            id_, status, conditions = latest[project]
            if status is Status.RECOVERABLE and any(c["type"] == "halted" and c["status"] for c in conditions):
                servers = self.chaos.cloud.call("servers", project=project)
                assert {each["status"] for each in servers.values()} == {"SHUTOFF"}, servers
                code, answer = self.chaos.insist("POST", f"/v1/deletions/{id_}/restore")
                assert code == 202, answer
                self.restored.discard(project)

    def _unshare(self, projects):
        """Make the image private again, once its lien has put the deletion on hold."""
        for project in projects & {*self.chaos.having("on_hold")}:
            nothing_deleted(self.chaos, project)
            where = {"region": "RegionOne", "kind": IMAGE, "id": self.wanted.public[project]}
            self.chaos.cloud.call("change", **where, values={"visibility": "private"})
            self.lien_ends.discard(project)

    def _bind(self, latest):
        """Bind a cascade to the plan of the dry run; in some, create a resource before that is not in the plan."""
        for project in self.planned & {*latest}:
            plan, status, _ = latest[project]
            if status is not Status.PLANNED:
                continue
            if project in self.wanted.outgrown and project not in self.wanted.unplanned:
                self.wanted.unplanned[project] = self.wanted.add(IMAGE, project, name="newcomer")
            body = {"project_id": project, "mode": "cascade", "plan_id": plan}
            code, answer = self.chaos.insist("POST", "/v1/deletions", body)
            if code == 202:
                self.planned.discard(project)
                continue
            # If a list failed at each attempt, the plan is incomplete, and another one is made.
            assert answer["errors"][0]["code"] == "plan_unusable", answer
            self.wanted.unplanned.pop(project, None)  # the next plan has it
            self.chaos.request(project, **self.wanted.how(project))

    def _force(self, latest):
        for project in self.forced & {*latest}:
            if latest[project][1] in (Status.DELETING, Status.VERIFYING):
                code, answer = self.chaos.insist(
                    "DELETE", f"/v1/projects/{project}/force", {"reason": "its storage is gone"}
                )
                assert code == 202 or answer["errors"][0]["code"] == "not_forcible", answer
                if code == 202:
                    self.forced.discard(project)

    def _scan(self, latest):
        """Scan for orphans until all dead projects are found, and adopt each."""
        ask = self.chaos.insist
        if not self.dead:
            return
        if not self.scans:
            self._begin_scan()
            return
        scan = ask("GET", f"/v1/orphan-scans/{self.scans[-1]}")[1]["orphan_scan"]
        if scan["status"] in ("accepted", "running", "waiting"):
            return
        assert scan["status"] in ("completed", "incomplete", "failed"), scan
        found = {each["project_id"] for each in ask("GET", f"/v1/orphan-scans/{scan['id']}/projects")[1]["projects"]}
        alive = {p for p in (*self.wanted.all, *self.wanted.bystanders) if self.chaos.cloud.call("exists", project=p)}
        assert not found & alive, "what Keystone knows is no orphan"
        for project in found & self.dead:
            code, answer = ask("POST", f"/v1/orphan-scans/{scan['id']}/adopt", {"project_id": project})
            assert code == 202, answer
            self.dead.discard(project)
        if self.dead:
            self._begin_scan()

    def _begin_scan(self):
        code, answer = self.chaos.insist("POST", "/v1/orphan-scans")
        if code == 202:
            self.scans.append(answer["orphan_scan"]["id"])
        else:  # of an answer that did not arrive
            self.scans.append(answer["errors"][0]["orphan_scan_id"])


def nothing_deleted(chaos, project):
    written = chaos.cloud.call("audit.written", project=project)
    assert [each for each in written if each[0] == "deleted"] == [], "nothing is deleted under a lien"


def run(chaos, wanted, size):
    """Send the requests, kill and restart processes, and wait for the end."""

    def ask(projects):
        for project in projects:
            chaos.request(project, **wanted.how(project))

    # Half of them at once, the others one by one, also while processes are down.
    asked = wanted.asked
    half = len(asked) // 2
    ask(asked[:half])
    users = Users(chaos, wanted)
    others = background(lambda: ask(asked[half:]))
    acts = background(users.act)
    hurt(chaos, size)
    users.hurt.set()
    for thread, raised in (others, acts):
        deadline = time.monotonic() + PATIENCE * max(1, size.projects / 20)
        while thread.is_alive() and time.monotonic() < deadline and not raised:
            thread.join(1)
            chaos.note_ended_processes()
        assert not raised, raised
        assert not thread.is_alive(), {name: len(left) for name, left in vars(users).items() if isinstance(left, set)}
    until_nothing_moves(chaos, wanted)


@contextlib.contextmanager
def slowly(chaos):
    """Make calls so slow that a worker can be killed at work."""
    chaos.cloud.call("faults.latency", milliseconds=SLOW)
    yield
    chaos.cloud.call("faults.latency", milliseconds=LATENCY, jitter=2 * LATENCY)


def hurt(chaos, size):
    """One after the other, each while there is work."""

    def freeze():
        with slowly(chaos):
            steps = chaos.busy("worker-2")
            child = chaos.parts["worker-2"].child
            child.signal(signal.SIGSTOP)
        names = ", ".join(f"'{id_}'" for id_ in steps)
        pid = child.popen.pid
        mine = f"SELECT id FROM steps WHERE id IN ({names}) AND state = 'running' AND worker LIKE '%%:{pid}'"
        wait("others have its steps", lambda: not chaos.sql(mine), PATIENCE, 0.5)
        child.signal(signal.SIGCONT)

    def kill(name):
        with slowly(chaos):
            chaos.kill(name, at_work=True)

    def end(name):
        with slowly(chaos):
            chaos.busy(name)
            code = chaos.end(name)
        assert code == 0, f"{name} ended with {code} when it was told to"

    def reload():
        chaos.parallel_deletes = 3
        chaos.configure()
        for name in ("engine-2", "worker-4"):
            part = chaos.parts[name]
            part.child.popen.send_signal(signal.SIGHUP)
            wait(
                f"{name} has read it",
                lambda p=part: "SIGHUP: changed: [worker] parallel" in p.child.log.read_text(),
                PATIENCE,
            )

    things = {
        "a worker is killed": lambda: kill("worker-1"),
        "the broker is killed": lambda: chaos.away(chaos.broker, True, 3),
        "an engine is killed": lambda: chaos.kill("engine-1"),
        "the database is killed": lambda: chaos.away(chaos.database, True, 3),
        "a worker is frozen for longer than its lease": freeze,
        "the broker is restarted": lambda: chaos.away(chaos.broker, False, 3),
        "a worker is told to stop": lambda: end("worker-3"),
        "two processes are told to read their configuration again": reload,
        "the database is restarted": lambda: chaos.away(chaos.database, False, 3),
        "the API is killed": lambda: chaos.kill("api-1"),
        "an engine is told to stop": lambda: chaos.end("engine-2"),
    }
    for what in size.hurts or things:
        time.sleep(2)
        live = sum(status in LIVE for status in chaos.statuses().values())
        assert live, f"all had ended before {what}: no test of that"  # what is stuck does not end before
        chaos.mark(f"{what}, {live} under way")
        things[what]()
        chaos.note_ended_processes()


def until_nothing_moves(chaos, wanted):
    """Wait until all have ended, except those with a condition that they are blocked or on hold."""
    before, deadline = None, time.monotonic() + PATIENCE
    still = {}  # since when each project has made no progress: what is not blocked is deleted first
    while True:
        chaos.note_ended_processes()
        chaos.end_windows(wanted.restored)
        rows = chaos.sql("SELECT id, project_id, status, progress_at FROM deletions")
        live = {project for _, project, status, _ in rows if Status(status) in LIVE}
        for _, project, status, progress_at in rows:
            if Status(status) in LIVE and still.get(project, (None, 0))[0] != progress_at:
                still[project] = progress_at, time.monotonic()
        blocked = {p for p in chaos.blocked() if time.monotonic() - still[p][1] > chaos.STALL_AFTER}
        waiting = blocked & wanted.blocked | {*chaos.having("on_hold")} & wanted.lien_stays
        if live <= waiting and waiting == wanted.blocked | wanted.lien_stays:
            return
        now = sorted(tuple(map(str, row)) for row in rows)
        if now != before:
            before, deadline = now, time.monotonic() + PATIENCE
        assert time.monotonic() < deadline, {p: chaos.blocked().get(p, "?") for p in live - waiting}
        time.sleep(1)


# ------------------------------------------------------------------------------------------------------------ the end


def check(chaos, wanted):
    """Check the result by the state of the cloud."""
    call = chaos.cloud.call
    assert call("defects") == []
    assert chaos.unexpected == []
    assert call("audit.foreign_writes") == []
    check_liens(chaos, wanted)
    statuses = chaos.statuses()
    assert set(statuses) == set(wanted.all)
    assert {project for project, _ in call("audit.deleted_while_not_empty")} == wanted.forced
    there = {project for project in wanted.all if call("exists", project=project)}
    gone = {p for p, s in statuses.items() if s is Status.DELETED} - wanted.dead
    assert gone == set(wanted.all) - there - wanted.dead
    left = {p: call("left", project=p, project_setting=False) for p in gone - wanted.forced}
    assert {p: found for p, found in left.items() if found} == {}
    ends = lambda projects: {statuses[project] for project in projects}  # noqa: E731
    assert ends(wanted.cascades) == {Status.DELETED}
    # A report ends after a few attempts, restores the project, and gives the reason.
    assert ends(wanted.empty) <= {Status.DELETED, Status.LEFTOVERS, Status.FAILED}
    assert chaos.sql("SELECT id FROM deletions WHERE status = 'failed' AND (reason = '' OR message = '')") == []
    assert chaos.sql(
        "SELECT c.id FROM changes c JOIN deletions d ON d.id = c.deletion_id "
        "WHERE d.status IN ('failed', 'leftovers', 'cancelled') AND NOT c.undone"
    ) == []  # fmt: skip
    assert ends(wanted.reports) <= {Status.LEFTOVERS}
    assert ends(wanted.dry_runs) <= {Status.PLANNED}
    assert ends(wanted.cancelled) <= {Status.CANCELLED, Status.DELETED}
    assert {statuses[project] for project in wanted.cancelled & {*wanted.stuck}} <= {Status.CANCELLED}
    blocked = chaos.blocked()
    assert set(blocked) == wanted.blocked
    for project in blocked:
        # The latest attempt may have met a fault; the next one does not.
        named = lambda p=project: "network.network@RegionOne: foreign" in chaos.blocked()[p]  # noqa: E731
        wait("it says what is in its way", named, 300, 0.5)
        blockers = chaos.insist("GET", f"/v1/deletions/{chaos.deletion_of(project)}")[1]["deletion"]["blockers"]
        assert ("network", "network", "foreign") in {(b["service"], b["type"], b["reason"]) for b in blockers}
    for project in wanted.bystanders:
        assert changed(chaos, wanted, project) == {}, "no request was about these"
    for project in wanted.reports | wanted.dry_runs:
        assert changed(chaos, wanted, project) == {}, "only looked at"
    for project in wanted.cancelled & there:
        back(chaos, wanted, project)
    check_trees(chaos, wanted)
    check_restored(chaos, wanted, statuses)
    check_plans(chaos, wanted, statuses)
    check_forced(chaos, wanted)
    check_adopted(chaos, wanted, statuses)
    counted = chaos.counted()
    assert chaos.taken_away and counted["lease_takeovers"], "a killed worker had steps, which others took over"


def check_trees(chaos, wanted):
    """Check that no parent was locked or had a delete before the projects below it were gone."""
    parents = {}
    for root, below in wanted.trees.items():
        chain = [root, *below]
        parents |= {project: chain[number + 1 :] for number, project in enumerate(chain) if chain[number + 1 :]}
    assert chaos.cloud.call("audit.before_children", parents=parents) == []


def check_liens(chaos, wanted):
    """Check that a project on hold is unchanged, and that it is deleted once the reason of its lien has ended."""
    for project in wanted.lien_stays:
        nothing_deleted(chaos, project)
        before, after = wanted.before[project]["rows"], chaos.cloud.call("things", project=project)["rows"]
        assert set(before) <= set(after)
    users = Users(chaos, wanted)
    users.lien_ends = set(wanted.lien_stays)
    users._unshare(set(wanted.lien_stays))
    assert not users.lien_ends, "each is held"
    gone = lambda: {chaos.statuses()[project] for project in wanted.lien_stays} <= {Status.DELETED}  # noqa: E731
    wait("what was held goes when its lien has ended", gone, PATIENCE, 0.5)


def check_restored(chaos, wanted, statuses):
    """Check that a restored project is unchanged, and that exactly the stopped servers were started, each once."""
    for project in wanted.restored:
        assert statuses[project] is Status.CANCELLED
        back(chaos, wanted, project)
        assert set(chaos.cloud.call("things", project=project)["rows"]) == set(wanted.before[project]["rows"])
        servers = chaos.cloud.call("servers", project=project)
        assert {id_: each["status"] for id_, each in servers.items()} == {
            id_: each["status"] for id_, each in wanted.servers[project].items()
        }
        assert {(each["stops"], each["starts"]) for each in servers.values()} == {(1, 1)}


def check_plans(chaos, wanted, statuses):
    """Check that a deletion with a plan deleted only what is in the plan."""
    for project in wanted.outgrown:
        assert statuses[project] is Status.LEFTOVERS
        left = chaos.cloud.call("left_ids", project=project)
        assert wanted.unplanned[project] in left
        servers_run(chaos, project)


def check_forced(chaos, wanted):
    """Check that all that force left in the cloud is recorded as abandoned, by id or type, stuck resources included."""
    for project in wanted.forced:
        id_ = chaos.deletion_of(project)
        rows = chaos.sql(f"SELECT resource_id FROM leftovers WHERE deletion_id = '{id_}' AND abandoned")
        lost = chaos.sql(f"SELECT service, type FROM steps WHERE owner_id = '{id_}' AND unseen")
        abandoned, unseen = {row[0] for row in rows}, {".".join(row) for row in lost}
        left = chaos.cloud.call("left_ids", project=project)
        assert {i: kind for i, kind in left.items() if i not in abandoned and kind not in unseen} == {}
        assert wanted.stuck[project] in left
        told = chaos.sql(f"SELECT message FROM events WHERE deletion_id = '{id_}' AND type = 'force.abandoned'")
        assert told, "the journal says so"


def check_adopted(chaos, wanted, statuses):
    """Check that nothing of an adopted project is left that an admin can delete."""
    for project in wanted.dead:
        assert statuses[project] in (Status.LEFTOVERS, Status.DELETED)
        left = {kind.partition(".")[0] for kind in chaos.cloud.call("left", project=project, project_setting=False)}
        assert not left & {"network", "image", "compute"}, left


def give_up_the_blocked(chaos, wanted):
    """They stay until a user cancels them; then they are restored."""
    for project in wanted.blocked:
        chaos.insist("POST", f"/v1/deletions/{chaos.deletion_of(project)}/cancel")
    again = {project for project in wanted.empty if chaos.statuses()[project] is Status.LEFTOVERS}
    for project in again:
        deletion = chaos.insist("GET", f"/v1/deletions/{chaos.deletion_of(project)}")[1]["deletion"]
        assert deletion["progress"]["unknown"], "there was nothing in it"
        assert deletion["message"].startswith("unknown: ")
        chaos.insist("POST", f"/v1/deletions/{deletion['id']}/retry")
    gone = lambda: all(chaos.statuses()[project] is Status.DELETED for project in again)  # noqa: E731
    wait("what could not be seen was empty", gone, PATIENCE, 0.5)
    ended = lambda: {chaos.statuses()[project] for project in wanted.blocked} <= {Status.CANCELLED}  # noqa: E731
    wait("the blocked ones are cancelled", ended, PATIENCE, 0.5)
    for project in wanted.blocked:
        back(chaos, wanted, project)
        names = [row.get("name") for row in chaos.cloud.call("things", project=project)["rows"].values()]
        assert "shared" in names


def things(chaos, project):
    """Return a project's state and what it has, without what Keystone records of a fence that was lifted."""
    found = chaos.cloud.call("things", project=project)
    if found["project"]:
        for name in (SERIAL_OPTION, CHANGED_BY_OPTION):
            found["project"]["options"].pop(name, None)
    return found


def back(chaos, wanted, project):
    """Check that a cancelled project is unchanged, except for resources that had been deleted."""
    before, after = wanted.before[project], things(chaos, project)
    assert after["project"] == before["project"]
    assert after["grants"] == before["grants"]
    assert set(after["rows"]) <= set(before["rows"])
    servers_run(chaos, project)


def servers_run(chaos, project):
    """Check that the remaining servers of a restored project run, as all of them did before."""
    servers = chaos.cloud.call("servers", project=project)
    assert {each["status"] for each in servers.values()} <= {"ACTIVE"}, servers


def changed(chaos, wanted, project):
    """Return the differences of a project from its state before."""
    before, after = wanted.before[project], things(chaos, project)
    found = {key: (before[key], after[key]) for key in before if key != "rows" and before[key] != after[key]}
    rows = before["rows"].keys() | after["rows"].keys()
    for key in rows:
        if before["rows"].get(key) != after["rows"].get(key):
            found[key] = (before["rows"].get(key), after["rows"].get(key))
    return found


def report(chaos, wanted, took):
    """Print what happened, in numbers."""
    rates = chaos.cloud.call("audit.rates")
    seen = collections.Counter()
    for name, count in chaos.cloud.call("faults.seen").items():
        seen[name.split()[1]] += count
    calls, deletes = (sum(rate[what] for rate in rates.values()) for what in ("calls", "deletes"))
    started = sum(sum(1 for key in wanted.before[p]["rows"]) for p in wanted.all)
    told = {
        "projects": len(wanted.all),
        "resources": started,
        "seconds": round(took),
        "calls": calls,
        "deletes": deletes,
        "faults": dict(seen),
        "statuses": dict(collections.Counter(map(str, chaos.statuses().values()))),
        "counted": dict(chaos.counted()),
        "CPU": chaos.seconds(),
        "messages in the broker when it went": chaos.drowned,
        "lives": {part.name: len(part.lives) for part in chaos.parts.values()},
        "api": dict(chaos.answers),
        "done to them": chaos.marks,
    }
    return json.dumps(told, indent=1)
