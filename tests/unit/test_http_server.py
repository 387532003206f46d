"""The HTTP server: the number of connections, clients that are late, and what a stop waits for."""

import socket
import threading

import pytest

from cleanup_orchestrator import http_server
from cleanup_orchestrator.http_server import Limits, Server, _Channel
from tests.support.timing import wait


def answer(_environ, start):
    start("200 OK", [("Content-Length", "0")])
    return []


def test_a_server_takes_no_more_connections_than_it_may():
    made = Server("127.0.0.1", 0, answer, Limits(1, 60.0, 3))
    thread = threading.Thread(target=made.serve)
    thread.start()
    (listener,) = made._listeners
    clients = [socket.create_connection(("127.0.0.1", listener.effective_port)) for _ in range(30)]
    try:
        wait("it takes no more", lambda: not listener.readable() or len(listener.active_channels) == len(clients), 60)
        assert 3 <= len(listener.active_channels) <= 13  # waitress counts its own sockets, too
        for client in clients[:-1]:
            client.close()
        clients[-1].sendall(b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        clients[-1].settimeout(60)
        assert clients[-1].recv(1 << 16).startswith(b"HTTP/1.1 200")
    finally:
        for client in clients:
            client.close()
        made.stop()
        thread.join()


ANSWER, REQUEST = ["an answer"], "a request"


class Connection:
    """What a channel of waitress knows of its connection."""

    def __init__(self, **values):
        self.total_outbufs_len, self.request, self.awaited, self.awaited_since = 0, None, None, 0.0
        self.outbufs, self.requests, self.close_when_flushed, self.will_close = ANSWER, [], False, False
        self.said = []
        self.__dict__.update(values)

    def handle_close(self):
        self.said.append("closed")

    def _refuse(self):
        self.said.append("408")


CONNECTIONS = {
    "idle": ({}, []),
    "an answer that begins to wait": ({"total_outbufs_len": 1}, []),
    "an answer that begins to wait after its request": (
        {"total_outbufs_len": 1, "awaited": REQUEST, "awaited_since": 1.0},
        [],
    ),
    "an answer that waits": ({"total_outbufs_len": 1, "awaited": ANSWER, "awaited_since": 90.0}, []),
    "an answer that waits too long": ({"total_outbufs_len": 1, "awaited": ANSWER, "awaited_since": 89.9}, ["closed"]),
    "an answer that was read after a while": ({"awaited": ANSWER, "awaited_since": 1.0}, []),
    "a request that begins to arrive": ({"request": REQUEST}, []),
    "a request that arrives": ({"request": REQUEST, "awaited": REQUEST, "awaited_since": 90.0}, []),
    "a request that arrives too slowly": ({"request": REQUEST, "awaited": REQUEST, "awaited_since": 89.9}, ["408"]),
    "a request that begins after another one": ({"request": REQUEST, "awaited": "other", "awaited_since": 1.0}, []),
    "a request that is answered": ({"awaited": REQUEST, "awaited_since": 1.0}, []),
    "a request behind one that is answered": (
        {"request": REQUEST, "awaited": REQUEST, "awaited_since": 1.0, "requests": [1]},
        [],
    ),
    "a request behind one that was refused": (
        {"request": REQUEST, "awaited": REQUEST, "awaited_since": 1.0, "close_when_flushed": True},
        [],
    ),
    "a connection that waitress found idle": ({"will_close": True}, ["closed"]),
}


@pytest.mark.parametrize("name", CONNECTIONS)
def test_a_connection_is_closed_if_its_client_is_late(name):
    values, said = CONNECTIONS[name]
    connection = Connection(**values)
    _Channel.end_if_late(connection, 100.0, 10.0)
    assert connection.said == said
    assert connection.awaited == (ANSWER if connection.total_outbufs_len else connection.request)


LARGE = 20_000_000  #: bytes that exceed every buffer


def test_a_server_that_stops_completes_the_answer_that_it_has_begun():
    entered, go = threading.Event(), threading.Event()

    def large(_environ, start):
        entered.set()
        assert go.wait(60)
        start("200 OK", [("Content-Length", str(LARGE))])
        return [bytes(LARGE)]

    made = Server("127.0.0.1", 0, large, Limits(1, 600.0, 3, stop_patience=600.0))
    thread = threading.Thread(target=made.serve)
    thread.start()
    (listener,) = made._listeners
    with socket.create_connection(("127.0.0.1", listener.effective_port), timeout=60) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert entered.wait(60)
        made.stop()
        wait("it listens no more", lambda: not listener.accepting, 60)
        go.set()
        heard = b""
        while piece := client.recv(1 << 20):
            heard += piece
    thread.join()
    assert len(heard.partition(b"\r\n\r\n")[2]) == LARGE


def test_a_server_that_stops_waits_for_no_idle_connection():
    made = Server("127.0.0.1", 0, answer, Limits(1, 600.0, 3))
    (listener,) = made._listeners
    with socket.create_connection(("127.0.0.1", listener.effective_port)):
        wait("the connection is there", lambda: made._poll(0.1) or listener.active_channels, 60)
        assert not made._busy()
    made.stop()
    made.serve()


def test_an_error_of_one_connection_does_not_end_the_server(monkeypatch, caplog):
    def fails(*_):
        raise RuntimeError("a defect of one connection")

    made = Server("127.0.0.1", 0, answer, Limits(1, 600.0, 3))
    with monkeypatch.context() as patch:
        patch.setattr(http_server.wasyncore, "loop", fails)
        made._poll(0.0)
    assert "error on a connection" in caplog.text
    made.stop()
    made.serve()
