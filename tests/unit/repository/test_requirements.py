"""The requirements of setup.cfg are what the package imports."""

import ast
import configparser
import importlib.metadata
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def required(extra):
    """Return what an extra requires, with the extras of this package in it."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    found = set()
    for line in setup["options.extras_require"][extra].split():
        name, extras = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", line).groups()
        if name == "cleanup-orchestrator":
            found.update(*map(required, extras.split(",")))
        else:
            found.add(canonical(name))
    return found


def imported_names(path):
    """Return the top-level packages that a module imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_every_import_is_required():
    """Every import is named in the extra of its room in setup.cfg: no module relies on what another package requires.

    Modules that run inside Keystone or Horizon import the requirements of these. The package itself requires nothing.
    """
    provided = importlib.metadata.packages_distributions()
    missing = set()
    extras = {"osc": "osc", "sdk": "sdk", "dashboard": "horizon"}
    host = {
        "keystone": {"flask", "keystone", "keystoneauth1", "oslo_config", "oslo_log", "requests", "webob"},
        "dashboard": {"django", "horizon", "openstack_auth", "openstack_dashboard"},
    }
    for path in (ROOT / "cleanup_orchestrator").rglob("*.py"):
        room = path.relative_to(ROOT).parts[1]
        known = set() if room == "keystone" else required(extras.get(room, "server"))
        for name in imported_names(path):
            if name in sys.stdlib_module_names or name == "cleanup_orchestrator" or name in host.get(room, ()):
                continue
            if not {canonical(dist) for dist in provided.get(name, ())} & known:
                missing.add(f"{path.relative_to(ROOT)}: {name}")
    assert sorted(missing) == []


def test_every_requirement_is_imported():
    provided = importlib.metadata.packages_distributions()
    sources = [path for folder in ("cleanup_orchestrator", "alembic") for path in (ROOT / folder).rglob("*.py")]
    imported = {name for path in sources for name in imported_names(path)}
    assert required("server") - {canonical(dist) for name in imported for dist in provided.get(name, ())} == set()
