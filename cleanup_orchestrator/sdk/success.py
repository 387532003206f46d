"""The statuses of deletions that ended as requested."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DELETED, PURGED, PLANNED = STATUSES = ("deleted", "purged", "planned")


def status(deletion: Mapping[str, Any]) -> str:
    """Return the status in which a deletion ends as requested."""
    if deletion.get("dry_run"):
        return PLANNED
    return PURGED if deletion.get("mode") == "purge" else DELETED
