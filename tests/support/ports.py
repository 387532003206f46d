"""Ports of loopback for the servers that tests start."""

from __future__ import annotations

import fcntl
import functools
import os
import pathlib
import random
import tempfile
from collections.abc import Sequence
from typing import BinaryIO

from tests.cloud.errors import CloudError
from tests.cloud.processes import port_is_free

_mine: set[int] = set()


def reserve(bases: Sequence[int], count: int) -> int:
    """Reserve `count` consecutive ports and return the first of them.

    Only free ports are reserved: no process listens on them, and no test has reserved them. `bases` lists the ports
    that may be returned; they are at least `count` apart. The reservation ends when this process ends.

    A check alone is not enough: if two processes check the same port at the same moment, both find it free, and one of
    them fails to open it.

    :raises CloudError: no range of `bases` is free
    """
    for base in random.sample(bases, len(bases)):
        if base in _mine or not _lock(base, count):
            continue
        if all(port_is_free(base + offset) for offset in range(count)):
            _mine.add(base)
            return base
        fcntl.lockf(_file(), fcntl.LOCK_UN, count, base)
    raise CloudError(f"no free ports from {bases[0]} to {bases[-1]}")


def _lock(base: int, count: int) -> bool:
    """Lock the bytes at the ports' numbers; return whether no other process has locked them.

    The kernel removes the locks of a process that ends.
    """
    try:
        fcntl.lockf(_file(), fcntl.LOCK_EX | fcntl.LOCK_NB, count, base)
    except (BlockingIOError, PermissionError):
        return False
    return True


@functools.cache
def _file() -> BinaryIO:
    """Return the lock file that all test runs of this user share. Closing it would remove this process's locks."""
    return (pathlib.Path(tempfile.gettempdir()) / f"cleanup-orchestrator-test-ports-{os.getuid()}").open("ab")
