"""A process that calls a service without a pause: ``python -m tests.functional.hammer '{"database": ..., ...}'``.

It prints how many calls it made, and the longest wait of a call. With ``forever`` it prints ``ready`` after the first
call and continues until it is killed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from keystoneauth1 import noauth
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.cloud import rate_limiter
from cleanup_orchestrator.cloud.session import GuardedSession
from cleanup_orchestrator.store import Store
from tests.support.rate_budget import configuration


class Hammer:
    """Threads that call, each as soon as its previous call is answered."""

    def __init__(self, store: Store, url: str, limits: dict[str, Any], method: str = "GET") -> None:
        self.budget = rate_limiter.RateLimiter(configuration(**limits), store, self._waited)
        session = GuardedSession(lambda *_: None, self.budget, auth=noauth.NoAuth(endpoint=url))
        self.adapter = Adapter(session, service_type="network", region_name="R1", raise_exc=False)
        self.method, self.calls, self.longest, self.first = method, 0, 0.0, threading.Event()
        self.errors: list[str] = []
        self._lock = threading.Lock()

    def _waited(self, _service: str, _region: str, seconds: float) -> None:
        with self._lock:
            self.longest = max(self.longest, seconds)

    def run(self, threads: int, until: float) -> None:
        """Call until that time (monotonic)."""

        def work() -> None:
            while time.monotonic() < until:
                try:
                    self.adapter.request("/x", self.method)
                except Exception as error:
                    self.errors.append(repr(error))
                    return
                with self._lock:
                    self.calls += 1
                self.first.set()

        workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def main() -> None:
    """Run as the argument says."""
    order = json.loads(sys.argv[1])
    store = Store.from_url(order["database"])
    hammer = Hammer(store, order["url"], order["limits"], order.get("method", "GET"))
    if order.get("forever"):
        threading.Thread(target=hammer.run, args=(order["threads"], float("inf")), daemon=True).start()
        hammer.first.wait()
        print("ready", flush=True)
        time.sleep(600)
        return
    hammer.run(order["threads"], time.monotonic() + order["seconds"])
    hammer.budget.close()
    print(json.dumps({"calls": hammer.calls, "longest": hammer.longest, "errors": hammer.errors}), flush=True)


if __name__ == "__main__":
    main()
