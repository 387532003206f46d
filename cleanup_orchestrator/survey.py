"""The survey: which project, which services and regions, which steps. Read-only."""

from __future__ import annotations

import contextlib
import dataclasses

from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.coverage import Coverage, Entry
from cleanup_orchestrator.model import Deletion, Kind, Mode, Outcome, Reason, Status, Step, Sweep
from cleanup_orchestrator.plugins.registry import Registry
from cleanup_orchestrator.projects import Project, ProjectNotFound, Projects, Protection


@dataclasses.dataclass(frozen=True, slots=True)
class Survey:
    """What a survey found."""

    sweep: Sweep
    project: Project | None = None  #: none: Keystone does not know it
    member_ids: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    catalog: frozenset[tuple[str, str]] = frozenset()  #: (region, service) of each entry, whoever answers for it


def survey(
    deletion: Deletion, identity: Adapter, registry: Registry, coverage: Coverage, protection: Protection
) -> Survey:
    """Look at the project and the catalog.

    A project that Keystone does not know any more was deleted past us: what it had is looked for all the same.

    The never-delete list is asked here, too, and not only where requests come in: it stands above whatever asks.

    Any error of Keystone is raised: a catalog that could not be read has no steps, and no steps would look empty.
    """
    projects = Projects(identity)
    project: Project | None = None
    reason, message, members = "", "Keystone does not know the project any more", deletion.member_ids
    with contextlib.suppress(ProjectNotFound):
        project = projects.get(deletion.project_id)
    if why := protection.why(deletion.project_id, project.name if project else deletion.project_name):
        return Survey(_fatal(Reason.PROJECT_PROTECTED, why), project)
    if project is not None:
        if project.is_domain:
            return Survey(_fatal(Reason.PROJECT_IS_DOMAIN, f"{project.id} is a domain"), project)
        if children := projects.children(project.id):
            message = f"it has child projects: {', '.join(children)}"
            if not _waits_for_children(deletion):
                return Survey(_fatal(Reason.PROJECT_HAS_CHILDREN, message), project)
            reason = str(Reason.PROJECT_HAS_CHILDREN)
        if project.immutable:  # here and not after everything in it is gone
            message = f"Keystone's option 'immutable' protects {project.id}"
            return Survey(_fatal(Reason.PROJECT_IMMUTABLE, message), project)
        members = tuple(sorted({*deletion.member_ids, *projects.members(project.id)}))
    # Keystone answers us, so it is there, whether the catalog has it or not.
    steps: dict[tuple[str, ...], Step] = {}
    catalog: set[tuple[str, str]] = set()
    for answer in (*coverage.answers(identity), coverage.answer(Entry("", "identity", "keystone"))):
        service = registry.services.get(answer.service_type)
        region = answer.region if service is None or service.regional else ""
        catalog.add((region, answer.service_type))
        if answer.answered_by == "nobody":
            step = Step("", deletion.id, Kind.UNCOVERED, region, answer.service_type)
            steps[(region, answer.service_type)] = dataclasses.replace(
                step, reason=str(Reason.NO_PLUGIN), message=answer.message
            )
        elif service is not None:
            for type_ in service.types:
                steps[(region, answer.service_type, type_.name)] = Step(
                    "",
                    deletion.id,
                    Kind.SWEEP,
                    region,
                    answer.service_type,
                    type_.name,
                    after=registry.after(service, type_),
                    residue=type_.residue,
                    token=type_.token,
                )
    if project is not None and not reason:
        message = f"{len(steps)} steps over {len({(s.region, s.service) for s in steps.values()})} services"
    sweep = Sweep(Outcome.CLEAR, reason, message)
    return Survey(sweep, project, members, tuple(steps.values()), frozenset(catalog))


def _waits_for_children(deletion: Deletion) -> bool:
    """Whether projects below are no obstacle yet: they have deletions of their own, and the lock is still to come."""
    looking = deletion.status is Status.INVENTORY and (deletion.mode is Mode.REPORT or deletion.dry_run)
    return deletion.include_subtree and (deletion.status is Status.ACCEPTED or looking)


def _fatal(reason: Reason, message: str) -> Sweep:
    return Sweep(Outcome.UNKNOWN, str(reason), message)
