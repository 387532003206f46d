"""The main job in the whole cloud: the orchestrator as it is shipped, and all rows of the databases."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from tests.cloud import demo, rows
from tests.cloud.fillings.base import Filled
from tests.cloud.launcher import Cloud
from tests.cloud.services import SERVICES

#: The options with which nothing is left, and the services that own nothing.
_CONFIGURATION = (
    demo.CONFIGURATION.replace("[engine]\ntick = 1\n", "[engine]\n{engine}\n")
    + """
sweep_memberships = true
[service_container_infrastructure_management]
delete_public_templates = true
[service_object_store]
delete_account = true
[service_orchestration]
stack_user_domain = heat
[catalog]
owns_nothing = {owns_nothing}
"""
)
#: Blocked deletes are tried again after some seconds, and not after minutes.
FAST = "tick = 1\nretry_cap = 4"
#: The release whose Heat deletes no stack after the drain; see the manual's page on releases.
HEAT_DELETES_NOT = "2025.2"
WAIT = "1500"  #: seconds that a deletion may take, on a machine that is busy with other things


def configuration(owns_nothing: Iterable[str], engine: str = FAST) -> str:
    """Return the template of the configuration.

    :param owns_nothing: service types
    :param engine: the lines of that section
    """
    return _CONFIGURATION.replace("{owns_nothing}", ", ".join(owns_nothing)).replace("{engine}", engine)


def uncovered(cloud: Cloud) -> list[str]:
    """Return the services of the catalog without a plugin: no resources are created in them."""
    plugins = {entry.name for entry in metadata.entry_points(group="cleanup_orchestrator.services")}
    types = {SERVICES[name](cloud.site).catalog_type for name in cloud.site.services}
    return sorted(types - plugins - {"placement"})


class Job(demo.Demo):
    """The orchestrator in the whole cloud; `engine` are options of that section, instead of the defaults."""

    def __init__(self, cloud: Cloud, engine: str = FAST) -> None:
        left_out = uncovered(cloud)
        text = configuration(["placement", "project-cleanup", *left_out], engine)
        if cloud.release == HEAT_DELETES_NOT:
            text += "\n[service_orchestration]\nabandon_forbidden_stacks = true\n"
        super().__init__(cloud, text)
        cloud.admin.ensure_user(demo.USER, cloud.site.password, "service", ("ResellerAdmin",))
        if left_out:
            print(f"\nwithout a plugin, and so without anything in it: {', '.join(left_out)}")

    def stop(self) -> None:
        """Stop the orchestrator too: another test process may start one at the same port."""
        super().stop()
        self.cloud.children.end("orchestrator-out")

    def command(self, *arguments: str) -> tuple[int, str]:
        """Run `openstack`; return its exit code and output."""
        code, out, err = self._run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return code, out + err

    def delete(self, *arguments: str, status: str) -> dict[str, Any]:
        """Run `openstack project delete --async` to its end; return the record, which must have that status."""
        known = {deletion["ID"] for deletion in self.ask("project", "deletion", "list")}
        _, said = self.command("project", "delete", "--async", "--wait", "--wait-timeout", WAIT, *arguments)
        made = [deletion for deletion in self.ask("project", "deletion", "list") if deletion["ID"] not in known]
        assert len(made) == 1, said
        shown = self.ask("project", "deletion", "show", made[0]["ID"])
        record = {key.lower().replace(" ", "_"): value for key, value in shown.items()}
        if record["status"] != status:
            leftovers = self.ask("project", "deletion", "leftovers", made[0]["ID"])
            left = json.dumps(leftovers, indent=1)
            raise AssertionError(f"{record['status']}, not {status}: {said}\n{record}\n{left}")
        return record


def settled(cloud: Cloud, seconds: float = 300) -> rows.Rows:
    """Return all rows once they no longer change: services may still work on the last requests."""
    deadline = time.monotonic() + seconds
    last = rows.read(cloud)
    while True:
        time.sleep(5)
        now = rows.read(cloud)
        if not (moved := now.steady().without(last.steady())):
            return now
        assert time.monotonic() < deadline, "\n".join(["the cloud does not come to rest:", *moved.lines()])
        last = now


def changes(before: rows.Rows, after: rows.Rows) -> list[str]:
    """Return the differences as lines, without columns that change by themselves."""
    before, after = before.steady(), after.steady()
    return [f"- {line}" for line in before.without(after).lines()] + [
        f"+ {line}" for line in after.without(before).lines()
    ]


def of(everything: rows.Rows, project: Filled) -> rows.Rows:
    """Return the rows of a project: those that name it, and those that name one of its resources."""
    named = everything.of(project.project_id)
    own = named.ids() - {project.user_id, project.colleague_id, project.group_id}
    return everything.naming(own | {project.project_id})


def unlike(before: rows.Rows, after: rows.Rows, dead: Filled, bystander: Filled) -> tuple[rows.Rows, rows.Rows]:
    """Return the rows of the bystander that are gone, new or changed since the other project was deleted.

    Rows that name both projects describe shared resources: they are deleted with the project, unless the bystander owns
    them.
    """
    # Where the project had records in a zone of the bystander's, Designate gives that zone a new serial number.
    zones = {row["zone_id"] for row in before.of(dead.project_id).tables["designate", "recordsets"]}
    before, after = (rows.without_serials(found.steady(), zones) for found in (before, after))
    shared = of(before, dead).not_owned_by(bystander.project_id)
    lost = of(before, bystander).without(after).without(shared)
    return lost, of(after, bystander).without(before).without_ended(shared)
