"""How long to wait before the next attempt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup_orchestrator.core.backoff import delay, poll


@pytest.mark.parametrize(("attempt", "seconds"), [(0, 1), (1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (1000, 60)])
def test_it_doubles_up_to_the_cap(attempt, seconds):
    assert delay(attempt).total_seconds() == seconds


@given(st.integers(-5, 10**6), st.floats(0.1, 10), st.floats(10, 600))
def test_it_is_never_nothing_and_never_above_the_cap(attempt, base, cap):
    assert base * 0.999 <= delay(attempt, base, cap).total_seconds() <= cap * 1.001


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(0, 1), (1, 1), (8, 1), (9, 1), (10, 1.125), (11, 1.265625), (29, 10), (1000, 10)]
)
def test_a_poll_waits_between_one_and_ten_seconds(attempt, seconds):
    assert poll(attempt).total_seconds() == pytest.approx(seconds)


def test_a_poll_waits_for_an_eighth_of_the_time_so_far():
    elapsed = 0.0
    for attempt in range(1, 200):
        wait = poll(attempt).total_seconds()
        assert wait <= min(10, max(1, elapsed / 8) + 0.001)
        assert wait >= min(9.99, elapsed / 9)
        elapsed += wait
