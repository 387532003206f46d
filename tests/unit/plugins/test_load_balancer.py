"""Octavia: what its quotas are compared with, and why a delete is refused."""

from __future__ import annotations

import types

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins import load_balancer
from cleanup_orchestrator.plugins.base import VIP_PORTS, ProjectDefinition, exceptions
from tests.unit.plugins.canned import Canned, canned, thing

NAMED = ProjectDefinition("ours", "name", "default", "RegionOne")


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
    assert list(load_balancer._quota(canned(load_balancer=service), NAMED)) == ([row] if is_one else [])
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
    verdict = load_balancer.explain(canned(load_balancer=service), NAMED, thing())
    assert (verdict.reason if verdict else None) == reason


@pytest.mark.parametrize(("in_catalog", "expected"), [(True, ["a", "c"]), (False, [])])
def test_the_ports_of_its_addresses_are_parts_as_far_as_they_are_there(in_catalog, expected):
    def get_port(id_):
        if id_ == "gone":
            raise exceptions.NotFoundException("no such port")
        return {"id": id_}

    cloud = types.SimpleNamespace(
        config=types.SimpleNamespace(get_session_endpoint=lambda _name: "http://cloud" if in_catalog else None),
        network=types.SimpleNamespace(get_port=get_port),
    )
    balancer = thing(vip_port_id="a", additional_vips=[{"port_id": "gone"}, {}, {"port_id": "c"}])
    assert [row["id"] for row in VIP_PORTS.of(cloud, NAMED, balancer)] == expected
    assert list(VIP_PORTS.of(cloud, NAMED, thing(vip_port_id=None))) == []
