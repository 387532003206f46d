"""Heat runs a template with the token of the delete request: no template may act on another project.

Each template here was made by a plain member, and Heat could not create what it asks for. Heat nevertheless calls the
delete of each of its resources. With an admin's token every one of them does harm, which is tested first; else the
other tests would prove nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openstack.connection import Connection

from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.drain import janitor
from cleanup_orchestrator.plugins.orchestration import SERVICE
from tests.cloud import filler, job, rows
from tests.cloud.conftest import Sweeper
from tests.cloud.fillings.base import Filled, Rest
from tests.cloud.job import Job
from tests.cloud.launcher import Cloud
from tests.support import sweeps

#: It compares rows of the whole cloud.
ALONE = True
TYPES = {type_.name: type_ for type_ in SERVICE.types}
TAG = secrets.token_hex(2)
SECONDS = 600
#: A second region of the catalog, with the same Heat in it.
FAR = f"Far-{TAG}"


class Victims:
    """Resources of others: roles of a cloud admin, one for each template, and a router with its interface."""

    def __init__(self, cloud: Cloud, admin: Connection, name: str) -> None:
        self.cloud, self.name = cloud, f"{name}-{TAG}"
        self.boss = cloud.admin.ensure_user(f"boss-{self.name}", "boss", f"boss-{self.name}", ("admin",))["id"]
        self.bystander = filler.fill(admin, f"bystander-{self.name}", only=())
        self.roles: dict[str, str] = {}
        network, owner = Rest(admin.network), {"name": self.name, "project_id": self.bystander.project_id}
        self.network = network.call("POST", "/networks", {"network": owner})["network"]["id"]
        body = {**owner, "network_id": self.network, "ip_version": 4, "cidr": "10.77.0.0/24"}
        self.subnet = network.call("POST", "/subnets", {"subnet": body})["subnet"]["id"]
        # Not by the network's name: Heat takes a router of that name for the network's default, and attaches it again.
        body = {**owner, "name": f"router-{self.name}"}
        self.router = network.call("POST", "/routers", {"router": body})["router"]["id"]
        network.call("PUT", f"/routers/{self.router}/add_router_interface", {"subnet_id": self.subnet})

    def rows(self) -> rows.Rows:
        """Return their rows in Keystone and Neutron, without columns that change by themselves."""
        ids = {self.boss, self.bystander.project_id, self.network, self.subnet, self.router, *self.roles.values()}
        found = rows.read(self.cloud).steady().naming(ids)
        return rows.Rows({place: its for place, its in found.tables.items() if place[0] in ("keystone", "neutron")})

    def role(self, template: str) -> tuple[str, str]:
        """The id of a role that the boss has, and of the project on which he has it: one for each template."""
        project = f"hq-{template}-{self.name}"
        self.cloud.admin.ensure_user(f"boss-{self.name}", "boss", project, ("admin",))
        project_id = self.cloud.admin.ensure("projects", "project", {"name": project}, domain_id="default")["id"]
        self.roles[template] = project_id
        return self.cloud.admin.ensure("roles", "role", {"name": "admin"})["id"], project_id


def hidden(value: str) -> dict[str, Any]:
    """Return a value that Heat resolves only after it has checked the references of the user."""
    return {"type": "OS::Heat::Value", "properties": {"type": "string", "value": value}}


def revoking(victims: Victims, template: str) -> dict[str, Any]:
    """Remove the admin role of the boss."""
    role, project = victims.role(template)
    return {
        "heat_template_version": "2018-08-31",
        "resources": {
            "user": hidden(victims.boss),
            "role": hidden(role),
            "project": hidden(project),
            "assignment": {
                "type": "My::Harmless::Thing",
                "properties": {
                    "user": {"get_attr": ["user", "value"]},
                    "roles": [{"role": {"get_attr": ["role", "value"]}, "project": {"get_attr": ["project", "value"]}}],
                },
            },
        },
    }


def detaching(victims: Victims) -> dict[str, Any]:
    """Remove an interface of another project's router."""
    return {
        "heat_template_version": "2018-08-31",
        "resources": {
            "router": hidden(victims.router),
            "subnet": hidden(victims.subnet),
            "association": {
                "type": "AWS::EC2::SubnetRouteTableAssociation",
                "properties": {
                    "RouteTableId": {"get_attr": ["router", "value"]},
                    "SubnetId": {"get_attr": ["subnet", "value"]},
                },
            },
        },
    }


