"""Installs packages into an environment: with uv where it is there, with pip otherwise."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from collections.abc import Callable

from tests.cloud.errors import CloudError
from tests.cloud.processes import Children


def find_uv() -> str:
    """Returns the path of ``uv``: beside the running Python, or on the PATH; "" if there is none."""
    beside = pathlib.Path(sys.executable).with_name("uv")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("uv") or ""


def make_venv(children: Children, venv: pathlib.Path, log: pathlib.Path) -> None:
    """Makes a virtual environment that runs the Python of this one.

    :raises CloudError: it could not be made
    """
    if uv := find_uv():
        command = [uv, "venv", "--quiet", "--seed", "--allow-existing", "--python", sys.executable, str(venv)]
        children.run("uv", command, guarded=True, log=log)
        return
    try:
        children.run("python -m venv", [sys.executable, "-m", "venv", str(venv)], guarded=True, log=log)
    except CloudError as error:
        raise CloudError(f"{error} (Debian and Ubuntu have it in a package of its own, python3-venv)") from None


def install(
    children: Children,
    python: str,
    arguments: list[str],
    log: pathlib.Path,
    progress: Callable[[str], None],
    until: str = "",
) -> None:
    """Installs with uv in seconds where pip takes minutes; where uv fails, pip may know of another index.

    Compiles nothing: each service writes the bytecode of the modules that it imports, which are the smaller part.

    :param arguments: those after ``pip install``
    :param until: a day: what was uploaded from then on is left out
    :raises CloudError: neither could install it
    """
    if uv := find_uv():
        command = [uv, "pip", "install", "--quiet", "--python", python]
        command += ["--exclude-newer", until] if until else []
        try:
            children.run("uv", [*command, *arguments], guarded=True, log=log)
            return
        except CloudError as error:
            if children.stopping:
                raise
            progress(f"{error}; going on with pip")
    pip = [python, "-m", "pip", "--no-input", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    pip += ["--uploaded-prior-to", until] if until else []
    try:
        children.run("pip", [*pip, "--retries", "2", "--timeout", "30", *arguments], guarded=True, log=log)
    except CloudError as error:
        if "no such option: --uploaded-prior-to" in log.read_text(errors="replace"):
            raise CloudError(f"{error}: this pip installs no older release (pip 26 does): install uv") from None
        # It says "no matching distribution" when it could not reach the index at all.
        if "connection broken by" in log.read_text(errors="replace"):
            raise CloudError(f"{error} (the package index could not be reached)") from None
        raise
