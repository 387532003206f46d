"""How long to wait before the next attempt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup_orchestrator.core.backoff import delay


@pytest.mark.parametrize(("attempt", "seconds"), [(0, 1), (1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (1000, 60)])
def test_it_doubles_up_to_the_cap(attempt, seconds):
    assert delay(attempt).total_seconds() == seconds


@given(st.integers(-5, 10**6), st.floats(0.1, 10), st.floats(10, 600))
def test_it_is_never_nothing_and_never_above_the_cap(attempt, base, cap):
    assert base * 0.999 <= delay(attempt, base, cap).total_seconds() <= cap * 1.001
