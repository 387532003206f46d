"""The Ansible role of ``etc/ansible`` in a fresh Debian, against the light cloud: installed, used, and run again.

One Debian in a folder has PostgreSQL, RabbitMQ, a Keystone of its own for the package, and all that the role installs.
"""

from __future__ import annotations

import configparser
import contextlib
import json
import pathlib
import re
import shlex
import shutil
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import jinja2
import pytest

from tests.cloud.conftest import free_port_base, installed
from tests.cloud.launcher import Cloud
from tests.cloud.processes import Children
from tests.support.commit import ROOT
from tests.support.debian_root import DebianRoot, download, need, run, wheel
from tests.support.timing import wait

pytestmark = pytest.mark.long

PACKAGES = ("haproxy", "openssl", "postgresql", "python3-venv", "rabbitmq-server", "systemd")
#: What must be quoted somewhere: in a URL, in SQL, in a configuration file, in Jinja.
AWKWARD = "%s: a/b@c:d%%e$f'g\"h#i{{j}}\\k;l é"
SECRETS = {
    name: AWKWARD % name
    for name in (
        "cleanup_orchestrator_database_password",
        "cleanup_orchestrator_rabbitmq_password",
        "cleanup_orchestrator_worker_password",
        "cleanup_orchestrator_api_password",
        "cleanup_orchestrator_janitor_secret",
    )
}
# oslo.messaging cannot use a slash.
SECRETS["cleanup_orchestrator_rabbitmq_password"] = SECRETS["cleanup_orchestrator_rabbitmq_password"].replace("/", "")
HAPROXY = ROOT / "etc" / "kolla" / "config" / "haproxy" / "services.d" / "cleanup-orchestrator.cfg"
UNITS = {"api": "cleanup-orchestrator-api", "engine": "cleanup-orchestrator-engine"}
UNITS |= {"worker": "cleanup-orchestrator-worker", "worker-2": "cleanup-orchestrator-worker-2"}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory) -> Iterator[Cloud]:
    venv = installed("CLEANUP_CLOUD_VENV", "cloud", "keystone-manage")
    with Cloud(tmp_path_factory.mktemp("cloud"), venv, port_base=free_port_base()) as made:
        yield made


