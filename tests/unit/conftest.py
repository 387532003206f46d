"""Fixtures of the unit tests."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from cleanup_orchestrator.store import Store
from tests.support import sqlite_stores


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Iterator[Store]:
    """An empty store over SQLite, in a file."""
    made = sqlite_stores.in_file(tmp_path / "store.sqlite")
    yield made
    made.close()
