"""Mistral's API, engine, executor and event engine in one process, so that no RabbitMQ is needed between them.

The bus inside a process is enough for all that they send to each other.
"""

from __future__ import annotations

from mistral.wsgi import application  # isort: skip  # first: it sets up the threads and reads the configuration

from mistral.engine import engine_server
from mistral.event_engine import event_engine_server
from mistral.executors import executor_server

SERVERS = (executor_server, engine_server, event_engine_server)
for _server in SERVERS:
    _server.get_oslo_service().start()

__all__ = ["application"]
