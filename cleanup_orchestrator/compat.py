"""What this package changes in libraries past their documented interfaces, each with the reason.

A new release of a library can break each function. "Hooks in libraries" in the documentation names the promises that
rest on such a change. The subclasses of waitress are in ``http_server``, so that only a process that listens imports
waitress. For the same reason this module imports each library where it uses it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

#: Seconds of the first wait for the next message; oslo.messaging doubles it up to five seconds until one arrives.
_POLL = 0.1


@contextlib.contextmanager
def without_eventlet() -> Iterator[None]:
    """Import oslo.messaging in this block, so that it uses threads and does not import eventlet.

    oslo.service requires eventlet and would choose it, and eventlet warns when it is imported. futurist, oslo.utils and
    oslo.messaging import eventlet only if it is installed, and its import takes 0.15 s. ``None`` in the module cache
    lets the imports find none (Python's import system, "The module cache"). oslo.service before 4.2 cannot do without
    eventlet: then eventlet is imported, and patches nothing.
    """
    from oslo_service import backend

    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    choose = getattr(backend, "register_backend_default_hook", None)
    hidden = choose is not None and "eventlet" not in sys.modules
    if hidden:
        sys.modules["eventlet"] = None  # type: ignore[assignment]
    try:
        if choose is not None:
            choose(lambda: backend.BackendType.THREADING)
        yield
    finally:
        if hidden:
            del sys.modules["eventlet"]  # others may import it


def register_global_options(conf: Any) -> None:
    """Register the options that oslo.messaging reads from the configuration of a transport at each message.

    It registers these in ``cfg.CONF`` alone, and no list of options has them. A command with a configuration of its own
    could send nothing (``NoSuchOptError``).
    """
    for name in ("metrics", "tracing"):
        group = f"oslo_messaging_{name}"
        module = sys.modules.get(f"oslo_messaging._{name}.client")  # a release without it needs no such option
        if options := getattr(module, group, None):
            conf.register_opts(options, group=group)


def poll_less_often() -> None:
    """Let a server of oslo.messaging wait longer for the next message, before it looks what else it has to do.

    The driver for RabbitMQ waits for 1 ms after each message, then 2 ms, and so on, to send the acknowledgements that
    other threads have left to it. A server for casts leaves none: it acknowledges a message when it receives it. With
    many small steps these waits take a fifth of the processor time of a worker. A message ends a wait at once. Only the
    acknowledgement of a notification waits for so long.
    """
    driver = sys.modules.get("oslo_messaging._drivers.amqpdriver")  # none: the transport is another one
    if hasattr(driver, "ACK_REQUEUE_EVERY_SECONDS_MIN"):
        driver.ACK_REQUEUE_EVERY_SECONDS_MIN = _POLL  # type: ignore[union-attr]


def unsubscribe(server: Any) -> None:
    """Stop a server of oslo.messaging, and return unread messages to the broker.

    ``stop`` alone stays subscribed until ``wait`` returns. During a long step the broker would send this process more
    casts, and they would wait.
    """
    server.stop()
    server.listener.cleanup()


def forget_context() -> None:
    """Leave this thread without a context. oslo.context can only replace one."""
    from oslo_context import context

    context._request_store.context = None


@functools.cache
def service_types() -> Any:
    """Return the names of the service types, which never change.

    openstacksdk asks for them 29 times for each service of each connection, and each time copies all names of all
    services: 80 % of the time that a connection takes.
    """
    from os_service_types import ServiceTypes

    names = ServiceTypes()
    copied = names.get_all_types
    names.get_all_types = functools.cache(lambda service_type: tuple(copied(service_type)))
    return names


def share_service_types(config: Any) -> None:
    """Give the configuration of a connection of openstacksdk the names that all connections share.

    They have no session, no token, no guard and no project.
    """
    config._service_type_manager = service_types()


def bind(client: Any, connection: Any) -> None:
    """Tell a client of openstacksdk its connection.

    ``Connection`` does so for its own clients. Others raise without it: ``Proxy._get_connection``.
    """
    client._connection = connection


def with_catalog(access: Any, catalog: Sequence[Any]) -> Any:
    """Return what keystoneauth knows of a token, with another catalog.

    ``AccessInfoV3`` is made of the body of Keystone's answer, and does not give the body out.
    """
    from keystoneauth1 import access as ka_access

    body = access._data
    token = {**body["token"], "catalog": catalog}
    return ka_access.AccessInfoV3(auth_token=access.auth_token, body={**body, "token": token})


def content_types(handler: Any) -> list[str]:
    """Return the content types that a handler of pecan returns; pecan keeps what ``expose`` was told."""
    return list(handler._pecan["content_types"])


def insert_many_rows(engine: Any) -> None:
    """Let SQLAlchemy send an INSERT of many rows as one statement if it returns nothing, too.

    The dialect of psycopg sends such an INSERT row by row in a pipeline, and PostgreSQL does not count a session as
    idle during a pipeline.
    """
    engine.dialect.use_insertmanyvalues_wo_returning = True
