"""The tests with real servers that each commit runs, and those that commits run in rotation."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support import commit

FOLDER = "tests/cloud/"


def _cloud(*names: str) -> frozenset[str]:
    return frozenset(f"{FOLDER}test_{name}.py" for name in names)


def _functional(*names: str) -> frozenset[str]:
    return frozenset(f"tests/functional/test_{name}.py" for name in names)


#: The main job with the newest release and with an older one, and the defects that the simulation has to notice:
#: without them it may go blind unseen.
ALWAYS = _cloud("main_job", "older_release") | {"tests/simulation/test_breakages.py"}
#: Everything that a project can own, and the fence in Keystone: each commit runs one of the two.
ALTERNATE = (_cloud("everything"), _cloud("fence"))
#: The other files with real services or many real processes. Each commit runs one of `TURNS` sets of them.
ROTATED = frozenset(
    str(path.relative_to(commit.ROOT)) for path in (commit.ROOT / FOLDER).glob("test_*.py")
) - ALWAYS.union(*ALTERNATE) | _functional(
    *("accepted", "chaos", "emulated", "fencing", "flood", "force", "hold_texts", "holds", "hostile_service"),
    *("independent_parts", "operations", "orphans", "plugin_liens", "protocol", "recovery", "regions", "servers"),
    *("slow_clients", "stop", "unreadable_names", "upgrade", "zombie", "osc/test_wait"),
)
#: The number of sets, which take about the same time: any 48 commits in a row have run all of them.
TURNS = 48
#: All files that `--per-commit` selects from.
IN_TURN = ALWAYS.union(*ALTERNATE) | ROTATED


def turns(seconds: Mapping[str, float]) -> tuple[frozenset[str], ...]:
    """Returns the sets of files of which each commit runs the next one.

    :param seconds: how long each file takes
    """
    sets = commit.divide(ROTATED, seconds, TURNS)
    return tuple(files | ALTERNATE[number % len(ALTERNATE)] for number, files in enumerate(sets))


#: The test file of a service: the modules of its plugin, and the file in tests/cloud/services and in fillings.
_SERVICES = {
    "accelerator": ("accelerator", "cyborg"),
    "alarm": ("alarm", "aodh"),
    "application_container": ("application_container", "zun"),
    "backup": ("backup", "freezer"),
    "baremetal": ("baremetal", "ironic"),
    "block_storage": ("block_storage", "cinder"),
    "compute": ("compute", "nova"),
    "container_infra": ("container_infrastructure_management", "magnum"),
    "database": ("database", "trove"),
    "dns": ("dns", "designate"),
    "identity": ("identity", "keystone"),
    "image": ("image", "glance"),
    "key_manager": ("key_manager", "barbican"),
    "load_balancer": ("load_balancer", "octavia"),
    "message": ("message", "zaqar"),
    "metric": ("metric", "gnocchi"),
    "network": ("network", "neutron"),
    "network_addons": ("network", "neutron"),
    "nfv_orchestration": ("nfv_orchestration", "tacker"),
    "object_store": ("object_store", "swift"),
    "orchestration": ("orchestration", "heat"),
    "rating": ("rating", "cloudkitty"),
    "reservation": ("reservation", "blazar"),
    "shared_file_system": ("shared_file_system", "manila"),
    "workflow": ("workflow", "mistral"),
}
#: What the chosen files may take together, in seconds of one process. Four processes on two processors need about a
#: third of it. `.ci/run` has to end within 15 minutes.
BUDGET = 800.0
#: The services outside of the whole cloud. A change of what all plugins use does not run their files: the files of the
#: thirteen services of the whole cloud test it with more types, and these follow in the rotation.
_FURTHER = frozenset(
    {
        *("accelerator", "alarm", "application_container", "backup", "baremetal", "database", "message", "metric"),
        *("network_addons", "nfv_orchestration", "rating", "reservation", "workflow"),
    }
)
#: The sources that every plugin uses: a change runs the files of all services of the whole cloud.
_BASE = (
    *(
        f"cleanup_orchestrator/plugins/{name}.py"
        for name in ("base", "calls", "contract", "parts", "values", "verdicts")
    ),
    "cleanup_orchestrator/worker/sweep/",
)
#: For each file of a service, the sources whose change makes a commit run it.
SOURCES: dict[str, tuple[str, ...]] = {
    f"{FOLDER}test_{name}.py": (
        f"cleanup_orchestrator/plugins/{plugin}.py",
        f"cleanup_orchestrator/plugins/{plugin}/",
        f"{FOLDER}fillings/{name}.py",
        f"{FOLDER}services/{service}.py",
        *(() if name in _FURTHER else _BASE),
    )
    for name, (plugin, service) in _SERVICES.items()
}
SOURCES[f"{FOLDER}test_everything.py"] = _BASE
SOURCES[f"{FOLDER}test_fence.py"] = ("cleanup_orchestrator/drain/", "cleanup_orchestrator/keystone/")
#: What templates could do with an admin's token depends on the plugins of Heat and Magnum, and on the janitor.
SOURCES[f"{FOLDER}test_templates.py"] = (
    "cleanup_orchestrator/drain/janitor.py",
    *SOURCES[f"{FOLDER}test_orchestration.py"],
)
#: What other projects use, and who is asked.
SOURCES[f"{FOLDER}test_used_by_others.py"] = (
    "cleanup_orchestrator/plugins/block_storage/volumes.py",
    "cleanup_orchestrator/plugins/compute/",
    "cleanup_orchestrator/plugins/image/",
    "cleanup_orchestrator/plugins/key_manager/",
    "cleanup_orchestrator/plugins/orchestration/",
    "cleanup_orchestrator/plugins/port_uses.py",
    "cleanup_orchestrator/plugins/shared_file_system/",
    "cleanup_orchestrator/worker/sweep/uses.py",
)
#: What tokens of the project show, and what Keystone lists by project.
SOURCES[f"{FOLDER}test_catalog_and_domain.py"] = (
    "cleanup_orchestrator/cloud/endpoints.py",
    "cleanup_orchestrator/keystone/delegations.py",
    "cleanup_orchestrator/plugins/identity.py",
    "cleanup_orchestrator/plugins/network/replicated.py",
)
#: Parts of resources, with the services that make them.
SOURCES[f"{FOLDER}test_purge_by_age.py"] = (
    "cleanup_orchestrator/plugins/dns/",
    "cleanup_orchestrator/plugins/network/",
    "cleanup_orchestrator/worker/sweep/exclusions.py",
)
#: Which users there are, what they may do, and when they end.
SOURCES[f"{FOLDER}test_janitor.py"] = (
    "cleanup_orchestrator/cloud/janitors.py",
    "cleanup_orchestrator/drain/janitor.py",
    "cleanup_orchestrator/keystone/fence.py",
    "cleanup_orchestrator/keystone/guard.py",
)
#: The orchestrator's users and endpoints in Keystone, and what an operator is told of a cloud.
SOURCES[f"{FOLDER}test_bootstrap.py"] = (
    "cleanup_orchestrator/cloud/bootstrap.py",
    "cleanup_orchestrator/cloud/keystone_rows.py",
    "cleanup_orchestrator/cloud/removal.py",
    *(f"cleanup_orchestrator/cmd/cloud_{name}.py" for name in ("check", "check_keystone", "check_services", "setup")),
)
#: What Keystone's policy is told, and by which rules it asks.
SOURCES[f"{FOLDER}test_gate.py"] = (
    "cleanup_orchestrator/api/gate.py",
    "cleanup_orchestrator/core/emptiness.py",
    "etc/keystone-gate-orchestrator-only.yaml",
    "etc/keystone-gate-proven-empty.yaml",
)
#: The panels call the API with the proxy of the SDK.
SOURCES[f"{FOLDER}test_dashboard.py"] = (
    "cleanup_orchestrator/dashboard/",
    "cleanup_orchestrator/sdk/",
    f"{FOLDER}browser.py",
    f"{FOLDER}horizon.py",
)
SOURCES["tests/functional/test_osc/test_wait.py"] = ("cleanup_orchestrator/osc/",)
#: The example service imports the service's side of the protocol, and the command checks it.
SOURCES[f"{FOLDER}test_protocol_service.py"] = (
    "cleanup_orchestrator/protocol/",
    "cleanup_orchestrator/cmd/protocol_check.py",
    "doc/examples/service/",
)

#: Each commit uses one of the two servers, in rotation, and each set of files uses the other one the next time,
DATABASES = ("postgresql", "mariadb")
#: except these files, which test differences between the servers.
BOTH_DATABASES = _functional(
    *("fencing", "migrations", "chaos"),
    *(f"store/test_{name}" for name in ("brake", "changes", "database", "deletions", "leftovers", "liens")),
    *(f"store/test_{name}" for name in ("plugin_liens", "steps", "waivers")),
)
