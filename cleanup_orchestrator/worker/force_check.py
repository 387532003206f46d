"""Checks for which resource types force would work. Changes nothing."""

from __future__ import annotations

from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.step import Step, StepKind
from cleanup_orchestrator.errors import WriteRefused, classify
from cleanup_orchestrator.plugins.base import NIL_UUID, Refused
from cleanup_orchestrator.worker.context import WorkerContext
from cleanup_orchestrator.worker.steps.context import project_definition


def forcible_types(worker: WorkerContext, deletion_id: str) -> dict[str, str]:
    """Return the types whose force may be used, each with why it would fail.

    The text is empty if force would work. Only types with leftovers in the latest listing are checked with their
    service.
    """
    options = worker.conf.force
    names = [name for name in worker.registry.forcible() if not options.types or name in options.types]
    problems = {name: "" for name in names if name not in options.never}
    deletion, steps, _now = worker.store.load(deletion_id)
    for step in steps:
        if step.kind is not StepKind.SWEEP or step.waived or not step.remaining or step.name not in problems:
            continue
        try:
            _check(worker, deletion, step)
        except Refused as refused:
            problems[step.name] = f"{step.name} in {step.region}: {refused.verdict.message}"
        except Exception as error:  # without an answer it is not known whether force would work
            problems[step.name] = f"{step.name} in {step.region}: {classify(error).message}"
    return problems


def _check(worker: WorkerContext, deletion: Deletion, step: Step) -> None:
    """Ask a service whether the force of a type would work.

    :raises Refused: it would not
    """
    project = project_definition(worker, deletion, step)
    type_ = worker.registry.find(step.service, step.type).for_missing_project(project.gone)
    if type_.force is None or type_.force.allowed is None:
        return
    if type_.token.scoped:
        session = worker.clouds.project_session(deletion.project_id, only_on_nothing)
    else:
        session = worker.clouds.admin_session(only_on_nothing)
    type_.force.allowed(worker.clouds.connection(session, step.region), project)


def only_on_nothing(method: str, url: str) -> None:
    """Refuse every write call but one on an id that does not exist.

    The answer to such a call shows whether the call is permitted.

    :raises WriteRefused: the call could change something
    """
    if NIL_UUID not in url.partition("?")[0].split("/"):
        raise WriteRefused(f"{method} {url} refused: this is a check, nothing may be written")
