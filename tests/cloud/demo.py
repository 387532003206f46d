"""The main job, end to end, against real services: `tox -e demo`, or `tox -e demo -- --keep` to leave it running.

`tox -e demo -- --dashboard` leaves it running, too, with a Horizon and a filled project. `tox -e demo -- --record FILE`
writes the session of the manual (doc/source/recordings/demo.cast).

It installs this checkout and, into another venv, Keystone, Glance, Neutron, Swift and Barbican. It starts them all on
loopback, Keystone with the filter and the fence. It fills a project, reports on it, deletes it with all its resources,
and proves that nothing is left. The exit code is 0 only if all steps succeed.
"""

# ruff: noqa: E402
from __future__ import annotations

import os
import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

if __name__ == "__main__":
    # Handles a Ctrl-C during the imports, when there is nothing to stop yet.
    for _signum in SIGNALS:
        if signal.getsignal(_signum) != signal.SIG_IGN or _signum != signal.SIGHUP:
            signal.signal(_signum, lambda signum, frame: os._exit(130))

import argparse
import contextlib
import hashlib
import importlib
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.cloud import installing, recording
from tests.cloud.errors import CloudError
from tests.cloud.launcher import Cloud
from tests.cloud.processes import RUNNER, Children, last_line, port_is_free

WORK = ROOT / ".tox"
#: The folder in which only this checkout is installed, for Keystone. The tests share the venv of Keystone, and some of
#: them need a Keystone without the filter and the fence.
KEYSTONE_PART = WORK / "keystone-part"
PROJECT, NEIGHBOUR = "demo", "neighbour"
USER = "cleanup-orchestrator"
HORIZON_PORT = 31  #: of Horizon, above the first port
CACHE_TIME = 5  #: seconds that the services cache a token's validation: short, so that settling can be watched
WIDTH = 80  #: of what is printed: that of a usual terminal
BEGAN = time.monotonic()
STOPPING = threading.Event()  #: set after a Ctrl-C: threads that still run print nothing more

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

[janitor]
secret = {password} of the janitors of this demo

[keystone_authtoken]
auth_section = orchestrator
www_authenticate_uri = {auth_url}
service_token_roles_required = true

[api]
host = 127.0.0.1
port = {port}

[drain]
driver = fence
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
    """A step of the demo failed; the message is one line."""


def show(text: str) -> None:
    """Print something."""
    if not STOPPING.is_set():
        print(text, flush=True)


def say(text: str) -> None:
    """Print a text with the time since the start."""
    show(textwrap.fill(f"[{time.monotonic() - BEGAN:5.1f} s] {text}", WIDTH, subsequent_indent=" " * 10))


def headline(text: str) -> None:
    """Print what comes next."""
    show("\n" + textwrap.fill(f"=== {text}", WIDTH, subsequent_indent="    "))


def place(where: str) -> str:
    """Return where rows are counted, in the width that the table of the proof has for it."""
    if where.startswith("GET "):
        return "GET as auditor"
    return where.partition(":")[0] if ":" in where else "on disk"


