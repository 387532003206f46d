"""The servers that a test starts: their defects that no other test would show.

A server that does not start, or comes back without its data, fails the test that uses it. A process that is not
stopped, and a server that is missing in CI, would go unnoticed.
"""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from tests.support.servers import MariaDB, PostgreSQL, RabbitMQ
from tests.support.timing import wait

pytestmark = pytest.mark.real

ALL = pytest.mark.parametrize("kind", [RabbitMQ, MariaDB, PostgreSQL], ids=lambda kind: kind.name)


@ALL
def test_a_server_ends_with_the_process_that_started_it(kind, tmp_path):
    kind.need()
    program = f"""
        import os, signal
        from tests.support.servers import {kind.__name__}
        server = {kind.__name__}({str(tmp_path / "server")!r}).start()
        print(server.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    pid = done.stdout.strip()
    assert pid, "it was not started"
    wait("the server is gone", lambda: not pathlib.Path("/proc", pid).exists(), 60)
    left = [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if _mentions(path, tmp_path)]
    wait("the processes that it started are gone", lambda: not [path for path in left if path.exists()], 60)


def _mentions(path, folder):
    try:
        return os.fsencode(folder / "server") in path.read_bytes()
    except OSError:
        return False


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(RabbitMQ, "_programs", staticmethod(lambda: {"rabbitmq-server": "", "epmd": "/usr/bin/epmd"}))
    monkeypatch.delenv("CI", raising=False)
    assert not RabbitMQ.available()
    with pytest.raises(pytest.skip.Exception, match="no rabbitmq of the test's own: rabbitmq-server is missing"):
        RabbitMQ.need()
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="rabbitmq-server is missing"):
        RabbitMQ.need()
