"""The brake: whether it is on, and who set or lifted it last."""

from __future__ import annotations

import dataclasses

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import Repository, database_time
from cleanup_orchestrator.store.transient import retry_duplicate, retry_transient

#: The id of the only row: one brake holds the whole cloud.
_THE_ONE = "brake"


class Brakes(Repository):
    """Reads and sets the brake."""

    @retry_transient
    def get(self) -> Brake:
        """Return the brake."""
        with self._database.read() as c:
            return current_brake(c)

    def set(self, wanted: Brake) -> Brake:
        """Set the brake or lift it, and return it.

        ``since`` becomes the database's time. A brake that is already in the wanted position stays as it is and is
        returned. The brake is in force from the commit on. A second transaction makes every live deletion due, so that
        each reports the hold or continues: a lock on one of their rows does not delay the brake.
        """
        made = self._set(wanted)
        if made == dataclasses.replace(wanted, since=made.since):
            self._database.listeners.brake_changed(made)
            self._wake_all()
        return made

    @retry_transient
    @retry_duplicate
    def _set(self, wanted: Brake) -> Brake:
        table = t.brakes
        with self._database.begin() as c:
            before = current_brake(c)
            if before.on is wanted.on:
                return before
            made = dataclasses.replace(wanted, since=database_time(c))
            row = {"id": _THE_ONE, **dataclasses.asdict(made)}
            mine = sa.and_(table.c.id == _THE_ONE, table.c.on.is_(before.on))
            if before.since is None:
                c.execute(table.insert(), [row])
            elif c.execute(table.update().where(mine).values(**row)).rowcount != 1:
                return current_brake(c)  # another transaction did the same at this moment
        return made

    @retry_transient
    def _wake_all(self) -> None:
        """Make every live deletion due."""
        with self._database.begin() as c:
            # The new version makes an engine that decided without the brake read again before it saves.
            live = t.deletions.c.live_project_id.is_not(None)
            values = {"wake_at": database_time(c), "version": t.deletions.c.version + 1}
            c.execute(t.deletions.update().where(live).values(**values))


def current_brake(c: Connection) -> Brake:
    """Return the brake; it is off as long as no row exists."""
    row = c.execute(_BRAKE).first()
    return Brake(**{name: value for name, value in row._mapping.items() if name != "id"}) if row else Brake(False)


_BRAKE = sa.select(t.brakes).where(t.brakes.c.id == _THE_ONE)
