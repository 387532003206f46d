"""Changes that a drain makes to a project.

A change is recorded before it is made, and marked when it is undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.journal import Change, Event
from cleanup_orchestrator.core.step import Step
from cleanup_orchestrator.store import guard, queries
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import Repository, new_id
from cleanup_orchestrator.store.journal import write_journal
from cleanup_orchestrator.store.transient import retry_transient


class Changes(Repository):
    """Reads and writes changes."""

    @retry_transient
    def record_intent(self, step: Step, type_: str, data: Mapping[str, Any]) -> Change | None:
        """Record a change before it is made.

        ``None``: the step may not write, and the change must not be made. A change that is recorded and not undone is
        returned as it is: a repeated drain records it once. The version of the deletion grows, so that an engine that
        decided without the change reads again before it saves.
        """
        with self._database.begin() as c:
            # First, because it locks the row: the deletion cannot change between the check and the record.
            mine = t.deletions.c.id == step.owner_id
            c.execute(t.deletions.update().where(mine).values(version=t.deletions.c.version + 1))
            if guard.may_write(c, step) is None:
                return None
            existing = _changes(c, step.owner_id, undone=None)
            for change in existing:
                if not change.undone and change.type == type_ and dict(change.data) == dict(data):
                    return change
            change = Change(new_id(), step.owner_id, len(existing) + 1, type_, dict(data))
            c.execute(
                t.changes.insert(),
                [
                    {
                        "id": change.id,
                        "deletion_id": change.deletion_id,
                        "sequence": change.sequence,
                        "type": change.type,
                        "data": dict(change.data),
                        "undone": False,
                    }
                ],
            )
            return change

    @retry_transient
    def list(self, deletion_id: str) -> tuple[Change, ...]:
        """Return the changes that are not undone, in the order in which they were made."""
        with self._database.read() as c:
            return _changes(c, deletion_id, undone=False)

    @retry_transient
    def undone(self, step: Step, change: Change, event: Event) -> bool:
        """Mark a change as undone and append a line to the journal.

        A change that is marked stays as it is. Liens, the brake and the hours do not prevent it: the change is undone
        already.

        :param step: the step that undid it
        :returns: ``False``: the step may not write, nothing is saved
        """
        with self._database.begin() as c:
            queries.lock_deletion(c, step.owner_id)
            if (now := guard.may_write(c, step, undoing=True)) is None:
                return False
            mine = sa.and_(t.changes.c.id == change.id, t.changes.c.undone.is_(False))
            if c.execute(t.changes.update().where(mine).values(undone=True)).rowcount:
                write_journal(c, change.deletion_id, now, [event])
            return True


def mark_undone(c: Connection, changes: Iterable[Change]) -> None:
    """Mark changes that others have undone."""
    for change in changes:
        c.execute(t.changes.update().where(t.changes.c.id == change.id).values(undone=True))


def _changes(c: Connection, deletion_id: str, undone: bool | None) -> tuple[Change, ...]:
    """Return the changes of a deletion.

    ``undone``: only those marked so, or only the others; ``None``: all.
    """
    query = sa.select(t.changes).where(t.changes.c.deletion_id == deletion_id)
    if undone is not None:
        query = query.where(t.changes.c.undone.is_(undone))
    return tuple(Change(**r._mapping) for r in c.execute(query.order_by(t.changes.c.sequence)))
