"""The files for Ansible, kolla-ansible and OpenStack-Ansible in ``etc/``: they fit this package and its manual.

`test_ansible.py` runs the role. Nothing here runs kolla-ansible or OpenStack-Ansible.
"""

import configparser
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
import sqlalchemy as sa
import yaml
from keystoneauth1 import loading
from oslo_config import cfg
from oslo_messaging.transport import TransportURL

from cleanup_orchestrator import opts
from tests.support import containerfile
from tests.support.cases import each_case
from tests.support.commit import ROOT, tracked

ETC = ROOT / "etc"
ROLE = ETC / "ansible" / "roles" / "cleanup_orchestrator"
MANUAL = (ROOT / "doc" / "source" / "admin" / "install.rst").read_text()
#: Keywords of a task that are no module.
KEYWORDS = {
    "become", "block", "changed_when", "check_mode", "delegate_to", "environment", "failed_when", "listen", "loop",
    "loop_control", "name", "no_log", "notify", "register", "run_once", "vars", "when",
}  # fmt: skip
SECRET = re.compile(r"cleanup_orchestrator_(?:\w*_password|\w*_secret\w*|rabbitmq_login|\w*_login|\w*_base)\b")
YAML = [path for path in tracked("etc") if path.endswith((".yml", ".yaml"))]


@each_case("path", YAML)
def test_a_yaml_file_is_yaml(path):
    assert list(yaml.safe_load_all((ROOT / path).read_text()))


def flat(tasks):
    """Return the tasks, and those of their blocks, with the `vars` and `no_log` that they inherit."""
    for task in tasks:
        if "block" in task:
            yield from flat({**{k: task[k] for k in ("when", "vars") if k in task}, **one} for one in task["block"])
        else:
            yield task


def tasks(*names):
    paths = [ROLE / "tasks" / name for name in names] or sorted((ROLE / "tasks").glob("*.yml"))
    return [(path.name, task) for path in paths for task in flat(yaml.safe_load(path.read_text()))]


def module(task):
    (found,) = set(task) - KEYWORDS
    return found


def test_every_task_uses_a_module_of_ansible_core():
    found = {(name, module(task)) for name, task in tasks()}
    handlers = yaml.safe_load((ROLE / "handlers" / "main.yml").read_text())
    found |= {("handlers", module(task)) for task in handlers}
    assert len(found) > 20
    assert [one for one in found if not one[1].startswith("ansible.builtin.")] == []


def test_a_task_with_a_secret_does_not_show_it():
    """A task that only checks whether a secret is there shows the condition, and not the secret."""
    secret = [
        (name, task)
        for name, task in tasks()
        if SECRET.search(json.dumps(task)) and "ansible.builtin.assert" not in task
    ]
    assert len(secret) > 7
    shown = [(name, task["name"]) for name, task in secret if not task.get("no_log")]
    harmless = {("keystone_options.yml", "Write the options of the package")}
    conditions = {
        (name, task["name"])
        for name, task in secret
        if not SECRET.search(json.dumps({key: value for key, value in task.items() if key != "when"}))
        and not re.search(r"(?<!set_)database_password", json.dumps(task["when"]))
    }
    assert set(shown) - harmless - conditions == set()


def test_every_setting_of_the_role_is_documented_by_a_default_or_required():
    defaults = (ROLE / "defaults" / "main.yml").read_text()
    known = set(re.findall(r"\bcleanup_orchestrator_\w+", defaults))
    known |= set(yaml.safe_load((ROLE / "vars" / "main.yml").read_text()))
    known |= set(yaml.safe_load((ROLE / "vars" / "Debian.yml").read_text()))
    for _, task in tasks():
        known |= {task.get("register"), *task.get("vars", {}), *task.get("ansible.builtin.set_fact", {})}
    texts = [path.read_text() for path in ROLE.rglob("*") if path.is_file()]
    texts += [path.read_text() for path in (ETC / "ansible").glob("*.yml")]
    used = set().union(*(re.findall(r"(?<!vault_)\b(cleanup_orchestrator_\w+)", text) for text in texts))
    playbook = {"cleanup_orchestrator_become", "cleanup_orchestrator_serial"}
    # Parts of Python's names, of the wheel's name, and of sections of nginx.
    assert used - known - playbook <= {"cleanup_orchestrator_service"}


def test_debian_and_red_hat_have_the_same_names():
    names = [set(yaml.safe_load((ROLE / "vars" / f"{family}.yml").read_text())) for family in ("Debian", "RedHat")]
    assert names[0] == names[1]


