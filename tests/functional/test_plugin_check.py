"""``plugin check`` on a cloud: honest plugins pass, each lie fails its rule, and no write call is made."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
import types

import pytest
import requests
import yaml

from cleanup_orchestrator.cloud.session import SAFE_METHODS
from cleanup_orchestrator.cmd import manage, plugin_cloud, plugin_live
from cleanup_orchestrator.core.conformance import Verdict
from cleanup_orchestrator.errors import WriteRefused
from cleanup_orchestrator.plugins import conformance
from cleanup_orchestrator.plugins.base import SCOPED, LastChange, Paging, ResourceType, Rest, Service
from tests.emulated.cloud import OWN_PROJECT, USER
from tests.support.emulated_site import emulated, with_cloud  # noqa: F401  a fixture

ROOT = pathlib.Path(__file__).parents[2]
KIND = "network.address_group"
ROWS = 3
CLOUD = {"projects": 0, "bystanders": 1, "seed": 3, "small": True, "things": {KIND: ROWS}}
PATH = "/address-groups"
LIST = Rest("network", PATH, key="address_groups", query={"project_id": "{project_id}"}, paging=Paging.LINKS)
EVERYTHING = Rest("network", PATH, key="address_groups", query={"limit": 100}, paging=Paging.LINKS)
PROOF = Rest("network", "/quotas", key="quotas")
HONEST = ResourceType(
    "address_group",
    list=LIST,
    show=Rest("network", PATH + "/{id}", key="address_group"),
    delete=Rest("network", PATH + "/{id}", method="DELETE"),
    created="created_at",
    parts=(),
    proof=PROOF,
    source="GET, DELETE /v2.0/address-groups",
)


@pytest.fixture
def clouds(emulated, tmp_path, monkeypatch):  # noqa: F811
    """``clouds.yaml`` with the orchestrator's user, and with a member of another project."""
    project = emulated.projects[0]
    emulated.grant(project, emulated.orchestrator_id, "admin")
    emulated.grant(emulated.bystanders[0], emulated.add_user("eve"), "member")
    own = next(id_ for id_, one in emulated.identity.projects.items() if one.name == OWN_PROJECT)

    def entry(user, project_id):
        who = {"username": user, "password": user, "user_domain_id": "default", "project_id": project_id}
        return {"auth": {"auth_url": emulated.auth_url, **who}, "region_name": "RegionOne"}

    file = tmp_path / "clouds.yaml"
    entries = {"admin": entry(USER, own), "eve": entry("eve", emulated.bystanders[0]), "inside": entry(USER, project)}
    file.write_text(yaml.safe_dump({"clouds": entries}))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(file))
    yield emulated
    # Requests for tokens aside, no request that could change something has reached the cloud. A list of security groups
    # makes Neutron create the default group of the token's project: the audit records it with its method, GET.
    sent = {
        (write.method, write.target) for write in emulated.audit.writes if not write.target.endswith("/auth/tokens")
    }
    assert {each for each in sent if each[0] not in SAFE_METHODS} == set()


@pytest.mark.parametrize("which", ["admin", "own", "member"])
def test_no_connection_of_a_check_can_write(clouds, which):
    tokens = plugin_cloud.connect("admin", clouds.projects[0], "eve", Service("network", ()), {}, 60.0)
    connection = getattr(tokens, which)
    project = connection.session.get_project_id()
    for write in (
        lambda: connection.network.create_network(name="mine"),
        lambda: connection.session.request(f"{clouds.url}/x", "PATCH"),
        lambda: connection.connect_as(project_id=project).network.delete_network("x"),
    ):
        with pytest.raises(WriteRefused):
            write()


def findings(clouds, type_, member="eve", seconds=60.0):
    """Return what each rule says about a type, by the id of the rule."""
    service = Service("network", (type_,))
    tokens = plugin_cloud.connect("admin", clouds.projects[0], member, service, {}, seconds)
    return {found.rule: found for found in plugin_live.check(tokens, service)}


def failed(found):
    return [rule for rule, each in found.items() if each.verdict is Verdict.FAILED]


