"""Reads the project and the catalog, and makes the steps of the deletion.

Nothing is written to the cloud.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from keystoneauth1.adapter import Adapter
from oslo_log import log

from cleanup_orchestrator.cloud.catalog import AnsweredBy, CatalogEntryStatus, Entry, ServiceCatalog
from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound, Projects, Protection
from cleanup_orchestrator.core.deletion import Deletion, Status
from cleanup_orchestrator.core.findings import (
    Finding,
    ProjectReopened,
    ProjectReturned,
    ProjectSeen,
    Surveyed,
)
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.journal import EventType
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult, Token
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import ScopeDisabled, Stopped
from cleanup_orchestrator.plugins.base import ResourceType, Service
from cleanup_orchestrator.plugins.registry import Registry
from cleanup_orchestrator.worker.steps.context import DeletionRunner, StepContext, project_definition
from cleanup_orchestrator.worker.sweep.calls import is_available

LOG = log.getLogger(__name__)


class Survey(DeletionRunner):
    """Surveys the project and the catalog, and stores the steps that follow from them."""

    def __init__(self, context: StepContext) -> None:
        super().__init__(context)
        self._silent: set[tuple[str, str]] = set()  #: (region, service) that did not say what it lacks

    def run(self) -> StepResult:
        """Survey, store the steps, and return what was learned about the project."""
        context, worker, deletion = self.context, self.worker, self.deletion
        protocol = worker.protocol.with_clouds(context.clouds)
        service_catalog = worker.catalog.with_protocol(protocol)
        surveyed = survey(
            deletion,
            context.clouds.identity(context.admin()),
            Sources(worker.registry, service_catalog, worker.protection, self._lacks, protocol.registry),
            context.store.waivers_in_force(deletion.project_id),
            context.store.steps(deletion.id),
            context.stops_resources,
        )
        if not surveyed.steps:
            return surveyed.result
        if not context.store.put_steps(self.step, surveyed.steps, surveyed.catalog):
            raise Stopped("the survey is no longer held by this worker")
        self._note(surveyed.waivers)
        learned: list[Finding] = [Surveyed(surveyed.waivers)]
        message = surveyed.result.message
        if surveyed.project is None:
            learned += context.gone_facts()
            return dataclasses.replace(surveyed.result, learned=tuple(learned))
        learned.append(ProjectSeen(surveyed.project.name, surveyed.project.domain_id, surveyed.member_ids))
        if deletion.project_gone_at is not None:
            message = "Keystone knows the project again: what was concluded without it is void"
            learned.append(ProjectReturned())
        else:
            context.note_undone_by_users(surveyed.project)
            if self.janitor_lent():
                message = (
                    "services got the token of the janitor: it ends, and the project is locked and proven empty again"
                )
                learned.append(ProjectReopened())
            elif self.reopened(surveyed.project):
                message = context.lock_changed(surveyed.project)
                learned.append(ProjectReopened())
        return dataclasses.replace(surveyed.result, message=message, learned=tuple(learned))

    def _lacks(self, service: Service, type_: ResourceType, region: str) -> bool:
        """Whether a service says that it lacks a type. After an error the service is not asked again in this survey."""
        asked = type_.token in (Token.ADMIN, Token.MEMBER) and (region, service.service_type) not in self._silent
        if type_.available is None or not asked:
            return False
        step = dataclasses.replace(self.step, region=region, service=service.service_type)
        try:
            connection = self.context.clouds.connection(self.context.admin(), region)
            return not is_available(type_, connection, project_definition(self.worker, self.deletion, step))
        except Exception as error:
            LOG.debug("%s in %s does not say whether it has %s: %s", service.service_type, region, type_.name, error)
            self._silent.add((region, service.service_type))
            return False

    def _note(self, waivers: Sequence[Waiver]) -> None:
        """Note which waivers the deletion starts and stops to rely on."""
        before = {w.id: w for w in self.deletion.waivers}
        after = {w.id: w for w in waivers}
        for waiver in (w for w in waivers if w.id not in before):
            text = f"skips what a waiver covers: {waiver}"
            self.context.note(EventType.WAIVER_RELIED_UPON, text, waiver.to_dict())
        for waiver in (w for w in before.values() if w.id not in after):
            self.context.note(EventType.WAIVER_ENDED, f"no longer relied upon: {waiver}", {"id": waiver.id})

    def janitor_lent(self) -> bool:
        """Whether the holder of a token of the janitor could still create resources that a verification misses."""
        d = self.deletion
        if d.status is not Status.VERIFYING or d.drained_at is None or d.closed_at is not None:
            return False
        return any(change.type == drain.JANITOR_LENT for change in self.context.store.changes(d.id))

    def reopened(self, project: Project) -> bool:
        """Whether the lock on record no longer holds.

        If so, no inventory that rests on the lock counts.
        """
        if self.deletion.closed_at is not None:
            return project.enabled
        if self.deletion.drained_at is None:
            return False
        context, driver = self.context.drain_context(), self.worker.driver
        try:
            return driver.replaced(context, project) or not driver.held(context)
        except ScopeDisabled:  # what cannot be seen to hold does not count; the drain names what is disabled
            return True


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """What a survey asks, besides Keystone."""

    registry: Registry
    service_catalog: ServiceCatalog
    protection: Protection
    #: Whether a service in a region says that it lacks a type. ``False``: it has the type, or does not answer.
    lacks: Callable[[Service, ResourceType, str], bool] = lambda *_: False
    #: Returns the registry with the types of a service in a region; ``None``: all services have plugins.
    registry_of: Callable[[str, str], Registry] | None = None

    def registry_for(self, answer: CatalogEntryStatus) -> Registry:
        """Return the registry with the types of a catalog entry."""
        known = answer.answered_by in (AnsweredBy.PROTOCOL, AnsweredBy.WAIVED)
        known = known or (answer.protocol is not None and answer.protocol.spoke)
        if self.registry_of is None or not known:
            return self.registry
        return self.registry_of(answer.region, answer.service_type)


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What a survey found."""

    result: StepResult
    project: Project | None = None  #: none: Keystone does not know it
    member_ids: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    catalog: frozenset[tuple[str, str]] = frozenset()  #: (region, service) of each entry, whichever plugin covers it
    waivers: tuple[Waiver, ...] = ()  #: those that the survey relies on


