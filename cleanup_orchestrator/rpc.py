"""Topics, casts and endpoints on oslo.messaging. Only ids travel; a message is a hint to look into SQL."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol

# futurist and oslo.service import eventlet where it is installed, and it warns of itself. Nothing of ours uses it.
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")

from oslo_service import backend as oslo_backend  # noqa: E402

# oslo.messaging brings oslo.service along, which would choose eventlet otherwise.
oslo_backend.register_backend_default_hook(lambda: oslo_backend.BackendType.THREADING)

import oslo_messaging  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_log import log  # noqa: E402

from cleanup_orchestrator import metrics  # noqa: E402
from cleanup_orchestrator.errors import CleanupError  # noqa: E402

LOG = log.getLogger(__name__)

#: Since which version of the interface each method is there. A cast names its own method's version, and not the newest:
#: so a process of the release before takes all that it knows. What it does not know it drops, with a line in its log,
#: and the tick makes up for it. A method is never changed nor removed within a major version: it gets a successor.
METHODS = {"deletion": "1.0", "step": "1.0"}

#: What this release serves: the newest of the above.
VERSION = "1.0"

#: A cast that the broker does not take is tried once more: the tick makes up for it, and a user may be waiting for it.
_RETRY = 1
#: A notification has nobody who waits for it, and nothing that makes up for it.
_NOTIFICATION_RETRY = 5

oslo_messaging.set_transport_defaults("cleanup_orchestrator")


class BrokerUnavailable(CleanupError):
    """The broker does not answer, or does not let us in."""

    code = "broker_unavailable"


def topic(conf: cfg.ConfigOpts, part: str) -> str:
    """Return the topic of the engines or of the workers.

    A queue has the topic's name, whatever its exchange: two orchestrators on one virtual host, each with its own
    ``control_exchange``, would take each other's messages if the topic did not name it.
    """
    return f"{conf.control_exchange}.{part}"


class Bus(Protocol):
    """What the API, the engine and the workers say to each other. Delivery is not promised, nor needed."""

    def deletion(self, deletion_id: str) -> None:
        """Tell an engine to look at a deletion."""

    def step(self, step_id: str) -> None:
        """Tell a worker to take a step."""


class Caster:
    """The bus over an oslo.messaging transport."""

    def __init__(self, transport: Any) -> None:
        self._engine, self._worker = (
            oslo_messaging.get_rpc_client(
                transport, oslo_messaging.Target(topic=topic(transport.conf, part), version=VERSION), retry=_RETRY
            )
            for part in ("engine", "worker")
        )

    def deletion(self, deletion_id: str) -> None:
        """Cast; a broker that is down costs time (the tick finds it), not the caller's work."""
        self._cast(self._engine, "deletion", deletion_id=deletion_id)

    def step(self, step_id: str) -> None:
        """Cast; see :meth:`deletion`."""
        self._cast(self._worker, "step", step_id=step_id)

    @staticmethod
    def _cast(client: Any, method: str, **ids: str) -> None:
        try:
            client.prepare(version=METHODS[method]).cast({}, method, **ids)
        except Exception as error:  # whatever the driver raises: SQL has it, and the tick will look
            metrics.CASTS_FAILED.inc()
            LOG.warning("cast %s %s failed, the next tick takes it up: %s", method, ids, error)


class EngineEndpoint:
    """Receives casts for engines."""

    target = oslo_messaging.Target(version=VERSION)

    def __init__(self, handle: Callable[[str], None]) -> None:
        self._handle = handle

    def deletion(self, context: dict[str, Any], deletion_id: str) -> None:
        """Look at a deletion."""
        self._handle(deletion_id)


class WorkerEndpoint:
    """Receives casts for workers."""

    target = oslo_messaging.Target(version=VERSION)

    def __init__(self, handle: Callable[[str], None]) -> None:
        self._handle = handle

    def step(self, context: dict[str, Any], step_id: str) -> None:
        """Take a step."""
        self._handle(step_id)


def transport(conf: cfg.ConfigOpts, in_process: bool = False) -> Any:
    """Return the transport that ``transport_url`` names, or the in-process bus of the all-in-one process."""
    return oslo_messaging.get_rpc_transport(conf, url="fake://" if in_process else None)


def notifications(conf: cfg.ConfigOpts, exchange: str, topic_: str, endpoint: Any) -> Any:
    """Return a server that takes the notifications of another service's exchange; start it with its number of threads.

    Its queue is shared by all who ask for the same topic, so each notification is taken by one of them.
    """
    transport_ = oslo_messaging.get_notification_transport(conf)
    targets = [oslo_messaging.Target(exchange=exchange, topic=topic_)]
    return oslo_messaging.get_notification_listener(transport_, targets, [endpoint], "threading", allow_requeue=True)


def notifier(conf: cfg.ConfigOpts, publisher_id: str) -> Any:
    """Return what sends notifications, by the driver and to the topics of ``[oslo_messaging_notifications]``.

    With a bounded number of tries, whatever ``retry`` there says: its default is for ever. ``None``: no driver is
    chosen, or none that sends anything.
    """
    transport_ = oslo_messaging.get_notification_transport(conf)
    if not any(name not in ("", "noop") for name in conf.oslo_messaging_notifications.driver):
        return None
    retry = conf.oslo_messaging_notifications.retry
    return oslo_messaging.Notifier(
        transport_, publisher_id, retry=_NOTIFICATION_RETRY if retry < 0 else min(retry, _NOTIFICATION_RETRY)
    )


def check(transport_: Any) -> None:
    """Say something that nobody listens to: a server would wait for its broker for ever, with nothing but log lines.

    :raises BrokerUnavailable: when the broker does not take it
    """
    target = oslo_messaging.Target(topic=topic(transport_.conf, "hello"), version=VERSION)
    try:
        oslo_messaging.get_rpc_client(transport_, target, retry=0).cast({}, "hello")
    except Exception as error:  # whatever the driver raises
        raise BrokerUnavailable(f"[DEFAULT] transport_url: {type(error).__name__}: {error}") from error


def server(transport_: Any, part: str, host: str, endpoint: Any) -> Any:
    """Return a server that takes a part's casts round-robin with the others; start it with its number of threads."""
    target = oslo_messaging.Target(topic=topic(transport_.conf, part), server=host, version=VERSION)
    made = oslo_messaging.get_rpc_server(transport_, target, [endpoint])
    made.dispatcher = _Dispatcher([endpoint], None)
    return made


def leave(server_: Any) -> None:
    """Take no further cast, and let the broker have back what it has sent us and we have not read.

    ``stop`` alone stays subscribed until ``wait`` returns. Until then, with a long step under way, the broker would go
    on giving us our share of the casts, and nobody would take them. What listens for notifications has to stay: it
    still acknowledges what it is working on.
    """
    server_.stop()
    if isinstance(server_, oslo_messaging.rpc.server.RPCServer):
        server_.listener.cleanup()


class _Dispatcher(oslo_messaging.RPCDispatcher):
    """Says in one line, and not with a trace, that it dropped what only another release understands."""

    def dispatch(self, incoming: Any) -> Any:
        """Have the endpoint's method called."""
        try:
            return super().dispatch(incoming)
        except (oslo_messaging.NoSuchMethod, oslo_messaging.UnsupportedVersion) as error:
            LOG.warning("a message of another release is dropped, the next tick takes it up: %s", error)
            return None
