"""``cloud bootstrap``, ``cloud check`` and ``cloud remove`` with a real Keystone of two processes, Glance and Barbican.

The cloud begins without any user of the orchestrator. The tests of this file run in their order.
"""

from __future__ import annotations

import concurrent.futures
import configparser
import contextlib
import dataclasses
import datetime
import email.utils
import http.server
import io
import json
import pathlib
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cleanup_orchestrator import service
from cleanup_orchestrator.cloud import keystone_rows
from cleanup_orchestrator.cmd import cloud_setup, manage, status
from cleanup_orchestrator.core.deletion import Mode, accepted
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.store import Store
from tests.cloud.conftest import LAST_ACTIVE, free_port_base
from tests.cloud.launcher import FENCED, Cloud, answers
from tests.cloud.services import STOCK_KEYSTONE, keystone_processes
from tests.support import ports

OURS = FENCED["keystone_module"]
#: The rule of Barbican's older releases.
POLICY = '"project_quotas:get": "role:key-manager:service-admin"\n'
WORKER, API = cloud_setup.NAMES["worker"], cloud_setup.NAMES["api"]
#: The options of a login in a project.
PROJECT = ("project_id", "project_name", "project_domain_id", "project_domain_name")
#: Rows of Keystone that other rows leave behind.
VOLATILE = re.compile(r'INSERT INTO "?(revocation_event|sqlite_sequence)"?')


@dataclasses.dataclass
class Site:
    """The cloud, the orchestrator's configuration files, and the commands in this process."""

    cloud: Cloud
    folder: pathlib.Path
    port: int  #: of the API

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def dump(self) -> list[str]:
        """Return all rows of Keystone, without those that change by themselves."""
        path = self.cloud.site.database("keystone")
        with sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30) as database:
            lines = [LAST_ACTIVE.sub(r"\1", line) for line in database.iterdump()]
        database.close()
        return sorted(line for line in lines if not VOLATILE.match(line))

    def manage(self, *arguments: str) -> tuple[int, str]:
        """Run a command; return its exit code and what it prints."""
        text = io.StringIO()
        files = ["--config-file", str(self.folder / "main.conf")]
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            code = manage.main([*arguments, *files])
        return code, text.getvalue()

    def bootstrap(self, *more: str) -> tuple[int, str]:
        return self.manage("cloud", "bootstrap", "--os-cloud", "admin", "--public-url", self.url, *more)

    def remove(self, *more: str) -> tuple[int, str]:
        return self.manage("cloud", "remove", "--os-cloud", "admin", *more)

    def write(self, printed: str) -> None:
        """Write the configuration that bootstrap printed."""
        texts = re.split(r"^# -- (.*)$", printed.partition("\nUnchanged passwords")[0], flags=re.M)
        for name, text in zip(texts[1::2], texts[2::2], strict=True):
            if (file := pathlib.Path(name.split(",")[0])).is_absolute():
                text = re.sub(r"^\d+ changes.*", "", text, flags=re.M)
                (self.folder / file.name.removeprefix("cleanup-orchestrator-")).write_text(text)

    def check(self, *more: str, worker: str = "worker.conf", api: str = "api.conf", main: str = "main.conf") -> Checked:
        """Run the check; return what it says."""
        text = io.StringIO()
        files = ["--config-file", str(self.folder / main), "--config-file", str(self.folder / worker)]
        files += ["--api-config-file", str(self.folder / api)]
        files += ["--service-config", str(self.folder / "services" / "*.conf")]
        with contextlib.redirect_stdout(text):
            code = status.main(["cloud", "check", *files, "--json", "--time-limit", "300", *more])
        rows = json.loads(text.getvalue())["checks"]
        return Checked(code, rows)

    def changed(self, name: str, new: str, section: str, **options: str | None) -> str:
        """Write a copy of a file with other values; return its name. ``None``: the option is left out."""
        parser = configparser.RawConfigParser()
        parser.read(self.folder / name)
        for option, value in options.items():
            parser.remove_option(section, option) if value is None else parser.set(section, option, value)
        with open(self.folder / new, "w") as file:
            parser.write(file)
        return new

    def restart_keystone(self, *modules: str) -> None:
        """Start the two processes of Keystone anew, with these applications."""
        self.cloud._site = dataclasses.replace(self.cloud.site, keystone_modules=modules)
        for process in keystone_processes(self.cloud.site):
            self.cloud.restart("keystone", process.name)
        deadline = time.monotonic() + 60
        while not all(map(answers, keystone_processes(self.cloud.site))):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        # A process loads its policy at the first request that needs it. Until then it refuses other threads' requests.
        for url in self.cloud.keystone_urls:
            self.cloud.admin.call("GET", f"{url}/services")

    def user_id(self, name: str) -> str:
        (user,) = self.cloud.admin.call("GET", f"/users?name={name}")["users"]
        return user["id"]

    def role_id(self, name: str) -> str:
        (role,) = self.cloud.admin.call("GET", f"/roles?name={name}")["roles"]
        return role["id"]


