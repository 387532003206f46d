"""Blazar's leases: no delete without a working trust, and none that takes a floating IP of another project."""

import datetime
import types

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.base import FENCE_OPTION, Resource
from cleanup_orchestrator.plugins.reservation import SERVICE, _needed_by_addresses, _needed_by_servers
from tests.support import sweeps
from tests.unit.answers import connection, project

(LEASE,) = SERVICE.types
NETWORK, ADDRESS = "external", "198.51.100.200"
NOW = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def at(hours):
    return (NOW + datetime.timedelta(hours=hours)).isoformat()


def lease(id_, begin, end, owner="p", status="active", type_="virtual:floatingip", **changes):
    reservation = {"id": f"r-{id_}", "resource_type": type_, "status": status, "network_id": NETWORK, "amount": 1}
    return {
        "id": id_, "name": id_, "project_id": owner, "trust_id": f"t-{owner}", "status": status.upper(),
        "start_date": at(begin), "end_date": at(end), "reservations": [reservation],
        "events": [{"event_type": "end_lease", "status": "UNDONE"}], **changes,
    }  # fmt: skip


class Cloud:
    """Blazar, Keystone and Neutron; each attribute is what they answer with."""

    def __init__(self, *leases, addresses=()):
        self.leases = {each["id"]: each for each in leases}
        self.addresses = addresses  #: of Neutron
        self.roles, self.granted, self.user, self.options = {"member"}, {"member", "reader"}, {"enabled": True}, {}
        self.enabled, self.trust_status, self.releases = True, 200, True
        self.token_roles = ["admin"]
        self.servers = []  #: of Nova: owner, host and flavor

    def reservation(self, method, path, query, body):
        if path == "/floatingips":
            return 200, {"floatingips": [{"floating_network_id": NETWORK, "floating_ip_address": ADDRESS}]}
        id_ = path.rpartition("/")[2]
        if id_ == "leases":
            return 200, {"leases": [*self.leases.values()]}
        if method == "PUT":
            assert [each["amount"] for each in body["reservations"]] == [0]
            if not self.releases:
                return 400, {"error_message": "Not enough floating IPs available"}
            self.leases[id_]["reservations"][0]["amount"] = 0
        if method == "DELETE":
            del self.leases[id_]
            return 204, ""
        return 200, {"lease": self.leases[id_]}

    def identity(self, method, path, query, body):
        if path.startswith("/OS-TRUST"):
            owner = path.rpartition("t-")[2]
            roles = [{"id": each} for each in self.roles]
            return self.trust_status, {"trust": {"project_id": owner, "trustor_user_id": "user", "roles": roles}}
        if path.startswith("/projects"):
            return 200, {"project": {"enabled": self.enabled, "options": self.options}}
        if path.startswith("/users"):
            return (200, {"user": self.user}) if self.user else (404, {})
        assert query == {"user.id": "user", "scope.project.id": "p", "effective": "true"}
        return 200, {"role_assignments": [{"role": {"id": each}} for each in self.granted]}

    def network(self, method, path, query, body):
        assert (method, path, query) == ("GET", "/floatingips", {"floating_network_id": NETWORK})
        return 200, {"floatingips": [*self.addresses]}

    def compute(self, method, path, query, body):
        if path == "/os-aggregates":
            return 200, {"aggregates": [{"name": "r-mine", "hosts": ["h1"]}, {"name": "r-other", "hosts": ["h2"]}]}
        assert (method, path, query["all_tenants"]) == ("GET", "/servers/detail", "1")
        wanted = (query.get("host"), query.get("flavor"))
        found = [each for each in self.servers if each[1] == wanted[0] or each[2] == wanted[1]]
        return 200, {"servers": [{"id": "s", "name": "web", "tenant_id": owner} for owner, _, _ in found]}

    def connection(self):
        made = connection(
            reservation=self.reservation, identity=self.identity, network=self.network, compute=self.compute
        )
        access = types.SimpleNamespace(role_names=self.token_roles)
        made.session.auth = types.SimpleNamespace(get_access=lambda _: access)
        return made

    def delete(self, **options):
        return sweeps.delete(LEASE, self.connection(), project(delete_compute_leases=False, **options))


