"""Swift: the metadata of an account, and the account itself."""

from __future__ import annotations

import email.utils
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cleanup_orchestrator.plugins.base import (
    SCOPED,
    Fallback,
    ProjectDefinition,
    ProjectGone,
    Resource,
    ResourceType,
    Row,
    Token,
    UnreadableName,
    exceptions,
)
from cleanup_orchestrator.plugins.object_store.common import (
    FRESH,
    NO_ACCOUNTS,
    NO_RESELLER,
    UNREADABLE,
    account_url,
    account_url_by_id,
    cannot_read_token,
)

if TYPE_CHECKING:
    from openstack.connection import Connection


def _head(connection: Connection, url: str) -> Mapping[str, str] | None:
    """Return the account's headers; ``None`` for one that was deleted."""
    response = connection.object_store.head(url)
    if response.status_code == 410:
        return None
    exceptions.raise_from_response(response)
    headers: Mapping[str, str] = response.headers
    return headers


def _own_metadata(headers: Mapping[str, str]) -> list[str]:
    prefix = "x-account-meta-"
    names = (name.lower() for name in headers)
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix) and "-quota-" not in name)


def _metadata(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the metadata of the project's account that users wrote."""
    try:
        headers = _head(connection, account_url(connection, project))
    except exceptions.ForbiddenException as error:
        if project.gone:
            raise ProjectGone(NO_RESELLER) from error
        if project.uses_own_token:
            raise UnreadableName(UNREADABLE) from error
        raise
    names = _own_metadata(headers or {})
    if names:
        yield {"id": "account-metadata", "name": ", ".join(names), "keys": names}


def _delete_metadata(connection: Connection, project: ProjectDefinition, metadata: Resource) -> None:
    """Remove the metadata of the account."""
    headers = {f"X-Remove-Account-Meta-{name}": "x" for name in metadata.data["keys"]}
    exceptions.raise_from_response(connection.object_store.post(account_url(connection, project), headers=headers))


def _accounts(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's account."""
    url = account_url_by_id(connection, project)
    headers = _head(connection, url)
    if headers is None:
        return
    # For an account that never existed, Swift answers with the current time.
    now = email.utils.parsedate_to_datetime(headers["Date"]).timestamp()
    if now - float(headers["X-Timestamp"]) < 2:
        return
    yield {"id": urlsplit(url).path.rpartition("/")[2], "name": "account", "project_id": project.id}


def _delete_account(connection: Connection, project: ProjectDefinition, account: Resource) -> None:
    """Delete the account with all that is left in it."""
    exceptions.raise_from_response(connection.object_store.delete(account_url_by_id(connection, project)))


def _account_wanted(connection: Connection, project: ProjectDefinition) -> bool:
    """Whether the option delete_account is set."""
    return bool(project.options.get("delete_account")) and bool(project.options.get("account_in_url", True))


ACCOUNT_METADATA = ResourceType(
    name="account_metadata",
    used_by=(),
    list=_metadata,
    all_projects=NO_ACCOUNTS,
    delete=_delete_metadata,
    owner=SCOPED,
    why_no_show=FRESH,
    token=Token.PROJECT,
    fallback=Fallback(Token.ADMIN, unreadable=cannot_read_token),
    after=("container",),
    source="HEAD, POST /v1/AUTH_X; swift account/server.py",
    note="TempURL keys give access without a token. So only their names are shown. Quotas are set by a "
    "reseller admin, and stay.",
)

ACCOUNT = ResourceType(
    name="account",
    used_by=(),
    list=_accounts,
    all_projects=NO_ACCOUNTS,
    delete=_delete_account,
    why_no_show="the account's name contains the project's id",
    project_setting=True,
    available=_account_wanted,
    after=("container", "account_metadata"),
    source="DELETE /v1/AUTH_X; swift proxy/controllers/account.py, account/server.py",
    note="Off by default (option delete_account): it is irreversible for this project id, and Swift's reaper "
    "deletes all that is left, without any check. The answer 405 means that allow_account_management is "
    "off, and 403 that the role ResellerAdmin is missing.",
)
