"""Leased work: which pieces a worker claims, stops and gives back."""

import types

from cleanup_orchestrator.worker.leases import LeasedTask, LeasedWorker


class Task(LeasedTask):
    """Leased work that only says what happens to it."""

    name = thread_name = "task"

    def __init__(self, work=lambda: None, released=True):
        super().__init__(types.SimpleNamespace(lease=60))
        self.work, self.said, self._answer = work, [], released

    def carry_out(self):
        self.work()

    def release(self):
        self.said.append("released")
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def extend(self, seconds):
        return self.release()

    def requeue(self):
        self.said.append("cast")

    def announce(self):
        self.said.append("announced")

    def work(self): ...

    def ended(self): ...

    def abandon(self, thread, why): ...


class Workers(LeasedWorker):
    """A worker whose work is made by the test."""

    def __init__(self, **work):
        super().__init__()
        self.made, self.claimed, self.passed_on = work, [], []

    def claim(self, work_id):
        self.claimed.append(work_id)
        return self.made.get(work_id)

    def pass_on(self, work_id):
        self.passed_on.append(work_id)


def test_a_worker_that_refuses_claims_nothing_and_passes_each_piece_on():
    made = Workers(a=Task())
    made.refuse()
    made.handle("a", "b")
    assert (made.claimed, made.passed_on) == ([], ["a", "b"])
    assert made.made["a"].said == []


def test_a_task_that_was_claimed_while_the_others_were_told_to_stop_stops_too():
    """The claim begins before the worker refuses, and ends after the tasks under way were told."""
    late = Task()
    made = Workers(late=late)
    claim = made.claim

    def claims(work_id):
        made.stop_tasks()
        return claim(work_id)

    made.claim = claims
    seen = []
    late.work = lambda: seen.append(late.stopping)
    made.handle("late")
    assert seen == [True]


def test_only_a_task_under_way_is_told_to_stop():
    ended, under_way = Task(), Task()
    made = Workers(ended=ended, under_way=under_way)
    under_way.work = made.stop_tasks
    made.handle("ended")
    made.handle("under_way")
    assert (ended.stopping, under_way.stopping) == (False, True)


def test_a_claim_is_given_back_once_and_cast_if_it_was_still_held():
    for answer, said in ((True, ["released", "cast"]), (False, ["released"]), (OSError("away"), ["released"])):
        task = Task(released=answer)
        assert task.release_claim() and task.release_claim()
        assert task.said == said


def test_only_a_store_that_answers_ends_a_claim():
    assert [Task(released=answer).renew() for answer in (True, False, OSError("away"))] == [True, False, True]
