"""A token leaves for the endpoints of its catalog alone, whatever a service answers: links, redirects, versions."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading

import pytest
import requests
from keystoneauth1.identity.v3 import Password
from keystoneauth1.identity.v3 import Token as LoginToken
from openstack.connection import Connection

from cleanup_orchestrator.cloud.session import GuardedSession, origin, read_only
from cleanup_orchestrator.errors import BadAnswer

SECRET = "the-token"


@contextlib.contextmanager
def serving(answer):
    """A server that says what `answer(method, path)` returns: (status, headers, body); with what reached it."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # it delays each body by 40 ms

        def handle_any(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            seen.append((self.command, self.path, self.headers.get("X-Auth-Token")))
            status, headers, body = answer(self.command, self.path)
            text = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def thief():
    """A server that is no endpoint of the catalog."""
    with serving(lambda *_: (200, {}, {"networks": []})) as made:
        yield made


class Cloud:
    """Keystone and Neutron in one server, whose answers the test sets by method and path."""

    def __init__(self):
        self.answers = {}

    def answer(self, method, path):
        if path.endswith("/auth/tokens") and method == "POST":
            return self.answers.get("login") or (201, {"X-Subject-Token": SECRET}, self.token())
        return self.answers.get(f"{method} {path.partition('?')[0]}", (200, {}, {"networks": []}))

    def token(self):
        endpoint = {"id": "e", "interface": "internal", "region": "R", "region_id": "R", "url": f"{self.url}/network"}
        catalog = [{"type": "network", "name": "neutron", "id": "n", "endpoints": [endpoint]}]
        times = {"issued_at": "2026-01-01T00:00:00Z", "expires_at": "2036-01-01T00:00:00Z"}
        user = {"id": "u", "name": "u", "domain": {"id": "default", "name": "Default"}}
        return {"token": {"methods": ["password"], "user": user, "catalog": catalog, **times}}


@pytest.fixture
def cloud():
    made = Cloud()
    with serving(made.answer) as (url, seen):
        made.url, made.seen = url, seen
        yield made


def session(cloud, guard=lambda *_: None, **options):
    auth = Password(f"{cloud.url}/v3", username="u", password="p", user_domain_id="default")
    return GuardedSession(guard, auth=auth, **options)


def network_of(cloud):
    """Return the SDK's client of Neutron in the cloud."""
    return Connection(
        session=session(cloud),
        region_name="R",
        interface="internal",
        network_endpoint_override=f"{cloud.url}/network/v2.0",
    ).network


def test_services_in_the_catalog_are_called(cloud):
    assert session(cloud).get(f"{cloud.url}/network/v2.0/networks").status_code == 200
    assert cloud.seen[-1] == ("GET", "/network/v2.0/networks", SECRET)


def test_a_login_with_a_token_ends(cloud):
    """As a federated user logs in: the request of the login has a token, before there is a catalog."""
    made = GuardedSession(read_only, auth=LoginToken(f"{cloud.url}/v3", "of a browser"))
    login = threading.Thread(target=made.get_token, daemon=True)
    login.start()
    login.join(20)
    assert not login.is_alive()
    assert cloud.seen == [("POST", "/v3/auth/tokens", "of a browser")]
    assert made.get(f"{cloud.url}/network/v2.0/networks").status_code == 200


def test_the_paging_of_the_sdk_sends_no_token_to_another_host(cloud, thief):
    url, seen = thief
    link = {"rel": "next", "href": f"{url}/v2.0/networks?marker=1"}
    network = {"id": "1", "name": "n"}
    cloud.answers["GET /network/v2.0/networks"] = (200, {}, {"networks": [network], "networks_links": [link]})
    with pytest.raises(BadAnswer, match="no endpoint of the catalog"):
        list(network_of(cloud).networks(limit=1))
    assert seen == []


def test_a_version_document_sends_no_token_to_another_host(cloud, thief):
    """keystoneauth takes the path of a version from the document, and keeps the host of the catalog."""
    url, seen = thief
    links = [{"rel": "self", "href": f"{url}/v2.0/"}]
    cloud.answers["GET /network"] = (200, {}, {"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]})
    wanted = {"service_type": "network", "interface": "internal", "region_name": "R", "version": "2.0"}
    session(cloud).get("/networks", endpoint_filter=wanted)
    assert cloud.seen[-1] == ("GET", "/network/v2.0/networks", SECRET)
    assert ("GET", "/network") in [call[:2] for call in cloud.seen], "the document was read"
    assert seen == []


@pytest.mark.parametrize("status", [301, 302, 303, 305, 307, 308])
def test_no_redirect_takes_a_token_elsewhere(cloud, thief, status):
    url, seen = thief
    cloud.answers["GET /network/x"] = (status, {"Location": f"{url}/x"}, {})
    with pytest.raises(BadAnswer) as refused:
        session(cloud).get(f"{cloud.url}/network/x")
    assert seen == []
    assert url in str(refused.value) and SECRET not in str(refused.value)


@pytest.mark.parametrize("header", ["X-Auth-Token", "X-Subject-Token", "X-Service-Token", "Authorization"])
def test_no_header_takes_a_token_elsewhere(cloud, thief, header):
    url, seen = thief
    with pytest.raises(BadAnswer, match="no endpoint of the catalog"):
        session(cloud).get(f"{url}/x", authenticated=False, headers={header: SECRET})
    assert seen == []


def test_a_read_is_redirected_within_the_catalog(cloud):
    cloud.answers["GET /network/x"] = (302, {"Location": f"{cloud.url}/network/y"}, {})
    assert session(cloud).get(f"{cloud.url}/network/x").status_code == 200
    assert [path for _, path, _ in cloud.seen[-2:]] == ["/network/x", "/network/y"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("query", ["", "?project_id=them", "?project_id="])
def test_a_list_that_a_redirect_takes_the_query_from_is_not_believed(cloud, status, query):
    """Without all_tenants, Nova lists the orchestrator's own project: the project would look empty."""
    cloud.answers["GET /network/v2.0/networks"] = (status, {"Location": f"{cloud.url}/network/moved{query}"}, {})
    with pytest.raises(BadAnswer, match="drops project_id from its query"):
        list(network_of(cloud).networks(project_id="us"))


@pytest.mark.parametrize("status", [301, 302, 303, 305, 307, 308])
def test_a_redirect_without_an_address_is_no_empty_list(cloud, status):
    cloud.answers["GET /network/v2.0/networks"] = (status, {}, {"networks": []})
    with pytest.raises(BadAnswer, match="without an end"):
        list(network_of(cloud).networks(project_id="us"))


def test_a_list_that_is_redirected_with_its_query_is_read(cloud):
    moved = f"{cloud.url}/network/moved?project_id=us&a=&more=1"
    cloud.answers["GET /network/x"] = (302, {"Location": moved}, {})
    assert session(cloud).get(f"{cloud.url}/network/x?a=&project_id=us").status_code == 200
    assert cloud.seen[-1][1] == "/network/moved?project_id=us&a=&more=1"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("status", [301, 302, 303, 305, 307, 308])
def test_a_write_follows_no_redirect_not_even_within_the_catalog(cloud, method, status):
    cloud.answers[f"{method} /network/x"] = (status, {"Location": f"{cloud.url}/network/y"}, {})
    with pytest.raises(BadAnswer, match="redirect"):
        session(cloud).request(f"{cloud.url}/network/x", method)
    assert cloud.seen[-1][:2] == (method, "/network/x")


@pytest.mark.parametrize("id_", ["../../identity/v3/projects/v", "%2e%2E/%2e./v", "..", "x/./y", "..%2Fv"])
def test_an_id_that_a_service_made_up_addresses_no_other_service(cloud, id_):
    """The services of many clouds are below one host, and HTTP clients resolve such a path."""
    with pytest.raises(BadAnswer, match="is not sent"):
        network_of(cloud).delete_port(id_, ignore_missing=False)
    assert not [call for call in cloud.seen if call[0] == "DELETE"]


def test_an_id_with_dots_in_it_is_called(cloud):
    assert session(cloud).get(f"{cloud.url}/network/v2.0/x..y/.z/...?a=../b").status_code == 200


def test_the_password_follows_no_redirect(cloud, thief):
    url, seen = thief
    cloud.answers["login"] = (307, {"Location": f"{url}/v3/auth/tokens"}, {})
    with pytest.raises(BadAnswer, match="redirect"):
        session(cloud, read_only).get(f"{cloud.url}/network/x")
    assert seen == []


def test_what_the_operator_names_is_called_too(cloud, thief):
    url, seen = thief
    assert session(cloud, trusted=[url]).get(f"{url}/x").status_code == 200
    assert seen == [("GET", "/x", SECRET)]


def test_a_request_without_a_token_may_go_to_any_host(cloud, thief):
    url, seen = thief
    assert session(cloud).get(f"{url}/versions", authenticated=False).status_code == 200
    assert seen == [("GET", "/versions", None)]


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("https://cloud.example.org/x?y#z", True),
        ("HTTPS://CLOUD.example.org:443", True),
        ("https://me@cloud.example.org/", True),
        ("http://cloud.example.org/", False),
        ("https://cloud.example.org:8443/", False),
        ("https://cloud.example.org@evil.example.org/", False),
        ("https://evil.example.org/cloud.example.org", False),
        ("https://evil.example.org\\@cloud.example.org/", False),
        ("https://evil.example.org#@cloud.example.org/", False),
        ("https://cloud.example.org.evil.example.org/", False),
        ("//cloud.example.org/", False),
        ("/x", False),
        ("", False),
    ],
)
def test_an_origin_is_where_the_request_would_be_sent(url, same):
    assert (origin(url) == origin("https://cloud.example.org/v3")) is same
    assert origin("http://[::1]:5000/") == ("http", "::1", 5000)


@pytest.mark.parametrize("url", [None, 1, b"https://cloud.example.org/", ["https://cloud.example.org/"], {}])
def test_what_is_no_text_has_no_origin(url):
    """A catalog may contain anything."""
    assert origin(url) is None


def test_an_origin_is_worked_out_once_for_all_sessions(monkeypatch):
    asked = []
    real = requests.Request.prepare
    monkeypatch.setattr(requests.Request, "prepare", lambda self: asked.append(self.url) or real(self))
    urls = [f"https://many.example.org:{port}/v3" for port in range(1, 20)]
    for _ in range(3):
        assert [origin(url) for url in urls] == [("https", "many.example.org", port) for port in range(1, 20)]
    assert asked == urls
