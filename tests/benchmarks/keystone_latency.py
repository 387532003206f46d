"""Measures what the filter and the fence cost Keystone, in pairs of requests to a stock Keystone and to one with both.

    CLEANUP_CLOUD_VENV=... python -m tests.benchmarks.keystone_latency [--pairs 2000]

Each Keystone is one process. Both run at the same time on the same machine, over databases of the same content. The
requests are sent one after the other. The order within a pair alternates, so that other load on the machine and the
contents of its caches affect both. The result is the median of the differences within pairs. On a busy machine the
processor time of a request is more useful. Reading the fences takes the same processor time per second for any number
of requests. The benchmark measures it first, without requests, and subtracts it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import pathlib
import statistics
import tempfile
import time
import urllib.parse
from collections.abc import Callable

from tests.cloud.conftest import free_port_base
from tests.cloud.launcher import Cloud
from tests.cloud.services import STOCK_KEYSTONE

ROOT = pathlib.Path(__file__).parents[2]
PATCHED_KEYSTONE = "cleanup_orchestrator.keystone.wsgi:application"
FENCES = 50  #: number of fenced projects during the measurement, which is the number of deletions under way
Ask = Callable[[], None]


class Client:
    """One connection to one Keystone, kept open, and the two requests."""

    def __init__(self, cloud: Cloud) -> None:
        (self._process,) = cloud.children.running()
        self.background = 0.0  #: milliseconds of processor time per second without requests
        self._url = urllib.parse.urlsplit(cloud.auth_url)
        self._connection = http.client.HTTPConnection(str(self._url.hostname), self._url.port)
        admin = {"name": "admin", "domain": {"id": "default"}, "password": cloud.site.password}
        scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
        identity = {"methods": ["password"], "password": {"user": admin}}
        self._login = json.dumps({"auth": {"identity": identity, "scope": scope}}).encode()
        token = self._call("POST", self._login, 201).getheader("X-Subject-Token")
        self._validation = {"X-Auth-Token": str(token), "X-Subject-Token": str(token)}

    def _call(self, method: str, body: bytes | None, expected: int, **headers: str) -> http.client.HTTPResponse:
        headers["Content-Type"] = "application/json"
        self._connection.request(method, f"{self._url.path}/auth/tokens", body, headers)
        answer = self._connection.getresponse()
        answer.read()
        if answer.status != expected:
            raise SystemExit(f"{method} /auth/tokens: {answer.status}")
        return answer

    def processor(self) -> float:
        """Milliseconds of processor time that this Keystone has taken, its threads included."""
        fields = pathlib.Path(f"/proc/{self._process.popen.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def reconnect(self) -> None:
        """Open a new connection for the next request: the server closes connections after a minute without requests."""
        self._connection.close()

    def validate(self) -> None:
        self._call("GET", None, 200, **self._validation)

    def login(self) -> None:
        self._call("POST", self._login, 201)


def measure(what: str, stock: Client, patched: Client, verb: str, pairs: int) -> None:
    """Send the requests to both and print the times."""
    for client in (stock, patched):
        client.reconnect()
    asks: list[Ask] = [getattr(client, verb) for client in (stock, patched)]
    compare(asks[0], asks[1], pairs // 10)  # the first ones warm up
    before, began = [client.processor() for client in (stock, patched)], time.monotonic()
    times = compare(asks[0], asks[1], pairs)
    seconds = time.monotonic() - began
    took = [
        (client.processor() - since - client.background * seconds) / pairs
        for client, since in zip((stock, patched), before, strict=True)
    ]
    report(what, *times)
    print(f"{'':18} processor {took[0]:.3f} ms stock, {took[1]:.3f} ms patched: {(took[1] / took[0] - 1) * 100:+.2f} %")


def timed(ask: Ask) -> float:
    """Return the milliseconds that one request takes."""
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000


def compare(stock: Ask, patched: Ask, pairs: int) -> tuple[list[float], list[float]]:
    """Return the times of both, pair by pair."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(pairs):
        order = (0, 1) if number % 2 else (1, 0)
        pair = [0.0, 0.0]
        for which in order:
            pair[which] = timed((stock, patched)[which])
        for which in order:
            times[which].append(pair[which])
    return times


def report(what: str, stock: list[float], patched: list[float]) -> None:
    """Print medians and the difference."""
    base = statistics.median(stock)
    paired = statistics.median(b - a for a, b in zip(stock, patched, strict=True))
    p95 = [statistics.quantiles(times, n=20)[-1] for times in (stock, patched)]
    print(
        f"{what:18} median {base:7.3f} ms stock, {statistics.median(patched):7.3f} ms patched; p95 {p95[0]:7.3f}, "
        f"{p95[1]:7.3f}; within pairs {paired * 1000:+6.0f} µs = {paired / base * 100:+.2f} % ({len(stock)} pairs)",
        flush=True,
    )


def main() -> None:
    """Start both, measure, stop both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    venv = os.environ.get("CLEANUP_CLOUD_VENV") or ROOT / ".tox" / "cloud"
    with tempfile.TemporaryDirectory() as directory:
        clouds = [
            Cloud(
                pathlib.Path(directory, name),
                venv,
                port_base=free_port_base(),
                services=(),
                keystone_module=module,
                cleanup_user="cleanup-orchestrator",
                python_path=(str(ROOT),),
            )
            for name, module in (("stock", STOCK_KEYSTONE), ("same", STOCK_KEYSTONE), ("patched", PATCHED_KEYSTONE))
        ]
        stock, same, patched = clouds
        with stock, same, patched:
            for cloud in clouds:
                for number in range(FENCES):
                    fence = {"options": {"cleanup_fence": "a-deletion"}} if cloud is patched else {}
                    body = {"project": {"name": f"fenced-{number}", "domain_id": "default", **fence}}
                    cloud.admin.call("POST", "/projects", body)
            a, same_again, b = Client(stock), Client(same), Client(patched)
            for name, client in (("stock", a), ("patched", b)):
                client.validate()  # the process begins to read the fences at the first request
                since = client.processor()
                time.sleep(10)
                client.background = (client.processor() - since) / 10
                print(f"{name}: {client.background / 10:.2f} % of a processor without requests", flush=True)
            for _ in range(options.rounds):
                for what, verb, pairs in (
                    ("validation", "validate", options.pairs),
                    ("password login", "login", options.pairs // 4),
                ):
                    measure(what, a, b, verb, pairs)
                    measure("  stock twice", a, same_again, verb, pairs)  # what chance alone makes of it


if __name__ == "__main__":
    main()
