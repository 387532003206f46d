"""A store, the notifier of oslo.messaging with the drivers, a receiver of webhooks, and an SMTP server."""

import dataclasses
import time

import oslo_messaging
import pytest
from oslo_config import cfg

from cleanup_orchestrator import opts
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.messaging import background, notifications, rpc
from cleanup_orchestrator.notices import driver
from cleanup_orchestrator.store import Store, tables
from tests.support.notices import Mailbox, Receiver, mailbox_at
from tests.unit import world


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def mailbox():
    yield from mailbox_at(Mailbox())


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
