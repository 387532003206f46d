"""Writes times as text. Pure."""

from __future__ import annotations

import datetime


def utc(at: datetime.datetime) -> str:
    """Return a time as text: ISO 8601, UTC, whole seconds.

    :param at: UTC, naive
    """
    return at.isoformat(timespec="seconds") + "Z"
