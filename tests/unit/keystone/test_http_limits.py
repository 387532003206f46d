"""What one answer of a service may take: each answer that takes more is unknown, and does not delay the others."""

from __future__ import annotations

import gzip
import sys
import threading
import time
import types
import zlib

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st
from keystoneauth1 import noauth
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.cloud import session as cloud_session
from cleanup_orchestrator.cloud.session import GuardedSession, read_only
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.keystone import http_limits
from cleanup_orchestrator.plugins.base import ResourceType, Rest
from tests.support import hostile, sweeps
from tests.unit.answers import project
from tests.unit.cloud.test_where_tokens_go import serving

LIMIT = 3  #: MiB
SECONDS = 1.0
MEMORY = 40  #: MiB
PROJECT = project("p")
LIES = hostile.lies(LIMIT)
GOOD = b'{"rows": [{"id": "1", "name": "n", "project_id": "p"}]}'
HONEST = {
    "/honest": lambda: hostile.whole(GOOD),
    "/honest-gzip": lambda: hostile.whole(gzip.compress(GOOD), "Content-Encoding: gzip"),
    "/honest-x-gzip": lambda: hostile.whole(gzip.compress(GOOD), "Content-Encoding: X-GZIP"),
    "/honest-identity": lambda: hostile.whole(GOOD, "Content-Encoding: identity"),
    "/honest-chunks": lambda: iter(
        [hostile.HEAD, b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n0\r\nX-Y: z\r\n\r\n" % (len(GOOD), GOOD)]
    ),
    "/honest-close": lambda: iter([hostile.HEAD + b"\r\n", GOOD[:9], GOOD[9:]]),
    "/honest-long": lambda: hostile.whole(GOOD + b" " * (LIMIT * hostile.MIB - len(GOOD))),
}
#: Whether the standard library ends an answer with more than 100 parts "100 Continue".
ENDS_CONTINUE = sys.version_info >= (3, 14)
#: Answers after which the connection counts as lost, so that a read is tried again.
LOST = {"/endless-header", "/endless-header-line"}


def limits(**options):
    given = {"longest": LIMIT * hostile.MIB, "seconds": SECONDS, "memory": MEMORY * hostile.MIB, "group": "g"}
    return cloud_session.answer_limits(**given | options)


@pytest.fixture(scope="module")
def service():
    with hostile.serving(LIES | HONEST) as made:
        yield made


@pytest.fixture
def connection(service):
    url, seen = service
    seen.clear()
    return connected(url, cloud_session.http_pool(limits()))


@pytest.fixture
def patient(service):
    """The same, with time enough for all but the slow answers, however busy the machine is."""
    return connected(service[0], cloud_session.http_pool(limits(seconds=60)))


def connected(url, pool):
    session = GuardedSession(read_only, auth=noauth.NoAuth(endpoint=url), session=pool, timeout=30)
    adapter = Adapter(session, service_type="key-manager", endpoint_override=url)
    return types.SimpleNamespace(key_manager=adapter, session=session)


def listed(connection, path):
    type_ = ResourceType("thing", Rest("key-manager", path, key="rows"), delete=None)
    return sweeps.inventory(type_, connection, PROJECT)


@pytest.mark.parametrize("path", LIES)
@pytest.mark.usefixtures("no_garbage_collection")
def test_an_answer_that_takes_too_much_is_unknown(service, connection, path):
    began = time.monotonic()
    result = listed(connection, path)
    assert result.outcome is Outcome.UNKNOWN
    assert result.reason in (Reason.BAD_ANSWER, Reason.UNREACHABLE, Reason.ERROR), result.message
    lost = {*LOST, "/endless-continue"} if ENDS_CONTINUE else LOST
    tries = 31 if path == "/redirects" else 4 if path in lost else 1
    assert service[1] == [path] * tries
    assert time.monotonic() - began < 60, "most have no end"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/long", "longer than 3 MiB ([g] answer_limit)"),
        ("/gzip", "longer than 3 MiB ([g] answer_limit)"),
        ("/error-gzip", "longer than 3 MiB ([g] answer_limit)"),
        ("/redirect-gzip", "longer than 3 MiB ([g] answer_limit)"),
        ("/endless-trailer", "longer than 3 MiB ([g] answer_limit)"),
        pytest.param(
            "/endless-continue",
            "longer than 3 MiB ([g] answer_limit)",
            marks=pytest.mark.skipif(ENDS_CONTINUE, reason="it is a lost connection"),
        ),
        ("/slow-body", "takes more than 1 s ([g] answer_timeout)"),
        ("/slow-header", "takes more than 1 s ([g] answer_timeout)"),
        ("/gzip-of-gzip", "compressed with 'gzip, gzip'"),
        ("/gzip-lines", "compressed with 'gzip, gzip'"),
        ("/deflate", "compressed with 'deflate'"),
    ],
)
def test_the_error_names_the_request_and_the_option_and_no_secret(service, connection, patient, path, said):
    url, _ = service
    address = url.replace("://", "://me:secret@") + path
    with pytest.raises(BadAnswer) as refused:
        (connection if "slow" in path else patient).session.get(address + "?password=secret")
    assert f"GET {url}{path}: " in str(refused.value) and said in str(refused.value)
    assert "secret" not in str(refused.value)


