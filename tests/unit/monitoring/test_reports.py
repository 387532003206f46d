"""The report on a signal: no thread of the process dies of the signal, and a report that fails is not the last one."""

import gc
import os
import signal
import sys
import types

import psutil
import pytest

from cleanup_orchestrator.monitoring import reports


class Over(BaseException):
    """Ends the loop that waits for signals."""


def conf(**values):
    options = types.SimpleNamespace(**{"file_event_handler": None, "log_dir": "/x", **values})
    return types.SimpleNamespace(oslo_reports=options)


@pytest.mark.parametrize(("file", "blocked"), [(None, [(signal.SIG_BLOCK, {signal.SIGUSR2})]), ("/run/report", [])])
def test_the_signal_is_blocked_in_all_threads_before_one_waits_for_it(monkeypatch, file, blocked):
    done = []
    monkeypatch.setattr(reports.Report, "setup_autorun", lambda *_, **options: done.append(options["setup_signal"]))
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *mask: done.append(mask))
    thread = types.SimpleNamespace(start=lambda: done.append("waits"))
    monkeypatch.setattr(reports.threading, "Thread", lambda **_: thread)
    reports.setup(conf(file_event_handler=file), "prog")
    assert done == [False, *blocked, *(["waits"] if blocked else [])]


def test_after_a_report_that_cannot_be_written_the_next_one_is(monkeypatch, caplog):
    answers = iter([OSError("no space left"), None, Over()])

    def wait(signals):
        assert signals == {signal.SIGUSR2}

    def write(*_):
        if error := next(answers):
            raise error

    monkeypatch.setattr(signal, "sigwait", wait)
    monkeypatch.setattr(reports.Report, "handle_signal", write)
    with pytest.raises(Over):
        reports._report_on_signal(conf(), "prog")
    assert caplog.text.count("cannot write the guru meditation report") == 1


def test_a_report_with_a_failed_section_has_the_others(tmp_path, monkeypatch):
    """As under ``ProcSubset=pid``: psutil has no ``/proc/stat``."""
    (tmp_path / "self").symlink_to("/proc/self")
    (tmp_path / str(os.getpid())).symlink_to(f"/proc/{os.getpid()}")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    text = reports.Report(reports._Version()).run()
    assert "Threads" in text and "test_a_report_with_a_failed_section_has_the_others" in text
    assert "FileNotFoundError" in text.partition(" Processes ")[2].partition(" Configuration ")[0]


def test_no_collection_starts_while_a_report_reads_the_frames(monkeypatch):
    """It could stop the process for good: see :mod:`cleanup_orchestrator.monitoring.stacks`."""
    real, during = sys._current_frames, []
    monkeypatch.setattr(sys, "_current_frames", lambda: during.append(gc.isenabled()) or real())
    assert gc.isenabled()
    text = reports.Report(reports._Version()).run()
    assert (during, gc.isenabled()) == ([False], True)
    assert "test_no_collection_starts_while_a_report_reads_the_frames" in text.partition(" Threads ")[2]


def test_a_report_does_not_hold_all_objects_of_the_process(monkeypatch):
    """``gc.get_objects`` also returns a tuple that another thread is filling, which then fails with SystemError."""
    asked = []
    monkeypatch.setattr(gc, "get_objects", lambda *_: asked.append(True) or [])
    text = reports.Report(reports._Version()).run()
    assert not asked
    assert " Threads " in text and "Green Threads" not in text
