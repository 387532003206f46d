"""A cached probe: what hangs is waited for once, and an answer is kept for a while."""

import pytest

from cleanup_orchestrator.monitoring.probe import CachedProbe, NoResponse
from tests.unit.monitoring.test_server import hang


def test_what_hangs_is_waited_for_once_and_only_so_long(play):
    begun = []

    def slow():
        begun.append(1)
        return hang()

    ask = CachedProbe(slow, timeout=1, keep=10)
    for _ in range(5):
        with pytest.raises(NoResponse):
            play.run(ask)
    assert play.now == 1.0  # the later ones do not wait at all
    play.sleep(30.0)
    assert play.run(ask) == ["late"]
    assert begun == [1]


def test_an_answer_that_comes_in_time_is_waited_for(play):
    def slow():
        play.simulation.sleep(0.9)
        return "in time"

    assert play.run(CachedProbe(slow, timeout=1, keep=0)) == ["in time"]
    assert play.now == 0.9


def test_an_answer_is_kept_for_a_while_and_so_is_an_error(play):
    asked = []

    def fail():
        asked.append(1)
        raise ValueError("no")

    ask = CachedProbe(fail, timeout=5, keep=0.2)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            play.run(ask)
    assert asked == [1]
    play.sleep(0.19)
    with pytest.raises(ValueError, match="no"):
        play.run(ask)
    assert asked == [1]
    play.sleep(0.02)
    with pytest.raises(ValueError, match="no"):
        play.run(ask)
    assert asked == [1, 1]
