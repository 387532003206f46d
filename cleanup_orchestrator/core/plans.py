"""The plan of a dry run: what would be deleted, the order, and a hash. Pure.

The record of a dry run that ended in ``planned`` is the plan. Its leftovers are what the dry run found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from graphlib import TopologicalSorter

from cleanup_orchestrator.core.blockers import remedy_of
from cleanup_orchestrator.core.deletion import Deletion, Status
from cleanup_orchestrator.core.dependencies import EVERYTHING
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepState, StepView
from cleanup_orchestrator.core.texts import enumerated


def digest(ids: Iterable[str]) -> str:
    """Return the SHA-256 of sorted ids, each as a JSON string on a separate line."""
    sha256 = hashlib.sha256()
    for each in sorted(ids):
        sha256.update(json.dumps(each).encode() + b"\n")
    return sha256.hexdigest()


#: The digest of no ids: there is nothing to delete.
EMPTY_DIGEST = digest(())


def hash_of(steps: Iterable[Step]) -> str:
    """Return a hash of what would be deleted.

    It is the SHA-256 over ``[region, service, type, digest]`` of each type. Types without resources are left out. Each
    entry is JSON without spaces on a separate line, and the lines are sorted. The hash does not depend on a database,
    nor on the order in which services list.
    """
    rows = [[s.region, s.service, s.type, s.digest] for s in _sweeps(steps) if s.digest not in ("", EMPTY_DIGEST)]
    lines = sorted(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def is_plan(deletion: Deletion) -> bool:
    """Whether a deletion is a plan: a dry run that has ended, of a mode that deletes resources."""
    return deletion.profile.plans and deletion.status is Status.PLANNED


def gaps(deletion: Deletion, steps: Iterable[StepView]) -> tuple[str, ...]:
    """Return the names of types not listed, and of unsupported services, in a plan."""
    return tuple(f"{step.name.rstrip('.')}@{step.region}" for step in unseen(deletion, steps))


def unseen(deletion: Deletion, steps: Iterable[StepView]) -> tuple[StepView, ...]:
    """Return the steps of types not listed, and of unsupported services, in a plan."""
    unlisted = []
    for step in steps:
        if step.waived or step.project_setting or step.kind not in (StepKind.SWEEP, StepKind.UNSUPPORTED):
            continue
        if not deletion.selection.has_type(step.service, step.type):
            continue
        seen = step.round >= deletion.since_round and step.state is StepState.DONE and step.digest
        if not seen or step.outcome not in (Outcome.CLEAR, Outcome.LEFTOVERS):
            unlisted.append(step)
    return tuple(sorted(unlisted, key=lambda step: (step.name, step.region)))


#: Types that a message about an incomplete plan names at most.
_NAMED = 20


def incomplete(deletion: Deletion, steps: Iterable[Step]) -> str:
    """Say what a dry run could not see, why, and what to do about it; empty: it saw everything."""
    missing = unseen(deletion, steps)
    if not missing:
        return ""
    names = [f"{step.name.rstrip('.')}@{step.region} ({_why(step)})" for step in missing]
    remedies = {_why(step): _remedy(deletion, step) for step in missing}
    cure = "; ".join(f"{why}: {what}" for why, what in sorted(remedies.items()))
    return f"it could not see {enumerated(names, _NAMED)}. {cure}"


def _why(step: StepView) -> str:
    return "list too long" if _is_truncated(step) else step.reason or "not listed"


def _remedy(deletion: Deletion, step: StepView) -> str:
    return "an operator raises [worker] most_listed" if _is_truncated(step) else remedy_of(deletion, step)


def _is_truncated(step: StepView) -> bool:
    """Whether the type was listed, but not to the end of the list."""
    return step.state is StepState.DONE and step.outcome is Outcome.LEFTOVERS and not step.digest


def levels(steps: Sequence[Step]) -> tuple[tuple[str, ...], ...]:
    """Return the types with resources to delete, level by level.

    The types of a level are deleted at the same time. Regions do not wait for each other, so a name stands for its type
    in every region.
    """
    sweeps = _sweeps(steps)
    after: dict[str, set[str]] = {}
    for step in sweeps:
        after.setdefault(step.name, set()).update(step.after)
    ordinary = {name for name, edges in after.items() if EVERYTHING not in edges}
    graph = {
        name: ((edges & set(after)) | (ordinary if EVERYTHING in edges else set())) - {name, EVERYTHING}
        for name, edges in after.items()
    }
    wanted = {step.name for step in sweeps if step.digest not in ("", EMPTY_DIGEST)}
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    by_level = []
    while sorter.is_active():
        ready = sorter.get_ready()
        sorter.done(*ready)
        by_level.append(tuple(sorted(wanted.intersection(ready))))
    return tuple(level for level in by_level if level)


def _sweeps(steps: Iterable[Step]) -> list[Step]:
    return [s for s in steps if s.kind is StepKind.SWEEP and not s.project_setting and not s.waived]
