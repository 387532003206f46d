"""Writes several things as one text, and texts with control characters as printable ones. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Letters and symbols that look like spaces, with which a name could look like several words, or begin further right.
BLANK = "\u115f\u1160\u2800\u3164\uffa0"
#: Characters that control a terminal or begin a new line in a log: control characters, line ends, and those that change
#: the direction of writing. Also those that are not visible, except for joiners, which some languages need.
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff"
    rf"{BLANK}]"
)


def enumerated(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first of some texts, and how many more there are: "a, b and 3 more".

    :param most: the number of texts that are named
    :param separator: "; " for texts with commas
    """
    more = len(texts) - most
    if more <= 0:
        return separator.join(texts)
    return f"{separator.join(texts[:most])}{separator if separator != ', ' else ' '}and {more} more"


def printable(text: str) -> str:
    r"""Return the text with unprintable characters in Python's notation (``\x1b``)."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
