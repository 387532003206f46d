"""The survey: which project, which services and regions, which steps. Read-only."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.cloud.catalog import CatalogEntryStatus, Entry, ServiceCatalog
from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound, Projects, Protection
from cleanup_orchestrator.core.deletion import Deletion, Mode, Origin, Status
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult
from cleanup_orchestrator.plugins.registry import Registry


@dataclasses.dataclass(frozen=True, slots=True)
class Survey:
    """What a survey found."""

    sweep: StepResult
    project: Project | None = None  #: none: Keystone does not know it
    member_ids: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    catalog: frozenset[tuple[str, str]] = frozenset()  #: (region, service) of each entry, whoever answers for it
    waivers: tuple[Waiver, ...] = ()  #: those that something is left out for


def survey(
    deletion: Deletion,
    identity: Adapter,
    registry: Registry,
    coverage: ServiceCatalog,
    protection: Protection,
    waivers: Iterable[Waiver] = (),
    known: Sequence[Step] = (),
    halting: bool = False,
) -> Survey:
    """Look at the project and the catalog.

    A project that Keystone does not know any more was deleted past us: what it had is looked for all the same.

    The never-delete list is asked here, too, and not only where requests come in: it stands above whatever asks.

    Any error of Keystone is raised: a catalog that could not be read has no steps, and no steps would look empty.

    :param waivers: those in force now, for this project or for all
    :param halting: whether what runs is to be stopped for the recovery window
    :param known: the deletion's steps: what an earlier survey saw may have left the catalog, and is answered for, too
    """
    waivers = tuple(waivers)
    projects = Projects(identity)
    project: Project | None = None
    reason, message, members = "", "Keystone does not know the project any more", deletion.member_ids
    with contextlib.suppress(ProjectNotFound):
        project = projects.get(deletion.project_id)
    if why := protection.why(deletion.project_id, project.name if project else deletion.project_name):
        return Survey(_fatal(Reason.PROJECT_PROTECTED, why), project)
    if deletion.origin is Origin.ADOPTED:
        if project is None and projects.knows(deletion.project_id, protection.own_project_id()):
            project = projects.get(deletion.project_id)
        if project is not None:
            return Survey(
                _fatal(Reason.PROJECT_KNOWN, f"Keystone knows project {project.id}: it is no orphan"), project
            )
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
    for answer in (*coverage.answers(identity, waivers), coverage.answer(Entry("", "identity", "keystone"))):
        service = registry.services.get(answer.service_type)
        region = answer.region if service is None or service.regional else ""
        catalog.add((region, answer.service_type))
        for step in _steps(registry, deletion.id, region, answer, halting, gone=project is None):
            key = (step.kind, step.region, step.service, step.type)
            if key not in steps or not step.waived:  # what is swept once for all regions is waived in all or in none
                steps[key] = step
    for step in _out_of_sight(coverage, waivers, known, catalog):
        steps[(step.kind, step.region, step.service, step.type)] = step
    relied_upon = {step.waived for step in steps.values()}
    if project is not None and not reason:
        looks = [step for step in steps.values() if step.kind is not StepKind.HALT]
        message = f"{len(looks)} steps over {len({(s.region, s.service) for s in looks})} services"
    if waived := sorted({f"{s.service}@{s.region}" for s in steps.values() if s.waived}):
        message += f"; waived, and not looked at: {', '.join(waived)}"
    return Survey(
        StepResult(Outcome.CLEAR, reason, message),
        project,
        members,
        tuple(steps.values()),
        frozenset(catalog),
        tuple(waiver for waiver in waivers if waiver.id in relied_upon),
    )


def _steps(
    registry: Registry, deletion_id: str, region: str, answer: CatalogEntryStatus, halting: bool, gone: bool
) -> Iterator[Step]:
    """Yield the steps for an entry of the catalog: all that there is to do, or to be left out."""
    base = ("", deletion_id)
    waived = answer.waiver.id if answer.waiver else ""
    service = registry.services.get(answer.service_type)
    said = {"reason": str(Reason.WAIVED) if waived else "", "message": answer.message if waived else ""}
    if service is not None:
        for type_ in service.types:
            yield Step(
                *base,
                StepKind.SWEEP,
                region,
                answer.service_type,
                type_.name,
                after=registry.after(service, type_),
                project_setting=type_.project_setting,
                informational=type_.informational,
                token=type_.for_missing_project(gone).token,
                waived=waived,
                **said,
            )
            if halting and type_.halt is not None and not waived:
                yield Step(*base, StepKind.HALT, region, answer.service_type, type_.name, token=type_.token)
    elif waived:
        yield Step(*base, StepKind.UNSUPPORTED, region, answer.service_type, waived=waived, **said)
    elif answer.answered_by == "nobody":
        said = {"reason": str(Reason.NO_PLUGIN), "message": answer.message}
        yield Step(*base, StepKind.UNSUPPORTED, region, answer.service_type, **said)


def _out_of_sight(
    coverage: ServiceCatalog, waivers: Sequence[Waiver], known: Iterable[Step], catalog: set[tuple[str, str]]
) -> Iterator[Step]:
    """Yield what an earlier survey saw and the catalog has no more: out of sight is not gone.

    Of what has a plugin the store keeps the steps by itself, so here are those that are waived. What had none blocks
    until it is waived, or somebody answers for it.
    """
    for step in known:
        if step.kind not in (StepKind.SWEEP, StepKind.UNSUPPORTED) or (step.region, step.service) in catalog:
            continue
        answer = coverage.answer(Entry(step.region, step.service, step.service), waivers)
        if answer.waiver is not None:
            said = {"reason": str(Reason.WAIVED), "message": answer.message}
            yield dataclasses.replace(step, waived=answer.waiver.id, **said)
        elif step.waived and step.kind is StepKind.SWEEP:
            yield dataclasses.replace(step, waived="", reason="", message="")
        elif step.kind is StepKind.UNSUPPORTED and answer.answered_by != "nothing_to_own":
            message = f"nobody answered for {step.service} when it left the catalog: what it holds is unknown"
            said = {"reason": str(Reason.NO_PLUGIN), "message": message}
            yield dataclasses.replace(step, waived="", **said)


def _waits_for_children(deletion: Deletion) -> bool:
    """Whether projects below are no obstacle yet: they have deletions of their own, and the lock is still to come."""
    looking = deletion.status is Status.INVENTORY and (deletion.mode is Mode.REPORT or deletion.dry_run)
    return deletion.include_subtree and (deletion.status is Status.ACCEPTED or looking)


def _fatal(reason: Reason, message: str) -> StepResult:
    return StepResult(Outcome.UNKNOWN, str(reason), message)
