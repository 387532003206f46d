"""oslo.messaging is imported without eventlet, as far as oslo.service allows it."""

import sys

import pytest
from oslo_service import backend

from cleanup_orchestrator import compat


@pytest.fixture(autouse=True)
def _no_eventlet(monkeypatch):
    """The start of a process: no module has imported eventlet."""
    monkeypatch.delitem(sys.modules, "eventlet", raising=False)


def test_eventlet_is_hidden_during_the_import_alone(monkeypatch):
    chosen = []
    monkeypatch.setattr(backend, "register_backend_default_hook", chosen.append, raising=False)
    with compat.without_eventlet():
        assert sys.modules["eventlet"] is None
    assert "eventlet" not in sys.modules
    assert [hook() for hook in chosen] == [backend.BackendType.THREADING]


def test_an_oslo_service_that_knows_only_eventlet_can_import_it(monkeypatch):
    """oslo.service 4.1, of 2025.1, has no such hook."""
    monkeypatch.delattr(backend, "register_backend_default_hook", raising=False)
    with compat.without_eventlet():
        assert "eventlet" not in sys.modules
