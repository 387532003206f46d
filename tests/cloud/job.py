"""The main job in the whole cloud: the orchestrator as it is shipped, and everything that its databases hold."""

from __future__ import annotations

import json
import subprocess
import time
from importlib import metadata
from typing import Any

from tests.cloud import demo, rows
from tests.cloud.fillings.base import Filled
from tests.cloud.launcher import Cloud
from tests.cloud.services import SERVICES

#: What an operator sets who wants nothing left at all, whatever it costs; and who answers for what. What cannot go yet
#: is tried again every few seconds, and not after minutes.
CONFIGURATION = (
    demo.CONFIGURATION.replace("[engine]\n", "[engine]\nretry_cap = 4\n")
    + """
sweep_memberships = true
[service_container_infrastructure_management]
delete_public_templates = true
[service_object_store]
delete_account = true
[catalog]
owns_nothing = {owns_nothing}
"""
)
WAIT = "1500"  #: seconds that a deletion may take, on a machine that is busy with other things


def uncovered(cloud: Cloud) -> list[str]:
    """Services of the catalog that no plugin answers for (yet): nothing is filled into them."""
    plugins = {entry.name for entry in metadata.entry_points(group="cleanup_orchestrator.services")}
    types = {SERVICES[name](cloud.site).catalog_type for name in cloud.site.services}
    return sorted(types - plugins - {"placement"})


class Job(demo.Demo):
    """The orchestrator in the whole cloud, and the two projects."""

    def __init__(self, cloud: Cloud) -> None:
        left_out = uncovered(cloud)
        nothing = ", ".join(["placement", "project-cleanup", *left_out])
        super().__init__(cloud, CONFIGURATION.replace("{owns_nothing}", nothing))
        cloud.admin.ensure_user(demo.USER, cloud.site.password, "service", ("ResellerAdmin",))
        if left_out:
            print(f"\nwithout a plugin, and so without anything in it: {', '.join(left_out)}")

    def stop(self) -> None:
        """Stop the orchestrator too: another test process may start one at the same port."""
        super().stop()
        self.cloud.children.end("orchestrator-out")

    def command(self, *arguments: str) -> tuple[int, str]:
        """Run `openstack`; its exit code and what it said."""
        code, out, err = self._run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return code, out + err

    def delete(self, *arguments: str, status: str) -> dict[str, Any]:
        """`openstack project delete --async`, to its end; the record, which has to end in that status."""
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
    """Everything, once nothing moves any more: what was asked for last is still being worked on by some service."""
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
    """What is different, as lines; columns that move by themselves do not count."""
    before, after = before.steady(), after.steady()
    return [f"- {line}" for line in before.without(after).lines()] + [
        f"+ {line}" for line in after.without(before).lines()
    ]


def of(everything: rows.Rows, project: Filled) -> rows.Rows:
    """The rows of a project: those that name it, and those that name what those are."""
    named = everything.of(project.project_id)
    own = named.ids() - {project.user_id, project.colleague_id, project.group_id}
    return everything.naming(own | {project.project_id})


def unlike(before: rows.Rows, after: rows.Rows, dead: Filled, bystander: Filled) -> tuple[rows.Rows, rows.Rows]:
    """The bystander's rows that are gone or changed, and those that are new or changed, since the other project went.

    What names both is how they shared with each other: that goes with the project, unless the bystander owns it.
    """
    # Where the project had records in a zone of the bystander's, Designate gives that zone a new serial number.
    zones = {row["zone_id"] for row in before.of(dead.project_id).tables["designate", "recordsets"]}
    before, after = (rows.without_serials(found.steady(), zones) for found in (before, after))
    shared = of(before, dead).not_owned_by(bystander.project_id)
    lost = of(before, bystander).without(after).without(shared)
    return lost, of(after, bystander).without(before).without_ended(shared)
