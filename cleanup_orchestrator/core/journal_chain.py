"""The hash chain of a journal: each line has the digest of itself and of the line before it. Pure.

The digest of a line is the SHA-256, in hexadecimal, of the canonical JSON (RFC 8785) of an object with the fields of
``COVERED`` and of ``previous``. ``previous`` is the digest of the line before; in the first line it is empty. A line
that is changed, dropped, added or swapped changes the digest of each later line. The head, which is the length and the
last digest, stands for the whole journal. Who can write the database can write another chain: the head must also be
where that person cannot write, such as in a signed report or in a notification.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from cleanup_orchestrator.core import canonical

#: The fields of a line that its digest covers, besides ``previous``.
COVERED: Final = ("deletion_id", "sequence", "at", "type", "message", "actor", "request_id", "data")


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain."""

    length: int = 0  #: the number of lines
    digest: str = ""  #: of the last line; empty: there is no line

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return dataclasses.asdict(self)


EMPTY: Final = Head()


class BrokenChain(Exception):
    """A line does not follow from the line before it. Its text says why."""

    def __init__(self, sequence: int, why: str) -> None:
        super().__init__(f"line {sequence} of the journal: {why}")
        self.sequence = sequence


def moment(at: datetime.datetime) -> str:
    """Return a time as a digest covers it: ISO 8601 in UTC, with six digits after the seconds.

    :param at: UTC, naive
    """
    return at.isoformat(timespec="microseconds") + "Z"


def linked(head: Head, line: Mapping[str, Any]) -> Head:
    """Return the head of a chain after one more line.

    :param line: has the fields of ``COVERED``, as JSON has them; others are not covered
    :raises canonical.NotCanonical: the line cannot be hashed
    """
    covered = {name: line[name] for name in COVERED}
    digest = hashlib.sha256(canonical.encoded({**covered, "previous": head.digest})).hexdigest()
    return Head(head.length + 1, digest)


def checked(head: Head, line: Mapping[str, Any]) -> Head:
    """Return the head of a chain after one more stored line.

    :param line: as in :func:`linked`, and its stored ``digest``
    :raises BrokenChain: the line does not follow
    """
    expected = head.length + 1
    if line["sequence"] != expected or isinstance(line["sequence"], bool):
        raise BrokenChain(expected, f"it is missing, and line {line['sequence']} stands in its place")
    try:
        after = linked(head, line)
    except canonical.NotCanonical as error:
        raise BrokenChain(expected, f"it cannot be hashed: {error}") from None
    if line["digest"] != after.digest:
        raise BrokenChain(expected, "it, or a line before it, was changed: the digest does not match")
    return after
