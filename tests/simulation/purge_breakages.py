"""Deliberate defects of mode ``purge``; see ``breakages``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from cleanup_orchestrator.core import dependencies, verifying
from cleanup_orchestrator.core.action_plan import ActionPlan
from cleanup_orchestrator.core.actions import Move
from cleanup_orchestrator.core.deletion import Mode, Profile
from cleanup_orchestrator.core.rounds import Round
from cleanup_orchestrator.core.selection import Selection
from cleanup_orchestrator.core.snapshot import Snapshot
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.worker import guard
from cleanup_orchestrator.worker.sweep import deleting, exclusions, selecting, stopping
from tests.simulation.breakage import Breakage
from tests.simulation.plan import Deed, Plan, plan
from tests.simulation.setting import Patch


def _purge(seed: int, **values: Any) -> Plan:
    """Return a plan that purges a project, without faults and deeds."""
    wanted = dataclasses.replace(plan(seed), mode=Mode.PURGE, dry_run=False, fill=2, obstacle="", ending="")
    alone = {"tree": (), "lien_types": (), "stop_servers": False, "orphans": False, "bound": False, "limit": 0}
    calm = {"faults": (), "deeds": (), "window": 0.0, "disabled": False, "inherited": False, "driver": "revoke"}
    return dataclasses.replace(
        wanted, **{**alone, **calm, "selected": (), "skipped": (), "tagged": False, "further": (), **values}
    )


def _of_a_service(seed: int) -> Plan:
    return _purge(seed, services=("compute", "network"), selected=(("compute",), ("network",))[seed % 2])


def _untagging(seed: int) -> Plan:
    """Tags are removed while the tagged resources are being deleted."""
    deeds = tuple(Deed(at, "untag", (at * 7 + seed) % 10 / 10) for at in range(70 + seed % 5, 200, 5))
    return _purge(seed, services=("image", "key-manager"), fill=8, parallel=1, tagged=True, deeds=deeds)


def _stopping(seed: int) -> Plan:
    """Tags are removed while the tagged servers are being stopped."""
    deeds = tuple(Deed(at, "untag", (at * 7 + seed) % 10 / 10) for at in range(60 + seed % 3, 120, 3))
    world = {"services": ("compute",), "fill": 8, "stop_servers": True, "window": 600.0}
    return _purge(seed, tagged=True, deeds=deeds, **world)


def _with_snapshots(seed: int) -> Plan:
    """Volumes are selected, and their snapshots are not."""
    return _purge(seed, services=("block-storage",), selected=("block-storage.volume",))


def _broken(seed: int) -> Plan:
    """One type that is selected answers no listing."""
    return _purge(seed, obstacle="broken")


def _selection_is_forgotten() -> Iterator[Patch]:
    yield exclusions, "unselected_by", lambda _context: lambda _resource: None


def _skip_is_forgotten() -> Iterator[Patch]:
    has_type = Selection.has_type
    yield Selection, "has_type", lambda self, *name: has_type(dataclasses.replace(self, skip=()), *name)
    yield Selection, "skips", lambda *_: False


def _exclusions_are_forgotten() -> Iterator[Patch]:
    yield selecting, "_barred", lambda *_: None


def _tags_are_not_read_again() -> Iterator[Patch]:
    yield deleting, "changed", lambda *_: None


def _tags_are_not_read_again_before_a_stop() -> Iterator[Patch]:
    yield stopping, "changed", lambda *_: None


def _leftovers_that_stay_satisfy_an_edge() -> Iterator[Patch]:
    gone, staying = dependencies.confirmed_gone, dependencies.only_staying
    yield dependencies, "_satisfies", lambda step, round_, _kept: gone(step, round_) or staying(step, round_)


def _removes_the_project() -> Iterator[Patch]:
    """Let neither the engine nor the holds nor the worker's own check know that the project is kept."""
    yield Profile, "keeps_project", property(lambda _profile: False)
    yield guard, "never_writes", lambda *_: ""


def _one_inventory_is_enough() -> Iterator[Patch]:
    yield verifying, "_needed", lambda _deletion, _rules: 1


def _no_settling() -> Iterator[Patch]:
    yield Snapshot, "settle_until", None


def _ends_without_release() -> Iterator[Patch]:
    yield ActionPlan, "end", lambda _self, to, reason, message="": (Move(to, reason, message),)


def _says_nothing_of_the_lock() -> Iterator[Patch]:
    yield verifying, "_purged", lambda _view: "what was selected is gone"


def _unknown_is_empty() -> Iterator[Patch]:
    found = lambda round_: not (round_.view.unplanned or round_.results(Outcome.LEFTOVERS))  # noqa: E731
    yield Round, "found_nothing", property(found)


BREAKAGES: dict[str, Breakage] = {
    "a listing ignores the selection": Breakage(_selection_is_forgotten, "it is not selected", _of_a_service),
    "a listing ignores what is skipped": Breakage(
        _skip_is_forgotten,
        "it is not selected",
        lambda seed: _purge(
            seed, services=("compute", "network"), skipped=(("compute.server",), ("network",))[seed % 2]
        ),
    ),
    "a listing ignores what is excluded": Breakage(
        _exclusions_are_forgotten,
        "it is not selected",
        lambda seed: _purge(
            seed, services=("image",), fill=8, further=(("not_tags", "not_names", "updated_before")[seed % 3],)
        ),
    ),
    "a tag that was removed since the listing is not noticed": Breakage(
        _tags_are_not_read_again, "it is not selected", _untagging
    ),
    "a server whose tag was removed since the listing is stopped": Breakage(
        _tags_are_not_read_again_before_a_stop, "it is not selected", _stopping
    ),
    "what unselected resources may need is deleted": Breakage(
        _leftovers_that_stay_satisfy_an_edge, "needs it, and stays", _with_snapshots
    ),
    "a project that is kept is removed": Breakage(_removes_the_project, "the deletion keeps the project", _purge),
    "a project is purged after one inventory": Breakage(
        _one_inventory_is_enough, "purged after 1 empty inventories", _purge
    ),
    "a project is purged without a wait for token caches": Breakage(_no_settling, "behind the lock", _purge),
    "a project is purged and stays locked": Breakage(_ends_without_release, "as they were", _purge),
    "a project is purged without a lock, and that is not said": Breakage(
        _says_nothing_of_the_lock, "does not say so", lambda seed: _purge(seed, inherited=True)
    ),
    "a selected type that cannot be listed counts as empty": Breakage(
        _unknown_is_empty, "without an empty list", _broken
    ),
}
