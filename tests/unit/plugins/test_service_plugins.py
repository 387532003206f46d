"""What the plugins for Octavia, Designate and Manila decide, without a cloud; and the declared calls they rest on."""

from __future__ import annotations

import itertools
import json
import types

import pytest
from keystoneauth1.adapter import Adapter
from openstack import exceptions
from requests import Response

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins import dns, load_balancer, object_store, shared_file_system
from cleanup_orchestrator.plugins.base import ProjectDefinition, Refused, Resource, Rest
from tests.support import sweeps
from tests.support.sweeps import before_delete
from tests.unit.answers import connection

PROJECT = ProjectDefinition("ours", "name", "default", "RegionOne")


_numbers = itertools.count()


class Canned(Adapter):
    """A service with prepared answers, by method and path; it writes down what it was asked."""

    def __init__(self, answers=(), maximum=(2, 99)):
        self.answers, self.asked, self.maximum = dict(answers), [], maximum
        self.endpoint_override = f"http://cloud/{next(_numbers)}"
        self.service_type = "canned"

    def request(self, path, method, params=None, headers=None, **_):
        self.asked.append((method, path, params, headers))
        body = self.answers.get(f"{method} {path}", {})
        response = Response()
        response.status_code = body if isinstance(body, int) else 200
        response._content = b"" if isinstance(body, int) else json.dumps(body).encode()
        response.headers["Content-Type"] = "application/json"
        response.url, response.request = path, types.SimpleNamespace(method=method, url=path)
        return response

    def get_endpoint_data(self, *_, **__):
        return types.SimpleNamespace(max_microversion=self.maximum)


def cloud(**services):
    session = types.SimpleNamespace(get_user_id=lambda: "me")
    return types.SimpleNamespace(session=session, **services)


def resource(identity="id", owner="ours", **row):
    return Resource(identity, "name", owner, {"id": identity, "project_id": owner, **row})


# ------------------------------------------------------------------------------------------------ declared calls


@pytest.mark.parametrize("id_", [".", ".."])
def test_a_name_that_leads_to_another_place_is_not_put_into_a_path(id_):
    api = Canned({})
    with pytest.raises(BadAnswer, match="no path"):
        Rest("dns", "/zones/{id}/x", method="DELETE").call(cloud(dns=api), PROJECT, Resource(id_, "", "p"))
    assert not api.asked


def test_the_headers_of_a_declared_call_are_filled_too():
    """Designate takes the project from a header: left unfilled, it would be asked about a project of that name."""
    service = Canned({"GET /things": {"things": []}, "DELETE /things/id": {}})
    headers = {"X-Project": "{project_id}"}
    list(Rest("dns", "/things", key="things", headers=headers).rows(cloud(dns=service), PROJECT))
    Rest("dns", "/things/{id}", method="DELETE", headers=headers).call(cloud(dns=service), PROJECT, resource())
    assert [asked[3] for asked in service.asked] == [{"X-Project": "ours"}] * 2


@pytest.mark.parametrize(("paging", "calls"), [("offset", 52), ("marker", 2)])
def test_a_list_that_does_not_know_its_paging_is_not_followed_for_ever(paging, calls):
    service = Canned({"GET /things": {"things": [{"id": "a"}, {"id": "b"}]}})
    listed = Rest("dns", "/things", key="things", paging=paging)
    with pytest.raises(BadAnswer, match="same page twice"):
        list(listed.rows(cloud(dns=service), PROJECT))
    assert len(service.asked) == calls


class Joined(Canned):
    """As Manila lists shares: an offset counts rows of a join with their instances, and each share is shown once."""

    def __init__(self, *instances):
        super().__init__({})
        self.joined = [share for share, count in instances for _ in range(count)]

    def request(self, path, method, params=None, **more):
        offset, limit = int(params["offset"]), int(params["limit"])
        ids = dict.fromkeys(self.joined[offset : offset + limit])
        self.answers = {f"{method} {path}": {"things": [{"id": id_} for id_ in ids]}}
        return super().request(path, method, params=params, **more)


