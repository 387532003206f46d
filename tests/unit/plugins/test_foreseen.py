"""What a plan foresees: each declared use names what other projects have, and nothing of the project's own."""

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins import (
    block_storage,
    container_infrastructure_management,
    dns,
    image,
    network,
    shared_file_system,
)
from cleanup_orchestrator.plugins.base import OneByOne, Refused, Resource, ResourceType, Use, Verdict
from tests.support.sweeps import foreseen
from tests.unit.answers import connection, project

OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


def declared(module, name):
    return next(type_ for type_ in module.SERVICE.types if type_.name == name)


REFUSED_BY = [
    (network, "vpn_service", "vpn_ipsec_site_connection", {"vpnservice_id": "1"}),
    (network, "vpn_endpoint_group", "vpn_ipsec_site_connection", {"local_ep_group_id": "1"}),
    (network, "vpn_endpoint_group", "vpn_ipsec_site_connection", {"peer_ep_group_id": "1"}),
    (network, "vpn_ike_policy", "vpn_ipsec_site_connection", {"ikepolicy_id": "1"}),
    (network, "vpn_ipsec_policy", "vpn_ipsec_site_connection", {"ipsecpolicy_id": "1"}),
    (network, "firewall_policy", "firewall_group", {"ingress_firewall_policy_id": "1"}),
    (network, "firewall_policy", "firewall_group", {"egress_firewall_policy_id": "1"}),
    (network, "firewall_rule", "firewall_policy", {"firewall_rules": ["1"]}),
    (block_storage, "group", "group_snapshot", {"group_id": "1"}),
    (block_storage, "consistency_group", "group_snapshot", {"group_id": "1"}),
    (shared_file_system, "share_group", "share", {"share_group_id": "1"}),
    (shared_file_system, "share_group", "group_snapshot", {"share_group_id": "1"}),
    (shared_file_system, "share", "snapshot", {"share_id": "1"}),
    (shared_file_system, "share", "resource_lock", {"resource_id": "1", "resource_action": "delete"}),
]
#: The key of a list in its answer, where it is not the plural of the type.
LIST_KEYS = {
    "vpn_ipsec_site_connection": "ipsec_site_connections",
    "firewall_policy": "firewall_policies",
    "shared_file_system.group_snapshot": "share_group_snapshots",
}


@pytest.mark.parametrize(("owner", "blocks"), [(OURS, False), (THEIRS, True)])
@pytest.mark.parametrize(
    ("module", "name", "by", "refers"), REFUSED_BY, ids=[f"{each[1]}:{each[2]}:{min(each[3])}" for each in REFUSED_BY]
)
def test_a_plan_foresees_that_a_service_refuses_a_delete_because_of_others(
    monkeypatch, module, name, by, refers, owner, blocks
):
    monkeypatch.setattr(shared_file_system.shares, "since", lambda _microversion: lambda *_: True)
    group = module.__name__.rpartition(".")[2]
    key = LIST_KEYS.get(f"{group}.{by}") or LIST_KEYS.get(by) or f"{by}s"
    user = {"id": "u", "project_id": owner, "name": "theirs", "volume_id": "", **refers}

    def answer(_method, path, query, _body):
        if path == "/share-access-rules":
            return 200, {"access_list": []}
        plural = path.removesuffix("/detail").rpartition("/")[2].replace("-", "_")
        return 200, {plural: [user] if plural == key and not query.get("offset") and not query.get("marker") else []}

    service = module.SERVICE.service_type.replace("-", "_")
    cloud = connection(**{service: answer})
    verdict = foreseen(declared(module, name), cloud, PROJECT, Resource("1", "", OURS, {"id": "1", "project_id": OURS}))
    found = verdict and (verdict.reason, [(b["type"], b["id"]) for b in verdict.blocked_by])
    assert found == ((Reason.FOREIGN, [(f"{module.SERVICE.service_type}.{by}", "u")]) if blocks else None)
    assert getattr(cloud, service).writes() == []


@pytest.mark.parametrize(("owner", "blocks"), [(OURS, False), (THEIRS, True)])
def test_clusters_of_others_block_their_template(owner, blocks):
    clusters = [{"uuid": "c", "cluster_template_id": "1", "project_id": owner, "name": "k8s"}]
    cloud = connection(container_infrastructure_management=lambda *_: (200, {"clusters": clusters}))
    template = declared(container_infrastructure_management, "cluster_template")
    verdict = foreseen(template, cloud, PROJECT, Resource("1", "", OURS, {"uuid": "1"}))
    assert (verdict and verdict.reason) == (Reason.FOREIGN if blocks else None)


@pytest.mark.parametrize(
    ("below", "records", "shared", "expected", "read"),
    [
        ([OURS], [OURS], True, None, True),
        ([THEIRS], [], False, "dns.zone", False),
        ([], [THEIRS], True, "dns.recordset", True),
        ([], [THEIRS], False, None, False),  # a plan reads the records of shared zones only
    ],
    ids=str,
)
def test_zones_and_recordsets_of_others_block_their_zone(below, records, shared, expected, read):
    asked = []

    def answer(_method, path, query, _body):
        asked.append(path)
        if query.get("marker"):
            return 200, {"recordsets": [], "zones": []}
        if path.endswith("/recordsets"):
            return 200, {"recordsets": [{"id": "r", "name": "a", "project_id": owner} for owner in records]}
        return 200, {"zones": [{"id": "z", "name": "sub.example.org.", "project_id": owner} for owner in below]}

    cloud = connection(dns=answer)
    zone = Resource("1", "example.org.", OURS, {"id": "1", "shared": shared})
    verdict = foreseen(declared(dns, "zone"), cloud, PROJECT, zone)
    assert (verdict.blocked_by[0]["type"] if verdict else None) == expected
    assert any(path.endswith("/recordsets") for path in asked) is read
    assert cloud.dns.writes() == []


def test_an_image_that_others_are_members_of_is_blocked():
    members = [{"member_id": THEIRS, "status": "accepted", "image_id": "1"}]
    cloud = connection(image=lambda *_: (200, {"members": members}))
    shared = Resource("1", "", OURS, {"id": "1", "visibility": "shared"})
    verdict = foreseen(declared(image, "image"), cloud, PROJECT, shared)
    assert (verdict.reason, verdict.blocked_by[0]["owner"]) == (Reason.PROTECTED, THEIRS)


@pytest.mark.parametrize("reason", Reason)
def test_only_what_others_decide_is_foreseen(reason):
    """What the project's own resources block is deleted after them."""
    verdict = Verdict(reason, "x")

    def refuse(*_args):
        raise Refused(verdict)

    for checks in ((lambda *_: verdict,), (refuse,), (lambda *_: None, refuse)):
        used_by = (Use(("other.thing",), "harms it", OneByOne(*checks)),)
        type_ = ResourceType("thing", list=lambda *_: [], delete=None, used_by=used_by)
        found = foreseen(type_, None, PROJECT, Resource("1", "", OURS))
        assert (found is verdict) is (reason in (Reason.FOREIGN, Reason.PROTECTED))


def test_a_check_that_fails_is_no_answer():
    def fails(*_args):
        raise RuntimeError("503")

    with pytest.raises(RuntimeError):
        OneByOne(fails)(None, PROJECT, [Resource("1", "", OURS)])
