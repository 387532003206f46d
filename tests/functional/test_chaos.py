"""Two engines, four workers and an API, over a broker and a database that are killed and restarted while they delete.

The cloud is an emulated one that fails a tenth of its calls. Whether all went well is read from that cloud and from the
database, and not from what the orchestrator says of itself: every deletion ends or names its blocker, nothing of
anybody else is touched, and no project goes while it has something.

CLEANUP_CHAOS_PROJECTS: how many projects are to go, by default few enough for every run of the tests. The whole size is
200, with CLEANUP_CHAOS_DATABASES=postgresql,mariadb (the default is both).
"""

from __future__ import annotations

import collections
import json
import os
import signal
import time

import pytest

from cleanup_orchestrator.model import Status
from cleanup_orchestrator.transitions import LIVE
from tests.functional.chaos import FAULTS, Chaos, background, environment
from tests.servers import MariaDB, PostgreSQL, RabbitMQ
from tests.timing import wait

PROJECTS = environment("CLEANUP_CHAOS_PROJECTS", 20)
DATABASES = (os.environ.get("CLEANUP_CHAOS_DATABASES") or "postgresql,mariadb").split(",")
#: With many projects there is less in each: the whole size is to have thousands of resources, not ten thousands.
SMALL = ("--small",) if PROJECTS > 50 else ()
#: Seconds without any progress at all after which it is given up.
PATIENCE = 400.0

VARIANTS = [
    pytest.param(PostgreSQL, "fence", id="postgresql-fence"),
    pytest.param(MariaDB, "revoke", id="mariadb-revoke"),
]


