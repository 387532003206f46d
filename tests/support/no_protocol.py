"""A worker's services that speak the project resources protocol, where there are none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class NoProtocol:
    """Stands for ``protocol.discovery.Discovery``: every service has a plugin."""

    off = True

    def __init__(self, registry: Any = None) -> None:
        self._registry = registry

    def registry(self, _region: str, _service_type: str) -> Any:
        """Return the registry of the plugins."""
        return self._registry

    def with_clouds(self, _clouds: Any) -> NoProtocol:
        """Return the same."""
        return self

    def ask(self, _entries: Any) -> Mapping[Any, Any]:
        """Return what is known of services: nothing."""
        return {}
