"""Counts the results of the steps of many deletions in SQL; see ``core.tally``."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.deletion import RoundPurpose, Tally
from cleanup_orchestrator.core.step import Outcome, StepKind, StepState, Token
from cleanup_orchestrator.store import tables as t

_D, _S = t.deletions.c, t.steps.c

_SWEEP = sa.or_(_S.kind == str(StepKind.SWEEP), _S.kind == str(StepKind.UNSUPPORTED))
_LISTED = sa.and_(_SWEEP, sa.or_(_S.round >= _D.since_round, _S.waived != ""))


def _done(since: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Return the condition of ``snapshot.done``."""
    return sa.and_(_S.state == str(StepState.DONE), _S.round >= since)


#: The condition of ``rounds.keeps_last_result``, without force.
_KEEPS_LAST_RESULT = sa.and_(
    _D.closed_at.is_not(None),
    _S.token.in_([str(token) for token in Token if token.scoped]),
    sa.or_(_S.project_setting.is_(True), sa.and_(_done(_D.since_round), _S.outcome == str(Outcome.CLEAR))),
)
#: The condition of ``guard.swept_in_delete_round``.
_EARLY = sa.and_(_D.purpose == str(RoundPurpose.DELETE), _D.project_gone_at.is_not(None))
_SETTINGS = _D.purpose == str(RoundPurpose.PROJECT_SETTINGS)
#: The condition of ``rounds.in_scope``, without force.
_IN_SCOPE = sa.and_(
    _SWEEP,
    _S.waived == "",
    sa.not_(_KEEPS_LAST_RESULT),
    sa.or_(
        sa.and_(_S.informational.is_(True), sa.or_(_EARLY, _D.purpose == str(RoundPurpose.INVENTORY))),
        sa.and_(_S.project_setting.is_(True), _SETTINGS),
        sa.and_(_S.project_setting.is_(False), sa.not_(_SETTINGS)),
    ),
)
_SINCE = sa.case((_D.purpose == str(RoundPurpose.NONE), _D.since_round), else_=_D.round)
_UNKNOWN = _S.outcome == str(Outcome.UNKNOWN)
_GONE_OR_LEFT = _S.deleted + sa.case((_UNKNOWN, _S.found), else_=_S.remaining)
#: The condition of ``tally._finished``, without force.
_FINISHED = sa.and_(
    _done(_SINCE),
    sa.or_(
        _D.purpose == str(RoundPurpose.NONE),
        _S.outcome == str(Outcome.CLEAR),
        sa.and_(_D.purpose == str(RoundPurpose.INVENTORY), _S.outcome == str(Outcome.LEFTOVERS)),
    ),
)
_FOUND = sa.case(
    (sa.not_(_SWEEP), 0),
    (sa.not_(_LISTED), _S.deleted),
    (_S.found > _GONE_OR_LEFT, _S.found),
    else_=_GONE_OR_LEFT,
)


def _sum(condition: sa.ColumnElement[bool], value: sa.ColumnElement[int] | int) -> sa.ColumnElement[int]:
    return sa.func.sum(sa.case((condition, value), else_=0))


#: In the order of the fields of ``Tally``.
_TALLIES = (
    sa.select(
        _S.owner_id,
        _sum(_IN_SCOPE, 1),
        _sum(sa.and_(_IN_SCOPE, _FINISHED), 1),
        sa.func.sum(_FOUND),
        _sum(_SWEEP, _S.deleted),
        _sum(_LISTED, _S.remaining),
        _sum(_LISTED, _S.abandoned),
        _sum(_LISTED, _S.kept),
        _sum(sa.and_(_LISTED, _UNKNOWN), 1),
        sa.func.sum(_S.calls),
    )
    .select_from(t.deletions.join(t.steps, _S.owner_id == _D.id))
    # Both sides: otherwise PostgreSQL reads all steps for some hundred deletions.
    .where(_D.id.in_(sa.bindparam("ids", expanding=True)), _S.owner_id.in_(sa.bindparam("ids", expanding=True)))
    .group_by(_S.owner_id)
)


def tallies(c: Connection, deletion_ids: Sequence[str]) -> dict[str, Tally]:
    """Return the tally of each deletion in one query; deletions without steps are missing.

    :param deletion_ids: deletions without force: the query does not know what was abandoned
    """
    rows = c.execute(_TALLIES, {"ids": list(deletion_ids)}).all()
    return {row[0]: Tally(*map(int, row[1:])) for row in rows}
