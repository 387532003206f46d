"""A cloud whose Keystone sends notifications over a real RabbitMQ, and an orchestrator that listens."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

from tests.cloud.conftest import free_port_base
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import Orchestrator
from tests.support.brokers import RABBITMQ, need_broker

LISTENING = """
[oslo_messaging_notifications]
transport_url = {url}
[oslo_messaging_rabbit]
amqp_auto_delete = true
[keystone_notifications]
listen = true
topic = {topic}
exchange = {topic}
[service_image]
delete_community_images = true
"""


@contextlib.contextmanager
def listening(
    folders, cloud_venv, notification_format: str, *services: str, options: str = ""
) -> Iterator[tuple[Cloud, Orchestrator]]:
    """A cloud whose Keystone notifies in this format, and an orchestrator that listens."""
    need_broker()
    topic = f"cleanup_test_{uuid.uuid4().hex[:8]}"
    keystone = {
        "DEFAULT": {"notification_format": notification_format, "control_exchange": topic},
        "oslo_messaging_notifications": {
            "driver": "messagingv2",
            "topics": topic,
            "transport_url": RABBITMQ,
            "retry": 3,
        },
        "oslo_messaging_rabbit": {"amqp_auto_delete": "true"},
    }
    made = Cloud(
        folders.mktemp("noisy"),
        cloud_venv,
        port_base=free_port_base(),
        services=services,
        extra_config={"keystone": keystone},
    )
    with made:
        extra = LISTENING.format(url=RABBITMQ, topic=topic) + options
        orchestrator = Orchestrator(made, folders.mktemp("listening"), extra)
        yield made, orchestrator
        orchestrator.running.close()