class Site:
    """The Debian, and what runs in it."""

    def __init__(self, folder: pathlib.Path, cloud: Cloud) -> None:
        self.folder, self.cloud = folder, cloud
        self.root = DebianRoot(folder / "root")
        self.children = Children(folder / "log")
        base = free_port_base()
        self.ports = {
            name: base + n for n, name in enumerate(("postgresql", "amqp", "distribution", "epmd", "api", "tls"))
        }

    def prepare(self) -> None:
        """Make what the role expects: a Debian with a database server and a broker, a certificate, and the wheels."""
        root = self.root
        root.make(PACKAGES)
        wheels = root.path("/srv/wheels")
        wheels.mkdir()
        built = wheel(self.folder)
        shutil.copy(built, wheels)
        self.wheel = f"/srv/wheels/{built.name}"
        download(wheels, [f"{built}[postgresql,memcached]", "pyuwsgi", "ansible-core"])
        root.run("python3", "-m", "venv", "/srv/ansible")
        root.run("/srv/ansible/bin/pip", "install", "--quiet", "--no-index", "--find-links=/srv/wheels", "ansible-core")
        shutil.copytree(ROOT / "etc" / "ansible", root.path("/srv/play"))
        certificate = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ]
        certificate += ["-addext", "subjectAltName=DNS:localhost", "-keyout", "/etc/ssl/cleanup.key"]
        root.run(*certificate, "-out", "/etc/ssl/cleanup.pem")
        # A Keystone as far as the role sees it.
        root.run("groupadd", "--system", "keystone")
        root.run("python3", "-m", "venv", "/opt/keystone")
        root.path("/etc/keystone").mkdir()
        served = "[uwsgi]\nmodule = keystone.wsgi.api:application\nprocesses = 5\n"
        root.path("/etc/keystone/keystone-uwsgi.ini").write_text(served)
        self.start_servers()

    def start_servers(self) -> None:
        postgresql = root_glob(self.root, "/usr/lib/postgresql/*/bin/postgres")
        version = postgresql.split("/")[4]
        # systemd-tmpfiles makes it where systemd runs.
        self.root.run("install", "-d", "-o", "postgres", "-g", "postgres", "/run/postgresql")
        self.start(
            "postgresql",
            [
                postgresql, "-D", f"/var/lib/postgresql/{version}/main",
                "-c", f"config_file=/etc/postgresql/{version}/main/postgresql.conf",
                "-c", f"port={self.ports['postgresql']}", "-c", "fsync=off", "-c", "ssl=off",
            ],
            user="postgres",
        )  # fmt: skip
        self.root.path("/etc/rabbitmq/rabbitmq-env.conf").write_text(
            f"NODENAME=cleanup@localhost\nNODE_IP_ADDRESS=127.0.0.1\nNODE_PORT={self.ports['amqp']}\n"
            f"DIST_PORT={self.ports['distribution']}\nexport ERL_EPMD_PORT={self.ports['epmd']}\n"
            "export ERL_EPMD_ADDRESS=127.0.0.1\n"
        )
        self.start("rabbitmq", ["/usr/sbin/rabbitmq-server"])
        wait("RabbitMQ answers", lambda: self.answers("rabbitmqctl", "await_startup"), 180, 1)
        socket = f"--port={self.ports['postgresql']}"
        wait("PostgreSQL answers", lambda: self.answers("runuser", "-u", "postgres", "--", "pg_isready", socket), 60, 1)

    def start(self, name: str, command: list[str], **who: object) -> None:
        clean = ["env", "-i", "LANG=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"]
        inside = self.root.command([*clean, *command], alone=True, **who)
        self.children.start(name, ["exec", "--", *inside], python=sys.executable, environment=self.root.environment())

    def answers(self, *command: str) -> bool:
        self.children.check()
        try:
            self.root.run(*command)
        except AssertionError:
            return False
        return True

    def variables(self) -> dict[str, object]:
        return {
            **{name: {"__ansible_unsafe": text} for name, text in SECRETS.items()},
            "cleanup_orchestrator_become": False,
            "cleanup_orchestrator_wheel": self.wheel,
            "cleanup_orchestrator_pip_arguments": ["--no-index", "--find-links", "/srv/wheels"],
            "cleanup_orchestrator_auth_url": self.cloud.auth_url,
            "cleanup_orchestrator_bootstrap": True,
            "cleanup_orchestrator_public_url": f"https://localhost:{self.ports['tls']}",
            "cleanup_orchestrator_database_port": self.ports["postgresql"],
            "cleanup_orchestrator_rabbitmq_hosts": [f"127.0.0.1:{self.ports['amqp']}"],
            "cleanup_orchestrator_api_port": self.ports["api"],
            "cleanup_orchestrator_tls_port": self.ports["tls"],
            "cleanup_orchestrator_workers": 2,
            "cleanup_orchestrator_token_cache_time": 5,
            "cleanup_orchestrator_settings": {"engine": {"tick": 0.5}},
            "cleanup_orchestrator_worker_settings": {"orchestrator": {"cafile": "/etc/ssl/cleanup.pem"}},
            "cleanup_orchestrator_policy": {"cleanup:brake:show": "role:admin"},
            "cleanup_orchestrator_keystone_unit": "",
        }

    def play(self, **variables: object) -> tuple[str, dict[str, int], float]:
        """Run the playbook of the examples; return its output, its counts, and the seconds it took."""
        groups = ("database", "rabbitmq", "api", "engine", "worker", "keystone")
        inventory = {
            "all": {
                "hosts": {"here": {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}},
                "children": {f"cleanup_{group}": {"hosts": {"here": None}} for group in groups},
                "vars": self.variables() | variables,
            }
        }
        self.root.path("/srv/inventory.json").write_text(json.dumps(inventory))
        began = time.monotonic()
        said = self.root.run(
            "/srv/ansible/bin/ansible-playbook", "-vvv", "-i", "/srv/inventory.json", "/srv/play/playbook.yml",
            environment={"ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCALHOST_WARNING": "0", "ANSIBLE_PIPELINING": "1"},
        )  # fmt: skip
        recap = re.search(r"^here +: (.*)$", said, re.M)
        counts = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", recap[1])}
        return said, counts, time.monotonic() - began

    def unit(self, name: str) -> dict[str, str]:
        """Return the section Service of a unit, with its drop-ins."""
        folder = self.root.path("/etc/systemd/system")
        found: dict[str, str] = {}
        for path in [folder / f"{name}.service", *sorted((folder / f"{name}.service.d").glob("*.conf"))]:
            parser = configparser.ConfigParser(strict=False, interpolation=None)
            parser.optionxform = str
            parser.read(path)
            found |= parser["Service"]
        return found

    def start_unit(self, name: str) -> None:
        """Start the process of a unit as systemd does: its command, its users and its folders, not its sandbox."""
        unit = self.unit(name)
        for key, parent in (("StateDirectory", "/var/lib"), ("LogsDirectory", "/var/log")):
            self.root.run(
                "install", "-d", "-m", unit[f"{key}Mode"], "-o", unit["User"], "-g", unit["Group"],
                f"{parent}/{unit[key]}",
            )  # fmt: skip
        groups = [unit["Group"], *unit.get("SupplementaryGroups", "").split()]
        command = ["env", *shlex.split(unit.get("Environment", "")), *unit["ExecStart"].split()]
        self.start(name, command, user=unit["User"], group=unit["Group"], groups=groups)

    def call(self, method: str, path: str, body: object = None) -> tuple[int, object]:
        """Send a request with the admin's token through the TLS proxy."""
        request = urllib.request.Request(
            f"https://localhost:{self.ports['tls']}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"X-Auth-Token": self.token(), "Content-Type": "application/json"},
        )
        context = ssl.create_default_context(cafile=str(self.root.path("/etc/ssl/cleanup.pem")))
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text.startswith(b"{") else text.decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def token(self) -> str:
        self.cloud.admin.call("GET", "/projects?limit=1")
        return self.cloud.admin._token

    def close(self) -> None:
        self.children.stop()


