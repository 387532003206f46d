"""Discovery and microversions with keystoneauth, as other clients of OpenStack use them, over real HTTP."""

import threading

import pytest
from keystoneauth1 import adapter, exceptions, session, token_endpoint

from cleanup_orchestrator import http_server
from tests.functional.test_api import keystone as ks


@pytest.fixture
def url(site):
    server = http_server.Server("127.0.0.1", 0, site.app, http_server.Limits(4, 30.0, 100))
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield f"http://127.0.0.1:{server._listeners[0].effective_port}"
    server.stop()
    thread.join()


def client(url, **more):
    auth = token_endpoint.Token(url, ks.ADMIN)
    return adapter.Adapter(session.Session(auth), service_type="project-cleanup", **more)


def test_keystoneauth_finds_the_version_and_its_microversions(url):
    data = client(url, min_version="1", max_version="1.latest").get_endpoint_data()
    assert (data.api_version, data.min_microversion, data.max_microversion) == ((1, 0), (1, 0), (1, 0))
    assert data.url == f"{url}/v1/"


def test_keystoneauth_asks_for_a_microversion(url):
    answer = client(url).get("/v1/deletions", microversion="1.0")
    assert answer.json() == {"deletions": []}
    assert answer.headers["OpenStack-API-Version"] == "project-cleanup 1.0"
    with pytest.raises(exceptions.NotAcceptable) as raised:
        client(url).get("/v1/deletions", microversion="1.7")
    [error] = raised.value.response.json()["errors"]
    assert (error["code"], error["max_version"]) == ("version_not_supported", "1.0")


def test_a_path_with_an_empty_part_gets_our_error(url):
    """An empty first part is another matter: waitress removes it, so that ``//v1`` is ``/v1``."""
    with pytest.raises(exceptions.NotFound) as raised:
        client(url).get(f"{url}/v1//deletions")
    [error] = raised.value.response.json()["errors"]
    assert (error["code"], error["links"][0]["rel"]) == ("not_found", "help")
