"""Runs a probe in the background and returns its last result.

So callers never block for longer than the timeout of the probe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class NoResponse(Exception):
    """The probe did not answer in time."""


class _Call:
    """One call of the probe, in its own thread."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.began = time.monotonic()
        self.ended: float | None = None
        self.over = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self._function = function
        # A daemon thread: a hanging call does not prevent the end of the process.
        threading.Thread(target=self._run, name="probe", daemon=True).start()

    def _run(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:
            self.error = error
        self.ended = time.monotonic()
        self.over.set()


class CachedProbe(Generic[T]):
    """A function whose result is cached, with a timeout for each caller.

    Only one call runs at a time, so that a hanging call occupies one thread, whatever the number of callers.
    """

    def __init__(self, function: Callable[[], T], timeout: float, keep: float) -> None:
        """Wrap a function.

        :param timeout: seconds after the start of a call until it counts as unanswered
        :param keep: seconds for which a result or an error is cached
        """
        self._function, self._timeout, self._keep = function, timeout, keep
        self._lock = threading.Lock()
        self._call: _Call | None = None

    def begin(self) -> _Call:
        """Return the current call; start one if the last result is too old."""
        with self._lock:
            call = self._call
            if call is None or (call.ended is not None and time.monotonic() - call.ended >= self._keep):
                call = self._call = _Call(self._function)
            return call

    def __call__(self) -> T:
        """Return the result of the function.

        :raises NoResponse: if the function has not returned in time
        :raises Exception: what the function raised
        """
        call = self.begin()
        if not call.over.wait(max(0.0, call.began + self._timeout - time.monotonic())):
            raise NoResponse(f"no answer within {self._timeout:g} s")
        if call.error is not None:
            raise call.error
        result: T = call.result
        return result
