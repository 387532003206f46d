"""The real ``openstack`` shell against the stub."""

import dataclasses
import importlib.metadata
import io
import json
import logging
import os
import subprocess
import sys

import pytest
from cliff.commandmanager import CommandManager
from osc_lib import clientmanager

from cleanup_orchestrator.osc import confirm
from tests.functional.test_osc import stub
from tests.support.timing import SleepClock

SHELL = [sys.executable, "-c", "import sys; from openstackclient.shell import main; sys.exit(main())"]


@dataclasses.dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture(scope="session", autouse=True)
def _installed():
    names = {each.name for each in importlib.metadata.distribution("cleanup-orchestrator").entry_points}
    if "project_cleanup" not in names:
        pytest.fail("the plugin is found by its entry points: run 'pip install --no-deps -e .' first, or use tox")


@pytest.fixture(scope="session", autouse=True)
def commands_once():
    """Load the 900 commands of ``openstack`` once, and not at each call, which takes most of the time of a call."""
    load, loaded = CommandManager.load_commands, {}  # the commands after a sequence of groups

    def load_once(manager, namespace):
        groups = (*manager.group_list, namespace)
        if groups in loaded:
            manager.group_list.append(namespace)
            manager.commands.update(loaded[groups])
        else:
            load(manager, namespace)
            loaded[groups] = dict(manager.commands)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CommandManager, "load_commands", load_once)
        yield


@pytest.fixture
def stub_cloud():
    """Keystone and the project-cleanup API, whose answers the test writes."""
    made = stub.Cloud()
    yield made
    made.close()
    assert made.faults == []


@pytest.fixture
def demo(stub_cloud):
    """The project of most tests."""
    return stub_cloud.add_project("demo")


@pytest.fixture
def terminal(monkeypatch):
    """Make the standard input a terminal at which the user types something."""

    def typing(words):
        made = io.StringIO(words)
        made.isatty = lambda: True
        monkeypatch.setattr("sys.stdin", made)
        monkeypatch.setattr(confirm, "_is_seen", lambda: True)

    return typing


@pytest.fixture
def env(stub_cloud, monkeypatch, tmp_path):
    """The environment of a user who is logged in as admin, without the variables of the machine."""
    for name in list(os.environ):
        if name.startswith("OS_"):
            monkeypatch.delenv(name)
    settings = {
        "OS_AUTH_URL": f"{stub_cloud.url}/identity",
        "OS_USERNAME": "admin",
        "OS_PASSWORD": "secret",
        "OS_PROJECT_NAME": "admin",
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_IDENTITY_API_VERSION": "3",
        "OS_REGION_NAME": "RegionOne",
        "OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml"),
        "HOME": str(tmp_path),
        "COLUMNS": "200",
        "NO_COLOR": "1",
        "TERM": "xterm",
        "NO_PROXY": "127.0.0.1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return settings


@pytest.fixture
def openstack(env, capsys, monkeypatch):
    """Run ``openstack`` in this process, on virtual time."""
    from openstackclient import shell

    from cleanup_orchestrator.osc import scan_wait, wait

    for name in ("POLL_FAST", "POLL_SLOW"):
        monkeypatch.setattr(wait, name, 0.01)
    for module in (wait, scan_wait):
        monkeypatch.setattr(module, "time", SleepClock())
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def run(*argv):
        # osc keeps one client of each kind for the whole process, for all clouds
        for cache in vars(clientmanager.ClientManager).values():
            if isinstance(cache, clientmanager.ClientCache):
                cache._handle = None
        capsys.readouterr()
        try:
            code = shell.OpenStackShell().run([str(a) for a in argv])
        except SystemExit as exc:
            code = exc.code
        finally:
            for handler in list(root.handlers):
                if handler not in handlers:
                    root.removeHandler(handler)
            root.setLevel(level)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def process(env):
    """Run ``openstack`` as a process."""

    def run(*argv, **kwargs):
        done = subprocess.run([*SHELL, *map(str, argv)], capture_output=True, text=True, timeout=180, **kwargs)
        return Result(done.returncode, done.stdout, done.stderr)

    return run
