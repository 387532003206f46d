"""The main job, end to end, against real services: `tox -e demo`, or `tox -e demo -- --keep` to leave it running.

It installs this checkout and, into a venv of their own, Keystone, Glance, Neutron, Swift and Barbican; starts them
all on loopback; fills a project; reports on it; deletes it with everything in it; and proves that nothing is left.
Exit code 0 only if all of that holds.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.cloud.errors import CloudError  # noqa: E402
from tests.cloud.launcher import Cloud  # noqa: E402
from tests.cloud.processes import RUNNER, Children, last_line, port_is_free  # noqa: E402

WORK = ROOT / ".tox"
PROJECT, NEIGHBOUR = "demo", "neighbour"
USER = "cleanup-orchestrator"
CACHE_TIME = 5  #: seconds that the services cache a token's validation: short, so that settling can be watched
BEGAN = time.monotonic()

CONFIGURATION = """\
[DEFAULT]
log_file = {log}

[database]
connection = sqlite:///{directory}/cleanup-orchestrator.sqlite

[orchestrator]
auth_type = password
auth_url = {auth_url}
username = {user}
password = {password}
project_name = service
user_domain_id = default
project_domain_id = default
interface = public

[keystone_authtoken]
auth_section = orchestrator
www_authenticate_uri = {auth_url}
service_token_roles_required = true

[api]
host = 127.0.0.1
port = {port}

[drain]
# The longest token_cache_time of this cloud's services.
token_cache_time = {cache_time}

[engine]
tick = 1

# Protected by default, because other projects may be using them; this operator wants them deleted.
[service_image]
delete_community_images = true
delete_shared_images = true
"""


class DemoError(Exception):
    """Something did not hold: one line for a person."""


def say(text: str) -> None:
    """Print a line with the time since the start."""
    print(f"[{time.monotonic() - BEGAN:5.1f} s] {text}", flush=True)


def headline(text: str) -> None:
    """Print what comes next."""
    print(f"\n=== {text}", flush=True)


# --------------------------------------------------------------------------------------------------------- installing
def fingerprint() -> str:
    """Of everything that an installation of this checkout depends on."""
    files = [ROOT / "setup.cfg", ROOT / "pyproject.toml"]
    files += sorted(p for folder in ("cleanup_orchestrator", "alembic", "etc") for p in (ROOT / folder).rglob("*"))
    digest = hashlib.sha256(sys.prefix.encode())
    for path in files:
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def install_product(children: Children) -> None:
    """`pip install .[osc]` into the environment that runs this, unless that has been done."""
    if sys.prefix == sys.base_prefix:
        raise CloudError("this has to run in a virtual environment: call it as 'tox -e demo'")
    stamp = pathlib.Path(sys.prefix) / "cleanup-orchestrator.installed"
    wanted = fingerprint()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say("installing this checkout with pip")
    pip = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "install", "--quiet"]
    children.log_directory.mkdir(parents=True, exist_ok=True)
    log = children.log_directory / "install-product.log"
    log.write_bytes(b"")
    try:
        children.run("pip", [*pip, "--retries", "2", "--timeout", "30", f"{ROOT}[osc]"], guarded=True, log=log)
    except CloudError as error:
        if "connection broken by" in log.read_text(errors="replace"):
            raise CloudError(f"{error} (the package index could not be reached)") from None
        raise
    stamp.write_text(wanted)
    importlib.invalidate_caches()


def install(cloud: Cloud, logs: pathlib.Path) -> None:
    """Install the services and this checkout side by side."""
    errors: list[BaseException] = []

    def services() -> None:
        try:
            cloud.install(logs / "install-services.log")
        except BaseException as error:  # raised again by the main thread
            errors.append(error)

    thread = threading.Thread(target=services, daemon=True)
    thread.start()
    product = Children(logs)
    try:
        install_product(product)
        while thread.is_alive():
            thread.join(0.2)
    finally:
        product.stop()
    if errors:
        raise errors[0]


# ------------------------------------------------------------------------------------------------------------- running
class Demo:
    """A cloud with the orchestrator in it, and the commands that a person would type."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.port = cloud.ports["orchestrator"]
        self.url = f"http://127.0.0.1:{self.port}"
        self.home = cloud.directory / "orchestrator"
        self.log = cloud.log("orchestrator")
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("OS_")},
            "OS_CLIENT_CONFIG_FILE": str(cloud.clouds_yaml),
            "OS_CLOUD": "admin",
            "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PYTHONWARNINGS": "ignore",
        }

    # -- processes
    def start_orchestrator(self) -> None:
        """Configure it, make its database, start its one process, put it into the catalog."""
        password = self.cloud.site.password
        self.cloud.register("project-cleanup", "cleanup-orchestrator", self.url, USER, password)
        self.home.mkdir(exist_ok=True)
        configuration = self.home / "cleanup-orchestrator.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            CONFIGURATION.format(
                log=self.log,
                directory=self.home,
                auth_url=self.cloud.auth_url,
                user=USER,
                password=password,
                port=self.port,
                cache_time=CACHE_TIME,
            )
        )
        binaries = pathlib.Path(sys.executable).parent
        options = ["--config-file", str(configuration)]
        manage = [str(binaries / "cleanup-orchestrator-manage"), *options, "db", "upgrade"]
        self.cloud.children.run("orchestrator-setup", manage, python=sys.executable)
        child = self.cloud.children.start(
            "orchestrator-out",
            ["exec", "--", str(binaries / "cleanup-orchestrator-all-in-one"), *options],
            python=sys.executable,
        )
        deadline = time.monotonic() + 60
        while not self._answers():
            if how := child.ended():
                raise CloudError(f"the orchestrator did not start ({how}): {last_line(child.log)}; see {self.log}")
            if time.monotonic() > deadline:
                raise CloudError(f"the orchestrator did not answer within 60 s; see {self.log}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/", timeout=5) as response:
                return response.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def openstack(self, *arguments: str, expect: Callable[[int], bool] = lambda code: code == 0) -> None:
        """Run a command in front of the reader's eyes.

        :raises DemoError: when its exit code is not what it should be
        """
        self.cloud.check()
        print(f"\n$ openstack {' '.join(arguments)}", flush=True)
        code = subprocess.run(self._command(arguments), env=self.environment, stdin=subprocess.DEVNULL).returncode
        print(f"(exit code {code})", flush=True)
        if not expect(code):
            raise DemoError(f"'openstack {' '.join(arguments)}' ended with exit code {code}; see {self.log}")

    def ask(self, *arguments: str) -> Any:
        """Run a command and return its JSON."""
        command = [*self._command(arguments), "-f", "json"]
        result = subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if result.returncode:
            raise DemoError(f"'openstack {' '.join(arguments)}' failed: {result.stderr.strip()}")
        return json.loads(result.stdout)

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        # By way of the runner, so that it dies with this process whatever ends it.
        binary = str(pathlib.Path(sys.executable).parent / "openstack")
        return [sys.executable, str(RUNNER), "--parent", str(os.getpid()), "exec", "--", binary, *arguments]


