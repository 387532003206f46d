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


def required(*extras):
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options"]["install_requires"].split()
    for extra in extras:
        lines += setup["options.extras_require"][extra].split()
    return {canonical(re.match(r"[\w.-]+", line)[0]) for line in lines}


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
    """Every import is named in setup.cfg: no module relies on a requirement of another package.

    Modules that run inside Keystone or Horizon may also import the requirements of these.
    """
    provided = importlib.metadata.packages_distributions()
    missing = set()
    host = {
        "keystone": {"flask", "keystone"},
        "dashboard": {"django", "horizon", "openstack_auth", "openstack_dashboard"},
    }
    for path in (ROOT / "cleanup_orchestrator").rglob("*.py"):
        known = required("osc") if path.parent.name == "osc" else required()
        for name in imported_names(path):
            if name in sys.stdlib_module_names or name == "cleanup_orchestrator":
                continue
            if name in host.get(path.relative_to(ROOT).parts[1], ()):
                continue
            if not {canonical(dist) for dist in provided.get(name, ())} & known:
                missing.add(f"{path.relative_to(ROOT)}: {name}")
    assert sorted(missing) == []


def test_every_requirement_is_imported():
    provided = importlib.metadata.packages_distributions()
    sources = [path for folder in ("cleanup_orchestrator", "alembic") for path in (ROOT / folder).rglob("*.py")]
    imported = {name for path in sources for name in imported_names(path)}
    assert required() - {canonical(dist) for name in imported for dist in provided.get(name, ())} == set()
