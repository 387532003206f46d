"""The calls that all processes together may make to one service in one region. Pure: no I/O, no clock.

Each service and region has one account in the store. A process visits it from time to time, not for each call. It takes
turns (times at which it may make a call) for the near future, and slots (calls that it may have under way at once).

- Turns follow GCRA, the virtual scheduling algorithm of ITU-T I.371. The account has the time of the next turn. Each
  turn is one interval later than the one before, and they are given in the order of the visits. A turn that is not used
  within ``HORIZON`` is lost. So any span of t seconds has at most ``rate * (t + 2 * HORIZON) + 1`` calls.
- Slots are leased. A process that died keeps its slots until its lease ends. All leases together never hold more slots
  than the limit. If processes want more slots than there are, each gets its fair share. If there are more processes
  than slots, they take turns of ``TURN`` seconds.
"""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
import math
from collections.abc import Sequence

HORIZON = (
    0.5  #: seconds of turns that one visit may take; also how long a turn is valid, and how much may be made up for
)
LEASE = 10.0  #: seconds without a visit after which the slots of a process are free
TURN = 2.0  #: seconds that a process keeps a slot while others wait for one


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """The operator's limits for one service in one region; 0: no limit."""

    calls: float = 0  #: per second
    at_once: int = 0
    deletes: float = 0  #: per second; each delete is a call, too


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """The account of one service in one region, as stored. All times are the database's."""

    calls_at: datetime.datetime | None = None  #: the next turn for a call; none: no turn was taken yet
    deletes_at: datetime.datetime | None = None
    paused_until: datetime.datetime | None = None  #: the service asked for no calls until then


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """The slots that one process holds."""

    holder: str
    slots: int  #: held, with or without a call under way
    wanted: int  #: how many the process could use
    since: datetime.datetime  #: when it got its first slot, or began to wait for one
    until: datetime.datetime  #: the lease ends then


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """The request of a process on a visit."""

    holder: str
    limits: Limits
    calls: int = 0  #: calls that wait for a turn; no more turns are given than there are slots
    deletes: int = 0  #: of these calls
    more_calls: int = 0  #: turns for calls that are expected, because calls were made just before
    more_deletes: int = 0
    in_use: int = 0  #: calls under way
    wanted: int = 0  #: calls that could be under way at once; 0 returns every slot


@dataclasses.dataclass(frozen=True, slots=True)
class Turns:
    """``count`` turns at ``first``, ``first + interval``, … in seconds from now; negative: now."""

    first: float = 0.0
    interval: float = 0.0
    count: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """The result of a visit."""

    calls: Turns | None  #: none: no limit
    deletes: Turns | None
    slots: int | None  #: calls that the process may have under way at once from now on; none: no limit
    paused: float  #: seconds in which no process may call


def take(
    at: datetime.datetime | None, now: datetime.datetime, rate: float, count: int
) -> tuple[Turns, datetime.datetime | None]:
    """Return ``count`` turns, and the time of the turn after them.

    :param at: the time of the next turn so far
    :param rate: turns a second, more than 0
    """
    if count <= 0:
        return Turns(), at
    interval = 1 / rate
    first = now - datetime.timedelta(seconds=HORIZON)  # unused turns of this time may be made up for
    if at is not None:
        first = max(first, at)
    turns = Turns((first - now).total_seconds(), interval, count)
    return turns, first + datetime.timedelta(seconds=interval * count)


def shares(limit: int, wanted: Sequence[int]) -> list[int]:
    """Divide slots max-min fairly: no process gets more than it wants, nor less than one that wants no more.

    If there are fewer slots than processes, the first processes get one each.
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
    """Return a sort key: processes that have their turn, then those that wait (the longest first), then the rest.

    The order is the same for every process. Otherwise each could see another one first, and none would go.
    """
    had_its_turn = (now - lease.since).total_seconds() >= TURN
    return (1 if not lease.slots else 2 if had_its_turn else 0), lease.since, lease.holder


def _slots(ask: Ask, mine: Lease, others: Sequence[Lease], now: datetime.datetime) -> int:
    """Return how many calls a process may have under way from now on."""
    if not ask.wanted:
        return 0
    limit = ask.limits.at_once
    free = max(0, limit - sum(lease.slots for lease in others))
    rivals = sorted([*(lease for lease in others if lease.wanted), mine], key=lambda lease: _rank(lease, now))
    fair = shares(limit, [min(lease.wanted, limit) for lease in rivals])
    short = any(lease is not mine and lease.slots < share for lease, share in zip(rivals, fair, strict=True))
    if short:  # another process has less than its share: free slots beyond mine are for it
        free = min(free, fair[rivals.index(mine)])
    return min(ask.wanted, free)


def visit(
    account: Account, leases: Sequence[Lease], ask: Ask, now: datetime.datetime
) -> tuple[Account, Lease | None, Grant]:
    """Return the account after a visit of a process, the lease of the process, and what it gets.

    :param leases: all of them, also those that have ended, and that of the process
    """
    others = [lease for lease in leases if lease.holder != ask.holder and lease.until > now]
    old = next((lease for lease in leases if lease.holder == ask.holder and lease.until > now), None)
    lease, slots = None, 0
    if ask.wanted or ask.in_use:
        until = now + datetime.timedelta(seconds=LEASE)
        mine = old or Lease(ask.holder, 0, 0, now, until)
        mine = dataclasses.replace(mine, slots=max(mine.slots, ask.in_use), wanted=ask.wanted, until=until)
        slots = _slots(ask, mine, others, now) if ask.limits.at_once else ask.wanted
        # A slot with a call under way is held, whatever the share is. It is returned when the call ends.
        held = max(slots, ask.in_use)
        had = old.slots if old else 0
        since = mine.since if bool(held) == bool(had) else now
        lease = dataclasses.replace(mine, slots=held, since=since)
    paused = (account.paused_until - now).total_seconds() if account.paused_until else 0.0
    rivals = 1 + sum(1 for other in others if other.wanted)
    free = max(0, slots - ask.in_use)

    def turns(
        at: datetime.datetime | None, rate: float, waiting: int, more: int
    ) -> tuple[Turns | None, datetime.datetime | None]:
        if not rate:
            return None, at
        if paused > 0:
            return Turns(), at
        # With more processes each takes fewer turns, so that the next turn of each is about HORIZON away at most.
        most = max(1, math.ceil(rate * HORIZON / rivals))
        return take(at, now, rate, min(max(min(waiting, free), more), most))

    calls, calls_at = turns(account.calls_at, ask.limits.calls, ask.calls, ask.more_calls)
    deletes, deletes_at = turns(account.deletes_at, ask.limits.deletes, ask.deletes, ask.more_deletes)
    after = dataclasses.replace(account, calls_at=calls_at, deletes_at=deletes_at)
    return after, lease, Grant(calls, deletes, slots if ask.limits.at_once else None, max(0.0, paused))


def retry_after(text: str | None, date: str | None, now: datetime.datetime) -> float | None:
    """Return the seconds that a ``Retry-After`` header (RFC 9110) asks for; ``None`` if it is malformed.

    :param date: the ``Date`` header of the same response: both headers use the same clock
    :param now: UTC with a time zone, used if the response has no date
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