@dataclasses.dataclass
class Checked:
    """What a check says."""

    code: int
    rows: list[dict[str, Any]]

    def bad(self) -> dict[str, str]:
        """Return the details of each line that is not ok, by its name."""
        return {row["check"]: row["details"] for row in self.rows if row["result"]}


@pytest.fixture(scope="module")
def site(cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("bootstrap")
    (folder / "services").mkdir()
    (folder / "services" / "glance.conf").write_text("[keystone_authtoken]\ntoken_cache_time = 5\n")
    (folder / "policy.yaml").write_text(POLICY)
    made = Cloud(
        tmp_path_factory.mktemp("cloud"),
        cloud_venv,
        port_base=free_port_base(),
        services=("glance", "barbican"),
        keystone_module=OURS,
        keystone_processes=2,
        keystone_cache="shared",
        cleanup_user="not-made-yet",
        python_path=FENCED["python_path"],
        extra_config={
            "barbican": {"oslo_policy": {"policy_file": str(folder / "policy.yaml")}},
            # Each list of domains, projects or users has one row, unless its reader asks for all pages.
            "keystone": {"DEFAULT": {"max_db_limit": "1"}},
        },
    )
    with made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OS_CLIENT_CONFIG_FILE", str(made.clouds_yaml))
        found = Site(made, folder, ports.reserve(range(24900, 25900), 1))
        text = (
            f"[database]\nconnection = sqlite:///{folder}/orchestrator.sqlite\n"
            f"[drain]\ndriver = fence\ntoken_cache_time = 5\n[api]\nport = {found.port}\n"
        )
        (folder / "main.conf").write_text(text)
        assert found.manage("db", "upgrade")[0] == 0
        yield found


@pytest.fixture(scope="module")
def fresh(site: Site) -> list[str]:
    """The rows of Keystone before the first run."""
    return site.dump()


def test_a_dry_run_names_everything_and_writes_nothing(site: Site, fresh: list[str]):
    code, text = site.bootstrap("--dry-run")
    assert code == 0 and site.dump() == fresh
    lines = [line for line in text.splitlines() if line.startswith("would be")]
    assert len(lines) == 10 and "10 changes would be made" in text, text
    for part in (
        f"user {WORKER}",
        f"user {API}",
        "domain Default",
        "the system",
        "key-manager:service-admin",
        site.url,
    ):
        assert any(part in line for line in lines), part
    assert "password" not in text


def test_a_user_that_another_person_made_gets_no_role_and_stays(site: Site, fresh: list[str]):
    """A manager of the domain may make a user of the name, and copy what the users of another cloud look like."""
    user = {"name": WORKER, "domain_id": "default", "password": "mine", keystone_rows.MARK: "0" * 64}
    made = site.cloud.admin.call("POST", "/users", {"user": user})["user"]
    before = site.dump()
    code, text = site.bootstrap()
    assert code == 1 and "nothing was written" in text
    (line,) = [line for line in text.splitlines() if "role admin on project service" in line]
    assert f"openstack role add --user {made['id']} --project" in line
    code, text = site.remove()
    assert code == 0 and f"kept              user {WORKER} ({made['id']})" in text
    assert site.dump() == before
    site.cloud.admin.call("DELETE", f"/users/{made['id']}")
    assert site.dump() == fresh


def test_after_a_death_another_run_goes_on(site: Site, fresh: list[str], monkeypatch):
    class Death(BaseException):
        pass

    def dying(command: Callable[[], Any]) -> int:
        """Let each run make three writes, until a run has no more to make; return the number of deaths.

        The unit tests let each run make one write.
        """
        for deaths in range(40):
            writes = iter(range(3))

            def guard(_method: str, _url: str, writes: Iterator[int] = writes) -> None:
                if next(writes, None) is None:
                    raise Death

            monkeypatch.setattr(cloud_setup, "_any_write", guard)
            try:
                command()
            except Death:
                continue
            return deaths
        raise AssertionError("it does not come to an end")

    assert dying(site.bootstrap) >= 3
    monkeypatch.undo()
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(site.cloud.clouds_yaml))
    code, text = site.bootstrap()
    assert code == 0 and "\n0 changes" in text, text
    assert len(site.cloud.admin.call("GET", "/services?type=project-cleanup")["services"]) == 1
    assert dying(lambda: site.remove()) >= 1
    assert site.dump() == fresh


