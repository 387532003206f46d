"""The wait before the next attempt, or before the next poll. Pure."""

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


#: Seconds between two polls of an asynchronous delete: the least and the most.
POLL_BASE, POLL_CAP = 1.0, 10.0


def poll(attempt: int) -> datetime.timedelta:
    """Return the wait before an accepted delete is looked at again: an eighth of the time that it took so far.

    Polls at these times take place after 1, 2, …, 9 seconds, and then at times that grow by a factor of 9/8, so that
    the number of the attempt determines the wait. The wait is at least 1 and at most 10 seconds. So the end of the
    delete is noticed at most 10 seconds late.

    :param attempt: number of the attempt; 1 is the first
    """
    exponent = min(max(attempt - 9, 0), 64)
    return datetime.timedelta(seconds=min(POLL_CAP, POLL_BASE * 1.125**exponent))
