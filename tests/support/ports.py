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


def reserve(bases: Sequence[int], count: int = 1) -> int:
    """Return the first of `count` ports in a row; nobody listens on them, and no other call has reserved them.

    `bases` has the first ports that may be returned, at least `count` apart. The reservation ends with this process.
    Without it two processes can find the same port free at the same moment, and one of them fails to open it.
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
    """Lock the bytes with the numbers of the ports, unless another process has. The kernel unlocks them at its end."""
    try:
        fcntl.lockf(_file(), fcntl.LOCK_EX | fcntl.LOCK_NB, count, base)
    except (BlockingIOError, PermissionError):
        return False
    return True


@functools.cache
def _file() -> BinaryIO:
    """One file for all test runs of this user. It stays open: to close it would end this process's locks."""
    return (pathlib.Path(tempfile.gettempdir()) / f"cleanup-orchestrator-test-ports-{os.getuid()}").open("ab")
