"""Parts of the cloud of real services: defects that the tests with real services would not show.

These are a daemon that is not stopped, and a cached schema that differs from the one that the service would create.
"""

import os
import sys
import threading

import pytest

from tests.cloud import horizon, installing, launcher, releases
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


def test_the_versions_of_an_older_release_follow_from_those_of_the_newest():
    light = launcher.requirements_files(("keystone",))
    assert releases.requirements("2025.1", light) == [
        "keystone>=27,<28", "glance>=30,<31", "neutron>=26,<27", "swift>=2.35,<2.36", "barbican>=20,<21",
        "cheroot>=10,<12", "setuptools<81",
    ]  # fmt: skip
    assert releases.requirements("2024.1", light)[0] == "keystone>=25,<26"
    assert releases.requirements("2024.1", light)[-3:] == ["sqlalchemy<2", "netaddr<1", "setuptools<81"]
    assert releases.requirements("2026.1", [horizon.REQUIREMENTS]) == ["horizon>=25.7,<25.8"]
    lines = light[0].read_text().splitlines()
    assert releases.requirements(releases.NEWEST, light) == [line for line in lines if not line.startswith("#")]


def test_each_release_has_an_installation_of_its_own():
    hashes = {launcher.requirements_hash(("keystone",), release) for release in releases.RELEASES}
    assert len(hashes) == len(releases.RELEASES)


def test_the_environment_names_the_release_of_a_cloud(tmp_path, monkeypatch):
    monkeypatch.delenv(releases.VARIABLE, raising=False)
    assert launcher.Cloud(tmp_path).release == releases.NEWEST
    monkeypatch.setenv(releases.VARIABLE, "2025.2")
    assert launcher.Cloud(tmp_path).release == "2025.2"
    assert launcher.Cloud(tmp_path, release="2026.1").release == "2026.1"
    monkeypatch.setenv(releases.VARIABLE, "2019.1")
    with pytest.raises(CloudError, match=r"2019.1: the releases are 2024.1, 2025.1,"):
        launcher.Cloud(tmp_path)


def test_a_service_that_was_not_tried_with_an_older_release_is_not_started(tmp_path):
    with pytest.raises(CloudError, match=r"only these services were tried with release 2025\.1: keystone, "):
        launcher.Cloud(tmp_path, services=["aodh"], release="2025.1").up()


@pytest.mark.parametrize(("installer", "option"), [("uv", "--exclude-newer"), ("pip", "--uploaded-prior-to")])
def test_what_was_uploaded_later_is_left_out(tmp_path, monkeypatch, installer, option):
    """A program in the installer's place writes its arguments into a file."""
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\n')
    program.chmod(0o700)
    monkeypatch.setattr(installing, "find_uv", lambda: str(program) if installer == "uv" else "")
    children = Children(tmp_path / "log")
    for until in ("", "2025-04-10"):
        installing.install(children, str(program), ["keystone>=27,<28"], tmp_path / "log.txt", print, until)
    newest, older = (tmp_path / "said").read_text().splitlines()
    assert option not in newest and f"{option} 2025-04-10" in older
    assert newest.endswith("keystone>=27,<28") and older.endswith("keystone>=27,<28")


def test_a_pip_that_cannot_leave_out_what_is_newer_says_what_to_install(tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho 'no such option: --uploaded-prior-to'\nexit 2\n")
    program.chmod(0o700)
    monkeypatch.setattr(installing, "find_uv", lambda: "")
    with pytest.raises(CloudError, match=r"installs no older release \(pip 26 does\): install uv"):
        installing.install(Children(tmp_path / "log"), str(program), ["x"], tmp_path / "log.txt", print, "2025-04-10")


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
