"""The filters of the templates."""

from __future__ import annotations

import datetime
from typing import Any

from django import template
from django.template.defaultfilters import capfirst, date
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from cleanup_orchestrator.dashboard import words
from cleanup_orchestrator.dashboard.deletions import remedies as remedies_
from cleanup_orchestrator.sdk.text import size_text

register = template.Library()


def _moment(value: str | None) -> datetime.datetime | None:
    return parse_datetime(value) if value else None


def _time(moment: datetime.datetime, text: str) -> Any:
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), _clock(moment), text)


def _clock(moment: datetime.datetime) -> str:
    """Return a time in the zone that the user chose in Horizon, with the name of the zone."""
    return str(date(timezone.localtime(moment), "Y-m-d H:i:s T"))


@register.filter
def at(value: str | None) -> Any:
    """Return a time of the API as the pages show all times, such as "2026-11-01 18:00:00 UTC"."""
    moment = _moment(value)
    return _time(moment, _clock(moment)) if moment else "–"


@register.filter
def ago(value: str | None) -> Any:
    """Return how long ago a time of the API is, such as "5 minutes ago"."""
    moment = _moment(value)
    if moment is None:
        return "–"
    now = timezone.now()
    if moment > now:
        return _time(moment, _("in %s") % timesince(now, moment))
    return _time(moment, _("%s ago") % timesince(moment, now))


@register.filter
def at_ago(value: str | None) -> Any:
    """Return a time of the API, and how long ago it is."""
    return format_html("{} ({})", at(value), ago(value)) if _moment(value) else "–"


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
    """Return a size in bytes as a person reads it, such as "1.5 GiB"."""
    # The field of an older API is an empty text here.
    return size_text(value) if isinstance(value, int) else str(_("not known"))


@register.filter
def amount(record: Any) -> str:
    """Return the number of objects of a record, if it has one, and its size: "230 objects, size not known".

    Most types have no size at all. Therefore a record without size and objects has a dash.
    """
    found, bytes_ = record.get("objects"), record.get("size")
    if not isinstance(found, int):
        return size_text(bytes_) if isinstance(bytes_, int) else "–"
    objects = str(ngettext("%d object", "%d objects", found) % found)
    return f"{objects}, {size(bytes_) if isinstance(bytes_, int) else _('size not known')}"


@register.filter
def minus(number: int | None, shown: Any) -> int:
    """Return how many more there are than those of a list."""
    return max(0, (number or 0) - len(shown or ()))


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


@register.filter
def remedies(blockers: Any) -> list[remedies_.Remedy]:
    """Return the remedies of blockers, each once, with the blockers that it is for."""
    return remedies_.grouped(blockers or ())


@register.filter
def sentence(message: str) -> str:
    """Return a message with a capital at its beginning, unless it begins with the name of a type (network.port)."""
    first = str(message).partition(" ")[0].rstrip(".:;,")
    return str(message) if "." in first or "_" in first else str(capfirst(message))
