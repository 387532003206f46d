"""The rules of the house: who may import whom. Read from the source, so that no import hides in a function."""

import ast
import configparser
import functools
import graphlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = "cleanup_orchestrator"
#: What stays outside of the rooms. ``http_server`` serves both the API and the monitoring port.
FLAT = {"errors", "http_server", "log", "opts", "service"}
ROOMS = {
    "api", "cloud", "cmd", "core", "dashboard", "drain", "engine", "keystone", "messaging", "monitoring", "osc",
    "plugins", "protocol", "sdk", "store", "worker",
}  # fmt: skip


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {name_of(path): path for path in (ROOT / PACKAGE).rglob("*.py")}


def type_checking_only(tree):
    """Nodes under ``if TYPE_CHECKING``: they name a type and import nothing when it runs."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            found |= {inner for statement in node.body for inner in ast.walk(statement)}
    return found


@functools.cache
def imports(module, typing=True):
    """Return every module that a module's source imports, with parents; ``typing``: also those for types only."""
    path = SOURCES[module]
    tree = ast.parse(path.read_text(), str(path))
    skipped = set() if typing else type_checking_only(tree)
    names = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
                base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
            names.add(base)
            names |= {f"{base}.{alias.name}" for alias in node.names if f"{base}.{alias.name}" in SOURCES}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__"):
            names |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return frozenset(names)


def reach(module, typing=False):
    """Return everything that importing a module brings, as far as our own source says so."""
    seen, todo = set(), [module]
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        if one in SOURCES:
            parents = [one.rsplit(".", n)[0] for n in range(1, one.count(".") + 1)]
            todo += [*imports(one, typing), *parents]
    return seen - {module}


def offenders(module, forbidden, found):
    return sorted(
        f"{module} imports {name}"
        for name in found
        if any(name == bad or name.startswith((bad + ".", bad + "_")) for bad in forbidden)
    )


def inside(*prefixes):
    return sorted(
        name
        for name in SOURCES
        if any(name == f"{PACKAGE}.{prefix}" or name.startswith(f"{PACKAGE}.{prefix}.") for prefix in prefixes)
    )


def ours(*names):
    return [f"{PACKAGE}.{name}" for name in names]


def test_the_sources_are_found():
    assert {*ours("core.decide", "worker.worker"), PACKAGE} <= set(SOURCES)


def test_every_module_is_in_a_room():
    tops = {name.split(".")[1] for name in SOURCES if name != PACKAGE}
    assert tops == FLAT | ROOMS


def test_a_hidden_import_is_seen():
    """The check itself: ``plugins.calls`` imports openstacksdk in a function, and its types for the checker only."""
    assert "openstack" in imports(f"{PACKAGE}.plugins.calls", typing=False)
    assert "openstack.connection" in imports(f"{PACKAGE}.plugins.calls")
    assert "openstack.connection" not in imports(f"{PACKAGE}.plugins.calls", typing=False)


@pytest.mark.parametrize("module", inside("core"))
def test_the_core_imports_nothing_but_itself_and_the_standard_library(module):
    allowed = {PACKAGE, *inside("core")}
    found = {name for name in imports(module) if name.partition(".")[0] not in sys.stdlib_module_names}
    assert sorted(found - allowed) == []


@pytest.mark.parametrize("module", inside("core"))
def test_the_core_reads_no_clock_and_no_environment(module):
    tree = ast.parse(SOURCES[module].read_text())
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    clocks = {"datetime.datetime.now", "datetime.datetime.utcnow", "datetime.now", "time.time", "time.monotonic"}
    assert sorted(used & {*clocks, "os.environ", "random.random", "random.uniform"}) == []
    assert sorted(imports(module) & {"time", "os", "random", "socket", "threading", "uuid"}) == []


@pytest.mark.parametrize("module", inside("plugins"))
def test_plugins_know_neither_the_store_nor_the_bus(module):
    forbidden = [*ours("store", "messaging", "engine", "worker", "api", "cmd"), "sqlalchemy", "oslo_messaging"]
    assert offenders(module, forbidden, reach(module)) == []


