"""A queue in a background thread: in order, without a wait for the caller, and limited."""

import queue
import threading

import pytest

from cleanup_orchestrator.messaging.background import WAITING, Background, close_all


def test_functions_are_called_in_their_order():
    called, made = [], Background("x")
    for n in range(20):
        made.put(lambda n=n: called.append(n))
    made.close(60)
    assert called == list(range(20))


def test_a_caller_is_not_kept_waiting_and_too_many_are_refused():
    go, made = threading.Event(), Background("x")
    with pytest.raises(queue.Full):
        for _ in range(WAITING + 2):
            made.put(lambda: go.wait(60))
    go.set()
    made.close(60)


def test_the_end_of_a_process_waits_for_every_queue():
    called, several = [], [Background("a"), Background("b")]
    for each in several:
        each.put(lambda: called.append(1))
    close_all(60)
    assert called == [1, 1]
    assert not any(each._thread.is_alive() for each in several)


def test_after_a_close_it_goes_on():
    called, made = [], Background("x")
    for _ in range(2):
        made.put(lambda: called.append(1))
        made.close(60)
    assert called == [1, 1]


def test_a_queue_without_a_function_ends_at_once():
    Background("x").close(60)