def test_two_runs_at_once_make_one_of_each(site: Site, fresh: list[str]):
    command = [sys.executable, "-m", "cleanup_orchestrator.cmd.manage", "cloud", "bootstrap", "--os-cloud", "admin"]
    command += ["--public-url", site.url]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda _: subprocess.run(command, capture_output=True, text=True), range(2)))
    assert [run.returncode for run in runs] == [0, 0], [run.stdout + run.stderr for run in runs]
    (entry,) = site.cloud.admin.call("GET", "/services?type=project-cleanup")["services"]
    endpoints = site.cloud.admin.call("GET", f"/endpoints?service_id={entry['id']}")["endpoints"]
    assert sorted(row["interface"] for row in endpoints) == ["internal", "public"]
    shown = [run.stdout.count("Aa1!") for run in runs]
    assert sum(shown) == 3, (
        "each password is shown by the run that made its user: one in the workers' file, two in the API's"
    )
    assert site.remove()[0] == 0
    assert site.dump() == fresh


@pytest.fixture(scope="module")
def made(site: Site, fresh: list[str]) -> Iterator[Site]:
    """The site after bootstrap, with its configuration, Keystone's, and the API running."""
    (site.folder / "password").write_text(" it's $5 'for' me\n")
    code, text = site.bootstrap("--password-file", f"api={site.folder / 'password'}")
    assert code == 0 and "for' me" in text, text
    site.write(text)
    home = site.cloud.site.home("keystone")
    (home / "cleanup-user.conf").write_text(f"[project_cleanup]\nuser_id = {site.user_id(WORKER)}\n")
    site.restart_keystone(OURS, OURS)
    files = [f"--config-file={site.folder / name}" for name in ("main.conf", "api.conf")]
    running = service.Running(service.Components(service.load(files), in_process=True))
    running.start_api()
    yield site
    running.close()


def test_a_second_run_changes_nothing(made: Site):
    before = made.dump()
    code, text = made.bootstrap()
    assert code == 0 and "\n0 changes" in text and "Aa1!" not in text, text
    assert {line.split()[0] for line in text.splitlines()[:9]} == {"unchanged"}
    assert made.dump() == before


@pytest.fixture
def member(made: Site) -> Iterator[None]:
    """A user ``colleague``, who is a member of the project of the services."""
    user_id = made.cloud.admin.ensure_user("colleague", "colleague", "service", ("member",))["id"]
    yield
    made.cloud.admin.call("DELETE", f"/users/{user_id}")


