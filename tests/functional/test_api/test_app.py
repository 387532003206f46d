"""Headers of every answer: no cache may keep an answer or give it to another user."""

import contextlib
import logging
import re
import socketserver
import threading
from pathlib import Path

import pytest

from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.support import orphaned

ROOT = Path(__file__).parents[3]
UUID = "aaaaaaaa-2222-3333-4444-555555555555"


def check(answer):
    assert answer.headers["cache-control"] == "no-store"
    varies = {name.strip().lower() for name in answer.headers["vary"].split(",")}
    assert {"x-auth-token", "openstack-api-version"} <= varies
    return answer


@pytest.mark.parametrize(
    ("method", "path", "token", "body", "status"),
    [
        ("GET", "/", None, None, 200),
        ("GET", "/v1", ks.ADMIN, None, 200),
        ("GET", "/v1/openapi.json", None, None, 200),
        ("GET", "//", None, None, 404),
        ("GET", "/v1/deletions", ks.ADMIN, None, 200),
        ("HEAD", "/v1/deletions", ks.ADMIN, None, 200),
        ("POST", "/v1/deletions", ks.ADMIN, {"project_id": "p1"}, 202),
        ("POST", "/v1/deletions", ks.ADMIN, {"project_id": "nobody-knows-it"}, 404),
        ("POST", "/v1/deletions", ks.ADMIN, {}, 400),
        ("POST", "/v1/deletions", ks.ADMIN, b"x" * 100_000, 413),
        ("GET", "/v1/deletions", None, None, 401),
        ("GET", "/v1/deletions", "no-such-token", None, 401),
        ("GET", "/v1/liens", ks.MEMBER, None, 403),
        ("GET", "/nothing/here", ks.ADMIN, None, 404),
        ("PUT", "/v1/deletions", ks.ADMIN, None, 405),
        ("DELETE", "/v1/brake", ks.ADMIN, None, 204),
        ("GET", "/healthcheck", None, None, 200),
        ("PUT", "/healthcheck", None, None, 405),
    ],
    ids=str,
)
def test_no_answer_is_to_be_kept(site, method, path, token, body, status):
    answer = check(site.call(method, path, token, body))
    assert answer.status == status, answer.body


def test_a_client_without_a_token_is_told_where_to_get_one(site):
    for token in (None, "no-such-token"):
        answer = site.get("/v1/deletions", token)
        assert (answer.status, answer.error["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Keystone uri=")


def test_an_answer_that_depends_on_more_headers_says_so(site):
    scan = orphaned.found(site.store)
    answer = check(site.get(f"/v1/orphan-scans/{scan.id}/orphans", headers={"Accept": "text/csv"}))
    assert answer.headers["content-type"].startswith("text/csv")
    assert "accept" in [name.strip().lower() for name in answer.headers["vary"].split(",")]
    version = {"OpenStack-API-Version": "project-cleanup 9.0"}
    assert check(site.get("/v1/deletions", headers=version)).status == 406


def test_nor_one_about_a_cloud_that_is_away(site):
    site.keystone.broken = True
    assert check(site.get("/v1/deletions", "another-token")).status == 503


@pytest.mark.parametrize("path", ["/v1/deletions", f"/v1/orphan-scans/{UUID}/orphans", "/"])
def test_a_client_that_accepts_no_json_is_not_an_error_of_the_service(site, caplog, path):
    """pecan once logged it at ERROR."""
    answer = check(site.get(path, headers={"Accept": "image/png"}))
    assert (answer.status, answer.error["code"]) == (406, "not_acceptable")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "application/*",
        "*/*;q=0.1",
        "image/png, application/json;q=0.5",
        "application/json; v=1",
        "x",
    ],
)
def test_a_client_that_accepts_json_gets_it(site, accept):
    answer = site.get("/v1/deletions", headers={"Accept": accept})
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")


def test_a_health_check_shows_no_stacks_of_threads(tmp_path, keystone):
    """To read them for each request could also stop the process."""
    (tmp_path / "down").touch()
    down = f"[healthcheck]\nbackends = disable_by_file\ndisable_by_file_path = {tmp_path / 'down'}\ndetailed = true\n"
    site = Site(tmp_path, keystone=keystone, extra=down)
    answer = site.get("/healthcheck", None, headers={"Accept": "application/json"})
    site.close()
    assert answer.status == 503
    assert {"gc", "threads", "now"} & set(answer.json) == set()


def test_what_cors_says_stays(tmp_path, keystone):
    site = Site(tmp_path, keystone=keystone, extra="[cors]\nallowed_origin = https://horizon.example.com\n")
    headers = {"Origin": "https://horizon.example.com", "Access-Control-Request-Method": "GET"}
    answer = check(site.get("/v1/deletions", headers=headers))
    varies = {name.strip().lower() for name in answer.headers["vary"].split(",")}
    assert {"origin", "x-auth-token"} <= varies
    assert len(answer.headers.getall("vary")) == 1, "one header is what every cache understands"
    check(site.call("OPTIONS", "/v1/deletions", None, headers=headers))
    site.close()


class Memcached(socketserver.StreamRequestHandler):
    """The methods of memcached that the token check uses: get and set."""

    def handle(self):
        for line in self.rfile:
            command, *words = line.split()
            if command == b"set":
                self.server.kept[words[0]] = words[1], self.rfile.read(int(words[3]) + 2)[:-2]
                self.wfile.write(b"STORED\r\n")
            elif command == b"get":
                for key in words:
                    if key in self.server.kept:
                        flags, data = self.server.kept[key]
                        self.wfile.write(b"VALUE %s %s %d\r\n%s\r\n" % (key, flags, len(data), data))
                self.wfile.write(b"END\r\n")


@contextlib.contextmanager
def memcached():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Memcached) as server:
        server.daemon_threads, server.kept = True, {}
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_what_memcached_has_of_a_token_can_be_neither_read_nor_made_up(tmp_path, keystone):
    """As the sample of the API has it: with the client that the extra brings, and encrypted."""
    sample = (ROOT / "etc" / "cleanup-orchestrator-api.conf.sample").read_text()
    lines = re.findall(r"^(memcache\w+ = .*)$", sample, re.M)
    assert [line.split(" =")[0] for line in lines] == [
        "memcached_servers",
        "memcache_security_strategy",
        "memcache_secret_key",
    ]
    lines[0] = "memcached_servers = 127.0.0.1:{port}"
    with memcached() as server:
        extra = "[keystone_authtoken]\ntoken_cache_time = 300\n" + "\n".join(lines)
        site = Site(tmp_path, keystone=keystone, extra=extra.format(port=server.server_address[1]))
        before = keystone.requests.count(("GET", "/v3/auth/tokens"))
        assert [site.get("/v1/deletions").status for _ in range(3)] == [200] * 3
        assert keystone.requests.count(("GET", "/v3/auth/tokens")) == before + 1, "it was kept"
        kept = dict(server.kept)
        assert kept and not any(b"admin" in data for _flags, data in kept.values())
        for key, (flags, data) in kept.items():  # another process writes there
            server.kept[key] = flags, data[:-4] + b"AAAA"
        assert site.get("/v1/deletions").status == 200
        assert keystone.requests.count(("GET", "/v3/auth/tokens")) == before + 2, "it was not believed"
        site.close()
