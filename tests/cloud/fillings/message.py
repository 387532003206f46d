"""Zaqar: queues with messages, claims and subscriptions."""

from __future__ import annotations

from typing import Any

from tests.cloud.fillings.base import Filling, Rest, client

CLIENT = {"Client-ID": "3381af92-2b9e-11e3-b191-71861300734c"}


def zaqar(connection: Any) -> Rest:
    """Return a client of Zaqar."""
    return client(connection, "message", **CLIENT)


def queues(f: Filling) -> None:
    """More than a page of them. Some have metadata."""
    rest = zaqar(f.filled.connection)
    for number in range(12):
        body = {"description": "orders"} if number else {}
        rest.call("PUT", f"/queues/orders-{number:02}", body)
        f.note("queue", f"orders-{number:02}")


def messages(f: Filling) -> None:
    """One of them is claimed."""
    rest = zaqar(f.filled.connection)
    body = {"messages": [{"ttl": 3600, "body": number} for number in range(3)]}
    made = rest.call("POST", "/queues/orders-01/messages", body)["resources"]
    f.note("message", *(path.rpartition("/")[2] for path in made))
    rest.call("POST", "/queues/orders-01/claims", {"ttl": 300, "grace": 300}, params={"limit": 1})


def subscriptions(f: Filling) -> None:
    """More than a page, to an address and by mail; one acts through a trust."""
    rest = zaqar(f.filled.connection)
    targets = [f"http://127.0.0.1:9/{number}" for number in range(12)] + ["mailto:nobody@example.org"]
    for target in (*targets, "trust+http://127.0.0.1:9/"):
        body = {"subscriber": target, "ttl": 3600, "options": {}}
        f.note("subscription", rest.call("POST", "/queues/orders-02/subscriptions", body)["subscription_id"])
    body = {"subscriber": "http://127.0.0.1:9/", "ttl": 3600, "options": {}}
    f.note("subscription", rest.call("POST", "/queues/orders-11/subscriptions", body)["subscription_id"])


KINDS = (queues, messages, subscriptions)