def test_an_honest_type_passes_each_rule(clouds):
    found = findings(clouds, HONEST)
    assert {rule: each.verdict for rule, each in found.items()} == dict.fromkeys(plugin_live.RULES, Verdict.OK)
    assert f"{ROWS} of the project" in found["list"].text
    assert found["pages"].text == "the same 3 rows in pages of 1"
    assert "refused before it was sent: DELETE " in found["dry-delete"].text


# ---------------------------------------------------------------------------------------------------------------- lies
def list_without_owner(connection, project):
    """List, and lose the owner on the way."""
    return ({"id": row["id"], "name": row["name"]} for row in LIST.rows(connection, project))


def list_after_a_write(connection, project):
    """Tidy up, then list."""
    connection.network.post(PATH, json={"address_group": {"name": "mine"}})
    return LIST.rows(connection, project)


def list_in_spite_of_a_refusal(connection, project):
    """Tidy up, and list whether that worked or not."""
    try:
        connection.network.post(PATH, json={"address_group": {"name": "mine"}})
    except Exception:
        pass
    return LIST.rows(connection, project)


def list_what_is_to_come(connection, project):
    """List, and take the time of expiry for that of creation."""
    return ({**row, "created_at": "2999-12-31T23:59:59Z"} for row in LIST.rows(connection, project))


def list_ages(connection, project):
    """List, and take the age in seconds for the time of creation."""
    return ({**row, "created_at": 1_000_000_000} for row in LIST.rows(connection, project))


def list_with_sizes(connection, project):
    """List, and show the size of all but the first."""
    return ({**row, "bytes": n or None} for n, row in enumerate(LIST.rows(connection, project)))


def list_labels(connection, project):
    """List, and add the labels from elsewhere."""
    return ({**row, "labels": ["nightly"]} for row in LIST.rows(connection, project))


def list_everything(connection, project):
    """List the rows of all projects, as if the token were of the project."""
    return EVERYTHING.rows(connection, project)


def list_what_the_token_may_see(connection, project):
    """List like a service that shows others less, and says nothing of it. The emulated Neutron has no such policy."""
    access = connection.session.auth.get_access(connection.session)
    return LIST.rows(connection, project) if "admin" in access.role_names else []


def list_without_end(connection, project):
    """Ask again and again."""
    while True:
        connection.network.get("/extensions")
    yield {}


def list_nothing_on_an_error(connection, project):
    """Take an error for an empty list."""
    try:
        return list(Rest("network", "/no-such-collection", key="x").rows(connection, project))
    except Exception:
        return []


def show_any(connection, project, resource):
    """Show the first row of the list."""
    return next(LIST.rows(connection, project))


def delete_in_spite_of_a_refusal(connection, project, resource):
    """Delete, and go on whatever happened."""
    try:
        connection.network.delete(f"{PATH}/{resource.id}")
    except WriteRefused:
        pass


def delete_past_the_connection(connection, project, resource):
    """Delete with another HTTP client."""
    url = f"{connection.network.get_endpoint()}{PATH}/{resource.id}"
    requests.delete(url, headers={"X-Auth-Token": connection.session.get_token()}, timeout=60)


def delete_secretly(connection, project, resource):
    """Do the same, and raise nothing."""
    try:
        delete_past_the_connection(connection, project, resource)
    except Exception:
        pass


def delete_nothing(connection, project, resource):
    """Claim that it was deleted."""


def prepare_in_spite_of_a_refusal(connection, project, resource):
    """Change it before the delete, and go on whatever happened."""
    try:
        connection.network.put(f"{PATH}/{resource.id}", json={"address_group": {"shared": False}})
    except Exception:
        pass


