"""Promise 5: the janitor is deleted after a kill of the worker at any point. Against a real Keystone.

Not in the cloud of ``test_janitor.py``: Keystone on SQLite, which uses the number of a deleted application credential
again, keeps its roles if its user is deleted, and then refuses the next one with 409.
"""

# ruff: noqa: F811 # fixtures are named as parameters
from __future__ import annotations

import uuid

import sqlalchemy as sa

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.step import StepKind, Token
from cleanup_orchestrator.store import tables
from tests.cloud.orchestrator import JANITOR
from tests.cloud.test_undo import Record, Tenant, fenced, points, record, stock, tenant  # noqa: F401 # fixtures


def members_type(record: Record, deletion_id: str) -> None:
    """Add a type that is listed with the janitor's token, so that the access step makes the janitor."""
    with record.store.database.engine.begin() as connection:
        mine = tables.steps.c.owner_id == deletion_id
        query = sa.select(tables.steps).where(mine, tables.steps.c.kind == str(StepKind.ACCESS))
        access = connection.execute(query).one()._mapping
        module = {"id": str(uuid.uuid4()), "kind": str(StepKind.SWEEP), "service": "database", "type": "module"}
        connection.execute(tables.steps.insert(), [{**access, **module, "token": str(Token.MEMBER)}])


def users(tenant: Tenant) -> set[str]:
    return {user["id"] for user in tenant.cloud.admin.call("GET", "/users")["users"]}


def test_after_a_crash_at_any_point_a_cancel_deletes_the_janitor(record, tenant):
    """Between the record of the user, the user, the option of the fence, the record of its role, and the role."""
    record.config.write_text(record.config.read_text() + JANITOR)
    before, there = tenant.state(), users(tenant)

    def die(die_before: int) -> tuple[list[str], bool]:
        """Return the effects, and whether there was a janitor when the process died."""
        deletion_id = record.deletion(tenant.id)
        members_type(record, deletion_id)
        _, effects = record.run("lock", deletion_id, die_before)
        made = len(users(tenant) - there)
        record.run("cancel", deletion_id)
        assert users(tenant) == there, (die_before, effects)
        assert tenant.state()["assignment"] == before["assignment"], (die_before, effects)
        assert record.store.changes(deletion_id) == ()
        assert record.store.get(deletion_id).status is Status.CANCELLED
        return effects, bool(made)

    effects, made = die(0)
    assert made and [each for each in effects if each.endswith("POST /users")], effects
    found = {die(die_before)[1] for die_before in points(effects)}
    assert found == {True, False}, "before it was made, and after"


def test_after_a_crash_of_the_release_at_any_point_the_next_one_deletes_the_janitor(record, tenant):
    record.config.write_text(record.config.read_text() + JANITOR)
    there = users(tenant)

    def die(die_before: int) -> list[str]:
        deletion_id = record.deletion(tenant.id)
        members_type(record, deletion_id)
        assert record.run("lock", deletion_id)[0]
        assert len(users(tenant) - there) == 1
        ended, effects = record.run("cancel", deletion_id, die_before)
        record.run("cancel", deletion_id) if not ended else None
        assert users(tenant) == there, (die_before, effects)
        assert record.store.changes(deletion_id) == ()
        return effects

    for die_before in points(die(0)):
        die(die_before)