@pytest.mark.parametrize(
    "instances",
    [
        [("a", 2)],
        [("a", 2), ("b", 2)],
        [("a", 9), ("b", 1), ("c", 4)],
        [(f"{n:03}", 1 + n % 3) for n in range(200)],
        [(f"{n:03}", 20) for n in range(10)],
    ],
)
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_what_is_counted_several_times_and_shown_once_is_listed_whole(instances, limit):
    service = Joined(*instances)
    listed = Rest("dns", "/things", key="things", paging="offset", limit=limit)
    found = [row["id"] for row in listed.rows(cloud(dns=service), PROJECT)]
    assert found == [id_ for id_, _ in instances]


# ------------------------------------------------------------------------------------------------------- Octavia


@pytest.mark.parametrize(
    ("limits", "is_one"),
    [
        ({"pool": None, "listener": None}, False),  # the counter of a project that never had a quota
        ({"pool": 10, "listener": -1}, False),  # what Octavia writes when a quota is deleted
        ({"pool": 10, "listener": None}, False),
        ({"pool": 11, "listener": -1}, True),
        ({"pool": 0, "listener": None}, True),
    ],
)
def test_a_quota_is_what_differs_from_the_defaults(limits, is_one):
    row = {"project_id": "ours", "tenant_id": "ours", **limits}
    defaults = {"quota": {"project_id": "ours", "pool": 10, "listener": -1}}
    service = Canned({"GET /lbaas/quotas": {"quotas": [row]}, "GET /lbaas/quotas/ours/default": defaults})
    assert list(load_balancer._quota(cloud(load_balancer=service), PROJECT)) == ([row] if is_one else [])
    # Reading one by its id makes Octavia write.
    assert "/lbaas/quotas/ours" not in {path for _, path, _, _ in service.asked}


@pytest.mark.parametrize(
    ("status", "provider", "reason"),
    [
        ("PENDING_DELETE", "amphora", Reason.DELETING),
        ("PENDING_UPDATE", "amphora", Reason.IN_USE),
        ("PENDING_CREATE", "gone", Reason.IN_USE),
        ("ACTIVE", "amphora", None),
        ("ERROR", "amphora", None),
        ("ACTIVE", "gone", Reason.NOT_SUPPORTED),
    ],
)
def test_why_the_delete_of_a_load_balancer_is_refused(status, provider, reason):
    row = {"provisioning_status": status, "provider": provider}
    service = Canned(
        {
            "GET /lbaas/loadbalancers/id": {"loadbalancer": row},
            "GET /lbaas/providers": {"providers": [{"name": "amphora"}, {"name": "octavia"}]},
        }
    )
    verdict = load_balancer.explain(cloud(load_balancer=service), PROJECT, resource())
    assert (verdict.reason if verdict else None) == reason


# --------------------------------------------------------------------------------------------------------- Swift


@pytest.mark.parametrize("name", ["container", "account_metadata"])
@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
def test_an_account_that_swift_does_not_show_is_not_empty(name, status):
    made = connection("ours", object_store=lambda *_: (status, {}))
    made.object_store.get_endpoint = lambda: "http://swift/v1/AUTH_ours"
    type_ = next(t for t in object_store.SERVICE.types if t.name == name)
    with pytest.raises(exceptions.HttpException, match=str(status)):
        list(type_.list(made, PROJECT))
    made.object_store.answer = lambda *_: (410, {})  # the account was deleted, and Swift's reaper deletes the rest
    assert list(type_.list(made, PROJECT)) == []


# ----------------------------------------------------------------------------------------------------- Designate


