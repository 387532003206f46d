"""The brake in the store, on every kind of database."""

import concurrent.futures
import dataclasses
import datetime

import sqlalchemy as sa

from cleanup_orchestrator.core.holds import Brake
from tests.support.stores import create, save

SECOND = datetime.timedelta(seconds=1)


def test_the_brake_makes_every_live_deletion_due(store):
    records = [create(store, project_id=f"p{n}") for n in range(3)]
    for record in records:
        read = store.get(record.id)
        save(store, read, dataclasses.replace(read, wake_at=store.now() + 3600 * SECOND))
    assert store.due() == []
    for on in (True, False):
        store.set_brake(Brake(on, "x"))
        assert set(store.due()) == {record.id for record in records}


def test_simultaneous_changes_of_the_brake_make_one_change(store):
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        for on in (True, False, True):
            found = set(threads.map(lambda n, on=on: store.set_brake(Brake(on, str(n))), range(6)))
            assert len(found) == 1 and found == {store.brake()}


def test_every_live_deletion_becomes_due_after_a_deadlock_with_one_of_them(store):
    record = create(store)
    read = store.get(record.id)
    save(store, read, dataclasses.replace(read, wake_at=store.now() + 3600 * SECOND))
    broken = []

    def deadlock(_connection, _cursor, statement, *_):
        if statement.startswith("UPDATE deletions") and not broken:
            broken.append(statement)
            raise sa.exc.OperationalError(statement, {}, Exception("deadlock"))

    sa.event.listen(store.database.engine, "before_cursor_execute", deadlock)
    store.set_brake(Brake(True, "x"))
    assert broken and store.due() == [record.id]