def test_json_that_takes_too_much_memory_is_not_parsed(service, patient):
    url, _ = service
    answer = patient.session.get(f"{url}/costly")
    with pytest.raises(BadAnswer, match=r"more than 40 MiB of memory \(\[g\] answer_memory\)"):
        answer.json()


@pytest.mark.parametrize("path", HONEST)
def test_an_honest_answer_is_read(patient, path):
    result = listed(patient, path)
    assert (result.outcome, result.found) == (Outcome.LEFTOVERS, 1), result.message


def test_of_the_page_of_a_proxy_the_beginning_is_read(service):
    """openstacksdk searches it for tags: a megabyte of "<" took it hours."""
    page = "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html; charset=x\r\n\r\n"
    with hostile.serving({"/": lambda: iter([page.encode(), b"<" * 2 * hostile.MIB])}) as (url, _):
        answer = cloud_session.http_pool(limits(seconds=60)).get(url + "/")
    assert (answer.status_code, answer.content) == (502, b"<" * 4096)


def test_answers_at_the_same_time_share_the_memory_and_give_it_back(service):
    """Five that fit alone do not fit together. Short answers are read meanwhile, and all fit afterwards."""
    url, _ = service
    pool = cloud_session.http_pool(limits(seconds=60, memory=int(2.5 * LIMIT * hostile.MIB)))
    held, refused = [], []

    def get():
        try:
            held.append(pool.get(f"{url}/honest-long"))
        except BadAnswer as error:
            refused.append(str(error))

    threads = [threading.Thread(target=get) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) <= 2 and len(held) + len(refused) == 5 and "memory" in refused[0]
    while len(held) < 2:
        get()
    assert pool.get(f"{url}/honest").content == GOOD
    with pytest.raises(BadAnswer):
        pool.get(f"{url}/honest-long")
    held.clear()
    for _ in range(5):
        assert len(pool.get(f"{url}/honest-long").content) == LIMIT * hostile.MIB


def test_a_session_without_a_pool_has_the_limits_too(service):
    url, _ = service
    session = GuardedSession(read_only, auth=noauth.NoAuth(endpoint=url))
    with pytest.raises(BadAnswer, match="gzip, gzip"):
        session.get(f"{url}/gzip-of-gzip")


def test_no_cookie_is_kept(service):
    with hostile.serving({"/": lambda: hostile.whole(b"{}", "Set-Cookie: a=b; Path=/")}) as (url, _):
        pool = cloud_session.http_pool(limits())
        pool.get(url + "/")
        assert list(pool.cookies) == []


def test_the_proxy_of_a_request_has_the_limits_too():
    pool = cloud_session.http_pool(limits(seconds=60))
    with hostile.serving({"http://cloud/": LIES["/gzip"]}) as (proxy, seen), pytest.raises(BadAnswer, match="longer"):
        pool.get("http://cloud/", proxies={"http": proxy})
    assert seen == ["http://cloud/"]


def test_a_connection_is_used_again_with_the_limits_of_a_new_answer():
    """Three answers over one connection, which together are longer than one may be."""
    with serving(lambda *_: (200, {}, "a" * (hostile.MIB - 2))) as (url, seen):
        pool = cloud_session.http_pool(limits(longest=hostile.MIB, seconds=60))
        assert [len(pool.get(url).content) for _ in range(3)] == [hostile.MIB] * 3
        pools = pool.get_adapter(url).poolmanager.pools
        assert [pools[key].num_connections for key in pools.keys()] == [1]  # noqa: SIM118 # it is no dictionary
    assert len(seen) == 3


@settings(max_examples=200)
@given(st.binary(max_size=3000), st.integers(1, 4000), st.sampled_from(["", "identity", "gzip", "x-gzip"]))
def test_a_body_is_the_same_in_whatever_pieces_it_comes(body, size, coding):
    sent = gzip.compress(body) if "gzip" in coding else body
    pieces = [sent[start : start + size] for start in range(0, len(sent), size)]
    assert b"".join(http_limits._decompressed(coding, iter(pieces))) == body


@settings(max_examples=200)
@given(st.binary(max_size=3000), st.integers(0, 3000), st.sampled_from(["cut", "more"]))
def test_a_damaged_gzip_is_never_a_shorter_body(body, place, damage):
    whole = gzip.compress(body)
    sent = whole[: 1 + place % (len(whole) - 1)] if damage == "cut" else whole + whole[: 1 + place % len(whole)]
    with pytest.raises(requests.exceptions.ContentDecodingError):
        list(http_limits._decompressed("gzip", iter([sent])))


def test_a_bomb_is_decompressed_in_small_pieces():
    bomb = hostile.bomb(64)
    assert len(bomb) < hostile.MIB / 10
    assert max(map(len, http_limits._decompressed("gzip", iter([bomb])))) <= http_limits.CHUNK
    with pytest.raises(http_limits._Exceeded):
        list(http_limits._decompressed("deflate", iter([zlib.compress(b"{}")])))


def test_an_answer_that_is_freed_while_memory_is_counted_stops_no_thread():
    """The garbage collector may free an answer on any line, also in the middle of counting another one."""
    limits = http_limits.Limits(memory=100)

    class Counted(int):
        def __le__(self, other):
            limits.free(10)
            return int(self) <= other

        def __gt__(self, other):
            return not self <= other

        def __add__(self, other):
            return Counted(int(self) + other)

    limits._taken = Counted(50)
    thread = threading.Thread(target=limits.take, args=(20,), daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
