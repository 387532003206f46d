"""The commit hook: tells listeners what a transaction has changed."""

from __future__ import annotations

from typing import Protocol

from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.orphan_scan import OrphanScan


class CommitListener(Protocol):
    """Receives each change after its commit, in the thread that made it.

    A listener does not raise and does not wait.

    A process that ends right after a commit tells its listeners nothing: the record is the truth.
    """

    def deletion_saved(self, before: Deletion | None, after: Deletion) -> None:
        """Receive a deletion that was created (``before`` is ``None``) or saved."""

    def lien_changed(self, lien: Lien) -> None:
        """Receive a lien that was recorded, or, with ``deleted_at``, removed."""

    def brake_changed(self, brake: Brake) -> None:
        """Receive the brake after it was set or lifted."""

    def scan_moved(self, scan: OrphanScan) -> None:
        """Receive an orphan scan that was created, or whose status changed."""


class CommitListeners:
    """The listeners of one database; each method tells all of them."""

    def __init__(self) -> None:
        self._listeners: list[CommitListener] = []

    def add(self, listener: CommitListener) -> None:
        """Tell one more listener of the commits from now on."""
        self._listeners.append(listener)

    def deletion_saved(self, before: Deletion | None, after: Deletion) -> None:
        """See :meth:`CommitListener.deletion_saved`."""
        for listener in self._listeners:
            listener.deletion_saved(before, after)

    def lien_changed(self, lien: Lien) -> None:
        """See :meth:`CommitListener.lien_changed`."""
        for listener in self._listeners:
            listener.lien_changed(lien)

    def brake_changed(self, brake: Brake) -> None:
        """See :meth:`CommitListener.brake_changed`."""
        for listener in self._listeners:
            listener.brake_changed(brake)

    def scan_moved(self, scan: OrphanScan) -> None:
        """See :meth:`CommitListener.scan_moved`."""
        for listener in self._listeners:
            listener.scan_moved(scan)