@dataclasses.dataclass(frozen=True, slots=True)
class _Project:
    """What Keystone says of the project."""

    project: Project | None = None
    member_ids: tuple[str, ...] = ()
    reason: str = ""
    message: str = "Keystone no longer knows the project"
    refused: StepResult | None = None  #: why it must not be deleted


def survey(
    deletion: Deletion,
    identity: Adapter,
    sources: Sources,
    waivers: Iterable[Waiver] = (),
    known: Sequence[Step] = (),
    halting: bool = False,
) -> Found:
    """Read the project and the catalog, and return the steps that follow from them.

    A project that Keystone does not know was deleted without the orchestrator: its resources are listed all the same.
    The never-delete list is checked here, too, and not only by the API: it applies to every origin of a deletion. Every
    error of Keystone is raised: a catalog that was not read has no steps, and no steps would count as empty.

    There is no step for a type that its service lacks: a Neutron without plug-ins lacks half of its types, and each of
    their steps in each round would only find that out again. These steps rely on an answer that is up to 30 seconds old
    (Neutron's extensions, version documents) or on the configuration. So do the surveys, and each verification begins
    with one. A type that was there in an earlier survey of the deletion keeps its step.

    :param waivers: those in force now, for this project or for all
    :param known: the deletion's steps: a service may have left the catalog since an earlier survey
    :param halting: whether running resources are stopped for the recovery window
    """
    waivers = tuple(waivers)
    service_catalog = sources.service_catalog
    read = _read(deletion, Projects(identity), sources.protection)
    if read.refused is not None:
        return Found(read.refused, read.project)
    project, message = read.project, read.message
    # Keystone answers, so it exists, whether the catalog has it or not.
    steps: dict[tuple[str, ...], Step] = {}
    before = {_key(step) for step in known}
    catalog: set[tuple[str, str]] = set()
    speaking: set[tuple[str, str]] = set()
    kept = deletion.profile.keeps_project
    for answer in (
        *service_catalog.statuses(identity, waivers),
        service_catalog.status(Entry("", "identity", "keystone")),
    ):
        registry = sources.registry_for(answer)
        service = registry.services.get(answer.service_type)
        region = answer.region if service is None or service.regional else ""
        catalog.add((region, answer.service_type))
        if answer.answered_by is AnsweredBy.PROTOCOL:
            speaking.add((region, answer.service_type))
        for step in _steps(
            registry, Step("", deletion.id, StepKind.SWEEP, region), answer, halting, project is None, kept
        ):
            key = _key(step)
            new = not step.waived and key not in before
            if new and step.kind is not StepKind.UNSUPPORTED and answer.answered_by is AnsweredBy.UNSUPPORTED:
                continue  # a service that stopped to speak the protocol: only what an earlier survey found is known
            if service and new and step.type and sources.lacks(service, registry.find(step.service, step.type), region):
                continue
            if key not in steps or not step.waived:  # a type without regions is waived in all regions or in none
                steps[key] = step
    for step in _out_of_sight(service_catalog, waivers, known, catalog):
        steps[_key(step)] = step
    for step in _undeclared(deletion, known, speaking, frozenset(steps)):
        steps[_key(step)] = step
    relied_upon = {step.waived for step in steps.values()}
    if project is not None and not read.reason:
        listed = [step for step in steps.values() if step.kind is not StepKind.HALT]
        message = f"{len(listed)} steps over {len({(s.region, s.service) for s in listed})} services"
    if waived := sorted({f"{s.service}@{s.region}" for s in steps.values() if s.waived}):
        message += f"; waived, and not listed: {', '.join(waived)}"
    return Found(
        StepResult(Outcome.CLEAR, read.reason, message),
        project,
        read.member_ids,
        tuple(steps.values()),
        frozenset(catalog),
        tuple(waiver for waiver in waivers if waiver.id in relied_upon),
    )


