"""Swift: containers, account metadata, and (optionally) the account itself.

An account is the whole store of a project, and its name is part of the endpoint. A wrong endpoint would empty the
account of another project. So the account in the URL of every call is compared with the project's id. Except for the
delete of the account, the token is scoped into the project. Only the account of a project that is gone is accessed as a
reseller admin.

Not swept: accounts under further reseller prefixes (``SERVICE_``). Only the service that keeps data there can access
them, with its service token. Account quotas and ACLs can be written by a reseller admin only, and are deleted with the
account.
"""

from __future__ import annotations

import email.utils
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from openstack import exceptions
from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    LITERAL_PATH,
    SCOPED,
    BadAnswer,
    ProjectDefinition,
    ProjectGone,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Row,
    Service,
    Token,
    Verdict,
)

if TYPE_CHECKING:
    from openstack.connection import Connection
    from requests import Response

#: Names in one page and in one bulk delete. Swift accepts 10,000, but deletes two at a time: a call would take minutes,
#: during which a cancel has no effect.
PAGE = 1000
#: Swift refuses a whole bulk delete for one line that is longer than twice its longest path (1,282).
LINE = 2500
#: HTTP clients and proxies resolve these in a path, whatever the encoding: the request then addresses another resource.
#: A container of that name is read with a path that is sent unchanged (``LITERAL_PATH``). If a proxy resolves it
#: anyway, the account or the list of API versions is read. A delete never has such a path: a bulk delete has the names
#: in its body.
DOTS = frozenset({".", ".."})
#: Headers of a container that let others write into it without a token: its access list, the keys of signed URLs, and
#: the key of container sync.
_WRITE_HEADERS = (
    "X-Container-Write",
    "X-Container-Meta-Temp-URL-Key",
    "X-Container-Meta-Temp-URL-Key-2",
    "X-Container-Sync-Key",
)
#: Headers of the account that do so for all of its containers.
_ACCOUNT_WRITE_HEADERS = ("X-Account-Meta-Temp-URL-Key", "X-Account-Meta-Temp-URL-Key-2")

OPTIONS = (
    cfg.BoolOpt(
        "account_in_url",
        default=True,
        help="Whether the endpoint names the project's account, as Swift's does. False is for a Ceph Object Gateway "
        "without 'rgw swift account in url', where the token alone determines the account.",
    ),
    cfg.BoolOpt(
        "delete_account",
        default=False,
        help="Delete the account itself at the end. It takes the role ResellerAdmin and 'allow_account_management' in "
        "Swift's proxy. It cannot be undone: the same project id gets no account again until Swift has reclaimed it.",
    ),
)


_NO_RESELLER = (
    "no token for the project can be obtained any more, and others can access its account in Swift only with the role "
    "ResellerAdmin: give it to the orchestrator's user"
)

# --------------------------------------------------------------------------------------------- whose account it is


def _account(connection: Connection, project: ProjectDefinition) -> str:
    """Return the URL of the project's account.

    If the project is gone, the URL is derived from the account of the orchestrator.

    :raises BadAnswer: when it is not certain that it is the project's
    """
    if project.gone:
        return _account_by_name(connection, project)
    scope = connection.session.get_project_id()
    if scope != project.id:
        raise BadAnswer(f"the token is scoped into project {scope}, not into {project.id}")
    url = str(connection.object_store.get_endpoint() or "").rstrip("/")
    account = unquote(urlsplit(url).path).rpartition("/")[2]
    if account.endswith(project.id):
        return url
    if project.options.get("account_in_url", True):
        raise BadAnswer(
            f"the object-store endpoint {url or '(none)'} does not end in the project's id; if that is a Ceph Object "
            "Gateway without accounts in its URLs, set account_in_url to false"
        )
    if not url or re.search(r"[0-9a-f]{32}", url):
        raise BadAnswer(f"the object-store endpoint {url or '(none)'} names an account that is not the project's")
    return url


def _account_by_name(connection: Connection, project: ProjectDefinition) -> str:
    """Return the URL of the project's account, seen from the orchestrator's own."""
    own = str(connection.session.get_project_id() or "")
    url = str(connection.object_store.get_endpoint() or "").rstrip("/")
    if not own or not url.endswith(own):
        raise BadAnswer(f"the object-store endpoint {url or '(none)'} does not end in the own project's id")
    return url.removesuffix(own) + project.id


# ------------------------------------------------------------------------------------------------------- listings


def _quote(name: str) -> str:
    return quote(name, safe="")


