"""``etc/`` in step with the source: the samples are what the generators write now (``tox -e genconfig``)."""

import ast
import configparser
import re
from pathlib import Path

import pytest
from keystoneauth1 import loading
from keystonemiddleware.auth_token import list_opts as auth_token_options
from oslo_config import cfg, generator
from oslo_policy import generator as policy_generator

from cleanup_orchestrator import opts
from cleanup_orchestrator.cloud import janitors
from cleanup_orchestrator.keystone import options as keystone_options
from tests.support.cases import each_case
from tests.support.commit import tracked

ROOT = Path(__file__).parents[3]
ETC = ROOT / "etc"
OURS = "cleanup_orchestrator"
HEADER = re.compile(r"#\n# From (\S+)\n#\n")


def namespaces():
    lines = (ETC / "oslo-config-generator.conf").read_text().splitlines()
    return [line.split("=")[1].strip() for line in lines if line.startswith("namespace")]


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    path = tmp_path_factory.mktemp("samples") / "config"
    generator.main(["--config-file", str(ETC / "oslo-config-generator.conf"), "--output-file", str(path)])
    return path.read_text()


@pytest.fixture(scope="module")
def committed():
    return (ETC / "cleanup-orchestrator.conf.sample").read_text()


def blocks(sample):
    """Return the options of a sample by (group, namespace), each as its name and its paragraph."""
    found = {}
    for section in re.split(r"^(?=\[)", sample, flags=re.M)[1:]:
        group = section[1 : section.index("]")]
        parts = HEADER.split(section)
        for namespace, text in zip(parts[1::2], parts[2::2], strict=True):
            paragraphs = [paragraph.strip() for paragraph in text.split("\n\n") if paragraph.strip()]
            found[group, namespace] = [(option(paragraph), paragraph) for paragraph in paragraphs]
    return found


def option(paragraph):
    (*_, name) = re.findall(r"^#(\w+) = ?", paragraph, flags=re.M)
    return name


def test_the_sample_options_are_up_to_date(generated, committed):
    """Our part of a sample is exactly what is generated. Of a library's options only the names are compared.

    A library changes the texts of its options from release to release.
    """
    theirs = {o.name.replace("-", "_") for o in loading.get_auth_common_conf_options()}
    theirs |= {o.name.replace("-", "_") for o in loading.get_auth_plugin_conf_options("v3password")}
    theirs |= {o.name.replace("-", "_") for o in loading.get_session_conf_options()}

    def ours(sample):
        return {
            group: [name if name in theirs else paragraph for name, paragraph in options]
            for (group, namespace), options in blocks(sample).items()
            if namespace == OURS
        }

    assert ours(committed), "empty: run tox -e genconfig"
    assert ours(committed) == ours(generated), "run tox -e genconfig"


def test_every_librarys_options_are_there(generated, committed):
    assert set(blocks(committed)) == set(blocks(generated)), "run tox -e genconfig"
    assert {namespace for _, namespace in blocks(committed)} == set(namespaces())


def test_the_sample_configuration_is_a_configuration(committed, tmp_path):
    """A sample with every option uncommented is valid, and each value of ours is the default."""
    path = tmp_path / "all.conf"
    path.write_text(re.sub(r"^#(?=\w+ =)(?!\w+ = <None>)", "", committed, flags=re.M))
    required = tmp_path / "required.conf"
    conf = cfg.ConfigOpts()
    lines = []
    for group, options in opts.list_opts():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)
        lines += [f"[{group}]\n{one.dest} = something\n" for one in options if one.required and one.default is None]
    required.write_text("".join(lines))
    conf(["--config-file", str(path), "--config-file", str(required)], project="cleanup-orchestrator")
    for group, options in opts.list_opts():
        for one in options:
            value = conf[one.dest] if group == "DEFAULT" else conf[group][one.dest]
            if one.sample_default is None and not (one.required and one.default is None):
                assert value == one.default, f"[{group}] {one.name}"


def test_the_sample_for_keystone_is_in_step(tmp_path):
    path = tmp_path / "config"
    generator.main(["--config-file", str(ETC / "oslo-config-generator-keystone.conf"), "--output-file", str(path)])
    assert (ETC / "keystone-project-cleanup.conf.sample").read_text() == path.read_text(), "run tox -e genconfig"


def test_the_sample_policy_is_in_step(tmp_path):
    path = tmp_path / "policy"
    arguments = ["--config-file", str(ETC / "oslo-policy-generator.conf"), "--output-file", str(path)]
    policy_generator.generate_sample(arguments, conf=cfg.ConfigOpts())
    assert (ETC / "policy.yaml.sample").read_text() == path.read_text(), "run tox -e genconfig"


#: Folders of the manual, and not of the machine.
FOLDERS = r"opt/(?:cleanup-orchestrator|horizon/bin|keystone/bin)\b"


@each_case("path", tracked("etc"))
def test_nothing_of_the_machine_that_wrote_it(path):
    assert re.findall(rf"/(?!{FOLDERS})(?:root|home|tmp|work|opt)\b\S*", (ROOT / path).read_text()) == []


