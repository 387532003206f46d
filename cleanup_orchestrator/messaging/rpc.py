"""Topics, casts and endpoints on oslo.messaging.

A message has only ids: it tells its receiver to read a record of the database. Delivery is not needed, because the
engines also look for due records periodically (the tick).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator import compat
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.monitoring import metrics

with compat.without_eventlet():
    import oslo_messaging

LOG = log.getLogger(__name__)

#: The version of the interface. Within a major version a method is neither changed nor removed. A release that adds a
#: method increases the minor version, and the casts of that method alone name it: so a process of the release before
#: accepts every method that it has. It drops others with a log line, and the tick does the work later.
VERSION = "1.0"

#: Method: its argument, an id or a list of ids.
METHODS = {"decide": "id", "steps": "ids", "force": "id"}

_ID = re.compile(r"[0-9A-Za-z-]{1,64}")
_VERSION = re.compile(r"\d{1,9}(\.\d{1,9})?")

#: Retries of a cast. A user may wait for it, and the tick does its work later.
_RETRY = 1
#: Seconds that a call waits for its answer. A user waits for it, too.
_ANSWER = 30
#: Retries of a notification. No user waits for it, and nothing repeats it later.
_NOTIFICATION_RETRY = 5

oslo_messaging.set_transport_defaults("cleanup_orchestrator")


class BrokerUnavailable(CleanupError):
    """The broker does not answer, or refuses the connection."""

    code = "broker_unavailable"


def topic(conf: cfg.ConfigOpts, part: str) -> str:
    """Return the topic of the engines or of the workers.

    The name of a queue is its topic, whatever its exchange. The topic contains ``control_exchange``, because otherwise
    two orchestrators on one virtual host would receive each other's messages.
    """
    return f"{conf.control_exchange}.{part}"


class Bus(Protocol):
    """The messages between the API, the engines and the workers.

    Delivery is neither guaranteed nor needed.
    """

    def decide(self, id_: str) -> None:
        """Tell an engine to decide on a deletion or an orphan scan."""

    def steps(self, ids: Sequence[str]) -> None:
        """Tell a worker to claim steps, one after the other."""

    def force(self, id_: str) -> Mapping[str, str] | None:
        """Ask a worker for which types force may be used for a deletion; see ``Worker.force``.

        ``None``: there was no answer.
        """


class Caster:
    """The bus over an oslo.messaging transport."""

    def __init__(self, transport: Any) -> None:
        self._engine, self._worker = (
            oslo_messaging.get_rpc_client(
                transport, oslo_messaging.Target(topic=topic(transport.conf, part), version=VERSION), retry=_RETRY
            )
            for part in ("engine", "worker")
        )

    def decide(self, id_: str) -> None:
        """Cast. If the broker is down, the tick finds the record later."""
        self._cast(self._engine, "decide", id_)

    def steps(self, ids: Sequence[str]) -> None:
        """Cast; see :meth:`decide`."""
        self._cast(self._worker, "steps", list(ids))

    def force(self, id_: str) -> Mapping[str, str] | None:
        """Call a worker and wait for the answer.

        This is the only call: it changes nothing, and a user waits for it.
        """
        try:
            answer = self._worker.prepare(timeout=_ANSWER).call({}, "force", id=id_)
        except Exception as error:  # any error of the driver or of the worker
            LOG.warning("call force %s failed: %s: %s", id_, type(error).__name__, error)
            return None
        return answer if isinstance(answer, Mapping) else None  # a worker that drops the message returns None

    @staticmethod
    def _cast(client: Any, method: str, given: str | list[str]) -> None:
        try:
            client.cast({}, method, **{METHODS[method]: given})
        except Exception as error:  # any error of the driver: the tick finds the record
            metrics.CASTS_FAILED.inc()
            LOG.warning("cast %s %s failed, the next tick finds the record: %s", method, given, error)


class EngineEndpoint:
    """Receives casts for engines."""

    target = oslo_messaging.Target(version=VERSION)

    def __init__(self, handle: Callable[[str], None]) -> None:
        self._handle = handle

    def decide(self, context: dict[str, Any], id: str) -> None:
        """Decide on a deletion or an orphan scan."""
        self._handle(id)


class WorkerEndpoint:
    """Receives casts for workers."""

    target = oslo_messaging.Target(version=VERSION)

    def __init__(self, handle: Callable[..., None], force: Callable[[str], Mapping[str, str]]) -> None:
        """Create the endpoint.

        :param handle: does steps one after the other, given their ids
        :param force: see :meth:`Bus.force`
        """
        self._handle, self._force = handle, force

    def force(self, context: dict[str, Any], id: str) -> Mapping[str, str]:
        """Return for which types force may be used."""
        return self._force(id)

    def steps(self, context: dict[str, Any], ids: list[str]) -> None:
        """Claim steps, one after the other."""
        self._handle(*ids)


def transport(conf: cfg.ConfigOpts, in_process: bool = False) -> Any:
    """Return the transport that ``transport_url`` names, or the in-process bus."""
    compat.register_global_options(conf)
    return oslo_messaging.get_rpc_transport(conf, url="fake://" if in_process else None)


def transport_url(conf: cfg.ConfigOpts) -> Any:
    """Return ``transport_url`` as parsed.

    :raises oslo_messaging.InvalidTransportURL: when it is not valid
    """
    return oslo_messaging.TransportURL.parse(conf)


def notifications(conf: cfg.ConfigOpts, exchange: str, topic_: str, endpoint: Any) -> Any:
    """Return a server that receives the notifications of another service.

    Start it with its number of threads. All servers with the same topic share one queue, so that one of them receives
    each notification.
    """
    transport_ = oslo_messaging.get_notification_transport(conf)
    targets = [oslo_messaging.Target(exchange=exchange, topic=topic_)]
    return oslo_messaging.get_notification_listener(transport_, targets, [endpoint], "threading", allow_requeue=True)


def notifier(conf: cfg.ConfigOpts, publisher_id: str) -> Any:
    """Return the notifier that ``[oslo_messaging_notifications]`` configures.

    The number of retries is limited, because the default of ``retry`` is unlimited. ``None``: no driver is configured,
    or none that sends.
    """
    transport_ = oslo_messaging.get_notification_transport(conf)
    if not any(name not in ("", "noop") for name in conf.oslo_messaging_notifications.driver):
        return None
    retry = conf.oslo_messaging_notifications.retry
    return oslo_messaging.Notifier(
        transport_, publisher_id, retry=_NOTIFICATION_RETRY if retry < 0 else min(retry, _NOTIFICATION_RETRY)
    )


def check(transport_: Any) -> None:
    """Send a message without a receiver, to check that the broker accepts it.

    A server would wait for it for ever.

    :raises BrokerUnavailable: when the broker does not accept it
    """
    target = oslo_messaging.Target(topic=topic(transport_.conf, "hello"), version=VERSION)
    try:
        oslo_messaging.get_rpc_client(transport_, target, retry=0).cast({}, "hello")
    except Exception as error:  # any error of the driver
        raise BrokerUnavailable(f"[DEFAULT] transport_url: {type(error).__name__}: {error}") from error


def server(transport_: Any, part: str, host: str, endpoint: Any) -> Any:
    """Return a server for engines or workers, which share the casts.

    Start it with its number of threads.
    """
    compat.poll_less_often()
    target = oslo_messaging.Target(topic=topic(transport_.conf, part), server=host, version=VERSION)
    return oslo_messaging.rpc.server.RPCServer(transport_, target, _Dispatcher([endpoint], None))


def leave(server_: Any) -> None:
    """Stop receiving casts, and return unread ones to the broker.

    A notification listener stays subscribed: it still acknowledges its notifications.
    """
    if isinstance(server_, oslo_messaging.rpc.server.RPCServer):
        compat.unsubscribe(server_)
    else:
        server_.stop()


class _Dispatcher(oslo_messaging.RPCDispatcher):  # type: ignore[misc]  # oslo.messaging has no types
    """Drops messages that it does not understand, with one log line."""

    def dispatch(self, incoming: Any) -> Any:
        """Call the method of the endpoint."""
        if why := _invalid(incoming.message):
            LOG.warning("dropped an invalid message: %s", why)
            return None
        try:
            if (method := incoming.message["method"]) not in METHODS:  # an endpoint has other attributes
                raise oslo_messaging.NoSuchMethod(method)
            return super().dispatch(incoming)
        except (oslo_messaging.NoSuchMethod, oslo_messaging.UnsupportedVersion) as error:
            LOG.warning("dropped a message of another release, the next tick finds the record: %s", error)
            return None


def _invalid(message: Any) -> str:
    """Return why a message is invalid in every release; empty: it is valid.

    The text does not quote the message, because its sender could forge log lines.
    """
    if not isinstance(message, Mapping):
        return "it is no object"
    method, arguments, version = message.get("method"), message.get("args", {}), message.get("version", "1.0")
    if not isinstance(method, str) or not _ID.fullmatch(method.replace("_", "-")):
        return "it names no method"
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        return "its version is none"
    if not isinstance(arguments, Mapping):
        return "its arguments are no object"
    if method not in METHODS or version.partition(".")[0] != VERSION.partition(".")[0]:
        return ""  # of another release: the caller reports it
    name = METHODS[method]
    if set(arguments) != {name}:
        return f"{method} has other arguments than {name}"
    ids = arguments[name] if name == "ids" else [arguments[name]]
    if not isinstance(ids, list) or not ids or not all(isinstance(id_, str) and _ID.fullmatch(id_) for id_ in ids):
        return f"{method} has no id"
    return ""
