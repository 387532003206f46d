"""Texts of a server."""

from __future__ import annotations

from typing import Any


def one_line(text: Any) -> str:
    """Return a text of a server as one printable line.

    Names and messages can contain any characters, also terminal escape codes.
    """
    return "".join(c if c.isprintable() else "?" for c in " ".join(str(text).split()))
