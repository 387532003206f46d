"""The costs of a client for the API and the monitoring port: endless requests, and slow clients."""

import contextlib
import http.client
import json
import pathlib
import re
import socket
import threading
import time

import pytest

from tests.functional.processes import Keystone, Processes
from tests.support.brokers import need_broker

pytestmark = pytest.mark.real

MIB = 1024 * 1024
#: Seconds that the tests give a client; the API's default is 20.
PATIENCE = 4
THREADS = 16
SLOW = 100  #: slow clients
PROMPT = 5.0  #: seconds within which other clients get their answers, on a busy machine


@pytest.fixture
def api(tmp_path):
    need_broker()
    keystone = Keystone()
    made = Processes(tmp_path, keystone)
    port = f"port = {made.port}\n"
    limits = f"threads = {THREADS}\nclient_timeout = {PATIENCE}\n"
    made.configuration.write_text(made.configuration.read_text().replace(port, port + limits, 1))
    child = made.start("api")
    yield made, child
    made.close()
    keystone.close()


def peak(child):
    """The most memory that the process has had, in MiB."""
    status = pathlib.Path(f"/proc/{child.popen.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def pour(port, head, unit, mib):
    """Send a beginning, and then this number of MiB of the same; return the answer, if there was one."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as client:
        piece = unit * (MIB // len(unit))
        try:
            client.sendall(head)
            for _ in range(mib):
                client.sendall(piece)
        except OSError:
            pass  # the server closed the connection
        try:
            return client.recv(65536)
        except OSError:
            return b""


def asked(port, path="/"):
    """Return the seconds until another client has its answer."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    assert connection.getresponse().status == 200
    connection.close()
    return time.monotonic() - began


TOO_MUCH = {
    "one header": (b"GET / HTTP/1.1\r\nX-Long: ", b"x"),
    "many headers": (b"GET / HTTP/1.1\r\n", b"X-Many: x\r\n"),
    "the request's line": (b"GET /", b"x"),
    "the body": (b"POST /v1/deletions HTTP/1.1\r\nHost: a\r\nContent-Length: 10737418240\r\n\r\n", b"x"),
    "chunks": (b"POST /v1/deletions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", b"8\r\nxxxxxxxx\r\n"),
}


@pytest.mark.parametrize("where", ["api", "monitoring"])
def test_no_request_fills_the_memory(api, where):
    processes, child = api
    port = processes.port if where == "api" else processes.metrics
    asked(port, "/" if where == "api" else "/healthcheck")
    before = peak(child)
    for name, (head, unit) in TOO_MUCH.items():
        answer = pour(port, head, unit, 300)
        print(f"{where}, 300 MiB of {name}: {peak(child) - before:.1f} MiB more, {answer[:40]!r}")
        status = int(answer.split()[1]) if answer else None
        assert status in (None, 400, 413, 431)  # none: the connection was closed before the answer could be read
        if status:
            (error,) = json.loads(answer.partition(b"\r\n\r\n")[2])["errors"]
            assert (error["status"], error["request_id"][:4]) == (status, "req-")
    assert peak(child) - before < 20


def dripping(port, head):
    """A client that sends a byte every half second, also after an answer."""
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall(head)
    return client


SLOWLY = {
    "the head": b"GET / HTTP/1.1\r\nX-Slow: ",
    "the body": b"POST /v1/deletions HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("where", ["api", "monitoring"])
@pytest.mark.parametrize("what", SLOWLY)
def test_slow_clients_delay_no_other_and_are_disconnected(api, where, what):
    processes, _child = api
    port = processes.port if where == "api" else processes.metrics
    path = "/" if where == "api" else "/healthcheck"
    asked(port, path)
    clients = [dripping(port, SLOWLY[what]) for _ in range(SLOW)]
    over = threading.Event()

    def drip():
        while not over.wait(0.5):
            for client in clients if what != "nothing" else ():
                with contextlib.suppress(OSError):
                    client.send(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        waits = [asked(port, path) for _ in range(5)]
        print(f"{where}, {SLOW} clients slow with {what}: others waited {max(waits):.2f} s")
        assert max(waits) < PROMPT
        began = time.monotonic()
        heard = {client.recv(100)[:12] for client in clients}
        print(f"sent away after {time.monotonic() - began:.1f} s with {heard}")
    finally:
        over.set()
        thread.join()
        for client in clients:
            client.close()
    assert heard == {b"" if what == "nothing" else b"HTTP/1.1 408"}