LIES = {
    "drops the owner": ({"list": list_without_owner}, "owner", "3 of 3 rows have no 'project_id'"),
    "names another attribute": ({"owner": "owner_id"}, "owner", "rows have no 'owner_id'"),
    "names no time of creation": ({"created": "born_at"}, "created", "is listed without 'born_at'"),
    "names no time of the last change": ({"updated": LastChange("late")}, "created", "is listed without 'late'"),
    "says that no time is null": (
        {"updated": LastChange("late", null_until_changed=True)},
        "created",
        "would never be selected by its last change; correct 'updated'",
    ),
    "takes a name for a time": ({"created": "name"}, "created", "which is neither ISO 8601 nor seconds since 1970"),
    "takes another time for it": ({"list": list_what_is_to_come}, "created", "which is in the future"),
    "takes an age for a time": ({"list": list_ages}, "created", "= '1000000000', which is before 2010"),
    "reads the first page only": (
        {"list": dataclasses.replace(LIST, paging=Paging.NONE)},
        "pages",
        "in pages of 1 it lists 1 of 3 rows",
    ),
    "writes in its list": ({"list": list_after_a_write}, "list", "makes a write call while it lists"),
    "writes in its list and hides it": ({"list": list_in_spite_of_a_refusal}, "list", "POST "),
    "never ends": ({"list": list_without_end}, "list", "more than 2 seconds"),
    "claims the rows of all projects": (
        {"list": list_everything, "owner": SCOPED},
        "empty",
        "count as those of a project that does not exist",
    ),
    "shows another resource": ({"show": show_any}, "show", "was listed with the id"),
    "shows no tags": (
        {"list": list_labels, "tags": "labels"},
        "show",
        "was listed with 'labels', and is shown without",
    ),
    "catches the guard's refusal": (
        {"delete": delete_in_spite_of_a_refusal},
        "dry-delete",
        "catches the guard's refusal of DELETE",
    ),
    "catches it before the delete": (
        {"prepare": (prepare_in_spite_of_a_refusal,)},
        "dry-delete",
        "prepare of",
    ),
    "deletes past its connection": ({"delete": delete_past_the_connection}, "dry-delete", "past its connection"),
    "deletes past it in secret": ({"delete": delete_secretly}, "dry-delete", "past its connection"),
    "deletes nothing": ({"delete": delete_nothing}, "dry-delete", "makes no write call"),
    "deletes by name": (
        {"delete": Rest("network", PATH + "/{row[name]}", method="DELETE")},
        "dry-delete",
        "by name, not by immutable id",
    ),
    "looks empty without rights": (
        {"list": list_what_the_token_may_see, "proof": None},
        "proof",
        "without 3 of the project's 3 rows, and no error",
    ),
    "proves nothing": (
        {"proof": Rest("network", "/extensions", key="extensions")},
        "proof",
        "answered to a user without the admin role",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_fails_its_rule(clouds, lie):
    changes, rule, text = LIES[lie]
    seconds = 2.0 if lie == "never ends" else 60.0
    found = findings(clouds, dataclasses.replace(HONEST, **changes), seconds=seconds)
    assert failed(found)[0] == rule, found
    assert text in found[rule].text


def test_an_error_that_is_taken_for_an_empty_list_is_not_seen(clouds):
    """What a check cannot know: whether the project really has nothing. It says that it did not check."""
    found = findings(clouds, dataclasses.replace(HONEST, list=list_nothing_on_an_error))
    assert failed(found) == []
    unknown = [rule for rule, each in found.items() if each.verdict is Verdict.NOT_CHECKED]
    assert unknown == ["owner", "created", "pages", "show", "dry-delete"]


@pytest.mark.parametrize(
    ("name", "verdict", "text"),
    [
        ("name", Verdict.WARNING, "no resource is listed with a size in 'name'; correct 'size' or the list call"),
        ("bytes", Verdict.OK, f"{ROWS - 1} of {ROWS} resources are listed with a size in 'bytes'"),
    ],
)
def test_a_size_that_no_row_shows_is_a_warning(clouds, name, verdict, text):
    found = findings(clouds, dataclasses.replace(HONEST, size=(name, 1), list=list_with_sizes))
    assert (found["size"].verdict, found["size"].text, failed(found)) == (verdict, text, [])


# ------------------------------------------------------------------------------------------------------------- command
def check(clouds, *arguments):
    return manage.main(["plugin", "check", *arguments])


@with_cloud(things={}, projects=1, everything=True, small=False)
@pytest.mark.parametrize("service", ["identity", "image", "key-manager", "network", "object-store"])
def test_the_plugins_that_come_along_pass_on_a_cloud(clouds, service, capsys):
    arguments = (service, "--cloud", "admin", "--project", clouds.projects[0], "--as-member", "eve", "--format", "json")
    code = check(clouds, *arguments)
    said = json.loads(capsys.readouterr().out)
    assert [each for each in said["findings"] if each["answer"] in ("FAILED", "warning")] == []
    assert (code, said["counts"]["FAILED"]) == (0, 0)
    print(service, said["counts"])


def test_a_line_for_each_rule_and_a_summary(clouds, capsys):
    assert check(clouds, "key-manager", "--cloud", "admin", "--project", clouds.projects[0]) == 0
    *lines, summary = capsys.readouterr().out.splitlines()
    assert "ok           key-manager.secret  list: 0 rows: 0 of the project, 0 of other projects, " in "\n".join(lines)
    numbers = [sum(line.startswith(verdict) for line in lines) for verdict in Verdict]
    expected = ", ".join(f"{number} {verdict}" for number, verdict in zip(numbers, Verdict, strict=True))
    assert summary == f"key-manager: {expected}"


def test_a_type_that_needs_a_token_of_the_project_says_how_to_get_one(clouds, capsys):
    clouds.identity.grants[clouds.projects[0]].clear()
    assert check(clouds, "key-manager", "--cloud", "admin", "--project", clouds.projects[0]) == 0
    out = capsys.readouterr().out
    assert "not checked  key-manager.secret  list: the type needs a token of the project" in out
    assert "give the user of cloud admin a role on it" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("network", "--cloud", "nope", "--project", "{project}"), "clouds.yaml, nope: ConfigException: Cloud nope"),
        (("network", "--cloud", "admin", "--project", "no-such"), "no project has the id no-such"),
        (("dns", "--cloud", "admin", "--project", "{project}"), "cloud admin has no endpoint of dns in region"),
        (
            ("network", "--cloud", "admin", "--project", "{project}", "--as-member", "inside"),
            "--as-member inside: its token is of the project itself",
        ),
    ],
)
def test_what_prevents_a_check_is_one_line(clouds, capsys, arguments, text):
    given = [each.format(project=clouds.projects[0]) for each in arguments]
    assert check(clouds, *given) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert text in line


