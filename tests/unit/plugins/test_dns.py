"""Designate: whose zones, recordsets and PTR records are deleted, and in which order."""

from __future__ import annotations

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins import dns
from cleanup_orchestrator.plugins.base import ProjectDefinition, Refused, Resource
from tests.support.sweeps import before_delete
from tests.unit.answers import connection, ids, listing, project, refusal
from tests.unit.plugins.canned import Canned, canned, thing

OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


class Designate:
    """Zones, recordsets, shares and keys; each list comes in one page, with the rows of every project."""

    def __init__(self):
        self.zones = [
            {"id": "z", "name": "ours.example.", "project_id": OURS},
            {"id": "t", "name": "theirs.example.", "project_id": THEIRS},
            {"id": "n", "name": "unowned.example.", "project_id": ""},
        ]
        self.recordsets, self.in_zone = [], []
        self.keys = [
            {"id": "k", "name": "k", "scope": "ZONE", "resource_id": "z"},
            {"id": "l", "name": "l", "scope": "ZONE", "resource_id": "t"},
            {"id": "m", "name": "m", "scope": "POOL", "resource_id": "z"},
        ]

    def answer(self, method, path, query, body):
        first = "marker" not in query
        if path == "/zones":
            rows = self.zones
            if name := query.get("name"):
                rows = [zone for zone in rows if zone["name"].endswith(name.removeprefix("*"))]
            return 200, {"zones": rows if first else []}
        if path == "/recordsets":
            return 200, {"recordsets": self.recordsets if first else []}
        if path == "/tsigkeys":
            return 200, {"tsigkeys": self.keys if first else []}
        if path.endswith("/recordsets"):
            return 200, {"recordsets": self.in_zone if first else []}
        if path.endswith("/shares"):
            zone = path.split("/")[2]
            return 200, {"shared_zones": [{"id": f"share-of-{zone}", "target_project_id": OURS}] if first else []}
        return 200, {}


ZONE = Resource("z", "ours.example.", OURS, {"id": "z", "name": "ours.example.", "project_id": OURS})


@pytest.mark.parametrize(("owner", "foreign"), [(OURS, False), ("", False), (THEIRS, True)])
def test_a_zone_with_a_recordset_of_another_project_stays(owner, foreign):
    designate = Designate()
    designate.in_zone = [{"id": "r", "project_id": owner}]
    verdict = before_delete(dns.zones.ZONE, connection(dns=designate.answer), PROJECT, ZONE)
    assert (verdict is not None) is foreign
    assert verdict is None or (verdict.reason, verdict.blocked_by[0]["id"]) == (Reason.FOREIGN, "r")


@pytest.mark.parametrize(("owner", "foreign"), [(OURS, False), (THEIRS, True)])
def test_a_zone_with_a_zone_of_another_project_below_it_stays(owner, foreign):
    designate = Designate()
    designate.zones.append({"id": "b", "name": "below.ours.example.", "project_id": owner})
    verdict = before_delete(dns.zones.ZONE, connection(dns=designate.answer), PROJECT, ZONE)
    assert (verdict is not None) is foreign
    assert verdict is None or (verdict.reason, verdict.blocked_by[0]["id"]) == (Reason.FOREIGN, "b")


PTR = {"type": "PTR", "name": "4.113.0.203.in-addr.arpa."}


@pytest.mark.parametrize(("holder", "kept"), [(OURS, False), ("", False), (THEIRS, True)])
def test_the_ptr_record_of_an_address_belongs_to_its_holder(monkeypatch, holder, kept):
    ips = [{"project_id": holder}] if holder else []
    monkeypatch.setattr(dns.records, "_floating_ips", lambda _connection, **_query: iter(ips))
    designate = Designate()
    designate.recordsets = [
        {"id": "in-own", "project_id": OURS, "zone_id": "z", **PTR},
        {"id": "in-theirs", "project_id": OURS, "zone_id": "t", **PTR},
    ]
    cloud = connection(dns=designate.answer)
    [row] = listing(dns, "recordset")(cloud, PROJECT)
    assert row["id"] == "in-theirs", "those in the project's own zones go with these"
    recordset = Resource(row["id"], "", OURS, row)
    assert bool(dns.records.others_floating_ip(recordset, PROJECT)) is kept
    verdict = refusal(dns.records._delete_recordset, cloud, PROJECT, recordset)
    assert (verdict is not None) is kept
    assert bool(cloud.dns.writes()) is not kept