def interrupt(signum: int, frame: object) -> None:
    """End through `finally`; tox sends a second signal after that of the terminal, which must not interrupt this."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


# --------------------------------------------------------------------------------------------------------- installing
def fingerprint() -> str:
    """Return a hash of all files that an installation of this checkout depends on."""
    files = [ROOT / "setup.cfg", ROOT / "pyproject.toml"]
    files += sorted(p for folder in ("cleanup_orchestrator", "alembic", "etc") for p in (ROOT / folder).rglob("*"))
    digest = hashlib.sha256(sys.prefix.encode())
    for path in files:
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def install_product(children: Children) -> None:
    """`pip install .[server,osc]` into the environment that runs this, unless that has been done."""
    if sys.prefix == sys.base_prefix:
        raise CloudError("this has to run in a virtual environment: call it as 'tox -e demo'")
    stamp = pathlib.Path(sys.prefix) / "cleanup-orchestrator.installed"
    wanted = fingerprint()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say("installing this checkout")
    arguments = [f"{ROOT}[server,osc]"]
    # After an interrupted installation the packages look installed, but are incomplete.
    unfinished = stamp.with_suffix(".installing")
    if unfinished.exists():
        arguments.append("--force-reinstall")
    unfinished.touch()
    stamp.unlink(missing_ok=True)
    children.log_directory.mkdir(parents=True, exist_ok=True)
    log = children.log_directory / "install-product.log"
    log.write_bytes(b"")
    installing.install(children, sys.executable, arguments, log, say)
    stamp.write_text(wanted)
    unfinished.unlink()
    importlib.invalidate_caches()


def install_keystone_part(children: Children) -> None:
    """`pip install .`, as into Keystone's own environment, unless that has been done."""
    stamp = KEYSTONE_PART / "cleanup-orchestrator.installed"
    wanted = fingerprint()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(KEYSTONE_PART, ignore_errors=True)
    log = children.log_directory / "install-product.log"
    arguments = ["--target", str(KEYSTONE_PART), str(ROOT)]
    installing.install(children, sys.executable, arguments, log, say)
    stamp.write_text(wanted)


def install(cloud: Cloud, logs: pathlib.Path) -> None:
    """Install the services and this checkout side by side."""
    errors: list[BaseException] = []
    product = Children(logs)

    def services() -> None:
        try:
            cloud.install(logs / "install-services.log")
        except BaseException as error:  # raised again by the main thread
            errors.append(error)
            product.stop()  # no need to wait for it any more

    thread = threading.Thread(target=services, daemon=True)
    thread.start()
    try:
        try:
            install_product(product)
            install_keystone_part(product)
        except CloudError:
            if errors:
                raise errors[0] from None
            raise
        while thread.is_alive():
            thread.join(0.2)
    finally:
        product.stop()
    if errors:
        raise errors[0]


