"""Makes text of services storable in every database. Pure.

The store writes text in this form. What is compared with stored text must have this form, too.
"""

from __future__ import annotations

_MAX = 60_000  #: bytes; MariaDB refuses a text of more than 65,535

_SHORT = 512  #: characters of the columns for the id and the name of a resource


def text(value: object) -> str:
    """Return a value as text that every database accepts.

    Services and plugins may give any text. PostgreSQL refuses NUL, and no database accepts an unpaired surrogate.
    """
    stored = str(value).replace("\0", "\ufffd").encode("utf-8", "replace")
    if len(stored) > _MAX:  # for example the names of all blockers, in a cloud of many regions
        stored = stored[:_MAX].decode("utf-8", "ignore").encode("utf-8") + b" ..."
    return stored.decode("utf-8")


def resource_id(value: object) -> str:
    """Return a resource's id as it is stored."""
    return text(value)[:_SHORT]


def resource_name(value: object) -> str:
    """Return a resource's name as it is stored."""
    return text(value)[:_SHORT]
