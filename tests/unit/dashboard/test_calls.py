"""The calls of the panels: how the connection is secured, and how often a service that is away is asked."""

import types

import pytest
from keystoneauth1 import exceptions as ksa_exceptions

from tests.unit.dashboard import stand_in

with stand_in.horizon():
    from cleanup_orchestrator.dashboard import calls, projects


def request():
    user = {"is_superuser": True, "token": types.SimpleNamespace(id="t"), "services_region": "R"}
    return types.SimpleNamespace(user=types.SimpleNamespace(**user), session={}, META={"REMOTE_ADDR": "192.0.2.1"})


@pytest.mark.parametrize(
    ("no_verify", "authorities", "verify"),
    [(False, None, True), (False, "/etc/ca.pem", "/etc/ca.pem"), (True, None, False), (True, "/etc/ca.pem", False)],
)
def test_the_certificate_of_the_api_is_verified_as_horizon_is_configured(monkeypatch, no_verify, authorities, verify):
    settings = types.SimpleNamespace(OPENSTACK_SSL_CACERT=authorities, OPENSTACK_SSL_NO_VERIFY=no_verify)
    monkeypatch.setattr(calls, "settings", settings)
    seen = []
    monkeypatch.setattr(calls, "from_connection", lambda made: seen.append(made) or types.SimpleNamespace())
    client = calls.proxy(request(), 3)
    (connection,) = seen
    assert connection.session.verify == verify
    assert connection.config.region_name == "R" and client.call_timeout == 3


@pytest.mark.parametrize(
    ("failure", "asked"),
    [(ksa_exceptions.ConnectFailure(), 1), (ksa_exceptions.NotFound(), 3), (ksa_exceptions.Forbidden(), 3)],
)
def test_a_page_of_many_projects_does_not_wait_for_each_if_keystone_is_away(monkeypatch, failure, asked):
    seen = []

    def tenant_get(_request, project_id, admin):
        seen.append(project_id)
        raise failure

    monkeypatch.setattr(projects.keystone, "tenant_get", tenant_get)
    assert projects.names(None, ["p1", "p2", "p3", None, "../p4"]) == {}
    assert len(seen) == asked and "../p4" not in seen