#: What the plugins of services rest on; everything else in the room is a service's plugin.
PLUGIN_CONTRACT = ours("plugins") + [
    f"{PACKAGE}.plugins.{name}"
    for name in (
        "admin", "base", "calls", "conformance", "contract", "endings", "exceptions", "external_dns", "glance", "needs",
        "neutron",
        "nova", "parts", "port_uses", "registry", "remedies", "values", "verdicts",
    )
]  # fmt: skip
#: Plugins that import another service's plugin. Before Magnum deletes a cluster, Heat must abandon its stack; and the
#: resources of this stack are deleted with the cluster.
OTHER_PLUGINS = {
    f"{PACKAGE}.plugins.container_infrastructure_management": {
        *(f"{PACKAGE}.plugins.orchestration.{name}" for name in ("contents", "listing", "stacks")),
    },
}


def services_plugins():
    return sorted(set(inside("plugins")) - set(PLUGIN_CONTRACT))


def plugin_of(module):
    """Return a plugin's module, or its package: ``cleanup_orchestrator.plugins.network``."""
    return ".".join(module.split(".")[:3])


def plugin_offences(module, found):
    """Return what a service's plugin may not import of this package."""
    shared = ("admin", "base", "external_dns", "glance", "neutron", "nova", "port_uses", "verdicts")
    allowed = {
        *ours(*(f"plugins.{name}" for name in shared)),
        *OTHER_PLUGINS.get(module, ()),
    }
    return sorted(
        name
        for name in found
        if name.partition(".")[0] == PACKAGE and name not in allowed and plugin_of(name) != plugin_of(module)
    )


@pytest.mark.parametrize("module", services_plugins())
def test_a_plugin_imports_only_the_contract_and_its_package(module):
    """A vendor's plugin needs one import, and the rooms behind the contract stay free to move."""
    assert plugin_offences(module, imports(module)) == []


def test_an_import_past_the_contract_is_seen():
    found = {*ours("core.reasons", "plugins.base", "plugins.contract", "plugins.network.common", "plugins.dns"), "ast"}
    expected = sorted(ours("core.reasons", "plugins.contract", "plugins.dns"))
    assert plugin_offences(f"{PACKAGE}.plugins.network.routers", found) == expected
    assert len(services_plugins()) > 13


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_no_file_is_over_500_lines(module):
    assert len(SOURCES[module].read_text().splitlines()) <= 500


def room(module):
    return module.split(".")[1] if "." in module else ""


def test_no_room_reaches_itself_through_another():
    """``api.wsgi`` asks ``service`` for the application: a web server imports it, and no module does."""
    arrows = {one: set() for one in FLAT | ROOMS}
    for module in set(SOURCES) - {PACKAGE, f"{PACKAGE}.api.wsgi"}:
        arrows[room(module)] |= {room(name) for name in imports(module) if name in SOURCES} - {"", room(module)}
    tuple(graphlib.TopologicalSorter(arrows).static_order())


@pytest.mark.parametrize("module", inside("api"))
def test_the_api_never_calls_plugins(module):
    """Nor reaches what does. ``api.wsgi`` starts a process and asks ``service`` for it: there it ends."""
    forbidden = ours("plugins", "worker", "engine", "messaging")
    found = imports(module) if module == f"{PACKAGE}.api.wsgi" else reach(module, typing=True)
    assert offenders(module, forbidden, found) == []


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_only_the_store_has_a_session(module):
    if module not in [*ours("cmd.manage", "cmd.schema"), *inside("store")]:
        assert offenders(module, ["sqlalchemy"], imports(module)) == []


@pytest.mark.parametrize("module", sorted(set(SOURCES) - {f"{PACKAGE}.cmd.manage"}))
def test_only_the_management_command_writes_the_schema(module):
    assert offenders(module, ["alembic", *ours("cmd.manage")], imports(module)) == []


@pytest.mark.parametrize("module", inside("store"))
def test_the_store_reaches_nothing_but_the_core(module):
    """Others learn of a commit from its listeners."""
    assert offenders(module, ours(*(ROOMS - {"store", "core"})), reach(module, typing=True)) == []