def ansible(*arguments, cwd):
    command = [sys.executable, "-m", "ansible", "playbook", *map(str, arguments)]
    environment = {**os.environ, "ANSIBLE_HOME": str(cwd / "home"), "ANSIBLE_PIPELINING": "1"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("playbook", ["ansible/playbook.yml", "openstack-ansible/horizon-panels.yml"])
def test_ansible_accepts_the_playbook(playbook, tmp_path):
    ansible("--syntax-check", "-i", ETC / "ansible" / "inventory.example.yml", ETC / playbook, cwd=tmp_path)


WRITTEN = ("Write the common file", "Write the file of the API", "Write the file of the workers")
#: Text that must be quoted in a URL, or in a configuration file.
AWKWARD = "'%s'a/b@c:d%%e$f\"g#h;i é "


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """The files that the role writes from the example inventory: its template tasks, without owners and conditions."""
    folder = tmp_path_factory.mktemp("rendered")
    role = folder / "roles" / "rendered"
    (role / "tasks").mkdir(parents=True)
    for name in ("defaults", "vars", "templates"):
        (role / name).symlink_to(ROLE / name)
    chosen = []
    for _, task in tasks("configuration.yml", "keystone_options.yml", "proxy.yml"):
        if given := task.get("ansible.builtin.template"):
            # nginx has a file of the same name as the processes.
            target = "nginx.conf" if "nginx" in given["dest"] else Path(given["dest"]).name
            template = {"src": given["src"], "dest": str(folder / target)}
            chosen.append({"vars": task.get("vars", {}), "ansible.builtin.template": template})
    (role / "tasks" / "main.yml").write_text(json.dumps(chosen))
    parts = ("database_password", "rabbitmq_password", "worker_password", "api_password", "janitor_secret")
    more = {
        **{f"vault_cleanup_{name}": {"__ansible_unsafe": AWKWARD % name} for name in parts},
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "cleanup_orchestrator_memcached_servers": ["memcached1:11211", "memcached2:11211"],
        "cleanup_orchestrator_memcache_secret_key": "x" * 32,
        "cleanup_orchestrator_settings": {"drain": {"inherited_grants": "block"}, "limits": {"calls_at_once": 4}},
        "cleanup_orchestrator_engine_settings": {"keystone_notifications": {"listen": True}},
    }
    (folder / "more.json").write_text(json.dumps(more))
    play = {"hosts": "cleanup1.example.org", "gather_facts": False, "roles": ["rendered"]}
    (folder / "play.json").write_text(json.dumps([play]))
    inventory = ETC / "ansible" / "inventory.example.yml"
    ansible("-i", inventory, "-e", f"@{folder}/more.json", folder / "play.json", cwd=folder)
    return folder


@functools.cache
def declared(sample):
    """Return the options of a sample, as {section: names}."""
    found, section = {}, ""
    for line in (ETC / sample).read_text().splitlines():
        if header := re.match(r"\[(\S+)\]$", line):
            section = header[1]
        elif option := re.match(r"#?(\w+) = ?", line):
            found.setdefault(section, set()).add(option[1])
    return found


def sections(path):
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    parser.optionxform = str
    parser.read(path)
    assert parser.sections()
    return {section: dict(parser[section]) for section in parser.sections()}


AUTH = {o.dest for o in loading.get_auth_plugin_conf_options("v3password")}


def unknown(path, sample):
    return [
        f"[{section}] {option}"
        for section, options in sections(path).items()
        for option in options
        if option not in declared(sample).get(section, set())
        and not ("auth_type" in options and option in AUTH | {"auth_type"})
    ]


@pytest.mark.parametrize("part", ["", "-api", "-engine", "-worker"])
def test_the_role_writes_options_that_there_are(part, rendered):
    assert unknown(rendered / f"cleanup-orchestrator{part}.conf", "cleanup-orchestrator.conf.sample") == []


def test_an_option_that_there_is_not_is_seen(tmp_path):
    (tmp_path / "x.conf").write_text("[drain]\ndriver = fence\nrenamed = 1\n[none]\na = 1\n")
    assert unknown(tmp_path / "x.conf", "cleanup-orchestrator.conf.sample") == ["[drain] renamed", "[none] a"]


def read(*paths):
    conf = cfg.ConfigOpts()
    for group, options in opts.list_opts():
        if group in ("database", "janitor"):
            conf.register_opts(options, group=group)
    conf([f"--config-file={path}" for path in paths], project="cleanup-orchestrator")
    return conf


def test_the_processes_read_the_passwords_as_they_are(rendered):
    """Of the quoting of a URL and of oslo.config nothing is left."""
    common = rendered / "cleanup-orchestrator.conf"
    conf = read(common, rendered / "cleanup-orchestrator-worker.conf")
    assert sa.make_url(conf.database.connection).password == AWKWARD % "database_password"
    hosts = TransportURL.parse(cfg.ConfigOpts(), sections(common)["DEFAULT"]["transport_url"]).hosts
    assert [(h.hostname, h.port, h.password) for h in hosts] == [
        (f"rabbit{n}.example.org", 5672, AWKWARD % "rabbitmq_password") for n in (1, 2)
    ]
    for part in ("api", "worker"):
        conf = read(common, rendered / f"cleanup-orchestrator-{part}.conf")
        for group in ("orchestrator", "keystone_authtoken") if part == "api" else ("orchestrator",):
            loading.register_auth_conf_options(conf, group)
            made = loading.load_auth_from_conf_options(conf, group)
            assert made.auth_methods[0].password == AWKWARD % f"{part}_password", group
    assert conf.janitor.secret == AWKWARD % "janitor_secret"


def test_a_secret_is_only_where_it_belongs(rendered):
    texts = {path.name: path.read_text() for path in rendered.glob("*.conf")}
    holders = {
        secret: {name for name, text in texts.items() if f"{secret}'a" in text or f"{secret}%27a" in text}
        for secret in ("database_password", "rabbitmq_password", "worker_password", "api_password", "janitor_secret")
    }
    common, api, worker = (f"cleanup-orchestrator{part}.conf" for part in ("", "-api", "-worker"))
    assert holders == {
        "database_password": {common},
        "rabbitmq_password": {common},
        "worker_password": {worker},
        "janitor_secret": {worker},
        "api_password": {api},
    }


def test_the_files_have_the_owners_and_modes_of_the_manual():
    pattern = r"install -m (\d+) -o (\S+)(?: -g (\S+))? \S+ \$conf/(\S+)$"
    manual = {name: (mode, owner, group or "root") for mode, owner, group, name in re.findall(pattern, MANUAL, re.M)}
    written = {
        Path(given["dest"]).name: (given["mode"], given["owner"], given["group"])
        for _, task in tasks("configuration.yml")
        if (given := task.get("ansible.builtin.template"))
    }
    assert written.pop("cleanup-orchestrator-engine.conf") == ("0400", "cleanup-orchestrator-engine", "root")
    assert written == manual
    (folder,) = [
        task["ansible.builtin.file"] for _, task in tasks("configuration.yml") if "ansible.builtin.file" in task
    ]
    (mode, owner, group) = re.search(r"install -d -m (\d+) -o (\S+) -g (\S+) \$conf$", MANUAL, re.M).groups()
    assert (folder["mode"], folder["owner"], folder["group"]) == (mode, owner, group)


def test_the_users_are_those_of_the_manual():
    users = [task for _, task in tasks("configuration.yml") if "ansible.builtin.user" in task]
    worker, others = (task["ansible.builtin.user"] for task in users)
    for user, loop in ((worker, []), (others, users[1]["loop"])):
        flags = "--create-home" if user["create_home"] else "--no-create-home"
        command = f"useradd --system --home-dir {user['home']} {flags} --shell {user['shell']}"
        assert user["system"] is True and command in MANUAL
        assert all(f"cleanup-orchestrator-{name} " in MANUAL for name in loop)
    assert others["groups"] == ["cleanup-orchestrator"] and "usermod --append --groups cleanup-orchestrator" in MANUAL


def directives(text):
    lines = (line.strip() for line in text.splitlines())
    return {" ".join(line.split()) for line in lines if line.endswith(";")}


def test_nginx_gets_the_limits_of_the_manual(rendered):
    example = MANUAL.partition("Example for nginx::\n")[2].partition("\nThe monitoring port")[0]
    wanted = {line.replace("address", "cleanup_orchestrator") for line in directives(example)}
    wanted = {line.replace("binary_remote_cleanup_orchestrator", "binary_remote_addr") for line in wanted}
    # With a port other than 443 the links of the API need the port.
    wanted = {line.replace("Host $host;", "Host $http_host;") for line in wanted}
    found = directives((rendered / "nginx.conf").read_text())
    assert wanted - found == set() and found - wanted == {"server_name cleanup.example.org;"}


def test_the_options_for_keystone_are_those_of_the_package(rendered):
    assert unknown(rendered / "project-cleanup.conf", "keystone-project-cleanup.conf.sample") == []
    assert unknown(ETC / "kolla" / "config" / "keystone.conf", "keystone-project-cleanup.conf.sample") == []
    overrides = user_variables()["keystone_keystone_conf_overrides"]
    assert set(overrides["project_cleanup"]) <= declared("keystone-project-cleanup.conf.sample")["project_cleanup"]


def user_variables():
    return yaml.safe_load((ETC / "openstack-ansible" / "user_variables.yml").read_text())


def test_the_application_for_keystone_is_the_one_of_the_package():
    named = [user_variables()["keystone_uwsgi_ini_overrides"]["uwsgi"]["wsgi"]]
    for name in ("ansible.rst", "kolla.rst", "openstack-ansible.rst"):
        named += re.findall(r"cleanup_orchestrator\.keystone\.\w+:\w+", (ROOT / "doc/source/admin" / name).read_text())
    named += re.findall(r"cleanup_orchestrator\.keystone\.\w+:\w+", (ROLE / "tasks" / "keystone.yml").read_text())
    assert set(named) == {"cleanup_orchestrator.keystone.wsgi:application"}
    assert "\napplication = " in (ROOT / "cleanup_orchestrator" / "keystone" / "wsgi.py").read_text()


COPIES = ("ansible/roles/cleanup_orchestrator/tasks/horizon.yml", "kolla/template-overrides.j2",
          "openstack-ansible/horizon-panels.yml")  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_the_panels_are_copied_as_the_manual_copies_them(name):
    text = (ETC / name).read_text()
    page = (ROOT / "doc" / "source" / "user" / "dashboard.rst").read_text()
    enabled = '"$panels"/enabled/_309*_project_*.py "$horizon/local/enabled/"'
    settings = '"$panels/local_settings.d/_3090_project_cleanup.py" "$horizon/local/local_settings.d/"'
    assert enabled in text and settings in text and enabled in page and settings in page
    dashboard = ROOT / "cleanup_orchestrator" / "dashboard"
    assert list((dashboard / "enabled").glob("_309*_project_*.py"))
    assert (dashboard / "local_settings.d" / "_3090_project_cleanup.py").exists()


def test_the_image_of_horizon_gets_one_instruction_that_a_shell_can_read(tmp_path):
    parent = "FROM base\n{% block horizon_footer %}{% endblock %}\n{% block footer %}{% endblock %}\n"
    loader = jinja2.DictLoader({"parent": parent, "ours": (ETC / "kolla" / "template-overrides.j2").read_text()})
    made = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined).get_template("ours")
    (instruction,) = re.findall(r"^RUN (.*(?:\n    .*)*)", made.render(parent_template="parent"), re.M)
    assert "FROM base" in made.render(parent_template="parent")
    subprocess.run(["sh", "-n", "-c", instruction], check=True)