def root_glob(root: DebianRoot, pattern: str) -> str:
    (found,) = root.folder.glob(pattern.lstrip("/"))
    return f"/{found.relative_to(root.folder)}"


@pytest.fixture(scope="module")
def site(cloud, tmp_path_factory) -> Iterator[Site]:
    need()
    made = Site(tmp_path_factory.mktemp("ansible"), cloud)
    try:
        made.prepare()
        yield made
    finally:
        made.close()
        shutil.rmtree(made.folder / "root", ignore_errors=True)


@pytest.fixture(scope="module")
def first(site):
    """The first run of the play."""
    site.cloud.admin.ensure("projects", "project", {"name": "service"}, domain_id="default")
    login = {"auth_url": site.cloud.auth_url, "username": "admin", "password": site.cloud.site.password}
    login |= {"project_name": "admin", "user_domain_id": "default", "project_domain_id": "default"}
    clouds = site.root.path("/etc/openstack/clouds.yaml")
    clouds.parent.mkdir()
    clouds.write_text(json.dumps({"clouds": {"admin": {"auth": login, "region_name": "RegionOne"}}}))
    result = site.play()
    print(f"first run: {result[2]:.0f} s, {result[1]}")
    return result


@pytest.fixture(scope="module")
def started(site, first):
    for name in UNITS.values():
        site.start_unit(name)
    site.start("nginx", ["nginx", "-g", "daemon off;"])

    def up() -> bool:
        site.children.check()
        with contextlib.suppress(OSError):
            return site.call("GET", "/healthcheck")[0] == 200
        return False

    wait("the API answers through nginx", up, 120, 0.5)
    return site