#: Passes Heat's policy of who may use which type.
ALIAS = {"resource_registry": {"My::Harmless::Thing": "OS::Keystone::UserRoleAssignment"}}


def templates(victims: Victims) -> dict[str, dict[str, Any]]:
    """The body of each stack."""

    def around(name: str, resource: dict[str, Any]) -> dict[str, Any]:
        text = {"heat_template_version": "2018-08-31", "resources": {"inner": resource}}
        files = {"inner.yaml": yaml(revoking(victims, name))}
        return {"template": text, "files": files, "environment": ALIAS}

    remote = {
        "type": "OS::Heat::Stack",
        "properties": {"context": {"region_name": FAR}, "template": {"get_file": "remote.yaml"}},
    }
    return {
        "role": {"template": revoking(victims, "role"), "environment": ALIAS},
        "router": {"template": detaching(victims)},
        "nested": around("nested", {"type": "inner.yaml"}),
        "group": around(
            "group",
            {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": {"type": "inner.yaml"}}},
        ),
        "another-region": {
            "template": {"heat_template_version": "2018-08-31", "resources": {"remote": remote}},
            "files": {"remote.yaml": yaml(revoking(victims, "another-region"))},
            "environment": ALIAS,
        },
    }


def yaml(template: dict[str, Any]) -> str:
    """JSON is YAML."""
    return json.dumps(template)


@pytest.fixture(scope="module", autouse=True)
def far(full_cloud: Cloud) -> Iterator[None]:
    """The second region."""
    admin = full_cloud.admin
    admin.call("POST", "/regions", {"region": {"id": FAR}})
    (heat,) = (row for row in admin.call("GET", "/services")["services"] if row["type"] == "orchestration")
    found = admin.call("GET", f"/endpoints?service_id={heat['id']}")["endpoints"]
    wanted = ("service_id", "interface", "url", "enabled")
    made = [
        admin.call("POST", "/endpoints", {"endpoint": {name: row[name] for name in wanted} | {"region_id": FAR}})
        for row in found
    ]
    yield
    for one in made:
        admin.call("DELETE", f"/endpoints/{one['endpoint']['id']}")
    admin.call("DELETE", f"/regions/{FAR}")


def make(filled: Filled, victims: Victims) -> dict[str, str]:
    """Have a plain member make every stack; return their ids, by template, once Heat has failed to create them."""
    heat = Rest(filled.connection.orchestration)
    made = {
        name: heat.call("POST", "/stacks", {"stack_name": f"evil-{name}", **body})["stack"]["id"]
        for name, body in templates(victims).items()
    }
    deadline = time.monotonic() + SECONDS
    while True:
        rows = {row["id"]: row for row in heat.call("GET", "/stacks")["stacks"]}
        if all(rows[id_]["stack_status"] in ("CREATE_FAILED", "CREATE_COMPLETE") for id_ in made.values()):
            return made
        assert time.monotonic() < deadline, rows
        time.sleep(1)


def harm(sweeper: Sweeper, victims: Victims) -> set[str]:
    """Return the templates that have had their effect, by the databases."""
    found = set()
    for template, project_id in victims.roles.items():
        sql = "SELECT role_id FROM assignment WHERE actor_id = ? AND target_id = ?"
        if not sweeper.rows("keystone", sql, victims.boss, project_id):
            found.add(template)
    sql = "SELECT port_id FROM routerports WHERE router_id = ? AND port_type = 'network:router_interface'"
    if not sweeper.rows("neutron", sql, victims.router):
        found.add("router")
    return found


def until(enough: Callable[[], bool], what: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SECONDS
    while not enough():
        assert time.monotonic() < deadline, what()
        time.sleep(1)


def swept(sweeper: Sweeper, filled: Filled, **options: object) -> dict[str, StepResult]:
    return sweeper.delete(SERVICE, filled, **options)


def pausing(hook: str) -> dict[str, Any]:
    """A stack that pauses when it is deleted, and one in it that does."""
    version = {"heat_template_version": "2018-08-31"}
    resources = {"one": {"hooks": hook}, "below": {"leaf": {"hooks": [hook]}}}
    return {
        "stack_name": f"paused-{hook}",
        "template": {**version, "resources": {"one": hidden("x"), "below": {"type": "inner.yaml"}}},
        "files": {"inner.yaml": yaml({**version, "resources": {"leaf": hidden("x")}})},
        "environment": {"resource_registry": {"resources": resources}},
    }


def test_with_an_admins_token_each_template_does_harm(full_sweeper, full_cloud, full_admin):
    """Proves the danger. Without it the other tests of this file would prove nothing."""
    victims = Victims(full_cloud, full_admin, "control")
    filled = filler.fill(full_admin, f"templates-control-{TAG}", only=())
    made = make(filled, victims)
    assert harm(full_sweeper, victims) == set()
    full_sweeper.enter(filled)
    careless = dataclasses.replace(TYPES["stack"], user_content="")
    connection = full_sweeper.connection(filled.project_id, write=True)
    definition = full_sweeper.definition(SERVICE, filled)
    until(
        lambda: sweeps.delete(careless, connection, definition) and harm(full_sweeper, victims) == set(made),
        lambda: (harm(full_sweeper, victims), Rest(filled.connection.orchestration).call("GET", "/stacks")),
    )


def test_with_the_janitors_token_no_template_does_harm(full_sweeper, full_cloud, full_admin):
    victims = Victims(full_cloud, full_admin, "sweep")
    filled = filler.fill(full_admin, f"templates-sweep-{TAG}", only=())
    make(filled, victims)
    results: dict[str, StepResult] = {}

    def settled() -> bool:
        results.update(swept(full_sweeper, filled))
        left = results["failed_stack"].leftovers
        return results["stack"].outcome is Outcome.CLEAR and {one.reason for one in left} <= {Reason.ERROR}

    until(settled, lambda: results)
    # A member may not revoke a role. For the router Neutron answers 404, which Heat accepts as deleted.
    left = {one.name: one.message for one in results["failed_stack"].leftovers}
    assert "evil-router" not in left and left
    assert all("a member of its project may not delete what is in it" in message for message in left.values()), left
    # Those below an abandoned one are found by themselves.
    sql = "SELECT name FROM stack WHERE tenant = ? AND deleted_at IS NULL"
    there = functools.partial(full_sweeper.rows, "heat", sql, filled.project_id)
    until(lambda: bool(swept(full_sweeper, filled, abandon_forbidden_stacks=True)) and not there(), there)
    assert harm(full_sweeper, victims) == set()


def test_a_pause_in_a_template_delays_nothing(full_sweeper, full_admin):
    """A hook before or after the delete of a resource: Heat waits there for a signal."""
    filled = filler.fill(full_admin, f"templates-hooks-{TAG}", only=())
    heat = Rest(filled.connection.orchestration)
    for hook in ("pre-delete", "post-delete"):
        heat.call("POST", "/stacks", pausing(hook))
    listed = lambda: heat.call("GET", "/stacks", params={"show_nested": "true"})["stacks"]  # noqa: E731
    until(lambda: {row["stack_status"] for row in listed()} == {"CREATE_COMPLETE"}, listed)
    until(lambda: bool(swept(full_sweeper, filled)) and not listed(), listed)


def test_a_stack_goes_although_the_janitor_that_began_its_delete_is_gone(full_sweeper, full_admin, full_cloud):
    """A deletion was cancelled meanwhile: the trust that Heat made of its janitor is gone with the user."""
    filled = filler.fill(full_admin, f"templates-again-{TAG}", only=())
    heat = Rest(filled.connection.orchestration)
    made = heat.call("POST", "/stacks", pausing("pre-delete"))["stack"]
    listed = lambda: heat.call("GET", "/stacks", params={"show_nested": "true"})["stacks"]  # noqa: E731
    until(lambda: {row["stack_status"] for row in listed()} == {"CREATE_COMPLETE"}, listed)
    janitor = full_sweeper.janitor(filled.project_id)
    own = janitor.session.get_user_id()
    Rest(janitor.orchestration).call("DELETE", f"/stacks/paused-pre-delete/{made['id']}")
    sql = "SELECT id FROM trust WHERE trustor_user_id = ? AND deleted_at IS NULL"
    until(lambda: bool(full_sweeper.rows("keystone", sql, own)), listed)
    full_cloud.admin.call("DELETE", f"/users/{own}")
    assert full_sweeper.rows("keystone", sql, own) == []
    until(lambda: bool(swept(full_sweeper, filled)) and not listed(), listed)
    assert full_sweeper.janitor(filled.project_id).session.get_user_id() != own


def test_of_a_project_that_is_gone_no_template_does_harm(full_sweeper, full_cloud, full_admin):
    """Then there is no token of the janitor. With that of an admin Heat abandons each stack, also a paused one."""
    victims = Victims(full_cloud, full_admin, "gone")
    filled = filler.fill(full_admin, f"templates-gone-{TAG}", only=())
    make(filled, victims)
    paused = pausing("pre-delete")
    del paused["template"]["resources"]["below"]  # its hook cannot be cleared once its parent is gone: Heat answers 500
    Rest(filled.connection.orchestration).call("POST", "/stacks", paused)
    full_cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    gone = dataclasses.replace(full_sweeper.definition(SERVICE, filled), gone=True)
    connection = full_sweeper.connection(None, write=True)
    sql = "SELECT name, status, status_reason FROM stack WHERE tenant = ? AND deleted_at IS NULL"
    there = functools.partial(full_sweeper.rows, "heat", sql, filled.project_id)
    names = ("stack", "failed_stack", "nested_stack")
    until(lambda: bool([sweeps.delete(TYPES[name], connection, gone) for name in names]) and not there(), there)
    assert harm(full_sweeper, victims) == set()


@pytest.mark.parametrize(("path", "named"), [("/domains/default", "on default"), ("/system", "on system")])
def test_keystone_shows_a_role_that_the_janitor_has_elsewhere(full_cloud, full_admin, path, named):
    """Such a janitor is refused (`tests/unit/drain/test_janitor.py`). This test shows what a real Keystone lists."""
    admin, name = full_cloud.admin, f"reused-{secrets.token_hex(2)}"
    user = admin.ensure("users", "user", {"name": name, "domain_id": "default"}, domain_id="default")["id"]
    role = admin.ensure("roles", "role", {"name": "member"})["id"]
    admin.call("PUT", f"{path}/users/{user}/roles/{role}")
    rows_of_user = Projects(full_admin.identity).assignments_of(user)
    assert janitor._beyond(rows_of_user, "p", [role]) == [f"role {role} {named}"]


@pytest.fixture(scope="module", params=["fence", "revoke"])
def shipped(request: pytest.FixtureRequest, full_cloud: Cloud) -> Iterator[Job]:
    """The orchestrator as it is shipped, with each lock; stacks that no member may delete are abandoned."""
    made = Job(full_cloud)
    options = "\n[service_orchestration]\nabandon_forbidden_stacks = true\n"
    nothing = ["placement", "project-cleanup", *job.uncovered(full_cloud)]
    made.configuration = job.configuration(nothing).replace("driver = fence", f"driver = {request.param}") + options
    made.start_orchestrator()
    yield made
    made.stop()


def test_a_cascade_of_such_a_project_changes_no_other_project(shipped, full_sweeper, full_cloud, full_admin):
    name = f"cascade-{secrets.token_hex(2)}"
    victims = Victims(full_cloud, full_admin, name)
    filled = filler.fill(full_admin, f"templates-{name}-{TAG}", only=())
    make(filled, victims)
    before = job.settled(full_cloud) and victims.rows()
    assert before.count().keys() == {"keystone", "neutron"}
    theirs = functools.partial(full_sweeper.assignments, filled.project_id)
    assert theirs()
    record = shipped.delete("--cascade", filled.project_id, status="deleted")
    assert record["status"] == "deleted"
    assert harm(full_sweeper, victims) == set()
    assert job.changes(before, victims.rows()) == []
    assert not theirs()  # the janitor's grant went with the project
    users = full_cloud.admin.call("GET", "/users?domain_id=default")["users"]
    assert [user["name"] for user in users if user["name"].startswith("cleanup-janitor-")] == []
