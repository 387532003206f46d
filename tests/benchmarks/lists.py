"""Processor time of each list of the API over many records, and of status polls.

    python -m tests.benchmarks.lists [--database sqlite|postgresql] [--size 100000] [--every] [--json]

The requests go through the whole WSGI application, with a checked and cached token and the log in a file, without a
network. Each list is read with each filter, each sort key in both directions, its first page and its last page, with
the default limit, and some of them with `limit=1000`, which the API reduces to 500. The figures are the slowest ones.
The processor time is that of the thread that answers and, for PostgreSQL, that of the server's backend. `--every`
prints each request.

A status poll is what `--wait` sends. Polls arrive 200 times a second at the 16 threads of an API process; the latency
counts from the time at which a poll was due.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import functools
import io
import json
import pathlib
import statistics
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
import webob
from oslo_log import log

from cleanup_orchestrator.core.deletion import Mode, Origin, Status
from cleanup_orchestrator.shapes import queries
from cleanup_orchestrator.store import Page, Store, tables
from tests.benchmarks import figures
from tests.benchmarks.figures import Figure
from tests.benchmarks.records import Records, fill
from tests.functional.test_api import keystone as ks
from tests.functional.test_api import site as api_site
from tests.support import databases

BOUND = 100.0  #: milliseconds of processor time
POLLS = 200  #: a second
LATENCY = 50.0  #: milliseconds, 99th percentile
THREADS = 16  #: default of [api] threads
SECONDS = 10  #: of polls

_OPTIONS = """
[api]
max_limit = 500
[keystone_authtoken]
token_cache_time = 300
[DEFAULT]
log_file = {log}
"""


class _Keystone:
    """The tokens of the stub with a catalog as large as that of a cloud with 30 services."""

    def __init__(self) -> None:
        stub: Any = ks.Keystone
        self.stub = stub()
        answer = self.stub._answer

        def _answer(method: str, path: str, environ: dict[str, Any]) -> Any:
            status, body, headers = answer(method, path, environ)
            if path == "/v3/auth/tokens" and method == "GET" and status == 200:
                catalog = [] if "nocatalog" in environ["QUERY_STRING"] else _CATALOG
                body = {"token": {**body["token"], **({"catalog": catalog} if catalog else {})}}
            return status, body, headers

        self.stub._answer = _answer


_CATALOG = [
    {
        "id": f"{n:032x}",
        "type": f"service-{n}",
        "name": f"service {n}",
        "endpoints": [
            {
                "id": f"{n * 3 + m:032x}",
                "interface": interface,
                "region_id": "RegionOne",
                "region": "RegionOne",
                "url": f"https://{interface}.cloud.example.com:13{n:03}/v3",
            }
            for m, interface in enumerate(("public", "internal", "admin"))
        ],
    }
    for n in range(30)
]


class Requests:
    """Sends requests to the application in this process."""

    def __init__(self, application: Any, used: Callable[[], float]) -> None:
        self._application, self._used = application, used

    def environ(self, path: str) -> dict[str, Any]:
        """Return the environment of a request as a WSGI server makes it."""
        raw, _, query = path.partition("?")
        request = webob.Request.blank(raw, base_url="http://cleanup.example.com")
        request.query_string = query
        request.headers["X-Auth-Token"] = ks.ADMIN
        found: dict[str, Any] = request.environ
        return found

    def get(self, path: str) -> tuple[float, bytes]:
        """Return the milliseconds of processor time of a request, and the body of its answer."""
        environ = self.environ(path)
        used, begun = self._used(), time.thread_time()
        body = self.answer(environ)
        took = time.thread_time() - begun
        return (took + self._used() - used) * 1000, body

    def answer(self, environ: dict[str, Any]) -> bytes:
        """Return the body of an answer.

        :raises RuntimeError: the status is not 200
        """
        status: list[str] = []

        def start_response(line: str, _headers: Any, _error: Any = None) -> Callable[[bytes], object]:
            status.append(line)
            return io.BytesIO().write

        body = b"".join(self._application({**environ, "wsgi.input": io.BytesIO()}, start_response))
        if not status[0].startswith("200"):
            raise RuntimeError(f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}: {status[0]}: {body[:500]!r}")
        return body


# ------------------------------------------------------------------------------------------------------------- requests
def _sorts(keys: Iterable[str]) -> list[dict[str, str]]:
    return [{}, *({"sort": f"{key}:{way}"} for key in keys for way in ("asc", "desc"))]


def _deletions(known: Records) -> Iterator[tuple[str, list[dict[str, str]], list[dict[str, str]]]]:
    filters: list[dict[str, str]] = [{}]
    filters += [{"status": status} for status in (*map(str, Status), queries.LIVE)]
    filters += [{"mode": str(mode)} for mode in Mode] + [{"origin": str(origin)} for origin in Origin]
    filters += [{name: value} for name in ("dry_run", "attention") for value in ("true", "false")]
    filters += [{"project_id": known.project}, {"domain_id": known.domain}, {"parent_deletion_id": known.parent}]
    filters += [{"project_name": "project-7"}, {"user_name": "user-7"}, {"user_id": known.user}]
    filters += [{name: at} for name in ("created_since", "created_until", "changed_since") for at in known.times]
    several = [{"status": "failed", "domain_id": known.domain}, {"attention": "true", "domain_id": known.domain}]
    yield "/v1/deletions", [*filters, *several], [*_sorts(queries.SORT_KEYS), {"sort": "status:asc,updated_at:desc"}]


def _numbered(known: Records) -> Iterator[tuple[str, list[dict[str, str]], list[dict[str, str]]]]:
    place = [{}, {"region": "RegionTwo"}, {"service": "service-3"}, {"type": "type_7"}, {"type": "network"}]
    leftovers = [{"reason": "in_use"}, {"reason": "error"}, {"abandoned": "true"}, {"abandoned": "false"}]
    yield f"/v1/deletions/{known.deletion}/leftovers", [*place, *leftovers], [{}]
    everywhere = [{"reason": "in_use", "service": "service-3"}, {"type": "type_7", "domain_id": known.domain}]
    yield "/v1/leftovers", [*place, *leftovers, *everywhere], [{}]
    yield "/v1/events", [{"resource_id": known.resource}, {"resource_id": "none"}], [{}]
    types = [{}, {"type": "resource.deleted"}, {"type": "deletion.status"}, {"type": "none"}]
    yield f"/v1/deletions/{known.deletion}/events", types, [{}]
    actions = [{"action": action} for action in ("delete", "keep", "protect")]
    yield f"/v1/plans/{known.plan}/resources", [*place, *actions], [{}]
    yield (
        f"/v1/orphan-scans/{known.scan}/orphans",
        [{}, *place[2:], {"region": "RegionOne"}, {"project_id": known.project}],
        [{}],
    )
    yield f"/v1/orphan-scans/{known.scan}/projects", [{}, {"project_id": known.project}], [{}]


def _expiring(known: Records) -> Iterator[tuple[str, list[dict[str, str]], list[dict[str, str]]]]:
    states = [{"state": state} for state in ("in_force", "ended", "all")]
    for path, keys, more in (
        ("/v1/liens", queries.LIEN_SORT_KEYS, [{"project_id": known.project}, {"origin": "billing-3"}]),
        (
            "/v1/waivers",
            queries.WAIVER_SORT_KEYS,
            [{"service_type": "service-3"}, {"region": "RegionOne"}, {"project_id": known.project}],
        ),
    ):
        filters = [{**state, **each} for state in states for each in ({}, *more)]
        yield path, filters, _sorts(keys)
    statuses: list[dict[str, str]] = [{}, {"status": "completed"}, {"status": "cancelled"}, {"status": "running"}]
    yield "/v1/orphan-scans", statuses, _sorts(queries.ORPHAN_SCAN_SORT_KEYS)


#: Orders that are combined with each filter.
_FEW: list[dict[str, str]] = [{"sort": "created_at:asc"}, {"sort": "project_id:desc"}]


def lists(known: Records) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the path and the query of each list, without limit and marker.

    Each filter is combined with a few orders, and each order with the first filter.
    """
    for path, filters, sorts in (*_deletions(known), *_numbered(known), *_expiring(known)):
        for n, each in enumerate(filters):
            for sort in sorts if n == 0 else [{}, *_FEW] if len(sorts) > 1 and "orphan" not in path else [{}]:
                yield path, {**each, **sort}


