"""The benchmark against `openstack project cleanup`: what it reads from the access logs, and the longest chain.

Too long a chain would let a slow orchestrator stay within its bound.
"""

import pathlib
from types import SimpleNamespace

import pytest

from tests.benchmarks import project_cleanup
from tests.cloud import access_logs

PROJECT, VOLUME, SERVER = "1" * 32, "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
LOG = f"""\
a line of the service itself: DELETE something
2026-01-01 10:00:00.500 GET /v3/{PROJECT}/volumes/detail?all_tenants=1 -> 200 OK (7 ms) cleanup-orchestrator x/1
2026-01-01 10:00:01.250 DELETE /v3/{PROJECT}/volumes/{VOLUME} -> 202 Accepted (12 ms) nova-api x/1
"""
SWIFT = "proxy-server: 1795667208.681021929 PUT /v1/AUTH_x/a%20b -> 201 (0.1378 s) openstacksdk/4%20x (txn: y)\n"


@pytest.fixture
def cloud(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "cinder.log").write_text(LOG)
    (tmp_path / "log" / "swift-proxy.log").write_text(SWIFT)
    return SimpleNamespace(directory=pathlib.Path(tmp_path))


def test_the_requests_of_every_service_are_read_with_their_client(cloud):
    found = sorted(access_logs.since(cloud, {}), key=lambda each: (each.service, each.at))
    assert [(each.service, each.method, each.status) for each in found] == [
        ("cinder", "GET", 200),
        ("cinder", "DELETE", 202),
        ("swift-proxy", "PUT", 201),
    ]
    assert [each.agent.startswith(project_cleanup.AGENTS) for each in found] == [True, False, True]
    assert found[1].at - found[0].at == pytest.approx(0.75)
    assert found[1].path == f"/v3/{PROJECT}/volumes/{VOLUME}"


def test_only_requests_after_the_position_are_read(cloud):
    begin = access_logs.position(cloud)
    with (cloud.directory / "log" / "cinder.log").open("a") as file:
        file.write("2026-01-01 10:00:02.000 GET /v3 -> 300 Multiple Choices (1 ms) -\n")
    assert [each.path for each in access_logs.since(cloud, begin)] == ["/v3"]


def watched(**gone):
    return SimpleNamespace(gone={tuple(name.split("__")): ids for name, ids in gone.items()})


def accepted(id_, at, method="DELETE", status=202, end="", agent="cleanup-orchestrator x/1"):
    return access_logs.Request("nova", at, method, f"/v2.1/{PROJECT}/servers/{id_}{end}", status, agent)


def test_a_delete_takes_from_its_last_accepted_request_to_the_end_of_the_row():
    requests = [accepted(SERVER, 10.0), accepted(SERVER, 20.0), accepted(SERVER, 25.0, status=409)]
    requests += [accepted(SERVER, 28.0, agent="nova-compute x/1"), accepted(SERVER, 31.0)]
    requests += [accepted(SERVER, 22.0, "GET"), accepted(SERVER, 27.0, "POST", end="/tags")]
    assert project_cleanup.asynchronous(requests, watched(nova__instances={SERVER: 30.0})) == {"nova.instances": 10.0}


def test_a_row_without_a_delete_of_its_own_is_no_link():
    assert project_cleanup.asynchronous([accepted(SERVER, 10.0)], watched(cinder__volumes={VOLUME: 30.0})) == {}


def test_the_longest_chain_follows_the_order_of_the_types():
    seconds = {"nova.instances": 3.0, "cinder.snapshots": 2.0, "cinder.volumes": 4.0, "designate.zones": 6.5}
    chain = project_cleanup.longest_chain(seconds)
    assert chain == (("nova.instances", 3.0), ("cinder.volumes", 4.0))
    assert project_cleanup.length(chain) == 7.0
    assert project_cleanup.longest_chain({}) == ()
