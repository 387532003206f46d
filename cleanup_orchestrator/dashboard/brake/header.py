"""The banner in the header of every page of Horizon while the brake is pulled."""

from __future__ import annotations

from typing import Any

from django.core.cache import cache
from django.views.generic import TemplateView

from cleanup_orchestrator.dashboard import calls

#: Seconds for which an answer is shown again. The pages of Horizon must not wait for this API.
_KEPT = 10
#: Seconds for which the header waits for the API.
_TIMEOUT = 2
_KEY = "project_cleanup.brake"


class BrakeHeader(TemplateView):
    """The banner, for users who may see the brake."""

    template_name = "project_cleanup/brake/_header.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the brake, or that it is unknown."""
        found: dict[str, Any] = super().get_context_data(**kwargs)
        return found | {"pc_brake": self._state()}

    def _state(self) -> dict[str, Any] | None:
        request = self.request
        if not request.user.is_authenticated or not request.user.has_perms(("openstack.services.project-cleanup",)):
            return None
        if not calls.allowed(request, "cleanup:brake:get"):
            return None
        key = f"{_KEY}.{request.user.services_region}"
        found: dict[str, Any] | None = cache.get(key)
        if found is None:
            found = self._read()
            cache.set(key, found, _KEPT)
        return found

    def _read(self) -> dict[str, Any]:
        try:
            brake = calls.proxy(self.request, _TIMEOUT).get_brake()
        except calls.FAILURES:
            return {"known": False}
        return {"known": True, "on": brake.on, "reason": brake.reason, "since": brake.since, "by": brake.user_name}