def test_no_secret_is_in_the_output_of_the_play(first):
    said = first[0]
    assert "PLAY RECAP" in said
    for name, secret in SECRETS.items():
        written = (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
        assert [text for text in written if text in said] == [], name
        assert f"{name}: a" not in said and f"{name}%3A%20a" not in said, name


def test_the_files_have_the_owners_and_modes_of_the_manual(site, first):
    manual = (ROOT / "doc" / "source" / "admin" / "install.rst").read_text()
    files = {name: mode for mode, name in re.findall(r"install -m (0\d+) .*\$conf/(\S+)$", manual, re.M)}
    owners = {"cleanup-orchestrator.conf": "root:cleanup-orchestrator"}
    owners["cleanup-orchestrator-api.conf"] = "cleanup-orchestrator-api:root"
    owners["cleanup-orchestrator-worker.conf"] = "cleanup-orchestrator:root"
    assert set(files) == set(owners)
    for name, mode in files.items():
        found = site.root.run("stat", "--format=0%a %U:%G", f"/etc/cleanup-orchestrator/{name}").strip()
        assert found == f"{mode} {owners[name]}", name
    folder = site.root.run("stat", "--format=0%a %U:%G", "/etc/cleanup-orchestrator").strip()
    assert folder == "0750 root:cleanup-orchestrator"
    assert "install -d -m 0750 -o root -g cleanup-orchestrator $conf" in manual
    assert site.root.run("stat", "--format=%U %a", "/etc/cleanup-orchestrator/policy.yaml").split() == ["root", "640"]


def test_the_units_are_enabled(site, first):
    wanted = site.root.path("/etc/systemd/system/multi-user.target.wants")
    assert {path.name for path in wanted.glob("cleanup-*")} == {f"{name}.service" for name in UNITS.values()}


def test_api_and_engine_cannot_read_the_workers_file(site, first):
    for part in ("api", "engine"):
        unit = site.unit(UNITS[part])
        read = site.root.command(
            ["cat", "/etc/cleanup-orchestrator/cleanup-orchestrator-worker.conf"],
            user=unit["User"], groups=[unit["Group"], unit["SupplementaryGroups"]],
        )  # fmt: skip
        with pytest.raises(AssertionError, match="Permission denied"):
            run(read)


def test_keystone_gets_the_package_its_options_and_the_application(site, first):
    (user,) = site.cloud.admin.call("GET", "/users?name=cleanup-orchestrator")["users"]
    options = site.root.path("/etc/keystone/keystone.conf.d/project-cleanup.conf")
    assert f"\nuser_id = {user['id']}\n" in options.read_text()
    served = site.root.path("/etc/keystone/keystone-uwsgi.ini").read_text()
    assert served == "[uwsgi]\nmodule = cleanup_orchestrator.keystone.wsgi:application\nprocesses = 5\n"
    there = ["/opt/keystone/bin/python", "-c", "import cleanup_orchestrator.keystone as k; print(k.__file__)"]
    assert site.root.run(*there).startswith("/opt/keystone/lib/")
    packages = json.loads(site.root.run("/opt/keystone/bin/pip", "list", "--format=json"))
    assert {package["name"] for package in packages} <= {"pip", "setuptools", "cleanup-orchestrator"}


def test_a_report_of_an_empty_project_deletes_it(started):
    admin = started.cloud.admin
    assert started.call("GET", "/healthcheck")[0] == 200
    project = admin.ensure("projects", "project", {"name": "ansible", "domain_id": "default"}, domain_id="default")
    status, answer = started.call("POST", "/v1/deletions", {"project_id": project["id"], "mode": "report"})
    assert status == 202, answer
    address = f"/v1/deletions/{answer['deletion']['id']}"

    def ended() -> str:
        started.children.check()
        record = started.call("GET", address)[1]["deletion"]
        return record["status"] if record["status"] in ("deleted", "leftovers", "failed") else ""

    assert wait("the deletion has ended", ended, 180, 0.5) == "deleted"
    assert admin.call("GET", "/projects?name=ansible")["projects"] == []


def test_haproxy_accepts_the_file_for_kolla_ansible(site):
    template = jinja2.Template(HAPROXY.read_text(), undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    text = template.render(kolla_external_vip_address="192.0.2.10", kolla_internal_vip_address="192.0.2.11")
    site.root.path("/srv/main.cfg").write_text("defaults\n    timeout connect 5s\n")
    site.root.path("/srv/cleanup-orchestrator.cfg").write_text(text)
    site.root.run("haproxy", "-c", "-f", "/srv/main.cfg", "-f", "/srv/cleanup-orchestrator.cfg")


def test_a_second_run_changes_nothing_and_the_check_of_the_cloud_passes(started, first):
    said, counts, seconds = started.play(cleanup_orchestrator_cloud_check=True)
    print(f"second run: {seconds:.0f} s, {counts}")
    assert first[1]["failed"] == counts["failed"] == 0
    assert first[1]["changed"] > 20
    assert counts["changed"] == 0, [line for line in said.splitlines() if line.startswith("changed:")]


def test_what_a_failed_play_has_changed_is_restarted_by_the_next_one(started, first):
    changed = {"cleanup_orchestrator_settings": {"engine": {"tick": 0.4}}}
    with pytest.raises(AssertionError, match="Look for the certificate"):
        started.play(**changed, cleanup_orchestrator_tls_certificate="/nowhere.pem")
    assert "tick = 0.4" in started.root.path("/etc/cleanup-orchestrator/cleanup-orchestrator.conf").read_text()
    restarts = [f"RUNNING HANDLER [cleanup_orchestrator : Restart the {part}]" for part in ("API", "engine", "workers")]
    said = started.play(**changed)[0]
    assert [line in said for line in restarts] == [True] * 3
    said, counts, _ = started.play(**changed)
    assert counts["changed"] == 0 and "RUNNING HANDLER" not in said
