"""Installations of the wheel beside the software of each release, with the packages that this release had.

Each environment is resolved with the packages that the index had a week after the release. The tests of what runs in
it run in it. For the oldest Python of a release, ``python3.9`` or ``python3.10`` must be in PATH; otherwise the tests
use this Python. Each test prints the one that it used.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cloud import horizon, launcher, releases
from tests.functional.test_api import contract
from tests.functional.test_packaging import run, wheel

pytestmark = pytest.mark.long

__all__ = ["wheel"]

ROOT = Path(__file__).parents[2]
#: Without it uv chooses pyOpenSSL 22, which does not say that it cannot be imported with the newer cryptography.
OPENSSL = "pyOpenSSL>=24"
PYTEST = ("pytest", "hypothesis", "jsonschema")
#: Tests that compare the client side with the server.
WITH_SERVER = (
    "tests/unit/dashboard/test_errors.py",
    "tests/unit/dashboard/test_policy.py",
    "tests/unit/dashboard/test_words.py",
    "tests/unit/keystone/test_fence.py",
    "tests/unit/keystone/test_http_limits.py",
    "tests/unit/osc/test_words.py",
)


def oldest(release):
    """Return the command of the oldest Python that a release supports, or of this one if it is not here."""
    found = shutil.which(f"python{releases.RELEASES[release].python}")
    works = found and subprocess.run([found, "-V"], capture_output=True).returncode == 0
    return found if works else sys.executable


class Environment:
    """A virtual environment with the packages that a release had."""

    def __init__(self, folder, python, release):
        self.folder, self.release = folder, release
        until = releases.RELEASES[release].until
        self.until = [f"--exclude-newer={until}"] if until else []
        folder.mkdir(exist_ok=True)
        self.python = folder / "venv" / "bin" / "python"
        run("uv", "venv", "--quiet", "--python", python, folder / "venv", cwd=folder)

    def pip(self, *arguments):
        command, *rest = arguments
        return run("uv", "pip", command, "--python", self.python, *rest, cwd=self.folder)

    def install(self, *requirements):
        self.pip("install", "--quiet", *self.until, *requirements)

    def packages(self):
        return {each["name"]: each["version"] for each in json.loads(self.pip("list", "--format", "json"))}

    def test(self, *arguments, **environment):
        """Run tests of the checkout in the environment, without the fixtures of the server."""
        folder = arguments[0]
        ignored = [f"--ignore={each}" for each in WITH_SERVER]
        options = ("-q", "-p", "no:cacheprovider", "-p", "tests.support.garbage", f"--confcutdir={folder}", *ignored)
        # The profile has no deadline, as that of tests/conftest.py, which is not read here.
        options += ("--hypothesis-profile=ci",)
        print(run(self.python, "-B", "-m", "pytest", *options, *arguments, cwd=ROOT, **environment)[-300:])


@pytest.fixture(params=releases.SUPPORTED)
def environment(request, tmp_path):
    return Environment(tmp_path / "environment", oldest(request.param), request.param)


def added(environment, wheel, extra, *hosts):
    """Install the software of others, then the wheel; return what came along or changed, and print the numbers."""
    if hosts:
        environment.install(*hosts)
    before = environment.packages()
    environment.install(f"{wheel}[{extra}]" if extra else wheel)
    after = environment.packages()
    environment.pip("check")
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    python = run(environment.python, "-V", cwd=environment.folder).strip()
    print(f"{environment.release} {hosts} [{extra}] {python}: {len(before)} packages, {len(changed)} more")
    return changed


def test_keystone_gets_the_wheel_alone(environment, wheel):
    host = releases.requirement(environment.release, "keystone", launcher.requirements_files(("keystone",)))
    assert added(environment, wheel, "", host, OPENSSL) == {"cleanup-orchestrator"}
    environment.install(*PYTEST)
    environment.test("tests/unit/keystone")


def test_horizon_gets_the_wheel_alone(environment, wheel):
    hosts = releases.requirements(environment.release, [horizon.REQUIREMENTS])
    assert added(environment, wheel, "horizon", *hosts) == {"cleanup-orchestrator"}
    environment.install(*PYTEST)
    environment.test("tests/unit/dashboard")


def test_the_client_gets_the_wheel_alone(environment, wheel, tmp_path):
    assert added(environment, wheel, "osc", "python-openstackclient") == {"cleanup-orchestrator"}
    environment.install(*PYTEST)
    environment.test("tests/unit/osc")
    environment.test("tests/unit/sdk")
    (tmp_path / "openapi.json").write_text(json.dumps(contract.document()))
    document = {"CLEANUP_OPENAPI": str(tmp_path / "openapi.json")}
    environment.test("tests/functional/test_osc", **document)


def test_a_service_gets_the_wheel_alone(environment, wheel):
    assert added(environment, wheel, "") == {"cleanup-orchestrator"}
    environment.install(*PYTEST)
    environment.test("tests/unit/protocol", "--ignore-glob=*conformance*", *SERVER_SIDE)


#: Tests of the orchestrator's side of the protocol.
SERVER_SIDE = [f"--ignore=tests/unit/protocol/test_{name}.py" for name in ("discovery", "openapi", "plugin")]


def test_the_server_fits_the_packages_of_a_release(environment, wheel, tmp_path):
    """The server may run in an environment of its own; it also fits the packages of each release."""
    server = Environment(tmp_path / "server", sys.executable, environment.release)
    assert "sqlalchemy" in added(server, wheel, "postgresql,mysql,memcached")
    assert "usage: " in run(server.python.with_name("cleanup-orchestrator-worker"), "--help", cwd=tmp_path)
