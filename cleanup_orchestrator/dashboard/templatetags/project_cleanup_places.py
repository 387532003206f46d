"""The tags that link a resource or a project to its page of Horizon."""

from __future__ import annotations

from typing import Any

from django import template

from cleanup_orchestrator.dashboard import places

register = template.Library()


@register.simple_tag(takes_context=True)
def place(context: dict[str, Any], type_: str, id_: str, region: str = "") -> str:
    """Return the URL of a resource's page, or an empty text: ``{% place "network.port" id region as url %}``."""
    return places.of_resource(context["request"], type_, id_, region)


@register.simple_tag(takes_context=True)
def place_of_project(context: dict[str, Any], project_id: str | None) -> str:
    """Return the URL of a project's page, or an empty text."""
    return places.of_project(context["request"], project_id)
