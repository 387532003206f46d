"""The pages of the lists whose marker is a number."""

from __future__ import annotations

from typing import TypeVar

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import pages
from cleanup_orchestrator.sdk.base import CleanupResource

R = TypeVar("R", bound=CleanupResource)


def page_of(
    proxy: sdk.Proxy, kind: type[R], path: str, marker: str, size: int = pages.PAGE, **filters: str | None
) -> tuple[list[R], str]:
    """Return one page of a list, and the marker of the next page; empty: there is none.

    :param path: of the list in the API
    :param marker: of the page; one that is no number is the first page
    """
    number = marker if marker.isascii() and marker.isdigit() else None
    return proxy.page(kind, path, limit=size, marker=number, **filters)


def of_deletion(deletion_id: str, what: str) -> str:
    """Return the path of a list of a deletion."""
    return f"/deletions/{deletion_id}/{what}"


def of_plan(plan_id: str) -> str:
    """Return the path of the resources of a plan."""
    return f"/plans/{plan_id}/resources"
