"""``openstack project deletion lien`` and ``brake``."""

import datetime

import pytest

WHY = ("--origin", "billing", "--reason", "the last invoice is open")


def create(openstack, *args):
    return openstack("project", "deletion", "lien", "create", *WHY, *args)


def listed(openstack, *args):
    return openstack("project", "deletion", "lien", "list", *args)


class TestLiens:
    def test_create(self, openstack, stub_cloud, demo):
        result = create(openstack, "demo", "-f", "json")
        assert (result.code, result.err) == (0, "")
        body = {"project_id": demo["id"], "origin": "billing", "reason": "the last invoice is open"}
        assert stub_cloud.requests[-1]["body"] == body
        assert result.json["state"] == "in_force"
        assert "links" not in result.json

    def test_create_for_some_days(self, openstack, stub_cloud, demo):
        before = datetime.datetime.now(datetime.timezone.utc)
        assert create(openstack, "demo", "--days", "2").code == 0
        text = stub_cloud.requests[-1]["body"]["expires_at"]
        until = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
        assert abs(until - before - datetime.timedelta(days=2)) < datetime.timedelta(minutes=2)

    def test_a_project_that_is_gone_is_named_by_its_id(self, openstack, stub_cloud):
        gone = "0" * 32
        assert create(openstack, gone).code == 0
        assert stub_cloud.requests[-1]["body"]["project_id"] == gone
        assert create(openstack, "no-such-name").code == 1

    @pytest.mark.parametrize("missing", ["--origin", "--reason"])
    def test_show_names_the_owner_and_the_reason_of_a_lien(self, openstack, stub_cloud, demo, missing):
        args = [part for n in (0, 2) if WHY[n] != missing for part in WHY[n : n + 2]]
        assert openstack("project", "deletion", "lien", "create", "demo", *args).code == 2
        assert stub_cloud.liens == {}

    def test_list_all_pages(self, openstack, stub_cloud, demo):
        for _ in range(5):
            create(openstack, "demo")
        assert [row["Origin"] for row in listed(openstack, "-f", "json").json] == ["billing"] * 5

    def test_filters(self, openstack, stub_cloud, demo):
        assert listed(openstack, "--project", "demo", "--origin", "legal", "--ended", "--limit", "2").code == 0
        query = {"project_id": [demo["id"]], "origin": ["legal"], "state": ["ended"], "limit": ["2"]}
        assert stub_cloud.requests[-1]["query"] == query
        assert listed(openstack, "--all", "--ended").code == 2

    def test_show_and_delete(self, openstack, stub_cloud, demo):
        ids = [create(openstack, "demo", "-f", "value", "-c", "id").out.strip() for _ in range(2)]
        assert openstack("project", "deletion", "lien", "show", ids[0], "-f", "json").json["origin"] == "billing"
        result = openstack("project", "deletion", "lien", "delete", *ids)
        assert (result.code, result.out) == (0, "")
        assert [stub_cloud.liens[i]["state"] for i in ids] == ["removed", "removed"]

    def test_one_that_fails_does_not_hide_the_others(self, openstack, stub_cloud, demo):
        id_ = create(openstack, "demo", "-f", "value", "-c", "id").out.strip()
        result = openstack("project", "deletion", "lien", "delete", "nope", id_)
        assert result.code == 1
        assert "nope" in result.err and "lien_not_found" in result.err
        assert stub_cloud.liens[id_]["state"] == "removed"

    def test_show_names_the_liens_that_put_a_deletion_on_hold(self, openstack, stub_cloud, demo):
        lien = {"id": "l1", "origin": "legal", "reason": "a court order", "expires_at": None}
        held = {"type": "on_hold", "status": True, "reason": "lien", "message": "held by lien l1 of legal"}
        id_ = stub_cloud.add_deletion(demo, {"status": "deleting", "liens": [lien], "conditions": [held]})
        table = openstack("project", "deletion", "show", id_).out
        assert "legal until it is removed: a court order (l1)" in table
        assert "on_hold: yes (lien, held by lien l1 of legal)" in table