@pytest.mark.parametrize(
    ("action", "status", "asked", "reason"),
    [
        ("NONE", "ACTIVE", 1, None),
        ("CREATE", "ERROR", 1, None),
        ("UPDATE", "PENDING", 1, None),
        ("DELETE", "PENDING", 0, Reason.DELETING),
        ("DELETE", "ERROR", 1, Reason.ERROR),  # asked again, and the way out is named
    ],
)
def test_a_zone_is_deleted_unless_that_is_under_way(action, status, asked, reason):
    service = Canned()
    try:
        dns.zones._delete_zone(cloud(dns=service), PROJECT, resource(action=action, status=status))
        found = None
    except Refused as refused:
        found = refused.verdict.reason
    assert found == reason
    assert [(method, path) for method, path, _, _ in service.asked] == [("DELETE", "/zones/id")] * asked
    assert all(headers["X-Auth-Sudo-Project-ID"] == "ours" for *_, headers in service.asked)


@pytest.mark.parametrize(
    ("in_neutron", "in_designate", "found"),
    [
        ({"f1": "RegionOne"}, {"RegionOne:f1": "a.example."}, ["RegionOne:f1"]),
        ({"f1": "RegionOne"}, {"RegionOne:f1": None}, []),
        ({}, {}, []),
        ({}, {"RegionOne:theirs": "b.example."}, []),  # the header was lost on the way: these are not the project's
        ({"f1": "RegionOne"}, {}, None),  # Designate could not ask Neutron, and says: nothing
        ({"f2": "RegionTwo"}, {}, []),  # a Designate that serves this region alone
        ({"f2": "RegionTwo"}, {"RegionTwo:f2": "c.example."}, ["RegionTwo:f2"]),
    ],
)
def test_the_list_of_ptr_records_is_compared_with_neutrons_floating_ips(monkeypatch, in_neutron, in_designate, found):
    ips = [{"id": identity, "region": region, "project_id": "ours"} for identity, region in in_neutron.items()]
    monkeypatch.setattr(dns.records, "_floating_ips", lambda connection, **query: iter(ips))
    rows = [{"id": identity, "ptrdname": name} for identity, name in in_designate.items()]
    connection = cloud(dns=Canned({"GET /reverse/floatingips": {"floatingips": rows}}))
    if found is None:
        with pytest.raises(BadAnswer, match="lacks 1 floating IPs"):
            list(dns.records._ptrs(connection, PROJECT))
    else:
        assert [row["id"] for row in dns.records._ptrs(connection, PROJECT)] == found


@pytest.mark.parametrize(
    ("name", "kind", "asked"),
    [
        ("4.113.0.203.in-addr.arpa.", "PTR", "203.0.113.4"),
        ("4.113.0.203.in-addr.arpa.", "TXT", None),
        ("www.example.com.", "PTR", None),
    ],
)
def test_the_holder_of_an_address_is_found_by_the_address(monkeypatch, name, kind, asked):
    def floating_ips(connection, **query):
        assert query == {"floating_ip_address": asked}
        return iter([{"project_id": "theirs"}])

    monkeypatch.setattr(dns.records, "_floating_ips", floating_ips)
    assert dns.records._holder(cloud(), {"name": name, "type": kind}) == ("theirs" if asked else "")


@pytest.mark.parametrize(
    ("name", "above"),
    [
        ("b.a.example.", ("a.example.", "example.")),
        ("example.", ()),
        ("0-63.2.0.192.in-addr.arpa.", ("2.0.192.in-addr.arpa.", "0.192.in-addr.arpa.", "192.in-addr.arpa.",
                                        "in-addr.arpa.", "arpa.")),
    ],
)  # fmt: skip
def test_a_zone_is_deleted_before_those_above_it(name, above):
    [zone] = (type_ for type_ in dns.SERVICE.types if type_.name == "zone")
    assert zone.refers_to(Resource("id", name, "ours")) == above


