"""The stacks of the threads: to read them does not stop the process."""

import gc
import subprocess
import sys
import threading

import pytest

from cleanup_orchestrator.monitoring import stacks

#: Without care, the collection starts in ``sys._current_frames``: it creates a frame for each thread.
COLLECTS = """
import gc, sys, threading
from cleanup_orchestrator.monitoring import stacks
for _ in range(50):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
gc.collect()
local = threading.local()
local.itself = local
del local
kept = []
while gc.get_count()[0] < gc.get_threshold()[0] - 20:
    kept.append([])
print(len(stacks.frames()))
"""


@pytest.mark.parametrize("before", [True, False])
def test_no_collection_starts_while_the_frames_are_read(monkeypatch, before):
    during = []
    monkeypatch.setattr(sys, "_current_frames", lambda: during.append(gc.isenabled()) or {})
    enabled = gc.isenabled()
    try:
        gc.enable() if before else gc.disable()
        assert stacks.frames() == {}
        assert (during, gc.isenabled()) == ([False], before)
    finally:
        gc.enable() if enabled else gc.disable()


def test_a_collection_that_frees_a_thread_local_does_not_stop_the_process():
    """Python 3.11.2 and 3.11.7 hang forever if a collection does that within ``sys._current_frames``."""
    done = subprocess.run([sys.executable, "-c", COLLECTS], capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("51\n", "")


def test_the_frame_of_this_thread_is_there():
    assert stacks.frames()[threading.get_ident()].f_code.co_name == "frames"