def one(known: Records) -> Iterator[str]:
    """Yield the path of each document that is not a list."""
    yield f"/v1/deletions/{known.deletion}"
    yield f"/v1/deletions/{known.parent}"
    yield f"/v1/plans/{known.plan}"
    yield f"/v1/orphan-scans/{known.scan}"


# ----------------------------------------------------------------------------------------------------------- last pages
_MARKERS = {"liens": tables.liens, "waivers": tables.waivers, "orphan-scans": tables.orphan_scans}
_NUMBERED = {
    "leftovers": (tables.leftovers, "deletion_id"),
    "resources": (tables.leftovers, "deletion_id"),
    "events": (tables.events, "deletion_id"),
    "orphans": (tables.orphans, "scan_id"),
}


def last(c: sa.Connection, known: Records, path: str, query: dict[str, str], limit: int) -> str | None:
    """Return the marker of the last page, without walking through all pages."""
    parts = path.split("/")
    if parts[-1] == "projects":
        column = tables.orphans.c.project_id
        found = sa.select(column).where(tables.orphans.c.scan_id == parts[3]).distinct().order_by(column.desc())
        project_id: str | None = c.execute(found.offset(limit).limit(1)).scalar()
        return project_id
    if path == "/v1/events":
        return None
    if path == "/v1/leftovers":  # the last ones that are listed: those of a dry run follow
        parts = ["", "", "", known.deletion, parts[-1]]
    if parts[-1] in _NUMBERED:
        table, owner = _NUMBERED[parts[-1]]
        rows = sa.select(table.c.id).where(table.c[owner] == parts[3]).order_by(table.c.id.desc())
        return str(c.execute(rows.offset(limit).limit(1)).scalar())
    table = _MARKERS.get(parts[-1], tables.deletions)
    sort = [part.partition(":") for part in query.get("sort", "created_at:desc").split(",")]
    order = Page(limit, None, tuple((name, way) for name, _, way in sort)).order
    reverse = (table.c[name].desc() if way == "asc" else table.c[name].asc() for name, way in order)
    same = {name: value for name, value in query.items() if name in table.c and value not in ("live", "true", "false")}
    rows = sa.select(table.c.id).where(*(table.c[name] == value for name, value in same.items())).order_by(*reverse)
    marker: str | None = c.execute(rows.offset(limit).limit(1)).scalar()
    return marker


