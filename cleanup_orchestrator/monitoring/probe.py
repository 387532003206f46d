"""A question that may hang, asked so that nobody who waits for the answer does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class NoAnswer(Exception):
    """It did not answer in time."""


class _Call:
    """One call under way in a thread of its own."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.began = time.monotonic()
        self.ended: float | None = None
        self.over = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self._function = function
        # A daemon: a call that hangs for ever does not hold up the end of the process.
        threading.Thread(target=self._run, name="bounded", daemon=True).start()

    def _run(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:
            self.error = error
        self.ended = time.monotonic()
        self.over.set()


class CachedProbe(Generic[T]):
    """A function whose answer is kept for a while, and waited for only so long.

    However many ask, it is called once at a time: one that hangs costs one thread, not one for each who asks.
    """

    def __init__(self, function: Callable[[], T], timeout: float, keep: float) -> None:
        """Wrap a function.

        :param timeout: seconds from the beginning of a call until it counts as unanswered
        :param keep: seconds for which an answer, or an error, is given again
        """
        self._function, self._timeout, self._keep = function, timeout, keep
        self._lock = threading.Lock()
        self._call: _Call | None = None

    def begin(self) -> _Call:
        """Return the call whose answer counts now; start it if there is none."""
        with self._lock:
            call = self._call
            if call is None or (call.ended is not None and time.monotonic() - call.ended >= self._keep):
                call = self._call = _Call(self._function)
            return call

    def __call__(self) -> T:
        """Return the function's answer.

        :raises NoAnswer: when it has not answered in time
        :raises Exception: what the function raised
        """
        call = self.begin()
        if not call.over.wait(max(0.0, call.began + self._timeout - time.monotonic())):
            raise NoAnswer(f"no answer within {self._timeout:g} s")
        if call.error is not None:
            raise call.error
        result: T = call.result
        return result
