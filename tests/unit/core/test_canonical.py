"""Canonical JSON: the examples of RFC 8785, and the rules for what has no canonical form."""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cleanup_orchestrator.core.canonical import LARGEST, NotCanonical, encoded, exact

JSON = st.recursive(
    st.none() | st.booleans() | st.text() | st.integers(-LARGEST, LARGEST)
    | st.floats(-LARGEST, LARGEST, allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        # RFC 8785, appendix B.
        (0.0, "0"), (-0.0, "0"), (5e-324, "5e-324"), (-5e-324, "-5e-324"), (9007199254740991, "9007199254740991"),
        (333333333.33333329, "333333333.3333333"), (1e-27, "1e-27"), (0.000001, "0.000001"), (1e-7, "1e-7"),
        (4.5, "4.5"), (2e-3, "0.002"), (-1.5e-10, "-1.5e-10"), (1e15, "1000000000000000"), (100, "100"),
        (123456.789, "123456.789"),
        # 3.2.2.2: text.
        ("\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/", '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'),
        ("\x7f\u2028", '"\x7f\u2028"'),
        # 3.2.3: the order of keys is that of UTF-16.
        (
            {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7},
            '{"\\r":2,"1":4,"\x80":6,"\xf6":7,"\u20ac":1,"\U0001f600":5,"\ufb33":3}',
        ),
        ([], "[]"), ({}, "{}"), ([None, True, False, [{}]], "[null,true,false,[{}]]"),
    ],
)  # fmt: skip
def test_examples(value, text):
    assert encoded(value).decode() == text


@given(JSON)
@example({"a": 1.0, "b": 1e-7})
def test_what_a_reader_of_json_reads_has_the_same_form(value):
    """A database, a report and its reader turn 5.0 into 5, and change the order of keys and the escapes."""
    form = encoded(value)
    assert encoded(json.loads(form)) == form == encoded(json.loads(json.dumps(value)))
    assert json.loads(form) == value


@pytest.mark.parametrize(
    "value",
    [LARGEST + 1, -LARGEST - 1, 1e300, 10**400, math.inf, -math.inf, math.nan, "\ud800", {"\udfff": 1}, {1: 2},
     {None: 1}, {1, 2}, b"x", object()],
)  # fmt: skip
def test_what_has_no_canonical_form(value):
    for each in (value, [value], {"x": value}):
        with pytest.raises(NotCanonical):
            encoded(each)


def test_a_value_that_is_nested_too_deep():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(NotCanonical, match="nested too deep"):
        encoded(deep)


def test_exact():
    """Readers of JSON with doubles change a large integer: it becomes text before it is stored and hashed."""
    given_ = {1: 2**53, "a": (math.inf, 1e300, LARGEST, 0.5, True, None, "x"), "n": -(2**64)}
    assert exact(given_) == {
        "1": "9007199254740992",
        "a": ["inf", "1e+300", LARGEST, 0.5, True, None, "x"],
        "n": "-18446744073709551616",
    }
    assert exact(math.nan) == "nan" and encoded(exact(given_))
