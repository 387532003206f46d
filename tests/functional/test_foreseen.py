"""A dry run foresees what a cascade would refuse for the sake of other projects. End to end over the emulated cloud."""

import random

from cleanup_orchestrator.core import plans
from cleanup_orchestrator.core.deletion import Status
from tests.emulated.orchestrator import Orchestrator
from tests.emulated.population import BUILD, Filler
from tests.support.emulated_site import with_cloud

REGION, NETWORK, PORT = "RegionOne", "network.network", "network.port"
CLOUD = {"projects": 0, "bystanders": 1, "small": True, "fences": True, "things": {NETWORK: 2}}


def test_a_network_with_a_port_of_another_project_is_planned_as_blocked(emulated, tmp_path):
    project, other = emulated.projects[0], emulated.bystanders[0]
    used, free = list(emulated.state.table(REGION, NETWORK).owned[project])[:2]
    port = emulated.state.add(REGION, PORT, other, network_id=used, name="theirs")
    with Orchestrator(emulated, tmp_path) as made:
        id_ = made.request(project, dry_run=True)
        assert made.wait([id_], 300) == {id_: Status.PLANNED}
        found = {row.leftover.id: row.leftover for row in made.store.leftovers(id_, 1000)}
        assert (found[used].reason, found[free].reason) == ("foreign", "present")
        [blocker] = found[used].blocked_by
        assert (blocker["type"], blocker["id"], blocker["owner"]) == (PORT, port.id, other)
        assert blocker["name"] == "theirs" and blocker["project_name"]
        assert made.store.planned(id_, REGION, "network", "network") == {free}
        assert f"{NETWORK}@{REGION}" not in plans.gaps(made.store.get(id_), made.store.steps(id_))


@with_cloud(things={})
def test_the_plan_of_a_project_with_one_of_everything_is_complete(emulated, tmp_path):
    project = emulated.add_project("full")
    filler = Filler(emulated, REGION, project, random.Random(1))
    for kind in BUILD:
        filler.one(kind)
    emulated.grant(project, emulated.orchestrator_id, "admin")
    with Orchestrator(emulated, tmp_path) as made:
        id_ = made.request(project, dry_run=True)
        assert made.wait([id_], 300) == {id_: Status.PLANNED}
        assert plans.incomplete(made.store.get(id_), made.store.steps(id_)) == ""
