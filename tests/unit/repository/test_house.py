"""The rules of the house: who may import whom. Read from the source, so that no import hides in a function."""

import ast
import configparser
import functools
import graphlib
import sys
from pathlib import Path

from cleanup_orchestrator.plugins import base
from tests.support.commit import tracked

ROOT = Path(__file__).parents[3]
PACKAGE = "cleanup_orchestrator"
#: What stays outside of the rooms. ``http_server`` serves both the API and the monitoring port.
FLAT = {"compat", "errors", "http_server", "log", "opts", "service"}
ROOMS = {
    "api", "cloud", "cmd", "core", "dashboard", "drain", "engine", "evidence", "keystone", "messaging", "monitoring",
    "notices", "osc", "plugins", "protocol", "sdk", "shapes", "store", "worker",
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
def tree_of(module):
    return ast.parse(SOURCES[module].read_text(), str(SOURCES[module]))


@functools.cache
def imports(module, typing=True):
    """Return every module that a module's source imports, with its line; ``typing``: also those for types only."""
    tree = tree_of(module)
    skipped = set() if typing else type_checking_only(tree)
    lines = {}
    for node in ast.walk(tree):
        if node in skipped:
            continue
        names = set()
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if SOURCES[module].name == "__init__.py" else module.split(".")[:-1]
                base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
            names = {base, *(f"{base}.{alias.name}" for alias in node.names if f"{base}.{alias.name}" in SOURCES)}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__"):
            names = {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
        for name in names:
            lines[name] = min(lines.get(name, node.lineno), node.lineno)
    return lines


def place(module, line):
    return f"{SOURCES[module].relative_to(ROOT)}:{line}"


def own(module):
    """Return what the source of a module imports, and where."""
    return {name: place(module, line) for name, line in imports(module).items()}


def reach(module, typing=False):
    """Return everything that importing a module brings, as far as our own source says so, and where it is imported."""
    found, todo = {}, [module]
    while todo:
        one = todo.pop()
        parents = {one.rsplit(".", n)[0]: 0 for n in range(1, one.count(".") + 1)}
        for name, line in (parents | imports(one, typing)).items():
            if name != module and name not in found:
                found[name] = place(one, line)
                todo += [name] if name in SOURCES else []
    return found


def reach_with_types(module):
    return reach(module, typing=True)


def offences(modules, wrong, bring=own):
    """Return each wrong import once: its file and line, its name, and a module that brings it.

    :param wrong: whether the module of the first argument may not bring the second one
    :param bring: ``own`` for what the sources of the modules import, or ``reach`` for all that they bring
    """
    assert modules
    found = {}
    for module in modules:
        for name, where in bring(module).items():
            if wrong(module, name):
                found.setdefault(f"{where} imports {name}", module)
    return [f"{text} (in or for {module})" for text, module in sorted(found.items())]


def forbid(modules, wrong, bring=own):
    found = offences(modules, wrong, bring)
    assert not found, "\n".join(["wrong imports:", *found])


def among(*forbidden):
    """Return a function that says whether an import is one of these packages, or is in one of them."""
    return lambda _, name: any(name == bad or name.startswith((bad + ".", bad + "_")) for bad in forbidden)


def of_others(*rooms):
    """Return a function that says whether an import is a module of this package outside of these rooms."""
    return lambda _, name: name in SOURCES and name != PACKAGE and name not in inside(*rooms)


def outside(*brought):
    """Return a function that says whether an import is of another package that is not in the standard library."""
    known = {*sys.stdlib_module_names, PACKAGE, "__future__", *brought}
    return lambda _, name: name.partition(".")[0] not in known


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


def test_the_core_imports_nothing_but_itself_and_the_standard_library():
    forbid(inside("core"), of_others("core"))
    forbid(inside("core"), outside())


def test_the_core_reads_no_clock_and_no_environment():
    clocks = {"datetime.datetime.now", "datetime.datetime.utcnow", "datetime.now", "time.time", "time.monotonic"}
    forbidden = {*clocks, "os.environ", "random.random", "random.uniform"}
    used = [
        f"{place(module, node.lineno)} uses {ast.unparse(node)}"
        for module in inside("core")
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in forbidden
    ]
    assert not used, "\n".join(used)
    modules = {"time", "os", "random", "socket", "threading", "uuid"}
    forbid(inside("core"), lambda _, name: name in modules)


def test_plugins_know_neither_the_store_nor_the_bus():
    forbidden = [*ours("store", "messaging", "engine", "worker", "api", "cmd"), "sqlalchemy", "oslo_messaging"]
    forbid(inside("plugins"), among(*forbidden), reach)


#: What the plugins of services rest on; everything else in the room is a service's plugin.
PLUGIN_CONTRACT = ours("plugins") + [
    f"{PACKAGE}.plugins.{name}"
    for name in (
        "admin", "base", "calls", "conformance", "contract", "endings", "exceptions", "external_dns", "glance", "needs",
        "neutron", "nova", "old_names", "parts", "port_uses", "quotas", "registry", "remedies", "values", "verdicts",
    )
]  # fmt: skip
#: Plugins that import another service's plugin. Before Magnum deletes a cluster, Heat must abandon its stack; and the
#: resources of this stack are deleted with the cluster.
OTHER_PLUGINS = {
    f"{PACKAGE}.plugins.container_infrastructure_management": {
        *(f"{PACKAGE}.plugins.orchestration.{name}" for name in ("contents", "listing", "stacks")),
    },
}


#: What several plugins ask other services. ``plugins.base`` has these modules for vendors.
ASK_OTHERS = ("external_dns", "glance", "neutron", "nova", "port_uses")


def services_plugins():
    return sorted(set(inside("plugins")) - set(PLUGIN_CONTRACT))


def plugin_of(module):
    """Return a plugin's module, or its package: ``cleanup_orchestrator.plugins.network``."""
    return ".".join(module.split(".")[:3])


def past_the_contract(module, name):
    """Return whether a service's plugin may not import a module."""
    allowed = {*ours("plugins.base", *(f"plugins.{each}" for each in ASK_OTHERS)), *OTHER_PLUGINS.get(module, ())}
    return name.partition(".")[0] == PACKAGE and name not in allowed and plugin_of(name) != plugin_of(module)


def test_a_plugin_imports_only_the_contract_and_its_package():
    """A vendor's plugin needs one import, and the rooms behind the contract stay free to move."""
    forbid(services_plugins(), past_the_contract)


def test_all_that_a_plugin_imports_is_in_the_contract():
    assert set(ASK_OTHERS) <= set(base.__all__)


def test_an_import_past_the_contract_is_seen():
    found = {*ours("core.reasons", "plugins.base", "plugins.contract", "plugins.network.common", "plugins.dns"), "ast"}
    module = f"{PACKAGE}.plugins.network.routers"
    said = offences([module], past_the_contract, lambda _: dict.fromkeys(found, "routers.py:3"))
    assert said == [
        f"routers.py:3 imports {name} (in or for {module})"
        for name in sorted(ours("core.reasons", "plugins.contract", "plugins.dns"))
    ]
    assert len(services_plugins()) > 13


def test_no_file_is_over_500_lines():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES.values()}
    assert {path: length for path, length in lengths.items() if length > 500} == {}


#: Modules without a test file of their name, or their package, and the test file that tests them.
TESTED_BY = {
    "api.brake": "functional/test_api/test_liens.py",
    "api.services": "functional/test_api/test_waivers.py",
    "api.deletion": "functional/test_api/test_deletions.py",
    "api.expiring": "functional/test_hold_texts.py",
    "api.responses": "functional/test_api/test_openapi.py",
    "api.plan_views": "functional/test_api/test_plans.py",
    "cloud.protocol_options": "unit/protocol/test_discovery.py",
    "cloud.rate_limit_options": "unit/cloud/test_rate_limiter_rules.py",
    "cmd.manage": "functional/test_migrations.py",
    "cmd.plugin_cloud": "functional/test_plugin_check.py",
    "cmd.plugin_live": "functional/test_plugin_check.py",
    "core.action_plan": "unit/core/test_decide.py",
    "notices.driver": "unit/notices/test_webhook.py",
    "dashboard": "unit/dashboard/test_pages.py",
    "errors": "unit/core/test_redact.py",
    "opts": "functional/test_manual.py",
    "osc.expiring": "functional/test_osc/test_waiver.py",
    "osc.request": "functional/test_osc/test_project_delete.py",
    "osc.selection": "functional/test_osc/test_project_purge.py",
    "protocol.calls": "unit/protocol/test_plugin.py",
    "protocol.checks": "unit/protocol/test_wsgi.py",
    "protocol.documents": "unit/protocol/test_wsgi.py",
    "store.expiring": "unit/store/test_plugin_liens.py",
    "store.queries": "functional/test_store/test_guard.py",
}
BRANCHES = (ast.If, ast.For, ast.While, ast.Try, ast.IfExp, ast.comprehension, ast.BoolOp, ast.Match)


def has_logic(module):
    """Return whether a module of 60 lines or more has five branches; others are declarations."""
    functions = [node for node in ast.walk(tree_of(module)) if isinstance(node, ast.FunctionDef)]
    branches = {inner for function in functions for inner in ast.walk(function) if isinstance(inner, BRANCHES)}
    return len(branches) >= 5 and len(SOURCES[module].read_text().splitlines()) >= 60


def files_for(module):
    """Return the paths below ``tests`` at which the test file of a module may be.

    The plugin of a service, a panel and the conformance test may have one file for the whole package.
    """
    room, *names = module.split(".")[1:]
    if not names:
        return [f"{kind}/test_{room}.py" for kind in ("unit", "functional")]
    own = [names[-1], *(names[:-1] if room in ("dashboard", "plugins", "protocol") else ())]
    folders = [f"unit/{room}", "functional", f"functional/test_{room}"]
    return [f"{folder}/test_{name}.py" for folder in folders for name in own]


def named_for(module):
    """Return the test file that the table names for a module or its package, if any."""
    below = module.removeprefix(f"{PACKAGE}.")
    return next((file for name, file in TESTED_BY.items() if f"{below}.".startswith(f"{name}.")), None)


def without_a_test_of_its_name():
    return [
        module
        for module in SOURCES
        if SOURCES[module].name != "__init__.py" and has_logic(module)
        if not any((ROOT / "tests" / file).exists() for file in files_for(module))
    ]


def test_the_test_of_a_module_has_its_name():
    """A reader of a module opens the file of the same name, and not the one that the history led to."""
    assert sorted(module for module in without_a_test_of_its_name() if named_for(module) is None) == []


def test_every_exception_is_needed_and_names_a_test_file():
    exceptions = [module.removeprefix(f"{PACKAGE}.") for module in without_a_test_of_its_name()]
    assert [name for name in TESTED_BY if not any(f"{each}.".startswith(f"{name}.") for each in exceptions)] == []
    assert [file for file in TESTED_BY.values() if not (ROOT / "tests" / file).is_file()] == []


def room(module):
    return module.split(".")[1] if "." in module else ""


def test_no_room_reaches_itself_through_another():
    """``api.wsgi`` asks ``service`` for the application: a web server imports it, and no module does."""
    arrows = {one: set() for one in FLAT | ROOMS}
    for module in set(SOURCES) - {PACKAGE, f"{PACKAGE}.api.wsgi"}:
        arrows[room(module)] |= {room(name) for name in imports(module) if name in SOURCES} - {"", room(module)}
    tuple(graphlib.TopologicalSorter(arrows).static_order())


def test_no_module_reaches_itself_through_another():
    """Also not for types. A package imports its modules, and they may import it. Modules of a sweep have a circle."""
    arrows = {
        module: {name for name in imports(module) if name in SOURCES and not f"{module}.".startswith(f"{name}.")}
        for module in set(SOURCES) - set(inside("worker.sweep"))
    }
    tuple(graphlib.TopologicalSorter(arrows).static_order())


def test_the_api_never_calls_plugins():
    """Nor reaches what does. ``api.wsgi`` starts a process and asks ``service`` for it: there it ends."""
    wsgi, forbidden = f"{PACKAGE}.api.wsgi", among(*ours("plugins", "worker", "engine", "messaging"))
    forbid([wsgi], forbidden)
    forbid(set(inside("api")) - {wsgi}, forbidden, reach_with_types)


def test_only_the_store_has_a_session():
    others = set(SOURCES) - {*ours("cmd.manage", "cmd.schema"), *inside("store")}
    forbid(others, among("sqlalchemy"))


def test_only_the_management_command_writes_the_schema():
    forbid(set(SOURCES) - {*ours("cmd.manage")}, among("alembic", *ours("cmd.manage")))


def test_the_store_reaches_nothing_but_the_core():
    """Others learn of a commit from its listeners."""
    forbid(inside("store"), among(*ours(*(ROOMS - {"store", "core"}))), reach_with_types)


def test_messaging_reaches_the_core_and_the_metrics():
    forbidden = ours(*(ROOMS - {"messaging", "core", "monitoring"}), "monitoring.server")
    forbid(inside("messaging"), among(*forbidden), reach_with_types)


def test_what_runs_inside_keystone_needs_nothing_that_keystone_does_not_bring():
    """``pip install cleanup-orchestrator`` into Keystone's environment is all that an operator does."""
    brought = {"flask", "keystone", "keystoneauth1", "oslo_config", "oslo_log", "requests", "webob", "werkzeug"}
    forbid(inside("keystone"), of_others("keystone"), reach)
    forbid(inside("keystone"), outside(*brought), reach)


def test_the_panels_run_in_horizon_without_server_code():
    """Horizon's environment has neither the bus nor the database of the orchestrator."""
    forbidden = [*ours(*(ROOMS - {"dashboard", "sdk"})), "sqlalchemy", "oslo_messaging", "pecan"]
    forbid(inside("dashboard"), among(*forbidden), reach)


def test_the_client_brings_no_server():
    """What is installed beside ``openstack`` on a laptop is the REST client and nothing behind it."""
    forbid(inside("osc"), among(*ours(*(ROOMS - {"osc", "sdk", "shapes", "core"}))), reach)


def test_the_shapes_need_nothing_but_the_core():
    """The client has them, too."""
    forbid(inside("shapes"), among(*ours(*(ROOMS - {"shapes", "core"}))), reach)
    forbid(inside("shapes"), outside(), reach)


def test_the_sdk_needs_nothing_but_openstacksdk():
    """A program on a user's machine imports it."""
    forbid(inside("sdk"), of_others("sdk"), reach)
    forbid(inside("sdk"), outside("keystoneauth1", "openstack", "requests"), reach)


#: What a service imports that speaks the protocol, and the documents for its tests.
SERVICE_SIDE = ours(
    "protocol", *(f"protocol.{name}" for name in ("checks", "documents", "provider", "schemas", "wsgi"))
)


def test_the_side_of_a_service_needs_nothing_but_python():
    past = of_others("protocol", "core.enums")
    forbid(SERVICE_SIDE, lambda module, name: past(module, name) and name not in ours("core"), reach)
    forbid(SERVICE_SIDE, outside(), reach)


def test_only_commands_import_commands():
    forbid(set(SOURCES) - set(inside("cmd")), among(*ours("cmd")))


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
    """Of the files that git tracks: a developer may keep a venv or notes in the checkout."""
    fixed = {"cleanup_orchestrator", "etc", "alembic", "tests", "doc", ".ci", "setup.cfg", "pyproject.toml", "tox.ini"}
    fixed |= {"README.rst", "LICENSE", ".gitignore"}
    assert {path.partition("/")[0] for path in tracked()} == fixed
