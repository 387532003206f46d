"""A project whose name is not Latin-1, from end to end over the emulated cloud: Swift answers its token with 503."""

import pytest

from cleanup_orchestrator.core.deletion import Status
from tests.emulated.object_store import Account, Container
from tests.emulated.orchestrator import Orchestrator
from tests.support.timing import wait

pytestmark = pytest.mark.slow

REGION = "RegionOne"
CLOUD = {"projects": 0, "bystanders": 1, "small": True, "fences": True, "without": ("network",)}


def project_with_a_container(emulated):
    project = emulated.add_empty("プロジェクト")
    accounts = emulated.services[REGION, "object-store"].accounts
    accounts[project] = Account({"c": Container(["o1", "o2"])}, {"Temp-Url-Key": "x"})
    return project, accounts


def test_its_containers_are_found_and_deleted(emulated, tmp_path):
    project, accounts = project_with_a_container(emulated)
    with Orchestrator(emulated, tmp_path) as made:
        dry = made.request(project, dry_run=True)
        assert made.wait([dry], 300) == {dry: Status.PLANNED}
        id_ = made.request(project)
        assert made.wait([id_], 300) == {id_: Status.DELETED}
    assert accounts[project].containers == {} and accounts[project].metadata == {}


def test_without_the_role_of_a_reseller_admin_it_is_blocked_and_says_why(emulated, tmp_path):
    project, accounts = project_with_a_container(emulated)
    emulated.identity.grants = {
        target: {grant for grant in grants if emulated.state.table("", "identity.role").rows[grant[2]].get("name")
                 != "ResellerAdmin"} for target, grants in emulated.identity.grants.items()
    }  # fmt: skip
    with Orchestrator(emulated, tmp_path) as made:
        id_ = made.request(project)
        wait("it says so", lambda: "unreadable_name" in made.blockers(id_).get("object-store.container", ""), 60)
        wait("a person has to act", lambda: made.store.get(id_).condition("blocked") is not None, 60)
    assert accounts[project].containers
