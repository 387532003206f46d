"""Which recordsets Neutron takes for those of a port or of a floating IP."""

from __future__ import annotations

import pytest

from cleanup_orchestrator.plugins.base import Resource
from tests.support.sweeps import before_delete
from tests.unit.answers import project
from tests.unit.plugins.test_port_uses import cloud, named, port, type_of

OURS, THEIRS = "us", "them"
PROJECT = project(OURS)


def record(owner, name="www.y.example.", *addresses):
    return {"recordsets": [{"id": "x", "name": name, "project_id": owner, "records": addresses or ["10.0.0.5"]}]}


NAMED = {"dns_name": "www", "dns_domain": "y.example."}
ON_ITS_NETWORK = {"networks": [{"id": "n", "dns_domain": "y.example."}]}
RECORDS = [
    (NAMED, record(THEIRS), ("dns.recordset", "x")),
    (NAMED, record(OURS), None),
    (NAMED, record(THEIRS, "www.z.example."), None),
    (NAMED, record(THEIRS, "www.y.example.", "10.0.0.6"), None),
    (NAMED, {}, None),
    ({"dns_name": "", "dns_domain": "y.example."}, record(THEIRS), None),
    ({"dns_name": "www", "dns_domain": ""}, record(THEIRS), None),
    ({"dns_name": "www"}, record(THEIRS) | ON_ITS_NETWORK, ("dns.recordset", "x")),
    ({"dns_name": "www", "dns_domain": "z.example."}, record(THEIRS) | ON_ITS_NETWORK, None),
]


@pytest.mark.parametrize(("row", "rows", "expected"), RECORDS, ids=str)
def test_a_record_that_neutron_takes_for_that_of_a_port_is_named(row, rows, expected):
    """Neutron would delete it, in the zone of another project, with an admin's token."""
    made = cloud(ndp_proxies=[], **rows)
    assert named(before_delete(type_of("port"), made, PROJECT, Resource("p", "", OURS, port(**row)))) == expected


@pytest.mark.parametrize(("row", "rows", "expected"), RECORDS, ids=str)
@pytest.mark.parametrize("of_port", [False, True], ids=["its own name", "the name of its port"])
def test_a_record_that_neutron_takes_for_that_of_a_floating_ip_is_named(row, rows, expected, of_port):
    if not of_port and "networks" in rows:
        expected = None
    ports = [port(**row)] if of_port else []
    address = {"floating_ip_address": "10.0.0.5", **({"port_id": "p"} if of_port else row)}
    made = cloud(ports=ports, **rows)
    assert named(before_delete(type_of("floating_ip"), made, PROJECT, Resource("f", "", OURS, address))) == expected
