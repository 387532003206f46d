"""The RabbitMQ that tests use: that of CLEANUP_TEST_RABBITMQ_URL, by default the one on loopback."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import urllib.parse
from typing import Any

import kombu
import pytest

RABBITMQ = os.environ.get("CLEANUP_TEST_RABBITMQ_URL") or "rabbit://guest:guest@127.0.0.1:5672/"


def connect(**options: Any) -> kombu.Connection:
    """Return a connection to the broker; kombu's name of the transport is amqp."""
    return kombu.Connection(RABBITMQ.replace("rabbit://", "amqp://", 1), **options)


def need_broker() -> None:
    """Skip the test if there is no broker. Where CI is set, fail it: CI must not skip a test silently."""
    try:
        with connect(connect_timeout=5) as connection:
            connection.connect()
    except Exception as error:  # whatever the driver raises
        why = f"no RabbitMQ to test with (set CLEANUP_TEST_RABBITMQ_URL): {error}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(why)


def listeners(exchange: str, part: str) -> int:
    """Return how many processes take the casts for ``engine`` or ``worker`` from the broker."""
    with connect() as connection:
        try:
            return int(connection.channel().queue_declare(f"{exchange}.{part}", passive=True).consumer_count)
        except connection.channel_errors:  # the queue does not exist yet
            return 0


class Wire:
    """A forwarder to the broker whose connections a test can cut."""

    def __init__(self) -> None:
        """Listen; ``url`` is the broker's, through here."""
        found = urllib.parse.urlsplit(RABBITMQ)
        self._target = (found.hostname or "127.0.0.1", found.port or 5672)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        who = f"{found.username}:{found.password}@" if found.username else ""
        self.url = f"{found.scheme}://{who}127.0.0.1:{port}{found.path or '/'}"
        self._ends: list[socket.socket] = []
        self._whole = True
        self.refused = 0  #: connections that were tried while it is cut
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            if not self._whole:
                here.close()
                self.refused += 1
                continue
            there = socket.create_connection(self._target)
            self._ends += [here, there]
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self._forward, args=(one, other), daemon=True).start()

    @staticmethod
    def _forward(one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        self._whole = False
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Accept connections again."""
        self._whole = True

    def close(self) -> None:
        """Close the forwarder."""
        self.cut()
        self._listener.close()
