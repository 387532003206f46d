"""The registered endpoints: the catalog of a project without an endpoint filter, and why a service has no endpoint."""

import types

import pytest
from hypothesis import given
from hypothesis import strategies as st
from keystoneauth1.access.access import AccessInfoV3
from keystoneauth1.identity.base import BaseIdentityPlugin

from cleanup_orchestrator.cloud import endpoints
from cleanup_orchestrator.cloud.endpoints import KnownEndpoints, Registered, Unfiltered, filled
from cleanup_orchestrator.errors import BadAnswer
from tests.unit.answers import Answers

X, USER, OWN = "x" * 32, "u" * 32, "o" * 32


def service(id_, type_, **more):
    return {"id": id_, "type": type_, "name": f"name of {id_}", "enabled": True, **more}


def endpoint(id_, service_id, url="", interface="internal", region="RegionOne", **more):
    url = url or f"http://{id_}"
    return {
        "id": id_, "service_id": service_id, "url": url, "interface": interface, "region_id": region, "enabled": True,
        **more,
    }  # fmt: skip


SERVICES = (service("k", "identity"), service("s", "object-store"), service("v", "volumev3"), service("n", "network"))
ENDPOINTS = (
    endpoint("ke", "k"),
    endpoint("se", "s", "http://swift/v1/AUTH_$(project_id)s"),
    endpoint("sp", "s", "http://public/v1/AUTH_%(tenant_id)s", "public"),
    endpoint("ve", "v", "http://cinder/v3/$(tenant_id)s"),
    endpoint("ne", "n"),
    endpoint("n2", "n", region="RegionTwo"),
)


def registered(services=SERVICES, rows=ENDPOINTS):
    return Registered({each["id"]: each for each in services}, rows)


def token_catalog(*ids, project_id=X):
    """Return the catalog that Keystone puts into a token, with these endpoints only."""
    found = []
    for each in SERVICES:
        rows = [e for e in ENDPOINTS if e["service_id"] == each["id"] and e["id"] in ids]
        shown = [
            {**{k: e[k] for k in ("id", "interface", "region_id")}, "region": e["region_id"],
             "url": filled(e["url"], project_id, USER)}
            for e in rows
        ]  # fmt: skip
        if shown:
            found.append({"id": each["id"], "type": each["type"], "name": each["name"], "endpoints": shown})
    return found


def test_a_token_without_a_filter_keeps_its_catalog():
    assert registered().catalog(X, USER, token_catalog(*(e["id"] for e in ENDPOINTS))) is None


def test_a_filtered_token_gets_every_endpoint_with_the_urls_of_its_own_project():
    """An endpoint filter hides Swift, Cinder and the second region."""
    found = registered().catalog(X, USER, token_catalog("ke", "ne"))
    assert found == token_catalog(*(e["id"] for e in ENDPOINTS))
    urls = {e["id"]: e["url"] for each in found for e in each["endpoints"]}
    assert urls["se"] == f"http://swift/v1/AUTH_{X}" and urls["sp"] == f"http://public/v1/AUTH_{X}"
    assert urls["ve"] == f"http://cinder/v3/{X}"


def test_what_the_token_has_is_not_written_anew():
    """Keystone fills in variables of its configuration, which is not known here."""
    rows = (
        *ENDPOINTS,
        endpoint("ce", "n", "http://$(compute_host)s/"),
        endpoint("xe", "n", "http://$(compute_host)s/x"),
    )
    own = [{"id": "n", "type": "network", "endpoints": [{"id": "ce", "url": "http://host/"}]}]
    found = registered(rows=rows).catalog(X, USER, own)
    urls = {e["id"]: e["url"] for each in found for e in each["endpoints"]}
    assert urls["ce"] == "http://host/"
    assert "xe" not in urls


@pytest.mark.parametrize(
    ("off", "gone"),
    [({"ne"}, {"ne"}), ({"n"}, {"ne", "n2"}), ({"ne", "s"}, {"ne", "se", "sp"}), (set(), set())],
)
def test_what_is_disabled_is_in_no_catalog(off, gone):
    services = [{**each, "enabled": each["id"] not in off} for each in SERVICES]
    rows = [{**each, "enabled": each["id"] not in off} for each in ENDPOINTS]
    found = registered(services, rows).catalog(X, USER, token_catalog("ke")) or []
    there = {e["id"] for each in found for e in each["endpoints"]}
    assert there == {e["id"] for e in ENDPOINTS} - gone


@given(st.sets(st.sampled_from([e["id"] for e in ENDPOINTS])))
def test_whatever_a_filter_hides_the_catalog_is_the_same(shown):
    everything = token_catalog(*(e["id"] for e in ENDPOINTS))
    assert (registered().catalog(X, USER, token_catalog(*shown)) or everything) == everything


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a/$(project_id)s", f"http://a/{X}"),
        ("http://a/%(tenant_id)s/%(user_id)s", f"http://a/{X}/{USER}"),
        ("http://a", "http://a"),
        ("http://a/%%", "http://a/%"),
        ("http://$(public_endpoint)s", ""),
        ("http://a/%(project_id)", ""),
        ("http://a/100%", ""),
    ],
)
def test_urls_are_filled_in_as_keystone_does(url, expected):
    assert filled(url, X, USER) == expected


def test_no_url_is_filled_in_without_a_project():
    """The URL of Swift's account could be that of another project."""
    with pytest.raises(ValueError, match="empty"):
        filled("http://a/$(project_id)s", "", USER)


# ------------------------------------------------------------------------------------------- why there is no endpoint
def off(rows, *ids):
    return [{**each, "enabled": each["id"] not in ids} for each in rows]


