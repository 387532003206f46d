"""The packages for users: the sdist, the wheel that is built from it, and installations of only that wheel."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support.commit import tracked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPTS = {f"cleanup-orchestrator-{name}" for name in ("api", "engine", "worker", "all-in-one", "manage", "status")}


def run(*command, cwd, **environment):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**{k: v for k, v in os.environ.items() if k != "PYTHONPATH"}, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build from a copy, so that the build neither uses nor leaves a build/ in the checkout."""
    source = tmp_path_factory.mktemp("source") / "tree"
    source.mkdir()
    for name in ("cleanup_orchestrator", "alembic", "etc"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.rst", "LICENSE"):
        shutil.copy(ROOT / name, source)
    out = source.parent / "dist"
    # Without isolation: no network, and the setuptools that is here. The wheel is built from the sdist.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source, cwd=source.parent)
    (found,) = out.glob("*.whl")
    assert list(out.glob("*.tar.gz"))
    return found


def installation(wheel, folder):
    """Return a new venv with only the wheel in it. Without an index, pip fails if the wheel requires anything."""
    venv = folder / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=folder)
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "install", "--quiet", "--no-index"]
    run(*pip, wheel, cwd=folder)
    return venv


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory):
    """The environment of a service that speaks the protocol: nothing but the wheel."""
    return installation(wheel, tmp_path_factory.mktemp("alone"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A venv with the wheel, in which this environment provides the requirements."""
    venv = installation(wheel, tmp_path_factory.mktemp("installed"))
    python = venv / "bin" / "python"
    (site,) = venv.glob("lib/python*/site-packages")
    # A line in a .pth comes after the venv's own files, and takes no editable installation along.
    lent = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    (site / "lent.pth").write_text("".join(f"{path}\n" for path in lent))
    where = run(python, "-c", "import cleanup_orchestrator as c; print(c.__file__)", cwd=venv.parent).strip()
    assert Path(where).is_relative_to(site)
    return venv


def test_the_wheel_has_every_module_and_every_migration(wheel):
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("cleanup_orchestrator/")}
    expected = {str(path.relative_to(ROOT)) for path in (ROOT / "cleanup_orchestrator").rglob("*.py")}
    expected.add("cleanup_orchestrator/api/examples.json")
    expected |= {
        str(path.relative_to(ROOT))
        for path in (ROOT / "cleanup_orchestrator" / "dashboard").rglob("*")
        if path.suffix in (".html", ".js", ".scss", ".yaml")
    }
    expected |= {
        str(Path("cleanup_orchestrator/migrations") / path.relative_to(ROOT / "alembic"))
        for path in (ROOT / "alembic").rglob("*")
        if path.suffix in (".py", ".mako")
    }
    assert inside == expected


def test_the_wheel_has_nothing_else(wheel):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {re.sub(r"-[\d.]+\.(dist-info|data)$", r".\1", top) for top in tops} == {
        "cleanup_orchestrator",
        "cleanup_orchestrator.dist-info",
        "cleanup_orchestrator.data",
    }


def test_the_console_scripts_exist(installed):
    assert {path.name for path in (installed / "bin").glob("cleanup-orchestrator-*")} == SCRIPTS


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_every_console_script_has_help_and_no_warnings_of_libraries(installed, script, tmp_path):
    command = [str(installed / "bin" / script), "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert "usage: " in done.stdout
    assert done.stderr == ""


def test_every_entry_point_loads(installed, tmp_path):
    program = """
import importlib.metadata, json
broken = {}
for point in importlib.metadata.distribution("cleanup-orchestrator").entry_points:
    try:
        point.load()
    except Exception as error:
        broken[f"{point.group}: {point.name}"] = repr(error)
print(json.dumps(broken))
"""
    assert json.loads(run(installed / "bin" / "python", "-c", program, cwd=tmp_path).splitlines()[-1]) == {}


def test_the_samples_and_units_come_along(installed):
    share = installed / "share" / "cleanup-orchestrator"
    inside = {str(path.relative_to(share)) for path in share.rglob("*") if path.is_file()}
    generators = {path.name for path in (ROOT / "etc").glob("oslo-*-generator*.conf")}
    etc = {path.removeprefix("etc/") for path in tracked("etc")}
    deployment = {path for path in etc if path.startswith(("ansible/", "container/", "kolla/", "openstack-ansible/"))}
    assert inside == etc - generators - deployment


def test_an_installed_wheel_upgrades_a_database(installed, empty_database_url, tmp_path):
    config = tmp_path / "cleanup.conf"
    config.write_text(f"[database]\nconnection = {empty_database_url}\n")
    manage = [installed / "bin" / "cleanup-orchestrator-manage", "--config-file", config, "db"]
    assert run(*manage, "upgrade", cwd=tmp_path).startswith("upgraded from nothing to ")
    assert run(*manage, "check", cwd=tmp_path).endswith("(head), no differences\n")


def test_an_installed_wheel_writes_no_migration(installed, tmp_path):
    config = tmp_path / "cleanup.conf"
    config.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/x.sqlite\n")
    command = [installed / "bin" / "cleanup-orchestrator-manage", "db", "revision", "-m", "x", "--config-file", config]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert (
        done.stderr == "cleanup-orchestrator-manage: a migration is written in a checkout, not in an installed wheel\n"
    )


#: Creates a note in the example service, and asks for the notes before and after all are deleted. The environment is
#: that of keystonemiddleware's filter.
EXAMPLE = """
import importlib.metadata, json, sys
import widgets
from cleanup_orchestrator.protocol import schemas

application = widgets.application(sys.argv[1], 0)
token = {"user": {"id": "u"}, "roles": [{"name": "service"}]}
confirmed = {"HTTP_X_IDENTITY_STATUS": "Confirmed", "keystone.token_info": {"token": token}}

def ask(method):
    statuses = []
    environ = {"REQUEST_METHOD": method, "PATH_INFO": "/project-resources/v1/projects/p/note", **confirmed}
    body = b"".join(application(environ, lambda status, headers: statuses.append(status)))
    return statuses[0], len(json.loads(body)["resources"]) if body else None

widgets.create("p", "note", {"name": "n"})
names = [one.name for one in importlib.metadata.distributions()]
print(json.dumps([names, ask("GET"), ask("DELETE"), ask("GET")]))
"""


def test_a_service_that_speaks_the_protocol_needs_only_the_wheel(alone, tmp_path):
    example = ROOT / "doc" / "examples" / "service"
    command = [alone / "bin" / "python", "-c", EXAMPLE, tmp_path / "widgets.sqlite"]
    done = run(*command, cwd=tmp_path, PYTHONPATH=str(example), PYTHONDONTWRITEBYTECODE="1")
    assert json.loads(done) == [["cleanup-orchestrator"], ["200 OK", 1], ["204 No Content", None], ["200 OK", 0]]


#: What else is in an environment: that of Keystone, or of a service that speaks the protocol, has a part of it.
OTHERS = {"nothing": (), "Keystone": ("oslo_config", "sqlalchemy"), "a service": ("oslo_config", "waitress")}


@pytest.mark.parametrize("modules", OTHERS.values(), ids=list(OTHERS))
@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_a_command_without_its_requirements_names_the_extra(alone, script, modules, tmp_path):
    for name in modules:
        (tmp_path / f"{name}.py").touch()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([str(alone / "bin" / script)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (255, ""), "1 is an upgrade check with warnings only"
    assert done.stderr == (
        "cleanup-orchestrator: install the requirements first: pip install 'cleanup-orchestrator[server]'\n"
    )
