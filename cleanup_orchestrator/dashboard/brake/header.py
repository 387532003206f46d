"""The banner in the header of every page of Horizon while the brake is set.

A script of Horizon loads the header after the page, so that no page waits for it. Without scripts, the pages of this
package show the banner themselves.
"""

from __future__ import annotations

import urllib.parse
from typing import Any

from django.core.cache import cache
from django.http import HttpRequest
from django.views.generic import TemplateView

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls

#: Seconds for which an answer is shown again.
_KEPT = 10
#: Seconds for which the header waits for the API.
_TIMEOUT = 2


def _key(request: HttpRequest) -> str:
    # Horizon can show several clouds. Names and URLs can have characters that a cache refuses in a key.
    place = f"{request.user.endpoint} {request.user.services_region or ''}"
    return f"project_cleanup.brake.{urllib.parse.quote(place, safe='')}"


def state(request: HttpRequest) -> dict[str, Any] | None:
    """Return the brake, or that it is unknown; ``None`` for a user who may not see it."""
    if not request.user.is_authenticated or not request.user.has_perms(("openstack.services.project-cleanup",)):
        return None
    if not calls.allowed(request, "cleanup:brake:get"):
        return None
    brake: dict[str, Any] | None = cache.get(_key(request))
    if brake is None and (brake := _read(request)) is not None:
        cache.set(_key(request), brake, _KEPT)
    return brake


def forget(request: HttpRequest) -> None:
    """Let the next page ask the API again."""
    cache.delete(_key(request))


def _read(request: HttpRequest) -> dict[str, Any] | None:
    try:
        brake = calls.proxy(request, _TIMEOUT).get_brake()
    except calls.FAILURES as exc:
        # A refusal is that of this user, and says nothing about the brake to others.
        refused = isinstance(exc, sdk.ApiError) and exc.status_code in (401, 403)
        return None if refused else {"known": False}
    return {"known": True, "on": brake.on, "reason": sdk.one_line(brake.reason), "since": brake.since}


class BrakeHeader(TemplateView):
    """The banner, for users who may see the brake."""

    template_name = "project_cleanup/brake/_header.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the brake, or that it is unknown."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | {"pc_brake": state(self.request), "pc_brake_id": "pc-header-brake"}
