"""Fixtures of the unit tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cleanup_orchestrator.cloud import session as cloud_session
from tests.support.databases import filled
from tests.support.stores import store

__all__ = ["store"]


@pytest.fixture
def database_url() -> Iterator[str]:
    """The URL of a SQLite file at head without rows. The functional tests use the other kinds, too."""
    with filled("sqlite") as url:
        yield url


@pytest.fixture
def no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that is answered with 503 is not sent again: the services of the test do not recover."""
    monkeypatch.setattr(cloud_session, "AGAIN", ())
