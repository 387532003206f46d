"""A receiver of webhooks and an SMTP server, whose answers a test chooses."""

from __future__ import annotations

import dataclasses
import http.server
import threading
from collections.abc import Iterator
from typing import Any

from aiosmtpd.controller import Controller

from tests.support import ports

SECRET = "0123456789abcdef" * 2
PORTS = range(31000, 31400)


@dataclasses.dataclass
class Receiver:
    """A receiver of webhooks. ``answers``: the statuses of the next answers; the last one stays; ``None``: it hangs."""

    answers: list[int | None] = dataclasses.field(default_factory=lambda: [204])
    heard: list[tuple[str, dict[str, str], bytes]] = dataclasses.field(default_factory=list)
    let_go: threading.Event = dataclasses.field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.heard.append((self.path, dict(self.headers), body))
                status = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                if status is None:
                    outer.let_go.wait(30)
                    return
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"{outer.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.let_go.set()
        self.server.shutdown()
        self.server.server_close()


@dataclasses.dataclass
class Mailbox:
    """What an SMTP server does: it refuses some recipients, or breaks off after some mails."""

    mails: list[Any] = dataclasses.field(default_factory=list)
    refused: set[str] = dataclasses.field(default_factory=set)
    most: int = 1000
    port: int = 0

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address in self.refused:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if len(self.mails) >= self.most:
            server.transport.close()
            return "421 bye"
        self.mails.append(envelope)
        return "250 OK"


def mailbox_at(mailbox: Mailbox) -> Iterator[Mailbox]:
    """Serve a mailbox on a port of its own."""
    mailbox.port = ports.reserve(PORTS, 1)
    controller = Controller(mailbox, hostname="127.0.0.1", port=mailbox.port)
    controller.start()
    yield mailbox
    controller.stop()
