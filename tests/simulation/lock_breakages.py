"""Deliberate defects of the lock, with a domain manager who works against the proof; see ``breakages``.

Two defences keep a domain manager from a fence: Keystone refuses his change, and the orchestrator compares the serial.
So a defect of the second one shows only where the first one is gone as well.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from cleanup_orchestrator.cloud.janitors import Users
from cleanup_orchestrator.core import approvals, lock, queue
from cleanup_orchestrator.core.deletion import Mode
from cleanup_orchestrator.drain import base as drain_base
from cleanup_orchestrator.drain import fence as drain_fence
from cleanup_orchestrator.drain.fence import Fence
from cleanup_orchestrator.engine import keystone_listener
from cleanup_orchestrator.engine.keystone_listener import Listener
from cleanup_orchestrator.keystone import guard, protocol
from cleanup_orchestrator.store import deletions
from cleanup_orchestrator.store import queue as store_queue
from tests.simulation.breakage import Breakage
from tests.simulation.plan import Deed, Plan, flooded, plan
from tests.simulation.setting import Patch
from tests.simulation.watches.access import Access


def managed(seed: int, driver: str, *deeds: str, listening: bool = False) -> Plan:
    """Return a cascade without faults, with several deeds of each of these kinds."""
    world: dict[str, Any] = {"mode": Mode.CASCADE, "dry_run": False, "services": ("network",), "regions": 1, "fill": 1}
    world |= dict.fromkeys(("tree", "lien_types", "faults"), ())
    world |= dict.fromkeys(("stop_servers", "orphans", "bound", "disabled", "inherited", "member", "janitor"), False)
    world |= {"limit": 0, "window": 0.0, "obstacle": "", "ending": "", "flood": 0}
    found = tuple(Deed(n, what, (n * 7 + seed) % 10 / 10) for n in range(1, 9) for what in deeds)
    return dataclasses.replace(plan(seed), driver=driver, listening=listening, deeds=found, **world)


def fenced(seed: int) -> Plan:
    return managed(seed, "fence", "swap")


def _disabled(seed: int) -> Plan:
    return managed(seed, "fence", "reopen")


def _anyone_sets_a_fence() -> Iterator[Patch]:
    """Let Keystone's part leave each change of a fence to the policy of Keystone."""
    real = guard.update

    def update(project: Mapping[str, Any], options: guard.Options, caller: guard.Caller) -> Any:
        return None if protocol.FENCE_OPTION in project.get("options", {}) else real(project, options, caller)

    yield guard, "update", update


def without_the_guard() -> Iterator[Patch]:
    """The same, unnoticed: what counts is what the orchestrator makes of it."""
    yield from _anyone_sets_a_fence()
    yield Access, "at_the_end", lambda _self: None


def _no_serial_is_compared() -> Iterator[Patch]:
    yield from without_the_guard()
    yield drain_fence, "_is_unchanged", lambda context, project: project.fence == context.deletion_id
    yield Fence, "removal_headers", lambda _self, _context: {}


def _the_serial_does_not_grow() -> Iterator[Patch]:
    """Let the serial grow when a fence is set, unless it is the one that was there before."""
    yield from without_the_guard()
    real = guard.next_options

    def next_options(wanted: guard.Options, now: guard.Options, caller: Any, clock: int) -> dict[str, Any]:
        stored = real(wanted, now, caller, clock)
        return {**stored, protocol.SERIAL_OPTION: now.get(protocol.SERIAL_OPTION) or 1}

    yield guard, "next_options", next_options


def _removal_looks_at_no_serial() -> Iterator[Patch]:
    yield from without_the_guard()
    yield Fence, "held_until_removed", lambda *_: True
    yield Fence, "removal_headers", lambda *_: {}


def _no_one_listens() -> Iterator[Patch]:
    """Let an engine hear of changes of a lock, and make nothing of them."""
    yield lock, "void", lambda *_: ()


def _disabled_again_counts_as_disabled() -> Iterator[Patch]:
    """Let the listener make nothing of a project that was enabled and disabled again."""
    real = Listener.changed

    def changed(self: Listener, event: str, heard: Any) -> None:
        if event != "identity.project.updated":
            real(self, event, heard)

    yield Listener, "changed", changed


