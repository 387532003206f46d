"""The filters of the templates."""

from __future__ import annotations

import datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from cleanup_orchestrator.dashboard import words
from cleanup_orchestrator.sdk.text import size_text

register = template.Library()


@register.filter
def moment(value: str | None) -> datetime.datetime | None:
    """Return a time of the API as a time of Django, for the filter ``date``."""
    return parse_datetime(value) if value else None


@register.filter
def ago(value: str | None) -> str:
    """Return how long ago a time of the API is, such as "5 minutes ago"."""
    at = moment(value)
    if at is None:
        return "–"
    now = timezone.now()
    if at > now:
        return str(_("in %s") % timesince(now, at))
    return str(_("%s ago") % timesince(at, now))


@register.filter
def status_name(value: str) -> Any:
    """Return a status in words."""
    return words.status(value)


@register.filter
def status_class(value: str) -> str:
    """Return the CSS class of the label of a status."""
    return words.status_class(value)


@register.filter
def condition_name(value: str) -> Any:
    """Return the type of a condition in words."""
    return words.condition(value)


@register.filter
def mode_name(value: str) -> Any:
    """Return a mode in words."""
    return words.mode(value)


@register.filter
def size(value: int | None) -> str:
    """Return a size in bytes as a person reads it, such as "1.5 GiB"; a dash if it is not known."""
    # The field of an older API is an empty text here.
    return size_text(value) if isinstance(value, int) else "–"


@register.filter
def percent_of(part: int | None, whole: int | None) -> int:
    """Return a part in percent: 0 to 100; of nothing, 0."""
    return min(100, max(0, (part or 0) * 100 // whole)) if whole else 0


@register.filter
def scan_status_name(value: str) -> Any:
    """Return the status of an orphan scan in words."""
    return words.scan_status(value)


@register.filter
def scan_status_class(value: str) -> str:
    """Return the CSS class of the label of the status of an orphan scan."""
    return words.scan_status_class(value)
