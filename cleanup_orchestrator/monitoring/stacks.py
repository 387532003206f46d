"""Reads the stacks of the threads of this process."""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType

#: Held while the garbage collector is off, so that no other thread turns it on again in between.
_collector = threading.Lock()


def frames() -> dict[int, FrameType]:
    """Return the current frame of each thread by the identifier of the thread.

    No garbage collection starts meanwhile. Python 3.11 holds a lock of the interpreter while it reads the frames
    (python/cpython#106883; 3.11.2 and 3.11.7 were tested). A garbage collection that starts then and frees a
    ``threading.local`` waits for the same lock. The whole process would hang, because this thread also holds the GIL.
    """
    with _collector:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if enabled:
                gc.enable()
