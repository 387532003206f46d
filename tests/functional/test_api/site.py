"""The real application, over a real store and the stub Keystone; called in the process, as a WSGI server would."""

from __future__ import annotations

import dataclasses
import json

import webob
from oslo_config import cfg

from cleanup_orchestrator import log
from cleanup_orchestrator import store as storage
from cleanup_orchestrator.api import app
from cleanup_orchestrator.api import options as api_options
from cleanup_orchestrator.cloud import catalog, connections, projects
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.engine import deletions as engine
from cleanup_orchestrator.evidence import options as report_options
from cleanup_orchestrator.store import orphans
from tests.functional.test_api import contract
from tests.functional.test_api import keystone as ks
from tests.support import databases

AUTH = """
auth_type = password
auth_url = {url}/v3
username = orchestrator
password = a-very-secret-password
user_domain_id = default
project_id = {project}
"""
CONF = """
[database]
connection = {database}
[api]
max_limit = 50
[keystone_authtoken]
www_authenticate_uri = http://keystone.example.com:5000
token_cache_time = 300
http_request_max_retries = 0
{auth}
[orchestrator]
{auth}
{extra}
"""


class Bus:
    """Records casts; ``broken`` makes them fail. ``forcible`` is the answer of a worker about force."""

    def __init__(self):
        self.casts, self.broken = [], False
        self.forcible, self.asked = {"block-storage.volume": "", "orchestration.stack": ""}, []

    def force(self, deletion_id):
        self.asked.append(deletion_id)
        return self.forcible

    def decide(self, deletion_id):
        if self.broken:
            raise ConnectionError("no broker")
        self.casts.append(deletion_id)


@dataclasses.dataclass
class Answer:
    status: int
    headers: webob.headers.ResponseHeaders
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        [error] = self.json["errors"]
        assert error["status"] == self.status
        assert error["request_id"] == self.headers["x-openstack-request-id"]
        return error


class Site:
    def __init__(self, folder, url=None, keystone=None, extra="", store=None):
        self.keystone = keystone or ks.Keystone()
        self._own_keystone = keystone is None
        if url is None and store is None:
            url = databases.copy_schema(folder / "api.sqlite")
        auth = AUTH.format(url=self.keystone.url, project=ks.OWN_PROJECT)
        path = folder / "api.conf"
        path.write_text(CONF.format(database=url, auth=auth, extra=extra))
        self.conf = cfg.ConfigOpts()
        for module in (connections, catalog, drain, engine, orphans, projects, storage, api_options, report_options):
            for group, options in module.OPTS.items():
                self.conf.register_opts(options, group=group)
        log.register(self.conf)
        self.conf([f"--config-file={path}"], project="cleanup-orchestrator")
        self.store = store or storage.Store.from_conf(self.conf)
        self.bus = Bus()
        types = {"network": ("port", "network"), "identity": ("trust",)}
        facts = {"network": (catalog.TypeFacts("port", True, "Its addresses stay in use."),)}
        self.catalog = catalog.ServiceCatalog(self.conf, types, facts=facts)
        self.app = contract.Checked(
            app.build(self.conf, self.store, connections.Clouds(self.conf), self.catalog, self.bus)
        )

    def close(self):
        self.store.close()
        if self._own_keystone:
            self.keystone.close()

    def call(self, method, path, token=ks.ADMIN, body=None, headers=None, environ=None):
        """Call it. ``body``: bytes as they are, anything else as JSON."""
        request = webob.Request.blank("/", method=method, base_url="http://cleanup.example.com", environ=environ)
        raw, _, request.query_string = path.partition("?")
        request.environ["PATH_INFO"] = webob.compat.url_unquote(raw)
        if token:
            request.headers["X-Auth-Token"] = token
        if body is not None:
            request.body = body if isinstance(body, bytes) else json.dumps(body).encode()
            request.content_type = "application/json"
        for name, value in (headers or {}).items():
            request.headers[name] = value
        response = request.get_response(self.app)
        assert response.headers["x-openstack-request-id"].startswith("req-")
        return Answer(response.status_int, response.headers, response.body)

    def get(self, path, token=ks.ADMIN, **kwargs):
        return self.call("GET", path, token, **kwargs)

    def post(self, path, body=None, token=ks.ADMIN, **kwargs):
        return self.call("POST", path, token, body, **kwargs)

    def ask(self, project_id="p1", token=ks.ADMIN, **fields):
        answer = self.post("/v1/deletions", {"project_id": project_id, **fields}, token)
        assert answer.status == 202, answer.body
        return answer.json["deletion"]

    def count(self):
        return len(self.store.list(storage.Page(1000)))
