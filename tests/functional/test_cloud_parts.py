"""Parts of the cloud of real services: defects that the tests with real services would not show.

These are a daemon that is not stopped, and a cached schema that differs from the one that the service would create.
"""

import os
import sys
import threading

import pytest

from tests.cloud import launcher
from tests.cloud.errors import CloudError
from tests.cloud.processes import Children
from tests.cloud.schemas import Schemas, cursor
from tests.support.servers import MariaDB
from tests.support.timing import wait

COMMANDS = (("migrate", "everything"),)

# It starts a child, which becomes the leader of a new session and starts another process.
DAEMON = """\
import os, subprocess, sys, time
program = '''
import os, subprocess, sys, time
os.setsid()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
'''
subprocess.Popen([sys.executable, "-c", program, sys.argv[1]])
time.sleep(600)
"""


def runs(pid):
    """Return whether the process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_guarded_daemon_ends_its_children_in_other_sessions(tmp_path):
    noted = tmp_path / "pids"
    children = Children(tmp_path / "log")
    command = ["guard", "--", sys.executable, "-c", DAEMON, str(noted)]
    children.start("daemon", command, python=sys.executable)
    try:
        wait("it has noted its children", noted.exists)
        pids = [int(word) for word in noted.read_text().split()]
        assert all(runs(pid) and os.getsid(pid) == pids[0] for pid in pids)
    finally:
        children.stop()
    wait("they are gone", lambda: not any(runs(pid) for pid in pids))


def test_a_slow_start_says_what_it_waits_for(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "PROGRESS_PERIOD", 0.05)
    told, said = threading.Event(), []

    def progress(text):
        said.append(text)
        told.set()

    class Slow(launcher.Cloud):
        def _prepare(self, service):
            assert told.wait(60)
            raise CloudError("that is enough")

    cloud = Slow(tmp_path, services=["keystone"], progress=progress)
    cloud._claim_directory()
    with pytest.raises(CloudError, match="that is enough"):
        cloud._start(cloud._made())
    cloud.down()
    assert said[0].startswith("after ") and said[0].endswith(" s: preparing: keystone")


def test_services_are_named_by_what_they_do():
    doing = {"nova": "starting", "heat": "waiting for nova", "glance": "preparing", "cinder": "preparing"}
    assert launcher.what_each_does(doing) == "preparing: cinder, glance; starting: nova; waiting for nova: heat"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    MariaDB.need()
    with MariaDB(tmp_path_factory.mktemp("mariadb")) as made:
        yield made


@pytest.mark.real
def test_a_schema_that_was_kept_is_loaded_with_its_rows_and_its_keys(server, tmp_path):
    schemas = Schemas(tmp_path / "kept", "these requirements")
    for name in ("made", "loaded"):
        server.sql(f"CREATE DATABASE {name} CHARACTER SET utf8mb3")
    with cursor(server, "made") as do:
        do.execute("CREATE TABLE child (id INT PRIMARY KEY, parent INT)")
        do.execute(
            "CREATE TABLE parent (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50), raw BLOB, at DATETIME(6))"
        )
        do.execute("ALTER TABLE child ADD CONSTRAINT fk FOREIGN KEY (parent) REFERENCES parent (id)")
        row = (0, 'it\'s; "50 %" \\ é', b"\x00\xff'", "2026-11-21 01:02:03.000004")
        do.execute("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
        do.execute("INSERT INTO parent VALUES (%s, %s, %s, %s)", row)
        do.execute("INSERT INTO child VALUES (1, 0)")
    schemas.keep(server, COMMANDS, ["made"])
    (kept,) = (tmp_path / "kept").iterdir()
    kept.rename(schemas.path(COMMANDS, "loaded"))
    assert schemas.load(server, COMMANDS, ["loaded"])
    for table in ("child", "parent"):
        made, loaded = (server.sql(f"SELECT * FROM {table}", database=name) for name in ("made", "loaded"))
        assert loaded == made
        assert len(loaded) == 1
        made, loaded = (server.sql(f"SHOW CREATE TABLE {table}", database=name) for name in ("made", "loaded"))
        assert loaded == made


@pytest.mark.real
def test_a_schema_is_kept_for_the_commands_and_the_requirements_that_made_it_alone(server, tmp_path):
    server.sql("CREATE DATABASE mine")
    Schemas(tmp_path / "kept", "these requirements").keep(server, COMMANDS, ["mine"])
    assert Schemas(tmp_path / "kept", "these requirements").load(server, COMMANDS, ["mine"])
    assert not Schemas(tmp_path / "kept", "these requirements").load(server, (("migrate", "a part"),), ["mine"])
    assert not Schemas(tmp_path / "kept", "other requirements").load(server, COMMANDS, ["mine"])
    assert not Schemas(tmp_path / "kept", "these requirements").load(server, COMMANDS, ["mine", "and-one-more"])
