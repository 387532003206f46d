"""The HTTP server: the costs of hostile and slow clients, and the answers of the server itself."""

import contextlib
import http.client
import json
import logging
import select
import socket
import subprocess
import sys
import threading
import time

import pytest
from waitress import utilities
from waitress.adjustments import Adjustments

from cleanup_orchestrator.http_server import ERRORS, MAX_BODY, MAX_HEAD, Limits, Server, _Request
from tests.support.timing import wait

LARGE = 5_000_000  #: bytes of an answer that exceeds every buffer of the kernel
THREADS = 4
PATIENCE = 2.0
PROMPT = 5.0  #: seconds within which other clients get their answers, on a busy machine
LARGE_REQUEST = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"
RECV = 8192  #: bytes that waitress reads at once
CPU = 1.0  #: seconds of CPU time that one request may take; waitress alone takes 6 to 252 for the worst ones


def application(environ, start):
    if environ["PATH_INFO"] == "/broken":
        raise RuntimeError("this application is broken")
    body = b"x" * LARGE if environ["PATH_INFO"] == "/large" else environ["PATH_INFO"].encode()
    start("200 OK", [("Content-Length", str(len(body)))])
    return [body]


@pytest.fixture
def server():
    made = Server("127.0.0.1", 0, application, Limits(THREADS, PATIENCE, 100))
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    made.stop()
    thread.join()


@pytest.fixture
def port(server):
    return server._listeners[0].effective_port


def asked(port):
    """Return the seconds until another client has its answer."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"/"
    return time.monotonic() - began


def connections(server):
    return len(server._listeners[0].active_channels)


def test_a_server_that_has_noticed_the_stop_and_closed_leaves_the_caller_of_the_stop_alone(server):
    class Noticed(threading.Event):
        """A stop that the server has noticed, and closed upon, before the caller goes on."""

        def set(self):
            super().set()
            wait("the server has closed", lambda: not server._map, 10)

    server._stop = Noticed()
    server.stop()


@pytest.mark.parametrize("requests", [1, 20])
def test_a_client_that_does_not_read_its_response_delays_no_other_and_is_disconnected(server, port, requests):
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


def test_a_client_that_reads_gets_the_whole_response(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        for _ in range(3):  # one after the other on one connection
            connection.request("GET", "/large")
            assert len(connection.getresponse().read()) == LARGE


@pytest.mark.parametrize("before", [b"", b"\r\n", b"\r\n\r\n"])
def test_of_requests_that_come_at_once_the_first_is_answered_and_the_connection_closed(port, before):
    """The client reads each answer before it sends the next request."""
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


def parsed(data, step=RECV):
    """Feed a request to the parser in pieces; return the parser, and the seconds of CPU time that it took."""
    request = _Request(Adjustments(max_request_header_size=MAX_HEAD, max_request_body_size=MAX_BODY))
    began = time.process_time()
    at = 0
    while at < len(data) and not request.completed:
        at += request.received(data[at : at + step])
    return request, time.process_time() - began


def status(request):
    """Return the status of the error that the parser found, or none."""
    return request.error.code if request.error else None


def filled(before, unit, after):
    """Return a head that is a few bytes shorter than the largest one."""
    return before + unit * ((MAX_HEAD - 100 - len(before) - len(after)) // len(unit)) + after


LINE, END = b"GET / HTTP/1.1\r\n", b"\r\n\r\n"
HOSTILE_HEADS = {
    "a host of digits, then a part too many": (filled(b"GET a://", b"1", b" x HTTP/1.1" + END), 400),
    "a host of digits": (filled(b"GET a://", b"1", b" HTTP/1.1" + END), None),
    "a method without an end": (filled(b"", b"A", END), 400),
    "percent signs": (filled(b"GET /", b"%", b" HTTP/1.1" + END), None),
    "brackets": (filled(b"GET http://", b"[", b" HTTP/1.1" + END), 400),
    "blanks, then a control character": (filled(LINE + b"A:", b" ", b"\0" + END), 400),
    "tabs, then a control character": (filled(LINE + b"A:", b"\t ", b"\0" + END), 400),
    "blanks, then a value": (filled(LINE + b"A:", b" ", b"x" + END), None),
    "blanks between two values": (filled(LINE + b"A: x", b" ", b"x" + END), None),
    "a value, then blanks, then a control character": (filled(LINE + b"A: x", b" ", b"\0" + END), 400),
    "words, then a control character": (filled(LINE + b"A:", b" x", b"\0" + END), 400),
    "words": (filled(LINE + b"A:", b" x", END), None),
    "a name without an end": (filled(LINE, b"A", END), 400),
    "folded lines": (filled(LINE + b"A: x\r\n", b" \r\n", b"\r\n"), 400),
    "the same header": (filled(LINE, b"A:\r\n", b"\r\n"), None),
    "digits of a length": (filled(LINE + b"Content-Length: ", b"1", END), 400),
    "transfer codings": (filled(LINE + b"Transfer-Encoding: ", b"chunked,", END), None),
}


@pytest.mark.parametrize("name", HOSTILE_HEADS)
def test_no_head_costs_much_cpu_time(name):
    """The thread that parses a head holds the GIL: while it does, the process answers no other client."""
    head, expected = HOSTILE_HEADS[name]
    request, took = parsed(head)
    print(f"{name}: {took:.3f} s, {status(request)}")
    assert took < CPU
    assert status(request) == expected


CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
HOSTILE_CHUNKS = {
    "a chunk's size": CHUNKED + b"0" * MAX_BODY,
    "a chunk's extension": CHUNKED + b"1;" + b"a" * MAX_BODY,
    "trailers": CHUNKED + b"0\r\n" + b"A: x\r\n" * (MAX_BODY // 6),
}


@pytest.mark.parametrize("name", HOSTILE_CHUNKS)
def test_no_chunk_that_comes_byte_by_byte_costs_much_cpu_time(name):
    request, took = parsed(HOSTILE_CHUNKS[name], 1)
    print(f"{name}: {took:.3f} s, {status(request)}")
    assert took < CPU
    assert status(request) == 400


@pytest.mark.parametrize("step", [1, RECV])
def test_chunks_with_an_extension_and_a_trailer_are_joined(step):
    """A chunk has no limit but the body's; a control line and a trailer of some KiB are accepted."""
    line = b"2710;name=" + b"x" * 4000 + b"\r\n"
    trailer = b"Checksum: " + b"x" * 4000 + END
    request, _took = parsed(CHUNKED + (line + b"y" * 10000 + b"\r\n") * 3 + b"0\r\n" + trailer, step)
    assert (request.completed, status(request)) == (True, None)
    assert request.get_body_stream().read() == b"y" * 30000


