"""What a deletion writes down: journal lines, and changes that a cancel undoes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One line of the append-only journal."""

    type: str  #: such as ``deletion.accepted``, ``resource.deleted``
    message: str
    actor: str = ""  #: user id, or the name of the engine or worker
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    request_id: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """Something that we changed and give back on cancel: written down before the call, undone in reverse."""

    id: str
    deletion_id: str
    sequence: int
    type: str  #: ``grant_added``, ``grant_removed``, ``project_disabled``, ``project_fenced``, ``resource_stopped``
    data: Mapping[str, Any]
    undone: bool = False