def floating_ip(owner, *tags):
    return {"id": "ip", "floating_ip_address": ADDRESS, "project_id": owner, "tags": [*tags]}


@pytest.mark.parametrize("roles", [(), ("member",), ("service", "manager"), ("Admin",)])
def test_without_the_role_admin_the_list_is_unknown(roles):
    cloud = Cloud()
    cloud.token_roles = [*roles]
    found = sweeps.inventory(LEASE, cloud.connection(), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


def test_a_lease_with_a_working_trust_is_deleted():
    cloud = Cloud(lease("mine", -1, 1), lease("foreign", -1, 1, owner="q"))
    swept = cloud.delete()
    assert (swept.outcome, swept.deleted, [*cloud.leases]) == (Outcome.CLEAR, (("mine", "mine"),), ["foreign"])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"granted": set()}, "no longer has the roles"),
        ({"granted": {"reader"}}, "no longer has the roles"),
        ({"enabled": False}, "the project is disabled"),
        ({"options": {FENCE_OPTION: "d"}}, "token fence"),
        ({"user": {"enabled": False}}, "the user is disabled"),
        ({"user": None}, "the user is gone"),
        ({"trust_status": 404}, "the trust with which Blazar deletes it is gone"),
    ],
)
def test_without_a_token_for_the_trust_no_delete_is_made(change, text):
    cloud = Cloud(lease("mine", -1, 1))
    vars(cloud).update(change)
    (left,) = cloud.delete().leftovers
    assert (left.reason, text in left.message, [*cloud.leases]) == (Reason.REFUSED, True, ["mine"])


def test_a_trust_of_the_orchestrators_own_user_works_behind_the_fence(monkeypatch):
    cloud = Cloud(lease("mine", -1, 1))
    cloud.options = {FENCE_OPTION: "d"}
    made = cloud.connection()
    made.session.get_user_id = lambda: "user"
    monkeypatch.setattr(cloud, "connection", lambda: made)
    assert cloud.delete().outcome is Outcome.CLEAR


def test_a_trust_that_cannot_be_read_is_no_working_trust():
    cloud = Cloud(lease("mine", -1, 1))
    cloud.trust_status = 403
    (left,) = cloud.delete().leftovers
    assert (left.reason, [*cloud.leases]) == (Reason.FORBIDDEN, ["mine"])


def test_a_lease_of_another_projects_trust_is_left():
    cloud = Cloud(lease("moved", -1, 1, trust_id="t-q"))
    (left,) = cloud.delete().leftovers
    assert (left.reason, [each["owner"] for each in left.blocked_by]) == (Reason.FOREIGN, ["q"])


def test_a_lease_whose_delete_failed_in_blazar_names_the_way_out():
    ended = [{"event_type": "end_lease", "status": "IN_PROGRESS"}]
    (left,) = Cloud(lease("stuck", -1, 1, status="ERROR", events=ended)).delete().leftovers
    assert (left.reason, "UNDONE" in left.message) == (Reason.REFUSED, True)