# ------------------------------------------------------------------------------------------------- without a cloud
@pytest.fixture
def module(monkeypatch):
    """A module that Python can import, with plugins in it."""
    made = types.ModuleType("plugins_of_a_vendor")
    made.GOOD = Service("function-engine", (dataclasses.replace(HONEST, list=dataclasses.replace(LIST)),))
    made.BAD = Service("function-engine", (dataclasses.replace(HONEST, source="", owner=""),))
    made.TWICE = Service("network", (HONEST,))
    made.OTHER = 5
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


@pytest.mark.parametrize(
    ("reference", "code", "text"),
    [
        ("GOOD", 0, ", 0 FAILED, 0 not checked"),
        ("BAD", 1, "FAILED       function-engine.address_group  source: "),
        ("TWICE", 1, "FAILED       network  registry: two plugins answer for network"),
    ],
)
def test_a_plugin_that_is_not_installed_is_named_by_its_module(module, capsys, reference, code, text):
    assert check(None, f"{module.__name__}:{reference}") == code
    assert text in capsys.readouterr().out


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("nothing", "no entry point 'nothing' is installed; there are: "),
        ("plugins_of_a_vendor:OTHER", "is int, and must be a Service"),
        ("plugins_of_a_vendor:MISSING", "does not load: AttributeError"),
        ("no.such.module:SERVICE", "does not load: ModuleNotFoundError"),
    ],
)
def test_a_plugin_that_does_not_load_is_one_line(module, capsys, reference, text):
    assert check(None, reference) == 1
    captured = capsys.readouterr()
    assert text in captured.err
    assert (len(captured.err.splitlines()), captured.out) == (1, "")


@pytest.mark.parametrize(
    "arguments",
    [("image", "--cloud", "x"), ("image", "--project", "x"), ("image", "--as-member", "x"), (), ("image", "--x")],
)
def test_a_wrong_command_line_is_2(arguments):
    with pytest.raises(SystemExit) as ended:
        check(None, *arguments)
    assert ended.value.code == 2


def test_every_rule_is_in_the_manual():
    """The page about plugins explains what each id of a rule means."""
    text = (ROOT / "doc" / "source" / "contributor" / "plugins.rst").read_text()
    rules = {found.rule for found in conformance.check(Service("function-engine", (HONEST,)))} | {"contract-version"}
    assert [rule for rule in sorted({*rules, *plugin_live.RULES}) if f"``{rule}``" not in text] == []
