"""Each call waits for its turn: this process's part of the limits that all processes keep together.

What the limits are, and how they are shared, is in ``limits``. Here are the options, and the waiting. If the store does
not answer there are no turns, and so no calls: the limit protects the cloud.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import os_service_types
from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator.core.rate_limits import HORIZON, LEASE, Ask, Grant, Limits, Turns
from cleanup_orchestrator.errors import CleanupError, RateLimited

LOG = log.getLogger(__name__)

GROUP = "limits"
_KEYS = (
    " A key is 'default', a service type (network), or a service type in one region (network@RegionOne); the most "
    "specific one holds, and 0 is no limit. Without 'default' the one above stays. All processes together keep it."
)
DEFAULTS = {
    "calls_per_second": {"default": "50"},
    "calls_at_once": {"default": "16"},
    "deletes_per_second": {"default": "20", "object-store": "50"},
}
OPTS = {
    GROUP: [
        cfg.DictOpt(
            "calls_per_second",
            default=DEFAULTS["calls_per_second"],
            mutable=True,
            help="Calls a second to one service in one region." + _KEYS,
        ),
        cfg.DictOpt(
            "calls_at_once",
            default=DEFAULTS["calls_at_once"],
            mutable=True,
            help="Calls to one service in one region that may be under way at once." + _KEYS,
        ),
        cfg.DictOpt(
            "deletes_per_second",
            default=DEFAULTS["deletes_per_second"],
            mutable=True,
            help="DELETE calls a second to one service in one region; they count as calls, too." + _KEYS,
        ),
        cfg.FloatOpt(
            "longest_wait",
            default=60.0,
            min=1.0,
            mutable=True,
            help="Seconds that a call waits for its turn before its step is put back, to be tried again later.",
        ),
        cfg.FloatOpt(
            "longest_pause",
            default=300.0,
            min=1.0,
            mutable=True,
            help="Seconds for which a service that answers 429 is left alone at most, whatever its Retry-After says.",
        ),
    ]
}

IDENTITY = "identity"

_FRESH = (
    1.0  #: seconds after which a process asks again, even with nothing to take: somebody may have been told to wait
)
_RENEW = 2.0  #: seconds between two signs of life while a process holds slots
_ASK_AGAIN = 0.5  #: seconds until a process asks again that got nothing
_MARGIN = 1.0  #: seconds before the end of a lease from which its slots are not trusted any more
_CHECK = 5.0  #: seconds between two looks whether a waiting call is still wanted
_RELOAD = 1.0  #: seconds for which the options are not read again

Still = Callable[[], None]  #: raises when the waiting call is not wanted any more


class BadLimit(CleanupError):
    """A limit in the configuration that cannot be read."""

    code = "bad_limit"


class Ledger(Protocol):
    """Where the accounts are: the store."""

    def visit_account(self, service: str, region: str, ask: Ask) -> Grant:
        """Visit an account; see :func:`cleanup_orchestrator.core.rate_limits.visit`."""

    def pause_account(self, service: str, region: str, seconds: float) -> None:
        """Let nobody call for so many seconds, unless it is to be longer already."""


# ----------------------------------------------------------------------------------------------------------- options
@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """``[limits]`` as read; see :func:`settings`."""

    calls: Mapping[str, float]
    at_once: Mapping[str, float]
    deletes: Mapping[str, float]
    longest_wait: float
    longest_pause: float

    def limits(self, service: str, region: str) -> Limits:
        """Return what holds for one service in one region."""

        def pick(of: Mapping[str, float]) -> float:
            return next(of[key] for key in (f"{service}@{region}", service, "default") if key in of)

        return Limits(pick(self.calls), int(pick(self.at_once)), pick(self.deletes))


def settings(conf: cfg.ConfigOpts) -> Settings:
    """Read ``[limits]``.

    :raises BadLimit: names the option and the key
    """
    group = conf[GROUP]
    return Settings(
        calls=_read("calls_per_second", group),
        at_once=_read("calls_at_once", group, whole=True),
        deletes=_read("deletes_per_second", group),
        longest_wait=group.longest_wait,
        longest_pause=group.longest_pause,
    )


def _read(name: str, group: cfg.ConfigOpts.GroupAttr, whole: bool = False) -> dict[str, float]:
    types = os_service_types.ServiceTypes()
    found = {"default": float(DEFAULTS[name]["default"])}
    for key, text in group[name].items():
        service, at, region = key.partition("@")
        where = f"[{GROUP}] {name}: {key or '(empty)'}"
        if not service or bool(at) != bool(region) or (service == "default" and at):
            raise BadLimit(f"{where}: a key is 'default', a service type, or a service type@region")
        official = types.get_service_type(service) or service
        if official == IDENTITY and at:
            raise BadLimit(f"{where}: Keystone is one, whatever the region: use '{IDENTITY}'")
        try:
            number = float(text)
        except (TypeError, ValueError):
            raise BadLimit(f"{where}: {text!r} is no number") from None
        if not math.isfinite(number) or number < 0 or 0 < number < 0.1:
            raise BadLimit(f"{where}: {text} is neither 0 (no limit) nor 0.1 or more")
        if whole and number != int(number):
            raise BadLimit(f"{where}: {text} is no whole number")
        found[official + at + region] = number
    return found


# ------------------------------------------------------------------------------------------------------ one account
class _Turns:
    """Turns of one kind that this process has."""

    def __init__(self) -> None:
        self.limited = True
        self.times: collections.deque[tuple[float, float]] = collections.deque()  #: (from, until), monotonic
        self._used = self._lost = 0

    def ready(self, now: float) -> bool:
        """Whether there is one to use now."""
        while self.times and self.times[0][1] <= now:
            self.times.popleft()
            self._lost += 1
        return not self.limited or bool(self.times and self.times[0][0] <= now)

    def use(self) -> None:
        """Use the one that is there."""
        self._used += 1
        if self.limited:
            self.times.popleft()

    def likely(self, elapsed: float) -> int:
        """Return how many are likely to be needed until the next visit, and count anew.

        More and more as long as they are all used, so that many calls cost one visit; fewer as soon as some are not.
        """
        used, lost, self._used, self._lost = self._used, self._lost, 0, 0
        if elapsed > 2 * HORIZON:
            return 0
        return used if lost or self.times else 2 * used

    def add(self, turns: Turns | None, now: float) -> None:
        """Take in what a visit brought."""
        self.limited = turns is not None
        if turns is None:
            self.times.clear()
            return
        for number in range(turns.count):
            begins = now + max(0.0, turns.first + number * turns.interval)
            self.times.append((begins, begins + HORIZON))


class _Waiter:
    __slots__ = ("awake", "delete", "number")

    def __init__(self, lock: threading.Lock, number: int, delete: bool) -> None:
        self.awake, self.number, self.delete = threading.Condition(lock), number, delete


class _Account:
    """One service in one region, as this process sees it.

    Calls go in the order in which they came. Deletes have a line of their own, so that nobody who reads waits for them.
    """

    def __init__(self, budget: Budget, service: str, region: str) -> None:
        self._budget, self.service, self.region = budget, service, region
        self._lock = threading.Lock()
        self._lines: dict[bool, collections.deque[_Waiter]] = {True: collections.deque(), False: collections.deque()}
        self._number = 0
        self._calls, self._deletes = _Turns(), _Turns()
        self._in_use = self._peak = 0
        self._slots: int | None = 0  #: calls that may be under way; none: no limit
        self._lease_until = self._paused_until = self._visited = -math.inf
        self._ask_at = -math.inf  #: not before
        self._visiting = False
        self._trouble = ""  #: why the latest visit failed
        self.leased = False

    @property
    def name(self) -> str:
        return f"{self.service or 'an endpoint'}@{self.region or '-'}"

    # -- what callers do
    def enter(self, delete: bool, still: Still | None, longest: float) -> None:
        """Wait for a turn and a slot.

        :raises RateLimited: none came in time
        """
        begun = checked = time.monotonic()
        deadline = begun + longest
        with self._lock:
            self._number += 1
            waiter = _Waiter(self._lock, self._number, delete)
            line = self._lines[delete]
            line.append(waiter)
            try:
                while not self._goes(waiter, now := time.monotonic()):
                    if now >= deadline or self._paused_until > deadline:
                        raise RateLimited(self._why(now, longest))
                    if line[0] is waiter and not self._visiting and now >= self._ask_at and self._needs(waiter, now):
                        self._visit()
                    elif still is not None and now - checked >= _CHECK:
                        with self._unlocked():
                            still()
                        checked = time.monotonic()
                    else:
                        check = checked + _CHECK if still is not None else math.inf
                        until = min(deadline, self._next(waiter, now), check)
                        waiter.awake.wait(max(0.0005, until - now))
                self._calls.use()
                if delete:
                    self._deletes.use()
                self._in_use += 1
                self._peak = max(self._peak, self._in_use)
            finally:
                line.remove(waiter)
                self._wake()

    def leave(self) -> None:
        """The call is over."""
        with self._lock:
            self._in_use -= 1
            self._wake()

    def pause(self, seconds: float) -> None:
        """Let nobody of this process call for a while."""
        with self._lock:
            self._paused_until = max(self._paused_until, time.monotonic() + seconds)
            self._wake()

    def pause_left(self) -> float:
        """Return for how many seconds nobody may call."""
        with self._lock:
            return max(0.0, self._paused_until - time.monotonic())

    def renew(self, going: bool = False) -> None:
        """Give a sign of life, if one is due; ``going``: give everything back."""
        with self._lock:
            now = time.monotonic()
            if not self._visiting and not self._in_use and now >= self._lease_until + _MARGIN:
                self.leased = False  # it has run out, while the store did not answer: there is nothing to keep
            if self.leased and not self._visiting and (going or now - self._visited >= _RENEW):
                self._visit(going)

    # -- the inside; the lock is held
    def _goes(self, waiter: _Waiter, now: float) -> bool:
        if self._lines[waiter.delete][0] is not waiter or not self._ready(waiter, now):
            return False
        other = self._lines[not waiter.delete]
        return not (other and other[0].number < waiter.number and self._ready(other[0], now))

    def _ready(self, waiter: _Waiter, now: float) -> bool:
        return (
            now >= self._paused_until
            and now - self._visited < _FRESH
            and self._has_slot(now)
            and self._calls.ready(now)
            and (not waiter.delete or self._deletes.ready(now))
        )

    def _has_slot(self, now: float) -> bool:
        return self._slots is None or (self._in_use < self._slots and now < self._lease_until)

    def _needs(self, waiter: _Waiter, now: float) -> bool:
        """Whether a visit would help."""
        if now < self._paused_until and self._visited > -math.inf:
            return False
        if now - self._visited >= _FRESH:
            return True
        if not self._has_slot(now):
            most = self._budget.limits(self.service, self.region).at_once
            return now >= self._lease_until or self._slots is None or not most or self._slots < most
        return self._short_of_turns(waiter)

    def _short_of_turns(self, waiter: _Waiter) -> bool:
        return any(
            kind.limited and not kind.times for kind in (self._calls, *([self._deletes] if waiter.delete else []))
        )

    def _next(self, waiter: _Waiter, now: float) -> float:
        """Return when it is worth while to look again, unless somebody wakes us before."""
        if self._lines[waiter.delete][0] is not waiter:
            return math.inf
        times = [self._visited + _FRESH, self._paused_until, self._ask_at]
        times += [kind.times[0][0] for kind in (self._calls, self._deletes) if kind.times]
        return min((at for at in times if at > now), default=now + _FRESH)

    def _why(self, now: float, longest: float) -> str:
        if self._paused_until > now:
            return f"{self.name} asked us to wait: {self._paused_until - now:.0f} seconds from now"
        if self._trouble:
            return f"no turn to call {self.name}: the store does not answer: {self._trouble}"
        return f"no turn to call {self.name} within {longest:.0f} seconds: the limits of [{GROUP}] are used up"

    def _wake(self) -> None:
        for line in self._lines.values():
            if line:
                line[0].awake.notify()

    @contextlib.contextmanager
    def _unlocked(self) -> Iterator[None]:
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    def _visit(self, going: bool = False) -> None:
        """Ask the store. The lock is let go of meanwhile, and no more calls begin than are under way already."""
        now = time.monotonic()
        waiting, deletes = sum(len(line) for line in self._lines.values()), len(self._lines[True])
        elapsed = now - self._visited
        limits = self._budget.limits(self.service, self.region)
        for kind in (self._calls, self._deletes):
            kind.ready(now)  # what is too old does not count
        wanted = 0 if going else max(self._peak, self._in_use) + waiting
        ask = Ask(
            self._budget.holder,
            limits,
            calls=max(0, waiting - len(self._calls.times)),
            deletes=max(0, deletes - len(self._deletes.times)),
            more_calls=self._calls.likely(elapsed) if waiting else 0,
            more_deletes=self._deletes.likely(elapsed) if deletes else 0,
            in_use=self._in_use,
            wanted=min(wanted, limits.at_once or wanted),
        )
        self._peak = self._in_use
        frozen = self._in_use if self._slots is None else min(self._slots, self._in_use)
        self._slots, self._visiting = frozen, True
        if ask.wanted:
            self.leased = True  # from now on, whatever comes back: the store may have it
            self._budget.keep()
        grant: Grant | None = None
        try:
            with self._unlocked():
                grant = self._budget.ledger.visit_account(self.service, self.region, ask)
        except Exception as error:  # whatever the store raises: there are no turns then
            # The driver's words, not SQLAlchemy's with the statement: they end up in the record.
            self._trouble = " ".join(str(getattr(error, "orig", None) or error).split())[:200]
            LOG.warning("no turns to call %s: the store does not answer: %s", self.name, self._trouble)
        finally:
            self._visiting = False
        after = time.monotonic()
        if grant is None:
            self._ask_at = after + _ASK_AGAIN * random.uniform(1, 2)  # noqa: S311
        else:
            self._visited, self._trouble = after, ""
            self._calls.add(grant.calls, after)
            self._deletes.add(grant.deletes, after)
            self._slots, self._lease_until = grant.slots, now + LEASE - _MARGIN
            self._paused_until = max(self._paused_until, after + grant.paused) if grant.paused else self._paused_until
            self.leased = bool(ask.wanted)
            nothing = grant.slots is not None and grant.slots <= self._in_use
            self._ask_at = after + _ASK_AGAIN if nothing else after
        self._wake()


class Budget:
    """This process's part of the limits. Threads share it."""

    def __init__(
        self, conf: cfg.ConfigOpts, ledger: Ledger, waited: Callable[[str, str, float], None] = lambda *_: None
    ) -> None:
        """Read the limits.

        :param waited: told service, region and seconds after each wait
        :raises BadLimit: one cannot be read
        """
        self._conf, self.ledger, self._waited = conf, ledger, waited
        # Unique even where two hosts in containers have one name, and a process gets the number of a dead one.
        self.holder = f"{socket.gethostname()[:100]}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
        self._settings = settings(conf)
        self._read_at = time.monotonic()
        self._lock = threading.Lock()
        self._accounts: dict[tuple[str, str], _Account] = {}
        self._keeper: threading.Thread | None = None
        self._types = os_service_types.ServiceTypes()

    @property
    def settings(self) -> Settings:
        """``[limits]`` as it is now: the operator may change it while we run."""
        if time.monotonic() - self._read_at >= _RELOAD:
            self._read_at = time.monotonic()
            try:
                self._settings = settings(self._conf)
            except BadLimit as error:
                LOG.error("%s; what held before still holds", error)
        return self._settings

    def limits(self, service: str, region: str) -> Limits:
        """Return what holds for one service in one region now."""
        return self.settings.limits(service, region)

    def _account(self, service: str, region: str) -> _Account:
        service = self._types.get_service_type(service) or service
        key = (service[:128], "" if service == IDENTITY else region[:128])
        with self._lock:
            if key not in self._accounts:
                self._accounts[key] = _Account(self, *key)
            return self._accounts[key]

    @contextlib.contextmanager
    def turn(self, service: str, region: str, delete: bool = False, still: Still | None = None) -> Iterator[None]:
        """Wait until a call may be made, and be counted while it is.

        :param service: its type; empty: not known
        :param delete: whether it deletes
        :param still: asked now and then during a long wait
        :raises RateLimited: there was no turn within ``[limits] longest_wait``
        """
        account = self._account(service, region)
        begun = time.monotonic()
        try:
            account.enter(delete, still, self.settings.longest_wait)
        finally:
            self._waited(account.service, account.region, time.monotonic() - begun)
        try:
            yield
        finally:
            account.leave()

    def pause(self, service: str, region: str, seconds: float) -> None:
        """Leave a service alone, for it asked for that: this process, and all others as soon as they ask the store."""
        seconds = min(seconds, self.settings.longest_pause)
        # Not all at the same moment: that is what it asked us not to do.
        seconds += random.uniform(0, min(1.0, seconds / 10))  # noqa: S311
        account = self._account(service, region)
        account.pause(seconds)
        LOG.warning("%s asks us to slow down: no calls for %.1f seconds", account.name, seconds)
        try:
            self.ledger.pause_account(account.service, account.region, seconds)
        except Exception as error:  # it holds here; the others are told by the service itself
            LOG.warning("the others could not be told to leave %s alone: %s", account.name, error)

    def may_wait(self, service: str, region: str) -> bool:
        """Whether a call may wait for the end of the pause that its service asked for."""
        return self._account(service, region).pause_left() <= self.settings.longest_wait

    def keep(self) -> None:
        """See that signs of life are given as long as slots are held."""
        with self._lock:
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._run, name="budget", daemon=True)
                self._keeper.start()

    def _run(self) -> None:
        while True:
            time.sleep(_RENEW / 4)
            with self._lock:
                leased = [account for account in self._accounts.values() if account.leased]
                if not leased:
                    self._keeper = None
                    return
            for account in leased:
                account.renew()

    def close(self) -> None:
        """Give the slots back, so that the others need not wait until our leases are over."""
        with self._lock:
            accounts = list(self._accounts.values())
        for account in accounts:
            account.renew(going=True)
