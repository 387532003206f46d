"""Replaces configuration, clocks, threads and logs while a simulation runs."""

from __future__ import annotations

import contextlib
import itertools
import types
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from cleanup_orchestrator import log as log_module
from cleanup_orchestrator import opts
from cleanup_orchestrator.api import deletion_actions as api_deletion_actions
from cleanup_orchestrator.api import deletions as api_deletions
from cleanup_orchestrator.api import force as api_force
from cleanup_orchestrator.api import orphans as api_orphans
from cleanup_orchestrator.cloud import session as clouds_module
from cleanup_orchestrator.drain import base as drain_base
from cleanup_orchestrator.drain import fence as drain_fence
from cleanup_orchestrator.drain import janitor as drain_janitor
from cleanup_orchestrator.drain.fence import Fence
from cleanup_orchestrator.drain.none import NoDrain
from cleanup_orchestrator.drain.revoke import Revoke
from cleanup_orchestrator.engine import deletions as engine_module
from cleanup_orchestrator.engine import keystone_listener
from cleanup_orchestrator.monitoring import metrics
from cleanup_orchestrator.store import orphans as orphans_module
from cleanup_orchestrator.worker import census as census_module
from cleanup_orchestrator.worker import context as context_module
from cleanup_orchestrator.worker import guard as guard_module
from cleanup_orchestrator.worker import task as task_module
from cleanup_orchestrator.worker import watchdog as hung_module
from cleanup_orchestrator.worker import worker as worker_module
from cleanup_orchestrator.worker.steps import context as steps_module
from cleanup_orchestrator.worker.steps import drain as drain_step_module
from cleanup_orchestrator.worker.steps import scan as scan_step_module
from cleanup_orchestrator.worker.steps import sweep as sweep_step_module
from cleanup_orchestrator.worker.sweep import deleting as deleting_module
from tests.simulation import database as database_module
from tests.simulation.plan import Plan
from tests.support import scheduler

#: (object, attribute, replacement).
Patch = tuple[Any, str, Any]

LEASE = 60
STALL_AFTER = 150
#: Seconds between the two reads of an orphan scan.
REREAD_AFTER = 120

_DRIVERS = {"fence": Fence, "revoke": Revoke, "none": NoDrain}


class Conf(types.SimpleNamespace):
    """Configuration as the modules read it."""

    def __getitem__(self, group: str) -> Any:
        return getattr(self, group)


def conf(plan: Plan) -> Any:
    """Return the defaults, and what the plan says."""
    mine = {
        "drain": {
            "driver": plan.driver,
            "token_cache_time": plan.settle,
            "inherited_grants": "block" if plan.block else "close",
        },
        "engine": {
            "stall_after": STALL_AFTER,
            "tick": 10.0,
            "retry_cap": 30.0,
            "deletions_at_once": plan.places or (16 if plan.seed % 3 else 1),
        },
        "worker": {"parallel_deletes": plan.parallel, "lease": LEASE},
        "deletion": {"recovery_window": plan.window / 86400, "recovery_stop_servers": plan.stop_servers},
        "approval": {"resources": plan.limit},
        "protection": {"lien_types": list(plan.lien_types)},
        "janitor": {"secret": "secret" if plan.janitor else ""},
        "catalog": {"owns_nothing": [] if "identity" in plan.services else ["identity"]},
        "orphans": {"reread_after": REREAD_AFTER},
    }
    groups = {name: {o.dest: o.default for o in options} for name, options in opts._declared().items()}
    return Conf(**{name: types.SimpleNamespace(**values | mine.get(name, {})) for name, values in groups.items()})


def _patches() -> Iterator[Patch]:
    yield from database_module.patches()
    worker_modules = (worker_module, guard_module, task_module, hung_module, deleting_module)
    for module in (*worker_modules, drain_base, drain_fence, drain_janitor, clouds_module):
        yield module, "time", scheduler.Time
    yield keystone_listener, "time", scheduler.Time
    yield hung_module, "threading", scheduler.Threading
    yield task_module, "threading", scheduler.Threading
    yield sweep_step_module, "threading", scheduler.Threading
    yield deleting_module, "concurrent", scheduler.Concurrent
    yield context_module, "RateLimiter", lambda *_: None
    yield drain_base, "PROBES", 1
    yield drain_fence, "PROBES", 1
    yield context_module.drain_drivers, "load", lambda name: _DRIVERS[name]()
    numbers = itertools.count(1)
    ids = types.SimpleNamespace(uuid4=lambda: uuid.UUID(int=next(numbers)))
    yield orphans_module, "new_id", lambda: str(ids.uuid4())
    for module in (api_deletions, api_orphans, scan_step_module, keystone_listener):
        yield module, "uuid", ids
    yield log_module, "context", lambda *_, **__: contextlib.nullcontext()
    yield log_module, "about", lambda *_: None
    quiet = types.SimpleNamespace(**{n: lambda *_: None for n in ("debug", "info", "warning", "error", "exception")})
    working = (worker_module, task_module, census_module, scan_step_module, steps_module, drain_step_module)
    api = (api_deletions, api_deletion_actions, api_force, api_orphans)
    logging = (*working, engine_module, keystone_listener, drain_base, *api)
    for module in logging:
        yield module, "LOG", quiet
    yield metrics, "step_ended", lambda *_: None


def probing(plan: Plan) -> Iterator[Patch]:
    """Let the drivers ask each process, where the processes of Keystone do not share their cache.

    Otherwise any process answers for all, and one probe is enough.
    """
    if plan.own_caches:
        yield drain_base, "concurrent", scheduler.Concurrent
        for module in (drain_base, drain_fence):
            yield module, "PROBES", plan.keystones + 1


@contextlib.contextmanager
def simulated(also: Iterable[Patch] = ()) -> Iterator[None]:
    """Replace clocks, threads and waits by the simulation.

    :param also: further replacements: a deliberate breakage
    """
    before = []
    try:
        for owner, name, value in (*_patches(), *also):
            before.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)
