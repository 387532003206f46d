"""``/gate``: tells Keystone's policy whether a project, or a domain, is proven to be empty now.

A policy rule of Keystone with a remote check of oslo.policy (``https:``) posts to it. The check allows the delete only
if the text of the answer is ``True``, whatever its status. The body of the request is not read: it has the caller's
roles as Keystone saw them, and nothing shows that Keystone sent it. The rule's URL has the secret, as a password.
"""

from __future__ import annotations

import base64
import datetime
import hmac
import threading

import webob
import webob.dec
from oslo_log import log

from cleanup_orchestrator import store as storage
from cleanup_orchestrator.api import errors
from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.core import emptiness
from cleanup_orchestrator.core.ids import is_id
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.errors import CleanupError

LOG = log.getLogger(__name__)

GROUP = "gate"
PREFIX = "/gate/"
#: The least length of the secret, in characters.
SECRET_LENGTH = 32
#: Checks that an API process works on at the same time. It refuses further ones, so other requests have threads.
AT_ONCE = 4
#: Deletions of one project that are read; a project with more of them within ``max_age`` is not proven to be empty.
_RECORDS = 50


class Gate:
    """The WSGI application of the gate."""

    def __init__(self, context: ApiContext, secret: str, max_age: int) -> None:
        """Take the configuration.

        :raises CleanupError: the secret is too short
        """
        if len(secret) < SECRET_LENGTH or not secret.isascii() or not secret.isalnum():
            raise CleanupError(
                f"[{GROUP}] secret needs {SECRET_LENGTH} or more letters and digits: 'openssl rand -hex 32' makes one"
            )
        self._context, self._secret = context, secret.encode()
        self._max_age = datetime.timedelta(seconds=max_age)
        self._free = threading.BoundedSemaphore(AT_ONCE)

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        """Answer one check."""
        if not self._is_keystone(request):
            answer = _said(401, "the password of the URL is not [gate] secret")
            answer.headers["WWW-Authenticate"] = 'Basic realm="gate"'
            return answer
        if request.method != "POST":
            answer = _said(405, "the gate is asked with POST")
            answer.headers["Allow"] = "POST"
            return answer
        if not self._free.acquire(blocking=False):
            return _said(503, f"{AT_ONCE} checks are under way")
        try:
            doubt = self._doubt(request.environ.get("PATH_INFO", "").removeprefix(PREFIX).split("/"))
        except Exception as error:
            shaped = errors.of_exception(error)
            return _said(shaped.status, shaped.detail)
        finally:
            self._free.release()
        if doubt:
            return _said(403, doubt)
        return webob.Response(status=200, text="True", content_type="text/plain")

    def _is_keystone(self, request: webob.Request) -> bool:
        """Whether the request has the secret; the comparison takes the same time for each wrong one."""
        scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
        try:
            password = base64.b64decode(encoded, validate=True).partition(b":")[2]
        except ValueError:
            return False
        return scheme.lower() == "basic" and hmac.compare_digest(password, self._secret)

    def _doubt(self, path: list[str]) -> str:
        """Return why what a path names is not proven to be empty; an empty text: it is.

        :param path: its segments after the prefix
        """
        match path:
            case ["projects", project_id] if is_id(project_id):
                return self._doubt_project(project_id)
            case ["domains", domain_id] if is_id(domain_id):
                return self._doubt_domain(domain_id)
        return "the path is neither that of a project nor that of a domain"

    def _doubt_project(self, project_id: str) -> str:
        store = self._context.store
        since = store.now() - self._max_age
        span = storage.Span(live_or_ended_since=since)
        records = store.list(storage.Page(_RECORDS), span=span, project_id=project_id)
        if len(records) == _RECORDS:
            return f"the project has {_RECORDS} or more deletions since then"
        latest = emptiness.latest(records)
        if latest is None:
            return f"a deletion of the project is under way, or none has ended since {utc(since)}"
        report, steps = store.shown(latest.id)
        return emptiness.doubt(report, steps, since) or self._protected(project_id, report.project_name)

    def _protected(self, project_id: str, name: str) -> str:
        return self._context.protection().why(project_id, name) or ""

    def _doubt_domain(self, domain_id: str) -> str:
        """Return why a domain may have projects. Reports cannot prove that: a new project has none."""
        if self._context.store.brake().on:
            return "the brake is set"
        return self._context.projects.doubt_domain(domain_id)


def _said(status: int, why: str) -> webob.Response:
    """Return a refusal; its text is not ``True``."""
    if status != 401:
        LOG.info("the gate refuses: %s", why)
    return webob.Response(status=status, text=f"False: {why}\n", content_type="text/plain")
