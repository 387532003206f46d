"""A store, the notifier of oslo.messaging with the drivers, a receiver of webhooks, and an SMTP server."""

import dataclasses
import http.server
import threading
import time

import oslo_messaging
import pytest
from aiosmtpd.controller import Controller
from oslo_config import cfg

from cleanup_orchestrator import opts
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.messaging import background, notifications, rpc
from cleanup_orchestrator.notices import driver
from cleanup_orchestrator.store import Store, tables
from tests.support import ports
from tests.unit import world

PORTS = range(31000, 31400)
SECRET = "0123456789abcdef" * 2


@dataclasses.dataclass
class Receiver:
    """A receiver of webhooks. ``answers``: the statuses of the next answers; the last one stays; ``None``: it hangs."""

    answers: list = dataclasses.field(default_factory=lambda: [204])
    heard: list = dataclasses.field(default_factory=list)
    let_go: threading.Event = dataclasses.field(default_factory=threading.Event)

    def __post_init__(self):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
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

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.let_go.set()
        self.server.shutdown()
        self.server.server_close()


@dataclasses.dataclass
class Mailbox:
    """What an SMTP server does: it refuses some recipients, or breaks off after some mails."""

    mails: list = dataclasses.field(default_factory=list)
    refused: set = dataclasses.field(default_factory=set)
    most: int = 1000

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address in self.refused:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if len(self.mails) >= self.most:
            server.transport.close()
            return "421 bye"
        self.mails.append(envelope)
        return "250 OK"


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def mailbox():
    made = Mailbox()
    made.port = ports.reserve(PORTS, 1)
    controller = Controller(made, hostname="127.0.0.1", port=made.port)
    controller.start()
    yield made
    controller.stop()


@dataclasses.dataclass
class Site:
    """A process that announces: its store, and the notifier that the configuration names."""

    conf: cfg.ConfigOpts
    store: Store

    def start(self, **options):
        """Configure the drivers and begin to announce."""
        for name, value in options.items():
            self.conf.set_override(name, value, group="notices")
        self.announcer = notifications.Announcer(rpc.notifier(self.conf, "project_cleanup.here"), self.store.steps)
        self.store.on_commit(self.announcer)
        return self

    def request(self, **values):
        """Record a deletion, which is the notice ``accepted``."""
        return self.store.create(world.deletion(**values), TASKS, Event("deletion.accepted", "test"))

    def journal(self, deletion, number=1):
        """Return the lines about notices, once there are some."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            rows = [r.event for r in self.store.events(deletion.id, 100) if r.event.type.startswith("notice.")]
            if len(rows) >= number:
                return rows
            time.sleep(0.02)
        raise AssertionError(f"no {number} notices in the journal")


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setattr(driver.NoticeDriver, "pause", staticmethod(lambda _seconds: None))
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([])
    oslo_messaging.get_notification_transport(conf)
    conf.set_override("driver", ["cleanup_webhook"], group="oslo_messaging_notifications")
    conf.set_override("connection", f"sqlite:///{tmp_path}/n.sqlite", group="database")
    store = Store.from_conf(conf)
    tables.metadata.create_all(store.database.engine)
    made = Site(conf, store)
    yield made
    background.close_all(5)
    store.close()
