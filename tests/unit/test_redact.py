"""Secrets are taken out of text; everything else stays as it is."""

import pytest

from cleanup_orchestrator import redact
from cleanup_orchestrator.errors import classify

FERNET = "gAAAAABk2x_Qv-7H9cXlP0aYc3b1ZC9xN5yK8wVt2mRrUuJp"
JWS = "eyJhbGciOiJFUzI1NiIsInR5.eyJzdWIiOiJhYmNkZWZn.c2lnbmF0dXJlc2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"token {FERNET} is bad", "token *** is bad"),
        (f"{JWS}!", "***!"),
        ("rabbit://u:p4ss@h1:5672,v:p5ss@h2:5672/x", "rabbit://u:***@h1:5672,v:***@h2:5672/x"),
        ("postgresql+psycopg://cleanup:a:b@db/cleanup", "postgresql+psycopg://cleanup:***@db/cleanup"),
        ("X-Auth-Token: 0123abcd, and more", "X-Auth-Token: ***, and more"),
        ("X-Auth-Token: b0123acd, and more", "X-Auth-Token: ***, and more"),  # a token, not bytes in Python's notation
        ("password=b'hush'", "password=b'***'"),
        ('{"password": "hush", "name": "n"}', '{"password": "***", "name": "n"}'),
        ("{'adminPass': 'hush'}", "{'adminPass': '***'}"),
        ("b'password': b'hush'", "b'password': b'***'"),
        ("GET /v1/x?temp_url_sig=abc&token=def", "GET /v1/x?temp_url_sig=***&token=***"),
        ('{"token": "abc"}', '{"token": "***"}'),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("secret_key = hush", "secret_key = ***"),
    ],
)
def test_a_secret_goes(text, left):
    assert redact.redact(text) == left
    assert redact.redact(left) == left


@pytest.mark.parametrize(
    "text",
    [
        "key-manager.secret@RegionOne: clear, 3 found, 3 gone, 0 left, 7 calls",
        "key-manager.secret: 3 gone",
        "NoProjectToken: Keystone gives us no token for the project (HTTP 401)",
        "[orchestrator]: Keystone gives no token: it is away",
        "image.image: 2 gone; token: the project's",
        "http://127.0.0.1:5000/v3/projects/0123456789abcdef0123456789abcdef",
        "the lock lasts until 2026-01-01T00:00:00Z, and [drain] token_cache_time = 300",
        "",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact.redact(text) == text


def test_the_message_of_a_failure_has_no_secret_even_where_it_is_cut():
    for length in range(440, 500, 7):
        assert FERNET[:20] not in classify(RuntimeError(f"{'x' * length} {FERNET}")).message
