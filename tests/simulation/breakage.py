"""What a deliberate defect is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from tests.simulation.plan import Plan, plan
from tests.simulation.setting import Patch


@dataclasses.dataclass(frozen=True)
class Breakage:
    """One defect, the plans in which it can take effect, and the promise that it breaks."""

    patches: Callable[[], Iterator[Patch]]
    noticed: str  #: part of the promise that breaks
    plans: Callable[[int], Plan] = plan
    within: int = 40  #: seeds
    first: int = 0  #: of these seeds: near the one that shows it
