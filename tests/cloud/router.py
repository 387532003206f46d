"""A proxy in front of two Keystones, which routes some requests to the second one, as before Keystone-NG."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.cloud.processes import HOST

#: Headers that hold for one connection.
_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length", "date", "server"}


@contextlib.contextmanager
def routed(first: int, second: int, to_second: Callable[[str, str], bool]) -> Iterator[str]:
    """Serve the Keystone on port `first`, and those requests that `to_second(method, path)` names from `second`.

    The second one serves version 4 of the API, too, which is version 3 of the real one. Yields the URL.
    """

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            other = to_second(self.command, self.path)
            path = self.path.replace("/v4", "/v3", 1) if other else self.path
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection(HOST, second if other else first, timeout=60)
            with contextlib.closing(connection):
                sent = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
                connection.request(self.command, path, body or None, sent)
                answer = connection.getresponse()
                content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_HEAD = answer

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
