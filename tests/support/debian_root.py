"""A fresh Debian in a folder, in which a test installs the orchestrator as an operator does.

A command runs in the root (chroot) with its own mounts, which end with it. No systemd runs there: a test starts the
processes itself. This needs root, the programs of `NEEDED`, and the package archives of Debian. What is missing fails
the test: the nightly part must not pass without the run.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence

import pytest

from tests.support.commit import ROOT, tracked

SUITE = "bookworm"
#: The Python of that suite, for which wheels are downloaded.
PYTHON = "3.11"
NEEDED = ("mmdebstrap", "unshare", "chroot", "mount")
#: Prepares the mounts, and becomes the command in the root: ROOT COMMAND ...
_ENTER = (
    'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp" && '
    'root=$1 && shift && exec chroot "$root" "$@"'
)


def need() -> None:
    """Fail the test if no root can be made here."""
    if os.geteuid() != 0:
        pytest.fail("a Debian in a folder needs root: run this test as root")
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        pytest.fail(f"missing on this machine: {', '.join(missing)} (Debian: mmdebstrap, util-linux, mount)")


def run(command: Sequence[str | pathlib.Path], **options: object) -> str:
    """Run a command to its end and return its output.

    :raises AssertionError: its exit code is not 0
    """
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return str(done.stdout)


def wheel(folder: pathlib.Path) -> pathlib.Path:
    """Build the wheel of this checkout from a copy, so that the build leaves nothing in the checkout."""
    source = folder / "source"
    for name in ("cleanup_orchestrator", "alembic", "etc", "setup.cfg", "pyproject.toml", "README.rst", "LICENSE"):
        for path in tracked(name):
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, source / path)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*pip, "--wheel-dir", folder, source])
    (found,) = folder.glob("cleanup_orchestrator-*.whl")
    return found


def download(folder: pathlib.Path, requirements: Iterable[str]) -> None:
    """Download wheels for the Python of the root: the root itself reaches no package index."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", f"--python-version={PYTHON}"]
    run([*pip, "--dest", folder, *requirements])


class DebianRoot:
    """The folder, and the commands in it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def make(self, packages: Iterable[str] = ()) -> None:
        """Install Debian with these packages. No service of a package starts, now or later."""
        include = ",".join(["ca-certificates", *packages])
        run(["mmdebstrap", "--variant=apt", f"--include={include}", SUITE, self.folder])
        policy = self.path("/usr/sbin/policy-rc.d")
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)

    def path(self, inside: str) -> pathlib.Path:
        """Return the path of a file of the root, outside of it."""
        return self.folder / inside.lstrip("/")

    def command(
        self,
        command: Sequence[str],
        *,
        user: str = "root",
        group: str = "",
        groups: Sequence[str] = (),
        alone: bool = False,
    ) -> list[str]:
        """Return the command that runs another one in the root.

        :param user: a user of the root, and `group` and `groups` (further ones) likewise
        :param alone: in a separate process namespace: all processes that it starts end with it
        """
        enter = ["unshare", "--mount", "--propagation", "private"]
        enter += ["--pid", "--fork", "--kill-child=SIGKILL"] if alone else []
        enter += ["sh", "-c", _ENTER, "sh", str(self.folder)]
        if user == "root":
            return [*enter, *command]
        given = f"--groups={','.join(groups)}" if groups else "--clear-groups"
        return [*enter, "setpriv", f"--reuid={user}", f"--regid={group or user}", given, "--no-new-privs", *command]

    def run(self, *command: str, environment: Mapping[str, str] | None = None, **options: object) -> str:
        """Run a command in the root to its end and return its output.

        :raises AssertionError: its exit code is not 0
        """
        return run(self.command(command), env=self.environment(environment), **options)

    @staticmethod
    def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a command: nothing of this machine but what reaches the archives."""
        reach = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        fixed = {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        return {**reach, **fixed, **(more or {})}
