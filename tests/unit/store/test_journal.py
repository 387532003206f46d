"""How the journal is written; tests/functional/test_store/test_chain.py tries it on every kind of database."""

import pytest
from sqlalchemy.dialects import mysql, postgresql

from cleanup_orchestrator.store import journal


@pytest.mark.parametrize("dialect", [postgresql.dialect(), mysql.dialect()], ids=lambda each: each.name)
def test_the_head_is_locked_when_it_is_read(dialect):
    assert str(journal._LOCK_HEAD.compile(dialect=dialect)).endswith("FOR UPDATE")