# ------------------------------------------------------------------------------------------------------------- measures
@contextlib.contextmanager
def site(kind: str, size: int, types: int) -> Iterator[tuple[Requests, Records, Store]]:
    """Yield an application over a filled database."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(databases.filled(kind))
        store = Store.from_url(url, pool_size=THREADS, max_overflow=0)
        stack.callback(store.close)
        engine = store.database.engine
        known = fill(engine, size, types)
        if kind == "postgresql":
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
                c.exec_driver_sql("VACUUM ANALYZE")  # as autovacuum does
                # The time of parallel workers is not counted.
                c.exec_driver_sql(f"ALTER DATABASE {engine.url.database} SET max_parallel_workers_per_gather = 0")
            engine.dispose()
        keystone = _Keystone().stub
        stack.callback(keystone.close)
        build: Any = api_site.Site
        made = build(folder, url, keystone, _OPTIONS.format(log=folder / "api.log"), store)
        log.setup(made.conf, "cleanup-orchestrator")
        yield Requests(made.app, functools.partial(_backend, store)), known, store


def _backend(store: Store) -> float:
    """Return the seconds of processor time of the server's idle backends; 0 for SQLite."""
    if store.database.engine.dialect.name != "postgresql":
        return 0.0
    return sum(_nanoseconds(pid) for pid in _pids(store)) / 1e9


