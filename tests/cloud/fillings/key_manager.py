"""Barbican: secrets, containers, orders, and a quota."""

from __future__ import annotations

import datetime
import time
import uuid
from typing import Any

from tests.cloud.fillings.base import FillError, Filling

TEXT = {"payload_content_type": "text/plain"}


def make(f: Filling, collection: str, body: dict[str, Any]) -> str:
    """Create something with a name, once; the id is the end of its reference."""
    known = f.secrets.call("GET", f"/{collection}", params={"name": body["name"], "limit": 100})[collection]
    key = f"{collection.removesuffix('s')}_ref"
    named = [item for item in known if item.get("name") == body["name"]]  # containers ignore the filter
    reference = named[0][key] if named else f.secrets.call("POST", f"/{collection}", body)[key]
    return reference.rsplit("/", 1)[1]


def secret(f: Filling, suffix: str, **attributes: Any) -> str:
    return f.note("secret", make(f, "secrets", {"name": f"{f.name}-{suffix}", **attributes}))


def reference(f: Filling, secret_id: str) -> str:
    """Return the reference of a secret in bodies of Barbican."""
    return f.secrets.call("GET", f"/secrets/{secret_id}")["secret_ref"]


def plain_secrets(f: Filling) -> None:
    secret(f, "password", payload="open sesame", **TEXT)
    secret(f, "announced")  # metadata alone: the payload was to come later


def private_secret(f: Filling) -> None:
    """Only its creator may read it."""
    secret_id = secret(f, "private", payload="private", **TEXT)
    f.secrets.call("PUT", f"/secrets/{secret_id}/acl", {"read": {"project-access": False, "users": [f.filled.user_id]}})


def consumed_secret(f: Filling) -> None:
    """A service has registered as a consumer of the secret."""
    secret_id = secret(f, "consumed", payload="in use", **TEXT)
    consumer = {"service": "image", "resource_type": "image", "resource_id": str(uuid.uuid4())}
    f.secrets.call("POST", f"/secrets/{secret_id}/consumers", consumer)


def expiring_secret(f: Filling) -> None:
    """An expired secret is in no list, but still in the database."""
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=f.expiring_in)
    secret(f, "expiring", payload="soon gone", expiration=until.strftime("%Y-%m-%dT%H:%M:%S"), **TEXT)


def containers(f: Filling) -> None:
    refs = [{"name": "password", "secret_ref": reference(f, f.first("secret"))}]
    body = {"name": f"{f.name}-generic", "type": "generic", "secret_refs": refs}
    container = f.note("secret container", make(f, "containers", body))
    consumer = {"name": "a-load-balancer", "URL": "http://127.0.0.1/somewhere"}
    f.secrets.call("POST", f"/containers/{container}/consumers", consumer)
    body = {"name": f"{f.name}-empty", "type": "generic", "secret_refs": []}
    f.note("secret container", make(f, "containers", body))


def order(f: Filling) -> None:
    """Barbican makes a key; the order stays, and so does the key."""
    known = f.secrets.call("GET", "/orders", params={"limit": 100})["orders"]
    meta = {"name": f"{f.name}-ordered", "algorithm": "aes", "bit_length": 256, "mode": "cbc"}
    found = [item for item in known if item["meta"].get("name") == meta["name"]]
    if found:
        order_ref = found[0]["order_ref"]
    else:
        order_ref = f.secrets.call("POST", "/orders", {"type": "key", "meta": meta})["order_ref"]
    order_id = order_ref.rsplit("/", 1)[1]
    f.note("order", order_id)
    deadline = time.monotonic() + 30
    while (answer := f.secrets.call("GET", f"/orders/{order_id}"))["status"] != "ACTIVE":
        if answer["status"] == "ERROR" or time.monotonic() > deadline:
            raise FillError(f"the order {order_id} is {answer['status']}: {answer.get('error_reason')}")
        time.sleep(0.2)
    f.note("secret", answer["secret_ref"].rsplit("/", 1)[1])


def quota(f: Filling) -> None:
    body = {"project_quotas": {"secrets": 500, "orders": 500, "containers": 500}}
    f.secrets_admin.call("PUT", f"/project-quotas/{f.project_id}", body)
    f.note("key manager quota", f.project_id)


KINDS = (quota, plain_secrets, private_secret, consumed_secret, expiring_secret, containers, order)