def test_a_zone_counts_as_used_by_others_recordsets_only():
    rows = [
        {"id": "soa", "project_id": "ours"},
        {"id": "sink", "project_id": None},
        {"id": "theirs", "project_id": "others"},
    ]
    pages = iter([{"recordsets": rows}, {"recordsets": []}])

    class Paged(Canned):
        def request(self, path, method, **more):
            self.answers = {f"GET {path}": {"zones": []} if path == "/zones" else next(pages)}
            return super().request(path, method, **more)

    verdict = before_delete(dns.zones.ZONE, cloud(dns=Paged()), PROJECT, resource())
    assert verdict.reason is Reason.FOREIGN
    assert verdict.blocked_by == ({"type": "dns.recordset", "id": "theirs", "owner": "others"},)


# -------------------------------------------------------------------------------------------------------- Manila


@pytest.mark.parametrize(
    ("maximum", "wanted", "known"),
    [((2, 81), "2.81", True), ((2, 80), "2.81", False), ((2, 99), "2.81", True), ((2, 9), "2.81", False)],
)
def test_what_a_manila_is_too_old_for_is_not_there(maximum, wanted, known):
    connection = cloud(shared_file_system=Canned(maximum=maximum))
    assert shared_file_system.common.since(wanted)(connection, PROJECT) is known


def test_a_manila_whose_versions_cannot_be_read_is_not_treated_as_old():
    with pytest.raises(BadAnswer):
        shared_file_system.common.since("2.81")(cloud(shared_file_system=Canned(maximum=None)), PROJECT)


@pytest.mark.parametrize(
    ("status", "reset", "refused"),
    [
        ("available", False, False),
        ("error", False, False),
        ("error_deleting", True, False),
        ("extending_error", True, False),
        ("manage_error", True, False),
        ("creating", False, False),  # Manila itself refuses these, and the status is named
        ("migrating", False, False),
        ("deleting", False, True),
        ("deferred_deleting", False, True),
        ("error_deferred_deleting", True, False),
    ],
)
def test_a_failed_change_is_got_out_of_and_one_under_way_is_left(status, reset, refused):
    service = Canned()
    prepare = shared_file_system.common.reset_to_error("/shares")
    try:
        prepare(cloud(shared_file_system=service), PROJECT, resource(status=status))
        assert not refused
    except Refused as why:
        assert refused and why.verdict.reason is Reason.DELETING
    assert [path for _, path, _, _ in service.asked] == (["/shares/id/action"] if reset else [])


@pytest.mark.parametrize(
    ("shares", "snapshots", "named"),
    [
        ([], [], None),
        ([{"id": "s", "project_id": "ours", "share_group_id": "g"}], [], "shared-file-system.share"),
        ([], [{"id": "p", "project_id": "ours", "share_group_id": "g"}], "shared-file-system.group_snapshot"),
        ([], [{"id": "p", "project_id": "ours", "share_group_id": "another"}], None),
    ],
    ids=["empty", "a share", "a snapshot", "a snapshot of another group"],
)
def test_by_force_no_share_group_is_deleted_that_has_shares_or_snapshots(shares, snapshots, named):
    """Manila's forced delete removes the rows of the snapshots of the group, and then fails if it has shares."""

    class Manila(Canned):
        def request(self, path, method, params=None, **more):
            whole = method == "GET" and params["offset"] == 0
            self.answers["GET /shares/detail"] = {"shares": shares if whole else []}
            self.answers["GET /share-group-snapshots/detail"] = {"share_group_snapshots": snapshots if whole else []}
            return super().request(path, method, params, **more)

    manila = Manila()
    [group] = (type_ for type_ in shared_file_system.SERVICE.types if type_.name == "share_group")
    try:
        group.force(cloud(shared_file_system=manila), PROJECT, resource("g", status="deleting"))
        refused = None
    except Refused as error:
        refused = error.verdict.blocked_by[0]["type"]
    written = [path for method, path, *_ in manila.asked if method == "POST"]
    assert refused == named and written == ([] if named else ["/share-groups/g/action"] * 2)


