"""Compares `openstack project cleanup` with `openstack project delete --async --cascade` on real services.

    python -m tests.cloud.launcher --full install --directory /tmp/whole           (once)
    python -m tests.cloud.launcher --full --fence up --directory /tmp/whole        (in another terminal)
    python -m tests.benchmarks.project_cleanup --cloud /tmp/whole

Three projects are filled in the same way, with one of everything. The orchestrator, whose engine has the default
options, deletes the first one, after it deleted an empty project, so that its processes are warm. The second one is
cleaned up by the client's own command as an administrator runs it, and then deleted, as its documentation says. It is
the second because its cleanup also deletes resources of other projects. The third one is a bystander: it shares
networks, images, zones and other resources with both, and must stay as it is.

The same sources measure both. Calls are counted in the access logs of the services, by the name of the client: calls
that the services make to each other are in another line. Rows are read from the services' databases and from Swift's
disks, without those that a service marks as deleted and without history (tests/cloud/rows.py). While a command runs,
the databases are asked every half second which rows are still there.

The bound of the orchestrator is the longest chain of the services' own asynchronous deletes: the time from the answer
to the last DELETE of a resource until the service removed it, along the order of types that the services require.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import itertools
import os
import pathlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.benchmarks import figures
from tests.benchmarks.figures import Figure
from tests.cloud import access_logs, filler, rows
from tests.cloud.fillings.base import Filled
from tests.cloud.job import WAIT, Job, settled, uncovered, unlike
from tests.cloud.launcher import Cloud
from tests.cloud.serve import descendants

PEER, OURS = "project cleanup", "delete --async --cascade"
#: The beginning of the User-Agent of both sides: the command of the orchestrator is a plugin of the same client.
AGENTS = ("openstacksdk/", "cleanup-orchestrator")
PERIOD = 0.5  #: seconds between two looks at the databases

#: The tables of the resources whose delete goes on after its answer, each with those that have to be gone before: the
#: resource contains the other one or may do so, or its service refuses the delete as long as the other one is there.
ORDER: Mapping[str, tuple[str, ...]] = {
    "magnum.cluster": (),
    "heat.stack": ("magnum.cluster",),
    "nova.instances": ("heat.stack",),
    "octavia.load_balancer": ("heat.stack",),
    "designate.zones": ("heat.stack",),
    "cinder.backups": ("heat.stack",),
    "cinder.group_snapshots": ("heat.stack",),
    "cinder.snapshots": ("heat.stack",),
    "cinder.groups": ("cinder.group_snapshots", "nova.instances"),
    "cinder.volumes": ("cinder.group_snapshots", "cinder.snapshots", "nova.instances"),
    "manila.share_group_snapshots": ("heat.stack",),
    "manila.share_snapshots": ("heat.stack",),
    "manila.shares": ("manila.share_group_snapshots", "manila.share_snapshots", "nova.instances"),
    "manila.share_groups": ("manila.shares",),
}


def processor_time(cloud: Cloud) -> tuple[float, float]:
    """Return the seconds of processor time of the services, and of the commands and the orchestrator, until now."""
    ended = os.times()
    return running(cloud.runner() or 0), running(os.getpid()) + ended.children_user + ended.children_system


def running(parent: int) -> float:
    """Return the seconds of processor time of all processes below a process."""
    ticks = 0
    for pid in descendants(parent):
        with contextlib.suppress(OSError):  # it has ended
            ticks += sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


class Watch:
    """Notes when each row of a project is gone, or is marked as deleted by its service."""

    def __init__(self, cloud: Cloud, found: rows.Rows) -> None:
        self.cloud = cloud
        #: The ids of the rows that are still there, by table. Swift's are on disk: nothing of it is asynchronous.
        self.there: dict[rows.Place, set[str]] = {}
        for place, there in found.tables.items():
            if place[0] != "swift" and place not in rows.PART_OF and (column := id_column(there[0])):
                self.there[place] = {str(row[column]) for row in there}
        self.columns = {place: id_column(found.tables[place][0]) for place in self.there}
        self.gone: dict[rows.Place, dict[str, float]] = {place: {} for place in self.there}  #: ids, epoch seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.ExitStack() as stack:
            databases = {database for database, _ in self.there}
            ask = {name: stack.enter_context(rows.connect(self.cloud, name)) for name in databases}
            while not self._stop.wait(PERIOD):
                for place, there in self.there.items():
                    if there:
                        self._look(place, ask[place[0]])

    def _look(self, place: rows.Place, ask: rows.Ask) -> None:
        there, column = self.there[place], self.columns[place]
        marks = ", ".join("?" * len(there))
        found = ask(f"SELECT * FROM {rows.quoted(self.cloud, place[1])} WHERE `{column}` IN ({marks})", *there)
        left = {str(row[column]) for row in found if not rows.has_ended(row)}
        self.gone[place] |= dict.fromkeys(there - left, time.time())
        self.there[place] = there & left


def id_column(row: rows.Row) -> str:
    """Return the column with the id that the API shows, if the table has one."""
    return next((column for column in ("uuid", "id") if column in row), "")


@dataclasses.dataclass(frozen=True)
class Result:
    """What one side did."""

    seconds: float
    codes: str  #: the exit codes of its commands
    last_line: str  #: of the first command, without indented details
    requests: Sequence[access_logs.Request]
    #: The seconds of processor time of the services, and of the commands and the orchestrator.
    processor: tuple[float, float]
    gone: Mapping[rows.Place, Sequence[float]]  #: seconds after the beginning, ascending; by table
    accepted: Mapping[str, float]  #: the seconds that each delete took after its answer; by table, the longest
    left: rows.Rows
    lost: rows.Rows  #: the rows of the bystander that are gone or changed
    new: rows.Rows  #: the rows of the bystander that are new or changed

    @property
    def calls(self) -> int:
        """How many requests came from the commands or the orchestrator."""
        return sum(each.agent.startswith(AGENTS) for each in self.requests)


def run(
    cloud: Cloud, job: Job, project: Filled, bystander: Filled, before: rows.Rows, commands: Sequence[Sequence[str]]
) -> tuple[Result, rows.Rows]:
    """Run the commands of one side; return what they did, and all rows afterwards."""
    begin, began, used = access_logs.position(cloud), time.time(), processor_time(cloud)
    with Watch(cloud, before.live(project.project_id)) as watch:
        ended = [job.command(*command) for command in commands]
        seconds = time.time() - began
        services, clients = (now - then for now, then in zip(processor_time(cloud), used, strict=True))
        requests = list(access_logs.since(cloud, begin))
        after = settled(cloud)  # deletes may go on after the commands
    lost, new = unlike(before, after, project, bystander)
    said = [line for line in ended[0][1].splitlines() if line.strip() and not line.startswith(" ")]
    result = Result(
        seconds,
        ", ".join(str(code) for code, _ in ended),
        said[-1] if said else "",
        requests,
        (services, clients),
        {place: sorted(at - began for at in gone.values()) for place, gone in watch.gone.items() if gone},
        asynchronous(requests, watch),
        after.live(project.project_id),
        lost,
        new,
    )
    return result, after


def asynchronous(requests: Sequence[access_logs.Request], watch: Watch) -> dict[str, float]:
    """Return the longest time from the answer to a delete until the row was gone, by table."""
    found: dict[str, float] = {}
    deletes: dict[str, list[float]] = {}
    for each in requests:
        # Servers and groups are deleted by an action. Services delete parts of a resource by the same id.
        deletes_it = each.method == "DELETE" or each.path.endswith("/action")
        if each.at and deletes_it and each.status < 300 and each.agent.startswith(AGENTS):
            for id_ in rows.ID.findall(each.path)[-1:]:
                deletes.setdefault(id_.replace("-", ""), []).append(each.at)  # Designate stores it without
    for place, gone in watch.gone.items():
        name = ".".join(place)
        for id_, at in gone.items():
            if name in ORDER and (asked := [each for each in deletes.get(id_.replace("-", ""), ()) if each <= at]):
                found[name] = max(found.get(name, 0.0), at - asked[-1])
    return found


def longest_chain(seconds: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return the links of the longest chain, each with its seconds."""

    def ending_with(name: str) -> tuple[tuple[str, float], ...]:
        before = max((ending_with(each) for each in ORDER[name]), key=length, default=())
        return (*before, (name, seconds[name])) if name in seconds else before

    return max((ending_with(name) for name in ORDER), key=length, default=())


