"""A process on a host with a wrong clock: ``python -m tests.functional.skewed HOURS PART OPTION...``."""

from __future__ import annotations

import datetime
import runpy
import sys
import time

_SKEW = float(sys.argv[1]) * 3600
_time, _time_ns = time.time, time.time_ns


class _Datetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls):
        return cls.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)


if __name__ == "__main__":
    time.time = lambda: _time() + _SKEW
    time.time_ns = lambda: _time_ns() + int(_SKEW * 1e9)
    datetime.datetime = _Datetime  # before another module imports it by name
    module = "cleanup_orchestrator.cmd.processes"
    sys.argv = [module, *sys.argv[2:]]
    runpy.run_module(module, run_name="__main__")
