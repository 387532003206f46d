"""Each process imports only the libraries that it needs: an engine calls no cloud, and no process uses eventlet."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest
from oslo_service import backend

from tests.support.databases import copy_schema

ROOT = pathlib.Path(__file__).parents[2]
#: Libraries that the test asks for.
LIBRARIES = ("alembic", "eventlet", "jsonschema", "keystonemiddleware", "openstack", "oslo_policy", "pecan", "waitress")
#: Code that starts what the process starts before it asks Keystone for a token: what it imports.
STARTS = {
    "running.start_engine(); running.start_monitoring()": {"waitress"},
    "parts.worker(); from cleanup_orchestrator.cmd import processes": {"openstack", "waitress"},
    "parts.catalog; from cleanup_orchestrator import http_server; from cleanup_orchestrator.api import app": {
        "jsonschema", "keystonemiddleware", "oslo_policy", "pecan", "waitress",
    },
}  # fmt: skip
#: oslo.service before 4.2 cannot do without it (:func:`cleanup_orchestrator.compat.without_eventlet`).
EVENTLET = set() if hasattr(backend, "register_backend_default_hook") else {"eventlet"}
CODE = """
import json, sys
from cleanup_orchestrator import service
from cleanup_orchestrator.cmd import schema
conf = service.load(["--config-file", sys.argv[1]])
schema.require(conf)
parts = service.Components(conf, in_process=True)
running = service.Running(parts)
{start}
found = [name for name in {libraries} if name in sys.modules]
running.close()
print("found " + json.dumps(found))
"""
#: The plugin of the client: every ``openstack`` command imports it.
PLUGIN = """
import argparse, json, sys
import osc_lib.utils
before = set(sys.modules)
import cleanup_orchestrator.osc.plugin
print("found " + json.dumps(sorted(set(sys.modules) - before)))
"""


def found(code, *arguments):
    """Run code in a process of its own; return the list that it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("found ")]
    assert lines, done.stderr
    return set(json.loads(lines[0].removeprefix("found ")))


@pytest.mark.parametrize("start", STARTS)
def test_a_process_imports_what_it_needs(start, tmp_path):
    path = tmp_path / "all.conf"
    database = copy_schema(tmp_path / "all.sqlite")
    path.write_text(f"[database]\nconnection = {database}\n[metrics]\nport = 0\n")
    assert found(CODE.format(start=start, libraries=LIBRARIES), path) == STARTS[start] | EVENTLET


def test_an_engine_refuses_a_lien_type_that_no_plugin_has(tmp_path):
    """The check needs the plugins, which an engine loads only for it."""
    path = tmp_path / "all.conf"
    database = copy_schema(tmp_path / "all.sqlite")
    path.write_text(f"[database]\nconnection = {database}\n[protection]\nlien_types = image.imago\n")
    start = """
try:
    running.start_engine()
except service.CleanupError as error:
    assert "image.imago" in str(error), error
    print('found ["refused"]')
"""
    assert found(CODE.format(start=start, libraries=LIBRARIES), path) == {"refused"}


def test_an_api_names_the_port_that_another_process_has(tmp_path):
    path = tmp_path / "all.conf"
    database = copy_schema(tmp_path / "all.sqlite")
    start = """
parts.log_in = parts.api = lambda: None
try:
    running.start_api()
except service.CleanupError as error:
    print("found " + json.dumps([str(error)]))
"""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        path.write_text(f"[database]\nconnection = {database}\n[api]\nport = {port}\n")
        (said,) = found(CODE.format(start=start, libraries=LIBRARIES), path)
    assert said.startswith(f"[api]: cannot listen on 127.0.0.1 port {port}: Address already in use; ")


#: A keystoneauth that has another name for the method that :class:`GuardedSession` overrides.
RENAMED = """
import sys
from keystoneauth1 import session
session.Session._send = session.Session._send_request
source = session.Session.request
session.Session.request = lambda self, *args, **more: source(_Other(self), *args, **more)
class _Other:
    def __init__(self, real): self.real = real
    def __getattr__(self, name): return getattr(self.real, name)
    def _send_request(self, *args, **more): return session.Session._send(self.real, *args, **more)
from cleanup_orchestrator.cmd import processes
sys.argv = ["cleanup-orchestrator", "--config-file", sys.argv[1]]
sys.exit(processes.{process}())
"""


@pytest.mark.parametrize("process", ["api", "engine", "worker", "all_in_one"])
def test_no_process_starts_with_a_keystoneauth_that_skips_the_check_of_tokens(process, tmp_path):
    path = tmp_path / "all.conf"
    database = copy_schema(tmp_path / "all.sqlite")
    path.write_text(f"[database]\nconnection = {database}\n[metrics]\nport = 0\n")
    command = [sys.executable, "-c", RENAMED.format(process=process), str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=120, check=False)
    assert done.returncode == 1
    assert "it cannot rely on that tokens are sent to the catalog only" in done.stderr, done.stderr


def test_the_plugin_of_the_client_imports_nothing_but_itself():
    names = {"cleanup_orchestrator", "cleanup_orchestrator.osc", "cleanup_orchestrator.osc.plugin"}
    assert {name for name in found(PLUGIN) if not name.startswith("__editable__")} <= names


def test_the_exceptions_of_openstacksdk_are_the_same_ones_for_plugins():
    code = """
from cleanup_orchestrator.plugins.base import exceptions
import sys
before = "openstack" in sys.modules
from openstack import exceptions as real
assert exceptions.NotFoundException is real.NotFoundException
assert not hasattr(exceptions, "Imagined")
print("found " + ('["early"]' if before else "[]"))
"""
    assert found(code) == set()
