"""``openstack project deletion service``: the requests, and the output."""

import pytest
import yaml


class TestServices:
    def test_json(self, openstack, stub_cloud):
        stub_cloud.services = [
            {
                "region": "RegionOne",
                "service_type": "network",
                "name": "neutron",
                "answered_by": "plugin",
                "types": ["network", "port"],
                "message": "",
            },
            {
                "region": "RegionOne",
                "service_type": "rating",
                "name": "cloudkitty",
                "answered_by": "unsupported",
                "types": [],
                "message": "no plugin",
            },
        ]
        result = openstack("project", "deletion", "service", "list", "--long", "-f", "json")
        assert result.json[0] == {
            "Region": "RegionOne",
            "Service Type": "network",
            "Name": "neutron",
            "Answered By": "plugin",
            "Types": ["network", "port"],
            "Message": "",
        }
        assert "network, port" in openstack("project", "deletion", "service", "list", "--long").out
        table = openstack("project", "deletion", "service", "list").out
        assert "network, port" not in table
        assert "no plugin" in table

    def test_project_that_is_gone(self, openstack, stub_cloud):
        gone = "0" * 32
        assert openstack("project", "deletion", "service", "list", "--project", gone).code == 0
        assert stub_cloud.requests[-1]["query"]["project_id"] == [gone]

    @pytest.mark.parametrize("format_", ["table", "value", "csv", "json", "yaml"])
    def test_a_type_cannot_control_the_terminal(self, openstack, stub_cloud, format_):
        """A plugin of another party names its types."""
        name = "\x1b[2Jgone\r\x9b31m\u202e\a\n"
        stub_cloud.services = [{"region": "R", "service_type": "x", "types": [name, "port"]}]
        result = openstack("project", "deletion", "service", "list", "--long", "-f", format_)
        assert result.code == 0
        assert not set("\x1b\r\x9b\u202e\a") & set(result.out)
        if format_ == "table":
            assert "| \\x1b[2Jgone\\r\\x9b31m\\u202e\\x07\\n, port |" in result.out
        if format_ == "json":
            assert result.json[0]["Types"] == [name, "port"]
        if format_ == "yaml":
            assert yaml.safe_load(result.out)[0]["Types"] == [name, "port"]
