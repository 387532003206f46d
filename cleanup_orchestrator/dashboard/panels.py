"""The base of the panels."""

from __future__ import annotations

from typing import Any, ClassVar

import horizon

from cleanup_orchestrator.dashboard import calls


class Panel(horizon.Panel):
    """A panel that is shown if the catalog has the service, and the policy allows one of the rules somewhere."""

    permissions = ("openstack.services.project-cleanup",)
    #: Rules of Horizon's policy file.
    rules: ClassVar[tuple[str, ...]] = ()

    def can_access(self, context: dict[str, Any]) -> bool:
        """Return whether the user sees the panel."""
        return super().can_access(context) and any(
            calls.allowed_somewhere(context["request"], rule) for rule in self.rules
        )
