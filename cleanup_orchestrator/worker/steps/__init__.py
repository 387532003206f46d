"""The kinds of steps that workers do.

A new kind is a member of ``StepKind``, a module here, and a line in ``RUNNERS``.
"""

from __future__ import annotations

from cleanup_orchestrator.core.step import StepKind
from cleanup_orchestrator.worker.steps.access import Access
from cleanup_orchestrator.worker.steps.base import StepRunner
from cleanup_orchestrator.worker.steps.close import Close
from cleanup_orchestrator.worker.steps.drain import Drain
from cleanup_orchestrator.worker.steps.halt import Halt
from cleanup_orchestrator.worker.steps.release import Release
from cleanup_orchestrator.worker.steps.remove import Remove
from cleanup_orchestrator.worker.steps.scan import Catalog, Scan
from cleanup_orchestrator.worker.steps.survey import Survey
from cleanup_orchestrator.worker.steps.sweep import Sweep

#: What does a step of each kind. ``UNSUPPORTED`` is not here: such a step is never dispatched.
RUNNERS: dict[StepKind, type[StepRunner]] = {
    StepKind.SURVEY: Survey,
    StepKind.ACCESS: Access,
    StepKind.DRAIN: Drain,
    StepKind.SWEEP: Sweep,
    StepKind.HALT: Halt,
    StepKind.CLOSE: Close,
    StepKind.RELEASE: Release,
    StepKind.REMOVE: Remove,
    StepKind.CATALOG: Catalog,
    StepKind.SCAN: Scan,
}
