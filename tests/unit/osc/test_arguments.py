"""What the commands make of the times that a user gives."""

import argparse
import datetime
import time

from cleanup_orchestrator.osc import arguments


def test_days_are_counted_in_utc(monkeypatch):
    began = datetime.datetime.now(datetime.timezone.utc)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "EAST-9")
        time.tzset()
        found = arguments.until(argparse.Namespace(days=1.0, expires_at=None))
    time.tzset()
    late = datetime.datetime.fromisoformat(found.replace("Z", "+00:00")) - began - datetime.timedelta(days=1)
    assert abs(late) < datetime.timedelta(minutes=2)
