"""The statuses of deletions that ended as requested."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DELETED, EMPTIED, PLANNED = STATUSES = ("deleted", "emptied", "planned")


def status(deletion: Mapping[str, Any]) -> str:
    """Return the status in which a deletion ends as requested."""
    if deletion.get("dry_run"):
        return PLANNED
    return EMPTIED if deletion.get("mode") == "empty" else DELETED
