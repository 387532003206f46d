"""Builds a release into ``dist/``: sdist, wheel, constraints with hashes, and an SBOM; and installs both.

The version is that of setup.cfg. A commit with a tag must have the tag of this version.
"""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support import commit

DIST = commit.ROOT / "dist"
#: What the constraints and the SBOM are about: the server with each driver.
EXTRAS = ("postgresql", "mysql", "memcached")


def run(*command: str | Path) -> None:
    """Run a command in the checkout; a failure ends the release."""
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], cwd=commit.ROOT, check=True)


def version() -> str:
    """Return the version of setup.cfg.

    :raises SystemExit: the commit has tags, and none of them is this version
    """
    setup = configparser.ConfigParser()
    setup.read(commit.ROOT / "setup.cfg")
    found = setup["metadata"]["version"]
    tags = commit.git("tag", "--points-at", "HEAD", unless="").split()
    if tags and found not in tags:
        sys.exit(
            f"release: the commit has the tag {', '.join(tags)}, and setup.cfg the version {found}: make them equal"
        )
    return found


def main() -> int:
    """Build, check and install a release; return the exit code."""
    made = version()
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    sdist, wheel = DIST / f"cleanup_orchestrator-{made}.tar.gz", DIST / f"cleanup_orchestrator-{made}-py3-none-any.whl"
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    constraints, sbom = DIST / "constraints.txt", DIST / "sbom.cdx.json"
    extras = [part for extra in EXTRAS for part in ("--extra", extra)]
    bare = ("--no-header", "--no-annotate", "--no-emit-package", "cleanup-orchestrator", "--python-version", "3.11")
    run(
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--generate-hashes",
        *bare,
        *extras,
        "setup.cfg",
        "--output-file",
        constraints,
    )
    with tempfile.TemporaryDirectory() as folder:
        for package in (sdist, wheel):
            venv = Path(folder) / package.suffix[1:]
            run("uv", "venv", "--quiet", "--python", "3.11", venv)
            install = ("uv", "pip", "install", "--quiet", "--python", venv / "bin" / "python")
            run(*install, "--require-hashes", "--requirements", constraints)
            run(*install, "--constraints", constraints, f"{package}[{','.join(EXTRAS)}]")
            run("uv", "pip", "check", "--python", venv / "bin" / "python")
            run(venv / "bin" / "cleanup-orchestrator-manage", "--help")
        run("cyclonedx-py", "environment", "--output-reproducible", "--output-file", sbom, venv / "bin" / "python")
    print("\n".join(sorted(str(path.relative_to(commit.ROOT)) for path in DIST.iterdir())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
