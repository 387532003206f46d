"""Makes text of services storable in every database. Pure.

The store writes text in this form. What is compared with stored text must have this form, too.
"""

from __future__ import annotations

import hashlib
import re

_MAX = 60_000  #: bytes; MariaDB refuses a text of more than 65,535

_SHORT = 512  #: characters of the columns for the id and the name of a resource

#: The end of an id that is not stored as it is: a character that no id of a service has, and a SHA-256.
_DIGEST = re.compile("\ufffd[0-9a-f]{64}\\Z")


def text(value: object) -> str:
    """Return a value as text that every database accepts.

    Services and plugins may give any text. PostgreSQL refuses NUL, and no database accepts an unpaired surrogate.
    """
    stored = str(value).replace("\0", "\ufffd").encode("utf-8", "replace")
    if len(stored) > _MAX:  # for example the names of all blockers, in a cloud of many regions
        stored = stored[:_MAX].decode("utf-8", "ignore").encode("utf-8") + b" ..."
    return stored.decode("utf-8")


def resource_id(value: object) -> str:
    """Return a resource's id as it is stored.

    An id that no column takes as it is ends with its digest. So the ids of two resources are never stored alike, unless
    a user gives one of them the stored form of the other. A stored id is not changed again.
    """
    given = str(value)
    if len(given) <= _SHORT and given.isascii() and "\0" not in given:  # nearly every id
        return given
    kept = text(given)
    if kept == given and len(kept) <= _SHORT:
        return kept
    end = "\ufffd" + hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()
    return kept[: _SHORT - len(end)] + end


def is_shortened(stored_id: str) -> bool:
    """Whether a resource's id is not stored as its service knows it."""
    return _DIGEST.search(stored_id) is not None


def resource_name(value: object) -> str:
    """Return a resource's name as it is stored."""
    return text(value)[:_SHORT]


class Ids(frozenset[str]):
    """Stored ids of resources, in which a resource is found by its id as listed.

    An id that its service lists in the form of a shortened one is never found: its stored form may be of another
    resource, which a plan names.
    """

    def __contains__(self, id_: object) -> bool:
        if not self:  # as nearly always, for each resource of a list
            return False
        stored = resource_id(id_)
        return super().__contains__(stored) and not (stored == id_ and is_shortened(stored))
