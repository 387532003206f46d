"""Time in tests: waiting for a condition in real time, and a clock that a test injects."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait(what: str, until: Callable[[], T | None], seconds: float = 120, pause: float = 0.05) -> T:
    """Call ``until`` until it returns something true, and return that.

    :param what: what the test waits for; the message of the failure names it
    :param seconds: when the test fails; no product promises this time
    """
    deadline = time.monotonic() + seconds
    while not (result := until()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(pause)
    return result


class SleepClock:
    """Replaces the module ``time`` in a module under test: time passes only while that module sleeps."""

    def __init__(self) -> None:
        self.now = 0.0  #: seconds

    def monotonic(self) -> float:
        """Return the seconds that were slept."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass at once."""
        self.now += seconds
