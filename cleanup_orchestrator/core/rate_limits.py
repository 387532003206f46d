"""Rate limits: how much all processes together may call one service in one region.

This module has no input or output, no clock and no configuration. The store keeps one rate limit for each service and
region. A process acquires from it now and then, not for each call. It acquires permits (times at which it may make a
call) for the next moment, and slots (calls that it may have under way at once).

- Permits follow GCRA, the virtual scheduling algorithm of ITU-T I.371. The rate limit has the time of the next permit,
  and each permit is one interval later than the one before. The first process that asks gets the first permit. A permit
  that is not used within ``HORIZON`` is lost. So in *any* span of t seconds there are at most
  ``rate * (t + 2 * HORIZON) + 1`` calls.
- Slots are leased. A process that died keeps its slots until its lease expires. All leases together never exceed the
  limit. If the processes want more slots than there are, each gets its fair share. If there are more processes than
  slots, each keeps its slot for ``SLOT_TIME`` seconds.

The rate is not leased in shares like the slots. A process keeps its share while it makes few calls, and after it died.
In measurements of shares, one busy process of four made 18 of 50 calls a second instead of 49, the rate of a dead
process was lost for 10 seconds instead of one, and four processes exceeded the limit above for low rates.
"""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
import math
from collections.abc import Sequence

HORIZON = 0.5  #: seconds of permits that one request gets at most; also for how long a permit is valid
LEASE = 10.0  #: seconds after which the slots of a process that does not renew its lease are free
SLOT_TIME = 2.0  #: seconds for which a process keeps a slot while others wait


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What the operator allows for one service in one region; 0: no limit."""

    calls: float = 0  #: per second
    at_once: int = 0
    deletes: float = 0  #: per second; each counts as a call, too


@dataclasses.dataclass(frozen=True, slots=True)
class RateLimit:
    """The state of the rate limit of one service in one region.

    All times are those of the database.
    """

    calls_at: datetime.datetime | None = None  #: the next permit for a call; ``None``: no permit was given yet
    deletes_at: datetime.datetime | None = None
    paused_until: datetime.datetime | None = None  #: the service asked for a pause until then


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """The slots of one process."""

    holder: str
    slots: int  #: also those without a call under way
    wanted: int  #: how many the process could use
    since: datetime.datetime  #: when the process got its first slot, or began to wait for it
    until: datetime.datetime  #: the lease is void from then on


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What a process requests."""

    holder: str
    limits: Limits
    calls: int = 0  #: permits for calls
    deletes: int = 0
    in_use: int = 0  #: calls under way
    wanted: int = 0  #: calls that could be under way at once; 0 releases every slot


#: For each permit, from when it is valid, in seconds from now; a negative time is now. ``None``: no limit.
Permits = tuple[float, ...] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """What a process gets."""

    calls: Permits
    deletes: Permits
    slots: int | None  #: calls that the process may have under way at once from now on; ``None``: no limit
    paused: float  #: seconds for which no process may call


def take(
    at: datetime.datetime | None, now: datetime.datetime, rate: float, count: int
) -> tuple[tuple[float, ...], datetime.datetime | None]:
    """Take so many permits; return their times, and the time of the next one.

    :param at: the time of the next permit so far
    :param rate: permits per second, more than 0
    """
    if count <= 0:
        return (), at
    first = now - datetime.timedelta(seconds=HORIZON)  # permits of the last moment that were not used
    if at is not None:
        first = max(first, at)
    begins = (first - now).total_seconds()
    return tuple(begins + number / rate for number in range(count)), first + datetime.timedelta(seconds=count / rate)


