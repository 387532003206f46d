"""The write guard's one query answers as separate queries do, on random rows, on every kind of database."""

import dataclasses
import datetime
import random
import types
import uuid

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.core import guard as core_guard
from cleanup_orchestrator.core.delete_windows import Windows
from cleanup_orchestrator.core.deletion import Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.guard import NO_OPTIONS, HoldOptions
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.step import Step, StepKind, StepState
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.store import guard, queries, records, tables
from tests.unit.world import deletion

NOW = datetime.datetime(2026, 1, 5, 12)  #: a Monday
SECOND = datetime.timedelta(seconds=1)
OPTIONS = (
    NO_OPTIONS,
    HoldOptions(Windows.of(["mon 11:00-13:00"], "UTC")),
    HoldOptions(Windows.of(["mon 13:00-14:00"], "UTC")),
)
CASES = 240


@pytest.fixture
def now(monkeypatch):
    monkeypatch.setattr(queries, "database_time", lambda _: NOW)


def fill(c, chance):
    """Insert a deletion with steps, changes and holds; return one of the steps as its worker has it.

    Each value is mostly one with which the worker may write, and sometimes any other.
    """
    pick = chance.choice

    def mostly(value, others):
        return value if chance.random() < 0.85 else pick(list(others))

    purpose = pick([RoundPurpose.DELETE, RoundPurpose.PROJECT_SETTINGS])
    record = deletion(
        id=str(uuid.UUID(int=chance.getrandbits(128))),
        project_id="p",
        status=mostly(Status.DELETING, Status),
        purpose=mostly(purpose, RoundPurpose),
        mode=pick(list(Mode)),
        origin=mostly(Origin.REQUEST, Origin),
        dry_run=mostly(False, [True]),
        round=mostly(3, [4]),
        since_round=mostly(3, [1, 4]),
        project_gone_at=mostly(None, [NOW]),
    )
    c.execute(tables.deletions.insert(), [records.deletion_values(record)])
    made = [
        Step(
            str(uuid.UUID(int=chance.getrandbits(128))),
            record.id,
            kind,
            "R1",
            "network",
            "port",
            project_setting=mostly(purpose is RoundPurpose.PROJECT_SETTINGS, [True, False]),
            informational=mostly(False, [True]),
            round=mostly(3, [2]),
            state=mostly(StepState.RUNNING, StepState),
            fencing_token=7,
            lease_until=mostly(NOW + SECOND, [None, NOW - SECOND, NOW]),
        )
        for kind in StepKind
    ]
    c.execute(tables.steps.insert(), [records.step_values(step) for step in made])
    for sequence, undone in enumerate(chance.choices([True, False], k=chance.randrange(3))):
        row = {"id": f"{record.id[:30]}{sequence}", "deletion_id": record.id, "sequence": sequence, "type": "x"}
        c.execute(tables.changes.insert(), [row | {"data": {}, "undone": undone}])
    for number in range(mostly(0, [1, 2])):
        lien = Lien(f"l{number}", pick(["p", "p", "another"]), "ops", "x", NOW, user_id="u")
        expires_at, deleted_at = pick([None, NOW - SECOND, NOW, NOW + SECOND]), pick([None, None, None, NOW])
        lien = dataclasses.replace(lien, expires_at=expires_at, deleted_at=deleted_at)
        c.execute(tables.liens.insert(), [dataclasses.asdict(lien)])
    if chance.random() < 0.2:
        brake = Brake(chance.random() < 0.5, "x", since=NOW)
        c.execute(tables.brakes.insert(), [{"id": "brake", **dataclasses.asdict(brake)}])
    asked = mostly(next(step for step in made if step.kind is StepKind.SWEEP), made)
    return dataclasses.replace(asked, fencing_token=mostly(7, [6]), id=mostly(asked.id, ["none"]))


def separately(c, step, options, undoing):
    """Answer with one query for each table, one after the other, as the guard once did."""
    row = c.execute(sa.select(tables.steps).where(tables.steps.c.id == step.id)).first()
    current = records.step(row) if row else None
    if current is None or current.fencing_token != step.fencing_token or current.state != StepState.RUNNING:
        return False
    computed = types.SimpleNamespace(has_changes=False, has_holds=False)  # no rule of writing reads them
    row = c.execute(sa.select(tables.deletions).where(tables.deletions.c.id == step.owner_id)).one()
    found = records.deletion(row, computed)
    if found.status not in LIVE or current.round < found.since_round:
        return False
    if undoing:
        options, held, on = NO_OPTIONS, (), None
    else:
        liens = [records.lien(row) for row in c.execute(sa.select(tables.liens))]
        held = tuple(
            lien
            for lien in liens
            if lien.project_id == found.project_id
            and lien.deleted_at is None
            and (lien.expires_at is None or lien.expires_at > NOW)
        )
        brake = c.execute(sa.select(tables.brakes)).first()
        on = Brake(True, "x", since=NOW) if brake is not None and brake.on else None
    inputs = core_guard.HoldInputs(found, NOW, options, step.fencing_token, liens=held, brake=on)
    return not list(core_guard.causes(inputs, current))


@pytest.mark.parametrize("undoing", [False, True], ids=["writing", "undoing"])
def test_one_query_answers_as_separate_ones(store, now, undoing):
    answers = {True: 0, False: 0}
    for seed in range(CASES):
        chance = random.Random(seed)
        with store.database.engine.connect() as c:
            step, options = fill(c, chance), chance.choice(OPTIONS)
            wanted = separately(c, step, options, undoing)
            found = guard.may_write(c, step, options, undoing)
            assert found == (NOW if wanted else None), seed
            answers[wanted] += 1
            c.rollback()
    assert min(answers.values()) >= CASES / 12, "both answers occur often enough"


def test_a_locked_deletion_is_read_as_one_that_is_not_locked(store, now):
    """The engine reads what the row itself does not tell together with the steps."""
    seen = set()
    for seed in range(CASES):
        with store.database.engine.connect() as c:
            step = fill(c, random.Random(seed))
            found, steps, at = queries.load_locked(c, step.owner_id)
            assert found == queries.get_deletion(c, step.owner_id)
            assert steps == queries.steps_of(c, step.owner_id)
            assert at == NOW
            seen.add((found.has_changes, found.has_holds))
            c.rollback()
    assert len(seen) == 4
