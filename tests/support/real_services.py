"""What each commit runs of the tests that need real servers, and what takes turns."""

from __future__ import annotations

FOLDER = "tests/cloud/"
#: The main job, everything that a project can own, the two ways into Keystone, and the undo of a drain.
ALWAYS = frozenset(f"{FOLDER}test_{name}.py" for name in ("main_job", "everything", "fence", "pipeline", "undo"))
#: The test file of a service: the modules of its plugin, and the file in tests/cloud/services and in fillings.
_SERVICES = {
    "block_storage": ("block_storage", "cinder"),
    "compute": ("compute", "nova"),
    "container_infra": ("container_infrastructure_management", "magnum"),
    "dns": ("dns", "designate"),
    "identity": ("identity", "keystone"),
    "image": ("image", "glance"),
    "key_manager": ("key_manager", "barbican"),
    "load_balancer": ("load_balancer", "octavia"),
    "network": ("network", "neutron"),
    "object_store": ("object_store", "swift"),
    "orchestration": ("orchestration", "heat"),
    "shared_file_system": ("shared_file_system", "manila"),
}
#: What every plugin rests on: a change runs all files of services.
_BASE = ("cleanup_orchestrator/plugins/base.py", "cleanup_orchestrator/sweep.py")
#: For each file of a service, the sources whose change makes a commit run it.
SOURCES = {
    f"{FOLDER}test_{name}.py": (
        f"cleanup_orchestrator/plugins/{plugin}.py",
        f"cleanup_orchestrator/plugins/{plugin}/",
        f"{FOLDER}fillings/{name}.py",
        f"{FOLDER}services/{service}.py",
        *_BASE,
    )
    for name, (plugin, service) in _SERVICES.items()
}

#: Of the two servers each commit has one, in turn...
DATABASES = ("postgresql", "mariadb")
#: ... but for these files, whose subject is what the servers do differently.
BOTH_DATABASES = frozenset(
    f"tests/functional/test_{name}.py" for name in ("store", "fencing", "migrations", "liens_store", "chaos")
)
