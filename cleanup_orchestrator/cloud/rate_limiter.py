"""Makes each call wait for a permit.

This is the process's part of the limits that all processes keep together.

:mod:`cleanup_orchestrator.core.rate_limits` has the algorithm; this module waits. While the store does not answer
there are no permits, and so no calls: the limit protects the cloud.
"""

from __future__ import annotations

import collections
import contextlib
import math
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Protocol

import os_service_types
from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator.cloud.rate_limit_options import GROUP, IDENTITY, BadLimit, Settings, settings
from cleanup_orchestrator.core.rate_limits import HORIZON, LEASE, Grant, Limits, Permits, Request
from cleanup_orchestrator.errors import RateLimited

LOG = log.getLogger(__name__)

#: Seconds after which a process asks the store again, even without need: another process may have recorded a pause.
_FRESH = 1.0
_RENEW = 2.0  #: seconds after which a process that holds slots renews its lease
_ASK_AGAIN = 0.5  #: seconds after which a process that got nothing asks again
_MARGIN = 1.0  #: seconds before the end of a lease from which its slots are not used
_CHECK = 5.0  #: seconds after which a waiting call checks that it is still wanted
_RELOAD = 1.0  #: seconds after which the options are read again

CheckWanted = Callable[[], None]  #: raises if the waiting call is no longer wanted


class Ledger(Protocol):
    """Keeps the rate limits for all processes: the store."""

    def acquire_permits(self, service: str, region: str, request: Request) -> Grant:
        """Acquire permits and slots; see ``core.rate_limits.acquire``."""

    def pause_calls(self, service: str, region: str, seconds: float) -> None:
        """Pause all calls to a service for so many seconds. A longer pause in force stays."""


# ------------------------------------------------------------------------------------------------------ one service
class _Permits:
    """The permits of one kind that this process holds."""

    def __init__(self) -> None:
        self.limited = True
        self.times: collections.deque[float] = collections.deque()  #: from when each is valid, monotonic
        self.used = 0  #: since the last request

    def ready(self, now: float) -> bool:
        """Return whether a permit can be used now; drop those that are lost."""
        while self.times and self.times[0] <= now - HORIZON:
            self.times.popleft()
        return not self.limited or bool(self.times and self.times[0] <= now)

    def use(self) -> None:
        """Use the first permit; :meth:`ready` is true."""
        self.used += 1
        if self.limited:
            self.times.popleft()

    def demand(self, waiting: int, free: int, elapsed: float) -> int:
        """Return how many permits to request; forget how many were used.

        :param waiting: calls that wait; as many again as were made lately are likely to come
        :param free: slots; without a slot, a permit would be lost
        :param elapsed: seconds since the last request
        """
        used, self.used = self.used, 0
        recent = used if waiting and elapsed <= 2 * HORIZON else 0
        return min(max(0, waiting - len(self.times)), free) + recent

    def add(self, permits: Permits, now: float) -> None:
        """Add the permits of a request."""
        self.limited = permits is not None
        if permits is None:
            self.times.clear()
        else:
            self.times.extend(now + max(0.0, begins) for begins in permits)


class _Waiter:
    __slots__ = ("awake", "delete", "number")

    def __init__(self, lock: threading.Lock, number: int, delete: bool) -> None:
        self.awake, self.number, self.delete = threading.Condition(lock), number, delete