def test_every_module_with_options_is_collected():
    declared = set()
    for path in (ROOT / OURS).rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(isinstance(target, ast.Name) and target.id == "OPTS" for target in targets):
                declared.add(".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert declared == {*opts.MODULES, *keystone_options.MODULES}


def test_every_option_has_a_help_text():
    groups = [*opts.list_opts(), *keystone_options.list_opts()]
    missing = [f"[{group}] {one.name}" for group, declared in groups for one in declared if not one.help]
    assert missing == []


def sections(name):
    found = configparser.ConfigParser(interpolation=None)
    found.read(ETC / name)
    return found


def unit_of(name):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(ETC / "systemd" / f"cleanup-orchestrator-{name}.service")
    return unit["Service"]


@pytest.mark.parametrize("name", ["api", "worker"])
def test_the_small_samples_are_configurations(name, tmp_path):
    """Each option is one that there is, and keystoneauth makes an identity of each section that has one."""
    conf = cfg.ConfigOpts()
    clouds_and_more = [*opts.list_opts(), *auth_token_options()]
    auth = {o.dest for o in loading.get_auth_plugin_conf_options("v3password")} | {"auth_type"}
    path = ETC / f"cleanup-orchestrator-{name}.conf.sample"
    conf([f"--config-file={path}"], project="cleanup-orchestrator")
    groups = {group: values for group, values in sections(path.name).items() if group != "DEFAULT"}
    assert groups
    for group, values in groups.items():
        assert set(values) <= auth | {o.dest for where, options in clouds_and_more if where == group for o in options}
        loading.register_auth_conf_options(conf, group)
        made = loading.load_auth_from_conf_options(conf, group)
        assert (made is not None) is ("auth_type" in values) is (group != janitors.GROUP)


def test_the_file_of_the_api_has_no_password_of_an_admin_and_its_process_reads_no_other():
    ours = sections("cleanup-orchestrator-api.conf.sample")
    admin = sections("cleanup-orchestrator-worker.conf.sample")["orchestrator"]["username"]
    for group in ("orchestrator", "keystone_authtoken"):
        assert ours[group]["username"] != admin
        assert ours[group]["system_scope"] == "all" and "project_name" not in ours[group]
    assert ours["keystone_authtoken"]["memcache_security_strategy"] == "ENCRYPT"
    starts = {name: unit_of(name)["ExecStart"] for name in ("api", "engine", "worker")}
    files = {name: re.findall(r"--config-file \S+/(\S+)", start) for name, start in starts.items()}
    common = "cleanup-orchestrator.conf"
    assert files == {
        "api": [common, "cleanup-orchestrator-api.conf"],
        "engine": [common],
        "worker": [common, "cleanup-orchestrator-worker.conf"],
    }
    users = {name: unit_of(name)["User"] for name in starts}
    assert len(set(users.values())) == 3, "or one could read the worker's file and memory"
    owner = "owner " + users["worker"] + "."
    assert owner in (ETC / "cleanup-orchestrator-worker.conf.sample").read_text()
    assert "cleanup-orchestrator-api.conf" in (ETC / "cleanup-orchestrator-uwsgi.ini").read_text()
    assert "cleanup-orchestrator-worker.conf" not in (ETC / "cleanup-orchestrator-uwsgi.ini").read_text()


@pytest.mark.parametrize("name", ["api", "engine"])
def test_who_must_not_read_the_workers_file_has_a_user_that_the_manual_makes(name):
    """The common file is for the group; the workers' file is for its owner alone."""
    unit, own = unit_of(name), f"cleanup-orchestrator-{name}"
    given = [unit[key] for key in ("User", "Group", "SupplementaryGroups", "StateDirectory", "LogsDirectory")]
    assert given == [own, own, "cleanup-orchestrator", own, own]
    manual = (ROOT / "doc" / "source" / "admin" / "install.rst").read_text()
    made = re.search(r"for name in (.*?) ; do\n *useradd --system", manual)
    assert made is not None and own in made[1].split()
    worker = unit_of("worker")["User"]
    file = "cleanup-orchestrator-worker.conf"
    assert f"install -m 0400 -o {worker} {file}.sample $conf/{file}" in manual
    assert worker not in made[1].split()


@pytest.mark.parametrize("name", ["api", "engine", "worker"])
def test_a_unit_bounds_its_memory_and_sees_no_other_process(name):
    unit = unit_of(name)
    assert (unit["ProtectProc"], unit["ProcSubset"]) == ("invisible", "pid")
    assert unit["MemoryMax"] in (ROOT / "doc" / "source" / "admin" / "install.rst").read_text()


@pytest.mark.parametrize("name", ["api", "engine", "worker"])
def test_the_units_start_what_is_installed(name):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(ETC / "systemd" / f"cleanup-orchestrator-{name}.service")
    setup = configparser.ConfigParser(delimiters=("=",))
    setup.read(ROOT / "setup.cfg")
    program = Path(unit["Service"]["ExecStart"].split()[0]).name
    assert f"{program} =" in setup["options.entry_points"]["console_scripts"]
    assert unit["Service"]["Type"] == "simple"