@functools.cache
def _pids(store: Store) -> tuple[int, ...]:
    """Return the process id of the only connection that one thread uses."""
    with store.database.engine.connect() as c:
        return (int(c.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()),)


def _nanoseconds(pid: int) -> int:
    try:
        return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    except OSError:  # the server runs on another host
        return 0


def pages(requests: Requests, known: Records, store: Store, limit: int | None) -> Iterator[tuple[str, float]]:
    """Yield each request with the processor time of its faster of two tries, in milliseconds."""
    with store.database.engine.connect() as c:
        wanted = []
        for path, query in lists(known):
            if limit is not None and len(query) > 1 and "sort" in query:
                continue
            given = {} if limit is None else {"limit": str(limit)}
            marker = last(c, known, path, query, limit or 100)
            wanted += [(path, {**query, **given})]
            wanted += [(path, {**query, **given, "marker": marker})] if marker is not None else []
        c.rollback()
    for path, query in wanted:
        url = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        yield url, min(requests.get(url)[0] for _ in range(2))
    if limit is None:
        for path in one(known):
            yield path, min(requests.get(path)[0] for _ in range(3))


def polls(requests: Requests, known: Records) -> Iterator[Figure]:
    """Measure status polls."""
    environs = [requests.environ(f"/v1/deletions/{id_}") for id_ in known.live]
    used = [requests.get(f"/v1/deletions/{id_}")[0] for id_ in known.live[:300]]
    yield Figure("a status poll: processor time, milliseconds", statistics.mean(used))
    waits: list[float] = []

    def poll(environ: dict[str, Any], due: float) -> None:
        requests.answer(environ)
        waits.append((time.monotonic() - due) * 1000)

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        for environ in environs[:THREADS]:  # each thread opens its connection
            pool.submit(requests.answer, environ)
    waits.clear()
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        begun = time.monotonic()
        for n in range(POLLS * SECONDS):
            due = begun + n / POLLS
            time.sleep(max(0.0, due - time.monotonic()))
            pool.submit(poll, environs[n % len(environs)], due)
    took = time.monotonic() - begun
    yield Figure("status polls: answered a second", len(waits) / took, POLLS * 0.99, at_least=True)
    yield Figure("status polls: 99th percentile, milliseconds", sorted(waits)[int(len(waits) * 0.99)], LATENCY)


def measure(kind: str = "sqlite", size: int = 100_000, types: int = 20, every: bool = False) -> Iterator[Figure]:
    """Measure every list and the polls."""
    with site(kind, size, types) as (requests, known, store):
        for limit, most in ((None, 8), (1000, 4)):
            found = sorted(pages(requests, known, store, limit), key=lambda each: -each[1])
            yield Figure(f"{len(found)} pages, {limit or 'default'} limit: median, ms", _median(found))
            yield Figure(f"of these, pages above {BOUND:g} ms", sum(took > BOUND for _url, took in found), 0)
            for url, took in found if every else found[:most]:
                yield Figure(_short(url), took, BOUND)
        yield from polls(requests, known)


def _median(found: Sequence[tuple[str, float]]) -> float:
    return statistics.median(took for _url, took in found)


def _short(url: str) -> str:
    """Return a URL without its version and ids."""
    query = [(k, v if k != "marker" else "(last page)") for k, v in urllib.parse.parse_qsl(url.partition("?")[2])]
    parts = [part for part in url.partition("?")[0].split("/")[2:] if len(part) != 36]
    shown = " ".join(f"{k}={v[:8] if len(v) == 36 or len(v) == 32 else v}" for k, v in query)
    return f"{'/'.join(parts)} {shown}".strip()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--size", type=int, default=100_000, help="records of each kind")
    parser.add_argument("--types", type=int, default=20, help="resource types of each deletion")
    parser.add_argument("--every", action="store_true", help="print every request")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.database, options.size, options.types, options.every)
    if options.json:
        for each in found:
            print(json.dumps(dataclasses.asdict(each)), flush=True)
        return
    print(figures.machine())
    print("\n".join(figures.table(found)))


if __name__ == "__main__":
    main()