class Wanted:
    """What is asked for each project, and what it was before."""

    def __init__(self, chaos):
        call = chaos.cloud.call
        projects = call("projects")
        self.bystanders = call("bystanders")
        self.reports, self.blocked, self.cancelled, self.planned = (
            {p for n, p in enumerate(projects) if n % 20 in rest} for rest in ({0}, {5}, {8, 13}, {17})
        )
        self.empty = {call("add_project", name=f"empty-{n}") for n in range(max(1, len(projects) // 20))}
        self.cascades = set(projects) - self.reports - self.blocked - self.cancelled - self.planned
        for project in self.blocked:
            ours = call("add", region="RegionOne", kind="network.network", owner=project, values={"name": "shared"})
            theirs = {"network_id": ours, "name": "foreign"}
            call("add", region="RegionOne", kind="network.port", owner=self.bystanders[0], values=theirs)
        call("audit.under_deletion", projects=[*projects, *self.empty])
        self.all = [*projects, *self.empty]
        self.before = {project: call("things", project=project) for project in (*self.all, *self.bystanders)}

    def how(self, project):
        """(mode, dry run) of the request."""
        return "report" if project in self.reports | self.empty else "cascade", project in self.planned


@pytest.mark.parametrize(("database", "driver"), VARIANTS)
def test_whatever_is_killed_under_way_every_project_goes_or_says_why_not(database, driver, tmp_path, capsys):
    if database.name not in DATABASES:
        pytest.skip("not asked for by CLEANUP_CHAOS_DATABASES")
    RabbitMQ.need()
    database.need()
    size = ["--projects", str(PROJECTS), "--bystanders", "4", "--fences", "--seed", "1", *SMALL]
    with Chaos(tmp_path, database, driver, *size) as chaos:
        wanted = Wanted(chaos)
        chaos.cloud.call("faults.latency", milliseconds=10, jitter=20)
        chaos.cloud.call("faults.errors", rate=0.1, mix=FAULTS)
        began = time.monotonic()
        try:
            run(chaos, wanted)
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


def run(chaos, wanted):
    """Ask, hurt, and wait for the end."""
    deletions = {}

    def ask(projects):
        for project in projects:
            deletions[project] = chaos.request(project, *wanted.how(project))

    def cancel():
        waiting = set(wanted.cancelled)
        while waiting:
            for project, status in chaos.statuses().items():
                if project in waiting and status in (Status.DELETING, Status.VERIFYING):
                    code, answer = chaos.insist("POST", f"/v1/deletions/{deletions[project]}/cancel")
                    assert code == 202 or answer["errors"][0]["code"] == "not_cancellable", answer
                    waiting.discard(project)
                elif project in waiting and status not in LIVE:
                    waiting.discard(project)
            time.sleep(0.5)

    # Half of them at once, the others one by one, whatever is away meanwhile.
    half = len(wanted.all) // 2
    ask(wanted.all[:half])
    others = background(lambda: ask(wanted.all[half:]))
    cancels = background(cancel)
    hurt(chaos)
    for thread, raised in (others, cancels):
        thread.join(PATIENCE * max(1, PROJECTS / 20))  # the last of many gets as far as that after all the others
        assert not raised, raised
        assert not thread.is_alive()
    until_nothing_moves(chaos, wanted)


def hurt(chaos):
    """One after the other, each while there is work."""

    def freeze():
        steps = chaos.busy("worker-2")
        child = chaos.parts["worker-2"].child
        child.signal(signal.SIGSTOP)
        names = ", ".join(f"'{id_}'" for id_ in steps)
        pid = child.popen.pid
        mine = f"SELECT id FROM steps WHERE id IN ({names}) AND state = 'running' AND worker LIKE '%%:{pid}'"
        wait("others have its steps", lambda: not chaos.sql(mine), 120, 0.5)
        child.signal(signal.SIGCONT)

    def kill(name):
        chaos.busy(name)
        chaos.kill(name)

    def end(name):
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
                60,
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
    for what, do in things.items():
        time.sleep(2)
        live = sum(status in LIVE for status in chaos.statuses().values())
        assert live, f"all had ended before {what}: no test of that"
        chaos.mark(f"{what}, {live} under way")
        do()
        chaos.look()


def until_nothing_moves(chaos, wanted):
    """Wait until all have ended, but for those that are blocked, which say so."""
    before, deadline = None, time.monotonic() + PATIENCE
    while True:
        chaos.look()
        rows = chaos.sql("SELECT project_id, status, progress_at FROM deletions")
        live = {project for project, status, _ in rows if Status(status) in LIVE}
        if live <= wanted.blocked and live <= set(chaos.stalled()):
            return
        now = sorted((p, str(s), str(at)) for p, s, at in rows)
        if now != before:
            before, deadline = now, time.monotonic() + PATIENCE
        assert time.monotonic() < deadline, {p: chaos.stalled().get(p, "?") for p in live - wanted.blocked}
        time.sleep(1)


# ------------------------------------------------------------------------------------------------------------ the end


def check(chaos, wanted):
    """What must hold, by the cloud's own state."""
    call = chaos.cloud.call
    assert call("defects") == []
    assert chaos.unexpected == []
    assert call("audit.foreign_writes") == []
    assert call("audit.deleted_while_not_empty") == []
    statuses = chaos.statuses()
    assert set(statuses) == set(wanted.all)
    there = {project for project in wanted.all if call("exists", project=project)}
    assert {p for p, s in statuses.items() if s is Status.DELETED} == set(wanted.all) - there
    left = {p: call("left", project=p, residue=False) for p in set(wanted.all) - there}
    assert {p: found for p, found in left.items() if found} == {}
    ends = lambda projects: {statuses[project] for project in projects}  # noqa: E731
    assert ends(wanted.cascades) == {Status.DELETED}
    # A report gives up after a few tries, gives the project back, and says why.
    assert ends(wanted.empty) <= {Status.DELETED, Status.LEFTOVERS, Status.FAILED}
    assert chaos.sql("SELECT id FROM deletions WHERE status = 'failed' AND (reason = '' OR message = '')") == []
    assert chaos.sql(
        "SELECT c.id FROM changes c JOIN deletions d ON d.id = c.deletion_id "
        "WHERE d.status IN ('failed', 'leftovers', 'cancelled') AND NOT c.undone"
    ) == []  # fmt: skip
    assert ends(wanted.reports) == {Status.LEFTOVERS}
    assert ends(wanted.planned) == {Status.PLANNED}
    assert ends(wanted.cancelled) <= {Status.CANCELLED, Status.DELETED}
    assert Status.CANCELLED in ends(wanted.cancelled), "none was cancelled in time: no test of that"
    stalled = chaos.stalled()
    assert set(stalled) == wanted.blocked
    for project in stalled:
        # The latest try may have met with a fault; the next one does not any more.
        named = lambda p=project: "network.network@RegionOne: foreign" in chaos.stalled()[p]  # noqa: E731
        wait("it says what is in its way", named, 300, 0.5)
        blockers = chaos.insist("GET", f"/v1/deletions/{deletion_of(chaos, project)}")[1]["deletion"]["blockers"]
        assert ("network", "network", "foreign") in {(b["service"], b["type"], b["reason"]) for b in blockers}
    for project in wanted.bystanders:
        assert changed(chaos, wanted, project) == {}, "nobody asked for anything here"
    for project in wanted.reports | wanted.planned:
        assert changed(chaos, wanted, project) == {}, "only looked at"
    for project in wanted.cancelled & there:
        back(chaos, wanted, project)
    counted = chaos.counted()
    assert counted["lease_takeovers"] >= 1, "a killed worker had steps, and so had a frozen one"


def give_up_the_blocked(chaos, wanted):
    """They stay until somebody cancels them; then they are given back."""
    for project in wanted.blocked:
        chaos.insist("POST", f"/v1/deletions/{deletion_of(chaos, project)}/cancel")
    again = {project for project in wanted.empty if chaos.statuses()[project] is Status.LEFTOVERS}
    for project in again:
        deletion = chaos.insist("GET", f"/v1/deletions/{deletion_of(chaos, project)}")[1]["deletion"]
        assert deletion["progress"]["unknown"], "there was nothing in it"
        assert deletion["message"].startswith("unknown: ")
        chaos.insist("POST", f"/v1/deletions/{deletion['id']}/retry")
    gone = lambda: all(chaos.statuses()[project] is Status.DELETED for project in again)  # noqa: E731
    wait("what could not be seen was empty", gone, PATIENCE, 0.5)
    ended = lambda: {chaos.statuses()[project] for project in wanted.blocked} == {Status.CANCELLED}  # noqa: E731
    wait("the blocked ones are cancelled", ended, PATIENCE, 0.5)
    for project in wanted.blocked:
        back(chaos, wanted, project)
        names = [row.get("name") for row in chaos.cloud.call("things", project=project)["rows"].values()]
        assert "shared" in names


def back(chaos, wanted, project):
    """Who cancelled has the project back as it was, but for resources that had been deleted."""
    before, after = wanted.before[project], chaos.cloud.call("things", project=project)
    assert after["project"] == before["project"]
    assert after["grants"] == before["grants"]
    assert set(after["rows"]) <= set(before["rows"])


def changed(chaos, wanted, project):
    """What is not as it was in a project."""
    before, after = wanted.before[project], chaos.cloud.call("things", project=project)
    found = {key: (before[key], after[key]) for key in before if key != "rows" and before[key] != after[key]}
    rows = before["rows"].keys() | after["rows"].keys()
    for key in rows:
        if before["rows"].get(key) != after["rows"].get(key):
            found[key] = (before["rows"].get(key), after["rows"].get(key))
    return found


def deletion_of(chaos, project):
    ((id_,),) = chaos.sql(f"SELECT id FROM deletions WHERE project_id = '{project}'")
    return id_


def report(chaos, wanted, took):
    """What happened, in numbers."""
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
