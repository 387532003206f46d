"""Writes several things as one text. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def enumerated(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first of some texts, and how many more there are: "a, b and 3 more".

    :param most: the number of texts that are named
    :param separator: "; " for texts with commas
    """
    more = len(texts) - most
    if more <= 0:
        return separator.join(texts)
    return f"{separator.join(texts[:most])}{separator if separator != ', ' else ' '}and {more} more"
