"""A client of the WSGI application, with what keystonemiddleware and a WSGI server put into the environment."""

import json
import urllib.parse
from dataclasses import dataclass, field

PROJECT = "1" * 32
OTHER = "2" * 32


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def said(self):
        """The status, and the type of an error or how many rows a list has."""
        if not self.body:
            return str(self.status)
        kind = self.json.get("type", "") if self.status >= 400 else ""
        return f"{self.status} {kind.rpartition(':')[2]}".strip()


@dataclass
class Client:
    """Sends requests to an application.

    ``raw`` is the name of the key in which the server passes on the path as it was sent; empty: the server has none.
    """

    app: object
    roles: tuple = ("service",)
    scope: str = ""  # the project of the token
    raw: str = "REQUEST_URI"
    mount: str = ""  # SCRIPT_NAME
    more: dict = field(default_factory=dict)  # of the environment; None removes a key

    def __call__(self, method, path):
        path, _, query = path.partition("?")
        token = {"user": {"id": "u"}, "roles": [{"name": role} for role in self.roles]}
        if self.scope:
            token["project"] = {"id": self.scope}
        environ = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": self.mount,
            "PATH_INFO": urllib.parse.unquote_to_bytes(path).decode("latin-1"),
            "QUERY_STRING": query,
            "HTTP_X_AUTH_TOKEN": "the-token",
            "HTTP_X_IDENTITY_STATUS": "Confirmed",
            "keystone.token_info": {"token": token},
        }
        if self.raw:
            environ[self.raw] = f"{urllib.parse.quote(self.mount)}{path}{'?' if query else ''}{query}"
        environ |= self.more
        started = []
        environ = {name: value for name, value in environ.items() if value is not None}
        body = b"".join(self.app(environ, lambda status, headers: started.append((status, dict(headers)))))
        [(status, headers)] = started
        return Answer(int(status.split()[0]), headers, body)
