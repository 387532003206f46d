"""Texts and ids of a server."""

from __future__ import annotations

import re
from typing import Any

#: The form of the id of a deletion.
DELETION_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: The form of an id of Keystone.
KEYSTONE_ID = re.compile("[A-Za-z0-9-]{1,64}")


def one_line(text: Any) -> str:
    """Return a text of a server as one printable line.

    Names and messages can contain any characters, also terminal escape codes.
    """
    return "".join(c if c.isprintable() else "?" for c in " ".join(str(text).split()))
