"""The brake: whether it is on, and who pulled or lifted it last."""

from __future__ import annotations

import dataclasses

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import Base, database_time, first_of_two, transient

#: There is one brake, for the whole cloud.
_THE_ONE = "brake"


class Brakes(Base):
    """The one brake."""

    @transient
    def brake(self) -> Brake:
        """Return the brake as it is."""
        with self._begin() as c:
            return current_brake(c)

    @transient
    @first_of_two
    def set_brake(self, wanted: Brake) -> Brake:
        """Pull the brake, or lift it; ``since`` becomes the database's time. As it is already, it stays: return it.

        It works from the commit on. Only then every live deletion is made due, so that it says what holds it, or goes
        on: whoever waits for one of their rows holds up no brake.
        """
        table = t.brakes
        with self._begin() as c:
            before = current_brake(c)
            if before.on is wanted.on:
                return before
            made = dataclasses.replace(wanted, since=database_time(c))
            row = {"id": _THE_ONE, **dataclasses.asdict(made)}
            mine = sa.and_(table.c.id == _THE_ONE, table.c.on.is_(before.on))
            if before.since is None:
                c.execute(table.insert(), [row])
            elif c.execute(table.update().where(mine).values(**row)).rowcount != 1:
                return current_brake(c)  # somebody else did the same at this moment
        with self._begin() as c:
            # The version, too: who is about to save a decision without this looks again.
            live = t.deletions.c.live_project_id.is_not(None)
            values = {"wake_at": database_time(c), "version": t.deletions.c.version + 1}
            c.execute(t.deletions.update().where(live).values(**values))
        return made


def current_brake(c: Connection) -> Brake:
    """Return the brake as it is; one that nobody ever pulled is off."""
    row = c.execute(_BRAKE).first()
    return Brake(**{name: value for name, value in row._mapping.items() if name != "id"}) if row else Brake(False)


_BRAKE = sa.select(t.brakes).where(t.brakes.c.id == _THE_ONE)
