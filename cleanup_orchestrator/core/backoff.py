"""The wait before the next attempt. Pure: the same attempt gives the same wait."""

from __future__ import annotations

import datetime


def delay(attempt: int, base: float = 1.0, cap: float = 60.0) -> datetime.timedelta:
    """Return the wait after an attempt: base, 2 base, 4 base, … never above cap.

    :param attempt: number of the attempt; 1 is the first
    :param base: seconds
    :param cap: seconds
    """
    exponent = min(max(attempt, 1) - 1, 32)
    return datetime.timedelta(seconds=min(cap, base * 2.0**exponent))
