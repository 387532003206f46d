"""The HTTP server: a client that reads slowly, or not at all, holds neither a thread nor a connection for good."""

import contextlib
import http.client
import socket
import threading
import time

import pytest

from cleanup_orchestrator.http_server import Server
from tests.support.timing import wait

LARGE = 5_000_000  #: bytes of an answer that no buffer of the kernel takes as a whole
THREADS = 4
PATIENCE = 2.0
PROMPT = 5.0  #: seconds in which everybody else is answered, on a machine with much to do
LARGE_REQUEST = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"


def application(environ, start):
    body = b"x" * LARGE if environ["PATH_INFO"] == "/large" else environ["PATH_INFO"].encode()
    start("200 OK", [("Content-Length", str(len(body)))])
    return [body]


@pytest.fixture
def server():
    made = Server("127.0.0.1", 0, application, THREADS, PATIENCE, 100)
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    made.stop()
    thread.join()


@pytest.fixture
def port(server):
    return server._listeners[0].effective_port


def asked(port):
    """Seconds until somebody else is answered."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"/"
    return time.monotonic() - began


def connections(server):
    return len(server._listeners[0].active_channels)


@pytest.mark.parametrize("requests", [1, 20])
def test_who_does_not_read_the_answer_keeps_nobody_waiting_and_is_sent_away(server, port, requests):
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(3 * THREADS)]
    try:
        for client in clients:
            client.sendall(LARGE_REQUEST * requests)
        wait("all are answered", lambda: connections(server) == len(clients), 10)
        assert max(asked(port) for _ in range(5)) < PROMPT
        wait("all are sent away", lambda: connections(server) == 0, 30)
    finally:
        for client in clients:
            client.close()


def test_who_reads_gets_all_of_it(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        for _ in range(3):  # one after the other on one connection
            connection.request("GET", "/large")
            assert len(connection.getresponse().read()) == LARGE


@pytest.mark.parametrize("before", [b"", b"\r\n", b"\r\n\r\n"])
def test_of_requests_that_come_at_once_the_first_is_answered_and_the_connection_closed(port, before):
    """Each is to have an answer that is read before the next one is made."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as client:
        client.sendall(before + b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(3)))
        heard = b""
        while piece := client.recv(65536):
            heard += piece
    assert heard.count(b"HTTP/1.1 200") == 1 and b"Connection: close" in heard and heard.endswith(b"/0")


def test_a_request_that_comes_during_an_answer_is_answered_afterwards(port):
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as client:
        client.sendall(LARGE_REQUEST)
        heard = client.recv(1)
        client.sendall(b"GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        while piece := client.recv(1 << 20):
            heard += piece
    assert heard.count(b"HTTP/1.1 200") == 2 and heard.endswith(b"/next")