@pytest.mark.parametrize(
    ("theirs", "tags", "asked"),
    [
        (lease("now", -1, 1, owner="q"), ("reservation:r-now",), True),  # Blazar lends the address one after the other
        (lease("now", -1, 7, owner="q"), ("reservation:r-now",), False),  # at the same time it lends others
        (lease("ended", -5, -4, owner="q", status="deleted"), (), True),
        (lease("soon", 0.02, 1, owner="q", status="pending"), None, True),
        (lease("tomorrow", 24, 25, owner="q", status="pending"), None, False),
    ],
)
@pytest.mark.parametrize("releases", [True, False])
def test_addresses_are_given_back_if_another_project_may_have_one(theirs, tags, asked, releases):
    mine = lease("mine", 5, 6, status="pending")
    cloud = Cloud(mine, theirs | {"reservations": [dict(each) for each in theirs["reservations"]]},
                  addresses=() if tags is None else [floating_ip("q", *tags)])  # fmt: skip
    cloud.releases = releases
    swept = cloud.delete()
    assert (mine["reservations"][0]["amount"] == 0) is (asked and releases)
    if asked and not releases:
        assert [(left.id, left.reason) for left in swept.leftovers] == [("mine", Reason.FOREIGN)]
    else:
        assert (swept.outcome, [*cloud.leases]) == (Outcome.CLEAR, [theirs["id"]])


def test_an_active_lease_cannot_give_its_addresses_back():
    cloud = Cloud(lease("mine", -1, 6), addresses=[floating_ip("q")])
    (left,) = cloud.delete().leftovers
    assert (left.reason, [each["id"] for each in left.blocked_by]) == (Reason.FOREIGN, ["ip"])


@pytest.mark.parametrize("type_", ["physical:host", "virtual:instance", "flavor:instance"])
def test_leases_of_servers_are_protected(type_):
    cloud = Cloud(lease("mine", -1, 1, type_=type_))
    assert [left.reason for left in cloud.delete().leftovers] == [Reason.PROTECTED]
    swept = sweeps.delete(LEASE, cloud.connection(), project(delete_compute_leases=True))
    assert swept.outcome is Outcome.CLEAR


def test_a_lease_of_addresses_and_of_servers_is_protected():
    mine = lease("mine", 1, 2)
    mine["reservations"] += lease("host", 1, 2, type_="physical:host")["reservations"]
    assert [left.reason for left in Cloud(mine).delete().leftovers] == [Reason.PROTECTED]


@pytest.mark.parametrize(
    ("type_", "server", "stays"),
    [
        ("physical:host", ("q", "h1", "small"), True),
        ("physical:host", ("p", "h1", "small"), False),
        ("physical:host", ("q", "h2", "small"), False),
        ("physical:host", ("q", "h2", "r-mine"), False),
        ("virtual:instance", ("q", "h2", "r-mine"), True),
        ("virtual:instance", ("p", "h2", "r-mine"), False),
        ("flavor:instance", ("q", "h2", "r-mine"), True),
        ("virtual:floatingip", ("q", "h1", "r-mine"), False),
    ],
)
def test_a_lease_stays_whose_end_would_delete_a_server_of_another_project(type_, server, stays):
    cloud = Cloud(lease("mine", -1, 1, type_=type_))
    cloud.servers = [server]
    swept = sweeps.delete(LEASE, cloud.connection(), project(delete_compute_leases=True))
    left = [(one.reason, [(b["id"], b["owner"]) for b in one.blocked_by]) for one in swept.leftovers]
    assert left == ([(Reason.FOREIGN, [("s", "q")])] if stays else [])


def test_a_leftover_floating_ip_or_server_needs_its_lease_only():
    rows = [lease("one", -1, 1), lease("other", -1, 1), lease("host", -1, 1, type_="physical:host")]
    one, other, host = (Resource(row["id"], "", "p", row) for row in rows)
    cloud = connection(network=lambda *_: (200, {"floatingip": floating_ip("p", "reservation:r-one")}))
    needs = _needed_by_addresses(cloud, project(), ["ip"])
    assert [needs(each) for each in (one, other)] == ["ip", None]
    needs = _needed_by_addresses(connection(network=lambda *_: (404, {})), project(), ["ip"])
    assert [needs(each) for each in (one, other)] == ["ip", "ip"]
    needs = _needed_by_servers(connection(), project(), ["server"])
    assert [needs(each) for each in (one, other, host)] == [None, None, "server"]
