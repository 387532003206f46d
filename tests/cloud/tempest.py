"""Runs Tempest's tests of the Identity API with a stock Keystone, and with the package in each mode of the hook.

The results are compared by test. The numbers and the differences are printed. What a mode changes is in ``EXPECTED``
and in the manual (:doc:`/admin/pipeline`). The exit code is 1 if another test changes, or one fails with a stock
Keystone.

``CLEANUP_TEMPEST_VENV`` names the venv of Tempest (default: ``.tox/tempest``), and ``CLEANUP_CLOUD_VENV`` that of
Keystone (default: ``.tox/cloud``). Either is made if it is missing. A run takes some minutes for each mode.

examples:
  python -m tests.cloud.tempest                  # the stock Keystone, and every mode
  python -m tests.cloud.tempest off opt-in       # the stock Keystone, and these modes
"""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from cleanup_orchestrator import service
from cleanup_orchestrator.keystone import protocol
from cleanup_orchestrator.store import tables
from tests.cloud.installing import install, make_venv
from tests.cloud.launcher import FENCED, Cloud
from tests.cloud.processes import HOST, Children
from tests.support import ports

ROOT = pathlib.Path(__file__).parents[2]
#: The ports of a Keystone with four processes, and of the orchestrator's API: those that no other test uses.
PORTS = range(20000, 32000, 120)
TESTS = r"^tempest\.api\.identity"
REQUIREMENTS = pathlib.Path(__file__).with_name("requirements-tempest.txt")
CONFIGURATION = """
[DEFAULT]
log_file = tempest.log
[oslo_concurrency]
lock_path = {folder}
[auth]
admin_username = admin
admin_project_name = admin
admin_password = {password}
admin_domain_name = Default
create_isolated_networks = false
[identity]
uri_v3 = {auth_url}
auth_version = v3
region = RegionOne
[service_available]
cinder = false
glance = false
neutron = false
nova = false
swift = false
"""
ORCHESTRATOR = """
[database]
connection = sqlite:///{folder}/orchestrator.sqlite
[orchestrator]
{login}
interface = public
[keystone_authtoken]
{login}
www_authenticate_uri = {auth_url}
token_cache_time = -1
[api]
host = 127.0.0.1
port = {port}
[drain]
token_cache_time = 1
[engine]
tick = 0.5
"""
LOGIN = """auth_type = password
auth_url = {auth_url}
username = cleanup-orchestrator
password = {password}
project_name = service
user_domain_id = default
project_domain_id = default"""
LINE = re.compile(r"^\{\d+\} (\S.*?)(?: \[[\d.]+s\])? \.\.\. (ok|FAILED|SKIPPED)", re.M)
#: The least number of tests that pass with a stock Keystone.
LEAST = 100
#: For each mode of the hook, what the output of a test says that fails because of the mode; "": none fails. With
#: ``always`` Keystone answers 202 to the delete of a project, and Tempest accepts 204 only, also when it cleans up.
EXPECTED: Mapping[str, str] = {
    "off": "",
    "opt-in": "",
    "always": r"success status code 202, The expected status code is 204|are being deleted",
}
#: The result of such a test.
BY_MODE = "FAILED, as the manual says"
#: What stands for the stock Keystone among the modes.
STOCK = ""


def programs(folder: pathlib.Path) -> pathlib.Path:
    """Return the folder with Tempest's programs; install them if they are missing."""
    venv = pathlib.Path(os.environ.get("CLEANUP_TEMPEST_VENV") or ROOT / ".tox" / "tempest")
    if not (venv / "bin" / "tempest").exists():
        log, children = folder / "install.log", Children(folder)
        make_venv(children, venv, log)
        install(children, str(venv / "bin" / "python"), ["--requirement", str(REQUIREMENTS)], log, print)
    return venv / "bin"