def test_who_can_run_bootstrap(made: Site, member, monkeypatch):
    """An admin with a token instead of a password, as federated users are; Barbican wants a project in the token."""
    auth = {"auth_url": made.cloud.auth_url, "username": "admin", "password": made.cloud.site.password}
    auth |= {"user_domain_id": "default"}
    project = {"project_name": "service", "project_domain_id": "default"}
    logins = {
        "system": {"auth": {**auth, "system_scope": "all"}},
        "token": {"auth_type": "v3token", "auth": {"auth_url": auth["auth_url"], "token": made.cloud.admin._token}},
        "member": {"auth": {**auth, **project, "username": "colleague", "password": "colleague"}},
    }
    logins["token"]["auth"] |= {"project_name": "admin", "project_domain_id": "default"}
    clouds = {name: {**login, "region_name": "RegionOne"} for name, login in logins.items()}
    (made.folder / "clouds.yaml").write_text(json.dumps({"clouds": clouds}))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(made.folder / "clouds.yaml"))
    before = made.dump()
    said = {name: made.manage("cloud", "bootstrap", "--os-cloud", name, "--public-url", made.url) for name in logins}
    assert made.dump() == before
    code, text = said.pop("token")
    assert code == 0 and "\n0 changes" in text, text
    for name, way in {"system": "name a project of the admin", "member": "log in as an admin of the cloud"}.items():
        code, text = said[name]
        assert code == 1 and way in text and len(text.splitlines()) == 1, text


def test_the_check_of_what_bootstrap_made_is_green(made: Site):
    found = made.check()
    assert (found.code, found.bad()) == (0, {})
    names = " ".join(row["check"] for row in found.rows)
    for part in (
        "lock",
        "lists image",
        "lists key-manager",
        "clock",
        "api user",
        "inherited role",
        "database",
        "broker",
    ):
        assert part in names
    assert not made.cloud.admin.call("GET", "/projects?name__startswith=cleanup-orchestrator-check")["projects"]


def test_an_api_user_that_is_an_admin_of_a_project_is_red(made: Site):
    project_id = made.cloud.admin.call("GET", "/projects?name=service")["projects"][0]["id"]
    path = f"/projects/{project_id}/users/{made.user_id(API)}/roles/{made.role_id('admin')}"
    made.cloud.admin.call("PUT", path)
    try:
        assert f"the role admin on project service ({project_id})" in made.check("--no-test-project").bad()["api user"]
    finally:
        made.cloud.admin.call("DELETE", path)


class Late(http.server.BaseHTTPRequestHandler):
    """A service whose clock is an hour slow."""

    def do_GET(self) -> None:
        self.send_response_only(200)
        then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        self.send_header("Date", email.utils.format_datetime(then, usegmt=True))
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def mistakes(made: Site) -> Iterator[dict[str, str]]:
    """What the check says of many mistakes at once."""
    admin = made.cloud.admin
    admin.call("POST", "/domains", {"domain": {"name": "made later"}})
    admin.call("DELETE", f"/system/users/{made.user_id(API)}/roles/{made.role_id('reader')}")
    project_id = admin.call("GET", "/projects?name=service")["projects"][0]["id"]
    quota_role = made.role_id("key-manager:service-admin")
    admin.call("DELETE", f"/projects/{project_id}/users/{made.user_id(WORKER)}/roles/{quota_role}")
    (entry,) = admin.call("GET", "/services?type=project-cleanup")["services"]
    endpoints = {
        row["interface"]: row["id"] for row in admin.call("GET", f"/endpoints?service_id={entry['id']}")["endpoints"]
    }
    glance = f"http://127.0.0.1:{made.cloud.ports['glance']}"
    admin.call("PATCH", f"/endpoints/{endpoints['internal']}", {"endpoint": {"url": glance}})
    admin.call("PUT", "/regions/Elsewhere", {"region": {}})
    admin.call("PATCH", f"/endpoints/{endpoints['public']}", {"endpoint": {"region_id": "Elsewhere"}})
    late = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Late)
    threading.Thread(target=late.serve_forever, daemon=True).start()
    admin.ensure_service("dreams", "morpheus", f"http://127.0.0.1:{late.server_port}", "RegionOne")
    (made.folder / "services" / "nova.conf").write_text("[keystone_authtoken]\n")
    made.restart_keystone(OURS, STOCK_KEYSTONE)
    found = made.check(worker=made.changed("worker.conf", "no-janitor.conf", "janitor", secret=None))
    assert found.code == 2
    yield found.bad()
    late.shutdown()
    late.server_close()