def test_the_blanks_around_a_value_are_no_part_of_it():
    request, _took = parsed(
        LINE + b"A: \t x  y\t \r\nB:x\r\nC:\r\nD: \t \r\na: z\r\nE: \xe9\r\nContent-Length:  2 " + END + b"ok"
    )
    assert (request.completed, status(request)) == (True, None)
    assert request.headers == {"A": "x  y, z", "B": "x", "C": "", "D": "", "E": "\xe9", "CONTENT_LENGTH": "2"}
    assert request.get_body_stream().read() == b"ok"


@pytest.mark.parametrize("line", [b"GET / HTTP/1.0", b"OPTIONS * HTTP/1.1", b"GET http://a:1/b?c=%20d HTTP/1.1"])
def test_a_request_line_is_accepted(line):
    assert status(parsed(line + END)[0]) is None


REFUSED = {
    "no version": b"GET /" + END,
    "another version": b"GET / HTTP/2.0" + END,
    "a blank too many": b"GET  / HTTP/1.1" + END,
    "a part too many": b"GET / / HTTP/1.1" + END,
    "a lower-case method": b"get / HTTP/1.1" + END,
    "a path that is not quoted": b"GET /\xe9 HTTP/1.1" + END,
    "a control character in the path": b"GET /\x0b HTTP/1.1" + END,
    "a blank before the colon": LINE + b"A : x" + END,
    "no name": LINE + b": x" + END,
    "no colon": LINE + b"A" + END,
    "a folded value": LINE + b"A: x\r\n y" + END,
    "a control character": LINE + b"A: x\x1fy" + END,
    "DEL": LINE + b"A: \x7f" + END,
    "a line feed alone": LINE + b"A: x\nB: y" + END,
    "a carriage return alone": LINE + b"A: x\rB: y" + END,
    "a host in half a bracket": b"GET http://[ HTTP/1.1" + END,
    "a length of 5000 digits": LINE + b"Content-Length: " + b"1" * 5000 + END,
    "two lengths": LINE + b"Content-Length: 1\r\nContent-Length: 1" + END,
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_malformed_head_is_refused(name):
    request, _took = parsed(REFUSED[name])
    assert (request.completed, status(request)) == (True, 400)
    assert isinstance(request.path, str)  # waitress logs it when the client leaves before the answer


def answered(port, data, more=b""):
    """Send bytes, and some more each half second; return the status, the headers and the error of the answer."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as client:
        client.sendall(data)
        while not select.select([client], [], [], 0.5)[0]:
            client.send(more)
        answer = http.client.HTTPResponse(client)
        answer.begin()
        (error,) = json.loads(answer.read())["errors"]
        assert client.recv(1) == b""  # the server closes the connection
    return answer.status, answer.headers, error


OWN_ANSWERS = {
    "no HTTP": (b"no HTTP" + END, 400, "bad_request", "this is not an HTTP request"),
    "half a head": (b"GET / HTTP/1.1\r\n", 408, "request_timeout", "did not arrive in time"),
    "a large body": (LINE + b"Content-Length: %d" % MAX_BODY + END, 413, "body_too_large", "body is larger"),
    "a large head": (
        *(LINE + b"A" * (MAX_HEAD - len(LINE)), 431),
        *("request_header_fields_too_large", "headers are larger"),
    ),
    "a broken application": (b"GET /broken HTTP/1.1" + END, 500, "internal_error", "log of the server"),
    "a transfer coding": (LINE + b"Transfer-Encoding: gzip" + END, 501, "not_implemented", "Transfer-Encoding"),
}


@pytest.mark.parametrize("name", OWN_ANSWERS)
def test_the_answers_of_the_server_itself_are_kept_out_of_caches_and_say_what_is_wrong(port, name):
    data, expected, code, detail = OWN_ANSWERS[name]
    status, headers, error = answered(port, data, b"x" if expected == 408 else b"")
    assert status == error["status"] == expected
    assert error["code"] == code
    assert detail in error["detail"]
    assert (headers["Cache-Control"], headers["Vary"]) == ("no-store", "X-Auth-Token, OpenStack-API-Version")
    assert headers["Content-Type"] == "application/json"


def test_every_error_of_waitress_has_a_code():
    kinds, found = [utilities.Error], set()
    for kind in kinds:
        kinds += kind.__subclasses__()
        found.add(kind.code)
    assert found <= {*ERRORS}


@pytest.mark.parametrize("expect", [b"", b"\r\nExpect: 100-continue"])
@pytest.mark.parametrize("name", ["a host in half a bracket", "a length of 5000 digits", "two lengths"])
def test_a_malformed_head_is_answered_and_logs_no_error(port, caplog, name, expect):
    data = REFUSED[name].removesuffix(END) + expect + END
    began = time.monotonic()
    assert answered(port, data)[0] == 400
    assert time.monotonic() - began < PATIENCE
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


def test_a_request_that_is_there_is_answered_though_it_expects_100(port):
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as client:
        client.sendall(LINE + b"Expect: 100-continue\r\nConnection: close" + END)
        heard = b""
        while piece := client.recv(65536):
            heard += piece
    assert heard.startswith(b"HTTP/1.1 200")


LIMITED = """
import resource, sys
from cleanup_orchestrator.http_server import Limits, Server
soft, hard, connections = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    Server("127.0.0.1", 0, None, Limits(1, 1.0, connections)).stop()
except OSError as error:
    print(error)
else:
    print("listens with", *resource.getrlimit(resource.RLIMIT_NOFILE))
"""
LIMITS = {
    "enough": ((400, 500, 100), "listens with 400 500"),
    "enough when raised": ((300, 400, 100), "listens with 400 400"),
    "too few": ((300, 355, 100), "100 connections need 356 open files, but this process may open only 355:"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_server_needs_as_many_open_files_as_its_connections(name):
    limits, expected = LIMITS[name]
    command = [sys.executable, "-c", LIMITED, *map(str, limits)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert child.stdout.startswith(expected), child.stderr
    print(child.stdout)
