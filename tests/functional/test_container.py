"""The container recipe: its steps run in a fresh Debian, and its API answers. No container engine is needed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cloud.conftest import free_port_base, installed
from tests.cloud.launcher import Cloud
from tests.cloud.processes import Children
from tests.support.commit import ROOT, tracked
from tests.support.containerfile import build
from tests.support.debian_root import DebianRoot, download, need, run
from tests.support.servers import PostgreSQL, RabbitMQ
from tests.support.timing import wait

pytestmark = pytest.mark.long

RECIPE = (ROOT / "etc" / "container" / "Containerfile").read_text()
CONFIGURATION = """
[DEFAULT]
transport_url = {rabbitmq}
[database]
connection = {database}
[drain]
token_cache_time = 5
"""
API = """
[orchestrator]
auth_type = v3password
auth_url = {auth_url}
username = admin
password = {password}
user_domain_id = default
project_name = admin
project_domain_id = default
[keystone_authtoken]
auth_section = orchestrator
www_authenticate_uri = {auth_url}
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    need()
    folder = tmp_path_factory.mktemp("container")
    context = folder / "context"
    for path in tracked():
        if path.partition("/")[0] in ("cleanup_orchestrator", "alembic", "etc") or "/" not in path:
            (context / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, context / path)
    wheels = folder / "wheels"
    wheels.mkdir()
    download(wheels, [f"{context}[postgresql,mysql,memcached]", "pyuwsgi", "setuptools>=70.1"])
    base = DebianRoot(folder / "base")
    base.make()
    shutil.copytree(wheels, base.path("/srv/wheels"))
    made: list[DebianRoot] = []

    def new() -> DebianRoot:
        made.append(DebianRoot(folder / f"stage-{len(made)}"))
        run(["cp", "--archive", base.folder, made[-1].folder])
        return made[-1]

    try:
        yield build(RECIPE, context, new, {"PIP_ARGUMENTS": "--no-index --find-links=/srv/wheels"})
    finally:
        for root in [base, *made]:
            shutil.rmtree(root.folder, ignore_errors=True)


def test_the_image_has_the_program_and_no_compiler_and_no_source(image):
    assert image.root.path("/opt/cleanup-orchestrator/bin/cleanup-orchestrator-api").exists()
    for path in ("/usr/bin/gcc", "/source", "/wheel", "/etc/cleanup-orchestrator"):
        assert not image.root.path(path).exists()
    assert image.user == "42790:42790"
    assert run(image.command("id", "-u", "-n"), env=image.root.environment()) == "cleanup-orchestrator\n"
    find = ["find", "/opt", "/usr", "-xdev", "-writable", "-not", "-type", "l"]
    writable = run(image.command(*find), env=image.root.environment())
    assert writable == ""


def test_the_api_answers_in_the_image(image, tmp_path):
    RabbitMQ.need()
    PostgreSQL.need()
    venv = installed("CLEANUP_CLOUD_VENV", "cloud", "keystone-manage")
    root, port, children = image.root, free_port_base(), Children(tmp_path / "log")
    # The fixed port of the image may be in use on this machine.
    uwsgi = root.path("/opt/cleanup-orchestrator/share/cleanup-orchestrator/container-uwsgi.ini")
    assert "\nhttp-socket = 0.0.0.0:8790\n" in uwsgi.read_text() and "uid = " not in uwsgi.read_text()
    uwsgi.write_text(uwsgi.read_text().replace("0.0.0.0:8790", f"127.0.0.1:{port}"))
    more = {"HEALTH_URL": image.environment["HEALTH_URL"].replace("8790", str(port))}
    with (
        Cloud(tmp_path / "cloud", venv, port_base=free_port_base()) as cloud,
        PostgreSQL(tmp_path / "postgresql") as server,
        RabbitMQ(tmp_path / "rabbitmq") as broker,
    ):
        etc = root.path("/etc/cleanup-orchestrator")
        etc.mkdir()
        (etc / "cleanup-orchestrator.conf").write_text(
            CONFIGURATION.format(rabbitmq=broker.url, database=server.create("cleanup"))
        )
        (etc / "cleanup-orchestrator-api.conf").write_text(
            API.format(auth_url=cloud.auth_url, password=cloud.site.password)
        )
        upgrade = [*image.entrypoint, "cleanup-orchestrator-manage", "db", "upgrade"]
        assert run(image.command(*upgrade), env=root.environment()).startswith("upgraded from nothing to ")
        start = image.command(*image.entrypoint, *image.arguments, environment=more, alone=True)
        children.start("api", ["exec", "--", *start], python=sys.executable, environment=root.environment())
        health = image.command(*image.healthcheck, environment=more)

        def healthy() -> bool:
            children.check()
            return subprocess.run(health, env=root.environment(), capture_output=True).returncode == 0

        try:
            wait("the health check of the image succeeds", healthy, 120, 0.5)
        finally:
            children.stop()
        assert subprocess.run(health, env=root.environment(), capture_output=True).returncode != 0, Path(tmp_path)
