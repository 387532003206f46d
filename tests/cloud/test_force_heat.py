"""Force of stacks: Heat abandons them if its configuration allows it, and refuses otherwise."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest
from openstack.connection import Connection

from tests.cloud import filler
from tests.cloud.fillings.base import Rest
from tests.cloud.forcing import WAIT, WholeForcing, in_the_whole_cloud
from tests.cloud.launcher import Cloud
from tests.support.timing import wait

#: It restarts the engine of Heat, and runs the orchestrator at a port of the cloud.
ALONE = True


@pytest.fixture(scope="module")
def whole(full_cloud: Cloud) -> Iterator[WholeForcing]:
    yield from in_the_whole_cloud(full_cloud)


@pytest.fixture
def heat(full_cloud: Cloud, full_admin: Connection) -> Iterator[Callable[[bool], None]]:
    """Switch Heat's option to abandon stacks."""
    path = full_cloud.site.home("heat") / "heat.conf"
    before = path.read_text()
    stacks = Rest(full_admin.orchestration)

    def engine_answers() -> bool:
        return stacks.raw("GET", "/stacks", ok=(500, 503, 504)).status_code == 200

    assert "enable_stack_abandon = true" in before

    def switch(on: bool) -> None:
        path.write_text(before if on else before.replace("enable_stack_abandon = true", "enable_stack_abandon = false"))
        full_cloud.restart("heat", "heat-engine")
        wait("Heat's engine answers", engine_answers, 600)

    yield switch
    switch(True)


def test_heat_says_no_on_purpose_and_then_abandons(whole, full_cloud, full_admin, full_sweeper, heat):
    tag = secrets.token_hex(2)
    filled = filler.fill(full_admin, f"forced-heat-{tag}", only=("orchestration",))
    stacks = Rest(filled.connection.orchestration)
    (squatter,) = filled.ids["squatting port"]
    # Its owner is the neighbour: it keeps the occupied stack's network, and so the stack, for good.
    neighbour = filler.fill(full_admin, f"forced-heat-neighbour-{tag}", only=())
    sql = "UPDATE ports SET project_id = ? WHERE id = ?"
    full_sweeper.rows("neutron", sql, neighbour.project_id, squatter)
    assert len(stacks.call("GET", "/stacks")["stacks"]) > 1

    heat(False)
    assert whole.command("project", "delete", "--async", "--cascade", filled.project_name)[0] == 0
    shown = whole.stuck(
        filled.project_name,
        lambda d: (
            any(c["type"] == "failed_stack" and c["remaining"] for c in d["counts"]) and d["status"] == "deleting"
        ),
        seconds=900,
    )
    before = whole.ask("project", "deletion", "show", shown["id"])["forced"]
    code, said = whole.command("project", "deletion", "force", filled.project_name, "--reason", "ticket 4711")
    assert code == 1
    assert "force_unavailable" in said and "enable_stack_abandon" in said and "Nothing was changed" in said
    after = whole.ask("project", "deletion", "show", shown["id"])
    assert after["forced"] is before is None
    kinds = {row["Type"] for row in whole.ask("project", "deletion", "events", shown["id"])}
    assert not kinds & {"deletion.forced", "force.used", "resource.forcing"}

    heat(True)
    arguments = ("--wait", "--wait-timeout", WAIT, "--reason", "ticket 4711", filled.project_name)
    code, said = whole.command("project", "deletion", "force", *arguments)
    assert code == 0, said
    ended = whole.ask("project", "deletion", "show", shown["id"])
    assert (ended["status"], ended["reason"]) == ("deleted", "deleted_by_force")
    forced = whole.ask("project", "deletion", "events", "--long", shown["id"])
    by_force = {row["Data"]["type"] for row in forced if row["Type"] == "resource.forcing"}
    assert by_force & {"stack", "failed_stack"}, (
        "whichever it was when force had its turn: its delete is asked for again"
    )
    living = "SELECT id FROM stack WHERE tenant = ? AND deleted_at IS NULL"
    assert full_sweeper.rows("heat", living, filled.project_id) == [], "abandoned through Heat's own API"
    listed = whole.ask("project", "deletion", "leftovers", "--abandoned", shown["id"])
    assert {row["Type"] for row in listed} <= {"network", "subnet"}, "what the neighbour's port is on"
    assert full_cloud.admin.call("GET", "/projects?name=" + filled.project_name)["projects"] == []
    Rest(full_admin.network).call("DELETE", f"/ports/{squatter}")
    for row in sorted(listed, key=lambda row: row["Type"], reverse=True):
        Rest(full_admin.network).call("DELETE", f"/{row['Type']}s/{row['ID']}")
