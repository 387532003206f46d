"""Which limit of requests is reached first."""

import pytest

from cleanup_orchestrator.core.request_limits import RequestLimits, exceeded


@pytest.mark.parametrize(
    ("limits", "counts", "option"),
    [
        (RequestLimits(), RequestLimits(9, 9, 9, 9), ""),
        (RequestLimits(5, 5, 5, 5), RequestLimits(4, 4, 4, 4), ""),
        (RequestLimits(5, 5, 5, 5), RequestLimits(5, 5, 5, 5), "live_per_requester"),
        (RequestLimits(0, 5, 5, 5), RequestLimits(5, 5, 5, 5), "live_per_domain"),
        (RequestLimits(0, 0, 5, 5), RequestLimits(5, 5, 6, 5), "daily_per_requester"),
        (RequestLimits(0, 0, 0, 5), RequestLimits(5, 5, 6, 5), "daily_per_domain"),
    ],
)
def test_the_first_limit_that_is_reached(limits, counts, option):
    found = exceeded(limits, counts)
    assert (found.option if found else "") == option
