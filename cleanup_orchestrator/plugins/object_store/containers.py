"""Swift: containers, and how they are emptied."""

from __future__ import annotations

import functools
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlencode, urlsplit

from cleanup_orchestrator.plugins.base import (
    LITERAL_PATH,
    SCOPED,
    BadAnswer,
    Fallback,
    Needs,
    ProjectDefinition,
    ProjectGone,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Token,
    UnreadableName,
    Use,
    Verdict,
    exceptions,
    show_leftover,
)
from cleanup_orchestrator.plugins.object_store.common import (
    DOTS,
    FRESH,
    NO_ACCOUNTS,
    NO_RESELLER,
    PAGE,
    UNREADABLE,
    account_url,
    cannot_read_token,
    decode_json,
    has_dots,
    list_pages,
    quote_name,
    send,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Swift refuses a whole bulk delete for one line that is longer than twice its longest path (1,282).
LINE = 2500
#: Headers of a container with the keys of signed URLs.
_KEYS = ("X-Container-Meta-Temp-URL-Key", "X-Container-Meta-Temp-URL-Key-2")
#: Headers of a container that let others write into it without a token: its access list, the keys of signed URLs, and
#: the key of container sync.
_WRITE_HEADERS = ("X-Container-Write", *_KEYS, "X-Container-Sync-Key")
#: Headers of the account that do so for all of its containers.
_ACCOUNT_WRITE_HEADERS = ("X-Account-Meta-Temp-URL-Key", "X-Account-Meta-Temp-URL-Key-2")

_IMAGE = Rest("image", "/images/{id}")
_BACKUP = Rest("block-storage", "/backups/{id}", key="backup")


#: Containers without objects in the account's listing that are asked themselves, for each list.
_ASKED = 100


def _containers(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the containers of the project's account.

    The listing of the account is behind: a container that was filled minutes ago still has no objects in it. So such a
    container is asked itself (HEAD), up to ``_ASKED`` of them, and none after one that does not answer. The numbers of
    the others are not known: they are for people alone, and must not make the list unknown.
    """
    account, asked = account_url(connection, project), 0
    try:
        for page in list_pages(connection, account):
            for row in page:
                if row.get("count") == 0 or row.get("bytes") == 0:
                    numbers = _numbers(connection, account, row) if asked < _ASKED else None
                    asked = _ASKED if numbers is None else asked + 1
                    row = {**row, **(numbers or _NO_NUMBERS)}
                yield row
    except exceptions.HttpException as error:
        if error.status_code == 403 and project.gone:
            raise ProjectGone(NO_RESELLER) from error
        if error.status_code == 403 and project.uses_own_token:
            raise UnreadableName(UNREADABLE) from error
        if error.status_code != 410:  # Gone: the account was deleted, and Swift's reaper deletes the rest
            raise


_NO_NUMBERS: Row = {"count": None, "bytes": None}


def _numbers(connection: Connection, account: str, row: Row) -> Row | None:
    """Return the number of objects of a container and their bytes, as the container has them; ``None``: no answer.

    Numbers that cannot be true are not known: negative ones, and fewer objects than the account's listing has.
    """
    name = row.get("name")
    if not isinstance(name, str) or has_dots(name):  # see DOTS
        return _NO_NUMBERS
    try:
        response = send(connection, "HEAD", account, name)
        exceptions.raise_from_response(response)
        headers = response.headers
        count, size = int(headers["X-Container-Object-Count"]), int(headers["X-Container-Bytes-Used"])
    except (LookupError, ValueError):
        return _NO_NUMBERS
    except Exception as error:
        from keystoneauth1.exceptions import ConnectionError as NoConnection  # not before the first call

        if isinstance(error, NoConnection | exceptions.HttpException):
            return None
        raise
    listed = row.get("count")
    least = listed if isinstance(listed, int) else 0
    return {"count": count, "bytes": size} if count >= max(0, least) and size >= 0 else _NO_NUMBERS


def _describe(container: Resource, project: ProjectDefinition) -> str:
    count, size = container.data.get("count"), container.data.get("bytes")
    if not isinstance(count, int) or count < 0:
        return "how many objects it has is not known: the account's listing, which may be behind, does not show it"
    known = f"{size} bytes" if isinstance(size, int) and size >= 0 else "their size is not known"
    return f"{count} objects, {known} (the number may be behind, and counts no old versions)"


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

    def __init__(self, connection: Connection, account: str, container: str, reseller: bool = False) -> None:
        """Empty a container.

        :param reseller: the token is that of a reseller admin, which reaches other accounts, too
        """
        self.store = connection.object_store
        self.connection, self.account, self.container = connection, account, container
        self.url = f"{account}/{quote_name(container)}"
        self.reseller = reseller
        #: Whether no path of a delete may have the container's name: the names are sent in bodies of bulk deletes.
        self.in_body = container in DOTS or (reseller and has_dots(container))
        self.failures: Counter[int] = Counter()
        self.example = ""
        self.listed = False  #: whether a list had any name

    def fail(self, name: str, status: int) -> None:
        self.example = self.example or name
        self.failures[status] += 1

    def versions(self) -> None:
        """Delete every version and delete marker.

        The bulk delete handles current objects only.
        """
        for page in list_pages(self.connection, self.account, self.container, versions="true"):
            self.listed, before = True, self.failures.total()
            for row in page:
                self.single(row["name"], {"version-id": row["version_id"]})
            if self.failures.total() - before == len(page):
                return

    def objects(self) -> None:
        limit = _bulk_limit(self.connection)
        for page in list_pages(self.connection, self.account, self.container):
            self.listed, before = True, self.failures.total()
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
        if self.in_body or name in DOTS or (self.reseller and has_dots(name)):
            self.fail(name, 400)
            return
        url, headers = f"{self.url}/{quote_name(name)}", {}
        if not DOTS.isdisjoint(name.split("/")):  # no client resolves them, because the name is one quoted part
            headers[LITERAL_PATH] = urlsplit(url).path + (f"?{urlencode(query)}" if query else "")
        response = self.store.delete(url, params=None if headers else query, headers=headers)
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
        answer = decode_json(response)
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
            raise exceptions.failure(status, text)
        if done != len(lines):
            raise BadAnswer(f"the bulk delete was given {len(lines)} names and accounts for {done}")

    def remove(self) -> bool:
        """Delete the container itself; return False if it is not empty."""
        if self.in_body:
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
            raise exceptions.failure(
                status, f"{self.failures.total()} objects were refused ({each}), such as {self.example!r}"
            )


def _revoke_write_access(connection: Connection, account: str, container: str, in_path: bool) -> Mapping[str, str]:
    """Remove what lets others write without a token; return the headers.

    It is not restored, because its removal is part of the delete.

    :param in_path: whether the container's name may be in the path of a write call
    :raises Refused: it may not, and the container has such headers
    """
    response = send(connection, "HEAD", account)
    exceptions.raise_from_response(response)
    if keys := [name for name in _ACCOUNT_WRITE_HEADERS if name in response.headers]:
        headers = {f"X-Remove-{name[2:]}": "x" for name in keys}
        exceptions.raise_from_response(send(connection, "POST", account, headers=headers))
    head = send(connection, "HEAD", account, container)
    exceptions.raise_from_response(head)
    loosen = {}
    if head.headers.get("X-Versions-Enabled", "").lower() == "true":
        loosen["X-Versions-Enabled"] = "false"  # so that a delete leaves no marker
    for header in ("X-Versions-Location", "X-History-Location", "X-Container-Sync-To", *_WRITE_HEADERS):
        if head.headers.get(header):
            loosen[f"X-Remove-{header[2:]}"] = "x"
    if loosen and not in_path:
        text = (
            "its versioning, its container sync or what lets others write into it can be switched off by its path "
            "alone, which a proxy could take for another account: switch it off by hand"
        )
        raise Refused(Verdict(Reason.REFUSED, text))
    if loosen:
        exceptions.raise_from_response(send(connection, "POST", account, container, headers=loosen))
    answered: Mapping[str, str] = head.headers
    return answered


def _unseen(container: Resource) -> Verdict:
    """Return the verdict on a container whose list is empty, and whose delete is refused.

    Versioning that was switched on by the S3 API of a Ceph Object Gateway shows in no answer of its Swift API. Each
    delete leaves a marker there, and old versions keep the bucket (rgw_rados.cc, check_bucket_empty).
    """
    text = (
        "not empty yet, although its list is: another copy of the list is behind, or it has old versions, which a Ceph "
        "Object Gateway shows by the S3 API alone"
    )
    bucket = f"--bucket {shlex.quote(container.id)}"
    remedy = (
        "a list that is behind catches up by itself. Old versions are deleted by a member of the project with EC2 "
        f"credentials: aws s3api list-object-versions {bucket}, and for each version and delete marker aws s3api "
        f"delete-object {bucket} --key KEY --version-id ID; or by an operator: radosgw-admin bucket rm {bucket} "
        "--purge-objects. The container is then deleted automatically"
    )
    return Verdict(Reason.IN_USE, text, remedy=remedy)


def _delete_container(connection: Connection, project: ProjectDefinition, container: Resource) -> None:
    """Delete a container and everything in it, in one pass."""
    account = account_url(connection, project)
    emptying = _Emptying(connection, account, container.id, project.without_token)
    if emptying.remove():
        return
    in_path = container.id in DOTS or not emptying.in_body  # "." and ".." are sent unchanged: see DOTS
    headers = _revoke_write_access(connection, account, container.id, in_path)
    by_path = emptying.in_body and "X-Versions-Enabled" in headers
    if "X-Versions-Enabled" in headers and not by_path:
        emptying.versions()
    emptying.objects()
    if by_path or (emptying.in_body and emptying.failures):
        text = (
            "its old versions, and objects with very long names, can be deleted by their path alone, which HTTP "
            "clients or proxies take for another one: delete them by hand (curl --path-as-is)"
        )
        raise Refused(Verdict(Reason.REFUSED, text))
    emptying.close()
    if not emptying.remove():
        if emptying.listed:
            text = "emptied, but not empty yet: its listing is behind, or a client still writes"
            raise Refused(Verdict(Reason.IN_USE, text))
        raise Refused(_unseen(container))


class _Account:
    """What an account lets clients without a token read. It is asked for when a container is."""

    def __init__(self, connection: Connection, project: ProjectDefinition) -> None:
        self.connection, self.project = connection, project

    @functools.cached_property
    def url(self) -> str:
        """The account's URL."""
        return account_url(self.connection, self.project)

    @functools.cached_property
    def has_key(self) -> bool:
        """Whether it has a key, so that a signed URL may lead to any of its objects."""
        response = send(self.connection, "HEAD", self.url)
        exceptions.raise_from_response(response)
        return any(response.headers.get(name) for name in _ACCOUNT_WRITE_HEADERS)

    def lets_read_without_token(self, container: str) -> bool:
        """Return whether a client without a token may read a container, by referrer or by a signed URL."""
        if self.has_key:
            return True
        response = send(self.connection, "HEAD", self.url, container)
        if response.status_code == 404:  # it is gone by now
            return False
        exceptions.raise_from_response(response)
        return ".r" in response.headers.get("X-Container-Read", "") or any(response.headers.get(key) for key in _KEYS)


def _of_images(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function that says which image has its data in a container.

    Glance's Swift store with ``swift_store_multi_tenant`` keeps an image in a container of its own in the project's
    account, whose name ends with the image's id. A user may also give an image a URL as its location, with the old API
    where Glance shows ``locations`` to users, and with the new one (Glance 2024.2) where there is an HTTP store. Of the
    new one only services see the URLs. Glance reads such a URL without a token. So an image may need each container
    that can be read so, by its access list or by a signed URL. This includes the segments of a large object.
    """
    paths = {id_: _parts(show_leftover(_IMAGE, connection, project, id_)) for id_ in left}
    account = _Account(connection, project)

    def holder(container: Resource) -> str | None:
        for id_, parts in paths.items():
            if parts is None or container.id.endswith(id_) or container.id in parts:
                return id_
        return next(iter(paths)) if paths and account.lets_read_without_token(container.id) else None

    return holder


def _parts(image: Row | None) -> set[str] | None:
    """Return the parts of the URLs that an image shows; ``None``: Glance does not know it."""
    if image is None:
        return None
    urls = [image.get("direct_url"), *(one.get("url") for one in image.get("locations") or ())]
    return {unquote(part) for url in urls if url for part in str(url).split("/")}


def _of_backups(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function that says which backup has its data in a container, by the container that Cinder shows.

    A backup that shows no container may be in any.
    """
    rows = {id_: show_leftover(_BACKUP, connection, project, id_) or {} for id_ in left}
    names = {id_: str(row.get("container") or "") for id_, row in rows.items()}
    return lambda container: next((id_ for id_, name in names.items() if name in ("", container.id)), None)


def _of_database_backups(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function that says which backup of Trove has its object in a container, by the URL that Trove shows.

    A backup that shows no URL may get an object in any.
    """
    one = Rest("database", "/backups/{id}", key="backup")
    rows = {id_: show_leftover(one, connection, project, id_) or {} for id_ in left}
    urls = {id_: str(row.get("locationRef") or "") for id_, row in rows.items()}
    parts = {id_: {unquote(part) for part in url.split("/")} for id_, url in urls.items()}
    return lambda container: next((id_ for id_, url in urls.items() if not url or container.id in parts[id_]), None)


CONTAINER = ResourceType(
    name="container",
    if_abandoned="It still uses storage.",
    list=_containers,
    all_projects=NO_ACCOUNTS,
    delete=_delete_container,
    describe=_describe,
    used_by=(
        Use(
            ("object-store.object",),
            "takes the objects from those whom an access list or a signed URL lets read them, and from large objects "
            "and links of other accounts that lead here",
            unseen="Swift does not record who reads, and an object does not show what leads to it",
        ),
    ),
    id="name",
    owner=SCOPED,
    why_no_show=FRESH,
    token=Token.PROJECT,
    fallback=Fallback(Token.ADMIN, unreadable=cannot_read_token),
    size=("bytes", 1),
    objects="count",
    after=("block-storage.backup", "database.backup", "image.image"),
    needed_by=(
        ("block-storage.backup", _of_backups),
        ("database.backup", _of_database_backups),
        ("image.image", _of_images),
    ),
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
)