class _RateLimit:
    """The rate limit of one service in one region, in this process.

    Calls proceed in the order in which they came. Deletes wait in a separate queue, so that reads do not wait for them.
    """

    def __init__(self, budget: RateLimiter, service: str, region: str) -> None:
        self._budget, self.service, self.region = budget, service, region
        self._lock = threading.Lock()
        self._lines: dict[bool, collections.deque[_Waiter]] = {True: collections.deque(), False: collections.deque()}
        self._number = 0
        self._calls, self._deletes = _Permits(), _Permits()
        self._in_use = self._peak = 0
        self._slots: int | None = 0  #: calls that may be under way; ``None``: no limit
        self._lease_until = self._paused_until = self._acquired_at = -math.inf
        self._ask_at = -math.inf  #: not before
        self._acquiring = False
        self._trouble = ""  #: why the latest request failed
        self.leased = False

    @property
    def name(self) -> str:
        return f"{self.service or 'an endpoint'}@{self.region or '-'}"

    # -- for callers
    def enter(self, delete: bool, check_wanted: CheckWanted | None, longest: float) -> None:
        """Wait for a permit and a slot.

        :param longest: seconds
        :raises RateLimited: when there was none in time
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
                    if line[0] is waiter and not self._acquiring and now >= self._ask_at and self._needs(waiter, now):
                        self._acquire()
                    elif check_wanted is not None and now - checked >= _CHECK:
                        with self._unlocked():
                            check_wanted()
                        checked = time.monotonic()
                    else:
                        check = checked + _CHECK if check_wanted is not None else math.inf
                        until = min(deadline, self._next(waiter, now), check)
                        waiter.awake.wait(max(0.0005, until - now))
                for kind in self._kinds(waiter):
                    kind.use()
                self._in_use += 1
                self._peak = max(self._peak, self._in_use)
            finally:
                line.remove(waiter)
                self._wake()

    def leave(self) -> None:
        """Release the slot of a call that has ended."""
        with self._lock:
            self._in_use -= 1
            self._wake()

    def pause(self, seconds: float) -> None:
        """Pause the calls of this process."""
        with self._lock:
            self._paused_until = max(self._paused_until, time.monotonic() + seconds)
            self._wake()

    def pause_left(self) -> float:
        """Return the seconds until the pause ends."""
        with self._lock:
            return max(0.0, self._paused_until - time.monotonic())

    def renew(self, closing: bool = False) -> None:
        """Renew the lease if it is due; ``closing``: release every slot."""
        with self._lock:
            now = time.monotonic()
            if not self._acquiring and not self._in_use and now >= self._lease_until + _MARGIN:
                self.leased = False  # it expired while the store did not answer
            if self.leased and not self._acquiring and (closing or now - self._acquired_at >= _RENEW):
                self._acquire(closing)

    # -- internal; the caller holds the lock
    def _goes(self, waiter: _Waiter, now: float) -> bool:
        if self._lines[waiter.delete][0] is not waiter or not self._ready(waiter, now):
            return False
        other = self._lines[not waiter.delete]
        return not (other and other[0].number < waiter.number and self._ready(other[0], now))

    def _ready(self, waiter: _Waiter, now: float) -> bool:
        return (
            now >= self._paused_until
            and now - self._acquired_at < _FRESH
            and self._has_slot(now)
            and all(kind.ready(now) for kind in self._kinds(waiter))
        )

    def _kinds(self, waiter: _Waiter) -> tuple[_Permits, ...]:
        """Return the kinds of permits that a call needs."""
        return (self._calls, self._deletes) if waiter.delete else (self._calls,)

    def _has_slot(self, now: float) -> bool:
        return self._slots is None or (self._in_use < self._slots and now < self._lease_until)

    def _needs(self, waiter: _Waiter, now: float) -> bool:
        """Return whether a request to the store would help."""
        if now < self._paused_until and self._acquired_at > -math.inf:
            return False
        if now - self._acquired_at >= _FRESH:
            return True
        if not self._has_slot(now):
            most = self._budget.limits(self.service, self.region).at_once
            return now >= self._lease_until or not most or self._slots is None or self._slots < most
        return any(kind.limited and not kind.times for kind in self._kinds(waiter))

    def _next(self, waiter: _Waiter, now: float) -> float:
        """Return when the waiter checks again, unless it is notified before."""
        if self._lines[waiter.delete][0] is not waiter:
            return math.inf
        times = [self._acquired_at + _FRESH, self._paused_until, self._ask_at]
        times += [kind.times[0] for kind in (self._calls, self._deletes) if kind.times]
        return min((at for at in times if at > now), default=now + _FRESH)

    def _why(self, now: float, longest: float) -> str:
        if self._paused_until > now:
            return f"{self.name} asked for a pause, which ends in {self._paused_until - now:.0f} seconds"
        if self._trouble:
            return f"no permit to call {self.name}: the store does not answer: {self._trouble}"
        return f"no permit to call {self.name} within {longest:.0f} seconds: the limits of [{GROUP}] are used up"

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

    def _acquire(self, closing: bool = False) -> None:
        """Acquire permits and slots from the store.

        The lock is released during the request. Until its answer no call uses a slot that is not in use now.
        """
        now = time.monotonic()
        waiting, deletes = sum(len(line) for line in self._lines.values()), len(self._lines[True])
        elapsed = now - self._acquired_at
        limits = self._budget.limits(self.service, self.region)
        for kind in (self._calls, self._deletes):
            kind.ready(now)  # drops lost permits
        free = max(0, self._slots - self._in_use) if self.leased and self._slots is not None else waiting
        wanted = 0 if closing else max(self._peak, self._in_use) + waiting
        request = Request(
            self._budget.holder,
            limits,
            self._calls.demand(waiting, free, elapsed),
            self._deletes.demand(deletes, free, elapsed),
            in_use=self._in_use,
            wanted=min(wanted, limits.at_once or wanted),
        )
        self._peak = self._in_use
        frozen = self._in_use if self._slots is None else min(self._slots, self._in_use)
        self._slots, self._acquiring = frozen, True
        if request.wanted:
            self.leased = True  # from now on: the store may have recorded it even if the answer is lost
            self._budget.start_renewing()
        grant: Grant | None = None
        try:
            with self._unlocked():
                grant = self._budget.ledger.acquire_permits(self.service, self.region, request)
        except Exception as error:  # whatever the store raises
            # The driver's message: SQLAlchemy's contains the statement, and the text goes into the record.
            self._trouble = " ".join(str(getattr(error, "orig", None) or error).split())[:200]
            LOG.warning("no permits to call %s: the store does not answer: %s", self.name, self._trouble)
        finally:
            self._acquiring = False
        after = time.monotonic()
        if grant is None:
            self._ask_at = after + _ASK_AGAIN * random.uniform(1, 2)  # noqa: S311
        else:
            self._acquired_at, self._trouble = after, ""
            self._calls.add(grant.calls, after)
            self._deletes.add(grant.deletes, after)
            self._slots, self._lease_until = grant.slots, now + LEASE - _MARGIN
            self._paused_until = max(self._paused_until, after + grant.paused) if grant.paused else self._paused_until
            self.leased = bool(request.wanted)
            nothing = grant.slots is not None and grant.slots <= self._in_use
            self._ask_at = after + _ASK_AGAIN if nothing else after
        self._wake()


class RateLimiter:
    """This process's part of the limits; its threads share it."""

    def __init__(
        self, conf: cfg.ConfigOpts, ledger: Ledger, waited: Callable[[str, str, float], None] = lambda *_: None
    ) -> None:
        """Read the limits.

        :param waited: called with service, region and seconds after each wait
        :raises BadLimit: when a limit is not valid
        """
        self._conf, self.ledger, self._waited = conf, ledger, waited
        # Unique even if two containers have one host name, and a process gets the number of a dead one.
        self.holder = f"{socket.gethostname()[:100]}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
        self._settings = settings(conf)
        self._read_at = time.monotonic()
        self._lock = threading.Lock()
        self._rate_limits: dict[tuple[str, str], _RateLimit] = {}
        self._keeper: threading.Thread | None = None
        self._types = os_service_types.ServiceTypes()

    @property
    def settings(self) -> Settings:
        """``[limits]`` as it is now: the operator may change it while the process runs."""
        if time.monotonic() - self._read_at >= _RELOAD:
            self._read_at = time.monotonic()
            try:
                self._settings = settings(self._conf)
            except BadLimit as error:
                LOG.error("%s; the limits before stay in force", error)
        return self._settings

    def limits(self, service: str, region: str) -> Limits:
        """Return the present limits of one service in one region."""
        return self.settings.limits(service, region)

    def _rate_limit(self, service: str, region: str) -> _RateLimit:
        service = self._types.get_service_type(service) or service
        key = (service[:128], "" if service == IDENTITY else region[:128])
        with self._lock:
            if key not in self._rate_limits:
                self._rate_limits[key] = _RateLimit(self, *key)
            return self._rate_limits[key]

    @contextlib.contextmanager
    def permit(
        self, service: str, region: str, delete: bool = False, check_wanted: CheckWanted | None = None
    ) -> Iterator[None]:
        """Wait for a permit, and hold a slot during the call.

        :param service: its type; empty: not known
        :param delete: whether the call deletes
        :param check_wanted: called now and then during a long wait
        :raises RateLimited: when there was no permit within ``[limits] longest_wait``
        """
        rate_limit = self._rate_limit(service, region)
        begun = time.monotonic()
        try:
            rate_limit.enter(delete, check_wanted, self.settings.longest_wait)
        finally:
            self._waited(rate_limit.service, rate_limit.region, time.monotonic() - begun)
        try:
            yield
        finally:
            rate_limit.leave()

    def pause(self, service: str, region: str, seconds: float) -> None:
        """Pause all calls to a service that asked for it.

        Other processes follow when they next ask the store.
        """
        seconds = min(seconds, self.settings.longest_pause)
        # Spread the end of the pause: all processes at once would overload the service again.
        seconds += random.uniform(0, min(1.0, seconds / 10))  # noqa: S311
        rate_limit = self._rate_limit(service, region)
        rate_limit.pause(seconds)
        LOG.warning("%s asks for a pause: no calls for %.1f seconds", rate_limit.name, seconds)
        try:
            self.ledger.pause_calls(rate_limit.service, rate_limit.region, seconds)
        except Exception as error:  # the pause holds here; the service tells the other processes itself
            LOG.warning("could not record the pause of %s for other processes: %s", rate_limit.name, error)

    def may_wait(self, service: str, region: str) -> bool:
        """Return whether a call may wait for the end of its service's pause."""
        return self._rate_limit(service, region).pause_left() <= self.settings.longest_wait

    def start_renewing(self) -> None:
        """Start the thread that renews leases while slots are held."""
        with self._lock:
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._run, name="budget", daemon=True)
                self._keeper.start()

    def _run(self) -> None:
        while True:
            time.sleep(_RENEW / 4)
            with self._lock:
                leased = [rate_limit for rate_limit in self._rate_limits.values() if rate_limit.leased]
                if not leased:
                    self._keeper = None
                    return
            for rate_limit in leased:
                rate_limit.renew()

    def close(self) -> None:
        """Release all slots, so that other processes need not wait for the leases."""
        with self._lock:
            rate_limits = list(self._rate_limits.values())
        for rate_limit in rate_limits:
            rate_limit.renew(closing=True)
