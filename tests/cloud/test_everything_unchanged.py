"""A full project in a cloud of thirteen services: dry runs and reports change nothing, and need an admin's rights."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins import registry
from tests.cloud import demo, filler
from tests.cloud.conftest import Sweeper
from tests.cloud.everything import filled_projects, job
from tests.cloud.fillings.base import Filled
from tests.cloud.job import changes, settled, uncovered

__all__ = ["filled_projects", "job"]

#: It compares every row of the cloud.
ALONE = True


def test_a_dry_run_changes_nothing_in_any_database(job, filled_projects, full_cloud):
    filled, _ = filled_projects
    # At the first list of security groups Neutron creates a default group in the project of the caller.
    list(filler.connect(full_cloud.auth_url, demo.USER, full_cloud.site.password, "service").network.security_groups())
    before = settled(full_cloud)
    record = job.delete("--cascade", "--dry-run", filled.project_id, status="planned")
    after = settled(full_cloud)
    print(f"\na dry run: {record['progress']}")
    assert changes(before, after) == []


def test_a_report_finds_it_all_and_changes_nothing(job, filled_projects, full_cloud):
    filled, _ = filled_projects
    before = settled(full_cloud)
    record = job.delete(filled.project_id, status="leftovers")
    after = settled(full_cloud)
    leftovers = job.ask("project", "deletion", "leftovers", record["id"])
    print(f"\na report: {record['progress']}, {len(leftovers)} leftovers")
    assert changes(before, after) == []


@pytest.fixture
def inherited(full_cloud) -> Iterator[None]:
    """The role of the orchestrator's user on every domain, as ``cloud bootstrap`` gives it."""
    admin = full_cloud.admin
    user, role = (
        admin.call("GET", f"/{path}")[path.partition("?")[0]][0]["id"]
        for path in (f"users?name={demo.USER}", "roles?name=admin")
    )
    domains = admin.call("GET", "/domains")["domains"]
    paths = [f"/OS-INHERIT/domains/{row['id']}/users/{user}/roles/{role}/inherited_to_projects" for row in domains]
    for path in paths:
        admin.call("PUT", path)
    yield
    for path in paths:
        admin.call("DELETE", path)


def test_the_check_of_the_cloud_sees_the_project_in_each_service_and_changes_nothing(
    job, filled_projects, full_cloud, inherited
):
    filled, _ = filled_projects
    list(filler.connect(full_cloud.auth_url, demo.USER, full_cloud.site.password, "service").network.security_groups())
    before = settled(full_cloud)
    command = [sys.executable, "-m", "cleanup_orchestrator.cmd.status", "cloud", "check", "--json", "--time-limit=900"]
    files = [f"--config-file={job.home / 'cleanup-orchestrator.conf'}", f"--service-config={job.home / 'none'}"]
    done = subprocess.run(
        [*command, *files, "--no-test-project", f"--project={filled.project_id}"], capture_output=True, text=True
    )
    after = settled(full_cloud)
    rows = {row["check"]: row for row in json.loads(done.stdout)["checks"]}
    print("\n" + "\n".join(f"{row['result']} {name}: {row['details']}" for name, row in rows.items()))
    assert done.returncode == 1 and not [name for name, row in rows.items() if row["result"] == 2]
    assert {name.split()[0] for name, row in rows.items() if row["result"] == 1} <= {"api", "lists", "lock", "token"}
    listed = {
        name.split()[1] for name, row in rows.items() if name.startswith("lists ") and " types: " in row["details"]
    }
    assert listed >= set(filler.SERVICES) - set(uncovered(full_cloud))
    # At a read of a container Swift writes down the objects that it had not written down yet.
    assert [line for line in changes(before, after) if " swift.objects: " not in line] == []


class Stranger(Sweeper):
    """A user with a role in another project, like an orchestrator in a service with another admin policy."""

    NAME, PASSWORD, PROJECT, ROLES = "stranger", "stranger", "stranger", ("member",)

    def enter(self, filled: Filled) -> None:
        """Grant nothing: the user gets no role on the project."""


def test_no_inventory_without_admin_rights_is_clear(filled_projects, full_cloud, full_sweeper):
    """Services answer such a user with resources of the token's project. Each filled type has to be unknown."""
    filled, _ = filled_projects
    stranger, lies, trusted = Stranger(full_cloud), {}, []
    for service in registry.load().services.values():
        there = {name: found.found for name, found in full_sweeper.inventory(service, filled).items()}
        seen = stranger.inventory(service, filled)
        unknown = {name for name, found in seen.items() if found.outcome is Outcome.UNKNOWN}
        empty = {name for name, found in seen.items() if found.outcome is Outcome.CLEAR}
        print(f"{service.service_type}: {len(unknown)} unknown, empty: {', '.join(sorted(empty)) or 'none'}")
        lies |= {f"{service.service_type}.{name}": there[name] for name in empty if there[name]}
        if not unknown:
            trusted.append(service.service_type)
    assert not lies
    assert not trusted