def test_shares_are_those_of_others_zones_with_the_project():
    found = listing(dns, "zone_share")(connection(dns=Designate().answer), PROJECT)
    assert ids(found) == ["share-of-t"]


def test_keys_are_those_of_the_projects_zones():
    cloud = connection(dns=Designate().answer)
    assert ids(listing(dns, "tsig_key")(cloud, PROJECT)) == ["k"]


NAMED = ProjectDefinition("ours", "name", "default", "RegionOne")


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
        dns.zones._delete_zone(canned(dns=service), NAMED, thing(action=action, status=status))
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
    connection = canned(dns=Canned({"GET /reverse/floatingips": {"floatingips": rows}}))
    if found is None:
        with pytest.raises(BadAnswer, match="lacks 1 floating IPs"):
            list(dns.records._ptrs(connection, NAMED))
    else:
        assert [row["id"] for row in dns.records._ptrs(connection, NAMED)] == found


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
    assert dns.records._holder(canned(), {"name": name, "type": kind}) == ("theirs" if asked else "")


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


@pytest.mark.parametrize(("labels", "above"), [(126, 125), (127, 126), (128, 127), (129, 127), (8000, 127)])
def test_a_zone_is_below_no_more_zones_than_a_name_in_dns_has_labels(labels, above):
    """Designate refuses longer names; for one of 16 kB, each of its endings would take 62 MB."""
    found = dns.zones.zones_above(Resource("id", "a." * labels, "ours"))
    assert len(found) == above and found[-1] == "a." and found[0] == "a." * above


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

    verdict = before_delete(dns.zones.ZONE, canned(dns=Paged()), NAMED, thing())
    assert verdict.reason is Reason.FOREIGN
    assert verdict.blocked_by == ({"type": "dns.recordset", "id": "theirs", "owner": "others"},)


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
    assert bool(dns.records.zones_own(Resource("r", name, "p", row), NAMED)) is kept


@pytest.mark.parametrize(("owner", "foreign"), [(OURS, False), (THEIRS, True)])
@pytest.mark.parametrize("what", ["recordset", "zone"])
def test_the_key_of_a_zone_that_stays_because_of_others_stays(what, owner, foreign):
    designate = Designate()
    if what == "zone":
        designate.zones.append({"id": "x", "name": "below.ours.example.", "project_id": owner})
    else:
        designate.in_zone = [{"id": "x", "project_id": owner}]
    key = Resource("k", "k", OURS, {"id": "k", "zone": ZONE.data})
    type_ = next(type_ for type_ in dns.SERVICE.types if type_.name == "tsig_key")
    verdict = before_delete(type_, connection(dns=designate.answer), PROJECT, key)
    assert [blocker["id"] for blocker in (verdict.blocked_by if verdict else ())] == ["x"] * foreign


def test_the_decision_on_the_zones_below_the_zone_of_a_key_is_none_on_the_recordsets_in_it():
    designate = Designate()
    designate.zones.append({"id": "below", "name": "below.ours.example.", "project_id": THEIRS})
    designate.in_zone = [{"id": "r", "project_id": THEIRS}]
    key = Resource("k", "k", OURS, {"id": "k", "zone": ZONE.data})
    type_ = next(type_ for type_ in dns.SERVICE.types if type_.name == "tsig_key")
    decided = {"name": "dns.tsig_key", "decided_uses": {"dns.tsig_key:k": frozenset({("dns.zone", "below")})}}
    verdict = before_delete(type_, connection(dns=designate.answer), PROJECT, key, **decided)
    assert verdict and [blocker["id"] for blocker in verdict.blocked_by] == ["r"]
