import types

import pytest

from cleanup_orchestrator.drain import fence


@pytest.fixture
def no_waiting(monkeypatch):
    """The driver with the fence does not sleep, and no time passes."""
    monkeypatch.setattr(fence, "time", types.SimpleNamespace(sleep=lambda _: None, monotonic=lambda: 0.0))
