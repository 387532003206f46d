"""Real time in tests: waiting for what comes, and tests whose subject it is: how fast, how soon, how many."""

import time
from collections.abc import Callable
from typing import Any

import pytest

#: A machine that stands still for a second makes such a test measure the machine: then it is measured again. What is
#: really too slow is too slow three times in a row. For nothing else: any other test that fails now and then has a bug.
measures_time = pytest.mark.flaky(reruns=2, reruns_delay=3)


def wait(what: str, until: Callable[[], Any], seconds: float = 120, pause: float = 0.05) -> Any:
    """Return what ``until`` returns once it is true. When a test gives up is nothing that is promised."""
    deadline = time.monotonic() + seconds
    while not (result := until()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(pause)
    return result