def test_the_images_get_the_package_as_a_plugin():
    assert set(sections(ETC / "kolla" / "kolla-build.conf")) == {
        "keystone-plugin-cleanup-orchestrator", "horizon-plugin-cleanup-orchestrator",
    }  # fmt: skip


CONTAINER = ETC / "container"


def test_the_recipe_has_only_instructions_that_the_tests_run():
    steps = containerfile.parse((CONTAINER / "Containerfile").read_text())
    assert [rest for name, rest in steps if name == "FROM"] == ["debian:bookworm-slim AS build", "debian:bookworm-slim"]
    last = dict(steps[[name for name, _ in steps].index("FROM", 1) :])
    assert last["USER"] == "42790:42790" and json.loads(last["CMD"]) == ["api"]
    assert json.loads(last["ENTRYPOINT"]) == ["/usr/local/bin/entrypoint"]
    assert json.loads(last["HEALTHCHECK"].partition("CMD ")[2]) == ["entrypoint", "health"]
    with pytest.raises(containerfile.NotSupported):
        containerfile.parse("FROM debian:bookworm-slim\nADD . /\n")


def test_the_image_changes_lines_that_the_configuration_of_uwsgi_has():
    recipe, shipped = (CONTAINER / "Containerfile").read_text(), (ETC / "cleanup-orchestrator-uwsgi.ini").read_text()
    removed = re.findall(r"-e '/\^([\w-]+ = )/d'", recipe)
    assert removed == ["uid = ", "gid = ", "add-gid = "]
    assert [line for line in removed if f"\n{line}" not in shipped] == []
    assert r"^http-socket = 127\.0\.0\.1:8790$" in recipe and "\nhttp-socket = 127.0.0.1:8790\n" in shipped
    files = re.search(r"^env = (\S+)$", shipped, re.M)[1]
    assert f"\nENV {files}\n" in recipe


def test_the_image_starts_what_the_units_start():
    entrypoint = (CONTAINER / "entrypoint").read_text().replace("$etc", "/etc/cleanup-orchestrator").replace('"', "")
    common = re.search(r"^common=(.*)$", entrypoint, re.M)[1]
    for name in ("engine", "worker"):
        unit = (ETC / "systemd" / f"cleanup-orchestrator-{name}.service").read_text()
        command = re.search(r"^ExecStart=/usr/bin/(.*)$", unit, re.M)[1]
        assert f"exec {command} ;;" in entrypoint.replace("$common", common)
    assert os.access(CONTAINER / "entrypoint", os.X_OK)