@pytest.mark.parametrize(
    ("states", "spare"),
    [
        ({}, []),
        ({"a": "active"}, []),
        ({"a": "in_sync", "b": "active"}, ["a"]),
        ({"a": "active", "b": "active", "c": "error"}, ["b", "c"]),  # writable replication: each is active
        ({"a": "out_of_sync", "b": "error"}, ["b"]),  # none is active: Manila refuses or takes the last one
    ],
)
def test_of_the_replicas_the_share_itself_is_left(states, spare):
    rows = [{"id": identity, "replica_state": state, "share_id": "s"} for identity, state in states.items()]
    theirs = {"id": "theirs", "replica_state": "in_sync", "share_id": "other"}
    pages = iter([{"share_replicas": [*rows, theirs]}, {"share_replicas": []}])

    class Paged(Canned):
        def request(self, path, method, **more):
            self.answers = {f"GET {path}": next(pages)}
            return super().request(path, method, **more)

    share = {"id": "s", "has_replicas": True}
    found = shared_file_system.shares._spare_replicas(cloud(shared_file_system=Paged()), PROJECT, share)
    assert [row["id"] for row in found] == spare


@pytest.mark.parametrize(("there", "status"), [(False, 400), (False, 404), (True, 400), (True, 500)])
def test_a_share_that_is_deleted_while_its_backups_are_listed_has_none(there, status):
    """But an answer that tells nothing is no answer as long as the share is there."""

    class Manila(Canned):
        def request(self, path, method, params=None, **more):
            first = params and (params.get("offset"), params.get("is_soft_deleted")) == (0, "false")
            self.answers["GET /shares/detail"] = {"shares": [{"id": "s", "project_id": "ours"}] if first else []}
            return super().request(path, method, params, **more)

    service = Manila(
        {
            "GET /share-servers": {"share_servers": []},
            "GET /share-backups/detail": status,
            "GET /shares/s": {"share": {"id": "s"}} if there else 404,
        }
    )
    type_ = next(t for t in shared_file_system.SERVICE.types if t.name == "backup")
    rows = type_.list(cloud(shared_file_system=service), PROJECT)
    if not there:
        assert list(rows) == []
    else:
        with pytest.raises(exceptions.HttpException, match=str(status)):
            list(rows)


def test_security_services_are_listed_without_a_limit():
    """Manila would look for services that have such an attribute, and find none."""
    answers = {"GET /share-servers": {"share_servers": []}, "GET /security-services/detail": {"security_services": []}}
    service = Canned(answers)
    type_ = next(t for t in shared_file_system.SERVICE.types if t.name == "security_service")
    assert list(type_.list(cloud(shared_file_system=service), PROJECT)) == []
    assert service.asked[-1][2] == {"all_tenants": "1", "project_id": "ours"}


def test_a_list_of_manila_counts_only_after_it_showed_something_for_admins_only():
    service = Canned({"GET /share-servers": 403, "GET /shares/detail": {"shares": []}})
    type_ = next(t for t in shared_file_system.SERVICE.types if t.name == "share")
    found = sweeps.inventory(type_, cloud(shared_file_system=service), PROJECT)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)
    assert [path for _, path, _, _ in service.asked] == ["/share-servers"]


@pytest.mark.parametrize(
    ("type_", "name", "kept"),
    [
        ("SOA", "10.in-addr.arpa.", True),
        ("NS", "10.in-addr.arpa.", True),
        ("NS", "sub.10.in-addr.arpa.", False),
        ("PTR", "10.in-addr.arpa.", False),
        ("A", "10.in-addr.arpa.", False),
    ],
)
def test_what_designate_made_with_a_zone_goes_with_the_zone(type_, name, kept):
    row = {"id": "r", "type": type_, "name": name, "zone_name": "10.in-addr.arpa."}
    assert bool(dns.records.zones_own(Resource("r", name, "p", row), PROJECT)) is kept
