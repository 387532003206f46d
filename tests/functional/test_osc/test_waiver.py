"""``openstack project deletion waiver``: the requests, and the output."""

import datetime

import pytest

from tests.functional.test_osc import stub


class TestWaivers:
    WHY = ("--reason", "it is retired")

    def create(self, openstack, *args):
        until = () if {"--days", "--expires-at"} & set(args) else ("--expires-at", "2026-12-01T00:00:00Z")
        return openstack("project", "deletion", "waiver", "create", *self.WHY, *until, *args)

    def test_create(self, openstack, stub_cloud, demo):
        result = self.create(openstack, "dns", "--region", "RegionTwo", "--project", "demo", "-f", "json")
        assert (result.code, result.err) == (0, "")
        assert stub_cloud.requests[-1]["body"] == {
            "service_type": "dns",
            "reason": "it is retired",
            "expires_at": "2026-12-01T00:00:00Z",
            "region": "RegionTwo",
            "project_id": demo["id"],
        }
        assert (result.json["service_type"], result.json["state"]) == ("dns", "in_force")
        assert "links" not in result.json

    def test_create_a_waiver_for_all_projects_and_regions_for_some_days(self, openstack, stub_cloud):
        before = datetime.datetime.now(datetime.timezone.utc)
        assert self.create(openstack, "dns", "--days", "2").code == 0
        body = stub_cloud.requests[-1]["body"]
        assert set(body) == {"service_type", "reason", "expires_at"}
        until = datetime.datetime.strptime(body["expires_at"], "%Y-%m-%dT%H:%M:%SZ").replace(
            tzinfo=datetime.timezone.utc
        )
        assert abs(until - before - datetime.timedelta(days=2)) < datetime.timedelta(minutes=2)

    def test_create_for_what_the_catalog_does_not_have_yet(self, openstack, stub_cloud):
        assert self.create(openstack, "dns", "--not-yet").code == 0
        assert stub_cloud.requests[-1]["body"]["allow_unknown"] is True

    def test_create_for_what_the_catalog_does_not_have(self, openstack, stub_cloud):
        found = {"field": "service_type", "problem": "service_not_in_catalog", "known": ["dns", "image"]}
        stub_cloud.answers["POST", "/cleanup/v1/waivers"] = [stub_cloud.error(400, "not_in_catalog", "said", **found)]
        result = self.create(openstack, "dsn")
        assert result.code == 2 and "it has dns, image; " in result.err and "needs --not-yet" in result.err

    def test_create_for_a_project_that_is_gone(self, openstack, stub_cloud):
        gone = "0" * 32
        assert self.create(openstack, "dns", "--project", gone).code == 0
        assert stub_cloud.requests[-1]["body"]["project_id"] == gone
        assert self.create(openstack, "dns", "--project", "no-such-name").code == 1

    @pytest.mark.parametrize("args", [[], ["--days", "1", "--expires-at", "2026-12-01T00:00:00Z"], ["--days", "0"]])
    def test_a_waiver_ends_at_one_time(self, openstack, stub_cloud, args):
        result = openstack("project", "deletion", "waiver", "create", "dns", *self.WHY, *args)
        assert result.code == 2
        assert stub_cloud.waivers == {}

    def test_a_waiver_has_a_reason(self, openstack, stub_cloud):
        assert openstack("project", "deletion", "waiver", "create", "dns", "--days", "1").code == 2
        assert stub_cloud.waivers == {}

    def test_list_all_pages(self, openstack, stub_cloud):
        for n in range(5):
            self.create(openstack, f"kind-{n}")
        result = openstack("project", "deletion", "waiver", "list", "-f", "json")
        assert [row["Service Type"] for row in result.json] == [f"kind-{n}" for n in range(5)]
        assert result.json[0]["Reason"] == "it is retired"
        assert result.json[0]["Project ID"] is None

    def test_filters(self, openstack, stub_cloud, demo):
        args = ["--service", "volumev3", "--region", "R", "--project", "demo", "--ended", "--limit", "2"]
        assert openstack("project", "deletion", "waiver", "list", *args).code == 0
        query = {"service_type": ["volumev3"], "region": ["R"], "project_id": [demo["id"]], "state": ["ended"]}
        assert stub_cloud.requests[-1]["query"] == {**query, "limit": ["2"]}
        openstack("project", "deletion", "waiver", "list", "--all")
        assert stub_cloud.requests[-1]["query"] == {"state": ["all"]}
        assert openstack("project", "deletion", "waiver", "list", "--all", "--ended").code == 2

    def test_show_and_delete(self, openstack, stub_cloud):
        ids = [self.create(openstack, "dns", "-f", "value", "-c", "id").out.strip() for _ in range(2)]
        assert (
            openstack("project", "deletion", "waiver", "show", ids[0], "-f", "json").json["reason"] == "it is retired"
        )
        result = openstack("project", "deletion", "waiver", "delete", *ids)
        assert (result.code, result.out) == (0, "")
        assert [stub_cloud.waivers[i]["state"] for i in ids] == ["withdrawn", "withdrawn"]

    def test_one_that_fails_does_not_hide_the_others(self, openstack, stub_cloud):
        id_ = self.create(openstack, "dns", "-f", "value", "-c", "id").out.strip()
        result = openstack("project", "deletion", "waiver", "delete", "nope", id_)
        assert result.code == 1
        assert "nope" in result.err and "waiver_not_found" in result.err
        assert stub_cloud.waivers[id_]["state"] == "withdrawn"

    def test_an_unknown_one(self, openstack):
        result = openstack("project", "deletion", "waiver", "show", "nope")
        assert (result.code, len(result.err.splitlines())) == (1, 1)

    def test_the_catalog_as_one_project_sees_it(self, openstack, stub_cloud, demo):
        assert openstack("project", "deletion", "service", "list", "--project", "demo").code == 0
        assert stub_cloud.requests[-1]["query"] == {"project_id": [demo["id"]]}

    def test_a_deletion_says_what_it_goes_on_without(self, openstack, stub_cloud, demo):
        entries = [{"region": "RegionTwo", "service": "dns"}]
        waiver = {"id": "w1", "user_name": "alice", "reason": "retired", "expires_at": "2026-12-01T00:00:00Z"}
        count = stub.count("dns", "zone", outcome="", state="idle", reason="waived", message="by alice: retired")
        state = {"status": "deleting", "counts": [count], "waivers": [{**waiver, "not_listed": entries}]}
        table = openstack("project", "deletion", "show", stub_cloud.add_deletion(demo, state)).out
        assert "skipped: RegionTwo dns; alice until 2026-12-01T00:00:00Z: retired (w1)" in table
        assert "RegionOne dns.zone: waived (by alice: retired)" in table
        assert "not listed yet" not in table and "nothing found" not in table
