"""``openstack project orphan``: the requests, and the output."""

import pytest


class TestOrphans:
    GONE = "0" * 32

    @pytest.fixture
    def scan(self, stub_cloud):
        running = {"id": "s2", "status": "running", "message": "the second read"}
        parts = [
            {"region": "R1", "service": "network", "type": "port", "listed": 9, "candidates": 2, "orphans": 2,
             "outcome": "clear"},
            {"region": "R1", "service": "dns", "type": "zone", "outcome": "unknown", "message": "no answer"},
            {"region": "R1", "service": "image", "type": "image", "listed": 3, "outcome": "clear"},
        ]  # fmt: skip
        skipped = [{"region": "R1", "service": "object-store", "type": "container", "reason": "Swift has no list"}]
        ended = {"id": "s1", "status": "incomplete", "message": "2 orphans", "counts": {"orphans": 2, "calls": 7}}
        stub_cloud.scans = [running, {**ended, "coverage": parts, "not_covered": skipped, "links": []}]
        common = {"project_id": self.GONE, "region": "R1", "service": "network"}
        stub_cloud.orphans = [
            {**common, "type": "port", "id": "p1", "name": "=1+1", "project_setting": False},
            {**common, "type": "quota", "id": "q1", "name": "quota", "project_setting": True},
            {**common, "type": "port", "id": "p2", "name": "web", "project_setting": False},
        ]
        counts = [{"type": "network.port", "count": 2}]
        stub_cloud.orphan_projects = [
            {"project_id": self.GONE, "project_name": "demo", "orphans": 2, "counts": counts, "project_settings": []}
        ]

    def test_a_scan_is_begun_and_ended(self, openstack, stub_cloud):
        result = openstack("project", "orphan", "scan", "create", "-f", "json")
        assert (result.code, result.json["status"]) == (0, "accepted")
        result = openstack("project", "orphan", "scan", "cancel", result.json["id"])
        assert (result.code, result.out, stub_cloud.scans[0]["status"]) == (0, "", "cancelled")

    def test_scans_are_listed(self, openstack, stub_cloud, scan):
        rows = openstack("project", "orphan", "scan", "list", "-f", "json").json
        assert [(row["ID"], row["Status"]) for row in rows] == [("s2", "running"), ("s1", "incomplete")]
        openstack("project", "orphan", "scan", "list", "--status", "failed", "--limit", "3")
        assert stub_cloud.requests[-1]["query"] == {"status": ["failed"], "limit": ["3"]}

    def test_a_scan_says_what_it_could_not_see(self, openstack, scan):
        table = openstack("project", "orphan", "scan", "show", "s1").out
        for text in ("R1 network.port: listed 9, candidates 2, orphans 2, clear", "no answer", "1 other types"):
            assert text in table
        assert "R1 object-store.container: Swift has no list" in table
        shown = openstack("project", "orphan", "scan", "show", "s1", "-f", "json").json
        assert (shown["orphans"], shown["calls"], len(shown["coverage"])) == (2, 7, 3)

    def test_orphans_of_the_latest_scan_that_has_ended(self, openstack, stub_cloud, scan):
        rows = openstack("project", "orphan", "list", "-f", "json").json
        assert [row["ID"] for row in rows] == ["p1", "q1", "p2"]
        assert any(request["path"].endswith("/orphan-scans/s1/orphans") for request in stub_cloud.requests)
        rows = openstack("project", "orphan", "list", "--no-project-settings", "--type", "port", "-f", "json").json
        assert [row["ID"] for row in rows] == ["p1", "p2"]
        openstack("project", "orphan", "list", "--scan", "s1", "--project", self.GONE, "--type", "quota")
        assert stub_cloud.requests[-1]["query"] == {"project_id": [self.GONE], "type": ["quota"]}

    def test_no_cell_of_the_csv_is_a_formula(self, openstack, scan):
        lines = openstack("project", "orphan", "list", "-f", "csv", "-c", "Name").out.splitlines()
        assert lines[1] == '"\'=1+1"'
        assert openstack("project", "orphan", "list", "-f", "value", "-c", "Name").out.splitlines()[0] == "=1+1"

    def test_projects(self, openstack, scan):
        [row] = openstack("project", "orphan", "project", "list", "-f", "json").json
        assert (row["Project Name"], row["Counts"]) == ("demo", [{"type": "network.port", "count": 2}])
        assert "network.port: 2" in openstack("project", "orphan", "project", "list").out

    def test_adopt(self, openstack, stub_cloud, scan):
        result = openstack("project", "orphan", "adopt", self.GONE, "--dry-run", "-f", "json")
        assert (result.code, result.json["origin"], result.json["dry_run"]) == (0, "adopted", True)
        assert stub_cloud.requests[-1]["body"] == {"project_id": self.GONE, "dry_run": True}
        assert stub_cloud.requests[-1]["path"].endswith("/orphan-scans/s1/adopt")

    def test_adopt_waits(self, openstack, stub_cloud, scan):
        result = openstack("project", "orphan", "adopt", self.GONE, "--wait", "--wait-timeout", "1", "-f", "json")
        (id_,) = stub_cloud.deletions
        assert (result.code, result.json["id"]) == (1, id_)
        assert "the deletion continues" in result.err
        stub_cloud.deletions.clear()
        result = openstack("project", "orphan", "adopt", self.GONE)
        assert result.code == 0 and "Follow it with: openstack project deletion events --follow" in result.err
        assert openstack("project", "orphan", "adopt", self.GONE, "--stop-when-blocked").code == 2

    def test_a_scan_is_waited_for(self, openstack, stub_cloud, scan):
        ended = {**stub_cloud.scans[1], "id": "s3"}
        begun = {**ended, "status": "accepted", "message": ""}
        stub_cloud.answers["POST", "/cleanup/v1/orphan-scans"] = [(202, {"orphan_scan": begun}, {})]
        states = [(200, {"orphan_scan": state}, {}) for state in (begun, ended)]
        stub_cloud.answers["GET", "/cleanup/v1/orphan-scans/s3"] = states
        result = openstack("project", "orphan", "scan", "create", "--wait", "-f", "json")
        assert (result.code, result.json["status"]) == (4, "incomplete")
        assert "orphan scan s3: incomplete; 2 orphans; " in result.err

    def test_a_scan_has_the_age_that_is_asked_for(self, openstack, stub_cloud):
        begun = {"id": "s1", "status": "accepted", "message": "", "links": []}
        stub_cloud.answers["POST", "/cleanup/v1/orphan-scans"] = [(202, {"orphan_scan": begun}, {})]
        assert openstack("project", "orphan", "scan", "create", "--min-age", "2h").code == 0
        assert stub_cloud.requests[-1]["body"] == {"min_age": 7200}
        assert openstack("project", "orphan", "scan", "create", "--min-age", "2").code == 2
        assert openstack("project", "orphan", "scan", "create", "--wait-timeout", "2").code == 2

    def test_without_a_scan_that_has_ended_it_says_what_to_do(self, openstack, stub_cloud):
        for command in (("list",), ("project", "list"), ("adopt", self.GONE)):
            result = openstack("project", "orphan", *command)
            assert (result.code, len(result.err.splitlines())) == (1, 1)
            assert "openstack project orphan scan create" in result.err

    def test_an_unknown_scan(self, openstack, stub_cloud):
        result = openstack("project", "orphan", "scan", "show", "nope")
        assert (result.code, len(result.err.splitlines())) == (1, 1)
