"""A session that counts calls, guards writes, and limits where tokens are sent.

The guard enforces the rules about writes for all plugins. An inventory, and so a dry run, cannot write at all. The
guard of a deletion is asked right before each write leaves, so that a cancel or a lost lease stops the write.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import http.cookiejar
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urljoin, urlsplit

import requests
from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1 import session as ka_session

from cleanup_orchestrator.cloud.rate_limiter import RateLimiter
from cleanup_orchestrator.core import rate_limits
from cleanup_orchestrator.core.step import LITERAL_PATH
from cleanup_orchestrator.errors import BadAnswer, Stopped, WriteRefused
from cleanup_orchestrator.keystone.http_limits import LimitedAdapter, Limits
from cleanup_orchestrator.monitoring import metrics

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
#: Seconds before each retry of a read. A step makes dozens of calls, and one failed call fails the step.
AGAIN = (0.1, 0.2, 0.4)
#: Statuses that a service, or a proxy in front of it, may return temporarily.
PASSING = frozenset({429, 500, 502, 503, 504})
#: Statuses that report too many requests: always (498 is Swift's), or only with ``Retry-After``.
TOO_MANY = frozenset({429, 498})
TOO_MANY_IF_ASKED = frozenset({413, 503})
#: Of these, the statuses that mean that the call was not executed: even a write may be repeated.
NOT_DONE = frozenset({413, 429, 498})
#: The longest ``Retry-After`` that a call waits for, in seconds. If it is longer, the step is retried later.
PATIENCE = 5.0
#: Seconds after which a new token is of another second than the revocation of an earlier one. Keystone counts a token
#: as revoked that was issued in the second of the revocation, and a token tells its time to the second.
TOKEN_SECOND = 1.1
Guard = Callable[[str, str], None]  #: called with (method, url) before each write; raises to refuse it

#: Headers that carry a token.
_TOKENS = ("X-Auth-Token", "X-Subject-Token", "X-Service-Token", "Authorization")
_REDIRECTS = frozenset({301, 302, 303, 305, 307, 308})

Origin = tuple[str, str, int]  #: scheme, host and port


def origin(url: str) -> Origin | None:
    """Return where ``requests`` sends a request; ``None``: the URL has no origin."""
    return _origin(url) if isinstance(url, str) else None


@functools.lru_cache(maxsize=1024)
def _origin(url: str) -> Origin | None:
    """Return the origin of a URL; see :func:`origin`.

    Cached, because each session asks it about every endpoint of the catalog. It depends on the URL alone.
    """
    try:
        parts = urlsplit(requests.Request("GET", url).prepare().url or "")
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):  # requests' errors for a URL are ValueErrors, too
        return None
    return parts.scheme, str(parts.hostname), port


def read_only(method: str, url: str) -> None:
    """Refuse every write: the guard of inventories and dry runs."""
    raise WriteRefused(f"{method} {url} refused: an inventory or a dry run must not write")


def _shown(place: Origin | None) -> str:
    """Return an origin as text, for messages."""
    if place is None:
        return "no address"
    host = f"[{place[1]}]" if ":" in place[1] else place[1]
    return f"{place[0]}://{host}:{place[2]}"


def unreadable_names(session: ka_session.Session) -> list[str]:
    """Return the names in a session's token that are not Latin-1.

    keystonemiddleware writes them into headers of the request. A service that passes such a header on fails.
    """
    token = session.auth.get_access(session)
    names = (token.project_name, token.project_domain_name, token.username, token.user_domain_name)
    return [name for name in names if name and not _is_latin(name)]


def _is_latin(name: str) -> bool:
    try:
        name.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


class GuardedSession(ka_session.Session):  # type: ignore[misc] # keystoneauth1 has no type information
    """A session that counts calls and asks the guard before each write.

    A token request is no write. A read is retried after a temporary failure. A write is not: it may have been executed,
    and only the next listing shows whether it must be repeated.
    """

    def __init__(
        self, guard: Guard, budget: RateLimiter | None = None, trusted: Collection[str] = (), **kwargs: Any
    ) -> None:
        """Make a session.

        :param trusted: URLs to which tokens may be sent, besides the endpoints of the catalog
        :param kwargs: of ``keystoneauth1.session.Session``; without ``session``, it has an HTTP pool of its own
        """
        super().__init__(**{**kwargs, "session": kwargs.get("session") or http_pool()})
        self._guard, self._budget = guard, budget
        self._trusted = {origin(url) for url in trusted}
        #: Access information of the token, and the origins in its catalog.
        self._catalog: tuple[Any, frozenset[Origin | None]] = (None, frozenset())
        self._local = threading.local()
        self._lock = threading.Lock()
        self.calls = 0
        self.writing = 0  #: write calls that are under way: they may still take effect
        self.life = time.monotonic()  #: when a call last asked for a permit, was sent, or was answered (monotonic)
        self._over = ""  #: why no further call is made
        self._callers: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    def callers(self) -> set[threading.Thread]:
        """Return the threads that have made a call and are alive."""
        with self._lock:
            return {thread for thread in self._callers if thread.is_alive()}

    def end(self, why: str) -> None:
        """Refuse every further call, reads included, because the caller was abandoned."""
        self._over = why

    def request(self, url: str, method: str, *, once: bool = False, **kwargs: Any) -> Any:
        """Make a call, with retries; see ``keystoneauth1.session.Session.request``.

        A read is retried after a temporary failure. A write is retried only if its service answered that it did not
        execute it because of too many requests. A call whose token is refused is made again with a new token, by
        keystoneauth, and if that is refused, too, once more with a token of a later second: a change of the groups or
        of the password of the orchestrator's user revokes all its tokens until the end of that second.

        :param once: whether there is one attempt only
        """
        again = not once and kwargs.get("authenticated") is not False and kwargs.get("allow_reauth", True)
        again = again and isinstance(kwargs.get("data"), str | bytes | None)
        again = again and (kwargs.get("auth") or self.auth) is not None
        try:
            response = self._request_with_retries(url, method, once=once, **kwargs)
            if response.status_code != 401 or not again:
                return response
        except ka_exceptions.Unauthorized as error:
            if not again or _is_login(error):
                raise
        time.sleep(TOKEN_SECOND)
        self.invalidate(kwargs.get("auth"))
        return self._request_with_retries(url, method, once=once, **kwargs)

    def _request_with_retries(self, url: str, method: str, *, once: bool = False, **kwargs: Any) -> Any:
        """Make a call, with retries after temporary failures; see :meth:`request`."""
        verb = method.upper()
        authenticating = kwargs.get("authenticated") is False and verb == "POST" and url.endswith("/auth/tokens")
        writing = verb not in SAFE_METHODS and not authenticating
        once |= not isinstance(kwargs.get("data"), str | bytes | None)  # the first attempt consumes a stream
        where = ("identity", "") if authenticating else self._where(kwargs.get("endpoint_filter"))
        wait: float | None
        for pause in (*(() if once else AGAIN), None):
            # New headers for each attempt, because keystoneauth changes them. ``rate_semaphore`` is entered around each
            # call on the wire, redirects included, and not around the token request that may come first.
            given = {**kwargs, "headers": dict(kwargs.get("headers") or {})}
            given["rate_semaphore"] = _Permit(self, verb, url, where, writing)
            try:
                with self._at(where):
                    response = self._request(url, method, **given)
            except ka_exceptions.ConnectFailure:
                if writing or pause is None:
                    raise
                wait = pause
            except ka_exceptions.HttpError as error:
                if (wait := self._before_another(error.http_status, error.response, pause, where, writing)) is None:
                    raise
            else:
                if (wait := self._before_another(response.status_code, response, pause, where, writing)) is None:
                    return response
            time.sleep(wait)
        raise AssertionError("unreachable")

    def _request(self, url: str, method: str, **kwargs: Any) -> Any:
        with metrics.call(kwargs.get("endpoint_filter")) as answered:
            response = super().request(url, method, **kwargs)
            answered(response.status_code)
            return response

    def _send_request(self, url: str, method: str, redirect: int | bool, *args: Any, **kwargs: Any) -> Any:
        """Send one request; keystoneauth calls this again for each redirect.

        :raises BadAnswer: a token would be sent outside of the catalog, or a write would follow a redirect, or the path
            has a part that leads out of it, or a redirect of a read has no end, or drops its query
        """
        if any(name in kwargs["headers"] for name in _TOKENS):
            self._expect_trusted(url)
        # HTTP clients resolve such parts, and several services may share a host: an id that a service made up would
        # address a resource of another one.
        if LITERAL_PATH not in kwargs["headers"] and {".", ".."} & set(unquote(urlsplit(url).path).split("/")):
            raise BadAnswer(f"{method} {url} is not sent: its path has a '.' or '..', which a service may have made up")
        if method.upper() in SAFE_METHODS:
            response = super()._send_request(url, method, redirect, *args, **kwargs)
            if redirect is not False and response.status_code in _REDIRECTS:  # openstacksdk would believe its body
                raise BadAnswer(f"{method} {url} was answered with a redirect ({response.status_code}) without an end")
            _expect_query_kept(method, response)
            return response
        response = super()._send_request(url, method, False, *args, **kwargs)
        if response.status_code in _REDIRECTS:
            place = origin(urljoin(url, response.headers.get("Location", "")))
            raise BadAnswer(
                f"{method} {url} was answered with a redirect ({response.status_code}) to {_shown(place)}: a write "
                f"follows none; correct the service's endpoint in the catalog"
            )
        return response

    def _expect_trusted(self, url: str) -> None:
        """Refuse a URL that is at no endpoint of the catalog that came with the token.

        A service may name any address in a link, a redirect or a version document.

        :raises BadAnswer: the origin is neither in the catalog nor trusted
        """
        place, own = origin(url), origin(getattr(self.auth, "auth_url", ""))
        if place in self._trusted or (access := getattr(self.auth, "get_access", None)) is None:
            return  # without a catalog there is no identity, and so no token
        if place is not None and place == own:
            return  # also the login with a token, during which `access` would wait for itself
        access_info = access(self)
        if self._catalog[0] is not access_info:
            services = access_info.service_catalog.catalog if access_info.has_service_catalog() else ()
            urls = [endpoint.get("url", "") for service in services for endpoint in service.get("endpoints", ())]
            self._catalog = access_info, frozenset({origin(url) for url in urls} - {None})
        if place not in self._catalog[1]:
            raise BadAnswer(
                f"a service names {_shown(place)}, which is no endpoint of the catalog: no token is sent there; "
                "correct the service or its endpoint, or trust the address ([orchestrator] trusted_endpoints)"
            )

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Count a write as under way while the context is open: it may still take effect."""
        with self._lock:
            self.writing += 1
        try:
            yield
        finally:
            with self._lock:
                self.writing -= 1

    def sign(self) -> None:
        """Note that the caller is active.

        :raises Stopped: the session has ended
        """
        if self._over:
            raise Stopped(self._over)
        self.life = time.monotonic()

    def count(self) -> None:
        """Count a call.

        :raises Stopped: the session has ended
        """
        self.sign()
        with self._lock:
            self.calls += 1
            self._callers.add(threading.current_thread())

    # -- the service that a call is made for
    def get_endpoint(self, *args: Any, **kwargs: Any) -> Any:
        """Return an endpoint; calls that discover it count for its service."""
        with self._at(self._where(kwargs)):
            return super().get_endpoint(*args, **kwargs)

    def get_endpoint_data(self, *args: Any, **kwargs: Any) -> Any:
        """Return an endpoint's data; see :meth:`get_endpoint`."""
        with self._at(self._where(kwargs)):
            return super().get_endpoint_data(*args, **kwargs)

    def _where(self, named: Mapping[str, Any] | None) -> tuple[str, str]:
        """Return service type and region that a call names, or else those it is made for."""
        if named and named.get("service_type"):
            return str(named["service_type"]), str(named.get("region_name") or "")
        return getattr(self._local, "where", ("", ""))

    @contextlib.contextmanager
    def _at(self, where: tuple[str, str]) -> Iterator[None]:
        before = getattr(self._local, "where", ("", ""))
        self._local.where = where
        try:
            yield
        finally:
            self._local.where = before

    def _before_another(
        self, status: int, response: Any, pause: float | None, where: tuple[str, str], writing: bool
    ) -> float | None:
        """Return the seconds to wait before a retry; ``None`` if the answer is final."""
        headers = response.headers if response is not None else {}
        now = datetime.datetime.now(datetime.UTC)
        asked = rate_limits.retry_after(headers.get("Retry-After"), headers.get("Date"), now)
        slow_down = status in TOO_MANY or (status in TOO_MANY_IF_ASKED and asked is not None)
        if slow_down and self._budget is not None:
            tries = AGAIN.index(pause) if pause is not None else len(AGAIN)
            self._budget.pause(*where, 2.0**tries if asked is None else max(asked, AGAIN[0]))
        if pause is None or (writing and not (slow_down and status in NOT_DONE)):
            return None
        if slow_down and self._budget is not None:
            # The next permit waits for the end of the pause. If the pause is longer than calls wait, the step waits.
            return 0.0 if self._budget.may_wait(*where) else None
        if status not in PASSING | TOO_MANY or (writing and self._budget is None):
            return None
        wait = pause if asked is None else asked
        return wait if wait <= PATIENCE else None


