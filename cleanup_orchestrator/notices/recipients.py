"""Who gets the mails about a deletion, by what Keystone and the journal have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.core.ids import is_id
from cleanup_orchestrator.core.journal import EventType
from cleanup_orchestrator.errors import body
from cleanup_orchestrator.store import Store

#: Recipients of one mail, and users that are looked up for it.
MOST = 50
#: An address without quotes, comments and encoded words, at a domain name: not at the address of a host.
_ADDRESS = re.compile(
    r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@(?:[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?\.)+[a-z][a-z\d-]{0,61}[a-z\d]", re.A | re.I
)


def addresses(
    payload: Mapping[str, Any], to: Iterable[str], identity: Callable[[], Adapter], store: Store
) -> list[str]:
    """Return the addresses for a notice, each once, without those that are malformed, those of the operator first.

    Keystone does not know a project that is removed. So the addresses of the earlier notices count, too.

    :param payload: of the notification
    :param to: as ``[notices] mail_to``
    :param identity: returns an adapter for Keystone
    :raises keystoneauth1.exceptions.ClientException: Keystone does not answer
    """
    found: dict[str, str] = {}
    # A project can have more members than addresses are allowed. They must not displace those of the operator.
    ordered = sorted(to, key=_is_looked_up)
    for each in (*_named(payload, ordered, identity), *_earlier(payload["deletion_id"], store)):
        for address in each.split(","):
            if valid := _valid(address.strip()):
                found.setdefault(valid.casefold(), valid)
    return list(found.values())[:MOST]


def _is_looked_up(each: str) -> bool:
    """Return whether what the option names is no address, but says where Keystone has some."""
    return each == "members" or each.startswith(("project:", "domain:"))


def _named(payload: Mapping[str, Any], to: Iterable[str], identity: Callable[[], Adapter]) -> Iterator[str]:
    """Yield what the option names: texts with addresses, separated by commas."""
    for each in to:
        kind, _, name = each.partition(":")
        if each == "members":
            yield from _members(payload, identity())
        elif kind in ("project", "domain") and name:
            yield _property(identity(), kind, payload[f"{kind}_id"], name)
        else:
            yield each


def _members(payload: Mapping[str, Any], identity: Adapter) -> Iterator[str]:
    """Yield the addresses of the users with a role on the project; if it is gone, of those who had one."""
    query = f"/role_assignments?effective&scope.project.id={payload['project_id']}"
    found = _get(identity, query, "role_assignments") if is_id(payload["project_id"]) else None
    rows = found or ()
    ids = dict.fromkeys([*(row["user"]["id"] for row in rows if "user" in row), *payload["member_ids"]])
    for user_id in list(ids)[:MOST]:
        user = _get(identity, f"/users/{user_id}", "user") if is_id(user_id) else None
        if user and user.get("enabled", True):
            yield str(user.get("email") or "")


def _property(identity: Adapter, kind: str, id_: str, name: str) -> str:
    """Return a property of a project or a domain; empty: it has none, or is gone."""
    found = _get(identity, f"/{kind}s/{id_}", kind) if is_id(id_) else None
    value = (found or {}).get(name)
    return value if isinstance(value, str) else ""


def _get(identity: Adapter, path: str, key: str) -> Any:
    """Return what Keystone answers; ``None``: it does not know it."""
    try:
        return body(identity.get(path), key)[key]
    except ka_exceptions.NotFound:
        return None


def _earlier(deletion_id: str, store: Store) -> Iterator[str]:
    """Yield the addresses that got a mail about the deletion."""
    for row in store.events(deletion_id, MOST, type=str(EventType.NOTICE_SENT)):
        if row.event.data.get("by") == "mail":
            yield from row.event.data.get("to", ())


def _valid(address: str) -> str:
    """Return an address that can be the recipient of a mail; empty: it is none.

    The user whose address it is, or a manager of the domain, writes it. An address of another form could become another
    one when it is parsed again, or have the server refuse the whole connection.
    """
    local = address.partition("@")[0]
    dots = local.startswith(".") or local.endswith(".") or ".." in local
    return address if len(address) <= 254 and not dots and _ADDRESS.fullmatch(address) else ""
