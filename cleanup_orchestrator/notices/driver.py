"""The base of the drivers that send notices: what is sent, and what the journal says about it.

A driver is one of oslo.messaging's notifier (entry point ``oslo.messaging.notify.drivers``). oslo.messaging gives it
every notification of the orchestrator. It sends those that ``[notices] events`` names from a thread of its own, so that
a receiver that hangs delays no other notification. A notice that is sent, or that fails, is a line of the journal. It
holds nothing.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import queue
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import tenacity
from oslo_log import log
from oslo_messaging.notify import notifier

from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.redact import redact, short
from cleanup_orchestrator.messaging.background import Background
from cleanup_orchestrator.messaging.notifications import PREFIX
from cleanup_orchestrator.notices.options import GROUP
from cleanup_orchestrator.store import Store

LOG = log.getLogger(__name__)

#: Seconds before the second try, doubled before each further one.
_PAUSE = 1.0


class NoticeFailed(Exception):
    """A notice could not be sent. The text says why, and what to do."""

    def __init__(self, text: str, again: bool = False) -> None:
        super().__init__(text)
        self.again = again  #: whether another try can succeed


@dataclasses.dataclass(frozen=True, slots=True)
class Notice:
    """One notification about a deletion that is sent to people or programs."""

    event: str  #: the last part of the event type
    #: As oslo.messaging sends it: ``event_type``, ``payload``, ``timestamp``, ``message_id``.
    message: Mapping[str, Any]

    @property
    def payload(self) -> Mapping[str, Any]:
        """What the notification says of the deletion; see the manual (``admin/monitoring``)."""
        payload: Mapping[str, Any] = self.message["payload"]
        return payload


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """To whom a notice was sent."""

    to: tuple[str, ...]
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)  #: why, by recipient


def wanted(message: Mapping[str, Any], events: Sequence[str]) -> Notice | None:
    """Return the notice of a notification; ``None``: there is none.

    :param events: those that the operator wants
    """
    prefix, _, event = str(message["event_type"]).rpartition(".")
    if prefix != PREFIX or event not in events or message["payload"]["dry_run"]:
        return None
    return Notice(event, message)


class NoticeDriver(notifier.Driver, abc.ABC):  # type: ignore[misc] # oslo.messaging has no type information
    """Sends notices. A subclass sends one."""

    by: ClassVar[str]  #: what sends, in the journal

    def __init__(self, conf: Any, topics: Any, transport: Any) -> None:
        super().__init__(conf, topics, transport)
        self.options = conf[GROUP]
        self.background = Background(f"notices by {self.by}")
        self._stores: list[Store] = []

    @abc.abstractmethod
    def send(self, notice: Notice, store: Store) -> Sent:
        """Send a notice once.

        :raises NoticeFailed: it was not sent
        """

    def notify(self, ctxt: Any, msg: Mapping[str, Any], priority: str, retry: int) -> None:
        """Send a notification if the operator wants a notice of it; oslo.messaging calls this."""
        notice = wanted(msg, self.options.events)
        if notice is None:
            return
        try:
            self.background.put(functools.partial(self._deliver, notice))
        except queue.Full:
            LOG.error("no notice by %s of %s: too many are waiting", self.by, notice.message["event_type"])

    def _deliver(self, notice: Notice) -> None:
        """Send a notice, and write the result to the journal. An error is only logged."""
        try:
            store = self._store()
            event = self._sent(notice, store)
            store.note(notice.payload["deletion_id"], event)
        except Exception as error:
            LOG.error("a notice by %s of %s: %s", self.by, notice.message["event_type"], redact(str(error)))

    def _store(self) -> Store:
        """Return a store of its own: oslo.messaging gives a driver nothing but the configuration."""
        if not self._stores:
            self._stores.append(Store.from_conf(self.conf))
        return self._stores[0]

    def _sent(self, notice: Notice, store: Store) -> Event:
        """Send a notice, with further tries if they can succeed; return the line for the journal."""
        data = {"by": self.by, "event": notice.event}
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.options.tries),
            wait=tenacity.wait_exponential(_PAUSE),
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, NoticeFailed) and error.again),
            reraise=True,
            sleep=self.pause,
        )
        try:
            sent: Sent = retrying(self.send, notice, store)
        except NoticeFailed as failed:
            why = short(redact(str(failed)), 500)
            LOG.warning("notice of %s by %s failed: %s", notice.event, self.by, why)
            return Event(EventType.NOTICE_FAILED, f"notice of '{notice.event}' by {self.by} failed: {why}", data=data)
        text = f"notice of '{notice.event}' by {self.by} to {', '.join(sent.to)}"
        text += "".join(f"; refused for {who}: {why}" for who, why in sent.refused.items())
        return Event(EventType.NOTICE_SENT, text, data={**data, "to": list(sent.to), "refused": dict(sent.refused)})

    pause: Callable[[float], None] = staticmethod(tenacity.nap.sleep)
