import gc
import logging
from collections.abc import Iterator

import pytest
from oslo_context import context as oslo_context

from cleanup_orchestrator.cloud.rate_limiter import RateLimiter
from tests.support import auth_options, examples
from tests.support.databases import database_url, drop_databases, empty_database_url

examples.load_profile()

pytest_plugins = ["tests.support.garbage", "tests.support.tiers"]

__all__ = ["database_url", "drop_databases", "empty_database_url"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Have the garbage collector leave out what the collection of the tests makes: nearly all of it stays to the end.

    Else it takes a tenth of the time of all tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def no_options_of_others() -> Iterator[None]:
    """Start each file without the options of another file's auth_type."""
    yield
    auth_options.forget("keystone_authtoken", "orchestrator", "protocol")


@pytest.fixture(autouse=True, scope="module")
def no_log_handlers_of_others() -> Iterator[None]:
    """End each file without the log handlers that a service of it set up.

    They write to the captured output of a test that is over, and each log line of another file's tests would be an
    error.
    """
    root = logging.getLogger()
    before = root.handlers[:]
    yield
    for handler in root.handlers[:]:
        if handler not in before and type(handler) is logging.StreamHandler:
            root.removeHandler(handler)


@pytest.fixture(autouse=True, scope="module")
def no_context_of_others() -> None:
    """Start each file without a request context.

    Log lines print the context of the thread. A file that makes one when it is imported, a failed test and a simulated
    thread that ends leave theirs behind.
    """
    oslo_context._request_store.__dict__.clear()


@pytest.fixture(autouse=True, scope="module")
def no_budgets_of_others() -> Iterator[None]:
    """End each file without a budget that renews its leases in the background.

    A renewal that fails is logged. The line would appear in the output of another file's tests.
    """
    kept: list[RateLimiter] = []
    keep = RateLimiter.start_renewing

    def noted(budget: RateLimiter) -> None:
        kept.append(budget)
        keep(budget)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RateLimiter, "start_renewing", noted)
        yield
    for budget in kept:
        for account in budget._rate_limits.values():
            account.leased = False
        if budget._keeper is not None:
            budget._keeper.join(5)