def play(demo: Demo) -> None:
    """The main job."""
    from tests.cloud import filler

    cloud = demo.cloud
    admin = filler.connect(cloud.auth_url, "admin", cloud.site.password, "admin")

    headline(f"Two projects: '{PROJECT}' is to go with all that it has, '{NEIGHBOUR}' must not notice")
    neighbour = filler.fill(admin, NEIGHBOUR, objects=5, progress=say)
    neighbour_before = count(cloud, neighbour.project_id)
    filled = filler.fill(admin, PROJECT, partner=neighbour.project_id, progress=say)
    kinds = {kind: len(ids) for kind, ids in sorted(filled.ids.items())}
    print(", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    project_before = count(cloud, filled.project_id)
    say(f"{sum(project_before.values())} rows of the services' databases are the project's")

    headline("Who answers for what the catalog has")
    demo.openstack("project", "deletion", "service", "list")

    headline("A report: what would be left behind? Nothing is locked, nothing is deleted")
    demo.openstack("project", "delete", "--async", "--wait", PROJECT, expect=lambda code: code not in (0, 130))
    report = demo.ask("project", "deletion", "list", "--project", filled.project_id)[0]
    if report["Status"] != "leftovers":
        raise DemoError(f"the report ended in {report['Status']}, not in leftovers")
    names = [
        network.name
        for network in filler.connect_as(admin, filled.user_name, filled.password, PROJECT).network.networks()
    ]
    say(f"the project is as usable as before: a new token of {filled.user_name} lists {len(names)} networks")
    if (now := count(cloud, filled.project_id)) != project_before:
        raise DemoError(f"the report changed something: {difference(project_before, now)}")

    headline("Delete it, with everything in it")
    began = time.monotonic()
    demo.openstack("project", "delete", "--async", "--cascade", "--wait", PROJECT)
    took = time.monotonic() - began

    headline("The report outlives the project")
    deletions = demo.ask("project", "deletion", "list", "--project", filled.project_id)
    record = next(d for d in deletions if d["Status"] == "deleted")
    identity = record["ID"]
    demo.openstack("project", "deletion", "show", identity)
    demo.openstack("project", "deletion", "leftovers", identity)
    journal = demo.ask("project", "deletion", "events", identity)
    print(f"\n$ openstack project deletion events {identity}    (its turns, out of {len(journal)} lines)")
    for line in journal:
        if line["Type"].split(".")[0] in ("deletion", "drain", "round", "inventory", "project", "condition"):
            print(f"  {line['At']}  {line['Type']:20} {line['Message'][:110]}")

    headline("The proof, out of the services' own databases and lists")
    lines = filler.proof(cloud, filled.project_id)
    for service, where, what, number in lines:
        print(f"  {service:9} {what:45} {number:4}   {where}")
    if left := [f"{number} {what} ({service})" for service, _, what, number in lines if number]:
        raise DemoError(f"something is left: {', '.join(left)}")
    if (now := count(cloud, neighbour.project_id)) != neighbour_before:
        raise DemoError(f"'{NEIGHBOUR}' was touched: {difference(neighbour_before, now)}")
    detail = demo.ask("project", "deletion", "show", identity)
    progress = next((v for k, v in detail.items() if k.lower() == "progress"), {})
    say(
        f"'{PROJECT}' is gone, {sum(project_before.values())} rows with it, none is left; the "
        f"{sum(neighbour_before.values())} rows of '{NEIGHBOUR}' are untouched"
    )
    say(f"the cascade took {took:.0f} s and {progress.get('calls', '?')} API calls")


def count(cloud: Cloud, project_id: str) -> dict[str, int]:
    """Every line of the proof with its number."""
    from tests.cloud import filler

    return {f"{service}: {what} ({where})": number for service, where, what, number in filler.proof(cloud, project_id)}


def difference(before: dict[str, int], after: dict[str, int]) -> str:
    """What changed, for a person."""
    return ", ".join(f"{key} {before[key]} → {after.get(key)}" for key in before if before[key] != after.get(key))


def main() -> int:
    """Parse, install, start, play, stop."""
    parser = argparse.ArgumentParser(
        prog="tox -e demo --",
        description=__doc__,
        epilog="example: CLEANUP_DEMO_PORT_BASE=25000 tox -e demo -- --keep",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--keep", action="store_true", help="stay up when it is over, until Ctrl-C")
    parser.add_argument(
        "--port-base",
        type=int,
        default=int(os.environ.get("CLEANUP_DEMO_PORT_BASE") or 15000),
        help="first of thirty ports on 127.0.0.1 (default: $CLEANUP_DEMO_PORT_BASE or 15000)",
    )
    options = parser.parse_args()
    # SIGTERM and a closed terminal end it as Ctrl-C does: by way of `finally`.
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.default_int_handler)
    cloud = Cloud(
        os.environ.get("CLEANUP_DEMO_DIR") or WORK / "demo-cloud",
        os.environ.get("CLEANUP_CLOUD_VENV") or WORK / "cloud",
        port_base=options.port_base,
        token_cache_time=CACHE_TIME,
        progress=say,
        port_hint="choose others with CLEANUP_DEMO_PORT_BASE",
    )
    code = 1
    try:
        demo = Demo(cloud)
        install(cloud, WORK / "demo-log")
        if not port_is_free(demo.port):
            raise CloudError(
                f"port {demo.port} (orchestrator) is already in use; stop what listens there or choose others with "
                "CLEANUP_DEMO_PORT_BASE"
            )
        headline("Starting Keystone, Glance, Neutron, Swift, Barbican and the orchestrator on 127.0.0.1")
        cloud.wipe()
        cloud.up()
        demo.start_orchestrator()
        say(f"the orchestrator is up: {demo.url}")
        try:
            play(demo)
            code = 0
            print("\nPASSED: everything above holds.", flush=True)
        except DemoError as error:
            print(f"\nFAILED: {error}", file=sys.stderr, flush=True)
        if options.keep:
            print(
                f"\nIt is left running. In another terminal:\n\n"
                f"  export PATH={pathlib.Path(sys.executable).parent}:$PATH\n"
                f"  export OS_CLIENT_CONFIG_FILE={cloud.clouds_yaml} OS_CLOUD=admin\n"
                f"  openstack project deletion list\n"
                f"  openstack project delete --async --dry-run --wait {NEIGHBOUR}\n"
                f"  openstack project delete --async --cascade --wait {NEIGHBOUR}\n\n"
                f"REST: {demo.url}/v1/  logs: {demo.log.parent}/\nCtrl-C stops it all.",
                flush=True,
            )
            while True:
                cloud.check()
                time.sleep(1)
        return code
    except CloudError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted: stopping everything", file=sys.stderr, flush=True)
        return code if options.keep else 130
    finally:
        cloud.down()


if __name__ == "__main__":
    sys.exit(main())
