"""What all processes together may ask of one service in one region. Pure: no I/O, no clock, no configuration.

Each service and region has one account in the store. A process visits it now and then, never for each call: it takes
turns (times at which it may make a call) for the next moment, and slots (calls that it may have under way at once).

- Turns are GCRA, the virtual scheduling algorithm of ITU-T I.371: the account knows the time of the next turn, each
  turn is one interval later than the one before, and whoever comes first is first. One that is not used within
  ``HORIZON`` is lost. So in *any* span of t seconds there are at most ``rate * (t + 2 * HORIZON) + 1`` calls.
- Slots are leased. A process that died keeps its own until its lease is over; what all leases hold together is never
  more than the limit. Where processes want more than there is, each gets its fair share, and where there are more
  processes than slots, they take turns of ``TURN`` seconds.
"""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
import math
from collections.abc import Sequence

HORIZON = 0.5  #: seconds of turns that one visit may take; also what may be made up for, and how long a turn is good
LEASE = 10.0  #: seconds after which the slots of a process that gave no sign of life are free
TURN = 2.0  #: seconds for which a process keeps a slot that others wait for


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What the operator allows for one service in one region; 0 is no limit."""

    calls: float = 0  #: a second
    at_once: int = 0
    deletes: float = 0  #: a second; each of them is a call, too


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """What the store knows of one service in one region. All times are the database's."""

    calls_at: datetime.datetime | None = None  #: the next turn for a call; none: there was none yet
    deletes_at: datetime.datetime | None = None
    paused_until: datetime.datetime | None = None  #: the service asked to be left alone until then


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """A process's part of the slots."""

    holder: str
    slots: int  #: held, whether a call is under way in them or not
    wanted: int  #: how many it could use
    since: datetime.datetime  #: when it got its first one, or began to wait for it
    until: datetime.datetime  #: it is void from then on


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """What a process asks for on a visit."""

    holder: str
    limits: Limits
    calls: int = 0  #: that wait for a turn; no more turns are given for them than there are slots for
    deletes: int = 0  #: of these
    more_calls: int = 0  #: turns for calls that are likely to come, as some just did
    more_deletes: int = 0
    in_use: int = 0  #: calls under way
    wanted: int = 0  #: calls that could be under way at once; 0 gives every slot back


@dataclasses.dataclass(frozen=True, slots=True)
class Turns:
    """Turns at ``first``, ``first + interval``, … as many as ``count``, in seconds from now; negative is now."""

    first: float = 0.0
    interval: float = 0.0
    count: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """What a visit brought."""

    calls: Turns | None  #: none: no limit
    deletes: Turns | None
    slots: int | None  #: calls that the process may have under way at once from now on; none: no limit
    paused: float  #: seconds for which nobody may call


def take(
    at: datetime.datetime | None, now: datetime.datetime, rate: float, count: int
) -> tuple[Turns, datetime.datetime | None]:
    """Take so many turns; return them, and the time of the next.

    :param at: the time of the next turn so far
    :param rate: turns a second, more than 0
    """
    if count <= 0:
        return Turns(), at
    interval = 1 / rate
    first = now - datetime.timedelta(seconds=HORIZON)  # what was not used just before may be made up for
    if at is not None:
        first = max(first, at)
    turns = Turns((first - now).total_seconds(), interval, count)
    return turns, first + datetime.timedelta(seconds=interval * count)


def shares(limit: int, wanted: Sequence[int]) -> list[int]:
    """Divide slots: nobody gets more than it wants, and nobody less than another that wants no more (max-min fair).

    Where there are fewer slots than processes, the first ones get one each.
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
    """Sort: those whose turn it is; those who wait, the longest first; those who had their turn.

    The same for everybody who looks: where each saw another one first, nobody would go.
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
    if short:  # somebody else has less than its share: what is free beyond mine is for them
        free = min(free, fair[rivals.index(mine)])
    return min(ask.wanted, free)


def visit(
    account: Account, leases: Sequence[Lease], ask: Ask, now: datetime.datetime
) -> tuple[Account, Lease | None, Grant]:
    """Return what becomes of an account when a process visits it: the account, the process's lease, and what it gets.

    :param leases: all of them, void ones and the process's own included
    """
    others = [lease for lease in leases if lease.holder != ask.holder and lease.until > now]
    old = next((lease for lease in leases if lease.holder == ask.holder and lease.until > now), None)
    lease, slots = None, 0
    if ask.wanted or ask.in_use:
        until = now + datetime.timedelta(seconds=LEASE)
        mine = old or Lease(ask.holder, 0, 0, now, until)
        mine = dataclasses.replace(mine, slots=max(mine.slots, ask.in_use), wanted=ask.wanted, until=until)
        slots = _slots(ask, mine, others, now) if ask.limits.at_once else ask.wanted
        # What is under way is held, whatever the share is: it goes back when it is over.
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
        # The more processes, the fewer at a time: so everybody's next turn is about HORIZON away at most.
        most = max(1, math.ceil(rate * HORIZON / rivals))
        return take(at, now, rate, min(max(min(waiting, free), more), most))

    calls, calls_at = turns(account.calls_at, ask.limits.calls, ask.calls, ask.more_calls)
    deletes, deletes_at = turns(account.deletes_at, ask.limits.deletes, ask.deletes, ask.more_deletes)
    after = dataclasses.replace(account, calls_at=calls_at, deletes_at=deletes_at)
    return after, lease, Grant(calls, deletes, slots if ask.limits.at_once else None, max(0.0, paused))


def retry_after(text: str | None, date: str | None, now: datetime.datetime) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, in either form of RFC 9110; ``None`` for garbage.

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
