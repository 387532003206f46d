"""Promises by subject, beside those of every deletion: each class watches one run."""

from __future__ import annotations

from tests.simulation.watches.access import Access
from tests.simulation.watches.base import Watch
from tests.simulation.watches.chain import Chain
from tests.simulation.watches.fairness import Fairness
from tests.simulation.watches.janitors import Janitors
from tests.simulation.watches.liens import PluginLiens
from tests.simulation.watches.needs import Needs
from tests.simulation.watches.orphans import Orphans
from tests.simulation.watches.purge import Purges
from tests.simulation.watches.recovery import Recovery
from tests.simulation.watches.schedule import Schedule
from tests.simulation.watches.trees import Trees

#: What watches each run.
WATCHES: tuple[type[Watch], ...] = (
    *(Trees, PluginLiens, Recovery, Orphans, Needs, Purges, Janitors, Access, Fairness, Schedule, Chain),
)
