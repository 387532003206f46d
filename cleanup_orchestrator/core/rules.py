"""The operator's settings that decisions depend on."""

from __future__ import annotations

import dataclasses
import datetime

from cleanup_orchestrator.core.guard import NO_OPTIONS, HoldOptions


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The settings for decisions on deletions and orphan scans, as the engine read them."""

    settle: datetime.timedelta = datetime.timedelta(seconds=300)  #: the longest ``token_cache_time`` of the cloud
    stall_after: datetime.timedelta = datetime.timedelta(seconds=600)  #: without progress
    claim_timeout: datetime.timedelta = datetime.timedelta(seconds=30)  #: an unclaimed cast is sent again after this
    heartbeat: datetime.timedelta = datetime.timedelta(seconds=60)  #: the longest time between two decisions
    attempts: int = 3  #: tries at a step before it reports "unknown", where nothing may wait for it without a limit
    retry_base: float = 1.0  #: seconds
    retry_cap: float = 60.0  #: seconds; the longest wait between two tries at a step
    steps_at_once: int = 8  #: sweeps of one deletion that may run at the same time
    scan_steps_at_once: int = 2  #: steps of an orphan scan that may run at the same time
    deletions_at_once: int = 16  #: places for deletions before their verification; see :mod:`.queue`
    empty_inventories: int = 2  #: complete and empty inventories in a row before the project is removed
    approval_resources: int = 0  #: resources that one deletion may delete without an approval; 0: no limit
    approval_deletions: int = 0  #: cascades in 24 hours that need no approval; 0: no limit
    reminders: tuple[int, ...] = ()  #: days before the date of a deletion at which its condition and a notice say so
    recovery_window: datetime.timedelta = datetime.timedelta(0)  #: between the inventory and the first delete; 0: none
    force_attempts: int = 3  #: tries at a step before force is used on what it left
    force_patience: datetime.timedelta = datetime.timedelta(seconds=300)  #: without progress before force is used
    hold_options: HoldOptions = NO_OPTIONS
    lien_types: frozenset[str] = frozenset()  #: types on which a cascade's inventory raises liens
