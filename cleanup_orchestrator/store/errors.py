"""Errors that the store raises."""

from __future__ import annotations

import datetime

from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.request_limits import Exceeded
from cleanup_orchestrator.errors import CleanupError


class Conflict(CleanupError):
    """The record was changed since it was read; the caller reads it again."""

    code = "conflict"


class AlreadyUnderWay(CleanupError):
    """The project has a live deletion."""

    code = "deletion_under_way"

    def __init__(self, existing: Deletion) -> None:
        super().__init__(f"a deletion of project {existing.project_id} is under way: {existing.id}")
        self.existing = existing


class TooManyDeletions(CleanupError):
    """A limit for requests of users who are no admins is reached."""

    code = "deletion_limit_reached"

    def __init__(self, exceeded: Exceeded, wait: datetime.timedelta) -> None:
        super().__init__(str(exceeded))
        self.exceeded = exceeded
        self.wait = wait  #: before another request makes sense


class ScanUnderWay(CleanupError):
    """Another orphan scan has not ended."""

    code = "orphan_scan_under_way"

    def __init__(self, scan_id: str) -> None:
        super().__init__(f"orphan scan {scan_id} is under way")
        self.scan_id = scan_id


class NotFound(CleanupError):
    """No record has this id."""

    code = "not_found"