#: Entries whose resources are listed: without types, what they hold is unknown.
_LISTED = (AnsweredBy.PLUGIN, AnsweredBy.PROTOCOL)


def _key(step: Step) -> tuple[str, ...]:
    return step.kind, step.region, step.service, step.type


def _read(deletion: Deletion, projects: Projects, protection: Protection) -> _Project:
    """Read the project, and check whether it may be deleted."""
    project: Project | None = None
    with contextlib.suppress(ProjectNotFound):
        project = projects.get(deletion.project_id)
    if why := protection.why(deletion.project_id, project.name if project else deletion.project_name):
        if project is not None and protection.why(project.id, deletion.project_name) is None:
            return _refused(project, Reason.PROJECT_RENAMED, f"it was renamed to {project.name}, and {why}")
        return _refused(project, Reason.PROJECT_PROTECTED, why)
    if deletion.profile.adopted:
        if project is None and projects.knows(deletion.project_id, protection.own_project_id()):
            project = projects.get(deletion.project_id)
        if project is not None:
            return _refused(project, Reason.PROJECT_KNOWN, f"Keystone knows project {project.id}: it is no orphan")
    if project is None:
        return _Project(member_ids=deletion.member_ids)
    if project.is_domain:
        return _refused(project, Reason.PROJECT_IS_DOMAIN, f"{project.id} is a domain")
    reason, message = "", ""
    if not deletion.profile.keeps_project and (children := projects.children(project.id)):
        message = f"it has child projects: {', '.join(children)}"
        if not _waits_for_children(deletion):
            return _refused(project, Reason.PROJECT_HAS_CHILDREN, message)
        reason = str(Reason.PROJECT_HAS_CHILDREN)
    if project.immutable:  # checked now, and not after every resource is deleted
        return _refused(project, Reason.PROJECT_IMMUTABLE, f"Keystone's option 'immutable' protects {project.id}")
    members = tuple(sorted({*deletion.member_ids, *projects.members(project.id)}))
    return _Project(project, members, reason, message)


def _refused(project: Project | None, reason: Reason, message: str) -> _Project:
    return _Project(project, refused=StepResult(Outcome.UNKNOWN, str(reason), message))