def length(chain: Sequence[tuple[str, float]]) -> float:
    """Return the seconds of a chain."""
    return sum(each for _, each in chain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cloud", required=True, help="the directory of a whole cloud that is up (launcher --full)")
    parser.add_argument("--venv", help="its services' venv, as the launcher was told (default: DIRECTORY/venv)")
    parser.add_argument("--lines", action="store_true", help="show each row that is left or was changed")
    options = parser.parse_args()
    cloud = Cloud.attach(options.cloud, options.venv)
    job = Job(cloud, engine="")
    job.start_orchestrator()
    try:
        compare(cloud, job, options.lines)
    finally:
        job.stop()
        cloud.down()  # stops what this process started; the cloud keeps running


def compare(cloud: Cloud, job: Job, lines: bool) -> None:
    admin = filler.connect(cloud.auth_url, "admin", cloud.site.password, "admin")
    number = secrets.token_hex(2)  # leftovers of an earlier run may have the names of its projects
    covered = set(filler.SERVICES) - set(uncovered(cloud))
    warm, cleaned, orchestrated = (
        filler.fill(admin, f"{name}-{number}", only=only)
        for name, only in (("warm", ()), ("cleaned", covered), ("orchestrated", covered))
    )
    bystander = filler.bystander(admin, f"bystander-{number}", cleaned, only=covered)
    filler.share(admin, bystander, orchestrated)
    print(f"three projects are filled, {sum(map(len, orchestrated.ids.values()))} things each; {figures.machine()}")
    delete = ("project", "delete", "--async", "--cascade", "--wait", "--wait-timeout", WAIT)
    job.command(*delete, warm.project_id)
    cloud.admin.ensure_role(cleaned.project_id, admin_id(cloud), "admin")  # the peer uses a token of the project
    before = settled(cloud)
    ours, before = run(cloud, job, orchestrated, bystander, before, [(*delete, orchestrated.project_id)])
    cleanup = ("project", "cleanup", "--auto-approve", "--project", cleaned.project_id)
    peer, _ = run(cloud, job, cleaned, bystander, before, [cleanup, ("project", "delete", cleaned.project_id)])
    print("\n".join(side_by_side(peer, ours)))
    for title, result in ((PEER, peer), (OURS, ours)):
        print(f"\n{title}: the last line: {result.last_line}")
        print("\n".join(rows.summary({"left": result.left, "lost": result.lost, "new": result.new})))
        if lines:
            print("\n".join([*result.left.lines(), *result.lost.lines(), *result.new.lines()]))
    print("\n".join(same_rows(peer, ours)))
    print("\n" + "\n".join(figures.table([*phases(job, orchestrated), *bounds(peer, ours)])) + f"\n{figures.machine()}")


def side_by_side(peer: Result, ours: Result) -> Iterator[str]:
    """Yield the lines of a table with a column for each side."""
    yield f"\n{'':50} {PEER:>26} {OURS:>26}"
    values: Mapping[str, Callable[[Result], object]] = {
        "seconds": lambda each: f"{each.seconds:.0f}",
        "exit codes": lambda each: each.codes,
        "API calls of the client and the orchestrator": lambda each: each.calls,
        "requests in all, with those between the services": lambda each: len(each.requests),
        "processor time of the services: seconds": lambda each: f"{each.processor[0]:.0f}",
        "processor time of the client and the orchestrator": lambda each: f"{each.processor[1]:.0f}",
        "rows left": lambda each: total(each.left),
        "rows of the bystander that are gone or changed": lambda each: total(each.lost),
        "rows of the bystander that are new or changed": lambda each: total(each.new),
    }
    for title, get in values.items():
        yield f"{title:50} {get(peer):>26} {get(ours):>26}"


def phases(job: Job, project: Filled) -> Iterator[Figure]:
    """Yield the seconds of each status of the deletion, from its journal."""
    deletion = job.ask("project", "deletion", "list", "--project", project.project_id)[0]["ID"]
    events = job.ask("project", "deletion", "events", deletion)
    moves = [event for event in events if event["Type"].startswith("deletion.")]
    for move, following in itertools.pairwise(moves):
        began, ended = (datetime.datetime.fromisoformat(each["At"]) for each in (move, following))
        status = move["Type"].removeprefix("deletion.")
        yield Figure(f"the deletion's status is {status}: seconds", (ended - began).total_seconds())


def bounds(peer: Result, ours: Result) -> Iterator[Figure]:
    """Yield the figures that have a bound, and the asynchronous deletes of each type."""
    for name in sorted(ours.accepted, key=lambda name: -ours.accepted[name]):
        yield Figure(f"the delete of {name}, the longest: seconds", ours.accepted[name])
    chain = longest_chain(ours.accepted)
    named = " -> ".join(f"{name} {seconds:.1f}" for name, seconds in chain)
    yield Figure("the longest chain of asynchronous deletes: seconds", length(chain), note=named)
    processors = os.cpu_count() or 1
    least = f"{ours.processor[0]:.0f} of processor time, on {processors} processors"
    yield Figure(
        "the least that the services need on this machine: seconds", ours.processor[0] / processors, note=least
    )
    yield Figure("the orchestrator: seconds", ours.seconds, 1.3 * length(chain) + 10)
    theirs, here = (max(each) for each in zip(*same(peer, ours).values(), strict=True))
    yield Figure("the rows that the client deletes, by the orchestrator: seconds", here, theirs)
    yield Figure("rows left by the orchestrator", total(ours.left), 0)
    yield Figure("rows of the bystander changed by the orchestrator", total(ours.lost) + total(ours.new), 0)


def same(peer: Result, ours: Result) -> dict[rows.Place, tuple[float, float]]:
    """Return the seconds until the rows that the client deletes are gone, on its side and on the other side, by table.

    Of each table as many rows count as the client deletes. Keystone's rows do not count: they are deleted with the
    project, which the orchestrator deletes at the end, once it is proven empty.
    """
    both = [place for place in peer.gone if place[0] != "keystone" and place in ours.gone]
    return {place: (peer.gone[place][-1], ours.gone[place][: len(peer.gone[place])][-1]) for place in both}


def same_rows(peer: Result, ours: Result) -> Iterator[str]:
    """Yield the lines of a table of the rows that the client deletes, with the seconds until they are gone."""
    yield f"\n{f'gone after {PEER}':40} {'rows':>9} {'seconds':>9} {'here':>9}"
    for place, (theirs, here) in sorted(same(peer, ours).items(), key=lambda each: each[1]):
        yield f"{'.'.join(place):40} {len(peer.gone[place]):>9} {theirs:>9.1f} {here:>9.1f}"


def total(found: rows.Rows) -> int:
    """Return the number of rows."""
    return sum(found.count().values())


def admin_id(cloud: Cloud) -> str:
    return str(cloud.admin.call("GET", "/users?name=admin")["users"][0]["id"])


if __name__ == "__main__":
    main()
