"""A library that no longer calls what a promise rests on: no process starts with it, and no session is made."""

import contextlib
import http.client

import pytest
import requests
from keystoneauth1 import session as ka_session
from oslo_config import cfg
from urllib3 import connectionpool

from cleanup_orchestrator.cloud import assumptions, connections
from cleanup_orchestrator.cloud.session import GuardedSession, LiteralPaths
from cleanup_orchestrator.errors import CleanupError


@pytest.fixture(autouse=True)
def _anew():
    assumptions.check.cache_clear()
    yield
    assumptions.check.cache_clear()


def clouds():
    conf = cfg.ConfigOpts()
    for group, options in connections.OPTS.items():
        conf.register_opts(options, group)
    conf([])
    return connections.Clouds(conf)


def renamed(monkeypatch):
    """A keystoneauth that has its method under another name."""
    source = ka_session.Session._send_request

    def send(self, url, method, redirect, *args, **kwargs):
        return source(self, url, method, redirect, *args, **kwargs)

    def request(self, url, method, **kwargs):
        with monkeypatch.context() as inner:
            inner.setattr(GuardedSession, "_send_request", send)
            return real(self, url, method, **kwargs)

    real = ka_session.Session.request
    monkeypatch.setattr(ka_session.Session, "request", request)


def redirects_inside(monkeypatch):
    """A keystoneauth that leaves redirects to requests."""
    real = requests.Session.request
    monkeypatch.setattr(
        requests.Session, "request", lambda self, *args, **more: real(self, *args, **more | {"allow_redirects": True})
    )


def no_semaphore(monkeypatch):
    """A keystoneauth that enters no semaphore that it is given."""
    real = ka_session.Session.request

    def request(self, *args, **kwargs):
        return real(self, *args, **kwargs | {"rate_semaphore": contextlib.nullcontext()})

    monkeypatch.setattr(ka_session.Session, "request", request)


def own_class(monkeypatch):
    """An http.client that has another way to choose the class of its answers."""
    real = http.client.HTTPConnection.getresponse

    def getresponse(self):
        with monkeypatch.context() as inner:
            inner.setattr(type(self), "response_class", http.client.HTTPResponse)
            return real(self)

    monkeypatch.setattr(http.client.HTTPConnection, "getresponse", getresponse)


def own_url(monkeypatch):
    """A requests that works the URL out elsewhere."""
    monkeypatch.delattr(LiteralPaths, "request_url")


def early_body(monkeypatch):
    """A urllib3 that decompresses whatever the header says later."""
    real = connectionpool.HTTPConnectionPool.urlopen

    def urlopen(self, *args, **kwargs):
        return real(self, *args, **kwargs | {"preload_content": True, "decode_content": True})

    monkeypatch.setattr(connectionpool.HTTPConnectionPool, "urlopen", urlopen)


def token_twice(monkeypatch):
    """A requests that sends the token in another header, too, which a log may have."""
    real = requests.Session.request

    def request(self, *args, headers=None, **more):
        again = {"X-Copy": (headers or {}).get("X-Auth-Token", "")}
        return real(self, *args, headers={**(headers or {}), **again}, **more)

    monkeypatch.setattr(requests.Session, "request", request)


MUTANTS = {
    token_twice: "that calls are made at all",
    renamed: "that tokens are sent to the catalog only",
    redirects_inside: "that no redirect takes a token",
    no_semaphore: "that an inventory does not write",
    own_class: "the limit of the time of an answer",
    own_url: "that a path is sent as it is",
    early_body: "the limit of the length of an answer",
}


def test_the_installed_libraries_call_every_hook():
    assumptions.check()
    assert clouds()


@pytest.mark.usefixtures("no_retries")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_library_that_skips_a_hook_stops_the_start(monkeypatch, mutant):
    mutant(monkeypatch)
    monkeypatch.setattr(assumptions, "_PATIENCE", 0.5)
    with pytest.raises(CleanupError) as refused:
        clouds()
    assert MUTANTS[mutant] in str(refused.value)
    assert "do not fit this release" in str(refused.value) and "keystoneauth1 " in str(refused.value)


def test_no_proxy_of_the_environment_is_used(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assumptions.check()
