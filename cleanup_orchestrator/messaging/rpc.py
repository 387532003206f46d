"""Topics, casts and endpoints on oslo.messaging. Only ids travel; a message is a hint to look into SQL."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

# futurist and oslo.service import eventlet where it is installed, and it warns of itself. Nothing of ours uses it.
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")

from oslo_service import backend as oslo_backend  # noqa: E402

# oslo.messaging brings oslo.service along, which would choose eventlet otherwise.
oslo_backend.register_backend_default_hook(lambda: oslo_backend.BackendType.THREADING)

import oslo_messaging  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_log import log  # noqa: E402

from cleanup_orchestrator.errors import CleanupError  # noqa: E402
from cleanup_orchestrator.monitoring import metrics  # noqa: E402

LOG = log.getLogger(__name__)

#: Since which version of the interface each method is there. A cast names its own method's version, and not the newest:
#: so a process of the release before takes all that it knows. What it does not know it drops, with a line in its log,
#: and the tick makes up for it. A method is never changed nor removed within a major version: it gets a successor.
METHODS = {"deletion": "1.0", "step": "1.0", "force": "1.1", "orphan_scan": "1.1", "orphan_scan_part": "1.1"}

#: What each of them is given, and nothing besides: an id.
_ARGUMENTS = {
    "deletion": {"deletion_id"},
    "step": {"step_id"},
    "force": {"deletion_id"},
    "orphan_scan": {"scan_id"},
    "orphan_scan_part": {"part_id"},
}
_ID = re.compile(r"[0-9A-Za-z-]{1,64}")
_VERSION = re.compile(r"\d{1,9}(\.\d{1,9})?")

#: What this release serves: the newest of the above.
VERSION = "1.1"

#: A cast that the broker does not take is tried once more: the tick makes up for it, and a user may be waiting for it.
_RETRY = 1
#: Seconds for which the one question of this bus waits for its answer: a user waits for it, too.
_ANSWER = 30
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

    def force(self, deletion_id: str) -> Mapping[str, str] | None:
        """Ask a worker on which types force may be used; see ``Worker.force``. ``None``: no answer came."""

    def orphan_scan(self, scan_id: str) -> None:
        """Tell an engine to look at an orphan scan."""

    def orphan_scan_part(self, part_id: str) -> None:
        """Tell a worker to take a part of an orphan scan."""


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

    def force(self, deletion_id: str) -> Mapping[str, str] | None:
        """Call, and wait for the answer: the only call that there is, for it changes nothing and answers a user."""
        client = self._worker.prepare(version=METHODS["force"], timeout=_ANSWER)
        try:
            answer = client.call({}, "force", deletion_id=deletion_id)
        except Exception as error:  # whatever the driver raises, or the worker raised
            LOG.warning("call force %s failed: %s: %s", deletion_id, type(error).__name__, error)
            return None
        return answer if isinstance(answer, Mapping) else None  # a worker of the release before drops it

    def orphan_scan(self, scan_id: str) -> None:
        """Cast; see :meth:`deletion`."""
        self._cast(self._engine, "orphan_scan", scan_id=scan_id)

    def orphan_scan_part(self, part_id: str) -> None:
        """Cast; see :meth:`deletion`."""
        self._cast(self._worker, "orphan_scan_part", part_id=part_id)

    @staticmethod
    def _cast(client: Any, method: str, **ids: str) -> None:
        try:
            client.prepare(version=METHODS[method]).cast({}, method, **ids)
        except Exception as error:  # whatever the driver raises: SQL has it, and the tick will look
            metrics.CASTS_FAILED.inc()
            LOG.warning("cast %s %s failed, the next tick takes it up: %s", method, ids, error)


def _ignore(_id: str) -> None:
    """Leave it to the tick."""


class EngineEndpoint:
    """Receives casts for engines."""

    target = oslo_messaging.Target(version=VERSION)

    def __init__(self, handle: Callable[[str], None], scan: Callable[[str], None] = _ignore) -> None:
        self._handle, self._scan = handle, scan

    def deletion(self, context: dict[str, Any], deletion_id: str) -> None:
        """Look at a deletion."""
        self._handle(deletion_id)

    def orphan_scan(self, context: dict[str, Any], scan_id: str) -> None:
        """Look at an orphan scan."""
        self._scan(scan_id)


class WorkerEndpoint:
    """Receives casts for workers."""

    target = oslo_messaging.Target(version=VERSION)

    def __init__(
        self,
        handle: Callable[[str], None],
        force: Callable[[str], Mapping[str, str]],
        scan_part: Callable[[str], None] = _ignore,
    ) -> None:
        self._handle, self._force, self._scan_part = handle, force, scan_part

    def force(self, context: dict[str, Any], deletion_id: str) -> Mapping[str, str]:
        """Say on which types force may be used."""
        return self._force(deletion_id)

    def step(self, context: dict[str, Any], step_id: str) -> None:
        """Take a step."""
        self._handle(step_id)

    def orphan_scan_part(self, context: dict[str, Any], part_id: str) -> None:
        """Take a part of an orphan scan."""
        self._scan_part(part_id)


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


class _Dispatcher(oslo_messaging.RPCDispatcher):  # type: ignore[misc]  # oslo.messaging has no types
    """Drops what it does not understand, with one line, and not with a trace: the tick makes up for what it was."""

    def dispatch(self, incoming: Any) -> Any:
        """Have the endpoint's method called."""
        if why := _nonsense(incoming.message):
            LOG.warning("a message that makes no sense is dropped: %s", why)
            return None
        try:
            if (method := incoming.message["method"]) not in _ARGUMENTS:  # an endpoint has other attributes, too
                raise oslo_messaging.NoSuchMethod(method)
            return super().dispatch(incoming)
        except (oslo_messaging.NoSuchMethod, oslo_messaging.UnsupportedVersion) as error:
            LOG.warning("a message of another release is dropped, the next tick takes it up: %s", error)
            return None


def _nonsense(message: Any) -> str:
    """Return what is wrong with a message that no release sends; empty: nothing.

    None of its words is said again: whoever sent it could write lines into the log with them.
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
    if method not in _ARGUMENTS or version.partition(".")[0] != VERSION.partition(".")[0]:
        return ""  # another release's, which is said in other words
    if set(arguments) != _ARGUMENTS[method]:
        return f"{method} has other arguments than {', '.join(_ARGUMENTS[method])}"
    if not all(isinstance(value, str) and _ID.fullmatch(value) for value in arguments.values()):
        return f"{method} has no id"
    return ""
