"""The hours, in one time zone, in which projects are locked and deleted. Pure.

An entry has the form ``[<day>|<day>-<day>] HH:MM-HH:MM``: ``mon-fri 20:00-06:00``, ``sat 00:00-24:00``, ``22:00-05:00``
(every day). A window that ends before it begins continues after midnight, and belongs to the day on which it begins.
Local time counts: an hour that a change to summer time skips is never open, an hour that occurs twice is open twice.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
import zoneinfo
from collections.abc import Iterable

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_DAY = 24 * 60  #: minutes
_ENTRY = re.compile(
    rf"(?:(?P<first>{'|'.join(DAYS)})(?:-(?P<last>{'|'.join(DAYS)}))?\s+)?"
    r"(?P<begin>\d\d?:\d\d)\s*-\s*(?P<end>\d\d?:\d\d)"
)
#: Minutes to search for the next opening. A change to summer time may skip a weekly window once.
_AHEAD = 15 * _DAY
_MINUTE = datetime.timedelta(minutes=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """One window: the days on which it begins, and minutes since their midnight."""

    days: frozenset[int]  #: 0 is Monday
    begin: int
    end: int  #: exclusive; beyond 24 hours if it continues after midnight

    def has(self, weekday: int, minute: int) -> bool:
        """Whether a minute of a weekday is in the window."""
        today = weekday in self.days and self.begin <= minute < self.end
        return today or ((weekday - 1) % 7 in self.days and minute + _DAY < self.end)


def window(entry: str) -> Window:
    """Return the window of an entry.

    :raises ValueError: the entry is malformed
    """
    match = _ENTRY.fullmatch(entry.strip().lower())
    if match is None:
        raise ValueError(f"{entry!r} is no window: write it like 'mon-fri 20:00-06:00' or '22:00-05:00'")
    begin, end = (_minutes(entry, match[name]) for name in ("begin", "end"))
    if begin in (end, _DAY):
        raise ValueError(f"{entry!r} is no window: it has no length; the whole day is 00:00-24:00")
    first = DAYS.index(match["first"]) if match["first"] else 0
    last = DAYS.index(match["last"]) if match["last"] else first if match["first"] else 6
    days = frozenset((first + n) % 7 for n in range((last - first) % 7 + 1))
    return Window(days, begin, end if end > begin else end + _DAY)


def _minutes(entry: str, text: str) -> int:
    hours, minutes = map(int, text.split(":"))
    if minutes > 59 or hours * 60 + minutes > _DAY:
        raise ValueError(f"{entry!r} is no window: no clock shows {text}")
    return hours * 60 + minutes


@dataclasses.dataclass(frozen=True, slots=True)
class Windows:
    """All windows of the operator. None at all: it is always open."""

    windows: tuple[Window, ...] = ()
    zone: str = "UTC"

    @classmethod
    def of(cls, entries: Iterable[str], zone: str) -> Windows:
        """Return the windows of the entries.

        :raises ValueError: an entry is malformed, or the time zone is not known
        """
        _zone(zone)
        return cls(tuple(window(entry) for entry in entries if entry.strip()), zone)

    def open(self, at: datetime.datetime) -> bool:
        """Whether a window is open at a time (UTC, naive: the database's)."""
        if not self.windows:
            return True
        local = at.replace(tzinfo=datetime.UTC).astimezone(_zone(self.zone))
        return any(w.has(local.weekday(), local.hour * 60 + local.minute) for w in self.windows)

    def opens(self, at: datetime.datetime) -> datetime.datetime:
        """Return the next minute, or this one, in which a window is open (UTC, naive)."""
        return _opens(self, at.replace(second=0, microsecond=0))


#: No windows: always open.
ALWAYS = Windows()


@functools.lru_cache(maxsize=64)
def _opens(windows: Windows, minute: datetime.datetime) -> datetime.datetime:
    # Minute by minute, because that needs no rules of time zones. The cache makes it once a minute for all deletions.
    for _ in range(_AHEAD):
        if windows.open(minute):
            break
        minute += _MINUTE
    return minute


def _zone(name: str) -> datetime.tzinfo:
    """Return a time zone.

    :raises ValueError: it is not known
    """
    if name == "UTC":  # also where the system has no time zones
        return datetime.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is no time zone that this system knows, such as Europe/Berlin") from None