@pytest.mark.parametrize(
    ("line", "text", "command"),
    [
        ("inherited role made later", "has no inherited role admin on domain made later", "cloud bootstrap"),
        ("api user", "The password is right, so that the user lacks its role", "cloud bootstrap"),
        ("api endpoint internal", "not as the API of the orchestrator", "openstack endpoint set --url URL"),
        ("api endpoint public", "in region Elsewhere", "openstack endpoint set --region RegionOne"),
        ("service dreams RegionOne", "no plugin answers for dreams", "openstack project deletion waiver create"),
        ("clock dreams", " s slow: tokens end", "chronyc makestep"),
        ("token caches", "token_cache_time is 300, longer than", "set [drain] token_cache_time = 300"),
        ("lists key-manager.project_quota", "unknown (forbidden)", "cloud bootstrap"),
        ("janitor", "[janitor] secret is not set", "openssl rand -hex 32"),
        ("lock", "Keystone", "systemctl restart keystone"),
    ],
)
def test_each_mistake_is_named_with_the_command_that_mends_it(mistakes, line, text, command):
    (details,) = [value for name, value in mistakes.items() if name.startswith(line)]
    assert text in details and command in details.partition(". Run: ")[2]


def test_no_other_line_is_red(mistakes):
    assert len(mistakes) == 10, "\n".join(f"{name}: {text}" for name, text in mistakes.items())


@pytest.fixture(scope="module")
def unconfigured(made: Site) -> dict[str, str]:
    """What the check says of mistakes in the configuration, with which no call is made to other services."""
    text = (made.folder / "main.conf").read_text().replace("orchestrator.sqlite", "empty.sqlite")
    (made.folder / "bad.conf").write_text(f"[DEFAULT]\ntransport_url = rabbit://x:y@127.0.0.1:1/\n{text}")
    sqlite3.connect(made.folder / "empty.sqlite").close()
    worker = made.changed("worker.conf", "wrong.conf", "orchestrator", password="wrong")
    api = made.changed("api.conf", "wrong-api.conf", "orchestrator", password="wrong")
    return made.check(main="bad.conf", worker=worker, api=api).bad()


@pytest.mark.parametrize(
    ("line", "text", "command"),
    [
        ("database", "this release needs", "cleanup-orchestrator-manage db upgrade"),
        ("broker", "Connection refused", "systemctl status rabbitmq-server"),
        ("worker user", "its password is another one", "cloud bootstrap --reset-passwords"),
        ("api user", "its password is another one", "cloud bootstrap --reset-passwords"),
    ],
)
def test_each_mistake_in_the_configuration_is_named(unconfigured, line, text, command):
    details, _, run = unconfigured[line].lower().partition(". run: ")
    assert text.lower() in details and command in run


@pytest.mark.parametrize(
    ("login", "text"),
    [
        (dict.fromkeys(PROJECT) | {"system_scope": "all"}, "the workers' user needs one"),
        ({"username": "colleague", "password": "colleague"}, "has the roles member"),
    ],
    ids=["of the system", "a member"],
)
def test_a_workers_user_that_is_no_admin_of_a_project_is_named(made: Site, member, login, text):
    admin = {"username": "admin", "password": made.cloud.site.password}
    found = made.check(worker=made.changed("worker.conf", "other.conf", "orchestrator", **admin | login))
    assert found.code == 2
    assert text in found.bad()["worker user"] and "cloud bootstrap" in found.bad()["worker user"]


