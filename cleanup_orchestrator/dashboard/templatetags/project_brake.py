"""The banner of the brake on a page that no script can add to."""

from __future__ import annotations

from typing import Any

from django import template
from django.template.context import Context

from cleanup_orchestrator.dashboard.brake import header

register = template.Library()


@register.inclusion_tag("project_cleanup/brake/_banner.html", takes_context=True)
def brake_banner(context: Context) -> dict[str, Any]:
    """Show the banner while the brake is set, from the state that the header keeps."""
    return {"pc_brake": header.state(context["request"]), "pc_brake_id": "pc-brake-banner"}
