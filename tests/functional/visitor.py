"""A process that acquires permits: ``python -m tests.functional.visitor '{"database": ..., "holder": ..., ...}'``.

It prints ``ready``, waits for a line, acquires as often as its argument says, and prints the grants. The time of the
database is fixed, so that the rows that the acquires leave do not depend on their duration.
"""

from __future__ import annotations

import datetime
import json
import sys
from typing import Any

from sqlalchemy import exc

from cleanup_orchestrator.core.rate_limits import Limits, Request
from cleanup_orchestrator.store import Store, rate_limits

T0 = datetime.datetime(2026, 1, 1)
RATE, SLOTS = 1000, 5


def visit(store: Store, holder: str, visits: int) -> list[tuple[float, int, int]]:
    """Acquire as one process; return the first permit, the number of permits and the slots of each grant."""
    ask, grants = Request(holder, Limits(calls=RATE, at_once=SLOTS), calls=3, wanted=3), []
    while len(grants) < visits:
        try:
            grant = store.acquire_permits("network", "R1", ask)
        except exc.OperationalError as error:  # the caller asks again
            assert "eadlock" in str(error), error
            continue
        assert grant.calls is not None and grant.slots is not None
        grants.append((grant.calls[0], len(grant.calls), grant.slots))
    return grants


def main(order: dict[str, Any]) -> None:
    """Run as the argument says."""
    rate_limits.database_time = lambda _: T0
    store = Store.from_url(order["database"])
    store.ping()
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(visit(store, order["holder"], order["visits"])), flush=True)
    store.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
