"""Canonical JSON (RFC 8785): the same bytes for the same values, whichever program writes them. Pure.

This room uses no library, so the rules are written here. A test compares the result with that of another
implementation.
"""

from __future__ import annotations

import decimal
import json
import json.encoder
from collections.abc import Mapping
from typing import Any

#: The largest integer that every reader of JSON takes as it is (RFC 7493, 2.2).
LARGEST = 2**53 - 1

#: Writes a text in quotes as RFC 8785 does. The function of CPython's ``json``, in C where there is one.
_quoted = json.encoder.encode_basestring


class NotCanonical(ValueError):
    """A value has no canonical form."""


def exact(value: Any) -> Any:
    """Return a value of which every reader of JSON reads the same.

    A number that some readers change (large, infinite, or none) becomes text, and a key becomes text. Text stays as it
    is; see ``storable.text`` for text with unpaired surrogates.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        return value if abs(value) <= LARGEST else str(value)  # neither infinity nor NaN is that small
    if isinstance(value, Mapping):
        return {str(key): exact(each) for key, each in value.items()}
    return [exact(each) for each in value]


def parsed(text: str | bytes) -> Any:
    """Return the value of a JSON text of which every reader reads the same.

    :raises ValueError: it is no JSON, an object has a key twice, or a number is ``NaN`` or infinite
    :raises RecursionError: it is nested too deep
    """
    return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)


def encoded(value: Any) -> bytes:
    """Return the canonical JSON of a value.

    :raises NotCanonical: for a number that is too large or not finite, a key that is no text, an unpaired surrogate, a
        value that is none of JSON, and a value that is nested too deep
    """
    parts: list[str] = []
    try:
        _write(value, parts.append)
        return "".join(parts).encode("utf-8")
    except UnicodeEncodeError:
        raise NotCanonical("a text has an unpaired surrogate") from None
    except RecursionError:
        raise NotCanonical("it is nested too deep") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _write(value: Any, put: Any) -> None:
    if value is None or value is True or value is False:
        put("null" if value is None else "true" if value else "false")
    elif isinstance(value, str):
        put(_quoted(value))
    elif isinstance(value, int | float):
        put(_number(value))
    elif isinstance(value, Mapping):
        sign = "{"
        for key in _sorted(value):
            put(f"{sign}{_quoted(key)}:")
            _write(value[key], put)
            sign = ","
        put("}" if value else "{}")
    elif isinstance(value, list | tuple):
        sign = "["
        for each in value:
            put(sign)
            _write(each, put)
            sign = ","
        put("]" if value else "[]")
    else:
        raise NotCanonical(f"{type(value).__name__} is no type of JSON")


def _sorted(value: Mapping[Any, Any]) -> list[str]:
    """Return the keys in their order, which is that of UTF-16."""
    if not all(isinstance(key, str) for key in value):
        raise NotCanonical("a key is no text")
    if all(key.isascii() for key in value):
        return sorted(value)
    return sorted(value, key=lambda key: key.encode("utf-16-be"))


def _number(value: float) -> str:
    """Return a number as ECMAScript writes it (ECMA-262, Number::toString)."""
    if not abs(value) <= LARGEST:  # also true for NaN
        raise NotCanonical("a number is too large, or not finite")
    if isinstance(value, int) or value == 0:
        return str(int(value))
    sign, parts, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    digits, minus = "".join(map(str, parts)), "-" if sign else ""
    point = int(exponent) + len(digits)  # the number is 0.digits * 10**point
    if len(digits) <= point <= 21:
        return minus + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{minus}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    mantissa = digits if len(digits) == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{minus}{mantissa}e{point - 1:+d}"
