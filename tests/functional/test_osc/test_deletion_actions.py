"""``openstack project deletion force``: the requests, and what is refused."""

import pytest

from tests.functional.test_osc import stub
from tests.functional.test_osc.test_deletion import LEFT


class TestForce:
    def test_reason_and_types_are_sent_and_the_project_is_found_by_name(self, openstack, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "deleting")
        args = ["--reason", "burnt down", "--type", "block-storage.volume", "--type", "orchestration.stack"]
        result = openstack("project", "deletion", "force", "demo", *args, "-f", "json")
        assert result.code == 0
        assert [(row["Deletion ID"], row["Status"]) for row in result.json] == [(id_, "deleting")]
        assert (stub_cloud.requests[-1]["method"], stub_cloud.requests[-1]["path"]) == (
            "DELETE",
            f"{stub.CLEANUP}/v1/projects/{demo['id']}/force",
        )
        types = ["block-storage.volume", "orchestration.stack"]
        assert stub_cloud.requests[-1]["body"] == {"reason": "burnt down", "types": types}

    @pytest.mark.parametrize(("args", "more"), [([], {}), (["--no-type"], {"types": []})], ids=str)
    def test_all_types_or_none(self, openstack, stub_cloud, demo, args, more):
        stub_cloud.add_deletion(demo, "deleting")
        assert openstack("project", "deletion", "force", demo["id"], "--reason", "x", *args).code == 0
        assert stub_cloud.requests[-1]["body"] == {"reason": "x", **more}

    def test_it_does_nothing_without_a_reason(self, openstack, stub_cloud, demo):
        stub_cloud.add_deletion(demo, "deleting")
        result = openstack("project", "deletion", "force", "demo")
        assert result.code == 2
        assert "--reason" in result.err
        assert not stub_cloud.made("DELETE")

    def test_without_a_deletion_one_line_says_what_to_do(self, openstack, demo):
        result = openstack("project", "deletion", "force", "demo", "--reason", "x")
        assert (result.code, len(result.err.splitlines())) == (1, 1)
        assert "request one first" in result.err

    def test_wait_ends_with_the_project(self, openstack, stub_cloud, demo):
        stub_cloud.add_deletion(demo, "deleting", "deleting", "deleted")
        args = ["--wait", "--reason", "x"]
        assert openstack("project", "deletion", "force", "demo", *args).code == 0

    def test_show_names_the_user_who_forced_and_what_was_abandoned_unseen(self, openstack, stub_cloud, demo):
        unseen = [{"region": "RegionTwo", "service": "dns", "type": "zone", "reason": "unreachable", "message": "no"}]
        forced = {"user_name": "alice", "at": "2026-11-21T10:00:00Z", "reason": "burnt down", "types": []}
        id_ = stub_cloud.add_deletion(
            demo, {"status": "deleted", "forced": {**forced, "abandoned": 3, "unseen": unseen}}
        )
        table = openstack("project", "deletion", "show", id_).out
        assert "by alice at 2026-11-21T10:00:00Z: burnt down" in table
        assert "3 abandoned" in table
        assert "abandoned unseen: RegionTwo dns.zone" in table
        assert openstack("project", "deletion", "show", id_, "-f", "json").json["forced"]["unseen"] == unseen

    def test_what_was_abandoned_is_listed_with_its_owner(self, openstack, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "deleted")
        stub_cloud.leftovers[id_] = [{**LEFT[0], "abandoned": True, "owner": "p"}]
        result = openstack("project", "deletion", "leftovers", "--abandoned", "--long", id_, "-f", "json")
        assert (result.json[0]["Abandoned"], result.json[0]["Owner"]) == (True, "p")
        assert stub_cloud.requests[-1]["query"]["abandoned"] == ["true"]