def _requests_come_in_their_order() -> Iterator[Patch]:
    def turns(lines: Mapping[Any, queue.Line], places: int) -> Iterator[Any]:
        free = places - sum(line.working for line in lines.values())
        waiting = sorted((line.oldest, key) for key, line in lines.items() if line.waiting)
        everyone = (key for _, key in waiting for _ in range(lines[key].waiting))
        return itertools.islice(everyone, max(0, free))

    yield queue, "turns", turns
    yield store_queue, "turns", turns


def _a_manager_stops_admins() -> Iterator[Patch]:
    yield deletions, "requests", lambda *_: approvals.Requests()


def _the_bus_names_a_requester() -> Iterator[Patch]:
    real = keystone_listener.accepted
    yield keystone_listener, "accepted", lambda **values: dataclasses.replace(real(**values), user_id="vandal")


def _janitors_stay() -> Iterator[Patch]:
    yield Users, "remove", lambda *_: True


def _listening(seed: int) -> Plan:
    return dataclasses.replace(managed(seed, "revoke", "swap"), listening=True, settle=60.0)


def _reopened(seed: int) -> Plan:
    return dataclasses.replace(managed(seed, "none", "reopen"), listening=True, settle=5.0)


def _no_process_keeps_a_token() -> Iterator[Patch]:
    """Let the drivers take each token that was revoked for one that each process of Keystone refuses."""
    yield drain_base, "_accepted", lambda *_: False


def _apart(seed: int) -> Plan:
    return dataclasses.replace(managed(seed, "revoke"), own_caches=True, keystones=2, settle=60.0)


def _halted(seed: int) -> Plan:
    deeds = tuple(Deed(at, "halt", 0.0) for at in range(20 + seed, 120, 25))
    return dataclasses.replace(managed(seed, "fence"), deeds=deeds)


def _cancelled(seed: int) -> Plan:
    """A cascade that needs the janitor is cancelled."""
    world = {"services": ("network", "key-manager"), "janitor": True, "deeds": (Deed(100 + 10 * seed, "cancel"),)}
    return dataclasses.replace(managed(seed, ("fence", "revoke")[seed % 2]), **world)


def _vanished(seed: int) -> Plan:
    """A project whose deletion was cancelled is deleted by an admin."""
    deeds = (Deed(60, "cancel"), *(Deed(400 + n, "vanish") for n in range(5)))
    return dataclasses.replace(managed(seed, "revoke"), listening=True, deeds=deeds)


def _flooded(seed: int) -> Plan:
    return flooded(plan(seed))


BREAKAGES: dict[str, Breakage] = {
    "a domain manager may lift a fence": Breakage(_anyone_sets_a_fence, "the fence of", fenced),
    "a fence that was set again counts as the one of before": Breakage(_no_serial_is_compared, "", fenced),
    "the serial of a fence does not grow": Breakage(_the_serial_does_not_grow, "", fenced),
    "the removal does not look at the serial": Breakage(_removal_looks_at_no_serial, "", _disabled),
    "a change of the roles of a locked project is heard and ignored": Breakage(_no_one_listens, "", _listening),
    "a disabled project that was enabled meanwhile counts as disabled": Breakage(
        _disabled_again_counts_as_disabled, "", _reopened, first=555
    ),
    "a process of Keystone with its own token cache is not noticed": Breakage(
        _no_process_keeps_a_token, "since it was locked for good", _apart
    ),
    "requests begin in the order in which they come": Breakage(
        _requests_come_in_their_order, "begin before the first one of another", _flooded
    ),
    "a domain manager stops the deletion of an admin": Breakage(
        _a_manager_stops_admins, "a domain manager stops", _halted
    ),
    "the bus names who may read": Breakage(_the_bus_names_a_requester, "whom only the bus names", _vanished),
    "the janitor of a deletion stays": Breakage(
        _janitors_stay, "the janitor of the deletion is still there", _cancelled
    ),
}