def test_the_commands_mend_it(made: Site, mistakes, unconfigured):
    """Bootstrap, the commands for the endpoints, and a Keystone that is started as it must be."""
    environment = {"OS_CLOUD": "admin", "OS_CLIENT_CONFIG_FILE": str(made.cloud.clouds_yaml), "PATH": "/usr/bin:/bin"}
    openstack = pathlib.Path(sys.executable).with_name("openstack")
    for interface in ("public", "internal"):
        (line,) = [line for line in mistakes if line.startswith(f"api endpoint {interface}")]
        command = mistakes[line].partition(". Run: ")[2].partition(",")[0].replace(" URL ", f" {made.url} ").split()
        subprocess.run([str(openstack), *command[1:]], env=environment, check=True)
    (made.folder / "services" / "nova.conf").unlink()
    made.restart_keystone(OURS, OURS)
    project_id = made.cloud.admin.call("GET", "/projects?name=service")["projects"][0]["id"]
    worker = f"users/{made.user_id(WORKER)}/roles/{made.role_id('admin')}"
    made.cloud.admin.call("DELETE", f"/projects/{project_id}/{worker}")
    # The project inherits the role as well.
    made.cloud.admin.call("DELETE", f"/OS-INHERIT/domains/default/{worker}/inherited_to_projects")
    found = made.check()
    assert all("lacks its role" in found.bad()[name] for name in ("api user", "worker user"))
    assert "not checked" in found.bad()["cloud"]
    code, text = made.bootstrap()
    assert code == 0 and "\n5 changes" in text, text
    still = made.check().bad()
    assert sorted(name.split()[0] for name in still) == ["clock", "service"] and all("dreams" in name for name in still)


def test_a_removal_is_refused_while_a_deletion_is_unfinished(made: Site):
    store = Store.from_url(f"sqlite:///{made.folder}/orchestrator.sqlite")
    record = accepted(
        id="d" * 32, project_id="p" * 32, project_name="p", domain_id="default", mode=Mode.REPORT, dry_run=True
    )
    store.create(record, TASKS, Event("deletion.accepted", "a test asks for it"))
    before = made.dump()
    code, text = made.remove()
    assert code == 1 and record.id in text and "openstack project deletion cancel" in text
    assert made.dump() == before
    store.close()


def test_a_removal_leaves_nothing_and_what_others_made(made: Site, fresh: list[str], mistakes):
    admin = made.cloud.admin
    (entry,) = admin.call("GET", "/services?type=project-cleanup")["services"]
    foreign = {"service_id": entry["id"], "interface": "admin", "region_id": "Elsewhere", "url": "http://other"}
    endpoint = admin.call("POST", "/endpoints", {"endpoint": foreign})["endpoint"]
    code, text = made.remove("--no-database")
    assert code == 0 and f"({endpoint['id']}), made by another person" in text and "it has endpoints of others" in text
    (kept,) = admin.call("GET", "/services?type=project-cleanup")["services"]
    assert not [name for name, value in kept.items() if name.startswith("cleanup_orchestrator") and value]
    admin.call("DELETE", f"/services/{entry['id']}")
    # What the mistakes left.
    (dreams,) = admin.call("GET", "/services?type=dreams")["services"]
    admin.call("DELETE", f"/services/{dreams['id']}")
    admin.call("DELETE", "/regions/Elsewhere")
    (later,) = admin.call("GET", "/domains?name=made%20later")["domains"]
    admin.call("PATCH", f"/domains/{later['id']}", {"domain": {"enabled": False}})
    admin.call("DELETE", f"/domains/{later['id']}")
    assert made.dump() == fresh
