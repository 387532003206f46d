"""Texts and ids of a server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: Letters and symbols that look like spaces, as in ``core.texts``.
BLANK = "\u115f\u1160\u2800\u3164\uffa0"
#: The form of the id of a deletion.
DELETION_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: The form of an id of Keystone.
KEYSTONE_ID = re.compile("[A-Za-z0-9_-]{1,64}")


#: Types that a person looks for first, with their names for one and for several resources.
FIRST_TYPES: Mapping[str, tuple[str, str]] = {
    "compute.server": ("server", "servers"),
    "block-storage.volume": ("volume", "volumes"),
    "image.image": ("image", "images"),
    "network.floating_ip": ("floating IP", "floating IPs"),
}

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(size: int) -> str:
    """Return a size in bytes as a person reads it, such as "1.5 GiB"."""
    number, power = float(size), 0
    while number >= 1023.95 and power < len(_UNITS) - 1:  # what would be rounded to 1024
        number, power = number / 1024, power + 1
    return f"{number:.1f}".removesuffix(".0") + f" {_UNITS[power]}"


def one_line(text: Any) -> str:
    """Return a text of a server as one printable line.

    Names and messages can contain any characters, also terminal escape codes, and letters that look like spaces.
    """
    return "".join(c if c.isprintable() and c not in BLANK else "?" for c in " ".join(str(text).split()))
