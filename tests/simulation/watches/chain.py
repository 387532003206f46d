"""The hash chain of each journal: no line is lost, doubled or changed when a process dies, or when several write."""

from __future__ import annotations

import hashlib
import json

from tests.simulation.watches.base import Watch

_HEADS = "SELECT id, journal_length, journal_digest FROM deletions"
_LINES = (
    "SELECT sequence, at, type, message, actor, request_id, data, digest FROM events WHERE deletion_id = ? ORDER BY id"
)
_NAMES = ("sequence", "at", "type", "message", "actor", "request_id")


class Chain(Watch):
    """What must hold of each journal. The digests are computed here, not by the code under test."""

    def at_the_end(self) -> None:
        raw = self.promises.database.raw
        for deletion_id, length, digest in raw.execute(_HEADS).fetchall():
            previous, sequence = "", 0
            for *values, data, stored in raw.execute(_LINES, (deletion_id,)).fetchall():
                line = dict(zip(_NAMES, values, strict=True))
                line |= {"at": f"{line['at'].replace(' ', 'T')}Z", "data": json.loads(data)}
                line |= {"deletion_id": deletion_id, "previous": previous}
                text = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                previous, sequence = hashlib.sha256(text.encode()).hexdigest(), sequence + 1
                if (line["sequence"], stored) != (sequence, previous):
                    self.promises.fail(f"line {sequence} of the journal of {deletion_id} breaks its chain")
            if (length, digest) != (sequence, previous):
                self.promises.fail(f"the head of the journal of {deletion_id} is not that of its last line")