@pytest.mark.parametrize("module", inside("messaging"))
def test_messaging_reaches_the_core_and_the_metrics(module):
    forbidden = ours(*(ROOMS - {"messaging", "core", "monitoring"}), "monitoring.server")
    assert offenders(module, forbidden, reach(module, typing=True)) == []


@pytest.mark.parametrize("module", inside("keystone"))
def test_what_runs_inside_keystone_needs_nothing_that_keystone_does_not_bring(module):
    """``pip install --no-deps cleanup-orchestrator`` into Keystone's environment is all that an operator does."""
    found = reach(module)
    assert [name for name in found if name in SOURCES and name != PACKAGE and name not in inside("keystone")] == []
    brought = {"flask", "keystone", "keystoneauth1", "oslo_config", "oslo_log", "requests", "webob", "werkzeug"}
    outside = {name.partition(".")[0] for name in found} - set(sys.stdlib_module_names) - {PACKAGE, "__future__"}
    assert outside <= brought


@pytest.mark.parametrize("module", inside("dashboard"))
def test_the_panels_run_in_horizon_without_server_code(module):
    """Horizon's environment has neither the bus nor the database of the orchestrator."""
    forbidden = [*ours(*(ROOMS - {"dashboard", "sdk"})), "sqlalchemy", "oslo_messaging", "pecan"]
    assert offenders(module, forbidden, reach(module)) == []


@pytest.mark.parametrize("module", inside("osc"))
def test_the_client_brings_no_server(module):
    """What is installed beside ``openstack`` on a laptop is the REST client and nothing behind it."""
    forbidden = ours(*(ROOMS - {"osc", "sdk", "core"}))
    assert offenders(module, forbidden, reach(module)) == []


@pytest.mark.parametrize("module", inside("sdk"))
def test_the_sdk_needs_nothing_but_openstacksdk(module):
    """A program on a user's machine imports it."""
    found = reach(module)
    assert [name for name in found if name in SOURCES and name != PACKAGE and name not in inside("sdk")] == []
    outside = {name.partition(".")[0] for name in found} - set(sys.stdlib_module_names) - {PACKAGE, "__future__"}
    assert outside <= {"keystoneauth1", "openstack", "requests"}


#: What a service imports that speaks the protocol, and the documents for its tests.
SERVICE_SIDE = ours(
    "protocol", *(f"protocol.{name}" for name in ("checks", "documents", "provider", "schemas", "wsgi"))
)


@pytest.mark.parametrize("module", SERVICE_SIDE)
def test_the_side_of_a_service_needs_nothing_but_python(module):
    found = reach(module)
    assert [name for name in found if name in SOURCES and name != PACKAGE and name not in inside("protocol")] == []
    assert {name.partition(".")[0] for name in found} <= set(sys.stdlib_module_names) | {PACKAGE, "__future__"}


@pytest.mark.parametrize("module", sorted(set(SOURCES) - set(inside("cmd"))))
def test_only_commands_import_commands(module):
    assert offenders(module, ours("cmd"), imports(module)) == []


def test_the_migrations_folder_does_not_shadow_the_library():
    assert (ROOT / "alembic" / "env.py").is_file()
    assert list((ROOT / "alembic").rglob("__init__.py")) == []
    import alembic

    assert not Path(alembic.__file__).is_relative_to(ROOT / "alembic")


def test_setup_cfg_lists_every_package():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    packages = {name_of(path) for path in (ROOT / PACKAGE).rglob("__init__.py")}
    assert set(setup["options"]["packages"].split()) == packages | {
        f"{PACKAGE}.migrations",
        f"{PACKAGE}.migrations.versions",
    }


def test_only_the_fixed_top_level():
    """Folders and files at the root are the ones that DESIGN.md names."""
    fixed = {"cleanup_orchestrator", "etc", "alembic", "tests", "doc", ".ci", "setup.cfg", "pyproject.toml", "tox.ini"}
    fixed |= {"README.rst", "LICENSE", ".gitignore"}
    ignored = {".git", "build", "dist"}
    found = {path.name for path in ROOT.iterdir()}
    found = {name for name in found if name not in ignored and not name.endswith(".egg-info")}
    assert {name for name in found if not name.startswith(".") or name in fixed} == fixed
