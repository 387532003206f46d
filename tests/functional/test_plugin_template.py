"""The template of a plugin for vendors builds, installs, is seen, and passes its own tests and the check."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "doc" / "examples" / "plugin"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a command of an environment that has only the wheel of the template.

    This environment provides the requirements, and the checkout the orchestrator.
    """
    folder = tmp_path_factory.mktemp("template")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")}

    def run(*command, cwd=folder, code=0):
        given = [str(part) for part in command]
        done = subprocess.run(given, cwd=cwd, env=environment, capture_output=True, text=True)
        assert done.returncode == code, (
            f"{command}: exit {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        )
        return done.stdout

    # From a copy, so that the build leaves nothing in the checkout. Without isolation: no network.
    shutil.copytree(TEMPLATE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, folder / "source")
    (wheel,) = folder.glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", "venv")
    python = folder / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    lent = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    (site / "lent.pth").write_text("".join(f"{path}\n" for path in lent))

    def in_venv(*arguments, code=0):
        return run(python, "-W", "ignore", *arguments, code=code)

    return in_venv


def test_the_installed_template_is_a_plugin_like_the_others(run):
    program = """
import json
import functions_plugin
from cleanup_orchestrator.plugins import registry
found = registry.load()
print(json.dumps([functions_plugin.__file__, [t.name for t in found.services["function-engine"].types]]))
"""
    file, types = json.loads(run("-c", program).splitlines()[-1])
    assert "site-packages" in file
    assert types == ["trigger", "function"]


def test_the_check_by_the_name_of_the_entry_point_passes(run):
    out = run("-m", "cleanup_orchestrator.cmd.manage", "plugin", "check", "function-engine")
    assert re.fullmatch(r"function-engine: [1-9]\d* ok, 0 warning, 0 FAILED, 0 not checked", out.splitlines()[-1])


def test_its_own_tests_pass_which_check_it_on_a_cloud(run):
    out = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "source/tests")
    assert "6 passed" in out
