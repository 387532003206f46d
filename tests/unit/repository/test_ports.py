"""Two test processes never start servers on the same port."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import sys

import pytest

from tests.support import ports

ROOT = pathlib.Path(__file__).parents[3]
#: Reserves ranges of ten ports, prints the first port of each, and keeps them until it is killed.
PROGRAM = """
import sys
from tests.support import ports
first, count = map(int, sys.argv[1:])
for _ in range(count):
    print(ports.reserve(range(first, first + 60, 10), 10), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def bases():
    """Six ranges of ten ports that no other test uses."""
    first = ports.reserve(range(30000, 32700, 60), 60)
    return range(first, first + 60, 10)


@pytest.fixture
def reserving(bases, tmp_path):
    """Start a process that reserves `count` of these ranges. Its lock file is in the test's own directory."""
    with contextlib.ExitStack() as stack:

        def start(count=1):
            child = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(bases[0]), str(count)],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(tmp_path)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            stack.callback(child.communicate)
            stack.callback(child.kill)
            return child

        yield start


def reserved(child, count=1):
    return [int(child.stdout.readline()) for _ in range(count)]


def test_processes_that_look_at_the_same_time_get_different_ports(bases, reserving):
    children = [reserving() for _ in bases]
    assert sorted(reserved(child)[0] for child in children) == list(bases)
    said, _ = reserving().communicate()
    assert f"no free ports from {bases[0]} to {bases[-1]}" in said


def test_a_process_reserves_a_port_once_and_its_end_sets_all_free(bases, reserving):
    for _ in range(2):
        child = reserving(len(bases))
        assert sorted(reserved(child, len(bases))) == list(bases)
        child.kill()
        child.communicate()


def test_a_range_in_which_somebody_listens_is_left_out(bases, reserving):
    with socket.create_server(("127.0.0.1", bases[3] + 9)):
        assert bases[3] not in reserved(reserving(5), 5)
