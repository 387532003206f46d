"""The records of the orchestrator in a relational database.

Only this package uses SQLAlchemy.

Four rules hold for every write. A deletion is saved only if its ``version`` is the one that was read. A step is saved
only if its ``version`` (by an engine) or its ``fencing_token`` (by a worker) is the one that was read. All times are
those of the database. A transaction writes to the tables of a deletion in one order (see ``queries.lock_deletion``). A
caller whose write is refused reads again and decides again.
"""

from __future__ import annotations

from typing import Any, Self

from oslo_config import cfg

from cleanup_orchestrator.store.brake import Brakes
from cleanup_orchestrator.store.changes import Changes
from cleanup_orchestrator.store.commits import CommitListener
from cleanup_orchestrator.store.database import OPTS, Database
from cleanup_orchestrator.store.deletes import Deletes
from cleanup_orchestrator.store.deletions import Deletions, Span
from cleanup_orchestrator.store.errors import AlreadyUnderWay, Conflict, NotFound, ScanUnderWay, TooManyDeletions
from cleanup_orchestrator.store.journal import EventRow, Journal, ProjectEvent
from cleanup_orchestrator.store.leftovers import BlockedResources, LeftoverRow, Leftovers, ProjectLeftover
from cleanup_orchestrator.store.liens import Liens
from cleanup_orchestrator.store.orphans import OrphanScans
from cleanup_orchestrator.store.paging import Page
from cleanup_orchestrator.store.plans import Plans
from cleanup_orchestrator.store.protocol_services import ProtocolService, ProtocolServices, Spoken
from cleanup_orchestrator.store.rate_limits import RateLimits
from cleanup_orchestrator.store.statistics import Figures, Statistics
from cleanup_orchestrator.store.steps import Steps
from cleanup_orchestrator.store.transient import unavailable
from cleanup_orchestrator.store.waivers import Waivers

__all__ = [
    "OPTS",
    "AlreadyUnderWay",
    "BlockedResources",
    "CommitListener",
    "Conflict",
    "Database",
    "EventRow",
    "Figures",
    "LeftoverRow",
    "NotFound",
    "Page",
    "ProjectEvent",
    "ProjectLeftover",
    "ProtocolService",
    "ScanUnderWay",
    "Span",
    "Spoken",
    "Store",
    "TooManyDeletions",
    "unavailable",
]


class Store:
    """All repositories over one database, under one name for each operation.

    It has no logic. Each attribute below is the method of a repository, which documents it.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.close, self.now, self.ping = database.close, database.now, database.ping
        self.on_commit = database.listeners.add

        deletions = Deletions(database)
        self.create, self.create_all = deletions.create, deletions.create_all
        self.get, self.live, self.list, self.due = deletions.get, deletions.live, deletions.page, deletions.due
        self.load, self.shown, self.next_ones = deletions.load, deletions.shown, deletions.next_ones
        self.decide, self.propose, self.consider = deletions.decide, deletions.propose, deletions.consider

        steps = Steps(database)
        self.steps, self.steps_of, self.put_steps = steps.list, steps.by_deletion, steps.put
        self.live_places, self.step_places = steps.live_places, steps.places
        self.claim, self.renew, self.release_claim = steps.claim, steps.renew, steps.release_claim
        self.withheld, self.finish = steps.withheld, steps.finish

        leftovers = Leftovers(database)
        self.leftovers, self.blocked = leftovers.page, leftovers.blocked
        self.leftovers_of_all_projects = leftovers.of_all_projects
        self.deletes = Deletes(database).of_step

        journal = Journal(database)
        self.events, self.append_events, self.note = journal.page, journal.append, journal.note
        self.events_of_resource = journal.of_resource

        changes = Changes(database)
        self.record_intent, self.changes, self.undone = changes.record_intent, changes.list, changes.undone

        self.figures = Statistics(database).figures

        brakes = Brakes(database)
        self.brake, self.set_brake = brakes.get, brakes.set

        liens = Liens(database)
        self.add_lien, self.lien, self.liens = liens.add, liens.get, liens.page
        self.liens_in_force, self.remove_lien = liens.in_force, liens.remove

        waivers = Waivers(database)
        self.add_waiver, self.waiver, self.waivers = waivers.add, waivers.get, waivers.page
        self.waivers_in_force, self.withdraw_waiver = waivers.in_force, waivers.withdraw

        plans = Plans(database)
        self.planned, self.plan_counts = plans.planned, plans.counts

        spoken = ProtocolServices(database)
        self.protocol_services, self.save_protocol_service = spoken.list, spoken.save

        scans = OrphanScans(database)
        self.create_orphan_scan, self.orphan_scan, self.orphan_scans = scans.create, scans.get, scans.page
        self.orphan_scan_due, self.decide_orphan_scan = scans.due, scans.decide
        self.cancel_orphan_scan, self.put_scan_steps = scans.cancel, scans.put_steps
        self.note_orphans, self.see_orphans_again = scans.note_orphans, scans.see_again
        self.candidate_projects = scans.candidate_projects
        self.orphans, self.orphan_projects = scans.orphans, scans.projects

        rate_limits = RateLimits(database)
        self.acquire_permits, self.pause_calls = rate_limits.acquire, rate_limits.pause

    @classmethod
    def from_url(cls, url: str, **pool: Any) -> Self:
        """Open the store at an SQLAlchemy URL; see :meth:`Database.from_url`."""
        return cls(Database.from_url(url, **pool))

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Open the store that ``[database]`` names."""
        return cls(Database.from_conf(conf))