def _expect_query_kept(method: str, response: Any) -> None:
    """Check that the redirects of a read kept its query.

    keystoneauth sends the address of a redirect as it is. Without ``all_tenants`` or a filter, the answer is a list of
    other resources: that of the orchestrator's own project, for example, which looks like an empty project.

    :raises BadAnswer: a parameter is missing, or has another value
    """
    for before in response.history:
        if lost := _query(before.url) - _query(response.url):
            raise BadAnswer(
                f"{method} {before.url} was answered with a redirect ({before.status_code}) that drops "
                f"{', '.join(sorted({name for name, _ in lost}))} from its query: the answer is about something else; "
                "correct the service's endpoint in the catalog, or the proxy in front of it"
            )


def _query(url: str) -> set[tuple[str, str]]:
    return set(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def _is_login(error: ka_exceptions.HttpError) -> bool:
    """Return whether Keystone refused a login, and not a service a token."""
    return str(error.method).upper() == "POST" and str(error.url).endswith("/auth/tokens")


class _Permit:
    """Wraps a call on the wire: waits for a permit, then asks the guard for a write."""

    def __init__(self, session: GuardedSession, verb: str, url: str, where: tuple[str, str], writing: bool) -> None:
        self._session, self._verb, self._url, self._where, self._writing = session, verb, url, where, writing
        self._stack = contextlib.ExitStack()

    def _ask(self) -> None:
        self._session._guard(self._verb, self._url)

    def __enter__(self) -> None:
        session = self._session
        session.sign()
        with contextlib.ExitStack() as stack:
            if session._budget is not None:
                check_wanted = self._ask if self._writing else None
                stack.enter_context(
                    session._budget.permit(*self._where, delete=self._verb == "DELETE", check_wanted=check_wanted)
                )
            if self._writing:
                # The write is counted before the guard is asked: a caller that makes the guard refuse, and then sees no
                # write under way, can be sure that no further write is sent.
                stack.enter_context(session.under_way())
                self._ask()
            session.count()
            self._stack = stack.pop_all()

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
        self._session.life = time.monotonic()


class LiteralPaths(LimitedAdapter):
    """Reads answers within limits. Sends the path that a request's header names, if it has one."""

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        """Return the path and query to send."""
        literal = request.headers.pop(LITERAL_PATH, None)
        return str(literal) if literal else super().request_url(request, proxies)


def answer_limits(**options: Any) -> Limits:
    """Return limits for the answers of one pool; see :class:`Limits`."""
    return Limits(error=BadAnswer, **options)


def http_pool(limits: Limits | None = None) -> requests.Session:
    """Return an HTTP connection pool for sessions to share.

    It keeps no cookies: a service could set one for all that share its host.

    :param limits: of the answers; they are the default ones without
    """
    pool = requests.Session()
    pool.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=()))
    adapter = LiteralPaths(limits or answer_limits(), pool_connections=32, pool_maxsize=64)
    for scheme in ("http://", "https://"):
        pool.mount(scheme, adapter)
    return pool