class Site:
    """One Keystone with its orchestrator."""

    def __init__(self, venv: pathlib.Path, folder: pathlib.Path, mode: str) -> None:
        self.folder, self.mode, base = folder, mode, ports.reserve(PORTS, PORTS.step)
        self.port = base + 30
        options = {"intercept": mode, "endpoint": f"http://{HOST}:{self.port}"}
        more: dict[str, Any] = {}
        if mode:
            more = {**FENCED, "extra_config": {"keystone": {protocol.GROUP: options}}}
        # The requests of Tempest and those of the orchestrator have other processes, see the page about the hook.
        self.cloud = Cloud(
            folder / "cloud", venv, port_base=base, services=(), keystone_processes=4, keystone_cache="shared", **more
        )

    def start_orchestrator(self) -> service.Running:
        values = {"auth_url": self.cloud.auth_url, "password": self.cloud.site.password}
        path = self.folder / "orchestrator.conf"
        login = LOGIN.format(**values)
        path.write_text(ORCHESTRATOR.format(folder=self.folder, login=login, port=self.port, **values))
        parts = service.Components(service.load(["--config-file", str(path)]), in_process=True)
        tables.metadata.create_all(parts.store.database.engine)
        running = service.Running(parts)
        running.start_api()
        running.start_engine()
        running.start_worker()
        return running

    def results(self, programs: pathlib.Path) -> dict[str, str]:
        """Run Tempest; return the result of each test, and of each preparation of a class that failed."""
        path = self.folder / "tempest"
        # Without the second option, Tempest would keep a list of the folders in the home of the user.
        init = [programs / "tempest", "init", path, "--workspace-path", self.folder / "workspaces.yaml"]
        subprocess.run(init, check=True, capture_output=True, cwd=self.folder)
        values = {"auth_url": self.cloud.auth_url, "password": self.cloud.site.password, "folder": path}
        (path / "etc" / "tempest.conf").write_text(CONFIGURATION.format(**values))
        command = [programs / "tempest", "run", "--regex", TESTS, "--concurrency", "2"]
        ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=path, timeout=1800)
        (path / "output").write_text(ran.stdout + ran.stderr)
        return read(ran.stdout, EXPECTED.get(self.mode, ""))


def read(output: str, expected: str) -> dict[str, str]:
    """Return the result of each test, and of each preparation and clean-up of a class that failed.

    :param expected: what is after the line of a test that fails because of the mode; "": none does
    """
    lines = list(LINE.finditer(output))
    ends = [line.start() for line in lines[1:]] + [len(output)]
    found = {}
    for line, end in zip(lines, ends, strict=True):
        by_mode = line[2] == "FAILED" and expected and re.search(expected, output[line.end() : end])
        found[line[1]] = BY_MODE if by_mode else line[2]
    return found


def run(mode: str, programs: pathlib.Path, venv: pathlib.Path, folder: pathlib.Path) -> dict[str, str]:
    """Return the results with a Keystone, by test, and print their numbers."""
    folder.mkdir()
    site = Site(venv, folder, mode)
    site.cloud.install()
    with site.cloud:
        running = site.start_orchestrator() if mode != STOCK else None
        try:
            results = site.results(programs)
        finally:
            if running is not None:
                running.close()
    numbers = dict(sorted(collections.Counter(results.values()).items()))
    print(f"{f'intercept = {mode}' if mode else 'without the package'}: {numbers}", flush=True)
    return results


def changed(stock: Mapping[str, str], results: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the tests whose results differ, with both; a test that did not run has none."""
    both = {name: (stock.get(name, ""), results.get(name, "")) for name in {*stock, *results}}
    return {name: pair for name, pair in sorted(both.items()) if pair[0] != pair[1]}


def problems(found: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return what is not as the manual says, one line each.

    :param found: the results of each mode, the stock Keystone included
    """
    stock = found[STOCK]
    lines = [f"without the package: {name} failed" for name, result in stock.items() if result == "FAILED"]
    if sum(result == "ok" for result in stock.values()) < LEAST:
        lines.append(f"without the package fewer than {LEAST} tests passed: the comparison shows nothing")
    for mode, results in found.items():
        differing = changed(stock, results) if mode != STOCK else {}
        lines += [
            f"{mode}: {name}: {before or 'not run'} -> {after or 'not run'}"
            for name, (before, after) in differing.items()
            if after != BY_MODE
        ]
        if mode != STOCK and EXPECTED[mode] and BY_MODE not in results.values():
            lines.append(f"{mode}: no test fails as the manual says")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.cloud.tempest", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modes", nargs="*", metavar="MODE", help=f"of {', '.join(EXPECTED)} (default: all)")
    modes = parser.parse_args(arguments).modes or list(EXPECTED)
    if unknown := sorted(set(modes) - set(EXPECTED)):
        parser.error(f"no mode is called {', '.join(unknown)}")
    venv = pathlib.Path(os.environ.get("CLEANUP_CLOUD_VENV") or ROOT / ".tox" / "cloud")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        where = programs(folder)
        found = {mode: run(mode, where, venv, folder / (mode or "stock")) for mode in (STOCK, *modes)}
    lines = problems(found)
    print("\n".join(lines) or "only what the manual says differs")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
