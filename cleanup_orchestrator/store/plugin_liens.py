"""Liens that plugins raise for a deletion, and end when their reason is gone.

See :mod:`..core.plugin_liens`.

Each function works within the caller's transaction.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import plugin_liens, storable
from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.step import Step, StepResult
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.liens import LIENS


def raise_lien(c: Connection, wanted: Lien, now: datetime.datetime) -> Lien | None:
    """Record a plugin's lien.

    ``None``: it is in force already, or was removed by an admin, which is final. A lien that a plugin ended is in force
    again: its reason has come back.
    """
    table = t.liens
    lien = dataclasses.replace(wanted, reason=storable.text(wanted.reason), created_at=now)
    row = c.execute(sa.select(table).where(table.c.id == wanted.id)).first()
    if row is None:
        c.execute(table.insert(), [dataclasses.asdict(lien)])
        return lien
    if row.deleted_at is None or row.deleted_by != plugin_liens.PLUGIN:
        return None
    again = {"created_at": now, "reason": lien.reason, "deleted_at": None, "deleted_by": ""}
    c.execute(table.update().where(table.c.id == wanted.id).values(**again))
    return lien


def end_lien(c: Connection, lien_id: str, now: datetime.datetime) -> Lien | None:
    """End a plugin's lien whose reason is gone.

    ``None``: no lien with this id is in force.
    """
    mine = sa.and_(t.liens.c.id == lien_id, t.liens.c.deleted_at.is_(None))
    ended = c.execute(t.liens.update().where(mine).values(deleted_at=now, deleted_by=plugin_liens.PLUGIN))
    return LIENS.get(c, lien_id) if ended.rowcount else None


def settle_lien(
    c: Connection, deletion: Deletion, step: Step, result: StepResult, now: datetime.datetime
) -> tuple[list[Lien], list[Event]]:
    """Raise or end the lien of a step by its new result; return it and its journal line."""
    if result.in_use is None or not plugin_liens.binding(deletion):
        return [], []
    if result.in_use:
        lien, type_ = raise_lien(c, plugin_liens.lien(deletion, step, result.in_use, now), now), EventType.LIEN_RAISED
        text = f"nothing is deleted before it is removed: {lien}"
    else:
        lien, type_ = end_lien(c, plugin_liens.lien_id(deletion.id, step), now), EventType.LIEN_ENDED
        text = f"its reason is gone: {lien}"
    if lien is None:
        return [], []
    return [lien], [Event(type_, text, step.worker, lien.to_dict())]


def end_liens_of(
    c: Connection, deletion: Deletion, steps: Iterable[Step], now: datetime.datetime, actor: str
) -> tuple[list[Lien], list[Event]]:
    """End the liens of plugins for a deletion that has ended; return them and their journal lines.

    :param actor: whose action ended it
    """
    ended = [end_lien(c, plugin_liens.lien_id(deletion.id, step), now) for step in steps]
    liens = [lien for lien in ended if lien is not None]
    text = "it was about this deletion, which is no longer under way"
    return liens, [Event(EventType.LIEN_ENDED, f"{text}: {lien}", actor, lien.to_dict()) for lien in liens]