def _steps(
    registry: Registry, base: Step, answer: CatalogEntryStatus, halting: bool, gone: bool, kept: bool
) -> Iterator[Step]:
    """Yield the steps for an entry of the catalog, also those that a waiver skips.

    A service that spoke the protocol and no longer does has its types, too: those that an earlier survey found stay,
    because what they hold is not gone. One that does not answer now has its types, and a step that blocks.

    :param base: a step in the entry's region
    :param gone: whether Keystone does not know the project
    :param kept: whether the deletion keeps the project
    """
    waived = answer.waiver.id if answer.waiver else ""
    service = registry.services.get(answer.service_type)
    reason, message = (str(Reason.WAIVED), answer.message) if waived else ("", "")
    base = dataclasses.replace(base, service=answer.service_type, waived=waived, reason=reason, message=message)
    if service is not None:
        for type_ in service.types:
            yield dataclasses.replace(
                base,
                type=type_.name,
                after=registry.after(service, type_, kept),
                needed_by=tuple(registry.needed_by(service, type_, kept)),
                project_setting=type_.project_setting,
                informational=type_.informational,
                token=type_.for_missing_project(gone).token,
            )
            if halting and type_.halt is not None and not waived:
                yield dataclasses.replace(base, kind=StepKind.HALT, type=type_.name, token=type_.token)
    elif waived:
        yield dataclasses.replace(base, kind=StepKind.UNSUPPORTED)
    if answer.answered_by is AnsweredBy.PROTOCOL and answer.message and service is not None:
        # Its types are those of an earlier answer. It may have another type by now, so that empty lists prove nothing.
        yield dataclasses.replace(
            base, kind=StepKind.UNSUPPORTED, reason=str(Reason.UNREACHABLE), message=answer.message
        )
    if answer.answered_by is AnsweredBy.UNSUPPORTED or (service is None and answer.answered_by in _LISTED):
        reason, message = str(Reason.NO_PLUGIN), answer.message or f"nothing lists {answer.service_type}"
        yield dataclasses.replace(base, kind=StepKind.UNSUPPORTED, reason=reason, message=message)


def _out_of_sight(
    service_catalog: ServiceCatalog, waivers: Sequence[Waiver], known: Iterable[Step], catalog: set[tuple[str, str]]
) -> Iterator[Step]:
    """Yield steps of services that left the catalog: what they hold is not gone.

    The store keeps the steps of services with a plugin, so that only those with a waiver are here. A service without a
    plugin blocks until a waiver or a plugin covers it.
    """
    for step in known:
        if step.kind not in (StepKind.SWEEP, StepKind.UNSUPPORTED) or (step.region, step.service) in catalog:
            continue
        answer = service_catalog.status(Entry(step.region, step.service, step.service), waivers)
        if answer.waiver is not None:
            reason = str(Reason.WAIVED)
            yield dataclasses.replace(step, waived=answer.waiver.id, reason=reason, message=answer.message)
        elif step.waived and step.kind is StepKind.SWEEP:
            yield dataclasses.replace(step, waived="", reason="", message="")
        elif step.kind is StepKind.UNSUPPORTED and answer.answered_by is not AnsweredBy.NOTHING_TO_OWN:
            message = f"no plugin covered {step.service} when it left the catalog: what it holds is unknown"
            yield dataclasses.replace(step, waived="", reason=str(Reason.NO_PLUGIN), message=message)


#: Steps of types that a service no longer declares, at most: as many as a document may have types.
_UNDECLARED = 100


def _undeclared(
    deletion: Deletion, known: Iterable[Step], speaking: set[tuple[str, str]], declared: Container[tuple[str, ...]]
) -> Iterator[Step]:
    """Yield steps of types that a service declared over the protocol before, and may not declare now.

    During an upgrade, processes of two releases of the service may answer in turn. So a type whose list in this attempt
    was not empty is not forgotten: its step stays, and is unknown. A new attempt begins with the types declared then.
    A service that declares other types each time it is asked has a limited number of such steps, which block as well.

    :param speaking: region and type of each service that speaks the protocol
    :param declared: the keys of the steps that the present types have
    """
    count: collections.Counter[tuple[str, str]] = collections.Counter()
    for step in known:
        place = (step.region, step.service)
        listed = step.round >= deletion.since_round and step.outcome in (Outcome.LEFTOVERS, Outcome.UNKNOWN)
        if step.kind is StepKind.SWEEP and listed and place in speaking and _key(step) not in declared:
            count[place] += 1
            if count[place] <= _UNDECLARED:
                yield step


def _waits_for_children(deletion: Deletion) -> bool:
    """Whether child projects do not prevent the deletion.

    They have deletions of their own, and this project is not locked yet.
    """
    first = deletion.status is Status.INVENTORY and (deletion.profile.only_reports or deletion.dry_run)
    return deletion.include_subtree and (deletion.status is Status.ACCEPTED or first)
