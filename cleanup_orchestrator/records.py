"""Deletions and steps as rows of the tables, and back."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Row

from cleanup_orchestrator import tables as t
from cleanup_orchestrator.model import (
    Child,
    Condition,
    Deletion,
    Kind,
    Mode,
    Origin,
    Outcome,
    Purpose,
    State,
    Status,
    Step,
    Token,
)
from cleanup_orchestrator.transitions import LIVE

#: Fields of a deletion that other tables and rows have.
_DERIVED = frozenset({"holding", "children"})


def deletion_values(d: Deletion) -> dict[str, Any]:
    """Return what is stored of a deletion; its project counts as live only while it is."""
    values = {f.name: getattr(d, f.name) for f in dataclasses.fields(d) if f.name not in _DERIVED}
    values["live_project_id"] = d.project_id if d.status in LIVE else None
    values["member_ids"] = list(d.member_ids)
    values["conditions"] = [
        dataclasses.asdict(c) | {"last_transition_at": c.last_transition_at.isoformat()} for c in d.conditions
    ]
    return {k: str(v) if isinstance(v, Mode | Status | Purpose | Origin) else v for k, v in values.items()}


_HOLDING = (
    sa.exists().where(t.changes.c.deletion_id == t.deletions.c.id, t.changes.c.undone.is_(False)).label("holding")
)


def select_deletions() -> sa.Select[Any]:
    """Return a query for whole deletions."""
    return sa.select(t.deletions, _HOLDING)


def deletion(row: Row[Any]) -> Deletion:
    """Return the deletion in a row of :func:`select_deletions`."""
    values = dict(row._mapping)
    values.pop("live_project_id")
    return Deletion(
        **{
            **values,
            "mode": Mode(row.mode),
            "origin": Origin(row.origin),
            "status": Status(row.status),
            "purpose": Purpose(row.purpose),
            "member_ids": tuple(row.member_ids),
            "conditions": tuple(
                Condition(**{**x, "last_transition_at": datetime.datetime.fromisoformat(x["last_transition_at"])})
                for x in row.conditions
            ),
            "holding": bool(row.holding),
        }
    )


def child(row: Row[Any]) -> Child:
    """Return what a deletion sees of one that it waits for."""
    return Child(row.id, row.project_id, Status(row.status), row.status_at)


def step_values(s: Step) -> dict[str, Any]:
    """Return what is stored of a step."""
    values = {f.name: getattr(s, f.name) for f in dataclasses.fields(s)}
    values["after"] = list(s.after)
    return {k: str(v) if isinstance(v, Kind | State | Outcome | Token) else v for k, v in values.items()}


def step(row: Row[Any]) -> Step:
    """Return the step in a row."""
    return Step(
        **{
            **row._mapping,
            "kind": Kind(row.kind),
            "state": State(row.state),
            "outcome": Outcome(row.outcome),
            "token": Token(row.token),
            "after": tuple(row.after),
        }
    )
