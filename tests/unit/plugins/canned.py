"""A service with prepared answers by method and path, for the tests of plugins."""

from __future__ import annotations

import itertools
import json
import types

from keystoneauth1.adapter import Adapter
from requests import Response

from cleanup_orchestrator.plugins.base import Resource

_numbers = itertools.count()


class Canned(Adapter):
    """A service with prepared answers, by method and path; it writes down what it was asked."""

    def __init__(self, answers=(), maximum=(2, 99)):
        self.answers, self.asked, self.maximum = dict(answers), [], maximum
        self.endpoint_override = f"http://cloud/{next(_numbers)}"
        self.service_type = "canned"

    def request(self, path, method, params=None, headers=None, **_):
        self.asked.append((method, path, params, headers))
        body = self.answers.get(f"{method} {path}", {})
        response = Response()
        response.status_code = body if isinstance(body, int) else 200
        response._content = b"" if isinstance(body, int) else json.dumps(body).encode()
        response.headers["Content-Type"] = "application/json"
        response.url, response.request = path, types.SimpleNamespace(method=method, url=path)
        return response

    def get_endpoint_data(self, *_, **__):
        return types.SimpleNamespace(max_microversion=self.maximum)


def canned(**services):
    session = types.SimpleNamespace(get_user_id=lambda: "me")
    return types.SimpleNamespace(session=session, **services)


def thing(identity="id", owner="ours", **row):
    return Resource(identity, "name", owner, {"id": identity, "project_id": owner, **row})
