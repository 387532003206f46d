"""The guarded session: every write asks first, whatever makes it."""

import http.server
import threading

import pytest
from keystoneauth1 import noauth

from cleanup_orchestrator.clouds import GuardedSession, read_only
from cleanup_orchestrator.errors import Stopped, WriteRefused


@pytest.fixture
def server():
    """An HTTP server that counts what reaches it."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            seen.append(self.command)
            self.send_response(204)
            self.end_headers()

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_COPY = answer

        def log_message(self, *_):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_port}", seen
    httpd.shutdown()
    httpd.server_close()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "COPY", "delete"])
def test_a_look_cannot_write(server, method):
    url, seen = server
    session = GuardedSession(read_only, auth=noauth.NoAuth(endpoint=url))
    session.request(url + "/things", "GET")
    session.request(url + "/things", "HEAD")
    with pytest.raises(WriteRefused):
        session.request(url + "/things/1", method)
    with pytest.raises(WriteRefused):
        session.request(url + "/auth/tokens", method)
    assert seen == ["GET", "HEAD"]
    assert (session.calls, session.writes) == (2, 0)


def test_getting_a_token_is_no_write(server):
    url, seen = server
    session = GuardedSession(read_only, auth=noauth.NoAuth(endpoint=url))
    session.post(url + "/v3/auth/tokens", json={}, authenticated=False)
    assert seen == ["POST"]


def test_each_write_asks_anew(server):
    url, seen = server
    answers = iter([None, Stopped("cancelled")])

    def guard(method, _url):
        if error := next(answers):
            raise error

    session = GuardedSession(guard, auth=noauth.NoAuth(endpoint=url))
    session.delete(url + "/1")
    with pytest.raises(Stopped):
        session.delete(url + "/2")
    assert seen == ["DELETE"]
