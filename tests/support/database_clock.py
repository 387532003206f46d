"""The fixture ``database_clock``: a test moves the time of the database forward."""

from __future__ import annotations

import datetime
import sys
from typing import Any

import pytest

from cleanup_orchestrator.store import database


class DatabaseClock:
    """The time of the database plus an offset, so that a test can skip a waiting time."""

    def __init__(self) -> None:
        self.ahead = datetime.timedelta(0)

    def advance(self, seconds: float) -> None:
        """Move the time of all stores of this process forward."""
        self.ahead += datetime.timedelta(seconds=seconds)


@pytest.fixture
def database_clock(monkeypatch: pytest.MonkeyPatch) -> DatabaseClock:
    """Replace the database's time in every part of the store; for tests in one process."""
    clock, real = DatabaseClock(), database.database_time

    def database_time(connection: Any) -> datetime.datetime:
        return real(connection) + clock.ahead

    for name, module in list(sys.modules.items()):
        if name.startswith("cleanup_orchestrator.store") and hasattr(module, "database_time"):
            monkeypatch.setattr(module, "database_time", database_time)
    return clock
