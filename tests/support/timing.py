"""Real time in tests: waiting for what comes."""

import time
from collections.abc import Callable
from typing import Any


def wait(what: str, until: Callable[[], Any], seconds: float = 120, pause: float = 0.05) -> Any:
    """Return what ``until`` returns once it is true. When a test gives up is nothing that is promised."""
    deadline = time.monotonic() + seconds
    while not (result := until()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(pause)
    return result
