"""Secrets are taken out of text; everything else stays as it is."""

import time

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.core import redact
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover
from cleanup_orchestrator.errors import classify
from tests.support.cases import each_case
from tests.support.examples import examples

FERNET = "gAAAAABk2x_Qv-7H9cXlP0aYc3b1ZC9xN5yK8wVt2mRrUuJp"
JWS = "eyJhbGciOiJFUzI1NiIsInR5.eyJzdWIiOiJhYmNkZWZn.c2lnbmF0dXJlc2lnbmF0dXJl"


@each_case(
    "text,left",
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


KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE/x+hush==\nhush\n-----END RSA PRIVATE KEY-----"


@each_case(
    "text,left",
    [
        # All of a value in quotes, whatever is in it.
        ('{"password": "a b c d", "n": "n"}', '{"password": "***", "n": "n"}'),
        ('{"password":"a,b}c"}', '{"password":"***"}'),
        ('{"password": ",}b", "n": 1}', '{"password": "***", "n": 1}'),
        ('{"password": " b", "n": 1}', '{"password": "***", "n": 1}'),
        ("{'password': 'a\"b', 'n': 1}", "{'password': '***', 'n': 1}"),
        ('{"password": "it\'s", "n": 1}', '{"password": "***", "n": 1}'),
        ('{"password": "a\\"b c", "n": 1}', '{"password": "***", "n": 1}'),
        ('password="a b" and more', 'password="***" and more'),
        ('token="a b" and more', 'token="***" and more'),
        ('{"token": "it\'s", "n": 1}', '{"token": "***", "n": 1}'),
        # The text may have been cut.
        ('{"n": 1, "password": "a b c', '{"n": 1, "password": "***"'),
        ("password='a b c", "password='***'"),
        # JSON in a string of JSON, and so on.
        (r'"{\"password\": \"hush it\", \"n\": 1}"', r'"{\"password\": \"***\", \"n\": 1}"'),
        (r"{\\\"token\\\": \\\"a\\\\\\\"b\\\", \\\"n", r"{\\\"token\\\": \\\"***\\\", \\\"n"),
        (r'"{\"password\": \"hus", "n": 1', r'"{\"password\": \"***\"", "n": 1'),
        (r'"x \"password=hush\" y"', r'"x \"password=***\" y"'),
        (r"'{\'password\': \'hush it\', \'n\': 1}'", r"'{\'password\': \'***\', \'n\': 1}'"),
        (r"{\"password\": 1234}", r"{\"password\": ***}"),
        # Bytes.
        ("{'token': b'abc'}", "{'token': b'***'}"),
        ("{b'token': b'abc'}", "{b'token': b'***'}"),
        ("{'password': b'a b'}", "{'password': b'***'}"),
        # Any scheme.
        ("Authorization: Token abc", "Authorization: Token ***"),
        ("Authorization: X y", "Authorization: X ***"),
        ("Authorization: AWS4-HMAC-SHA256 Credential=a/b", "Authorization: AWS4-HMAC-SHA256 ***"),
        ("{'Authorization': 'Token abc', 'n': 1}", "{'Authorization': 'Token ***', 'n': 1}"),
        ("{'Authorization': b'Bearer abc'}", "{'Authorization': b'Bearer ***'}"),
        ('{"Authorization": "Digest u=\\"x\\", r=\\"y\\""}', '{"Authorization": "Digest ***"}'),
        ('{"Authorization": "abc", "n": 1}', '{"Authorization": "***", "n": 1}'),
        # A key in PEM.
        (f"private_key: {KEY} more", "private_key: *** more"),
        (f"{KEY}\nmore", "***\nmore"),
        (KEY.replace("\n", "\\n"), "***"),
        (f'{{"private_key": "{KEY}", "n": 1}}', '{"private_key": "***", "n": 1}'),
        (KEY[:-20], "***"),
        (KEY[:60], "***"),
        (f"private_key: {KEY.replace('RSA PRIVATE KEY', 'STRANGE')} more", "private_key: *** more"),
    ],
)
def test_all_of_a_secret_goes(text, left):
    assert redact.redact(text) == left
    assert redact.redact(left) == left


@each_case(
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
        # The quote after the colon ends a text here, and begins no value.
        'raise ValueError("password: " + x) from None; y = "z"',
        'print("password:", x, "y")',
        """log("the password=", x, 'y')""",
        '{"password": "", "n": "n"}',
        '{"message": "no password: ", "n": "n"}',
        "Authorization: missing",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact.redact(text) == text


def test_the_message_of_a_failure_has_no_secret_even_where_it_is_cut():
    for length in range(440, 500, 7):
        assert FERNET[:20] not in classify(RuntimeError(f"{'x' * length} {FERNET}")).message


@each_case(
    "url,left",
    [
        ("https://u:a,b@h/x", "https://u:***@h/x"),
        ("https://u:a@b@h/x", "https://u:***@***@h/x"),
        ("https://u@h/x", "https://u@h/x"),
        ("https://h/x@y", "https://h/x@y"),
        ("https://h:1/", "https://h:1/"),
        ("amqp://u:p/ss@h", "amqp://u:***@h"),
        ("amqp://u:p/s/s@h:5672/x?y=z", "amqp://u:***@h:5672/x?y=z"),
        ("amqp://u:a@b/c@h/x", "amqp://u:***@***@h/x"),
        ("amqp://u:p ss@h/x", "amqp://u:***@h/x"),
        ("amqp://u:p s s@h, and more", "amqp://u:***@h, and more"),
        ("'amqp://u:p/ss@h', 'x@y'", "'amqp://u:***@h', 'x@y'"),
        ("x://u:a'b@h", "x://u:***@h"),
        ("http://u:p@h/x,http://v:q@g/y", "http://u:***@h/x,http://v:***@g/y"),
        ("http://h:5000/x@y", "http://h:5000/x@y"),
        ("http://h:5000 is away, mail a@b", "http://h:5000 is away, mail a@b"),
        ("http://h:5000, mail a@b", "http://h:5000, mail a@b"),
        ("http://h: mail a@b", "http://h: mail a@b"),
        ("http://[fe80::1]:80/x@y", "http://[fe80::1]:80/x@y"),
        ("http://h/x:y/z@y", "http://h/x:y/z@y"),
        ("x://u:p@h is away, mail a@b", "x://u:***@h is away, mail a@b"),
        ("x://u:p@h mails a@b", "x://u:***@h mails a@b"),
    ],
)
def test_of_an_address_the_password_alone_goes(url, left):
    assert redact.redact(url) == left


#: What the patterns look for, and parts of it: text that is made to keep them busy.
PIECES = [
    "eyJ",
    "gAAAAA",
    "://",
    ",",
    ":",
    "@",
    ".",
    "a",
    "password",
    "token",
    "Authorization:",
    "AWS",
    "Bearer",
    "=",
    "'",
]
PIECES += ['"', " ", "\n", "b'", "x-auth-token", "/", "-"]
PIECES += ["\\", '\\"', '"password": "', "\\'token\\': \\'", "Authorization", "u:p", "//", "1"]
PIECES += ["-----BEGIN ", "RSA PRIVATE KEY", "PRIVATE KEY-----", "-----", "-----END ", "private_key: -----BEGIN X-----"]
SECONDS = 0.5  #: for 64 KiB, which take some milliseconds


def took(text):
    began = time.thread_time()
    redact.redact(text, len(text))
    return time.thread_time() - began


@settings(max_examples=examples(20))
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6), st.lists(st.sampled_from(PIECES), max_size=6))
@example(["eyJ"], [])
@example([",", "a", ":"], [])
@example(["Authorization:", "AWS"], [])
@example(["password", " "], [])
@example(["\\"], [])
@example(["password", "\\"], [])
@example(["\\"], ['"password": "'])
@example(['"password": "'], [])
@example(['"password": "', "\\"], [])
@example(["\\'token\\': \\'", "'"], [])
@example(["-----BEGIN ", "PRIVATE KEY-----"], [])
@example(["-----BEGIN ", "RSA PRIVATE KEY"], [])
@example(["-----"], [])
@example(["://", "u:p", "/"], [])
@example(["u:p", "/"], [])
@example(["://", "u:p", " "], [])
@example(["@", "/"], [])
@example(["Authorization", ":", " "], [])
def test_no_text_takes_more_time_than_its_length_explains(repeated, end):
    """Before, 64 KiB of the first two examples took 1.5 s and 6 s, and four times as much when they were doubled."""
    unit = "".join(repeated)
    text = unit * (redact.LONGEST // len(unit)) + "".join(end)
    assert took(text) < SECONDS


@given(st.integers(0, 64), st.sampled_from([f"x://u:{'s' * 40}@h", FERNET, JWS, f"password={'s' * 40}", f"{'s' * 40}"]))
def test_a_text_is_cut_before_it_is_read_and_no_secret_is_cut_in_two(cut, secret):
    text = f"{'a word ' * 20}{secret} and more"
    found = redact.redact(text, 140 + cut)
    assert "sssss" not in found or not secret.startswith(("x:", "pass"))
    assert FERNET[:12] not in found and JWS[:12] not in found
    assert redact.redact("s" * 200 + secret, 150) == "***..."


def test_what_a_hook_says_of_a_leftover_is_stored_without_secrets():
    left = Leftover("1", "n", Reason.ERROR, f"Heat says: x-auth-token: {FERNET}")
    assert left.message == "Heat says: x-auth-token: ***"


def test_a_message_is_one_short_line():
    assert redact.short("a\n b\t" + "c" * 9, 6) == "a b cc"
    assert redact.short(" " * (redact.LONGEST - 8) + "x://u:hush@h", 100) == ""


@given(st.integers(1, 20_000), st.integers(0, 20_000))
@example(20_000, 20_000)
def test_many_backslashes_take_no_more_time_than_their_number_explains(before, within):
    quote = "\\" * before + '"'
    text = f"password{quote}: {quote}" + "\\" * within + f" x {quote} y"
    assert took(text) < SECONDS
    assert redact.redact(text, len(text)) == f"password{quote}: {quote}***{quote} y"


@each_case(
    "start",
    ["x://u:", "x://u:p/", '"password": "', "private_key: -----BEGIN X-----", "token=b'"],
    "unit",
    ["@", "/", "a@", "@/", "\\", "\\'", "'", "-----", "-----END", "a ", "://", "a:"],
)
def test_the_rest_of_a_text_is_searched_in_linear_time(start, unit):
    assert took(start + unit * (redact.LONGEST // len(unit))) < SECONDS
    assert took((start + unit * 7) * (redact.LONGEST // (len(start) + 7 * len(unit)))) < SECONDS


def test_a_cut_text_says_so_after_a_secret_too():
    assert redact.redact('{"password": "a b c d e"}', 20) == '{"password": "***"...'
