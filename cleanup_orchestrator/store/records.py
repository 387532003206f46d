"""Converts between the dataclasses of the core and the rows of the tables."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Row

from cleanup_orchestrator.core import storable
from cleanup_orchestrator.core.condition_types import Condition
from cleanup_orchestrator.core.deletion import (
    Approval,
    Child,
    Deletion,
    Force,
    Mode,
    Origin,
    RoundPurpose,
    Status,
    Tally,
    UseDecision,
)
from cleanup_orchestrator.core.holds import Lien, Waiver
from cleanup_orchestrator.core.journal_chain import Head
from cleanup_orchestrator.core.orphan_scan import SCANNING, Orphan, OrphanScan, ScanStatus
from cleanup_orchestrator.core.queue import QueueState
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.selection import EVERYTHING, Selection
from cleanup_orchestrator.core.step import Leftover, Outcome, ScanCounts, Step, StepKind, StepState, StepView, Token
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.store import tables as t

#: Fields of a deletion that are computed from other tables, or written with the journal.
_DERIVED = frozenset({"has_changes", "has_holds", "superseded", "journal"})


def deletion_values(d: Deletion) -> dict[str, Any]:
    """Return the columns of a deletion.

    ``live_project_id`` is set only while it is live.
    """
    values = {name: getattr(d, name) for name in _DELETION_FIELDS}
    values["live_project_id"] = d.project_id if d.status in LIVE else None
    values["begins_at"] = d.begins_at
    values["member_ids"] = list(d.member_ids)
    values["message"], values["project_name"] = storable.text(d.message), storable.text(d.project_name)[:255]
    values["request_reason"], values["ticket"] = storable.text(d.request_reason), storable.text(d.ticket)
    values["conditions"] = [
        plain(dataclasses.asdict(c) | {"last_transition_at": c.last_transition_at.isoformat()}) for c in d.conditions
    ]
    values["waivers"] = stored_waivers(d.waivers)
    values["attention"] = ",".join(d.attention)
    values["forced"] = plain(d.forced.to_dict()) if d.forced else None
    values["tally"] = dataclasses.asdict(d.tally)
    values["selection"] = plain(d.selection.to_dict()) if d.selection else None
    values["approvals"] = [plain(a.to_dict()) for a in d.approvals]
    return {k: str(v) if isinstance(v, StrEnum) else v for k, v in values.items()}


def derived(id_: sa.ColumnElement[str], project_id: sa.ColumnElement[str]) -> list[sa.Label[Any]]:
    """Return the computed columns of a deletion: ``has_changes`` and ``has_holds``.

    The latter tells whether liens or the brake are on record. Whether they are in force depends on the database's time.
    """
    changes = sa.exists().where(t.changes.c.deletion_id == id_, t.changes.c.undone.is_(False))
    liens = sa.exists().where(t.liens.c.project_id == project_id, t.liens.c.deleted_at.is_(None))
    brake = sa.exists().where(t.brakes.c.on.is_(True))
    return [changes.label("has_changes"), sa.or_(liens, brake).label("has_holds")]


def select_deletions() -> sa.Select[Any]:
    """Return a query for all columns of deletions, also the computed ones."""
    later = sa.and_(_ended_badly(), superseded()).label("superseded")
    return sa.select(t.deletions, *derived(t.deletions.c.id, t.deletions.c.project_id), later)


def _ended_badly() -> sa.ColumnElement[bool]:
    """Return the condition for deletions that ended and need an operator, unless they are superseded."""
    d = t.deletions.c
    return sa.and_(d.status.in_([str(Status.FAILED), str(Status.LEFTOVERS)]), d.dry_run.is_(False))


def superseded() -> sa.ColumnElement[bool]:
    """Return the condition for deletions whose project has a later deletion that is no dry run.

    A retry makes a deletion the latest again.
    """
    d, later = t.deletions.c, t.deletions.alias("later").c
    return sa.exists().where(later.project_id == d.project_id, later.status_at > d.status_at, later.dry_run.is_(False))


def needs_attention() -> sa.ColumnElement[bool]:
    """Return the condition for deletions that need an operator.

    A live deletion has its own mark. A deletion that ended failed or with leftovers needs an operator, unless it is
    superseded. Those that ended are found by an index on their status.
    """
    table = t.deletions
    ended = sa.and_(_ended_badly(), sa.not_(superseded()))
    return sa.or_(sa.and_(table.c.live_project_id.is_not(None), table.c.attention != ""), ended)


#: The fields of a deletion that are columns of its table.
_DELETION_FIELDS = tuple(f.name for f in dataclasses.fields(Deletion) if f.name not in _DERIVED)

#: The members by their values. A look-up takes a fifth of the time of the call of an enumeration.
_MODES = {str(each): each for each in Mode}
_ORIGINS = {str(each): each for each in Origin}
_STATUSES = {str(each): each for each in Status}
_PURPOSES = {str(each): each for each in RoundPurpose}
_QUEUE_STATES = {str(each): each for each in QueueState}


def deletion(row: Row[Any], computed: Row[Any] | None = None) -> Deletion:
    """Return the deletion in a row with the columns of :func:`select_deletions`.

    :param computed: the row with the columns of :func:`derived`, if the first one does not have them
    """
    mapping = row._mapping
    computed = row if computed is None else computed
    values = {name: mapping[name] for name in _DELETION_FIELDS}
    values["mode"], values["origin"] = _MODES[values["mode"]], _ORIGINS[values["origin"]]
    values["status"], values["purpose"] = _STATUSES[values["status"]], _PURPOSES[values["purpose"]]
    values["queue_state"] = _QUEUE_STATES[values["queue_state"]]
    values["member_ids"] = tuple(values["member_ids"])
    values["conditions"] = tuple(map(_condition, values["conditions"]))
    values["waivers"] = tuple(Waiver(**{k: _parsed(k, v) for k, v in x.items()}) for x in values["waivers"])
    values["approvals"] = tuple(Approval(**x | {"at": _parsed("_at", x["at"])}) for x in values["approvals"])
    values["forced"] = _force(values["forced"]) if values["forced"] else None
    values["selection"] = Selection.from_dict(values["selection"]) if values["selection"] else EVERYTHING
    values["tally"] = Tally(**values["tally"])
    values["has_changes"], values["has_holds"] = bool(computed.has_changes), bool(computed.has_holds)
    values["superseded"] = bool(mapping.get("superseded"))
    values["journal"] = Head(mapping["journal_length"], mapping["journal_digest"])
    return Deletion(**values)


def _condition(stored: dict[str, Any]) -> Condition:
    return Condition(**{**stored, "last_transition_at": datetime.datetime.fromisoformat(stored["last_transition_at"])})


def stored_waivers(waivers: Iterable[Waiver]) -> list[dict[str, Any]]:
    """Return waivers as a deletion's row keeps them.

    The row has them as they were when the deletion relied on them.
    """
    return [w.to_dict() for w in waivers]


def _parsed(name: str, value: Any) -> Any:
    return datetime.datetime.fromisoformat(value) if value and name.endswith("_at") else value


def _force(stored: Mapping[str, Any]) -> Force:
    at = datetime.datetime.fromisoformat(stored["at"])
    uses = tuple(
        UseDecision(each["of"], tuple((type_, id_) for type_, id_ in each["by"]), each["who"])
        for each in stored.get("uses", ())
    )
    return Force(**{**stored, "types": tuple(stored["types"]), "at": at, "uses": uses})


def leftover(row: Row[Any]) -> Leftover:
    """Return the leftover in a row."""
    return Leftover(
        row.resource_id,
        row.name,
        Reason(row.reason),
        row.message,
        tuple(row.blocked_by),
        row.abandoned,
        row.owner,
        row.remedy,
        row.announced,
        row.size,
        row.objects,
    )


def waiver(row: Row[Any]) -> Waiver:
    """Return the waiver in a row."""
    return Waiver(**row._mapping)


def lien(row: Row[Any]) -> Lien:
    """Return the lien in a row."""
    return Lien(**row._mapping)


def child(row: Row[Any]) -> Child:
    """Return the child in a row: a deletion that another one waits for.

    It needs no person if its project has a later deletion; see :func:`needs_attention`.
    """
    status, causes = Status(row.status), tuple(filter(None, row.attention.split(","))) if row.asks else ()
    return Child(row.id, row.project_id, status, row.status_at, row.project_name, causes)


def plain(value: Any) -> Any:
    """Return a value for a JSON column.

    Its text goes through :func:`storable.text`, as MariaDB refuses unpaired surrogates.
    """
    if isinstance(value, str):
        return storable.text(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


_NO_COUNTS = ScanCounts()


def step_values(s: Step) -> dict[str, Any]:
    """Return the columns of a step."""
    values = {f.name: getattr(s, f.name) for f in dataclasses.fields(s)}
    values |= {"after": list(s.after), "needed_by": list(s.needed_by)}
    values |= {"message": storable.text(s.message), "remedy": storable.text(s.remedy)}
    values["counts"] = dataclasses.asdict(s.counts) if s.counts != _NO_COUNTS else None
    return {k: str(v) if isinstance(v, StepKind | StepState | Outcome | Token) else v for k, v in values.items()}


#: Prefix of the columns of a step in a row that also has those of its deletion.
OF_STEP = "step_"
_STEP_FIELDS = tuple(f.name for f in dataclasses.fields(Step))

#: The members by their values, as above.
_KINDS = {str(each): each for each in StepKind}
_STATES = {str(each): each for each in StepState}
_OUTCOMES = {str(each): each for each in Outcome}
_TOKENS = {str(each): each for each in Token}


def step_columns() -> list[sa.Label[Any]]:
    """Return the columns of a step for a query that also has those of its deletion; see :func:`step`."""
    return [column.label(OF_STEP + column.name) for column in t.steps.c]


def step(row: Row[Any], prefix: str = "") -> Step:
    """Return the step in a row.

    :param prefix: ``OF_STEP`` for a row with the columns of :func:`step_columns`
    """
    mapping = row._mapping
    values = {name: mapping[prefix + name] for name in _STEP_FIELDS}
    values["kind"], values["state"] = _KINDS[values["kind"]], _STATES[values["state"]]
    values["outcome"], values["token"] = _OUTCOMES[values["outcome"]], _TOKENS[values["token"]]
    values["after"], values["needed_by"] = tuple(values["after"]), tuple(values["needed_by"])
    values["counts"] = ScanCounts(**values["counts"]) if values["counts"] else _NO_COUNTS
    return Step(**values)


def select_shown_steps() -> sa.Select[Any]:
    """Return a query for what views show of all steps, whose rows :func:`shown_step` reads.

    It takes two thirds of the time of a query for all columns.
    """
    return sa.select(*(t.steps.c[field.name] for field in dataclasses.fields(StepView)))


def shown_step(row: Sequence[Any]) -> StepView:
    """Return what views show of the step in a row of :func:`select_shown_steps`."""
    id_, owner_id, kind, region, service, type_, after, needed_by, setting, informational, token, *rest = row
    waived, round_, attempt, state, outcome, *others = rest
    where = id_, owner_id, _KINDS[kind], region, service, type_, tuple(after), tuple(needed_by), setting, informational
    result = _TOKENS[token], waived, round_, attempt, _STATES[state], _OUTCOMES[outcome]
    return StepView(*where, *result, *others)


def scan_values(s: OrphanScan) -> dict[str, Any]:
    """Return the columns of an orphan scan; ``live`` is set until it has ended."""
    values = {f.name: getattr(s, f.name) for f in dataclasses.fields(s)}
    live = "scan" if s.status in SCANNING else None
    covered = {"not_covered": [plain(dict(x)) for x in s.not_covered]}
    return {**values, **covered, "status": str(s.status), "message": storable.text(s.message), "live": live}


def scan(row: Row[Any]) -> OrphanScan:
    """Return the orphan scan in a row."""
    values = {f.name: row._mapping[f.name] for f in dataclasses.fields(OrphanScan)}
    return OrphanScan(**{**values, "status": ScanStatus(row.status), "not_covered": tuple(row.not_covered)})


_ORPHAN = tuple(field.name for field in dataclasses.fields(Orphan))


def orphan_values(o: Orphan, id_: str) -> dict[str, Any]:
    """Return the columns of an orphan.

    :param id_: the resource's id as it is stored
    """
    values = {name: getattr(o, name) for name in _ORPHAN}
    return values | {"resource_id": id_, "name": storable.resource_name(o.name)}


def orphan(row: Row[Any]) -> Orphan:
    """Return the orphan in a row."""
    return Orphan(*(getattr(row, name) for name in _ORPHAN))
