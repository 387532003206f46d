"""Drain drivers, which lock a project before it is deleted. Loaded by entry point."""

from __future__ import annotations

import stevedore

from cleanup_orchestrator.drain.base import Driver
from cleanup_orchestrator.errors import CleanupError

NAMESPACE = "cleanup_orchestrator.drain"


def load(name: str) -> Driver:
    """Return the drain driver of that name.

    :raises CleanupError: there is none, or it does not load
    """
    try:
        driver = stevedore.DriverManager(NAMESPACE, name, invoke_on_load=True).driver
    except stevedore.exception.NoMatches as error:
        raise CleanupError(f"[drain] driver = {name}: there is no such driver, or it does not load: {error}") from error
    assert isinstance(driver, Driver)
    return driver
