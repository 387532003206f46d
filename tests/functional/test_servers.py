"""The servers of a test's own: what they promise to the tests that kill them."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
import sqlalchemy as sa

from tests.support.servers import MariaDB, PostgreSQL, RabbitMQ
from tests.support.timing import wait

pytestmark = pytest.mark.real

ALL = pytest.mark.parametrize("kind", [RabbitMQ, MariaDB, PostgreSQL], ids=lambda kind: kind.name)


@pytest.mark.parametrize("kind", [MariaDB, PostgreSQL], ids=lambda kind: kind.name)
def test_a_database_comes_back_on_its_port_with_what_was_committed(kind, tmp_path):
    kind.need()
    with kind(tmp_path / "server") as server:
        url = server.create("test")
        server.sql("CREATE TABLE seen (number INTEGER)", "test")
        for number, again in enumerate((server.restart, lambda: server.restart(kill=True))):
            server.sql(f"INSERT INTO seen VALUES ({number})", "test")
            held = sa.create_engine(url).connect()  # a client does not keep it from going, nor from coming back
            again()
            held.invalidate()
            assert server.url("test") == url
        assert server.sql("SELECT number FROM seen ORDER BY number", "test") == [(0,), (1,)]


@ALL
def test_a_server_dies_with_the_process_that_started_it(kind, tmp_path):
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
    wait("and what it started", lambda: not [path for path in left if path.exists()], 60)


@ALL
@pytest.mark.long
def test_two_of_a_kind_do_not_know_each_other(kind, tmp_path):
    kind.need()
    with kind(tmp_path / "one") as one, kind(tmp_path / "two") as two:
        assert one.port != two.port
        one.kill()
        os.kill(two.pid, 0)
        two.restart()


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