@pytest.mark.parametrize(
    ("services", "rows", "asked", "said"),
    [
        (SERVICES, off(ENDPOINTS, "ne"), ("network", "RegionOne"), ["disabled", "openstack endpoint set --enable ne"]),
        (off(SERVICES, "n"), ENDPOINTS, ("network", "RegionOne"), ["disabled", "openstack service set --enable n"]),
        (
            off(SERVICES, "n"), off(ENDPOINTS, "ne"), ("network", "RegionOne"),
            ["openstack service set --enable n", "openstack endpoint set --enable ne"],
        ),
        # An alias of the type, as a step names it.
        (SERVICES, off(ENDPOINTS, "ve"), ("block-storage", "RegionOne"), ["openstack endpoint set --enable ve"]),
        # Another region of the same service works.
        (SERVICES, off(ENDPOINTS, "n2"), ("network", "RegionTwo"), ["openstack endpoint set --enable n2"]),
        (
            SERVICES, [e for e in ENDPOINTS if e["id"] != "se"], ("object-store", "RegionOne"),
            ["no internal endpoint", "only public", "openstack endpoint create --region RegionOne s internal URL"],
        ),
        # A region whose name differs in upper and lower case is another one.
        (SERVICES, [endpoint("ne", "n", region="regionone")], ("network", "RegionOne"), []),
        (SERVICES, ENDPOINTS, ("nothing", "RegionOne"), []),
        (SERVICES, ENDPOINTS, ("network", "RegionOne"), ["filter", f"openstack endpoint add project ne {OWN}"]),
    ],
)  # fmt: skip
def test_a_service_without_an_endpoint_is_explained_with_the_call(services, rows, asked, said):
    found = registered(services, rows).why_missing(*asked, frozenset({"internal"}), OWN)
    assert bool(found) is bool(said)
    assert [text for text in said if text not in found] == []


def test_many_disabled_endpoints_are_counted():
    rows = [endpoint(f"e{n}", "n", enabled=False) for n in range(9)]
    found = registered(rows=rows).why_missing("network", "RegionOne", frozenset(), OWN)
    assert "--enable e4; and 4 more" in found


# --------------------------------------------------------------------------------------------------- read and kept
def answer(**changes):
    bodies = {"services": {"services": list(SERVICES)}, "endpoints": {"endpoints": list(ENDPOINTS)}} | changes
    return lambda method, path, query, body: (200, bodies[path.strip("/")])


def test_services_and_endpoints_are_read():
    assert Registered.read(Answers(answer())) == registered(rows=list(ENDPOINTS))


@pytest.mark.parametrize(
    "changes",
    [
        {"services": {"services": list(SERVICES), "truncated": True}},
        {"endpoints": {"endpoints": list(ENDPOINTS), "truncated": True}},
        {"endpoints": {"endpoints": []}},
        {"services": {"services": list(SERVICES[:2])}},
        {"services": {}},
    ],
)
def test_a_catalog_that_is_cut_short_is_none(changes):
    """``[catalog] list_limit`` of Keystone answers 200 with a part."""
    with pytest.raises(BadAnswer):
        Registered.read(Answers(answer(**changes)))


def test_they_are_read_again_when_they_are_old_or_dropped(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(endpoints, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    known, identity = KnownEndpoints(), Answers(answer())
    assert known.latest() is None
    for _ in range(3):
        assert known.recent(identity) == known.latest()
    assert len(identity.asked) == 2
    now[0] = endpoints.KEEP + 1
    known.recent(identity)
    assert len(identity.asked) == 4
    known.forget()
    assert known.latest() is None
    known.recent(identity)
    assert len(identity.asked) == 6


# ------------------------------------------------------------------------------------------------------ in a session
class Login(BaseIdentityPlugin):
    """Gives a token for a project with a filtered catalog, or an unscoped one."""

    def __init__(self, project_id):
        super().__init__(auth_url="http://k")
        self.project_id, self.logins = project_id, 0

    def get_auth_ref(self, session, **_):
        self.logins += 1
        token = {"token": {"user": {"id": USER}, "expires_at": "2999-01-01T00:00:00Z"}}
        if self.project_id:
            token["token"]["project"] = {"id": self.project_id}
            token["token"]["catalog"] = token_catalog("ke", project_id=self.project_id)
        return AccessInfoV3(auth_token=f"token {self.logins}", body=token)

    def get_cache_id_elements(self):
        return {"login": "1"}


def test_the_token_of_a_filtered_project_finds_every_endpoint():
    known = KnownEndpoints()
    auth = Unfiltered(Login(X), known)
    plain = auth.get_access(None)
    assert plain.service_catalog.get_urls(service_type="object-store") == ()  # they are not known yet
    known.recent(Answers(answer()))
    auth.invalidate()
    found = auth.get_access(None)
    assert found.auth_token == "token 2" and (found.project_id, found.user_id) == (X, USER)
    assert found.service_catalog.get_urls(service_type="object-store", interface="internal") == (
        f"http://swift/v1/AUTH_{X}",
    )
    urls = found.service_catalog.get_urls(service_type="block-storage", interface="internal")
    assert urls == (f"http://cinder/v3/{X}",)
    assert auth.get_access(None) is found
    assert auth.get_cache_id_elements() == {"login": "1"}


def test_a_token_without_a_project_is_left_as_it_is():
    known = KnownEndpoints()
    known.recent(Answers(answer()))
    assert not Unfiltered(Login(None), known).get_access(None).has_service_catalog()