def _request(connection: Connection, method: str, account: str, container: str = "", **options: Any) -> Response:
    """Read an account or one of its containers, or change its headers.

    :param container: the name of the container; empty: the account itself
    """
    if container not in DOTS:
        url = f"{account}/{_quote(container)}" if container else account
        answer: Response = connection.object_store.request(url, method, **options)
        return answer
    query = urlencode(options.pop("params", {}))
    path = f"{urlsplit(account).path}/{container}" + (f"?{query}" if query else "")
    headers = {**options.pop("headers", {}), LITERAL_PATH: path}
    answer = connection.object_store.request(account, method, headers=headers, **options)
    return answer


def _pages(connection: Connection, account: str, container: str = "", **query: str) -> Iterator[list[Row]]:
    """Yield the pages of a listing, with the last name as the marker.

    Deletes in between do not shift a page.

    A short page may be followed by another one (sharded containers). Only an empty page is the end.
    """
    marker: dict[str, str] = {}
    while True:
        params = {"format": "json", "limit": PAGE, **query, **marker}
        response = _request(connection, "GET", account, container, params=params)
        exceptions.raise_from_response(response)
        if response.status_code == 204:
            return
        page = _json(response)
        if not isinstance(page, list) or not all(isinstance(row, Mapping) and row.get("name") for row in page):
            raise BadAnswer(f"GET {response.url} answered no list of names")
        if not page:
            return
        yield page
        following = {"marker": page[-1]["name"]}
        if "versions" in query:
            following["version_marker"] = page[-1]["version_id"]
        if following == marker:
            raise BadAnswer(f"GET {response.url} gave the same page twice")
        marker = following


