"""``openstack project deletion plan``: the requests, and the output."""

import pytest

from tests.functional.test_api import contract
from tests.functional.test_osc import stub
from tests.functional.test_osc.stub import PLAN_HASH, PLAN_ID


class TestPlans:
    PLAN = {
        "id": PLAN_ID,
        "hash": PLAN_HASH,
        "complete": False,
        "unknown": ["dns.zone@RegionOne"],
        "delete": 3,
        "order": [["compute.server"], ["network.port", "network.router"]],
        "types": [
            {
                "region": "R1",
                "service": "compute",
                "type": "server",
                "delete": 1,
                "keep": 0,
                "protect": 2,
                "size": None,
                "known": True,
            },
            {
                "region": "R1",
                "service": "block-storage",
                "type": "volume",
                "delete": 12,
                "keep": 1,
                "protect": 0,
                "size": 340 * 2**30,
                "known": True,
            },
            {"region": "R1", "service": "dns", "type": "zone", "delete": 0, "known": False, "message": "no answer"},
            {"region": "R1", "service": "image", "type": "image", "delete": 0, "keep": 0, "protect": 0, "known": True},
        ],
        "blockers": [],
        "links": [],
    }
    ROWS = [
        {"action": action, "region": "R1", "service": "network", "type": "port", "id": f"p{n}", "name": f"port {n}"}
        | ({"size": 1024} if n else {})  # an older server shows none
        for n, action in enumerate(["delete", "delete", "keep", "delete", "protect"])
    ]

    def test_show(self, openstack, stub_cloud):
        stub_cloud.plans[PLAN_ID] = self.PLAN
        table = openstack("project", "deletion", "plan", "show", PLAN_ID).out
        for line in (
            "network.port, network.router",
            "R1 compute.server: delete 1, protect 2",
            "R1 block-storage.volume: delete 12 (340 GiB), keep 1",
            "R1 dns.zone: not known (no answer)",
            "1 other: nothing found",
        ):
            assert line in table
        shown = openstack("project", "deletion", "plan", "show", PLAN_ID, "-f", "json").json
        plan = contract.complete_answer("GET", f"/v1/plans/{PLAN_ID}", 200, {"plan": self.PLAN})["plan"]
        assert (shown["order"], shown["types"]) == (plan["order"], plan["types"])
        assert "links" not in shown

    def test_resources_of_all_pages(self, openstack, stub_cloud):
        stub_cloud.plans[PLAN_ID], stub_cloud.resources[PLAN_ID] = self.PLAN, self.ROWS
        args = ["project", "deletion", "plan", "resources", PLAN_ID, "-f", "json"]
        assert [row["ID"] for row in openstack(*args).json] == ["p0", "p1", "p2", "p3", "p4"]
        assert [row["ID"] for row in openstack(*args, "--action", "delete").json] == ["p0", "p1", "p3"]
        assert [row["Size"] for row in openstack(*args).json] == [None, 1024, 1024, 1024, 1024]

    def test_a_project_names_its_latest_dry_run(self, openstack, stub_cloud, demo):
        stub_cloud.add_deletion(demo, "planned", mode="cascade", dry_run=True, created_at="2026-11-21T09:00:00Z")
        id_ = stub_cloud.add_deletion(demo, "planned", mode="cascade", dry_run=True, created_at="2026-11-21T09:30:00Z")
        stub_cloud.add_deletion(demo, "leftovers")
        stub_cloud.add_deletion(demo, "deleting")
        stub_cloud.plans[id_], stub_cloud.resources[id_] = {**self.PLAN, "id": id_}, self.ROWS
        for name in ("demo", demo["id"], id_):
            shown = openstack("project", "deletion", "plan", "show", name, "-f", "json").json
            assert shown["id"] == id_
            assert len(openstack("project", "deletion", "plan", "resources", name, "-f", "json").json) == 5

    def test_a_project_without_a_dry_run(self, openstack, stub_cloud, demo):
        stub_cloud.add_deletion(demo, "leftovers")
        result = openstack("project", "deletion", "plan", "show", "demo")
        assert (result.code, result.out) == (1, "") and "has no dry run with a plan" in result.err
        del stub_cloud.projects[demo["id"]]
        result = openstack("project", "deletion", "plan", "show", "demo")
        assert result.code == 1 and "no project with the name 'demo' has a dry run with a plan" in result.err

    def test_an_unknown_id_is_not_another_plan(self, openstack, stub_cloud, demo):
        result = openstack("project", "deletion", "plan", "show", PLAN_ID)
        assert result.code == 1 and "no plan has this id" in result.err and "--status planned" in result.err

    def test_an_unknown_one(self, openstack):
        result = openstack("project", "deletion", "plan", "show", "nope")
        assert (result.code, len(result.err.splitlines())) == (1, 1)
        assert "--status planned" in result.err

    def test_delete_by_a_plan(self, openstack, stub_cloud, demo):
        args = ["project", "delete", "--async", "--cascade", "--plan", PLAN_ID, "--plan-hash", PLAN_HASH, "demo"]
        assert openstack(*args).code == 0
        body = stub_cloud.requests[-1]["body"]
        assert (body["plan_id"], body["plan_hash"], body["mode"]) == (PLAN_ID, PLAN_HASH, "cascade")

    @pytest.mark.parametrize(
        "args",
        [
            ["--async", "--plan", "p", "demo"],
            ["--async", "--cascade", "--plan", "p", "demo", "test"],
            ["--async", "--cascade", "--plan", "p", "--include-subtree", "demo"],
            ["--async", "--cascade", "--plan-hash", PLAN_HASH, "demo"],
            ["--plan", "p", "demo"],
        ],
    )
    def test_what_a_plan_does_not_go_with(self, openstack, stub_cloud, demo, args):
        result = openstack("project", "delete", *args)
        assert result.code == 2 and "nothing was deleted" in result.err
        assert not stub_cloud.made("POST", "/cleanup") and not stub_cloud.made("DELETE")

    def test_approve(self, openstack, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "recoverable")
        stub_cloud.after[id_, "approve"] = True
        result = openstack(
            "project", "deletion", "approve", "--reason", "ticket 4711", id_, "-f", "value", "-c", "Status"
        )
        assert (result.code, result.out) == (0, "recoverable\n")
        assert stub_cloud.requests[-1]["body"] == {"reason": "ticket 4711"}

    def test_a_user_cannot_approve_their_own_deletion(self, openstack, stub_cloud, demo):
        result = openstack(
            "project", "deletion", "approve", "--reason", "x", stub_cloud.add_deletion(demo, "recoverable")
        )
        assert (result.code, len(result.err.splitlines())) == (1, 1)
        assert "self_approval" in result.err

    def test_an_approval_has_a_reason(self, openstack, stub_cloud, demo):
        assert openstack("project", "deletion", "approve", stub_cloud.add_deletion(demo, "recoverable")).code == 2
        assert not stub_cloud.made("POST", "/cleanup")

    def test_restore_and_wait(self, openstack, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "recoverable")
        stub_cloud.after[id_, "restore"] = [stub.deletion(demo, "cancelling"), stub.deletion(demo, "cancelled")]
        assert openstack("project", "deletion", "restore", "--wait", id_).code == 0
        assert stub_cloud.made("POST")[-1].endswith("/restore")

    @pytest.fixture
    def locked(self, stub_cloud, demo):
        """A deletion that took two roles away, and one of a project below that took one."""
        stub_cloud.users["u7"] = {"id": "u7", "name": "mallory\x1b[2J", "domain_id": "default"}
        stub_cloud.roles["r7"] = {"id": "r7", "name": "member"}
        taken = [{"actor": "user", "actor_id": "u7", "role_id": "r7"}]
        below = stub_cloud.add_deletion(stub_cloud.add_project("below"), "recoverable", grants_removed=taken)
        grants = [*taken, {"actor": "group", "actor_id": "g7", "role_id": "r8"}]
        children = [{"deletion_id": below, "project_id": "below", "status": "recoverable"}]
        id_ = stub_cloud.add_deletion(demo, "recoverable", grants_removed=grants, children=children)
        stub_cloud.after[id_, "restore"] = [stub.deletion(demo, "cancelling")]
        return id_

    def test_restore_names_the_users_who_get_their_roles_back(self, openstack, stub_cloud, locked):
        result = openstack("project", "deletion", "restore", locked)
        assert result.code == 0 and stub_cloud.made("POST")[-1].endswith("/restore")
        said = result.err.splitlines()
        assert "Restoring gives back 3 role assignments:" in said
        assert "  project demo: user mallory?[2J (u7), role member (r7)" in said
        assert "  project demo: group g7, role r8" in said
        assert "  project below: user mallory?[2J (u7), role member (r7)" in said

    @pytest.mark.parametrize(("words", "asked"), [("y\n", True), ("yes\n", True), ("n\n", False), ("", False)])
    def test_at_a_terminal_it_asks_first(self, openstack, stub_cloud, locked, terminal, words, asked):
        terminal(words)
        result = openstack("project", "deletion", "restore", locked)
        assert result.code == (0 if asked else 1)
        assert [path.endswith("/restore") for path in stub_cloud.made("POST", "/cleanup")] == [True] * asked
        assert "[y/N]" in result.err

    def test_with_yes_there_is_no_prompt(self, openstack, stub_cloud, locked, terminal):
        terminal("")
        result = openstack("project", "deletion", "restore", "--yes", locked)
        assert result.code == 0 and "[y/N]" not in result.err and "3 role assignments" in result.err

    def test_too_late_to_restore(self, openstack, stub_cloud, demo):
        result = openstack("project", "deletion", "restore", stub_cloud.add_deletion(demo, "deleting"))
        assert result.code == 1 and "not_restorable" in result.err

    def test_wait_shows_what_the_deletion_waits_for(self, openstack, stub_cloud, demo):
        asks = {"type": "approval", "status": True, "reason": "too_many_resources", "message": "m"}
        rests = {"status": "recoverable", "point_of_no_return_at": "2026-11-28T10:00:00Z"}
        stub_cloud.script(demo, "accepted", rests, rests | {"conditions": [asks]}, "deleted")
        result = openstack("project", "delete", "--async", "--cascade", "--wait", "demo")
        assert "recoverable until 2026-11-28T10:00:00Z" in result.err
        assert "recoverable, waiting for an approval" in result.err

    def test_show_names_the_approver(self, openstack, stub_cloud, demo):
        given = {"needed": "too_many_resources", "resources": 9, "user_name": "bob", "at": "2026", "reason": "ticket"}
        table = openstack("project", "deletion", "show", stub_cloud.add_deletion(demo, {"approvals": [given]})).out
        assert "bob at 2026 (too_many_resources, 9 resources): ticket" in table
