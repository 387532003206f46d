"""What connections of steps share: the names of service types, and no session."""

import types

import pytest
from keystoneauth1 import access, identity
from openstack.config import cloud_region
from os_service_types import ServiceTypes
from oslo_config import cfg

from cleanup_orchestrator import compat
from cleanup_orchestrator.cloud import connections
from cleanup_orchestrator.cloud.session import GuardedSession, read_only


@pytest.fixture
def clouds():
    conf = cfg.ConfigOpts()
    conf.register_opts(connections.OPTS[connections.GROUP], connections.GROUP)
    conf([])
    return connections.Clouds(conf)


def every_name():
    types = ServiceTypes()
    return sorted({*types.all_types_by_service_type, *types.reverse, "no-such-service", "Compute", "block_storage"})


def test_the_names_of_service_types_are_those_of_the_library():
    kept, real = compat.service_types(), ServiceTypes()
    assert {name: list(kept.get_all_types(name)) for name in every_name()} == {
        name: real.get_all_types(name) for name in every_name()
    }


def test_a_connection_is_configured_as_without_them(clouds):
    session = GuardedSession(read_only)
    kept = clouds.connection(session, "RegionTwo").config
    plain = cloud_region.from_session(
        session, name="cleanup-orchestrator", region_name="RegionTwo", interface="internal", api_timeout=60.0
    )
    plain.config["interface"] = kept.config["interface"]
    asked = (
        "get_region_name", "get_interface", "get_api_version", "get_service_type", "get_service_name",
        "get_default_microversion", "get_connect_retries", "get_status_code_retries", "get_retriable_status_codes",
    )  # fmt: skip
    asked = [each for each in asked if hasattr(cloud_region.CloudRegion, each)]  # the last: since openstacksdk 4.22
    for name in {*every_name(), "baremetal"} - {"identity"}:
        assert [getattr(kept, each)(name) for each in asked] == [getattr(plain, each)(name) for each in asked]


class LoggedIn(identity.base.BaseIdentityPlugin):
    """Has a token with Keystone in one region, and Heat in another one."""

    auth_url = "http://keystone/v3"

    def get_auth_ref(self, session, **_):
        catalog = [
            {"type": type_, "endpoints": [{"interface": "internal", "region_id": region, "url": f"http://{type_}"}]}
            for type_, region in (("identity", "Home"), ("orchestration", "Far"))
        ]
        return access.create(body={"token": {"catalog": catalog, "expires_at": "2999-01-01T00:00:00Z"}}, auth_token="t")

    def get_cache_id_elements(self):
        return {}


@pytest.mark.parametrize("configured", [None, "Home"])
def test_keystone_is_found_from_a_region_without_an_endpoint_of_it(clouds, configured):
    clouds._options.region_name = configured
    config = clouds.connection(GuardedSession(read_only, auth=LoggedIn()), "Far").config
    found = [config.get_session().get_endpoint(
        service_type=name, region_name=config.get_region_name(name), interface=config.get_interface(name),
        skip_discovery=True,
    ) for name in ("identity", "orchestration")]  # fmt: skip
    assert found == ["http://identity", "http://orchestration"]


def test_the_names_are_copied_once_for_all_connections(clouds, monkeypatch):
    """Also tells if openstacksdk keeps them elsewhere: then each connection copies them again."""
    copies = []
    real = ServiceTypes.all_types_by_service_type.fget
    counted = property(lambda self: copies.append(self) or real(self))
    monkeypatch.setattr(ServiceTypes, "all_types_by_service_type", counted)
    for _ in range(3):
        config = clouds.connection(GuardedSession(read_only), "RegionOne").config
        for name in ("network", "volumev3", "image"):
            assert (config.get_region_name(name), config.get_interface(name)) == ("RegionOne", "internal")
    assert len(copies) <= 3


def test_each_connection_has_the_session_of_its_step(clouds):
    """The guard and the counter of calls are the session's."""
    sessions = [GuardedSession(lambda *_: None), GuardedSession(read_only)]
    made = [clouds.connection(session, "RegionOne") for session in sessions]
    assert [each.session for each in made] == sessions
    assert made[0].config is not made[1].config
    assert made[0].config.config is not made[1].config.config


def test_version_documents_are_kept_for_all_sessions_until_they_are_old_or_dropped(clouds, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(connections, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    clouds.forget("p")
    clouds.session(None, read_only)._discovery_cache["http://image"] = "a document"
    limited = clouds.rate_limited(None)
    assert limited.session(None, read_only, alone=True)._discovery_cache == {"http://image": "a document"}
    now[0] = 301.0
    assert clouds.session(None, read_only)._discovery_cache == {}
    limited.session(None, read_only)._discovery_cache["http://image"] = "another one"
    clouds.forget("p")
    assert limited.session(None, read_only)._discovery_cache == {}


@pytest.mark.parametrize(
    ("options", "mib", "longest", "memory"),
    [
        ({}, None, 256, 1536),
        ({"answer_limit": 5, "answer_memory": 17, "answer_timeout": 3}, None, 5, 17),
        ({}, 16, 16, 128),
    ],
)
def test_the_limits_of_answers_are_those_of_the_options(clouds, options, mib, longest, memory):
    for name, value in options.items():
        clouds._conf.set_override(name, value, connections.GROUP)
    found = clouds._limits(mib)
    assert (found.longest, found.memory) == (longest * connections.MIB, memory * connections.MIB)
    assert found.seconds == options.get("answer_timeout", 120)


def test_every_session_reads_its_answers_within_limits(clouds):
    """Also one on a new connection, and one for the protocol."""
    auth = types.SimpleNamespace()
    pools = [clouds.session(auth, read_only, **more).session for more in ({}, {"alone": True})]
    pools += [clouds.session(auth, read_only, http=clouds._protocol_http).session, GuardedSession(read_only).session]
    limits = [pool.get_adapter(f"{scheme}://x").limits.longest for pool in pools for scheme in ("http", "https")]
    assert [longest // connections.MIB for longest in limits] == [256] * 4 + [16] * 2 + [256] * 2
    assert pools[1] is not pools[0]