# ------------------------------------------------------------------------------------------------------------- running
class Demo:
    """A cloud with the orchestrator in it, and the commands of a user."""

    def __init__(self, cloud: Cloud, configuration: str = CONFIGURATION) -> None:
        self.cloud = cloud
        self.configuration = configuration
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
        self._command: subprocess.Popen | None = None
        self.recording: recording.Recording | None = None  #: of the commands that wait for a deletion

    # -- processes
    def start_orchestrator(self) -> None:
        """Configure it, make its database, start its one process, put it into the catalog.

        If another test has left one running in this cloud, stop it: it has another configuration.
        """
        self.cloud.children.end("orchestrator-out")
        password = self.cloud.site.password
        self.cloud.register("project-cleanup", "cleanup-orchestrator", self.url, USER, password)
        self.home.mkdir(exist_ok=True)
        configuration = self.home / "cleanup-orchestrator.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            self.configuration.format(
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
        deadline = time.monotonic() + 300
        while not self._answers():
            if how := child.ended():
                raise CloudError(f"the orchestrator did not start ({how}): {last_line(child.log)}; see {self.log}")
            if time.monotonic() > deadline:
                raise CloudError(f"the orchestrator did not answer within 300 s; see {self.log}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/", timeout=5) as response:
                return response.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def openstack(self, *arguments: str, expect: Callable[[int], bool] = lambda code: code == 0) -> None:
        """Print a command, run it, and print its output.

        :raises DemoError: when its exit code is not what it should be
        """
        show(f"\n$ openstack {' '.join(arguments)}")
        if self.recording and "--wait" in arguments:
            binary = str(pathlib.Path(sys.executable).parent / "openstack")
            shown = f"openstack {' '.join(arguments)}"
            code = self.recording.run(shown, [binary, *arguments], self.environment)
        else:
            # Both outputs into one, or tox would mix them up.
            code, _, _ = self._run(arguments, stderr=subprocess.STDOUT)
        show(f"(exit code {code})")
        if not expect(code):
            raise DemoError(f"'openstack {' '.join(arguments)}' ended with exit code {code}; see {self.log}")

    def ask(self, *arguments: str) -> Any:
        """Run a command and return its JSON."""
        code, out, err = self._run((*arguments, "-f", "json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if code:
            raise DemoError(f"'openstack {' '.join(arguments)}' failed: {err.strip()}")
        return json.loads(out)

    def _run(self, arguments: tuple[str, ...], **streams: int) -> tuple[int, str, str]:
        # Through the runner, so that it always ends with this process, and in a new session, so that only this process
        # handles a Ctrl-C.
        binary = str(pathlib.Path(sys.executable).parent / "openstack")
        command = [sys.executable, str(RUNNER), "--parent", str(os.getpid()), "exec", "--", binary, *arguments]
        if STOPPING.is_set():
            raise DemoError("it is being stopped")
        self._command = subprocess.Popen(
            command, env=self.environment, stdin=subprocess.DEVNULL, text=True, start_new_session=True, **streams
        )
        out, err = self._command.communicate()
        return self._command.returncode, out, err

    def stop(self) -> None:
        """Stop the command that runs, if any; the cloud stops all the rest."""
        if self._command and self._command.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._command.kill()
            self._command.wait()


def play(demo: Demo) -> None:
    """The main job."""
    from tests.cloud import filler

    cloud = demo.cloud
    admin = filler.connect(cloud.auth_url, "admin", cloud.site.password, "admin")

    headline(f"Two projects: '{PROJECT}' is to go with all that it has, '{NEIGHBOUR}' must not notice")
    say(f"filling '{NEIGHBOUR}'")
    neighbour = filler.fill(admin, NEIGHBOUR, objects=5)
    neighbour_before = count(cloud, neighbour.project_id)
    say(f"filling '{PROJECT}'")
    filled = filler.fill(admin, PROJECT, partner=neighbour.project_id)
    project_before = count(cloud, filled.project_id)
    say(f"'{PROJECT}' has {sum(project_before.values())} rows in the services' databases. What was made for it:")
    made = ", ".join(f"{kind} {len(ids)}".replace(" ", "\xa0") for kind, ids in sorted(filled.ids.items()))
    show(textwrap.fill(made, WIDTH, initial_indent="  ", subsequent_indent="  ").replace("\xa0", " "))

    headline("Who answers for each service of the catalog")
    demo.openstack("project", "deletion", "service", "list")

    headline("A report: what would be left behind? It locks nothing and deletes nothing")
    demo.openstack("project", "delete", "--async", "--wait", PROJECT, expect=lambda code: code not in (0, 130))
    report = demo.ask("project", "deletion", "list", "--project", filled.project_id)[0]
    if report["Status"] != "leftovers":
        raise DemoError(f"the report ended in {report['Status']}, not in leftovers")
    show("  (not 0, because '--wait' waits for 'deleted', and the report ended in\n  'leftovers': as it should here)")
    user = filler.connect_as(admin, filled.user_name, filled.password, PROJECT)
    networks = sum(1 for _ in user.network.networks(project_id=filled.project_id))
    say(f"the project is as usable as before: {filled.user_name} gets a new token and lists its {networks} networks")
    if (now := count(cloud, filled.project_id)) != project_before:
        raise DemoError(f"the report changed something: {difference(project_before, now)}")

    headline("Delete it, with everything in it")
    began = time.monotonic()
    demo.openstack("project", "delete", "--async", "--cascade", "--wait", PROJECT)
    took = time.monotonic() - began

    headline("The report, which outlives the project")
    deletions = demo.ask("project", "deletion", "list", "--project", filled.project_id)
    record = next(d for d in deletions if d["Status"] == "deleted")
    identity = record["ID"]
    columns = ("status", "message", "conditions", "progress", "counts")
    options = [word for column in columns for word in ("-c", column)]
    demo.openstack("project", "deletion", "show", "--max-width", str(WIDTH), *options, identity)
    if left := demo.ask("project", "deletion", "leftovers", identity):
        raise DemoError(f"the report still has {len(left)} leftovers")
    show(f"\n$ openstack project deletion leftovers {identity}\n  (an empty list)")
    journal = demo.ask("project", "deletion", "events", identity)
    turns = [line for line in journal if line["Type"].split(".")[0] in ("deletion", "drain", "inventory", "project")]
    show(f"\n$ openstack project deletion events {identity}\n  ({len(turns)} of its {len(journal)} lines)")
    for line in turns:
        message = textwrap.shorten(line["Message"], WIDTH - 32, placeholder=" …")
        show(f"  {line['At'][11:19]}  {line['Type']:18}  {message}")

    headline("The proof: what the services' own databases and lists have of it, before and now")
    lines = filler.proof(cloud, filled.project_id)
    show(f"{'Service':8} {'What':43} {'Before':>6} {'Now':>3} Where")
    for service, where, what, number in lines:
        before = project_before.get(f"{service}: {what} ({where})", "?")
        show(f"{service:8} {what:43} {before:>6} {number:>3} {place(where)}")
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


def show_dashboard(demo: Demo, port: int) -> None:
    """Fill the project again, and start a Horizon with the panels."""
    from tests.cloud import filler
    from tests.cloud.horizon import Horizon, horizon_venv

    cloud = demo.cloud
    headline("Horizon, with a filled project to click through")
    say(f"filling '{PROJECT}' again")
    admin = filler.connect(cloud.auth_url, "admin", cloud.site.password, "admin")
    (neighbour,) = admin.identity.projects(name=NEIGHBOUR)
    filler.fill(admin, PROJECT, partner=neighbour.id)
    cloud.admin.ensure_inherited_role(USER, "admin")
    say("installing Horizon: some seconds with uv, a minute with pip")
    venv = horizon_venv(cloud, WORK / "horizon")
    say("starting Horizon: it compiles its pages first")
    horizon = Horizon(cloud.directory / "horizon", venv, cloud.auth_url, port, cloud.children)
    horizon.start()
    show(
        f"\nHorizon: {horizon.url}/identity/\n"
        f"  domain Default, user admin, password {cloud.site.password}\n"
        f"  Identity, Projects: open the menu of '{PROJECT}', and choose 'Delete with contents…'.\n"
        f"  Identity, Project Deletion: the deletions, and the rest."
    )


def count(cloud: Cloud, project_id: str) -> dict[str, int]:
    """Every line of the proof with its number."""
    from tests.cloud import filler

    return {f"{service}: {what} ({where})": number for service, where, what, number in filler.proof(cloud, project_id)}


def difference(before: dict[str, int], after: dict[str, int]) -> str:
    """Return the changes as text."""
    return ", ".join(f"{key} {before[key]} → {after.get(key)}" for key in before if before[key] != after.get(key))


def perform(demo: Demo) -> bool:
    """Run the main job in a thread, so that a Ctrl-C is handled at any moment; return whether it succeeded."""
    errors: list[BaseException] = []

    def target() -> None:
        try:
            play(demo)
        except BaseException as error:  # the main thread handles it
            errors.append(error)

    thread = threading.Thread(target=target, name="demo-play", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.5)
        demo.cloud.check()
    if not errors:
        show("\nPASSED: everything above holds.")
        return True
    text = " ".join(str(errors[0]).split())
    if not isinstance(errors[0], DemoError):
        log = demo.cloud.log("demo")
        log.write_text("".join(traceback.format_exception(errors[0])))
        text = f"{type(errors[0]).__name__}: {textwrap.shorten(text, 200, placeholder=' …')}; see {log}"
    sys.stdout.flush()
    print(f"\nFAILED: {text}", file=sys.stderr, flush=True)
    return False


def main() -> int:
    """Parse the arguments, install, start, run the main job, stop."""
    parser = argparse.ArgumentParser(
        prog="tox -e demo --",
        description=__doc__,
        epilog="example: CLEANUP_DEMO_PORT_BASE=25000 tox -e demo -- --keep",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--keep", action="store_true", help="stay up when it is over, until Ctrl-C")
    parser.add_argument(
        "--dashboard",
        action="store_true",
        help="then start a Horizon, fill the project again, and stay up until Ctrl-C",
    )
    parser.add_argument(
        "--port-base",
        metavar="PORT",
        type=int,
        default=os.environ.get("CLEANUP_DEMO_PORT_BASE") or "15000",
        help="first of 32 ports on 127.0.0.1 (default: $CLEANUP_DEMO_PORT_BASE or 15000)",
    )
    parser.add_argument("--record", metavar="FILE", type=pathlib.Path, help="write the session of the manual to a file")
    options = parser.parse_args()
    if not 1024 <= options.port_base <= 65000:
        parser.error(f"--port-base has to be from 1024 to 65000, not {options.port_base}")
    # SIGTERM and a closed terminal end it as Ctrl-C does. Under nohup SIGHUP stays ignored.
    for signum in SIGNALS:
        if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:
            signal.signal(signum, interrupt)
    logs = WORK / "demo-log"
    over = False
    code = 1
    cloud = demo = None
    try:
        cloud = Cloud(
            os.environ.get("CLEANUP_DEMO_DIR") or WORK / "demo-cloud",
            os.environ.get("CLEANUP_CLOUD_VENV") or WORK / "cloud",
            port_base=options.port_base,
            token_cache_time=CACHE_TIME,
            progress=say,
            keystone_module="cleanup_orchestrator.keystone.wsgi:application",
            cleanup_user=USER,
            python_path=(str(KEYSTONE_PART),),
            port_hint="choose others with CLEANUP_DEMO_PORT_BASE",
        )
        demo = Demo(cloud)
        demo.recording = recording.Recording() if options.record else None
        if (pid := cloud.runner()) is not None:
            raise CloudError(f"the demo is running already in {cloud.directory} (process {pid}): stop that one first")
        # All this before the minute that the installation takes.
        cloud.directory.mkdir(parents=True, exist_ok=True)
        if not os.access(cloud.directory, os.W_OK | os.X_OK):
            raise CloudError(f"{cloud.directory} is not writable; choose another directory with CLEANUP_DEMO_DIR")
        cloud.check_ports()
        if not port_is_free(demo.port):
            raise CloudError(
                f"port {demo.port} (for the orchestrator) is already in use; stop what listens there or choose others "
                "with CLEANUP_DEMO_PORT_BASE"
            )
        if options.dashboard and not port_is_free(options.port_base + HORIZON_PORT):
            raise CloudError(
                f"port {options.port_base + HORIZON_PORT} (for Horizon) is already in use; stop what listens there or "
                "choose others with CLEANUP_DEMO_PORT_BASE"
            )
        install(cloud, logs)
        headline("Starting Keystone, Glance, Neutron, Swift, Barbican and the orchestrator on 127.0.0.1")
        cloud.wipe()
        cloud.up()
        demo.start_orchestrator()
        say(f"the orchestrator is up: {demo.url}")
        code = 0 if perform(demo) else 1
        if demo.recording and code == 0:
            demo.recording.write(options.record, "A project is reported on, and then deleted with its resources")
        over = True
        if options.dashboard and code == 0:
            show_dashboard(demo, options.port_base + HORIZON_PORT)
        if options.keep or options.dashboard:
            show(
                f"\nIt is left running. In another terminal:\n\n"
                f"  export PATH={shlex.quote(str(pathlib.Path(sys.executable).parent))}:$PATH\n"
                f"  export OS_CLIENT_CONFIG_FILE={shlex.quote(str(cloud.clouds_yaml))} OS_CLOUD=admin\n"
                f"  openstack project deletion list\n"
                f"  openstack project delete --async --cascade --dry-run --wait {NEIGHBOUR}\n"
                f"  openstack project delete --async --cascade --wait {NEIGHBOUR}\n\n"
                f"REST: {demo.url}/v1/\nLogs: {demo.log.parent}/\nCtrl-C stops it all."
            )
            while True:
                cloud.check()
                time.sleep(1)
        return code
    except CloudError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print("\nstopping everything" if over else "\ninterrupted: stopping everything", file=sys.stderr, flush=True)
        return code if over else 130
    finally:
        STOPPING.set()
        if demo:
            demo.stop()
        if cloud:
            cloud.down()


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    _code = main()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(_code)  # wait for no thread
