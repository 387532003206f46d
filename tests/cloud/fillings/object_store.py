"""Swift: containers and objects of every sort, including names that clients often send incorrectly."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

from tests.cloud.fillings.base import Filling

# Each of these has broken a cleanup tool. Dots are sent encoded: HTTP libraries resolve ".." in the path of a request,
# which then goes to another container.
WEIRD_NAMES = (
    "with space",
    " leading and trailing ",
    "ünïcödé/☃",
    "100%25 sure?",
    "a=b&c#fragment;semi+plus",
    "new\nline",
    "tab\tand \"quotes\" and 'those'",
    "double//slash",
    "../one level up",
    "./here",
    "<xml>&amp;</xml>",
    "back\\slash",
)


def path(container: str, name: str | None = None) -> str:
    """Return the path of a container or object, encoded so that no client or server can interpret it."""
    encoded = f"/{quote(container, safe='').replace('.', '%2E')}"
    return encoded if name is None else f"{encoded}/{quote(name, safe='').replace('.', '%2E')}"


def put(f: Filling, container: str, name: str | None = None, data: bytes | str = b"", **headers: str) -> Any:
    """Create or overwrite a container or object; `X_Some_Header` becomes X-Some-Header."""
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    return f.objects_store.raw("PUT", path(container, name), data=data, headers=sent)


def account_metadata(f: Filling) -> None:
    headers = {"X-Account-Meta-Temp-Url-Key": "a secret of sorts", "X-Account-Meta-Team": "demo"}
    f.objects_store.raw("POST", "", headers=headers)
    f.note("account metadata", "Temp-Url-Key", "Team")


def plain_container(f: Filling) -> None:
    name = f.note("object container", f"{f.name}-plain")
    put(f, name, X_Container_Read=".r:*,.rlistings", X_Container_Meta_Purpose="demo")
    for item in ("hello.txt", "pseudo/folder/file.txt", "pseudo/other.txt"):
        put(f, name, item, b"hello")
        f.note("object", f"{name}/{item}")
    put(f, name, "empty-folder/", b"", Content_Type="application/directory")
    put(f, name, "temporary", b"gone one day", X_Delete_After="864000")
    f.note("object", f"{name}/empty-folder/", f"{name}/temporary")


def empty_container(f: Filling) -> None:
    put(f, f.note("object container", f"{f.name}-empty"))


def big_container(f: Filling) -> None:
    name = f.note("object container", f"{f.name}-many")
    put(f, name)
    names = [f"object-{number:05}" for number in range(f.objects)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda item: put(f, name, item, b"x"), names))
    f.note("object", *(f"{name}/{item}" for item in names))


def weird_names(f: Filling) -> None:
    name = f.note("object container", f"{f.name} weird % ü")
    put(f, name)
    for item in WEIRD_NAMES:
        put(f, name, item, b"odd")
        f.note("object", f"{name}/{item}")


def versioned_container(f: Filling) -> None:
    """Three versions of one object, and another whose current version has been deleted."""
    name = f.note("object container", f"{f.name}-versioned")
    put(f, name, X_Versions_Enabled="true")
    for number in range(3):
        put(f, name, "document", f"version {number}")
    put(f, name, "removed", b"still there as a version")
    f.objects_store.raw("DELETE", path(name, "removed"), ok=(404,))
    f.note("object", f"{name}/document")


def legacy_versions(f: Filling) -> None:
    """The older kind of versioning: former versions are ordinary objects of another container."""
    archive = f.note("object container", f"{f.name}-archive")
    name = f.note("object container", f"{f.name}-history")
    put(f, archive)
    put(f, name, X_Versions_Location=archive)
    for number in range(2):
        put(f, name, "notes", f"version {number}")
    f.note("object", f"{name}/notes")


def large_objects(f: Filling) -> None:
    """A static and a dynamic large object; deleting the manifest alone leaves the segments."""
    segments = f.note("object container", f"{f.name}-segments")
    name = f.note("object container", f"{f.name}-large")
    put(f, segments)
    put(f, name)
    manifest = []
    for number in range(3):
        answer = put(f, segments, f"slo/{number}", b"s" * 1024)
        manifest.append({"path": f"/{segments}/slo/{number}", "etag": answer.headers["Etag"], "size_bytes": 1024})
        put(f, segments, f"dlo/{number}", b"d" * 1024)
    target = f"{path(name, 'static')}?multipart-manifest=put"
    f.objects_store.raw("PUT", target, data=json.dumps(manifest))
    put(f, name, "dynamic", b"", X_Object_Manifest=f"{quote(segments)}/dlo/")
    f.note("object", f"{name}/static", f"{name}/dynamic")


def symlink(f: Filling) -> None:
    name = f.note("object container", f"{f.name}-links")
    put(f, name)
    put(f, name, "link", b"", X_Symlink_Target=f"{quote(f.name)}-plain/hello.txt")
    f.note("object", f"{name}/link")


KINDS = (
    account_metadata, plain_container, empty_container, weird_names, versioned_container, legacy_versions,
    large_objects, symlink, big_container,
)  # fmt: skip