def _json(response: Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        raise BadAnswer(f"{response.request.method} {response.url} answered no JSON") from error


def _containers(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    pages = _pages(connection, _account(connection, project))
    try:
        for page in pages:
            yield from page
    except exceptions.HttpException as error:
        if error.status_code == 403 and project.gone:
            raise ProjectGone(_NO_RESELLER) from error
        if error.status_code != 410:  # Gone: the account was deleted, and Swift's reaper deletes the rest
            raise


def _describe(container: Resource, project: ProjectDefinition) -> str:
    count, size = container.data.get("count"), container.data.get("bytes")
    return f"{count} objects, {size} bytes, by the account's listing (which may be behind, and counts no old versions)"


# ------------------------------------------------------------------------------------------- emptying a container


def _bulk_limit(connection: Connection) -> int:
    """Return how many names a bulk delete takes; 0 where there is none."""
    url = str(connection.object_store.get_endpoint())
    info = re.sub(r"/v1(\.\d+)?(/[^/]*)?/?$", "", url) + "/info"
    response = connection.object_store.get(info, headers={"Accept": "application/json"})
    if response.status_code != 200:
        return 0
    try:
        return min(PAGE, int(response.json()["bulk_delete"]["max_deletes_per_request"]))
    except (ValueError, KeyError, TypeError):
        return 0


class _Emptying:
    """One pass over a container.

    Each name is tried once. What is refused is counted, not retried.
    """

    def __init__(self, connection: Connection, account: str, container: str) -> None:
        self.store = connection.object_store
        self.connection, self.account, self.container = connection, account, container
        self.url = f"{account}/{_quote(container)}"
        self.failures: Counter[int] = Counter()
        self.example = ""

    def fail(self, name: str, status: int) -> None:
        self.example = self.example or name
        self.failures[status] += 1

    def versions(self) -> None:
        """Delete every version and delete marker.

        The bulk delete handles current objects only.
        """
        for page in _pages(self.connection, self.account, self.container, versions="true"):
            before = self.failures.total()
            for row in page:
                self.single(row["name"], {"version-id": row["version_id"]})
            if self.failures.total() - before == len(page):
                return

    def objects(self) -> None:
        limit = _bulk_limit(self.connection)
        for page in _pages(self.connection, self.account, self.container):
            before = self.failures.total()
            lines = {row["name"]: self.line(row["name"]) for row in page}
            names = [name for name, line in lines.items() if limit and len(line) <= LINE]
            for start in range(0, len(names), limit or 1):
                self.bulk([lines[name] for name in names[start : start + limit]])
            for name in lines.keys() - set(names):
                self.single(name, {})
            if self.failures.total() - before >= len(page):
                return  # all names of a page were refused: the next page would be refused as well

    def line(self, name: str) -> bytes:
        """Return the line of a bulk delete.

        Only what must be encoded is encoded, because the length of a line is limited.
        """
        path = f"/{self.container}/{name}".encode()
        return re.sub(rb"[%\x00-\x20\x7f]", lambda match: b"%%%02X" % ord(match[0]), path)

    def single(self, name: str, query: Mapping[str, str]) -> None:
        if name in DOTS or self.container in DOTS:
            self.fail(name, 400)
            return
        response = self.store.delete(f"{self.url}/{_quote(name)}", params=query)
        if (
            response.status_code >= 400 and response.status_code != 404
        ):  # 404: deleted by another client, or by X-Delete-At
            self.fail(name, response.status_code)

    def bulk(self, lines: list[bytes]) -> None:
        """Delete by one call. Its status is 200 whatever happened, so the body is read."""
        response = self.store.post(
            self.account,
            params={"bulk-delete": "true"},
            data=b"\n".join(lines),
            headers={"Content-Type": "text/plain", "Accept": "application/json"},
        )
        exceptions.raise_from_response(response)
        answer = _json(response)
        try:
            status = int(answer["Response Status"].split()[0])
            errors = [(unquote(name), int(error.split()[0])) for name, error in answer["Errors"]]
            done = int(answer["Number Deleted"]) + int(answer["Number Not Found"])
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise BadAnswer("the bulk delete answered in an unknown shape") from error
        for name, code in errors:
            self.fail(name, code)
        if errors and status < 500 and status != 401:
            return
        if status >= 400:
            text = f"the bulk delete ended with {answer['Response Status']}: {answer.get('Response Body', '')}"
            raise exceptions.HttpException(text, http_status=status)
        if done != len(lines):
            raise BadAnswer(f"the bulk delete was given {len(lines)} names and accounts for {done}")

    def remove(self) -> bool:
        """Delete the container itself; return False if it is not empty."""
        if self.container in DOTS:
            self.bulk([self.line("").rstrip(b"/")])
            refused, self.failures = self.failures, Counter()
            if refused and set(refused) != {409}:
                self.failures = refused
                self.close()
            return not refused
        response = self.store.delete(self.url)
        if response.status_code == 409:
            return False
        exceptions.raise_from_response(response)
        return True

    def close(self) -> None:
        """Raise when something was refused, by the most frequent status."""
        if self.failures:
            status, _ = self.failures.most_common(1)[0]
            each = ", ".join(f"{count} x {code}" for code, count in self.failures.most_common(5))
            raise exceptions.HttpException(
                f"{self.failures.total()} objects were refused ({each}), such as {self.example!r}", http_status=status
            )


def _revoke_write_access(connection: Connection, account: str, container: str) -> Mapping[str, str]:
    """Remove what lets others write without a token; return the headers.

    What is removed is part of the delete, and is not restored.

    What is removed is part of the delete: it is not put back, as what is deleted is not.
    """
    found = _request(connection, "HEAD", account)
    exceptions.raise_from_response(found)
    if keys := [name for name in _ACCOUNT_WRITE_HEADERS if name in found.headers]:
        headers = {f"X-Remove-{name[2:]}": "x" for name in keys}
        exceptions.raise_from_response(_request(connection, "POST", account, headers=headers))
    head = _request(connection, "HEAD", account, container)
    exceptions.raise_from_response(head)
    loosen = {}
    if head.headers.get("X-Versions-Enabled", "").lower() == "true":
        loosen["X-Versions-Enabled"] = "false"  # so that a delete leaves no marker
    for header in ("X-Versions-Location", "X-History-Location", "X-Container-Sync-To", *_WRITE_HEADERS):
        if head.headers.get(header):
            loosen[f"X-Remove-{header[2:]}"] = "x"
    if loosen:
        exceptions.raise_from_response(_request(connection, "POST", account, container, headers=loosen))
    answered: Mapping[str, str] = head.headers
    return answered


def _delete_container(connection: Connection, project: ProjectDefinition, container: Resource) -> None:
    """Delete a container and everything in it, in one pass."""
    account = _account(connection, project)
    emptying = _Emptying(connection, account, container.id)
    if emptying.remove():
        return
    headers = _revoke_write_access(connection, account, container.id)
    by_path = container.id in DOTS and "X-Versions-Enabled" in headers
    if "X-Versions-Enabled" in headers and not by_path:
        emptying.versions()
    emptying.objects()
    if by_path or (container.id in DOTS and emptying.failures):
        text = (
            "its old versions, and objects with very long names, can be deleted by their path alone, which HTTP "
            "clients take for another one: delete them by hand (curl --path-as-is)"
        )
        raise Refused(Verdict(Reason.REFUSED, text))
    emptying.close()
    if not emptying.remove():
        raise Refused(
            Verdict(Reason.IN_USE, "emptied, but not empty yet: its listing is behind, or a client still writes")
        )


# -------------------------------------------------------------------------------------------- the account itself


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
    try:
        headers = _head(connection, _account(connection, project))
    except exceptions.ForbiddenException as error:
        if project.gone:
            raise ProjectGone(_NO_RESELLER) from error
        raise
    names = _own_metadata(headers or {})
    if names:
        yield {"id": "account-metadata", "name": ", ".join(names), "keys": names}


def _delete_metadata(connection: Connection, project: ProjectDefinition, metadata: Resource) -> None:
    headers = {f"X-Remove-Account-Meta-{name}": "x" for name in metadata.data["keys"]}
    exceptions.raise_from_response(connection.object_store.post(_account(connection, project), headers=headers))


def _accounts(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    url = _account_by_name(connection, project)
    headers = _head(connection, url)
    if headers is None:
        return
    # For an account that never existed, Swift answers with the current time.
    now = email.utils.parsedate_to_datetime(headers["Date"]).timestamp()
    if now - float(headers["X-Timestamp"]) < 2:
        return
    yield {"id": urlsplit(url).path.rpartition("/")[2], "name": "account", "project_id": project.id}


def _delete_account(connection: Connection, project: ProjectDefinition, account: Resource) -> None:
    exceptions.raise_from_response(connection.object_store.delete(_account_by_name(connection, project)))


def _account_wanted(connection: Connection, project: ProjectDefinition) -> bool:
    return bool(project.options.get("delete_account")) and bool(project.options.get("account_in_url", True))


_FRESH = "the token is scoped into the project, and the account's URL was compared with its id"

_NO_ACCOUNTS = "Swift has no list of accounts: each is found by its project's id alone"

SERVICE = Service(
    service_type="object-store",
    contract_version=1,
    after=CONTROLLERS,
    options=OPTIONS,
    roles="one of Swift's operator_roles on the project under deletion; ResellerAdmin for delete_account, and for "
    "the accounts of projects that are gone",
    types=(
        ResourceType(
            name="container",
            list=_containers,
            all_projects=_NO_ACCOUNTS,
            delete=_delete_container,
            describe=_describe,
            id="name",
            owner=SCOPED,
            fresh=_FRESH,
            token=Token.PROJECT,
            token_if_gone=Token.ADMIN,
            after=("block-storage.backup", "database.backup", "image.image"),
            source="GET, POST ?bulk-delete, DELETE under /v1/AUTH_X; swift common/middleware/bulk.py, "
            "common/middleware/versioned_writes/, container/server.py",
            note="Services that keep their data here are deleted first: without the data their rows could not be "
            "deleted. Segments of large objects are objects in other containers of the account, so every delete "
            "is a plain one. The delete of a symlink leaves its target. Old versions are deleted one by one, "
            "after versioning is switched off: otherwise each delete would leave a marker (or, with the legacy "
            "kind, restore the last version). Container sync is removed first: it would delete the copies in "
            "another account, too. What lets others write without a token of the project is removed as well: "
            "the access list for writing, the keys of signed URLs, and those of the account. They are not "
            "restored. Swift acts on nothing else that users wrote: a manifest's segments and a link's target "
            "may be in any account, and stay. Segments of S3 multipart uploads are in '<name>+segments'. "
            "Listings are eventually consistent: deleted objects may be listed for a while.",
        ),
        ResourceType(
            name="account_metadata",
            list=_metadata,
            all_projects=_NO_ACCOUNTS,
            delete=_delete_metadata,
            owner=SCOPED,
            fresh=_FRESH,
            token=Token.PROJECT,
            token_if_gone=Token.ADMIN,
            after=("container",),
            source="HEAD, POST /v1/AUTH_X; swift account/server.py",
            note="TempURL keys give access without a token. So only their names are shown. Quotas are set by a "
            "reseller admin, and stay.",
        ),
        ResourceType(
            name="account",
            list=_accounts,
            all_projects=_NO_ACCOUNTS,
            delete=_delete_account,
            fresh="the account's name contains the project's id",
            project_setting=True,
            available=_account_wanted,
            after=("container", "account_metadata"),
            source="DELETE /v1/AUTH_X; swift proxy/controllers/account.py, account/server.py",
            note="Off by default (option delete_account): it is irreversible for this project id, and Swift's reaper "
            "deletes all that is left, without any check. 405: allow_account_management is off. 403: "
            "ResellerAdmin is missing.",
        ),
    ),
)
