"""``openstack project deletion brake``."""


class TestBrake:
    def test_set_show_and_lift(self, openstack, stub_cloud):
        show = ("project", "deletion", "brake", "show", "-f", "json")
        assert openstack(*show).json["on"] is False
        result = openstack("project", "deletion", "brake", "set", "--reason", "the storage misbehaves", "-f", "json")
        assert (result.code, result.json["on"], result.json["reason"]) == (0, True, "the storage misbehaves")
        assert stub_cloud.requests[-1]["body"] == {"reason": "the storage misbehaves"}
        assert openstack(*show).json["user_name"] == "admin"
        result = openstack("project", "deletion", "brake", "lift")
        assert (result.code, result.out) == (0, "")
        assert openstack(*show).json["on"] is False

    def test_the_brake_needs_a_reason(self, openstack, stub_cloud):
        assert openstack("project", "deletion", "brake", "set").code == 2
        assert stub_cloud.brake["on"] is False