def shares(limit: int, wanted: Sequence[int]) -> list[int]:
    """Divide slots max-min fairly between processes; return the share of each.

    No process gets more than it wants, and none gets less than another that wants no more. If there are fewer slots
    than processes, the first processes get one each.
    """
    if limit < len(wanted):
        return [1] * limit + [0] * (len(wanted) - limit)
    given, left = [0] * len(wanted), limit
    by_want = sorted(range(len(wanted)), key=lambda i: wanted[i])
    for done, i in enumerate(by_want):
        given[i] = min(wanted[i], left // (len(wanted) - done))
        left -= given[i]
    return given


def _rank(lease: Lease, now: datetime.datetime) -> tuple[int, datetime.datetime, str]:
    """Return the sort key of a lease in the queue for slots.

    First are the holders of a slot, then those who wait (longest first), then those whose time is over. Each process
    computes the same order. With different orders, each could wait for another.
    """
    time_is_over = (now - lease.since).total_seconds() >= SLOT_TIME
    return (1 if not lease.slots else 2 if time_is_over else 0), lease.since, lease.holder


def _slots(request: Request, mine: Lease, others: Sequence[Lease], now: datetime.datetime) -> int:
    """Return how many slots a process gets."""
    if not request.wanted:
        return 0
    limit = request.limits.at_once
    free = max(0, limit - sum(lease.slots for lease in others))
    rivals = sorted([*(lease for lease in others if lease.wanted), mine], key=lambda lease: _rank(lease, now))
    fair = shares(limit, [min(lease.wanted, limit) for lease in rivals])
    short = any(lease is not mine and lease.slots < share for lease, share in zip(rivals, fair, strict=True))
    if short:  # another process has less than its share: it gets what is free beyond this one's share
        free = min(free, fair[rivals.index(mine)])
    return min(request.wanted, free)


def acquire(
    limit: RateLimit, leases: Sequence[Lease], request: Request, now: datetime.datetime
) -> tuple[RateLimit, Lease | None, Grant]:
    """Serve a request; return the new rate limit, the lease, and the grant.

    :param leases: those of all processes, also void ones and that of the process itself
    :returns: a lease of ``None``: the process has no slots and wants none
    """
    others = [lease for lease in leases if lease.holder != request.holder and lease.until > now]
    old = next((lease for lease in leases if lease.holder == request.holder and lease.until > now), None)
    lease, slots = None, 0
    if request.wanted or request.in_use:
        until = now + datetime.timedelta(seconds=LEASE)
        mine = old or Lease(request.holder, 0, 0, now, until)
        mine = dataclasses.replace(mine, slots=max(mine.slots, request.in_use), wanted=request.wanted, until=until)
        slots = _slots(request, mine, others, now) if request.limits.at_once else request.wanted
        # A call that is under way keeps its slot, whatever the share is.
        leased = max(slots, request.in_use)
        had = old.slots if old else 0
        since = mine.since if bool(leased) == bool(had) else now
        lease = dataclasses.replace(mine, slots=leased, since=since)
    paused = (limit.paused_until - now).total_seconds() if limit.paused_until else 0.0
    rivals = 1 + sum(1 for other in others if other.wanted)

    def permits(at: datetime.datetime | None, rate: float, wanted: int) -> tuple[Permits, datetime.datetime | None]:
        if not rate:
            return None, at
        if paused > 0:
            return (), at
        # Each process gets fewer permits the more processes there are: so each waits for about HORIZON at most.
        most = max(1, math.ceil(rate * HORIZON / rivals))
        return take(at, now, rate, min(wanted, most))

    calls, calls_at = permits(limit.calls_at, request.limits.calls, request.calls)
    deletes, deletes_at = permits(limit.deletes_at, request.limits.deletes, request.deletes)
    after = dataclasses.replace(limit, calls_at=calls_at, deletes_at=deletes_at)
    return after, lease, Grant(calls, deletes, slots if request.limits.at_once else None, max(0.0, paused))


def retry_after(text: str | None, date: str | None, now: datetime.datetime) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for.

    Both forms of RFC 9110 are accepted. ``None``: the header is not valid.

    :param date: the answer's own ``Date`` header: its clock and the one in ``Retry-After`` are the same
    :param now: UTC with its time zone, where the answer has no date
    """
    text = (text or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:10])
    until, since = _http_date(text), _http_date((date or "").strip()) or now
    return max(0.0, (until - since).total_seconds()) if until else None


def _http_date(text: str) -> datetime.datetime | None:
    try:
        value = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
