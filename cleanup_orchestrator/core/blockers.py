"""What keeps a deletion from going on."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Blocker:
    """What keeps a deletion from going on, and what would clear it."""

    region: str
    service: str
    type: str
    reason: str
    message: str
    remedy: str
