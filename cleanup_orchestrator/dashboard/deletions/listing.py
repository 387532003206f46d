"""The pages of the lists whose marker is a number."""

from __future__ import annotations

import urllib.parse
from typing import TypeVar

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import pages
from cleanup_orchestrator.sdk.base import CleanupResource

R = TypeVar("R", bound=CleanupResource)


def page_of(
    proxy: sdk.Proxy, kind: type[R], path: str, marker: str, size: int = pages.PAGE, **filters: str | None
) -> tuple[list[R], str]:
    """Return one page of a list, and the marker of the next page; empty: there is none.

    The records do not have their markers: the answer of the API names the next one.

    :param path: of the list in the API
    :param marker: of the page; one that is no number is the first page
    """
    wanted = {**filters, "limit": str(size), "marker": marker if marker.isascii() and marker.isdigit() else None}
    body = proxy._call("GET", path, params={name: value for name, value in wanted.items() if value})
    links = body.get("links") or []
    following = next((link.get("href") for link in links if link.get("rel") == "next"), None) or ""
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(following).query)
    return list(proxy._list(kind, body)), query.get("marker", [""])[0]


def of_deletion(deletion_id: str, what: str) -> str:
    """Return the path of a list of a deletion."""
    return f"/deletions/{urllib.parse.quote(deletion_id, safe='')}/{what}"


def of_plan(plan_id: str) -> str:
    """Return the path of the resources of a plan."""
    return f"/plans/{urllib.parse.quote(plan_id, safe='')}/resources"
